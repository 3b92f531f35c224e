//! What the driver does about hooks: when which are run, and what becomes of what they say.

use std::collections::{HashMap, VecDeque};
use std::future::ready;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Either, select};
use futures_util::stream::FuturesUnordered;
use tokio_util::sync::CancellationToken;
use tooloop_kernel::{
    Advice, AdvisedVerdict, Delivery, During, Input, Interrupter, StopJudgement, TurnEnd,
};
use tooloop_model::{Content, JsonObject, ToolInput, ToolUse};
use tooloop_policy::AskCause;
use tooloop_tool::ToolOutput;
use tracing::Span;

use super::Driver;
use crate::agents::{EXIT_PLAN, Ends};
use crate::gate::read;
use crate::hooks::{HookEvent, Said, SessionHooks, Subject};
use crate::prompt::facts;
use crate::{Allowance, Approval, DeniedBy, Event, Question, Reply, Stopping};

/// How long the end of a session waits for its hooks.
const END: Duration = Duration::from_millis(1500);

/// What hooks are run for beside the kernel's effects, and what waits for them.
#[derive(Default)]
pub(super) struct Hooking {
    pub(super) under_way: FuturesUnordered<BoxFuture<'static, Heard>>,
    consults: HashMap<u64, (CancellationToken, ToolUse)>,
    /// The hooks of the session's beginning have not said all yet.
    starting: bool,
    /// What they have said, for the first prompt.
    context: Vec<String>,
    /// What was said to the session and hooks have not let pass yet, in order.
    prompts: VecDeque<Prompt>,
    newest: u64,
    /// Somebody has objected to the end, and is not heard any more if the turn ends now.
    pub(super) objected: bool,
}

/// Something that was said to the session.
struct Prompt {
    content: Vec<Content>,
    delivery: Delivery,
    /// It begins a turn.
    begins: bool,
    number: u64,
    /// Ends its hooks; `None` if they do not run yet.
    running: Option<CancellationToken>,
}

/// What somebody said to a question, or a hook in their place.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) reply: Reply,
    pub(super) by_hook: bool,
}

impl Answered {
    const fn by_whom_was_asked(reply: Reply) -> Self {
        let by_hook = false;
        Self { reply, by_hook }
    }

    const fn by_a_hook(reply: Reply) -> Self {
        let by_hook = true;
        Self { reply, by_hook }
    }
}

/// What hooks have said.
pub(super) enum Heard {
    Started(Said),
    Prompted(u64, Said),
    Consulted(u64, Said),
    /// Nobody waits for what they say.
    Told,
}

impl Driver {
    /// Runs hooks beside everything else; what they say comes back as `heard` makes it. `None` if
    /// there are none for this.
    fn run_hooks(
        &self,
        subject: Subject,
        heard: impl FnOnce(Said) -> Heard + Send + 'static,
    ) -> Option<CancellationToken> {
        let hooks = self.hooks.clone().filter(|hooks| hooks.wants(&subject))?;
        let cancellation = CancellationToken::new();
        let ends = cancellation.clone();
        let within = self.trace.around_hooks();
        let run = async move {
            let said = hooks.run(subject, None, within);
            heard(ends.run_until_cancelled(said).await.unwrap_or_default())
        };
        self.hooking.under_way.push(run.boxed());
        Some(cancellation)
    }

    /// The session begins.
    pub(super) fn session_starts(&mut self, resumed: bool) {
        let source = if resumed { "resume" } else { "startup" };
        let subject = Subject::SessionStart { source };
        self.hooking.starting = self.run_hooks(subject, Heard::Started).is_some();
    }

    /// The session ends; nothing else of it runs any more.
    pub(super) async fn session_ends(&mut self) {
        let reason = self.why.get().copied().unwrap_or_default().name();
        let subject = Subject::SessionEnd { reason };
        if let Some(hooks) = self.hooks.as_ref().filter(|hooks| hooks.wants(&subject)) {
            hooks.run(subject, Some(END), Span::none()).await;
        }
    }

    pub(super) fn heard(&mut self, heard: Heard) -> Option<Input> {
        match heard {
            Heard::Told => None,
            Heard::Started(said) => {
                self.hooking.starting = false;
                self.hooking.context.extend(said.context);
                if let Some(reason) = said.stop {
                    let words = format!("a hook at the session's beginning objects: {reason}");
                    self.events.send(&Event::Warning(words));
                }
                self.next_prompt()
            }
            Heard::Prompted(number, said) => self.prompted(number, said),
            Heard::Consulted(consult, said) => {
                let (_, tool_use) = self.hooking.consults.remove(&consult)?;
                let input = said.input.filter(|input| self.changes(&tool_use, input));
                if matches!(said.verdict, Some(AdvisedVerdict::Deny { .. })) {
                    self.refused_by_hook(tool_use);
                }
                let advice = Advice {
                    verdict: said.verdict,
                    input,
                    context: said.context,
                    stop: said.stop,
                };
                Some(Input::Consulted { consult, advice })
            }
        }
    }

    // ---- prompts

    /// Whether a turn waits for hooks before it begins.
    pub(super) fn is_held(&self) -> bool {
        self.hooking.prompts.iter().any(|prompt| prompt.begins)
    }

    /// Something is said to the session: at once if no hook has a say in it.
    pub(super) fn say(
        &mut self,
        content: Vec<Content>,
        delivery: Delivery,
        begins: bool,
    ) -> Option<Input> {
        self.hooking.newest = self.hooking.newest.saturating_add(1);
        self.hooking.prompts.push_back(Prompt {
            content,
            delivery,
            begins,
            number: self.hooking.newest,
            running: None,
        });
        self.next_prompt()
    }

    /// The first prompt that waits goes to its hooks, or on if there are none.
    fn next_prompt(&mut self) -> Option<Input> {
        if self.hooking.starting {
            return None;
        }
        let prompt = self.hooking.prompts.front()?;
        if prompt.running.is_some() {
            return None;
        }
        let number = prompt.number;
        let subject = Subject::Prompt(prompt.content.clone());
        let running = self.run_hooks(subject, move |said| Heard::Prompted(number, said));
        if running.is_none() {
            return self.prompted(number, Said::default());
        }
        if let Some(prompt) = self.hooking.prompts.front_mut() {
            prompt.running = running;
        }
        None
    }

    fn prompted(&mut self, number: u64, said: Said) -> Option<Input> {
        let is_it = |prompt: &mut Prompt| prompt.number == number;
        let mut prompt = self.hooking.prompts.pop_front_if(is_it)?;
        if let Some(reason) = said.block.or(said.stop) {
            if prompt.begins {
                let reason = format!("the prompt was not sent: {reason}");
                self.never_began(TurnEnd::HookStopped { reason }, prompt.content);
            } else {
                let words = format!("what was said was not sent, a hook objects: {reason}");
                self.events.send(&Event::Warning(words));
            }
            return self.next_prompt();
        }
        if self.turn.is_none() {
            // The turn that it was for has ended, and was told with what was not sent.
            return self.next_prompt();
        }
        let context = std::mem::take(&mut self.hooking.context);
        let context = context.into_iter().chain(said.context);
        prompt.content.extend(context.map(Content::Text));
        let ends = match self.registry.get(EXIT_PLAN) {
            _ if self.assignment.is_some() => Ends::Reported,
            Some(_) => Ends::Presented,
            None => Ends::Answered,
        };
        let mode = read(&self.gate.policy, |policy| policy.mode);
        let reminder = self.mode_told.reminder(mode, ends);
        prompt
            .content
            .extend(reminder.as_deref().map(Content::reminder));
        if prompt.begins && self.told_facts {
            let facts = facts::due(self.kernel.transcript(), &self.workspace);
            prompt.content.extend(facts);
        }
        Some(Input::User {
            content: prompt.content,
            delivery: prompt.delivery,
        })
    }

    /// What is to be said next, once something was.
    pub(super) fn after_a_step(&mut self) -> Option<Input> {
        if let Some(aside) = self.next_aside() {
            return Some(aside);
        }
        let waits = |prompt: &Prompt| prompt.running.is_none();
        let next = self.hooking.prompts.front().is_some_and(waits);
        if next { self.next_prompt() } else { None }
    }

    /// The user does not want what waits any more.
    pub(super) fn give_up_prompts(&mut self) {
        if !self.is_held() {
            return;
        }
        let content = self.unsaid().into_iter().next().unwrap_or_default();
        let end = TurnEnd::Interrupted {
            during: During::Model,
            by: Interrupter::User,
        };
        self.never_began(end, content);
    }

    /// A turn that was to begin ends before it has.
    fn never_began(&mut self, end: TurnEnd, content: Vec<Content>) {
        self.end_turn(end, vec![content]);
        self.trace.nothing_began();
    }

    /// What waits for hooks when a turn ends: it will not be said.
    pub(super) fn unsaid(&mut self) -> Vec<Vec<Content>> {
        let prompts = std::mem::take(&mut self.hooking.prompts);
        let contents = prompts.into_iter().map(|prompt| {
            if let Some(running) = prompt.running {
                running.cancel();
            }
            prompt.content
        });
        contents.collect()
    }

    // ---- calls

    pub(super) fn consult(&mut self, consult: u64, tool_use: ToolUse) {
        let subject = Subject::PreToolUse(tool_use.clone());
        let running = self.run_hooks(subject, move |said| Heard::Consulted(consult, said));
        let running = running.unwrap_or_else(|| {
            // No hook is for this one.
            let heard = Heard::Consulted(consult, Said::default());
            self.hooking.under_way.push(ready(heard).boxed());
            CancellationToken::new()
        });
        self.hooking.consults.insert(consult, (running, tool_use));
    }

    pub(super) fn cancel_consult(&mut self, consult: u64) {
        if let Some((running, _)) = self.hooking.consults.remove(&consult) {
            running.cancel();
        }
    }

    /// A hook wants a call refused: its no counts where the policy has none of its own.
    fn refused_by_hook(&mut self, tool_use: ToolUse) {
        let is_refused = self.gate.denies(&tool_use);
        if let Some(turn) = self.turn.as_mut().filter(|_| !is_refused) {
            turn.asked(tool_use.id, DeniedBy::Hook, None);
        }
    }

    /// Asks whoever is there, and the hooks that may answer in their place: the first answer counts.
    /// Where nobody is there, hooks are waited for.
    pub(super) fn ask(
        &mut self,
        question: Question,
        cause: AskCause,
    ) -> BoxFuture<'static, Answered> {
        let tool_use = question.tool_use.clone();
        let nobody = matches!(self.approval, Approval::Nobody);
        if !nobody {
            let kind = "permission_prompt";
            let message = format!("tooloop asks whether it may use {}", tool_use.name);
            self.run_hooks(Subject::Notification { kind, message }, |_| Heard::Told);
        }
        let reply = self.approval.ask(question);
        let subject = Subject::PermissionRequest(tool_use.clone());
        let Some(hooks) = self.hooks.clone().filter(|hooks| hooks.wants(&subject)) else {
            return reply.map(Answered::by_whom_was_asked).boxed();
        };
        let events = std::sync::Arc::clone(&self.events);
        let gate = std::sync::Arc::clone(&self.gate);
        let within = self.trace.around_hooks();
        let hook = async move {
            let said = hooks.run(subject, None, within).await;
            if let Some(reason) = said.stop {
                return Some(Reply::DenyAndStop { reason });
            }
            match said.verdict? {
                AdvisedVerdict::Deny { reason } => return Some(Reply::Deny { reason }),
                AdvisedVerdict::Ask { .. } => return None,
                AdvisedVerdict::Allow => {}
            }
            let asks_again = |input: &JsonObject| {
                let input = ToolInput::Valid(input.clone());
                gate.asked_by_a_rule(&ToolUse { input, ..tool_use })
            };
            if cause == AskCause::Rule || said.input.as_ref().is_some_and(asks_again) {
                let words = "a rule wants this asked: a hook's consent is no answer to it";
                events.send(&Event::Warning(words.into()));
                return None;
            }
            let rules = Vec::new();
            Some(Reply::AllowWith(Allowance {
                input: said.input,
                rules,
            }))
        };
        async move {
            if nobody {
                return match hook.await {
                    Some(reply) => Answered::by_a_hook(reply),
                    None => Answered::by_whom_was_asked(reply.await),
                };
            }
            match select(Box::pin(hook), reply).await {
                Either::Left((Some(reply), _)) => Answered::by_a_hook(reply),
                Either::Right((reply, _)) => Answered::by_whom_was_asked(reply),
                Either::Left((None, reply)) => Answered::by_whom_was_asked(reply.await),
            }
        }
        .boxed()
    }

    // ---- the end of a turn

    /// Whether the model is done, in the eyes of all who have a say in it.
    pub(super) fn judge_stop(&self, stopping: Stopping) -> BoxFuture<'static, StopJudgement> {
        let subject = Subject::Stop {
            active: stopping.stop_hook_active,
            text: stopping.text.clone(),
        };
        let library = self.stop_hook.as_ref().map(|hook| hook.judge(stopping));
        let library = library.unwrap_or_else(|| ready(StopJudgement::Done).boxed());
        let Some(hooks) = self.hooks.clone().filter(|hooks| hooks.wants(&subject)) else {
            return library;
        };
        let within = self.trace.around_hooks();
        async move {
            let said = hooks.run(subject, None, within);
            let (said, judged) = futures_util::future::join(said, library).await;
            match (said.stop, said.block, judged) {
                (Some(reason), _, _) | (None, _, StopJudgement::End { reason }) => {
                    StopJudgement::End { reason }
                }
                (None, Some(reason), StopJudgement::GoOn { reason: more }) => {
                    let reason = format!("{reason}\n{more}");
                    StopJudgement::GoOn { reason }
                }
                (None, Some(reason), StopJudgement::Done) => StopJudgement::GoOn { reason },
                (None, None, judged) => judged,
            }
        }
        .boxed()
    }

    /// How long judging may take.
    pub(super) fn stop_limit(&self) -> Duration {
        let hooks = self.hooks.as_ref();
        let longest = hooks.map_or(Duration::ZERO, |hooks| {
            let stop = hooks.longest(HookEvent::Stop);
            stop.max(hooks.longest(HookEvent::SubagentStop))
        });
        // What ends a hook that takes too long takes its time as well.
        super::STOP_HOOK_LIMIT.max(longest.saturating_add(Duration::from_secs(5)))
    }
}

/// What hooks add to what a tool came to. Returns it with why the turn is to end, if it is.
pub(super) async fn after(
    hooks: Option<&SessionHooks>,
    tool_use: ToolUse,
    mut output: ToolOutput,
    cancellation: &CancellationToken,
    within: Span,
) -> (ToolOutput, Option<String>) {
    let subject = Subject::ToolEnded {
        tool_use,
        content: output.content.clone(),
        is_error: output.is_error,
    };
    let Some(hooks) = hooks.filter(|hooks| hooks.wants(&subject)) else {
        return (output, None);
    };
    let said = hooks.run(subject, None, within);
    let Some(said) = cancellation.run_until_cancelled(said).await else {
        return (output, None);
    };
    // What hooks add may differ each time, and makes no other outcome of it.
    let fingerprint = format!("{} {:?}", output.is_error, output.content);
    output.fingerprint.get_or_insert(fingerprint);
    let block = said.block.map(|reason| format!("a hook objects: {reason}"));
    let added = block.into_iter().chain(said.context);
    output.content.extend(added.map(Content::Text));
    (output, said.stop)
}
