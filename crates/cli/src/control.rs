//! The host of a headless run: a program at the other end of standard input and output that is
//! asked about calls, by the control protocol of agent SDKs.
//!
//! `docs/stream-json.md` describes the messages. A question waits until it is answered, withdrawn
//! (the turn was interrupted, or has run out of time), or until standard input ends: then nobody can
//! answer any more, and what waits and what comes is denied. An answer that cannot be understood is
//! a no. This module must not know how records are written.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value, json};
use tooloop::{
    Allowance, AskCause, Destination, Mode, PermissionAnswer, PermissionChange, PermissionUpdate,
    Question, Reply, Rule, RuleList, Session, ToolInput,
};

use crate::callbacks::Callbacks;
use crate::line;
use crate::project_rules::ProjectRules;
use crate::questions::Questions;

/// Who answers questions about calls.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) questions: Questions,
    /// Where rules go that are to last.
    pub(crate) saved: ProjectRules,
    pub(crate) workspace: PathBuf,
    pub(crate) home: Option<PathBuf>,
    /// Whether the run began with a mode that skips questions.
    pub(crate) may_bypass: bool,
    /// The questions that were sent to the host.
    pub(crate) sent: BTreeMap<u64, Sent>,
}

/// A question that was sent.
#[derive(Debug)]
pub(crate) struct Sent {
    /// The id of its request.
    id: String,
    /// The call's input as it was sent, if it was too long to be sent whole.
    shortened: Option<Value>,
}

/// The most bytes of a question: what surrounds it in its line has room beside it.
const MOST_QUESTION: usize = line::LIMIT - 10_000;

/// A message for the host.
#[derive(Debug, PartialEq)]
pub(crate) enum ToHost {
    /// A request, with its name and its body.
    Request(String, Value),
    /// This request is void.
    Cancel(String),
}

/// Waits until there is something to send to the program at the other end.
pub(crate) async fn changed(host: Option<&Host>, callbacks: &Callbacks) {
    match host {
        Some(host) => tokio::select! {
            () = host.questions.changed() => {}
            () = callbacks.changed() => {}
        },
        None => callbacks.changed().await,
    }
}

impl Host {
    /// What has come up, and what was withdrawn, since the last time.
    pub(crate) fn news(&mut self) -> Vec<ToHost> {
        let waiting = self.questions.waiting();
        let void: Vec<u64> = self
            .sent
            .keys()
            .filter(|ask| !waiting.iter().any(|question| question.ask == **ask))
            .copied()
            .collect();
        let mut news: Vec<_> = void
            .into_iter()
            .filter_map(|ask| self.sent.remove(&ask))
            .map(|sent| ToHost::Cancel(sent.id))
            .collect();
        for question in waiting {
            if self.sent.contains_key(&question.ask) {
                continue;
            }
            let id = format!("permission-{}", question.ask);
            let mut body = request(&question);
            let mut shortened = None;
            if body.to_string().len() > MOST_QUESTION {
                body = line::shortened(&body, MOST_QUESTION);
                shortened = body.get("input").cloned();
            }
            news.push(ToHost::Request(id.clone(), body));
            self.sent.insert(question.ask, Sent { id, shortened });
        }
        news
    }

    /// Takes a `control_response` in. Gives back what a person should know about it.
    pub(crate) fn answer(&mut self, response: &Value, session: &Session) -> Vec<String> {
        let id = response.get("request_id").and_then(Value::as_str);
        let mut open = self.sent.iter();
        let known = open.find(|(_, sent)| Some(sent.id.as_str()) == id);
        let Some(ask) = known.map(|(ask, _)| *ask) else {
            let id = id.unwrap_or_default();
            return vec![format!(
                "a control response for {id:?} is passed over: nothing of that name is open"
            )];
        };
        let sent = self.sent.remove(&ask);
        let shortened = sent.and_then(|sent| sent.shortened);
        let mut warnings = Vec::new();
        let reply = match said(response) {
            Ok(PermissionAnswer::Deny { message, interrupt }) if interrupt => {
                Reply::DenyAndStop { reason: message }
            }
            Ok(PermissionAnswer::Deny { message, .. }) => Reply::Deny { reason: message },
            Ok(PermissionAnswer::Allow {
                input: Some(input), ..
            }) if shortened
                .as_ref()
                .is_some_and(|shown| *shown != input.to_value()) =>
            {
                let words =
                    "the input was too long to be sent whole, so an answer cannot change it";
                warnings.push(format!("the answer to {ask} counts as a no: {words}"));
                Reply::Deny {
                    reason: words.into(),
                }
            }
            Ok(PermissionAnswer::Allow { input, updates }) => {
                let input = input.filter(|_| shortened.is_none());
                let mut allowance = Allowance {
                    input,
                    rules: Vec::new(),
                };
                for update in updates {
                    warnings.extend(self.update(update, session, &mut allowance.rules));
                }
                Reply::AllowWith(allowance)
            }
            Err(problem) => {
                let reason = format!("whoever was asked gave no usable answer: {problem}");
                warnings.push(format!("the answer to {ask} counts as a no: {problem}"));
                Reply::Deny { reason }
            }
        };
        self.questions.answer(ask, reply);
        warnings
    }

    /// Nobody answers any more.
    pub(crate) fn close(&self) {
        let words = "standard input has ended, so there is nobody to ask";
        self.questions.close(words);
    }

    /// Makes a change that came with a yes. Gives back what was not done of it.
    fn update(
        &self,
        update: PermissionUpdate,
        session: &Session,
        allowed: &mut Vec<Rule>,
    ) -> Vec<String> {
        let PermissionUpdate {
            change,
            destination,
        } = update;
        let kept = |what: &str, why: &str| {
            let name = destination.name();
            format!("{what} for {name}: {why}; for this session alone it holds")
        };
        match change {
            PermissionChange::Add(list, rules) => {
                let written = words(&rules);
                let warning = match (destination, list) {
                    (Destination::Session, _) => None,
                    (Destination::Local, RuleList::Allow) => {
                        let error = self.saved.add(&rules).err();
                        error.map(|error| kept(&written, &error.to_string()))
                    }
                    (Destination::Local, RuleList::Ask | RuleList::Deny) => Some(kept(
                        &written,
                        "only rules that allow are saved there; put others into a settings file",
                    )),
                    (Destination::Project, _) => {
                        Some(kept(&written, "a project's files are written by people"))
                    }
                    (Destination::User, _) => {
                        Some(kept(&written, "your own settings file is written by you"))
                    }
                };
                let home = self.home.as_deref();
                let rules = rules
                    .iter()
                    .map(|rule| rule.anchored(&self.workspace, home));
                match list {
                    RuleList::Allow => allowed.extend(rules),
                    RuleList::Ask => session.change_policy(|policy| policy.ask.extend(rules)),
                    RuleList::Deny => session.change_policy(|policy| policy.deny.extend(rules)),
                }
                warning.into_iter().collect()
            }
            PermissionChange::Mode(mode) => {
                let mut warnings: Vec<_> = self.set_mode(mode, session).err().into_iter().collect();
                if warnings.is_empty() && destination != Destination::Session {
                    warnings.push(kept(&format!("mode {mode}"), "modes are not saved"));
                }
                warnings
            }
            PermissionChange::Remove(_, rules) => vec![format!(
                "{} stays: rules are not taken back by an answer",
                words(&rules)
            )],
            PermissionChange::Other(what) => vec![format!("{what} is not known here: not done")],
        }
    }

    /// Has another mode hold in the session from now on.
    ///
    /// # Errors
    /// In words, if the mode may not be taken.
    pub(crate) fn set_mode(&self, mode: Mode, session: &Session) -> Result<(), String> {
        set_mode(mode, self.may_bypass, session)
    }
}

/// Has another mode hold in the session. One that skips questions only where the run began with it:
/// it is given by a flag, where a person sees it.
///
/// # Errors
/// In words, if the mode may not be taken.
pub(crate) fn set_mode(mode: Mode, may_bypass: bool, session: &Session) -> Result<(), String> {
    if mode == Mode::BypassPermissions && !may_bypass {
        return Err(format!(
            "mode {mode} is only for a run that was started with --permission-mode {mode}"
        ));
    }
    session.change_policy(|policy| policy.mode = mode);
    Ok(())
}

fn words(rules: &[Rule]) -> String {
    let words: Vec<_> = rules.iter().map(ToString::to_string).collect();
    words.join(", ")
}

/// What a response says.
fn said(response: &Value) -> Result<PermissionAnswer, String> {
    let text = |name: &str| response.get(name).and_then(Value::as_str);
    match text("subtype") {
        Some("success") => {
            let answer = response.get("response").ok_or("it has no \"response\"")?;
            PermissionAnswer::parse(answer)
        }
        Some("error") => Err(text("error").unwrap_or("an error without words").to_owned()),
        _ => Err("its \"subtype\" is neither \"success\" nor \"error\"".into()),
    }
}

/// The request that a question is.
fn request(question: &Question) -> Value {
    let input = match &question.tool_use.input {
        ToolInput::Valid(input) => input.to_value(),
        ToolInput::Invalid { raw, .. } => json!({ "invalid_json": raw }),
    };
    let suggestions: Vec<_> = [Destination::Session, Destination::Local]
        .into_iter()
        .filter(|_| !question.rules.is_empty())
        .map(|destination| {
            let rules = question.rules.iter().map(|rule| {
                let mut words = json!({ "toolName": rule.tool() });
                if let (Some(specifier), Value::Object(words)) = (rule.specifier(), &mut words) {
                    words.insert("ruleContent".into(), specifier.into());
                }
                words
            });
            json!({
                "type": "addRules",
                "rules": rules.collect::<Vec<_>>(),
                "behavior": "allow",
                "destination": destination.name(),
            })
        })
        .collect();
    json!({
        "subtype": "can_use_tool",
        "tool_name": question.tool_use.name,
        "input": input,
        "tool_use_id": question.tool_use.id,
        "agent_type": question.agent,
        "permission_suggestions": suggestions,
        "decision_reason": question.reason,
        "cause": question.cause.map(cause),
    })
}

/// The word for why it is asked.
pub(crate) const fn cause(cause: AskCause) -> &'static str {
    match cause {
        AskCause::Rule => "rule",
        AskCause::Uncovered => "uncovered",
        AskCause::Beyond => "beyond",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::FutureExt as _;
    use tooloop::provider::ScriptedProvider;
    use tooloop::{Agent, Approver as _, ToolUse};

    use super::*;

    struct Bench {
        host: Host,
        session: Session,
        folder: tempfile::TempDir,
    }

    impl Bench {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let settings = folder.path().join("config.toml");
            let provider = Arc::new(ScriptedProvider::new());
            let agent = Agent::builder().provider(provider).build().unwrap();
            Self {
                host: Host {
                    questions: Questions::default(),
                    saved: ProjectRules::of("/w".as_ref(), Some(&settings)),
                    workspace: "/w".into(),
                    home: None,
                    may_bypass: false,
                    sent: BTreeMap::new(),
                },
                session: agent.session().unwrap(),
                folder,
            }
        }

        fn answer(&mut self, answer: Value) -> Vec<String> {
            let response =
                json!({ "subtype": "success", "request_id": "permission-1", "response": answer });
            self.host.answer(&response, &self.session)
        }
    }

    fn question(ask: u64) -> Question {
        Question {
            denying: Vec::new(),
            ask,
            agent: None,
            tool_use: ToolUse {
                id: "tu_1".into(),
                name: "bash".into(),
                input: ToolInput::parse("{\"command\":\"touch a\"}"),
                vendor: None,
            },
            reason: "`touch a` is not covered".into(),
            cause: Some(AskCause::Uncovered),
            rules: vec!["Bash(touch a)".parse().unwrap()],
        }
    }

    fn rules(destination: &str, behavior: &str) -> Value {
        json!({
            "behavior": "allow",
            "updatedPermissions": [{
                "type": "addRules",
                "rules": [{ "toolName": "Edit", "ruleContent": "src/**" }],
                "behavior": behavior,
                "destination": destination,
            }],
        })
    }

    #[tokio::test]
    async fn a_question_is_asked_once_and_taken_back_when_it_is_void() {
        let mut bench = Bench::new();
        assert_eq!(bench.host.news(), []);
        let reply = bench.host.questions.decide(question(1));
        let news = bench.host.news();
        let rules = json!([{ "toolName": "Bash", "ruleContent": "touch a" }]);
        let suggestion = |destination: &str| json!({ "type": "addRules", "rules": rules, "behavior": "allow", "destination": destination });
        let body = json!({
            "subtype": "can_use_tool",
            "tool_name": "bash",
            "input": { "command": "touch a" },
            "tool_use_id": "tu_1",
            "agent_type": null,
            "permission_suggestions": [suggestion("session"), suggestion("localSettings")],
            "decision_reason": "`touch a` is not covered",
            "cause": "uncovered",
        });
        assert_eq!(news, [ToHost::Request("permission-1".into(), body)]);
        assert_eq!(bench.host.news(), []);
        drop(reply);
        assert_eq!(bench.host.news(), [ToHost::Cancel("permission-1".into())]);
        assert_eq!(bench.host.news(), []);
        assert_eq!(bench.answer(json!({ "behavior": "allow" })).len(), 1);
    }

    #[tokio::test]
    async fn an_answer_counts_once_and_what_is_none_is_a_no() {
        for (answer, expected) in [
            (
                json!({ "behavior": "deny", "message": "not today" }),
                Reply::Deny {
                    reason: "not today".into(),
                },
            ),
            (
                json!({ "behavior": "deny", "message": "stop", "interrupt": true }),
                Reply::DenyAndStop {
                    reason: "stop".into(),
                },
            ),
            (
                json!({ "behavior": "allow" }),
                Reply::AllowWith(Allowance::default()),
            ),
            (
                json!({ "behaviour": "allow" }),
                Reply::Deny {
                    reason: "whoever was asked gave no usable answer: \"behavior\" is neither \
                             \"allow\" nor \"deny\""
                        .into(),
                },
            ),
        ] {
            let mut bench = Bench::new();
            let reply = bench.host.questions.decide(question(1));
            bench.host.news();
            bench.answer(answer);
            let second = bench.answer(json!({ "behavior": "allow" }));
            assert!(second[0].contains("passed over"), "{second:?}");
            assert_eq!(reply.await, expected);
            assert_eq!(bench.host.news(), []);
        }
    }

    #[tokio::test]
    async fn a_response_for_nobody_changes_nothing() {
        let mut bench = Bench::new();
        let reply = bench.host.questions.decide(question(1));
        bench.host.news();
        for response in [json!(null), json!({}), json!({ "request_id": "other" })] {
            let warnings = bench.host.answer(&response, &bench.session);
            assert_eq!(warnings.len(), 1, "{response}");
        }
        assert_eq!(reply.now_or_never(), None);
    }

    #[tokio::test]
    async fn rules_go_where_they_may_and_the_rest_is_told() {
        let allowed: Rule = "Edit(/w/src/**)".parse().unwrap();
        for (destination, behavior, warned, saved) in [
            ("session", "allow", false, 0),
            ("localSettings", "allow", false, 1),
            ("projectSettings", "allow", true, 0),
            ("userSettings", "allow", true, 0),
            ("localSettings", "deny", true, 0),
        ] {
            let mut bench = Bench::new();
            let reply = bench.host.questions.decide(question(1));
            bench.host.news();
            let warnings = bench.answer(rules(destination, behavior));
            assert_eq!(!warnings.is_empty(), warned, "{destination}: {warnings:?}");
            assert_eq!(bench.host.saved.load().unwrap().len(), saved);
            let denies = behavior == "deny";
            assert_eq!(bench.session.policy().deny.contains(&allowed), denies);
            let rules = if denies {
                Vec::new()
            } else {
                vec![allowed.clone()]
            };
            let allowance = Allowance { input: None, rules };
            assert_eq!(reply.await, Reply::AllowWith(allowance));
            drop(bench.folder);
        }
    }

    #[tokio::test]
    async fn a_mode_is_taken_if_it_is_no_way_round_the_flag() {
        let bench = Bench::new();
        let mode = || bench.session.policy().mode;
        assert!(
            bench
                .host
                .set_mode(Mode::AcceptEdits, &bench.session)
                .is_ok()
        );
        assert_eq!(mode(), Mode::AcceptEdits);
        let bypass = Mode::BypassPermissions;
        assert!(bench.host.set_mode(bypass, &bench.session).is_err());
        assert_eq!(mode(), Mode::AcceptEdits);
        assert!(set_mode(bypass, true, &bench.session).is_ok());
        assert_eq!(mode(), bypass);
    }
}
