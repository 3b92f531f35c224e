//! What is written is what `docs/journal.schema.json` says, no more and no less.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may fail where it stands"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use boon::{Compiler, SchemaIndex, Schemas};
use serde_json::{Value, json};
use tooloop_kernel::{
    Budget, CompactionTrigger, Continue, During, Entry, Interrupter, LeftOut, Permission, TurnEnd,
};
use tooloop_model::{
    AssistantMessage, Content, ContentBlock, Document, Image, JsonObject, Message, ModelError,
    ModelErrorKind, Money, RawJson, StopReason, ToolInput, ToolResult, ToolUse, Usage, VendorData,
};
use tooloop_session::{Catalog, ForkedFrom, Header, JsonlStore, SessionId, Store, WorksFor};

/// One of each kind of entry and of each shape that it may have. A kind that is not here fails
/// [`every_kind_is_here`].
fn entries() -> Vec<Entry> {
    let vendor = || VendorData {
        owner: "a codec".into(),
        data: RawJson::parse("{\"signature\":\"c2ln\",\"n\":1.50}").unwrap(),
    };
    let usage = Usage {
        input_tokens: 5,
        output_tokens: 4,
        cache_read_tokens: 3,
        cache_write_tokens: 2,
        reasoning_tokens: Some(1),
    };
    let tool_use = |id: &str, input: &str| {
        ContentBlock::ToolUse(ToolUse {
            id: id.into(),
            name: "bash".into(),
            input: ToolInput::parse(input),
            vendor: Some(vendor()),
        })
    };
    let image = || {
        Content::Image(Image {
            media_type: "image/png".into(),
            data: "aGk=".into(),
        })
    };
    let error = |kind| ModelError {
        status: Some(529),
        code: Some("overloaded".into()),
        retry_after: Some(Duration::from_millis(1_500)),
        ..ModelError::new(kind, "no capacity")
    };
    let mut entries = vec![
        Entry::message(Message::User(vec![
            Content::Text("look".into()),
            image(),
            Content::Document(Document {
                media_type: "text/plain".into(),
                data: "aGk=".into(),
                title: Some("hi.txt".into()),
            }),
        ])),
        Entry::message(Message::Assistant(AssistantMessage {
            content: vec![
                ContentBlock::Thinking {
                    text: "so".into(),
                    vendor: Some(vendor()),
                },
                ContentBlock::RedactedThinking(vendor()),
                ContentBlock::Text {
                    text: "yes".into(),
                    vendor: None,
                },
                ContentBlock::Vendor(vendor()),
                tool_use("tu_1", "{\"command\": 1e400}"),
                tool_use("tu_2", "{\"command\":\"ls\"}"),
            ],
            stop_reason: Some(StopReason::ToolUse),
            usage,
            model: Some("m".into()),
            id: Some("msg_1".into()),
        })),
        Entry::Permission {
            tool_use_id: "tu_1".into(),
            permission: Permission::Denied {
                reason: "no".into(),
                stops: true,
            },
        },
        Entry::CallFinished(ToolResult::error("tu_1".into(), "permission denied")),
        Entry::Permission {
            tool_use_id: "tu_2".into(),
            permission: Permission::Allowed {
                rule: Some("Bash(ls *)".into()),
            },
        },
        Entry::Permission {
            tool_use_id: "tu_2".into(),
            permission: Permission::Allowed { rule: None },
        },
        Entry::CallRewritten {
            tool_use_id: "tu_2".into(),
            input: JsonObject::parse(r#"{"command":"true"}"#).unwrap(),
        },
        Entry::CallStarted {
            tool_use_id: "tu_2".into(),
        },
        Entry::CallFinished(ToolResult {
            tool_use_id: "tu_2".into(),
            content: vec![Content::Text("a".into()), image()],
            is_error: false,
        }),
        Entry::Discarded { usage },
        Entry::Spent {
            tokens: 9,
            cost: Some(Money(5)),
        },
        Entry::Spent {
            tokens: 9,
            cost: None,
        },
    ];
    let kinds = [
        ModelErrorKind::Connection,
        ModelErrorKind::FirstByteTimeout,
        ModelErrorKind::IdleTimeout,
        ModelErrorKind::ContentTimeout,
        ModelErrorKind::CutStream,
        ModelErrorKind::Decode,
        ModelErrorKind::Overloaded,
        ModelErrorKind::RateLimited,
        ModelErrorKind::Server,
        ModelErrorKind::Auth,
        ModelErrorKind::Certificate,
        ModelErrorKind::Proxy,
        ModelErrorKind::BadRequest,
        ModelErrorKind::NotFound,
        ModelErrorKind::ContextTooLong,
        ModelErrorKind::ContentRefused,
        ModelErrorKind::EmptyReply,
        ModelErrorKind::AttachmentRefused,
        ModelErrorKind::ThinkingRefused,
        ModelErrorKind::Cancelled,
    ];
    entries.extend(kinds.map(|kind| Entry::Retry {
        call: 1,
        attempt: 1,
        error: error(kind),
        wait_ms: 20,
        voided: true,
        left_out: None,
    }));
    let parts = [
        LeftOut::Thinking,
        LeftOut::NewAttachments,
        LeftOut::OldAttachments,
        LeftOut::Attachments,
    ];
    entries.extend(parts.map(|part| Entry::Retry {
        call: 1,
        attempt: 1,
        error: error(ModelErrorKind::AttachmentRefused),
        wait_ms: 0,
        voided: false,
        left_out: Some(part),
    }));
    let reasons = [
        Continue::NextStep,
        Continue::Retry,
        Continue::EscalateOutput,
        Continue::ContinueOutput,
        Continue::Steered,
        Continue::FollowUp,
        Continue::FallbackModel { model: "n".into() },
        Continue::PauseTurn,
        Continue::SchemaRetry,
        Continue::StopHookBlocked,
        Continue::Reminder,
        Continue::Compact,
    ];
    entries.extend(reasons.map(Entry::Continue));
    let stops = [
        StopReason::EndTurn,
        StopReason::MaxTokens,
        StopReason::StopSequence,
        StopReason::Refusal,
        StopReason::ContentFilter,
        StopReason::Pause,
        StopReason::ContextWindow,
        StopReason::Other("because".into()),
    ];
    entries.extend(stops.map(|stop_reason| {
        Entry::message(Message::Assistant(AssistantMessage {
            content: vec![ContentBlock::Text {
                text: "done".into(),
                vendor: Some(vendor()),
            }],
            stop_reason: Some(stop_reason),
            ..AssistantMessage::default()
        }))
    }));
    let ends = [
        TurnEnd::Completed,
        TurnEnd::MaxTurns { limit: 3 },
        TurnEnd::MaxToolCalls { limit: 3 },
        TurnEnd::Budget(Budget::Tokens {
            limit: 3,
            spent: 2,
            next: 1,
        }),
        TurnEnd::Budget(Budget::Cost {
            limit: Money(3),
            spent: Money(2),
            next: Money(1),
        }),
        TurnEnd::Budget(Budget::UnknownPrice { model: "m".into() }),
        TurnEnd::Deadline { limit_ms: 3 },
        TurnEnd::StructuredOutputFailed {
            tries: 3,
            problem: "no".into(),
        },
        TurnEnd::HookStopped {
            reason: "no".into(),
        },
        TurnEnd::StopHookPrevented {
            reason: "no".into(),
        },
        TurnEnd::ContextLimit {
            message: "too long".into(),
        },
        TurnEnd::ModelError {
            error: ModelError::new(ModelErrorKind::Auth, "no key"),
            attempts: 1,
        },
        TurnEnd::OutputLimit,
        TurnEnd::Interrupted {
            during: During::Model,
            by: Interrupter::User,
        },
        TurnEnd::Interrupted {
            during: During::Tools,
            by: Interrupter::Shutdown,
        },
        TurnEnd::Refused,
        TurnEnd::LoopDetected { times: 4 },
    ];
    entries.extend(ends.map(Entry::TurnEnd));
    entries.push(Entry::Rewound { turn: 1 });
    entries.push(Entry::Shortened {
        results: vec!["tu_1".into()],
        before: 9,
        after: 8,
    });
    let compacted = |content: Vec<Content>, trigger| Entry::Compacted {
        cut: 2,
        summary: "what was said".into(),
        request: content.clone(),
        carried: content,
        trigger,
        before: 9,
        after: 8,
    };
    let triggers = [
        CompactionTrigger::Auto,
        CompactionTrigger::Manual,
        CompactionTrigger::TooLong,
    ];
    entries.extend(triggers.map(|trigger| compacted(vec![image()], trigger)));
    entries.push(compacted(Vec::new(), CompactionTrigger::Auto));
    entries
}

fn schema() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/journal.schema.json");
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// The schema as a judge of what is written: a field that it does not name is a fault.
fn strict(mut schema: Value) -> Value {
    fn close(value: &mut Value) {
        match value {
            Value::Object(object) => {
                if object.contains_key("properties") {
                    object.insert("additionalProperties".into(), false.into());
                }
                object.values_mut().for_each(close);
            }
            Value::Array(values) => values.iter_mut().for_each(close),
            _ => {}
        }
    }
    close(&mut schema);
    schema
}

fn compile(schema: Value) -> (Schemas, SchemaIndex) {
    let mut schemas = Schemas::new();
    let mut compiler = Compiler::new();
    compiler.add_resource("journal.json", schema).unwrap();
    let index = compiler.compile("journal.json", &mut schemas).unwrap();
    (schemas, index)
}

fn lines() -> Vec<Value> {
    let root = tempfile::tempdir().unwrap();
    let catalog = Catalog::new(root.path(), Path::new("/w"));
    let session = SessionId::generate();
    let header = Header {
        forked_from: Some(ForkedFrom {
            session: SessionId::generate(),
            record: Some("0123456789abcdef".into()),
        }),
        works_for: Some(WorksFor {
            session: SessionId::generate(),
            tool_use: "tu_1".into(),
            agent: "explore".into(),
        }),
        ..Header::new(session, "/w".into())
    };
    let mut store = JsonlStore::create(catalog.path(session), header);
    store.append(&entries()).unwrap();
    let text = fs::read_to_string(store.path()).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn every_line_is_valid() {
    for schema in [schema(), strict(schema())] {
        let (schemas, index) = compile(schema);
        for line in lines() {
            if let Err(error) = schemas.validate(&line, index) {
                panic!("{line}\n{error:#}");
            }
        }
    }
}

#[test]
fn what_is_not_written_so_is_not_valid() {
    let (schemas, index) = compile(schema());
    let record = |entry: Value| json!({"seq": 1, "id": "0123456789abcdef", "time": "2026-01-01T00:00:00Z", "entry": entry});
    let good = record(json!({"turn_end": "completed"}));
    schemas.validate(&good, index).unwrap();
    for bad in [
        json!({}),
        json!({"tooloop_session": 2, "session": "0190163d-8694-739b-aea5-966c26f8ad91", "created": "2026-01-01T00:00:00Z", "workspace": "/w"}),
        record(json!({"turn_end": "done"})),
        record(json!({"call_finished": {"content": []}})),
        record(json!({"message": {"user": "text"}})),
        record(json!("turn_end")),
    ] {
        assert!(schemas.validate(&bad, index).is_err(), "{bad}");
    }
}

/// The names that serde gives to the variants of an enum, from its own complaint.
fn variants(error: &str) -> BTreeSet<String> {
    let (_, names) = error.split_once("expected one of ").unwrap();
    let names = names.split('`').skip(1).step_by(2);
    names.map(str::to_owned).collect()
}

fn kind(value: &Value) -> String {
    match value {
        Value::String(name) => name.clone(),
        Value::Object(object) => object.keys().next().unwrap().clone(),
        other => panic!("{other}"),
    }
}

/// A variant that is added and not written down fails here.
#[test]
fn every_kind_is_here() {
    fn check<T: serde::de::DeserializeOwned>(found: impl Iterator<Item = Value>) {
        let Err(error) = serde_json::from_str::<T>("{\"nothing\":1}") else {
            panic!("it takes anything");
        };
        let found: BTreeSet<String> = found.map(|value| kind(&value)).collect();
        assert_eq!(found, variants(&error.to_string()));
    }
    let written: Vec<Value> = lines()
        .into_iter()
        .skip(1)
        .map(|line| line["entry"].clone())
        .collect();
    let of = |name: &'static str| {
        written
            .iter()
            .map(move |entry| entry[name].clone())
            .filter(|value| !value.is_null())
    };
    check::<Entry>(written.iter().cloned());
    check::<Continue>(of("continue"));
    check::<TurnEnd>(of("turn_end"));
    check::<ModelErrorKind>(of("retry").map(|retry| retry["error"]["kind"].clone()));
    let replies = || of("message").map(|message| message["assistant"].clone());
    check::<StopReason>(
        replies()
            .map(|reply| reply["stop_reason"].clone())
            .filter(|reason| !reason.is_null()),
    );
    check::<ContentBlock>(replies().flat_map(|reply| {
        let content = reply["content"].as_array().cloned();
        content.unwrap_or_default()
    }));
    check::<Content>(of("message").flat_map(|message| {
        let content = message["user"].as_array().cloned();
        content.unwrap_or_default()
    }));
}
