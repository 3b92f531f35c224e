//! Scripts and what happens, in words.

use std::fmt;

use tooloop_kernel::Entry;
use tooloop_model::{BlockStart, Content, ContentBlock, Message, StreamEvent};

use crate::script::{Act, After, Block, End, Fault, IdKind, InputKind, Loss, Reply, Script, What};

impl fmt::Display for Script {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{:?}", self.knobs)?;
        for act in &self.acts {
            writeln!(formatter, "{}", when(act))?;
        }
        for (place, reply_plan) in self.replies.iter().enumerate() {
            writeln!(
                formatter,
                "request {}: the model will {}",
                place + 1,
                reply(reply_plan)
            )?;
        }
        for (place, plan) in self.calls.iter().enumerate() {
            writeln!(formatter, "plan {place}: {plan:?}")?;
        }
        for (place, answer) in self.answers.iter().enumerate() {
            let (what, wait) = (answer.what, answer.wait);
            writeln!(
                formatter,
                "question {}: {what:?} after {wait} ms",
                place + 1
            )?;
        }
        for (place, stop) in self.stops.iter().enumerate() {
            let (what, wait) = (stop.what, stop.wait);
            writeln!(
                formatter,
                "end {}: the hook says {what:?} after {wait} ms",
                place + 1
            )?;
        }
        for (place, advice) in self.advice.iter().enumerate() {
            let (what, wait) = (advice.what, advice.wait);
            writeln!(
                formatter,
                "call {} that a hook is told of: {what:?} after {wait} ms",
                place + 1
            )?;
        }
        for (place, summary) in self.summaries.iter().enumerate() {
            let (what, wait) = (summary.what, summary.wait);
            writeln!(
                formatter,
                "summary {} that a hook is told of: {what:?} after {wait} ms",
                place + 1
            )?;
        }
        for fault in &self.disk {
            writeln!(
                formatter,
                "disk: {:?} after {} that go well",
                fault.what, fault.skip
            )?;
        }
        for death in &self.deaths {
            let (moment, nth) = (death.moment, death.nth);
            writeln!(
                formatter,
                "death at {moment:?} number {nth}: {}",
                loss(death.loss)
            )?;
        }
        Ok(())
    }
}

impl Script {
    /// How many things are in it that are not as dull as can be.
    #[must_use]
    pub fn len(&self) -> usize {
        let blocks: usize = self.replies.iter().map(|reply| reply.blocks.len()).sum();
        self.acts.len()
            + self.replies.len()
            + blocks
            + self.answers.len()
            + self.stops.len()
            + self.advice.len()
            + self.summaries.len()
            + self.disk.len()
            + self.deaths.len()
    }

    /// Whether nothing happens in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn when(act: &Act) -> String {
    match act.after {
        After::Idle => format!("when all is quiet the user {}", what(act.what)),
        After::Millis(millis) => format!("{millis} ms later the user {}", what(act.what)),
    }
}

pub(crate) fn what(what: What) -> String {
    match what {
        What::Prompt => "prompts".into(),
        What::Blank => "prompts with nothing".into(),
        What::Steer => "steers".into(),
        What::FollowUp => "says something for later".into(),
        What::Interrupt => "interrupts".into(),
        What::Desert => "waits no longer for the report".into(),
        What::Wake => "has notices told".into(),
        What::Model => "takes another model".into(),
        What::Look => "looks".into(),
        What::Compact => "has the conversation summed up".into(),
        What::Rewind(turn) => format!("goes back to before turn {turn}"),
        What::Close => "closes the session".into(),
        What::Leave => "drops the session".into(),
        What::Die(death) => format!("sees the end: {}", loss(death)),
    }
}

fn loss(loss: Loss) -> String {
    match loss {
        Loss::Process(percent) => {
            format!("the process dies, {percent} % of what is being written is written")
        }
        Loss::Power(percent) => {
            format!("the power fails, {percent} % of what is not durable is left")
        }
    }
}

pub(crate) fn reply(reply: &Reply) -> String {
    let mut words = String::new();
    if reply.wait > 0 {
        words.push_str(&format!("wait {} ms, ", reply.wait));
    }
    let blocks: Vec<_> = reply.blocks.iter().map(|one| block(*one)).collect();
    match &reply.end {
        End::Refused(fault) => return format!("{words}{}", error(fault)),
        _ if blocks.is_empty() => words.push_str("say nothing"),
        _ => words.push_str(&blocks.join(", ")),
    }
    if reply.gap > 0 {
        words.push_str(&format!(", with {} ms between pieces", reply.gap));
    }
    if let Some(extra) = reply.usage {
        words.push_str(&format!(", telling what was used, {extra} tokens unseen"));
    }
    if let Some(cut) = reply.cut {
        words.push_str(&format!(", but after {cut} pieces"));
    }
    let end = match &reply.end {
        End::Stop(reason) => format!("stop with {reason:?}"),
        End::StopAndMore => "stop and say more".into(),
        End::Cut => "be cut off".into(),
        End::Silence => "fall silent".into(),
        End::Fault(fault) | End::Refused(fault) => error(fault),
        End::Nonsense => "make no sense".into(),
    };
    format!("{words}, {end}")
}

fn error(fault: &Fault) -> String {
    let asked = fault.retry_after;
    let wait = asked.map_or_else(String::new, |millis| format!(", asking for {millis} ms"));
    format!("fail with {:?}{wait}", fault.kind)
}

fn block(block: Block) -> String {
    match block {
        Block::Text => "say something".into(),
        Block::Answer => "say an answer".into(),
        Block::Blank => "say white space".into(),
        Block::Thinking => "think".into(),
        Block::Vendor => "send a vendor's block".into(),
        Block::Call {
            tool,
            plan,
            id,
            input,
        } => {
            let id = match id {
                IdKind::Fresh => "",
                IdKind::Same => " with an old id",
                IdKind::Empty => " without an id",
                IdKind::Odd => " with an odd id",
            };
            let input = match input {
                InputKind::Good => "",
                InputKind::Broken => " with broken input",
                InputKind::Misfit => " with input that does not fit",
            };
            format!("call {tool:?} (plan {plan}){id}{input}")
        }
    }
}

pub(crate) fn event(event: &StreamEvent) -> String {
    match event {
        StreamEvent::MessageStart { .. } => "the reply begins".into(),
        StreamEvent::BlockStart { index, block } => match block {
            BlockStart::ToolUse { id, name } => format!("block {index}: a call of {name} {id:?}"),
            BlockStart::Text => format!("block {index}: text"),
            BlockStart::Thinking => format!("block {index}: thinking"),
            BlockStart::RedactedThinking(_) | BlockStart::Vendor(_) => {
                format!("block {index}: a vendor's")
            }
        },
        StreamEvent::TextDelta { index, text } | StreamEvent::ThinkingDelta { index, text } => {
            format!("block {index}: + {text:?}")
        }
        StreamEvent::InputDelta { index, json } => format!("block {index}: + {json}"),
        StreamEvent::VendorDelta { index, .. } => format!("block {index}: + a vendor's"),
        StreamEvent::BlockStop { index } => format!("block {index} ends"),
        StreamEvent::Usage(usage) => {
            format!("used: {} + {}", usage.input_tokens, usage.output_tokens)
        }
        StreamEvent::MessageStop { stop_reason } => format!("the reply ends: {stop_reason:?}"),
    }
}

pub(crate) fn entry(entry: &Entry) -> String {
    match entry {
        Entry::Message(message) => match message.message() {
            Message::User(content) => format!("user: {}", contents(content)),
            Message::Assistant(reply) => {
                let blocks: Vec<_> = reply.content.iter().map(piece).collect();
                format!("model: {} ({:?})", blocks.join(", "), reply.stop_reason)
            }
            Message::ToolResults(results) => format!("{} results", results.len()),
        },
        Entry::CallStarted { tool_use_id } => format!("{tool_use_id} is about to run"),
        Entry::CallRewritten { tool_use_id, input } => {
            format!("{tool_use_id} is to run with {}", input.get())
        }
        Entry::CallFinished(result) => {
            let failed = if result.is_error { "error: " } else { "" };
            format!(
                "{}: {failed}{}",
                result.tool_use_id,
                contents(&result.content)
            )
        }
        Entry::Shortened { results, .. } => format!("{} results are cut short", results.len()),
        Entry::Compacted {
            cut,
            trigger,
            before,
            after,
            ..
        } => format!(
            "{cut} messages are summed up ({}), {before} tokens become {after}",
            trigger.name()
        ),
        Entry::Permission {
            tool_use_id,
            permission,
        } => format!("{tool_use_id}: {permission:?}"),
        Entry::Retry {
            attempt,
            error,
            wait_ms,
            ..
        } => format!(
            "failure {attempt} ({:?}), again in {wait_ms} ms",
            error.kind
        ),
        Entry::Discarded { usage } => format!("discarded: {usage:?}"),
        Entry::Spent { tokens, cost } => format!("spent: {tokens} tokens, {cost:?}"),
        Entry::Rewound { turn } => format!("back to before turn {turn}"),
        Entry::Continue(reason) => format!("goes on: {reason:?}"),
        Entry::TurnEnd(end) => format!("the turn ends: {end:?}"),
    }
}

fn piece(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text { text, .. } => format!("{text:?}"),
        ContentBlock::Thinking { .. } | ContentBlock::RedactedThinking(_) => "thinking".into(),
        ContentBlock::ToolUse(tool_use) => {
            format!(
                "{} {} {}",
                tool_use.name,
                tool_use.id,
                tool_use.input.json()
            )
        }
        ContentBlock::Vendor(_) => "a vendor's block".into(),
    }
}

fn contents(content: &[Content]) -> String {
    let texts = content.iter().map(|part| match part {
        Content::Text(text) => text.chars().take(80).collect(),
        Content::Image(_) => "a picture".to_owned(),
        Content::Document(_) => "a document".to_owned(),
    });
    let texts: Vec<_> = texts.collect();
    format!("{:?}", texts.join(" | "))
}
