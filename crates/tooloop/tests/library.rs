//! The library as a program that embeds it sees it.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may fail where it stands"
)]

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::{Notify, mpsc};
use tooloop::journal::{Catalog, Flush, MemoryStore, SessionId, Store, StoreError};
use tooloop::provider::{Reply as ModelReply, ScriptedProvider};
use tooloop::{
    Access, Agent, AgentBuilder, Approval, Approver, BlockStart, Budget, During, Entry, Event,
    Interrupter, Ledger, Limits, Message, ModelError, ModelErrorKind, Money, Question, Reply,
    RetryPolicy, SessionError, StopHook, StopJudgement, StopReason, Stopping, StreamEvent, Tool,
    ToolContext, ToolError, ToolOutput, ToolUseId, TurnEnd, Usage, Work,
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// What a test's tool does.
#[derive(Clone)]
enum Act {
    Say(&'static str),
    Panic,
    /// Tells that it runs, then waits to be cancelled.
    Wait(Arc<Notify>),
    /// Begins work that has ended by the time that it answers.
    Finish(&'static str),
    /// Begins work and hands it over.
    Begin(mpsc::UnboundedSender<Work>),
}

struct Probe {
    name: &'static str,
    effectful: bool,
    act: Act,
}

impl Tool for Probe {
    type Input = Nothing;

    fn name(&self) -> &str {
        self.name
    }

    fn description(&self) -> &str {
        "A probe."
    }

    fn access(&self, _: &Nothing) -> Access {
        if self.effectful {
            Access::effectful()
        } else {
            Access::read_only()
        }
    }

    async fn run(&self, _: Nothing, context: &ToolContext) -> Result<ToolOutput, ToolError> {
        match &self.act {
            Act::Say(text) => Ok(ToolOutput::text(*text)),
            Act::Panic => panic!("the tool's own fault"),
            Act::Wait(running) => {
                running.notify_one();
                context.cancellation.cancelled().await;
                Err(ToolError::Cancelled)
            }
            Act::Finish(notice) => {
                context.background.begin("work").finish(*notice);
                Ok(ToolOutput::text("begun"))
            }
            Act::Begin(begun) => {
                begun.send(context.background.begin("work")).unwrap();
                Ok(ToolOutput::text("begun"))
            }
        }
    }
}

fn probe(name: &'static str, act: Act) -> Probe {
    Probe {
        name,
        effectful: false,
        act,
    }
}

fn agent(provider: ScriptedProvider) -> (AgentBuilder, Arc<ScriptedProvider>) {
    let provider = Arc::new(provider);
    let builder = Agent::builder()
        .provider(Arc::clone(&provider) as _)
        .model("scripted")
        .retry(RetryPolicy {
            base: std::time::Duration::ZERO,
            ..RetryPolicy::default()
        });
    (builder, provider)
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
    let text = |content: &[tooloop::Content]| format!("{content:?}");
    newest
        .unwrap()
        .iter()
        .map(|result| (text(&result.content), result.is_error))
        .collect()
}

#[tokio::test]
async fn what_goes_wrong_in_a_call_is_told_to_the_model_and_the_turn_goes_on() {
    let script = ScriptedProvider::new()
        .call("t1", "broken", "{}")
        .call("t2", "Fine", "{}")
        .call("t3", "fine", r#"{"x":1}"#)
        .say("done");
    let (builder, provider) = agent(script);
    let agent = builder
        .tool(probe("broken", Act::Panic))
        .tool(probe("fine", Act::Say("ok")))
        .build()
        .unwrap();
    let session = agent.session().unwrap();
    let report = session.prompt("go").await.unwrap();
    assert_eq!(report.end, TurnEnd::Completed);
    assert_eq!((report.text.as_str(), report.steps), ("done", 4));
    let requests = provider.requests();
    let told = format!("{:?}", requests.last().unwrap().messages);
    for words in [
        "this is a fault of the tool",
        "Did you mean fine? The tools are: broken, fine.",
        "unknown field `x`",
    ] {
        assert!(told.contains(words), "{words} is not in {told}");
    }
    session.close().await.unwrap();
}

#[tokio::test]
async fn a_retry_is_no_step() {
    let overloaded = ModelError::new(ModelErrorKind::Overloaded, "busy");
    let script = ScriptedProvider::new()
        .then(ModelReply::Refused(overloaded))
        .say("done");
    let (builder, provider) = agent(script);
    let session = builder.build().unwrap().session().unwrap();
    let report = session.prompt("go").await.unwrap();
    assert_eq!((report.end, report.steps), (TurnEnd::Completed, 1));
    assert_eq!(provider.requests().len(), 2);
    session.close().await.unwrap();
}

#[tokio::test]
async fn a_dropped_prompt_interrupts_its_turn_and_the_session_lives_on() {
    let script = ScriptedProvider::new().call("t1", "wait", "{}").say("next");
    let running = Arc::new(Notify::new());
    let (builder, provider) = agent(script);
    let agent = builder
        .tool(probe("wait", Act::Wait(Arc::clone(&running))))
        .build()
        .unwrap();
    let session = agent.session().unwrap();
    {
        let turn = session.prompt("go");
        tokio::select! {
            report = turn => panic!("it ended: {report:?}"),
            () = running.notified() => {}
        }
    }
    let report = session.prompt("again").await.unwrap();
    assert_eq!(report.text, "next");
    let (told, is_error) = results(&provider).pop().unwrap();
    assert!(is_error && told.contains("interrupted"), "{told}");
    session.close().await.unwrap();
}

#[tokio::test]
async fn what_was_said_too_late_is_given_back() {
    let script = ScriptedProvider::new().call("t1", "wait", "{}").say("done");
    let running = Arc::new(Notify::new());
    let (builder, _) = agent(script);
    let agent = builder
        .tool(probe("wait", Act::Wait(Arc::clone(&running))))
        .build()
        .unwrap();
    let session = agent.session().unwrap();
    let turn = session.prompt("go");
    let other = async {
        running.notified().await;
        session.steer("only src").await.unwrap();
        session.interrupt().await.unwrap();
    };
    let (report, ()) = tokio::join!(turn, other);
    let report = report.unwrap();
    // It did not reach the model, so it is given back.
    let during = During::Tools;
    assert_eq!(
        report.end,
        TurnEnd::Interrupted {
            during,
            by: Interrupter::User
        }
    );
    assert_eq!(format!("{:?}", report.unsent), r#"[[Text("only src")]]"#);
    session.close().await.unwrap();
}

struct Always(Reply);

impl Approver for Always {
    fn decide(&self, _: Question) -> BoxFuture<'static, Reply> {
        Box::pin(std::future::ready(self.0.clone()))
    }
}

#[tokio::test]
async fn calls_with_effects_are_asked_about_and_nobody_means_no() {
    for (approval, expected, denied) in [
        (Approval::Nobody, "there is nobody to ask", 1),
        (
            Approval::By(Arc::new(Always(Reply::Deny {
                reason: "not today".into(),
            }))),
            "not today",
            1,
        ),
        (Approval::By(Arc::new(Always(Reply::Allow))), "written", 0),
    ] {
        let script = ScriptedProvider::new()
            .call("t1", "write", "{}")
            .say("done");
        let (builder, provider) = agent(script);
        let agent = builder
            .approval(approval)
            .tool(Probe {
                name: "write",
                effectful: true,
                act: Act::Say("written"),
            })
            .build()
            .unwrap();
        let session = agent.session().unwrap();
        let report = session.prompt("go").await.unwrap();
        let (told, _) = results(&provider).pop().unwrap();
        assert!(told.contains(expected), "{told}");
        assert_eq!(report.denials.len(), denied);
        session.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_recorded_session_goes_on_in_another_agent() {
    let root = tempfile::tempdir().unwrap();
    let work = tempfile::tempdir().unwrap();
    let id = SessionId::generate();
    let (builder, _) = agent(ScriptedProvider::new().say("one"));
    let first = builder.journal(root.path()).workspace(work.path());
    let session = first.build().unwrap().session_named(id).unwrap();
    session.prompt("remember 7").await.unwrap();
    session.close().await.unwrap();

    let (builder, provider) = agent(ScriptedProvider::new().say("two"));
    let second = builder.journal(root.path()).workspace(work.path());
    let second = second.build().unwrap();
    let path = second.catalog().map(|catalog: &Catalog| catalog.path(id));
    let session = second.resume(&path.unwrap()).unwrap();
    session.prompt("which number?").await.unwrap();
    let told = format!("{:?}", provider.requests().last().unwrap().messages);
    assert!(
        told.contains("remember 7") && told.contains("one"),
        "{told}"
    );
    session.close().await.unwrap();
}

#[tokio::test]
async fn events_tell_the_whole_turn_in_order() {
    let script = ScriptedProvider::new().call("t1", "fine", "{}").say("done");
    let (builder, _) = agent(script);
    let agent = builder.tool(probe("fine", Act::Say("ok"))).build().unwrap();
    let session = agent.session().unwrap();
    let mut events = session.events();
    session.prompt("go").await.unwrap();
    session.close().await.unwrap();
    let mut kinds = Vec::new();
    while let Some(event) = events.next().await {
        let kind = match event {
            Event::Recorded(_) => "recorded",
            Event::ToolStarted { .. } => "tool started",
            Event::ToolEnded { .. } => "tool ended",
            Event::TurnEnded(_) => "turn ended",
            _ => continue,
        };
        kinds.push(kind);
    }
    let place = |kind| kinds.iter().position(|other| *other == kind).unwrap();
    assert!(place("tool started") < place("tool ended"), "{kinds:?}");
    assert_eq!(kinds.first(), Some(&"recorded"));
    assert_eq!(kinds.last(), Some(&"turn ended"));
}

#[tokio::test]
async fn a_blank_prompt_is_refused_here() {
    let (builder, provider) = agent(ScriptedProvider::new());
    let session = builder.build().unwrap().session().unwrap();
    let error = session.prompt(" \n").await.unwrap_err();
    assert!(matches!(error, SessionError::BlankPrompt), "{error}");
    assert!(provider.requests().is_empty());
    session.close().await.unwrap();
}

/// A store whose flush dies.
struct Deaf(MemoryStore);

impl Store for Deaf {
    fn session(&self) -> SessionId {
        self.0.session()
    }

    fn append(&mut self, entries: &[Entry]) -> Result<(), StoreError> {
        self.0.append(entries)
    }

    fn flush(&self) -> Flush {
        Flush::blocking(|| panic!("the disk is gone"))
    }
}

#[tokio::test]
async fn nothing_with_effects_runs_on_the_strength_of_a_flush_that_died() {
    let script = ScriptedProvider::new()
        .call("t1", "write", "{}")
        .say("done");
    let (builder, provider) = agent(script);
    let ran = Arc::new(Notify::new());
    let agent = builder
        .approval(Approval::By(Arc::new(Always(Reply::Allow))))
        .tool(Probe {
            name: "write",
            effectful: true,
            act: Act::Wait(Arc::clone(&ran)),
        })
        .build()
        .unwrap();
    let session = agent.session_on(Box::new(Deaf(MemoryStore::new())), &[]);
    let error = session.prompt("go").await.unwrap_err();
    assert!(matches!(error, SessionError::Journal(_)), "{error}");
    assert!(provider.requests().len() <= 1);
    let begun = tokio::time::timeout(std::time::Duration::ZERO, ran.notified()).await;
    assert!(begun.is_err(), "the call ran");
}

#[tokio::test]
async fn what_background_work_says_comes_between_steps_and_wakes_a_session_once() {
    let script = ScriptedProvider::new()
        .call("t1", "begin", "{}")
        .call("t2", "wait", "{}")
        .say("done")
        .say("heard");
    let (builder, provider) = agent(script);
    let (sender, mut begun) = mpsc::unbounded_channel();
    let running = Arc::new(Notify::new());
    let agent = builder
        .tool(probe("begin", Act::Begin(sender)))
        .tool(probe("wait", Act::Wait(Arc::clone(&running))))
        .build()
        .unwrap();
    let session = agent.session().unwrap();
    assert!(session.wake().await.unwrap().is_none());
    {
        let turn = session.prompt("go");
        tokio::select! {
            report = turn => panic!("it ended: {report:?}"),
            () = running.notified() => {}
        }
    }
    let work = begun.recv().await.unwrap();
    let report = session.prompt("on").await.unwrap();
    assert_eq!(
        (report.text.as_str(), report.background),
        ("done", vec!["work".to_owned()])
    );
    work.finish("all of it");
    session.noticed().await;
    let report = session.wake().await.unwrap().unwrap();
    assert_eq!(
        (report.text.as_str(), report.background),
        ("heard", Vec::new())
    );
    let requests = provider.requests();
    let told = format!("{:?}", requests.last().unwrap().messages);
    assert_eq!(told.matches("all of it").count(), 1);
    session.close().await.unwrap();
}

struct Long(usize);

impl Tool for Long {
    type Input = Nothing;

    fn name(&self) -> &str {
        "long"
    }

    fn description(&self) -> &str {
        "Says much."
    }

    fn access(&self, _: &Nothing) -> Access {
        Access::read_only()
    }

    async fn run(&self, _: Nothing, _: &ToolContext) -> Result<ToolOutput, ToolError> {
        let line = |number: usize| format!("line {number}\n");
        Ok(ToolOutput::text((0..self.0).map(line).collect::<String>()))
    }
}

#[tokio::test]
async fn a_long_result_is_in_a_file_as_long_as_the_session_and_is_read_in_parts() {
    let folder = tempfile::tempdir().unwrap();
    let processes = tooloop::exec::Processes::new().unwrap();
    let ops = Arc::new(tooloop::tools::LocalOps::new(processes));
    let journal = folder.path().join("sessions");
    let long = || Long(9_000);
    let script = ScriptedProvider::new().call("t1", "long", "{}").say("done");
    let (builder, provider) = agent(script);
    let workspace = tempfile::tempdir().unwrap();
    let agent_of = |builder: AgentBuilder| {
        builder
            .workspace(workspace.path())
            .journal(&journal)
            .tool(long())
            .tool(tooloop::tools::Read::new(Arc::clone(&ops) as _))
            .build()
            .unwrap()
    };
    let first = agent_of(builder);
    let session = first.session().unwrap();
    let id = session.id();
    session.prompt("go").await.unwrap();
    let (told, _) = results(&provider).pop().unwrap();
    assert!(
        told.len() < 3_000 && told.contains("line 0") && told.contains("line 8999"),
        "{told}"
    );
    let (_, path) = told.split_once("the whole of it is in ").unwrap();
    let (path, _) = path.split_once(' ').unwrap();
    session.close().await.unwrap();

    let read = serde_json::json!({ "path": path, "offset": 4_000, "limit": 2_000 }).to_string();
    let script = ScriptedProvider::new()
        .call("t2", "read", &read)
        .say("done");
    let (builder, provider) = agent(script);
    let second = agent_of(builder);
    let session = second.resume(&second.catalog().unwrap().path(id)).unwrap();
    session.prompt("on").await.unwrap();
    let (told, is_error) = results(&provider).pop().unwrap();
    assert!(
        !is_error && told.contains("line 3999") && told.contains("line 5998"),
        "{told}"
    );
    session.close().await.unwrap();
    let outputs = std::path::Path::new(path).parent().unwrap();
    assert_eq!(std::fs::read_dir(outputs).unwrap().count(), 1);
}

#[tokio::test]
async fn without_a_journal_long_results_end_with_the_session() {
    let script = ScriptedProvider::new().call("t1", "long", "{}").say("done");
    let (builder, provider) = agent(script);
    let agent = builder.tool(Long(9_000)).build().unwrap();
    let session = agent.session().unwrap();
    session.prompt("go").await.unwrap();
    let (told, _) = results(&provider).pop().unwrap();
    let (_, path) = told.split_once("the whole of it is in ").unwrap();
    let (path, _) = path.split_once(' ').unwrap();
    assert!(std::path::Path::new(path).exists());
    session.close().await.unwrap();
    assert!(!std::path::Path::new(path).parent().unwrap().exists());
}

#[tokio::test]
async fn what_was_said_by_the_end_of_a_step_goes_with_it() {
    let script = ScriptedProvider::new()
        .call("t1", "quick", "{}")
        .say("done");
    let (builder, provider) = agent(script);
    let agent = builder
        .tool(probe("quick", Act::Finish("all of it")))
        .build()
        .unwrap();
    let session = agent.session().unwrap();
    let report = session.prompt("go").await.unwrap();
    assert_eq!((report.text.as_str(), report.steps), ("done", 2));
    let told = format!("{:?}", provider.requests().last().unwrap().messages);
    assert_eq!(told.matches("all of it").count(), 1);
    session.close().await.unwrap();
}

#[tokio::test]
async fn who_interrupts_has_the_word() {
    let script = ScriptedProvider::new()
        .call("t1", "begin", "{}")
        .call("t2", "wait", "{}")
        .say("heard");
    let (builder, provider) = agent(script);
    let (sender, mut begun) = mpsc::unbounded_channel();
    let running = Arc::new(Notify::new());
    let agent = builder
        .tool(probe("begin", Act::Begin(sender)))
        .tool(probe("wait", Act::Wait(Arc::clone(&running))))
        .build()
        .unwrap();
    let session = agent.session().unwrap();
    let mut events = session.events();
    let turn = session.prompt("go");
    let interrupt = async {
        running.notified().await;
        begun.recv().await.unwrap().finish("all of it");
        while !matches!(events.next().await.unwrap(), Event::Noticed(_)) {}
        session.interrupt().await.unwrap();
    };
    let (report, ()) = tokio::join!(turn, interrupt);
    let end = report.unwrap().end;
    assert!(matches!(end, TurnEnd::Interrupted { .. }), "{end:?}");
    // The turn is over and a notice waits, yet nothing goes on by itself.
    session.transcript().await.unwrap();
    assert!(session.noticed().now_or_never().is_none());
    let report = session.prompt("on").await.unwrap();
    assert_eq!(report.text, "heard");
    let told = format!("{:?}", provider.requests().last().unwrap().messages);
    assert_eq!(told.matches("all of it").count(), 1);
    session.close().await.unwrap();
}

#[tokio::test]
async fn what_was_read_early_and_thrown_away_is_not_known() {
    let workspace = tempfile::tempdir().unwrap();
    std::fs::write(workspace.path().join("a.txt"), "theirs\n").unwrap();
    let block = |id: &str| {
        vec![
            StreamEvent::BlockStart {
                index: 0,
                block: BlockStart::ToolUse {
                    id: ToolUseId(id.into()),
                    name: "read".into(),
                },
            },
            StreamEvent::InputDelta {
                index: 0,
                json: r#"{"path":"a.txt"}"#.into(),
            },
            StreamEvent::BlockStop { index: 0 },
        ]
    };
    let write = r#"{"path":"a.txt","content":"mine\n"}"#;
    let script = ScriptedProvider::new()
        .then(ModelReply::Hold(block("t1")))
        .call("t2", "write", write)
        .call("t3", "read", r#"{"path":"a.txt"}"#)
        .call("t4", "write", write)
        .say("done");
    let (builder, provider) = agent(script);
    let processes = tooloop::exec::Processes::new().unwrap();
    let ops: Arc<dyn tooloop::tools::Ops> = Arc::new(tooloop::tools::LocalOps::new(processes));
    let agent = builder
        .workspace(workspace.path())
        .policy(tooloop::Policy {
            mode: tooloop::Mode::AcceptEdits,
            ..tooloop::Policy::default()
        })
        .tool(tooloop::tools::Read::new(Arc::clone(&ops)))
        .tool(tooloop::tools::Write::new(ops))
        .build()
        .unwrap();
    let session = agent.session().unwrap();
    let mut events = session.events();
    let turn = session.prompt("go");
    let interrupt = async {
        while !matches!(events.next().await.unwrap(), Event::ToolEnded { .. }) {}
        session.interrupt().await.unwrap();
    };
    let (report, ()) = tokio::join!(turn, interrupt);
    assert!(matches!(report.unwrap().end, TurnEnd::Interrupted { .. }));
    let report = session.prompt("on").await.unwrap();
    assert_eq!(report.text, "done");
    let told = format!("{:?}", provider.requests().last().unwrap().messages);
    assert!(told.contains("have not read it"), "{told}");
    // The whole of it, not a word that it is unchanged.
    assert!(told.contains("theirs"), "{told}");
    let content = std::fs::read_to_string(workspace.path().join("a.txt")).unwrap();
    assert_eq!(content, "mine\n");
    session.close().await.unwrap();
}

#[tokio::test]
async fn a_conversation_is_taken_back_and_resumes_as_it_was_then() {
    let folder = tempfile::tempdir().unwrap();
    let provider = ScriptedProvider::new()
        .say("first")
        .say("second")
        .say("third");
    let (builder, provider) = agent(provider);
    let agent = builder.journal(folder.path()).build().unwrap();
    let session = agent.session().unwrap();
    for prompt in ["one", "two"] {
        session.prompt(prompt).await.unwrap();
    }
    let refused = session.rewind(3).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "there is no turn 3: the conversation has 2"
    );
    session.rewind(2).await.unwrap();
    session.close().await.unwrap();

    let path = agent.catalog().unwrap().newest().unwrap();
    let session = agent.resume(&path).unwrap();
    session.prompt("three").await.unwrap();
    let transcript = session.transcript().await.unwrap();
    assert_eq!(transcript.turns(), [0, 2]);
    session.close().await.unwrap();
    let last = provider.requests().pop().unwrap();
    let said: Vec<_> = last
        .messages
        .iter()
        .map(|message| match message.message() {
            Message::Assistant(reply) => reply.text(),
            other => format!("{other:?}"),
        })
        .collect();
    assert_eq!(said.len(), 3);
    assert_eq!(said[1], "first");
    assert!(said[2].contains("three"), "{said:?}");
}

/// Says and asks for the same again: what is sent then, and the session as it was before.
async fn sends(session: &tooloop::Session, provider: &ScriptedProvider) -> tooloop_model::Request {
    provider.push(said("as it happens"));
    session.prompt("the same").await.unwrap();
    let request = provider.requests().pop().unwrap();
    let turn = session.transcript().await.unwrap().turns().len();
    session.rewind(turn).await.unwrap();
    request
}

fn said(text: &str) -> ModelReply {
    let index = 0;
    let events = vec![
        StreamEvent::BlockStart {
            index,
            block: BlockStart::Text,
        },
        StreamEvent::TextDelta {
            index,
            text: text.into(),
        },
        StreamEvent::BlockStop { index },
        StreamEvent::MessageStop {
            stop_reason: StopReason::EndTurn,
        },
    ];
    ModelReply::Events(events.into_iter().map(Ok).collect())
}

fn texts(request: &tooloop_model::Request) -> Vec<String> {
    let messages = request.messages.iter();
    messages
        .map(|message| match message.message() {
            Message::Assistant(reply) => reply.text(),
            Message::User(content) => format!("{content:?}"),
            Message::ToolResults(results) => format!("{results:?}"),
        })
        .collect()
}

#[tokio::test]
async fn what_was_summed_up_is_taken_back_and_sent_as_it_was() {
    let long = "a long answer ".repeat(400);
    for is_recorded in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let (builder, provider) = agent(ScriptedProvider::new());
        let builder = if is_recorded {
            builder.journal(folder.path())
        } else {
            builder
        };
        let agent = builder.build().unwrap();
        let mut session = agent.session().unwrap();
        for (prompt, answer) in [("one", &*long), ("two", "second")] {
            provider.push(said(answer));
            session.prompt(prompt).await.unwrap();
        }
        let before = texts(&sends(&session, &provider).await);
        provider.push(said("the gist of it"));
        let compacted = session.compact(Some("the cut".into())).await.unwrap();
        assert!(compacted.after < compacted.before, "{compacted:?}");
        let asked = texts(&provider.requests().pop().unwrap()).pop().unwrap();
        assert!(asked.contains("is about to be summed up") && asked.contains("the cut"));
        provider.push(said("third"));
        session.prompt("three").await.unwrap();

        // Once with the summary, and once as it was before it.
        for (turn, prompt) in [(3, "three"), (2, "two"), (1, "one")] {
            let live = sends(&session, &provider).await;
            if is_recorded {
                session.close().await.unwrap();
                let path = agent.catalog().unwrap().newest().unwrap();
                session = agent.resume(&path).unwrap();
                assert_eq!(session.warnings(), [""; 0]);
                let resumed = sends(&session, &provider).await;
                assert_eq!(live, resumed, "turn {turn}");
            }
            assert_eq!(texts(&live)[0].contains("the gist of it"), turn > 1);
            let rewind = tooloop::Rewind {
                turn,
                what: tooloop::What::Conversation,
                ..tooloop::Rewind::default()
            };
            let rewound = session.rewind_to(rewind).await.unwrap();
            assert_eq!(rewound.prompt, [tooloop::Content::Text(prompt.into())]);
        }
        let again = texts(&sends(&session, &provider).await);
        assert_eq!(again[..], before[before.len() - 1..]);
        session.close().await.unwrap();
    }
}

/// What a summary carries over of files and the plan, after the policy was changed in this way.
async fn carried(change: impl FnOnce(&mut tooloop::Policy)) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let workspace = folder.path().canonicalize().unwrap();
    for name in ["a", "b"] {
        let text = format!("the text of {name}\n").repeat(300);
        std::fs::write(workspace.join(name), text).unwrap();
    }
    let plan = r#"{"items":[{"content":"go on","status":"pending"}]}"#;
    let script = ScriptedProvider::new()
        .call("t1", "read", r#"{"path":"a"}"#)
        .call("t2", "read", r#"{"path":"b"}"#)
        .call("t3", "todo", plan)
        .say("done")
        .say("the gist of it");
    let (builder, _) = agent(script);
    let processes = tooloop::exec::Processes::new().unwrap();
    let ops: Arc<dyn tooloop::tools::Ops> = Arc::new(tooloop::tools::LocalOps::new(processes));
    let agent = builder
        .tool(tooloop::tools::Read::new(ops))
        .tool(tooloop::tools::Todo::new())
        .workspace(&workspace)
        .build()
        .unwrap();
    let session = agent.session().unwrap();
    let mut events = session.events();
    session.prompt("go").await.unwrap();
    session.change_policy(change);
    std::fs::write(workspace.join("a"), "it is short now\n").unwrap();
    session.compact(None).await.unwrap();
    session.close().await.unwrap();
    while let Some(event) = events.next().await {
        let Event::Recorded(entry) = event else {
            continue;
        };
        if let Entry::Compacted { carried, .. } = &*entry {
            let texts = carried.iter().filter_map(|part| match part {
                tooloop::Content::Text(text) => Some(text.replace(workspace.to_str().unwrap(), "")),
                _ => None,
            });
            return texts.collect();
        }
    }
    panic!("nothing was summed up")
}

#[tokio::test]
async fn a_summary_carries_over_what_tools_know_and_may_still_read() {
    let all = carried(|_| {}).await;
    let begins: Vec<_> = all
        .iter()
        .map(|text| text.lines().next().unwrap())
        .collect();
    let expected = [
        "(/b, as it is now:)",
        "(the plan, as it is now:)",
        "(/a, as it is now:)",
    ];
    assert_eq!(begins, expected);
    assert!(all[0].contains("1\tthe text of b\n"));
    assert!(all[1].contains("[ ] go on"));
    assert!(all[2].ends_with("\n1\tit is short now\n"), "{}", all[2]);
    let left = carried(|policy| policy.deny.push("Read(b)".parse().unwrap())).await;
    assert_eq!(left.len(), 2);
    assert!(
        !left.iter().any(|text| text.contains("text of b")),
        "{left:?}"
    );
}

#[tokio::test]
async fn what_was_read_in_a_turn_that_is_taken_back_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let workspace = folder.path().join("w");
    std::fs::create_dir(&workspace).unwrap();
    std::fs::write(workspace.join("f"), "the content\n").unwrap();
    let read = r#"{"path":"f"}"#;
    let script = ScriptedProvider::new()
        .call("t1", "read", read)
        .say("first")
        .call("t2", "read", read)
        .say("again");
    let (builder, provider) = agent(script);
    let processes = tooloop::exec::Processes::new().unwrap();
    let ops: Arc<dyn tooloop::tools::Ops> = Arc::new(tooloop::tools::LocalOps::new(processes));
    let agent = builder
        .tool(tooloop::tools::Read::new(ops))
        .workspace(&workspace)
        .journal(folder.path().join("sessions"))
        .checkpoints(true)
        .build()
        .unwrap();
    let session = agent.session().unwrap();
    session.prompt("read it").await.unwrap();
    let rewind = tooloop::Rewind {
        turn: 1,
        ..tooloop::Rewind::default()
    };
    let rewound = session.rewind_to(rewind).await.unwrap();
    assert_eq!(rewound.prompt, [tooloop::Content::Text("read it".into())]);
    assert!(rewound.files.is_empty());
    session.prompt("read it again").await.unwrap();
    assert!(results(&provider)[0].0.contains("the content"));
    let refused = session
        .rewind_to(tooloop::Rewind { turn: 2, ..rewind })
        .await;
    assert!(matches!(
        refused,
        Err(SessionError::NoSuchTurn { turn: 2, turns: 1 })
    ));
    session.close().await.unwrap();
}

/// Objects as long as it is told to, and keeps what it was told.
#[derive(Debug, Default)]
struct Objector {
    told: std::sync::Mutex<Vec<Stopping>>,
}

impl StopHook for Objector {
    fn judge(&self, stop: Stopping) -> BoxFuture<'static, StopJudgement> {
        let mut told = self.told.lock().unwrap();
        told.push(stop);
        let reason = "and the tests?".to_owned();
        let judgement = match told.len() {
            1 | 2 => StopJudgement::GoOn { reason },
            _ => StopJudgement::End { reason },
        };
        async { judgement }.boxed()
    }
}

#[tokio::test]
async fn a_stop_hook_has_a_say() {
    let (builder, provider) = agent(ScriptedProvider::new().say("one").say("two").say("three"));
    let hook = Arc::new(Objector::default());
    let agent = builder.stop_hook(Arc::clone(&hook) as _).build().unwrap();
    let session = agent.session().unwrap();
    let report = session.prompt("go").await.unwrap();
    let reason = "and the tests?".to_owned();
    assert_eq!(report.end, TurnEnd::StopHookPrevented { reason });
    assert_eq!(report.text, "three");
    let told: Vec<_> = hook.told.lock().unwrap().clone();
    let told: Vec<_> = told
        .iter()
        .map(|stop| (stop.text.as_str(), stop.stop_hook_active))
        .collect();
    assert_eq!(told, [("one", false), ("two", true), ("three", true)]);
    let last = format!("{:?}", provider.requests().last().unwrap().messages);
    assert_eq!(last.matches("and the tests?").count(), 2);
    session.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_stop_hook_that_says_nothing_is_not_waited_for() {
    #[derive(Debug)]
    struct Silent;
    impl StopHook for Silent {
        fn judge(&self, _: Stopping) -> BoxFuture<'static, StopJudgement> {
            std::future::pending().boxed()
        }
    }
    let (builder, _) = agent(ScriptedProvider::new().say("one"));
    let agent = builder.stop_hook(Arc::new(Silent)).build().unwrap();
    let session = agent.session().unwrap();
    let mut events = session.events();
    let report = session.prompt("go").await.unwrap();
    assert_eq!(report.end, TurnEnd::Completed);
    let mut warned = false;
    while let Some(event) = events.try_next() {
        warned |= matches!(event, Event::Warning(words) if words.contains("stop hook"));
    }
    assert!(warned);
    session.close().await.unwrap();
}

#[tokio::test]
async fn a_session_is_closed_while_a_wake_waits_for_a_summary() {
    let script = ScriptedProvider::new().say("one");
    let (builder, provider) = agent(script.then(ModelReply::Hold(Vec::new())));
    let session = builder.build().unwrap().session().unwrap();
    session.prompt("go").await.unwrap();
    let mut compacting = Box::pin(session.compact(None));
    while provider.requests().len() < 2 {
        assert!((&mut compacting).now_or_never().is_none());
        tokio::task::yield_now().await;
    }
    let mut waking = Box::pin(session.wake());
    assert!((&mut waking).now_or_never().is_none());
    // It is taken in before the session is closed.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    drop((compacting, waking));
    session.close().await.unwrap();
}

/// Two sessions, one ledger: what one has spent the other has not.
#[tokio::test]
async fn sessions_share_a_ledger() {
    let usage = Usage {
        input_tokens: 400,
        output_tokens: 50,
        ..Usage::default()
    };
    let replies = (0..2).fold(ScriptedProvider::new(), |provider, _| {
        provider.then(ModelReply::Events(
            [
                StreamEvent::MessageStart {
                    id: None,
                    model: None,
                },
                StreamEvent::BlockStart {
                    index: 0,
                    block: BlockStart::Text,
                },
                StreamEvent::TextDelta {
                    index: 0,
                    text: "ok".into(),
                },
                StreamEvent::BlockStop { index: 0 },
                StreamEvent::Usage(usage),
                StreamEvent::MessageStop {
                    stop_reason: StopReason::EndTurn,
                },
            ]
            .map(Ok)
            .to_vec(),
        ))
    });
    let (builder, provider) = agent(replies);
    let ledger = Ledger::default();
    let limits = Limits {
        tokens: Some(900),
        ..Limits::default()
    };
    let agent = builder
        .limits(limits)
        .output_tokens(100, None)
        .ledger(ledger.clone())
        .build()
        .unwrap();
    let (one, other) = (agent.session().unwrap(), agent.session().unwrap());
    assert_eq!(one.prompt("go").await.unwrap().end, TurnEnd::Completed);
    assert_eq!(other.prompt("go").await.unwrap().end, TurnEnd::Completed);
    assert_eq!(ledger.spent(), (900, Money(0)));
    for session in [one, other] {
        let end = session.prompt("more").await.unwrap().end;
        assert!(matches!(
            end,
            TurnEnd::Budget(Budget::Tokens { spent: 900, .. })
        ));
        session.close().await.unwrap();
    }
    assert_eq!(provider.requests().len(), 2);
}
