//! Hooks of the program at the other end of standard input and output: `hook_callback` requests.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::{Notify, oneshot};
use tooloop::hooks::{HookEnd, HookEvent, HookOutcome, HookRule, HookRunner};

use crate::control::ToHost;
use crate::line::{LIMIT, shortened};

/// The source of rules whose hooks are callbacks. Rules of files have a path and a line.
pub(crate) const SOURCE: &str = "initialize";

/// What the command of such a rule begins with; the callback's id follows.
pub(crate) const COMMAND: &str = "callback ";

/// Room in a line for what surrounds a hook's input.
const ENVELOPE: usize = 10_000;

/// The callbacks that wait for their answers. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Callbacks(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    newest: u64,
    waiting: BTreeMap<String, oneshot::Sender<Result<Value, String>>>,
    news: VecDeque<ToHost>,
    is_closed: bool,
}

impl Callbacks {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a request; `None` once standard input has ended.
    fn call(&self, request: Value) -> Option<(Call, oneshot::Receiver<Result<Value, String>>)> {
        let (answer, answered) = oneshot::channel();
        let mut state = self.lock();
        if state.is_closed {
            return None;
        }
        state.newest = state.newest.saturating_add(1);
        let id = format!("hook-{}", state.newest);
        state.waiting.insert(id.clone(), answer);
        state.news.push_back(ToHost::Request(id.clone(), request));
        drop(state);
        self.0.changed.notify_one();
        Some((Call(self.clone(), id), answered))
    }

    /// What is to be sent, oldest first.
    pub(crate) fn news(&self) -> VecDeque<ToHost> {
        std::mem::take(&mut self.lock().news)
    }

    /// Waits until there is something to send. What came up before counts too.
    pub(crate) async fn changed(&self) {
        self.0.changed.notified().await;
    }

    /// Takes a `control_response`. Returns false if it answers none of these requests.
    pub(crate) fn answer(&self, response: &Value) -> bool {
        let text = |name: &str| response.get(name).and_then(Value::as_str);
        let id = text("request_id").unwrap_or_default();
        let Some(answer) = self.lock().waiting.remove(id) else {
            return false;
        };
        let said = match text("subtype") {
            Some("success") => Ok(response.get("response").cloned().unwrap_or_default()),
            Some("error") => Err(text("error")
                .unwrap_or("an error without a text")
                .to_owned()),
            _ => Err("its \"subtype\" is neither \"success\" nor \"error\"".to_owned()),
        };
        // The hook may have been given up this very moment.
        drop(answer.send(said));
        true
    }

    /// Ends the waiting requests: standard input has ended, so no answer can come.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        state.waiting.clear();
    }
}

/// A request under way. Dropping it withdraws it.
struct Call(Callbacks, String);

impl Drop for Call {
    fn drop(&mut self) {
        let Self(callbacks, id) = self;
        let mut state = callbacks.lock();
        if state.waiting.remove(id).is_none() {
            return;
        }
        let is_it = |news: &ToHost| matches!(news, ToHost::Request(other, _) if other == id);
        match state.news.iter().position(is_it) {
            Some(unsent) => drop(state.news.remove(unsent)),
            None => state.news.push_back(ToHost::Cancel(id.clone())),
        }
        drop(state);
        callbacks.0.changed.notify_one();
    }
}

/// Runs callbacks by asking the program, and all other hooks as commands.
#[derive(Debug)]
pub(crate) struct ProgramRunner {
    pub(crate) commands: Arc<dyn HookRunner>,
    pub(crate) callbacks: Callbacks,
    /// The events and callbacks whose failure refuses what they are about.
    pub(crate) blocking: BTreeSet<(&'static str, String)>,
}

impl HookRunner for ProgramRunner {
    fn run(&self, rule: &HookRule, input: Value) -> BoxFuture<'static, HookOutcome> {
        let id = rule.command.strip_prefix(COMMAND);
        let Some(id) = id.filter(|_| rule.source == SOURCE) else {
            return self.commands.run(rule, input);
        };
        let is_stop = matches!(rule.event, HookEvent::Stop | HookEvent::SubagentStop);
        let blocks = !is_stop && self.blocking.contains(&(rule.event.name(), id.to_owned()));
        let sent = match input.to_string().len() > LIMIT.saturating_sub(ENVELOPE) {
            true => Some(shortened(&input, LIMIT.saturating_sub(ENVELOPE))),
            false => None,
        };
        let request = json!({
            "subtype": "hook_callback",
            "callback_id": id,
            "input": sent.as_ref().unwrap_or(&input),
            "tool_use_id": input.get("tool_use_id"),
        });
        let (event, timeout) = (rule.event, rule.timeout);
        let call = self.callbacks.call(request);
        async move {
            let Some((call, answered)) = call else {
                return gone(event);
            };
            let outcome = match tokio::time::timeout(timeout, answered).await {
                Ok(Ok(said)) => said.and_then(|said| printed(said, sent.as_ref())),
                Ok(Err(_)) => return gone(event),
                Err(_) if blocks => {
                    Err(format!("it did not answer in {} s", timeout.as_secs_f64()))
                }
                Err(_) => {
                    return HookOutcome {
                        end: HookEnd::TimedOut,
                        ..HookOutcome::exited(0, "", "")
                    };
                }
            };
            drop(call);
            match outcome {
                Ok(outcome) => outcome,
                Err(reason) if blocks => {
                    HookOutcome::exited(2, "", format!("the program's hook failed: {reason}"))
                }
                Err(reason) => failed(reason),
            }
        }
        .boxed()
    }
}

/// The outcome of an answer. `sent` is the hook's input if it was shortened.
fn printed(said: Value, sent: Option<&Value>) -> Result<HookOutcome, String> {
    let mut said = match said {
        Value::Null => return Ok(HookOutcome::exited(0, "", "")),
        Value::Object(_) => said,
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            return Err("its answer is no object".to_owned());
        }
    };
    let specific = said.get_mut("hookSpecificOutput");
    if let (Some(sent), Some(Value::Object(specific))) = (sent, specific)
        && let Some(updated) = specific.remove("updatedInput")
        && !updated.is_null()
        && sent.get("tool_input") != Some(&updated)
    {
        let reason = "the input was too long to be sent whole, so it cannot be changed by a hook";
        return Ok(HookOutcome::exited(2, "", reason));
    }
    Ok(HookOutcome::exited(0, said.to_string(), ""))
}

/// The outcome of a hook whose program cannot be reached: what the hook guards is refused.
fn gone(event: HookEvent) -> HookOutcome {
    let reason = "standard input has ended, so the program's hook cannot be asked";
    match event {
        HookEvent::PreToolUse | HookEvent::PermissionRequest | HookEvent::UserPromptSubmit => {
            HookOutcome::exited(2, "", reason)
        }
        _ => failed(reason.to_owned()),
    }
}

fn failed(reason: String) -> HookOutcome {
    HookOutcome {
        end: HookEnd::Failed { reason },
        ..HookOutcome::exited(0, "", "")
    }
}
