//! What the provider bills, and whether that stays below the ceilings.
//!
//! The world has a tokenizer of its own: whatever the harness reckons with must not be less.

use tooloop_model::{
    BlockStart, Content, ContentBlock, HistoryMessage, Message, Price, Request, StreamEvent, Usage,
};

use crate::law::Law;
use crate::world::{Served, World};

/// Some models are cheap.
fn is_cheap(model: &str) -> bool {
    model.ends_with(['1', '3', '5', '7', '9', 'k'])
}

/// What tokens of this model cost.
pub(crate) fn price(model: &str) -> Price {
    let times = if is_cheap(model) { 0.5 } else { 1.0 };
    Price {
        input: 3.0 * times,
        output: 15.0 * times,
        cache_read: 0.3 * times,
        cache_write: 3.75 * times,
    }
}

/// What the system prompt and the tools come to.
const FIXED: u64 = 62;

/// What is to be paid: tokens, and billionths of a dollar.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Bill {
    pub(crate) tokens: u64,
    pub(crate) cost: u64,
}

impl Bill {
    pub(crate) const fn add(&mut self, other: Self) {
        self.tokens += other.tokens;
        self.cost += other.cost;
    }

    fn of(model: &str, input: u64, output: u64, dear: bool) -> Self {
        let usage = Usage {
            input_tokens: input,
            output_tokens: output,
            cache_write_tokens: if dear { input } else { 0 },
            ..Usage::default()
        };
        Self {
            tokens: input + output,
            cost: price(model).cost(usage).0,
        }
    }
}

/// How many tokens the model has written with this. Each model counts in its own way.
pub(crate) fn tokens(model: &str, event: &StreamEvent) -> u64 {
    let pieces = match event {
        StreamEvent::TextDelta { .. }
        | StreamEvent::ThinkingDelta { .. }
        | StreamEvent::InputDelta { .. }
        | StreamEvent::BlockStart {
            block: BlockStart::ToolUse { .. } | BlockStart::Vendor(_),
            ..
        } => 1,
        StreamEvent::BlockStart { .. }
        | StreamEvent::MessageStart { .. }
        | StreamEvent::VendorDelta { .. }
        | StreamEvent::BlockStop { .. }
        | StreamEvent::Usage(_)
        | StreamEvent::MessageStop { .. } => 0,
    };
    weight(model) * pieces
}

fn weight(model: &str) -> u64 {
    2 - u64::from(is_cheap(model))
}

/// How many tokens the model reads.
pub(crate) fn input(request: &Request) -> u64 {
    let messages = request.messages.iter();
    let messages = messages.map(|message| one(message));
    weight(&request.model) * (FIXED + messages.sum::<u64>())
}

fn one(message: &HistoryMessage) -> u64 {
    match message.message() {
        Message::User(content) => texts(content),
        // No more than it took to write it.
        Message::Assistant(reply) => reply.content.iter().map(block).sum(),
        Message::ToolResults(results) => {
            let results = results.iter().map(|result| texts(&result.content));
            results.sum::<u64>()
        }
    }
}

fn block(block: &ContentBlock) -> u64 {
    match block {
        ContentBlock::Text { text, .. } => text.len() as u64 / 5,
        ContentBlock::ToolUse(tool_use) => 1 + u64::from(tool_use.input.json().len() > 4),
        ContentBlock::Thinking { .. } | ContentBlock::RedactedThinking(_) => 0,
        ContentBlock::Vendor(_) => 1,
    }
}

fn texts(content: &[Content]) -> u64 {
    let texts = content.iter().map(|part| match part {
        Content::Text(text) => text.len() as u64 / 2,
        Content::Image(_) | Content::Document(_) => 0,
    });
    // What stands round a message, near to the most that the harness reckons with.
    15 + texts.sum::<u64>()
}

impl Served {
    /// What is to be paid for it so far.
    fn bill(&self) -> Bill {
        if self.begins {
            Bill::of(&self.model, self.input, self.seen + self.unseen, self.dear)
        } else {
            Bill::default()
        }
    }
}

impl World {
    /// Law 7: with the worst that can come of a request, no ceiling is passed.
    pub(crate) fn reserves(&mut self, request: &Request) -> Served {
        if let Some(before) = &self.life.served {
            self.life.billed.add(before.bill());
        }
        let (input, dear) = (input(request), self.life.call % 2 == 1);
        let limits = self.script.knobs.limits;
        let cap = request.max_output_tokens;
        let mut worst = Bill::of(&request.model, input, cap.unwrap_or(0), dear);
        worst.add(self.life.billed);
        worst.add(self.life.spent_before);
        let foreign = self.life.foreign_past;
        if let Some(limit) = limits.tokens {
            let holds = foreign || cap.is_some() && worst.tokens <= limit;
            self.see("request below a ceiling");
            self.require(Law::Ceiling, holds, || {
                format!(
                    "{} tokens may be used, the limit is {limit}, the cap {cap:?}",
                    worst.tokens
                )
            });
        }
        if let Some(limit) = limits.cost {
            let priced = self.script.knobs.priced;
            let holds = foreign || priced && cap.is_some() && worst.cost <= limit;
            self.see("request below a ceiling");
            self.require(Law::Ceiling, holds, || {
                format!(
                    "{} may be spent, the limit is {limit}, the cap {cap:?}",
                    worst.cost
                )
            });
        }
        Served {
            model: request.model.clone(),
            input,
            dear,
            ..Served::default()
        }
    }

    /// What the newest call was sent.
    pub(crate) fn sent(&self) -> (u64, bool) {
        let served = self.life.served.as_ref();
        served.map_or((0, false), |served| (served.input, served.dear))
    }

    /// What was spent is on record, and no less than was billed.
    pub(crate) fn is_booked(&mut self) {
        let knobs = &self.script.knobs;
        let limited = knobs.limits.tokens.is_some() || knobs.limits.cost.is_some();
        if !limited || self.life.foreign_past {
            return;
        }
        let mut billed = self.life.billed;
        if let Some(served) = &self.life.served {
            billed.add(served.bill());
        }
        let spent = self.life.spent;
        let holds = spent.tokens >= billed.tokens && (!knobs.priced || spent.cost >= billed.cost);
        self.require(Law::Ceiling, holds, || {
            format!("billed was {billed:?}, booked is {spent:?}")
        });
    }
}
