//! Hooks as a program that embeds the library sees them: with a runner of its own.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may fail where it stands"
)]

use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{Barrier, Notify};
use tooloop::hooks::{HookEnd, HookEvent, HookOutcome, HookRule, HookRunner, Hooks};
use tooloop::provider::ScriptedProvider;
use tooloop::{
    Access, Agent, AgentBuilder, Approval, Approver, BlockStart, Entry, Event, Message, Policy,
    Question, Reply, StopReason, StreamEvent, Tool, ToolContext, ToolError, ToolOutput, TurnEnd,
};

#[derive(Deserialize, JsonSchema)]
struct Input {
    say: String,
}

struct Echo {
    name: &'static str,
    effectful: bool,
    ran: Arc<Mutex<Vec<String>>>,
}

impl Tool for Echo {
    type Input = Input;

    fn name(&self) -> &str {
        self.name
    }

    fn description(&self) -> &str {
        "Says it."
    }

    fn access(&self, _: &Input) -> Access {
        if self.effectful {
            Access::effectful()
        } else {
            Access::read_only()
        }
    }

    async fn run(&self, input: Input, _: &ToolContext) -> Result<ToolOutput, ToolError> {
        self.ran.lock().unwrap().push(input.say.clone());
        match input.say.as_str() {
            "fail" => Err(ToolError::Failed("as it was told".into())),
            text => Ok(ToolOutput::text(text)),
        }
    }
}

type Answer = dyn Fn(&HookRule, &Value) -> BoxFuture<'static, HookOutcome> + Send + Sync;

/// Says what a function says, and keeps what it was told.
struct Fake {
    answer: Box<Answer>,
    told: Mutex<Vec<Value>>,
}

impl std::fmt::Debug for Fake {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Fake")
    }
}

impl HookRunner for Fake {
    fn run(&self, rule: &HookRule, input: Value) -> BoxFuture<'static, HookOutcome> {
        let outcome = (self.answer)(rule, &input);
        self.told.lock().unwrap().push(input);
        outcome
    }
}

impl Fake {
    /// The events that it was told of, and one field of each.
    fn told(&self, field: &str) -> Vec<(String, Value)> {
        let told = self.told.lock().unwrap();
        let told = told.iter().map(|input| {
            let event = input["hook_event_name"].as_str().unwrap().to_owned();
            (event, input[field].clone())
        });
        told.collect()
    }
}

/// The command of a rule is what its hook prints; `exit N WORDS` ends with that status.
fn as_told(rule: &HookRule) -> HookOutcome {
    match rule.command.strip_prefix("exit ") {
        Some(rest) => {
            let (status, words) = rest.split_once(' ').unwrap_or((rest, ""));
            HookOutcome::exited(status.parse().unwrap(), "", words)
        }
        None => HookOutcome::exited(0, rule.command.as_str(), ""),
    }
}

struct Setting {
    builder: AgentBuilder,
    provider: Arc<ScriptedProvider>,
    fake: Arc<Fake>,
    ran: Arc<Mutex<Vec<String>>>,
}

fn setting(script: ScriptedProvider, rules: Vec<HookRule>) -> Setting {
    answering(script, rules, |rule, _| {
        std::future::ready(as_told(rule)).boxed()
    })
}

fn answering(
    script: ScriptedProvider,
    rules: Vec<HookRule>,
    answer: impl Fn(&HookRule, &Value) -> BoxFuture<'static, HookOutcome> + Send + Sync + 'static,
) -> Setting {
    let fake = Arc::new(Fake {
        answer: Box::new(answer),
        told: Mutex::default(),
    });
    let ran = Arc::new(Mutex::default());
    let echo = |name, effectful| Echo {
        name,
        effectful,
        ran: Arc::clone(&ran),
    };
    let provider = Arc::new(script);
    let builder = Agent::builder()
        .provider(Arc::clone(&provider) as _)
        .model("scripted")
        .tool(echo("look", false))
        .tool(echo("act", true))
        .hooks(Hooks {
            rules,
            runner: Arc::clone(&fake) as _,
        });
    Setting {
        builder,
        provider,
        fake,
        ran,
    }
}

fn rule(event: HookEvent, command: &str) -> HookRule {
    HookRule {
        source: "test:1".into(),
        ..HookRule::new(event, command)
    }
}

fn specific(event: HookEvent, mut fields: Value) -> String {
    fields["hookEventName"] = event.name().into();
    json!({ "hookSpecificOutput": fields }).to_string()
}

/// One message with several calls.
trait Calls {
    fn calls(self, calls: &[(&str, &str, &str)]) -> Self;
}

impl Calls for ScriptedProvider {
    fn calls(self, calls: &[(&str, &str, &str)]) -> Self {
        let mut events = Vec::new();
        for (index, (id, name, input)) in calls.iter().enumerate() {
            let (id, name) = ((*id).into(), (*name).into());
            let block = BlockStart::ToolUse { id, name };
            let json = (*input).into();
            events.extend([
                StreamEvent::BlockStart { index, block },
                StreamEvent::InputDelta { index, json },
                StreamEvent::BlockStop { index },
            ]);
        }
        let stop_reason = StopReason::ToolUse;
        events.push(StreamEvent::MessageStop { stop_reason });
        self.events(events)
    }
}

fn say(text: &str) -> String {
    json!({ "say": text }).to_string()
}

/// The results in the newest request, as texts.
fn results(provider: &ScriptedProvider) -> Vec<(String, bool)> {
    let requests = provider.requests();
    let messages = &requests.last().unwrap().messages;
    let newest = messages
        .iter()
        .rev()
        .find_map(|message| match message.message() {
            Message::ToolResults(results) => Some(results.clone()),
            Message::User(_) | Message::Assistant(_) => None,
        });
    let results = newest.unwrap();
    let results = results
        .iter()
        .map(|result| (texts(&result.content), result.is_error));
    results.collect()
}

fn texts(content: &[tooloop::Content]) -> String {
    let texts = content.iter().map(|part| match part {
        tooloop::Content::Text(text) => text.clone(),
        other => format!("{other:?}"),
    });
    texts.collect::<Vec<_>>().join("|")
}

/// What the user said, in the newest request.
fn prompts(provider: &ScriptedProvider) -> Vec<String> {
    let requests = provider.requests();
    let messages = &requests.last().unwrap().messages;
    let said = messages
        .iter()
        .filter_map(|message| match message.message() {
            Message::User(content) => Some(texts(content)),
            Message::Assistant(_) | Message::ToolResults(_) => None,
        });
    said.collect()
}

/// Plays one prompt to its end. Returns the report, the warnings, and the entries.
async fn play(builder: AgentBuilder) -> (tooloop::TurnReport, Vec<String>, Vec<Entry>) {
    let session = builder.build().unwrap().session().unwrap();
    let mut events = session.events();
    let report = session.prompt("go").await.unwrap();
    session.close().await.unwrap();
    let (mut warnings, mut entries) = (Vec::new(), Vec::new());
    while let Some(event) = events.next().await {
        match event {
            Event::Warning(words) => warnings.push(words),
            Event::Recorded(entry) => entries.push(Entry::clone(&entry)),
            _ => {}
        }
    }
    (report, warnings, entries)
}

fn allowing(builder: AgentBuilder, rules: &[&str]) -> AgentBuilder {
    builder.policy(Policy {
        allow: rules.iter().map(|rule| rule.parse().unwrap()).collect(),
        ..Policy::default()
    })
}

#[tokio::test]
async fn a_call_is_told_of_denied_and_its_neighbours_run() {
    let script = ScriptedProvider::new()
        .calls(&[("t1", "act", &say("one")), ("t2", "look", &say("two"))])
        .say("done");
    let rules = vec![rule(HookEvent::PreToolUse, "exit 2 not today").matching("act")];
    let Setting {
        builder,
        provider,
        fake,
        ran,
    } = setting(script, rules);
    let (report, warnings, _) = play(allowing(builder, &["act"])).await;
    assert_eq!(report.end, TurnEnd::Completed);
    assert_eq!(report.denials[0].reason, "not today");
    let expected = [
        ("permission denied, not run: not today".to_owned(), true),
        ("two".to_owned(), false),
    ];
    assert_eq!(results(&provider), expected);
    assert_eq!((*ran.lock().unwrap()).as_slice(), ["two"]);
    assert!(warnings.is_empty(), "{warnings:?}");
    let told = fake.told.lock().unwrap();
    let [told] = told.as_slice() else {
        unreachable!("{told:?}")
    };
    let expected = json!({
        "session_id": told["session_id"], "transcript_path": "", "cwd": told["cwd"],
        "permission_mode": "default", "hook_event_name": "PreToolUse",
        "tool_name": "act", "tooloop_tool": "act",
        "tool_input": { "say": "one" }, "tool_use_id": "t1",
    });
    assert_eq!(*told, expected);
}

#[tokio::test]
async fn several_hooks_of_an_event_run_at_once_and_the_strictest_counts() {
    let script = ScriptedProvider::new()
        .call("t1", "act", &say("one"))
        .say("done");
    let pre = HookEvent::PreToolUse;
    let decision = |word: &str, context: &str| {
        let fields = json!({ "permissionDecision": word, "additionalContext": context,
                             "permissionDecisionReason": format!("said {word}") });
        specific(pre, fields)
    };
    let rules = vec![
        rule(pre, &decision("allow", "c1")),
        rule(pre, &decision("deny", "c2")),
        rule(pre, &decision("ask", "c3")),
        // The same command again is not run again.
        rule(pre, &decision("deny", "c2")).matching("act"),
    ];
    // Each waits for all others.
    let barrier = Arc::new(Barrier::new(3));
    let Setting {
        builder, provider, ..
    } = answering(script, rules, move |rule, _| {
        let (barrier, outcome) = (Arc::clone(&barrier), as_told(rule));
        async move {
            barrier.wait().await;
            outcome
        }
        .boxed()
    });
    play(allowing(builder, &["act"])).await;
    // One result, whatever many hooks say.
    let expected = [(
        "permission denied, not run: said deny|c1|c2|c3".to_owned(),
        true,
    )];
    assert_eq!(results(&provider), expected);
}

#[tokio::test]
async fn a_consent_spares_a_question_and_beats_no_rule() {
    let allow = specific(
        HookEvent::PreToolUse,
        json!({ "permissionDecision": "allow" }),
    );
    let rules = || vec![rule(HookEvent::PreToolUse, &allow)];
    let script = || {
        ScriptedProvider::new()
            .call("t1", "act", &say("one"))
            .say("done")
    };
    let run = |policy: Policy| async {
        let Setting {
            builder,
            provider,
            ran,
            ..
        } = setting(script(), rules());
        play(builder.policy(policy)).await;
        let ran = ran.lock().unwrap().len();
        (ran, results(&provider).remove(0).0)
    };
    assert_eq!(run(Policy::default()).await, (1, "one".into()));
    let by_rule = |list: &[&str]| {
        list.iter()
            .map(|rule| rule.parse().unwrap())
            .collect::<Vec<_>>()
    };
    let asks = Policy {
        ask: by_rule(&["act"]),
        ..Policy::default()
    };
    let (ran, told) = run(asks).await;
    assert!(ran == 0 && told.contains("nobody to ask"), "{told}");
    let denies = Policy {
        deny: by_rule(&["act"]),
        ..Policy::default()
    };
    let (ran, told) = run(denies).await;
    assert!(ran == 0 && told.starts_with("permission denied"), "{told}");
}

#[tokio::test]
async fn what_runs_is_what_a_hook_has_written_and_that_is_on_record() {
    let pre = HookEvent::PreToolUse;
    let rewrite = |text: &str| specific(pre, json!({ "updatedInput": { "say": text } }));
    let rules = vec![rule(pre, &rewrite("first")), rule(pre, &rewrite("second"))];
    let script = ScriptedProvider::new()
        .call("t1", "act", &say("one"))
        .call("t2", "look", &say("two"))
        .say("done");
    let Setting {
        builder,
        provider,
        ran,
        ..
    } = setting(script, rules);
    let (_, warnings, entries) = play(allowing(builder, &["act"])).await;
    assert_eq!((*ran.lock().unwrap()).as_slice(), ["first", "first"]);
    // One warning for each call: the second hook is not heard.
    assert_eq!(warnings.len(), 2);
    assert!(
        warnings[0].contains("another hook has rewritten"),
        "{warnings:?}"
    );
    let names: Vec<_> = entries
        .iter()
        .map(|entry| {
            let value = serde_json::to_value(entry).unwrap();
            value.as_object().unwrap().keys().next().unwrap().clone()
        })
        .collect();
    let expected = [
        "message",
        "message",
        "call_rewritten",
        "call_started",
        "call_finished",
        "continue",
        "message",
        "call_rewritten",
        "call_finished",
        "continue",
        "message",
        "turn_end",
    ];
    assert_eq!(names, expected);
    // The model sees what it wrote.
    let history = format!("{:?}", provider.requests().last().unwrap().messages);
    assert!(
        history.contains(r#"say\":\"one"#) || history.contains(r#""say":"one""#),
        "{history}"
    );
}

#[tokio::test]
async fn after_a_call_hooks_add_to_its_one_result() {
    let post = HookEvent::PostToolUse;
    let rules = vec![
        rule(post, "exit 2 lint: one error"),
        rule(
            post,
            &specific(post, json!({ "additionalContext": "formatted" })),
        ),
        rule(
            HookEvent::PostToolUseFailure,
            &specific(
                HookEvent::PostToolUseFailure,
                json!({ "additionalContext": "look in the log" }),
            ),
        ),
    ];
    let script = ScriptedProvider::new()
        .calls(&[("t1", "look", &say("one")), ("t2", "look", &say("fail"))])
        .say("done");
    let Setting {
        builder,
        provider,
        fake,
        ..
    } = setting(script, rules);
    play(builder).await;
    let results = results(&provider);
    assert_eq!(
        results[0],
        (
            "one|a hook objects: lint: one error|formatted".into(),
            false
        )
    );
    assert_eq!(results[1], ("as it was told|look in the log".into(), true));
    let told = fake.told("tool_response");
    assert_eq!(told.len(), 3);
    assert_eq!(told[0].1, json!({ "content": "one", "is_error": false }));
}

#[tokio::test]
async fn a_stop_after_a_call_ends_the_turn_when_what_runs_is_done() {
    let post = HookEvent::PostToolUse;
    let stop = json!({ "continue": false, "stopReason": "enough" }).to_string();
    let script =
        ScriptedProvider::new().calls(&[("t1", "act", &say("one")), ("t2", "act", &say("two"))]);
    let Setting {
        builder,
        provider,
        ran,
        ..
    } = setting(script, vec![rule(post, &stop)]);
    let (report, _, entries) = play(allowing(builder, &["act"])).await;
    assert_eq!(
        report.end,
        TurnEnd::HookStopped {
            reason: "enough".into()
        }
    );
    assert_eq!((*ran.lock().unwrap()).as_slice(), ["one"]);
    assert_eq!(provider.requests().len(), 1);
    let finished = entries
        .iter()
        .filter(|entry| matches!(entry, Entry::CallFinished(_)));
    assert_eq!(finished.count(), 2);
}

#[tokio::test]
async fn a_prompt_is_blocked_or_added_to() {
    let submit = HookEvent::UserPromptSubmit;
    let script = ScriptedProvider::new().say("done");
    let Setting {
        builder,
        provider,
        fake,
        ..
    } = answering(
        script,
        vec![
            rule(submit, "any").matching("is not looked at"),
            rule(HookEvent::SessionStart, "it is Friday"),
        ],
        |rule, input| {
            let outcome = match input["prompt"].as_str() {
                Some(prompt) if prompt.contains("bad") => {
                    HookOutcome::exited(2, "", "no bad words")
                }
                Some(_) => HookOutcome::exited(0, "the branch is main", ""),
                None => as_told(rule),
            };
            std::future::ready(outcome).boxed()
        },
    );
    let session = builder.build().unwrap().session().unwrap();
    let blocked = session.prompt("a bad one").await.unwrap();
    let reason = "the prompt was not sent: no bad words".into();
    assert_eq!(blocked.end, TurnEnd::HookStopped { reason });
    assert_eq!(texts(&blocked.unsent[0]), "a bad one");
    assert_eq!((provider.requests().len(), blocked.steps), (0, 0));
    let report = session.prompt("a good one").await.unwrap();
    assert_eq!(report.end, TurnEnd::Completed);
    assert_eq!(
        prompts(&provider),
        ["a good one|it is Friday|the branch is main"]
    );
    session.close().await.unwrap();
    let events: Vec<_> = fake
        .told("source")
        .into_iter()
        .map(|(event, _)| event)
        .collect();
    assert_eq!(
        events,
        ["SessionStart", "UserPromptSubmit", "UserPromptSubmit"]
    );
}

/// A hook that never answers holds nothing up that the user does not want any more.
#[tokio::test]
async fn an_interrupt_while_a_prompt_waits_for_its_hook() {
    let asked = Arc::new(Notify::new());
    let told = Arc::clone(&asked);
    let Setting {
        builder, provider, ..
    } = answering(
        ScriptedProvider::new().say("done"),
        vec![rule(HookEvent::UserPromptSubmit, "never")],
        move |_, _| {
            told.notify_one();
            std::future::pending().boxed()
        },
    );
    let session = builder.build().unwrap().session().unwrap();
    let (report, ()) = tokio::join!(session.prompt("go"), async {
        asked.notified().await;
        assert!(matches!(
            session.prompt("again").await,
            Err(tooloop::SessionError::Busy)
        ));
        session.interrupt().await.unwrap();
    });
    let report = report.unwrap();
    assert!(matches!(report.end, TurnEnd::Interrupted { .. }));
    assert_eq!(texts(&report.unsent[0]), "go");
    assert_eq!(provider.requests().len(), 0);
    assert_eq!(session.transcript().await.unwrap().messages().len(), 0);
    session.close().await.unwrap();
}

/// The same for a call, and each is answered.
#[tokio::test]
async fn an_interrupt_while_a_call_waits_for_its_hook() {
    let asked = Arc::new(Notify::new());
    let told = Arc::clone(&asked);
    let script = ScriptedProvider::new()
        .call("t1", "act", &say("one"))
        .say("done");
    let Setting {
        builder,
        provider,
        ran,
        ..
    } = answering(
        script,
        vec![rule(HookEvent::PreToolUse, "never")],
        move |_, _| {
            told.notify_one();
            std::future::pending().boxed()
        },
    );
    let session = builder.build().unwrap().session().unwrap();
    let (report, ()) = tokio::join!(session.prompt("go"), async {
        asked.notified().await;
        session.interrupt().await.unwrap();
    });
    assert!(matches!(report.unwrap().end, TurnEnd::Interrupted { .. }));
    session.prompt("again").await.unwrap();
    let told = results(&provider).remove(0).0;
    assert_eq!(told, "not run: the user interrupted before this call began");
    assert!(ran.lock().unwrap().is_empty());
    session.close().await.unwrap();
}

/// Answers when it is told to.
struct Slow(Arc<Notify>);

impl Approver for Slow {
    fn decide(&self, _: Question) -> BoxFuture<'static, Reply> {
        let answer = Arc::clone(&self.0);
        async move {
            answer.notified().await;
            Reply::Deny {
                reason: "the person says no".into(),
            }
        }
        .boxed()
    }
}

#[tokio::test]
async fn a_question_is_answered_by_whoever_is_first() {
    let request = HookEvent::PermissionRequest;
    let allow = specific(
        request,
        json!({ "decision": {
        "behavior": "allow", "updatedInput": { "say": "other" },
    } }),
    );
    let deny = specific(
        request,
        json!({ "decision": { "behavior": "deny", "message": "no" } }),
    );
    let script = || {
        ScriptedProvider::new()
            .call("t1", "act", &say("one"))
            .say("done")
    };
    let never = || Approval::By(Arc::new(Slow(Arc::new(Notify::new()))));
    // A hook, while a person thinks about it; a hook, where nobody is.
    for approval in [never(), Approval::Nobody] {
        let Setting { builder, ran, .. } = setting(script(), vec![rule(request, &allow)]);
        play(builder.approval(approval)).await;
        assert_eq!((*ran.lock().unwrap()).as_slice(), ["other"]);
    }
    let Setting {
        builder, provider, ..
    } = setting(script(), vec![rule(request, &deny)]);
    play(builder.approval(never())).await;
    assert_eq!(results(&provider)[0].0, "permission denied, not run: no");
    // A person, while a hook thinks about it.
    let answer = Arc::new(Notify::new());
    answer.notify_one();
    let Setting {
        builder, provider, ..
    } = answering(script(), vec![rule(request, "never")], |_, _| {
        std::future::pending().boxed()
    });
    play(builder.approval(Approval::By(Arc::new(Slow(answer))))).await;
    assert!(results(&provider)[0].0.contains("the person says no"));
    // A rule that asks wants a person.
    let Setting {
        builder,
        provider,
        ran,
        ..
    } = setting(script(), vec![rule(request, &allow)]);
    let policy = Policy {
        ask: vec!["act".parse().unwrap()],
        ..Policy::default()
    };
    let (_, warnings, _) = play(builder.policy(policy)).await;
    assert!(ran.lock().unwrap().is_empty());
    assert!(results(&provider)[0].0.contains("nobody to ask"));
    assert!(
        warnings[0].contains("a rule wants this asked"),
        "{warnings:?}"
    );
}

#[tokio::test]
async fn stop_hooks_object_at_most_eight_times() {
    let stop = HookEvent::Stop;
    let script = (0..9).fold(ScriptedProvider::new(), |script, _| script.say("done"));
    let Setting {
        builder,
        provider,
        fake,
        ..
    } = setting(script, vec![rule(stop, "exit 2 the tests fail")]);
    let (report, warnings, _) = play(builder).await;
    assert_eq!(report.end, TurnEnd::Completed);
    assert_eq!(provider.requests().len(), 9);
    let active: Vec<_> = fake
        .told("stop_hook_active")
        .into_iter()
        .map(|(_, active)| active)
        .collect();
    let mut expected = vec![Value::from(true); 9];
    expected[0] = false.into();
    assert_eq!(active, expected);
    assert!(warnings[0].contains("objected eight times"), "{warnings:?}");
    assert_eq!(
        prompts(&provider)
            .iter()
            .filter(|said| *said == "the tests fail")
            .count(),
        8
    );
}

#[tokio::test]
async fn failures_are_told_and_stop_nothing() {
    let script = ScriptedProvider::new()
        .call("t1", "look", &say("one"))
        .say("done");
    let rules = vec![
        rule(HookEvent::PreToolUse, "exit 1 it is broken"),
        rule(HookEvent::PreToolUse, "{\"decision\": \"block\""),
        rule(HookEvent::SessionEnd, "{\"systemMessage\": \"goodbye\"}"),
    ];
    let Setting {
        builder, provider, ..
    } = setting(script, rules);
    let (report, warnings, _) = play(builder).await;
    assert_eq!(report.end, TurnEnd::Completed);
    // A decision may be in the broken JSON, and no one can be asked.
    let [(result, is_error)] = &results(&provider)[..] else {
        panic!("there is one result");
    };
    assert!(
        *is_error && result.contains("begins like JSON and is none"),
        "{result}"
    );
    assert_eq!(warnings.len(), 3);
    assert!(warnings[0].contains("test:1") && warnings[0].contains("status 1: it is broken"));
    assert!(warnings[1].contains("begins like JSON and is none"));
    assert_eq!(warnings[2], "hook test:1 says: goodbye");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_session_does_not_wait_long() {
    let rules = vec![rule(HookEvent::SessionEnd, "slow")];
    let Setting { builder, .. } =
        answering(ScriptedProvider::new().say("done"), rules, |rule, _| {
            assert_eq!(rule.timeout, std::time::Duration::from_millis(1500));
            let timeout = rule.timeout;
            async move {
                tokio::time::sleep(timeout).await;
                HookOutcome {
                    end: HookEnd::TimedOut,
                    ..HookOutcome::exited(0, "", "")
                }
            }
            .boxed()
        });
    let (_, warnings, _) = play(builder).await;
    assert!(
        warnings[0].contains("took longer than 1.5 s"),
        "{warnings:?}"
    );
}

#[test]
fn a_broken_matcher_names_its_place() {
    let rules = vec![rule(HookEvent::PreToolUse, "any").matching("Bash(")];
    let Setting { builder, .. } = setting(ScriptedProvider::new(), rules);
    let error = builder.build().unwrap_err().to_string();
    assert!(
        error.starts_with("hook test:1: the matcher \"Bash(\" is no"),
        "{error}"
    );
}
