//! Recorded sessions are played again.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may fail where it stands"
)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tooloop::hooks::{HookEvent, HookOutcome, HookRule, HookRunner, Hooks};
use tooloop::journal::{Flush, SessionId, Store, StoreError};
use tooloop::provider::{
    Cassette, CassetteProvider, ModelStream, Provider, RecordingProvider, Redactor,
    Reply as ModelReply, ScriptedProvider,
};
use tooloop::replay::{Recording, Replay, Replayed};
use tooloop::{
    Access, Agent, AgentBuilder, Approval, Approver, BlockStart, Continue, DynTool, Entry, Event,
    Limits, Mode, ModelError, ModelErrorKind, ModelInfo, Money, OutputSchema, Policy, Price,
    Question, Reply, RetryPolicy, StopHook, StopJudgement, StopReason, Stopping, StreamEvent, Tool,
    ToolContext, ToolDefinition, ToolError, ToolFuture, ToolOutput, ToolUseId, TurnEnd, Usage,
    tool,
};
use tooloop_model::{JsonObject, Request};

#[derive(Deserialize, JsonSchema)]
struct Input {
    say: String,
}

/// Says what it is told to say, or what another run of it would.
struct Echo {
    name: &'static str,
    effectful: bool,
    other: bool,
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
        match (input.say.as_str(), self.other) {
            ("fail", _) => Err(ToolError::Failed("as it was told".into())),
            (text, false) => Ok(ToolOutput::text(format!("{text}\nin 0.3 s"))),
            (text, true) => Ok(ToolOutput::text(format!("{text}, or so\nin 0.4 s"))),
        }
    }
}

/// Keeps entries where the test sees them.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<Entry>>>);

impl Kept {
    fn entries(&self) -> Vec<Entry> {
        self.0.lock().unwrap().clone()
    }
}

impl Store for Kept {
    fn session(&self) -> SessionId {
        SessionId::generate()
    }

    fn append(&mut self, entries: &[Entry]) -> Result<(), StoreError> {
        self.0.lock().unwrap().extend_from_slice(entries);
        Ok(())
    }

    fn flush(&self) -> Flush {
        Flush::Blocking(Arc::new(|| Ok(())))
    }
}

/// Says yes, no, and yes for always, by what is to be said.
struct Decider;

impl Approver for Decider {
    fn decide(&self, question: Question) -> BoxFuture<'static, Reply> {
        let input = question.tool_use.input.json();
        let reply = if input.contains("denied") {
            Reply::Deny {
                reason: "not that".into(),
            }
        } else if input.contains("always") {
            Reply::AllowForSession
        } else {
            Reply::Allow
        };
        std::future::ready(reply).boxed()
    }
}

fn builder(provider: ScriptedProvider) -> AgentBuilder {
    Agent::builder()
        .provider(Arc::new(provider))
        .model("scripted")
        .approval(Approval::By(Arc::new(Decider)))
        .retry(RetryPolicy {
            base: Duration::ZERO,
            max_attempts: 4,
            ..RetryPolicy::default()
        })
        .output_tokens(100, Some(200))
}

fn tools(builder: AgentBuilder, other: bool) -> AgentBuilder {
    let echo = |name, effectful| Echo {
        name,
        effectful,
        other,
    };
    builder
        .tool(echo("look", false))
        .tool(echo("act", true))
        .dyn_tool(Arc::new(Odd))
}

/// Cannot say what it would touch, in words of its own.
struct Odd;

impl DynTool for Odd {
    fn definition(&self) -> ToolDefinition {
        let echo = Echo {
            name: "odd",
            effectful: false,
            other: false,
        };
        tool(echo).definition()
    }

    fn access(&self, _: &JsonObject) -> Result<Access, ToolError> {
        Err(ToolError::Failed("that is odd".into()))
    }

    fn run<'a>(&'a self, _: &'a JsonObject, _: &'a ToolContext) -> ToolFuture<'a> {
        Box::pin(async { Ok(ToolOutput::text("never")) })
    }
}

fn say(text: &str) -> Value {
    json!({ "say": text })
}

/// A reply of several calls.
fn calls(calls: &[(&str, &str, &str)], stop_reason: StopReason) -> Vec<StreamEvent> {
    let mut events = vec![StreamEvent::Usage(Usage {
        input_tokens: 10,
        output_tokens: 5,
        ..Usage::default()
    })];
    for (index, (id, name, json)) in calls.iter().enumerate() {
        let id = ToolUseId((*id).into());
        let name = (*name).into();
        let json = (*json).into();
        events.extend([
            StreamEvent::BlockStart {
                index,
                block: BlockStart::ToolUse { id, name },
            },
            StreamEvent::InputDelta { index, json },
            StreamEvent::BlockStop { index },
        ]);
    }
    events.push(StreamEvent::MessageStop { stop_reason });
    events
}

fn text(text: &str, stop: Option<StopReason>) -> Vec<StreamEvent> {
    let mut events = vec![
        StreamEvent::BlockStart {
            index: 0,
            block: BlockStart::Text,
        },
        StreamEvent::TextDelta {
            index: 0,
            text: text.into(),
        },
        StreamEvent::Usage(Usage {
            input_tokens: 7,
            output_tokens: 3,
            ..Usage::default()
        }),
    ];
    events.extend(stop.map(|stop_reason| StreamEvent::MessageStop { stop_reason }));
    events
}

/// A session with a bit of everything: calls beside each other, calls that are asked about, refused
/// and rejected, failures, a cut reply, the same call again and again.
fn script() -> ScriptedProvider {
    let (one, two, no) = (
        say("one").to_string(),
        say("two").to_string(),
        say("denied").to_string(),
    );
    let always = say("always").to_string();
    let overloaded = || ModelError::new(ModelErrorKind::Overloaded, "no room");
    let mut broken: Vec<_> = text("half", None).into_iter().map(Ok).collect();
    broken.push(Err(ModelError::new(ModelErrorKind::CutStream, "cut")));
    let same = |id: &str| {
        let input = say("same").to_string();
        calls(&[(id, "look", &input)], StopReason::ToolUse)
    };
    ScriptedProvider::new()
        .events(calls(
            &[
                ("t1", "look", &one),
                ("t2", "act", &two),
                ("t3", "act", &no),
                ("t4", "none", &one),
                ("t5", "look", "{\"say\":"),
                ("t6", "look", "{}"),
                ("t7", "look", &two),
                ("t10", "odd", "{}"),
            ],
            StopReason::ToolUse,
        ))
        .fail(overloaded())
        .then(ModelReply::Events(broken))
        .events(calls(
            &[
                ("t8", "act", &always),
                ("t9", "look", &one),
                ("t2", "look", &two),
            ],
            StopReason::ToolUse,
        ))
        .events(text("too long", Some(StopReason::MaxTokens)))
        .events(text("too long again", Some(StopReason::MaxTokens)))
        .events(same("s1"))
        .events(same("s2"))
        .events(same("s3"))
        .events(same("s4"))
        .events(text("done", Some(StopReason::EndTurn)))
        .say("second")
}

async fn recorded(agent: &Agent) -> Vec<Entry> {
    let kept = Kept::default();
    let session = agent.session_on(Box::new(kept.clone()), &[]);
    session.prompt("go").await.unwrap();
    session.prompt("and again").await.unwrap();
    session.close().await.unwrap();
    kept.entries()
}

fn replayed(recording: &Recording) -> Replayed {
    Replay::new(recording).run(|_| {})
}

fn assert_same(entries: Vec<Entry>) -> Replayed {
    let recording = Recording::of(entries.clone());
    let replayed = replayed(&recording);
    if let Some(difference) = &replayed.difference {
        panic!("{difference}\n{entries:#?}");
    }
    assert_eq!(replayed.entries, entries.len());
    replayed
}

#[tokio::test]
async fn a_session_with_a_bit_of_everything() {
    let agent = tools(builder(script()), false).build().unwrap();
    let entries = recorded(&agent).await;
    let count = |is: fn(&Entry) -> bool| entries.iter().filter(|entry| is(entry)).count();
    assert_eq!(count(|entry| matches!(entry, Entry::Retry { .. })), 2);
    assert_eq!(count(|entry| matches!(entry, Entry::Permission { .. })), 3);
    let replayed = assert_same(entries.clone());
    assert_eq!((replayed.turns, replayed.unfinished), (2, false));
    assert_eq!(replayed.report.unwrap().text, "second");
    // What a front end is told is the same but for the names of things under way.
    let mut told = Vec::new();
    Replay::new(&Recording::of(entries.clone())).run(|event| {
        if let Event::Recorded(entry) = event {
            told.push((*entry).clone());
        }
    });
    assert_eq!(told, entries);
}

/// A process may die behind any entry, and another one goes on.
#[tokio::test]
async fn a_death_behind_any_entry() {
    let agent = tools(builder(script()), false).build().unwrap();
    let entries = recorded(&agent).await;
    for length in 1..entries.len() {
        let past = entries[..length].to_vec();
        assert_same(past.clone());
        let after = ScriptedProvider::new()
            .call("r1", "look", &say("one").to_string())
            .say("resumed");
        let agent = tools(builder(after), false).build().unwrap();
        let kept = Kept(Arc::new(Mutex::new(past.clone())));
        let session = agent.session_on(Box::new(kept.clone()), &past);
        session.prompt("go on").await.unwrap();
        session.close().await.unwrap();
        assert_same(kept.entries());
    }
}

/// Whatever is another entry is found, and its number told.
#[tokio::test]
async fn an_entry_that_was_changed() {
    let agent = tools(builder(script()), false).build().unwrap();
    let entries = recorded(&agent).await;
    let mut changed = 0;
    for at in 0..entries.len() {
        let mut other = entries.clone();
        match &mut other[at] {
            Entry::CallStarted { tool_use_id } => *tool_use_id = "other".into(),
            Entry::Discarded { usage } => usage.output_tokens += 1,
            Entry::Continue(reason) => *reason = Continue::PauseTurn,
            Entry::Retry { attempt, .. } => *attempt += 1,
            Entry::TurnEnd(end) => *end = TurnEnd::OutputLimit,
            Entry::CallFinished(result) if !result.is_error => {
                result.tool_use_id = "other".into();
            }
            _ => continue,
        }
        if matches!(entries[at], Entry::Discarded { .. }) {
            // What a reply used is only known from here.
            continue;
        }
        changed += 1;
        let difference = replayed(&Recording::of(other)).difference;
        let record = difference
            .unwrap_or_else(|| panic!("{at}: {:?}", entries[at]))
            .record;
        let record = usize::try_from(record.unwrap()).unwrap();
        assert!(record <= at + 2, "record {record} for entry {}", at + 1);
    }
    assert!(changed > 20, "{changed}");
    // What is left out, or comes twice.
    for at in 0..entries.len() {
        for twice in [false, true] {
            let mut other = entries.clone();
            if twice {
                other.insert(at, entries[at].clone());
            } else {
                other.remove(at);
            }
            let is_said =
                |entry: &Entry| matches!(entry, Entry::Message(_) | Entry::Permission { .. });
            let recording = Recording::of(other);
            // Another prompt, reply or permission may make a session of its own.
            if !is_said(&entries[at])
                && at + 1 < entries.len()
                && !matches!(entries[at], Entry::Discarded { .. })
            {
                assert!(
                    replayed(&recording).difference.is_some(),
                    "{at} {twice}: {:?}",
                    entries[at]
                );
            }
        }
    }
}

#[tokio::test]
async fn tools_that_come_to_something_else() {
    let agent = tools(builder(script()), false).build().unwrap();
    let recording = Recording::of(recorded(&agent).await);
    let run = |other| {
        let agent = tools(builder(ScriptedProvider::new()), other)
            .build()
            .unwrap();
        let recording = &recording;
        async move { Replay::new(recording).run_with_tools(&agent, |_| {}).await }
    };
    let same = run(false).await;
    assert!(same.is_same(), "{same:?}");
    let other = run(true).await;
    assert_eq!(other.difference, None);
    let first = &other.tools[0];
    assert_eq!(
        (&*first.tool, &*first.diff),
        (
            "look",
            "--- recorded\n+++ live\n@@ -1,2 +1,2 @@\n-one\n+one, or so\n in <time>\n"
        )
    );
    // What the policy does not let run is told as well.
    let plan = tools(builder(ScriptedProvider::new()), false)
        .policy(Policy {
            mode: Mode::DontAsk,
            ..Policy::default()
        })
        .build()
        .unwrap();
    let refused = Replay::new(&recording).run_with_tools(&plan, |_| {}).await;
    let diffs: Vec<_> = refused.tools.iter().map(|tool| &tool.diff).collect();
    assert!(
        diffs
            .iter()
            .all(|diff| diff.contains("+permission denied, not run: ")),
        "{diffs:?}"
    );
    assert_eq!(diffs.len(), 2);
}

/// A recording holds the model's part as well: each request is compared.
#[tokio::test]
async fn a_recording_with_the_models_part() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let cassette = Cassette::create(&path, Redactor::default()).unwrap();
    let provider = RecordingProvider::onto(Arc::new(script()), cassette.clone());
    let agent = tools(builder(script()), false)
        .provider(Arc::new(provider))
        .recording(cassette.clone())
        .build()
        .unwrap();
    let entries = recorded(&agent).await;
    assert_eq!(cassette.problem(), None);
    let recording = Recording::open(&path).unwrap();
    let same = replayed(&recording);
    assert_eq!(same.difference, None);
    assert_eq!((same.entries, same.calls_left), (entries.len(), 0));
    // A second session of the agent is not recorded, and says so.
    let second = agent.session_on(Box::new(Kept::default()), &[]);
    assert_eq!(
        second.warnings(),
        ["this session is not recorded: a recording holds one session"]
    );
    second.close().await.unwrap();

    // Another request than the recorded one.
    let mut other = recording.clone();
    other.calls[6].request.messages[0] = Arc::new(json!({"user": [{"text": "stop"}]}));
    let words = replayed(&other).difference.unwrap().words;
    assert!(
        words.starts_with(
            "the messages of the request differ from those of call 7 at /0/user/0/text: "
        ),
        "{words}"
    );
    // The same file answers an agent without its session.
    let provider = Arc::new(CassetteProvider::open(&path).unwrap());
    let agent = tools(builder(ScriptedProvider::new()), false)
        .provider(Arc::clone(&provider) as _)
        .build()
        .unwrap();
    let again = recorded(&agent).await;
    provider.finish().unwrap();
    assert_eq!(again.len(), entries.len());
}

/// A recording of a session that is gone on with begins with its past.
#[tokio::test]
async fn a_recording_of_a_resumed_session() {
    let agent = tools(builder(script()), false).build().unwrap();
    let entries = recorded(&agent).await;
    // The process died while the first calls ran.
    let past = &entries[..4];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let cassette = Cassette::create(&path, Redactor::default()).unwrap();
    let script = Arc::new(ScriptedProvider::new().say("resumed"));
    let agent = tools(builder(ScriptedProvider::new()), false)
        .provider(Arc::new(RecordingProvider::onto(script, cassette.clone())))
        .recording(cassette)
        .build()
        .unwrap();
    let session = agent.session_on(Box::new(Kept::default()), past);
    session.prompt("go on").await.unwrap();
    session.close().await.unwrap();
    let recording = Recording::open(&path).unwrap();
    assert_eq!(recording.past, past);
    let replayed = replayed(&recording);
    assert_eq!(replayed.difference, None);
    assert_eq!(replayed.report.unwrap().text, "resumed");
}

#[test]
fn a_file_with_model_calls_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.jsonl");
    std::fs::write(
        &path,
        "{\"tooloop_cassette\":1}\n{\"call\":{\"number\":1,\"model\":\"m\",\"info\":{\"context_window\":1,\
         \"max_output_tokens\":1,\"images\":false},\"messages\":[],\"reply\":{\"events\":[]}}}\n",
    )
    .unwrap();
    let error = Recording::open(&path).unwrap_err().to_string();
    assert!(error.contains("model calls but no session"), "{error}");
}

/// What a session with these replies comes to, with each prompt a turn.
async fn session(builder: AgentBuilder, prompts: &[&str]) -> Vec<Entry> {
    let agent = tools(builder, false).build().unwrap();
    let kept = Kept::default();
    let session = agent.session_on(Box::new(kept.clone()), &[]);
    for prompt in prompts {
        session.prompt(*prompt).await.unwrap();
    }
    session.close().await.unwrap();
    kept.entries()
}

/// The session replays, and so does what is left of it by a death behind any entry.
async fn replays(entries: Vec<Entry>, end: &str) {
    let newest = entries.iter().rev().find_map(|entry| match entry {
        Entry::TurnEnd(end) => Some(format!("{end:?}")),
        _ => None,
    });
    let newest = newest.unwrap();
    assert!(newest.starts_with(end), "{newest}");
    for length in 1..entries.len() {
        let past = entries[..length].to_vec();
        assert_same(past.clone());
        let agent = tools(builder(ScriptedProvider::new().say("resumed")), false);
        let agent = agent.build().unwrap();
        let kept = Kept(Arc::new(Mutex::new(past.clone())));
        let session = agent.session_on(Box::new(kept.clone()), &past);
        session.prompt("go on").await.unwrap();
        session.close().await.unwrap();
        assert_same(kept.entries());
    }
    assert_same(entries);
}

fn info(price: bool, structured_output: bool) -> ModelInfo {
    let price = price.then_some(Price {
        input: 3.0,
        output: 15.0,
        cache_read: 0.3,
        cache_write: 3.75,
    });
    ModelInfo {
        context_window: 200_000,
        max_output_tokens: 8_192,
        price,
        images: true,
        structured_output,
    }
}

/// As many replies with a call as anybody wants, each another one.
fn endless(name: &str) -> ScriptedProvider {
    (0..40).fold(ScriptedProvider::new(), |script, number| {
        let (id, input) = (format!("e{number}"), say(&number.to_string()).to_string());
        script.events(calls(
            &[(&id, name, &input), (&format!("f{number}"), name, &input)],
            StopReason::ToolUse,
        ))
    })
}

#[tokio::test]
async fn limits_that_were_reached() {
    let limits = |limits| builder(endless("act")).limits(limits);
    let tool_calls = Limits {
        tool_calls: Some(3),
        ..Limits::default()
    };
    replays(session(limits(tool_calls), &["go"]).await, "MaxToolCalls").await;
    let looking = builder(endless("look")).limits(tool_calls);
    replays(session(looking, &["go"]).await, "MaxToolCalls").await;
    let tokens = Limits {
        tokens: Some(500),
        ..Limits::default()
    };
    replays(
        session(limits(tokens), &["go", "on"]).await,
        "Budget(Tokens",
    )
    .await;
    let cost = Limits {
        cost: Some(Money(1_500_000)),
        ..Limits::default()
    };
    let priced = builder(endless("act").with_info(info(true, false))).limits(cost);
    replays(session(priced, &["go"]).await, "Budget(Cost").await;
    replays(session(limits(cost), &["go"]).await, "Budget(UnknownPrice").await;
    let turns = builder(endless("act")).max_turns(3);
    replays(session(turns, &["go", "on"]).await, "MaxTurns").await;
    let time = Limits {
        time: Some(Duration::from_millis(30)),
        ..Limits::default()
    };
    let script = ScriptedProvider::new()
        .call("t1", "act", &say("one").to_string())
        .then(ModelReply::Hold(text("half", None)));
    replays(
        session(builder(script).limits(time), &["go"]).await,
        "Deadline",
    )
    .await;
}

#[tokio::test]
async fn prices_without_a_limit() {
    let priced = builder(script().with_info(info(true, false)));
    let entries = session(priced, &["go", "on"]).await;
    assert!(
        entries
            .iter()
            .any(|entry| matches!(entry, Entry::Spent { .. }))
    );
    replays(entries, "Completed").await;
}

#[tokio::test]
async fn another_model_takes_over() {
    let overloaded = || ModelError::new(ModelErrorKind::Overloaded, "no room");
    let script = ScriptedProvider::new()
        .fail(overloaded())
        .fail(overloaded())
        .fail(overloaded())
        .fail(overloaded())
        .events(text("cut", Some(StopReason::MaxTokens)))
        .say("done")
        .say("again");
    let builder = builder(script).fallback_model("other", Some(100), Some(200));
    let entries = session(builder, &["go", "on"]).await;
    let falls = |entry: &Entry| matches!(entry, Entry::Continue(Continue::FallbackModel { .. }));
    assert!(entries.iter().any(falls));
    replays(entries, "Completed").await;
}

#[tokio::test]
async fn answers_of_a_form() {
    let schema = || OutputSchema::parse(r#"{"type": "object", "required": ["a"]}"#).unwrap();
    let form = |script: ScriptedProvider, native| {
        builder(script.with_info(info(false, native))).output_schema(schema())
    };
    let native = ScriptedProvider::new()
        .say("no")
        .say("{}")
        .call("t1", "look", &say("one").to_string())
        .say(r#"{"a": 1}"#)
        .say("no");
    replays(session(form(native, true), &["go"]).await, "Completed").await;
    let never = (0..8).fold(ScriptedProvider::new(), |script, _| script.say("no"));
    replays(
        session(form(never, true), &["go"]).await,
        "StructuredOutputFailed",
    )
    .await;

    // By a tool: its name is what the model is told.
    let probe = Arc::new(ScriptedProvider::new().say("no"));
    let agent = form(ScriptedProvider::new(), false).provider(Arc::clone(&probe) as _);
    let agent = agent.build().unwrap();
    let asking = agent.session_on(Box::new(Kept::default()), &[]);
    asking.prompt("go").await.unwrap();
    asking.close().await.unwrap();
    let name = probe.requests()[0].tools[0].name.clone();
    let tool = ScriptedProvider::new()
        .say("no")
        .call("t1", &name, "{}")
        .call("t2", "look", &say("one").to_string())
        .call("t3", &name, r#"{"a": 1}"#)
        .say("more");
    replays(session(form(tool, false), &["go"]).await, "Completed").await;
    let never = (0..8).fold(ScriptedProvider::new(), |script, number| {
        script.call(&format!("t{number}"), &name, "{}")
    });
    let end = "StructuredOutputFailed";
    replays(session(form(never, false), &["go"]).await, end).await;
}

/// Objects twice, then ends it.
#[derive(Debug, Default)]
struct Objector(Mutex<u32>);

impl StopHook for Objector {
    fn judge(&self, _: Stopping) -> BoxFuture<'static, StopJudgement> {
        let mut count = self.0.lock().unwrap();
        *count += 1;
        let reason = "and the tests?".to_owned();
        let judgement = match *count {
            1 | 2 => StopJudgement::GoOn { reason },
            3 => StopJudgement::Done,
            _ => StopJudgement::End { reason },
        };
        std::future::ready(judgement).boxed()
    }
}

#[tokio::test]
async fn stop_hooks_and_pauses_and_what_was_taken_back() {
    let script = ScriptedProvider::new()
        .events(text("a while", Some(StopReason::Pause)))
        .say("one")
        .call("t1", "act", &say("one").to_string())
        .say("two")
        .say("three")
        .say("four");
    let hooked = builder(script).stop_hook(Arc::new(Objector::default()));
    let entries = session(hooked, &["go", "on"]).await;
    replays(entries, "StopHookPrevented").await;

    let agent = builder(ScriptedProvider::new().say("one").say("two").say("three"));
    let agent = agent.build().unwrap();
    let kept = Kept::default();
    let session = agent.session_on(Box::new(kept.clone()), &[]);
    session.prompt("first").await.unwrap();
    session.prompt("second").await.unwrap();
    session.rewind(2).await.unwrap();
    session.prompt("third").await.unwrap();
    session.close().await.unwrap();
    replays(kept.entries(), "Completed").await;
}

/// Says what another one says, so slowly that tools are done meanwhile.
#[derive(Debug)]
struct Slow(ScriptedProvider);

impl Provider for Slow {
    fn name(&self) -> &str {
        "slow"
    }

    fn info(&self, model: &str) -> ModelInfo {
        self.0.info(model)
    }

    fn stream(
        &self,
        request: Request,
        cancel: CancellationToken,
    ) -> BoxFuture<'_, Result<ModelStream, ModelError>> {
        Box::pin(async move {
            let stream = self.0.stream(request, cancel).await?;
            let slow = stream.then(|event| async {
                for _ in 0..50 {
                    tokio::task::yield_now().await;
                }
                event
            });
            Ok(Box::pin(slow) as ModelStream)
        })
    }
}

/// What was read while the model was still writing was answered before what needs no answer of a
/// tool.
#[tokio::test]
async fn a_call_that_was_done_before_its_message() {
    let one = say("one").to_string();
    let script = ScriptedProvider::new()
        .events(calls(
            &[
                ("t1", "look", &one),
                ("t2", "look", "{\"say\":"),
                ("t3", "none", "{}"),
            ],
            StopReason::ToolUse,
        ))
        .say("done");
    let slow = builder(ScriptedProvider::new()).provider(Arc::new(Slow(script)));
    let entries = session(slow, &["go"]).await;
    let answered = entries.iter().find_map(|entry| match entry {
        Entry::CallFinished(result) => Some(result.tool_use_id.0.clone()),
        _ => None,
    });
    assert_eq!(answered.as_deref(), Some("t1"));
    replays(entries, "Completed").await;
}

/// Says of each call what stands in its input.
#[derive(Debug)]
struct ByInput;

impl HookRunner for ByInput {
    fn run(&self, rule: &HookRule, input: Value) -> BoxFuture<'static, HookOutcome> {
        let said = input["tool_input"]["say"].as_str().unwrap_or_default();
        let fields = match (rule.event, said) {
            (HookEvent::PreToolUse, "rewrite") => json!({ "updatedInput": say("other") }),
            (HookEvent::PreToolUse, "deny") => json!({
                "permissionDecision": "deny", "permissionDecisionReason": "no",
                "additionalContext": "and why",
            }),
            (HookEvent::PreToolUse, "ask") => json!({
                "permissionDecision": "ask", "updatedInput": say("asked"),
                "additionalContext": "beside",
            }),
            (HookEvent::PreToolUse, "allow") => json!({ "permissionDecision": "allow" }),
            (HookEvent::PostToolUse, "stop") => {
                let printed = json!({ "continue": false, "stopReason": "enough" }).to_string();
                return std::future::ready(HookOutcome::exited(0, printed, "")).boxed();
            }
            (HookEvent::PostToolUse, _) => json!({ "additionalContext": "seen" }),
            _ => json!({}),
        };
        let printed = json!({ "hookSpecificOutput": fields }).to_string();
        std::future::ready(HookOutcome::exited(0, printed, "")).boxed()
    }
}

#[tokio::test]
async fn what_hooks_said() {
    let input = |words: &str| say(words).to_string();
    let (rewrite, deny, ask) = (input("rewrite"), input("deny"), input("ask"));
    let (allow, stop, last) = (input("allow"), input("stop"), input("last"));
    let script = ScriptedProvider::new()
        .events(calls(
            &[
                ("t1", "look", &rewrite),
                ("t2", "act", &rewrite),
                ("t3", "act", &deny),
                ("t4", "look", &ask),
                ("t5", "act", &allow),
            ],
            StopReason::ToolUse,
        ))
        .events(calls(
            &[
                ("t6", "act", &stop),
                ("t7", "look", &last),
                ("t8", "act", &last),
            ],
            StopReason::ToolUse,
        ));
    let rule = |event| HookRule::new(event, "any");
    let hooked = builder(script).hooks(Hooks {
        rules: vec![rule(HookEvent::PreToolUse), rule(HookEvent::PostToolUse)],
        runner: Arc::new(ByInput),
    });
    let entries = session(hooked, &["go"]).await;
    let rewritten = entries
        .iter()
        .filter(|entry| matches!(entry, Entry::CallRewritten { .. }));
    assert_eq!(rewritten.count(), 3);
    replays(entries, "HookStopped").await;
}
