//! A good tool passes; for each fault there is a tool that has it and nothing else.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tooloop_model::{JsonObject, RawJson, ToolDefinition};
use tooloop_policy::Access;

use super::{Fault, PATIENCE, Sample, check, check_within};
use crate::{DynTool, Scope, ToolContext, ToolError, ToolFuture, ToolOutput};

/// What is wrong with a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Vice {
    None,
    Name,
    NoDescription,
    LongDescription,
    NoObject,
    NoProperties,
    BadKey,
    BadNestedKey,
    RequiresNothing,
    NewDefinition,
    TakesUnknown,
    TakesMissing,
    NamesNothing,
    TakesAnyType,
    FewWords,
    AccessDiffers,
    AccessPanics,
    AccessIsSlow,
    RunPanics,
    IgnoresCancellation,
    IgnoresLateCancellation,
    NeverEnds,
    Blank,
    FewWordsInRun,
    Writes,
    Remembers,
    SharesState,
}

struct Rig {
    vice: Vice,
    asked: AtomicU32,
    ran: Arc<AtomicU32>,
}

impl Rig {
    fn new(vice: Vice) -> Self {
        Self {
            vice,
            asked: AtomicU32::new(0),
            ran: Arc::default(),
        }
    }

    fn parse(&self, input: &JsonObject) -> Result<String, ToolError> {
        let fail = |problem: &str| {
            let problem = match self.vice {
                Vice::FewWords => return ToolError::Failed("no".into()),
                Vice::NamesNothing => "something is wrong",
                _ => problem,
            };
            ToolError::InvalidInput {
                tool: "say".into(),
                problem: problem.into(),
            }
        };
        let value = input.to_value();
        let object = value.as_object().unwrap();
        if self.vice != Vice::TakesUnknown
            && object.keys().any(|key| key != "text" && key != "times")
        {
            return Err(fail("unknown field"));
        }
        let times = object.get("times");
        let fits = times.is_none_or(|times| times.is_null() || times.is_i64() || times.is_u64());
        if !fits && self.vice != Vice::TakesAnyType {
            return Err(fail("times is no integer"));
        }
        match object.get("text") {
            Some(Value::String(text)) => Ok(text.clone()),
            Some(_) if self.vice == Vice::TakesAnyType => Ok("any".into()),
            Some(_) => Err(fail("text is no string")),
            None if self.vice == Vice::TakesMissing => Ok("none".into()),
            None => Err(fail("text is missing")),
        }
    }
}

impl DynTool for Rig {
    fn definition(&self) -> ToolDefinition {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        let name = if self.vice == Vice::Name {
            "say it"
        } else {
            "say"
        };
        let description = match self.vice {
            Vice::NoDescription => " ".into(),
            Vice::LongDescription => "a".repeat(1_025),
            Vice::NewDefinition => format!("Says things, {asked}."),
            _ => "Says things.".into(),
        };
        let mut schema = json!({
            "type": "object",
            "properties": { "text": { "type": "string" }, "times": { "type": ["integer", "null"] } },
            "required": ["text"],
        });
        match self.vice {
            Vice::NoObject => schema["type"] = json!("string"),
            Vice::NoProperties => schema = json!({ "type": "object" }),
            Vice::BadKey => schema["properties"]["$x"] = json!({}),
            Vice::BadNestedKey => {
                schema["properties"]["times"]["items"] = json!({ "properties": { "a b": {} } });
            }
            Vice::RequiresNothing => schema["required"] = json!(["text", "nothing"]),
            _ => {}
        }
        ToolDefinition {
            name: name.into(),
            description,
            input_schema: RawJson::from_value(&schema),
        }
    }

    fn access(&self, input: &JsonObject) -> Result<Access, ToolError> {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        let text = self.parse(input)?;
        match self.vice {
            Vice::AccessPanics => assert!(text.len() < 1_000, "long"),
            Vice::AccessIsSlow if text == "hello" => {
                std::thread::sleep(std::time::Duration::from_millis(60));
            }
            Vice::AccessDiffers if asked.is_multiple_of(2) => return Ok(Access::effectful()),
            Vice::SharesState => return Ok(Access::session()),
            _ => {}
        }
        Ok(Access::read_only())
    }

    fn run<'a>(&'a self, input: &'a JsonObject, context: &'a ToolContext) -> ToolFuture<'a> {
        Box::pin(async move {
            let text = self.parse(input)?;
            let ran = self.ran.fetch_add(1, Ordering::Relaxed);
            let cancelled = context.cancellation.is_cancelled();
            match self.vice {
                Vice::RunPanics => panic!("as it must"),
                Vice::IgnoresCancellation if cancelled => std::future::pending().await,
                Vice::IgnoresLateCancellation if text == "long" => std::future::pending().await,
                Vice::NeverEnds if text == "hello" => context.cancellation.cancelled().await,
                Vice::Blank => return Ok(ToolOutput::text(" \n")),
                Vice::FewWordsInRun => return Err(ToolError::Failed("oops".into())),
                Vice::Writes => fs::write(context.working_directory.join("new"), "x").unwrap(),
                Vice::Remembers => return Ok(ToolOutput::text(format!("call {ran}"))),
                _ => {}
            }
            if text == "long" {
                context.cancellation.cancelled().await;
                return Err(ToolError::Cancelled);
            }
            if text == "bad" {
                return Err(ToolError::Failed("bad is not said here".into()));
            }
            Ok(ToolOutput::text(text))
        })
    }

    fn for_session(&self, _: &Scope) -> Option<Arc<dyn DynTool>> {
        match self.vice {
            Vice::SharesState => None,
            Vice::Remembers => Some(Arc::new(Self {
                ran: Arc::clone(&self.ran),
                ..Self::new(self.vice)
            })),
            _ => Some(Arc::new(Self::new(self.vice))),
        }
    }
}

const HELLO: &str = r#"{"text":"hello"}"#;

fn samples() -> [Sample; 4] {
    [
        Sample::run(HELLO),
        Sample::run(r#"{"text":"bad","times":null}"#),
        Sample::cancel(r#"{"text":"long"}"#),
        Sample::ask(r#"{"text":"away","times":3}"#),
    ]
}

/// What is found, as the names of the faults.
async fn found(vice: Vice) -> Vec<Fault> {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("a")).unwrap();
    fs::write(folder.path().join("a/b"), "b").unwrap();
    let patience = match vice {
        Vice::NeverEnds => Duration::from_millis(30),
        Vice::AccessIsSlow | Vice::IgnoresCancellation | Vice::IgnoresLateCancellation => {
            Duration::from_millis(300)
        }
        _ => PATIENCE,
    };
    let checked = check_within(patience, &Rig::new(vice), folder.path(), &samples()).await;
    checked.err().unwrap_or_default()
}

#[tokio::test]
async fn a_good_tool_passes() {
    let folder = tempfile::tempdir().unwrap();
    let checked = check(&Rig::new(Vice::None), folder.path(), &samples()).await;
    assert_eq!(checked, Ok(()));
}

#[test]
fn no_runtime_is_needed() {
    struct Nobody;
    impl std::task::Wake for Nobody {
        fn wake(self: Arc<Self>) {}
    }
    let waker = std::task::Waker::from(Arc::new(Nobody));
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::new(Vice::None);
    let samples = samples();
    let mut checked = Box::pin(check(&rig, folder.path(), &samples));
    loop {
        let polled = checked
            .as_mut()
            .poll(&mut std::task::Context::from_waker(&waker));
        if let std::task::Poll::Ready(result) = polled {
            return assert_eq!(result, Ok(()));
        }
    }
}

#[tokio::test]
async fn each_fault_is_found_and_no_other() {
    let same = |fault: Fault| move |found: &Fault| *found == fault;
    type Expected = Box<dyn Fn(&Fault) -> bool>;
    let table: Vec<(Vice, Expected)> = vec![
        (Vice::Name, Box::new(same(Fault::Name("say it".into())))),
        (Vice::NoDescription, Box::new(same(Fault::Description(0)))),
        (
            Vice::LongDescription,
            Box::new(same(Fault::Description(1_025))),
        ),
        (
            Vice::NoObject,
            Box::new(same(Fault::Schema("its type is not \"object\"".into()))),
        ),
        (
            Vice::NoProperties,
            Box::new(same(Fault::Schema("it has no \"properties\"".into()))),
        ),
        (
            Vice::BadKey,
            Box::new(|fault| matches!(fault, Fault::Schema(words) if words.contains("\"$x\""))),
        ),
        (
            Vice::BadNestedKey,
            Box::new(|fault| matches!(fault, Fault::Schema(words) if words.contains("\"a b\""))),
        ),
        (
            Vice::RequiresNothing,
            Box::new(|fault| {
                matches!(fault, Fault::Schema(words) if words.contains("no property"))
                    || *fault == Fault::NotRequired("nothing".into())
            }),
        ),
        (
            Vice::NewDefinition,
            Box::new(same(Fault::DefinitionChanges)),
        ),
        (
            Vice::TakesUnknown,
            Box::new(|fault| matches!(fault, Fault::UnknownField(_))),
        ),
        (
            Vice::TakesMissing,
            Box::new(same(Fault::NotRequired("text".into()))),
        ),
        (
            Vice::NamesNothing,
            Box::new(|fault| matches!(fault, Fault::Unnamed { field, .. } if field == "text")),
        ),
        (
            Vice::TakesAnyType,
            Box::new(|fault| matches!(fault, Fault::WrongType(_))),
        ),
        (
            Vice::FewWords,
            Box::new(|fault| matches!(fault, Fault::NoWords { .. } | Fault::Unnamed { .. })),
        ),
        (
            Vice::AccessDiffers,
            Box::new(|fault| matches!(fault, Fault::AccessChanges(_))),
        ),
        (
            Vice::AccessPanics,
            Box::new(|fault| matches!(fault, Fault::AccessPanics(_))),
        ),
        (
            Vice::AccessIsSlow,
            Box::new(same(Fault::AccessSlow(HELLO.into()))),
        ),
        (
            Vice::RunPanics,
            Box::new(|fault| matches!(fault, Fault::RunPanics(_))),
        ),
        (
            Vice::IgnoresCancellation,
            Box::new(|fault| matches!(fault, Fault::NotCancelled(_))),
        ),
        (
            Vice::IgnoresLateCancellation,
            Box::new(same(Fault::NotCancelled(r#"{"text":"long"}"#.into()))),
        ),
        (
            Vice::NeverEnds,
            Box::new(same(Fault::Endless(HELLO.into()))),
        ),
        (
            Vice::Blank,
            Box::new(|fault| matches!(fault, Fault::Blank(_))),
        ),
        (
            Vice::FewWordsInRun,
            Box::new(|fault| matches!(fault, Fault::NoWords { words, .. } if words == "oops")),
        ),
        (
            Vice::Writes,
            Box::new(
                |fault| matches!(fault, Fault::Changes { path, .. } if path.ends_with("/new")),
            ),
        ),
        (
            Vice::Remembers,
            Box::new(|fault| matches!(fault, Fault::SharedState(_))),
        ),
        (
            Vice::SharesState,
            Box::new(|fault| matches!(fault, Fault::SharedState(_))),
        ),
    ];
    for (vice, expected) in table {
        let found = found(vice).await;
        assert!(!found.is_empty(), "{vice:?} is not found");
        assert!(found.iter().all(expected), "{vice:?}: {found:?}");
    }
}

#[tokio::test]
async fn what_is_no_call_is_said_to_be_none() {
    let folder = tempfile::tempdir().unwrap();
    for (input, words) in [("[]", "not a JSON object"), ("{}", "text is missing")] {
        let faults = check(&Rig::new(Vice::None), folder.path(), &[Sample::run(input)]).await;
        let faults = faults.unwrap_err();
        assert!(
            faults.iter().all(
                |fault| matches!(fault, Fault::SampleRefused { problem, .. } if problem.contains(words))
            ),
            "{faults:?}"
        );
    }
    let gone = folder.path().join("gone");
    let faults = check(&Rig::new(Vice::None), &gone, &[Sample::run(HELLO)]).await;
    assert!(matches!(faults.unwrap_err().as_slice(), [Fault::Folder(_)]));
}
