//! What a recording holds beside the model's part: the entries of the session.

use serde_json::json;
use std::sync::Arc;

use tooloop_kernel::{Entry, Permission, TurnEnd};
use tooloop_model::{Content, HistoryMessage};
use tooloop_provider::{Cassette, Redactor};
use tooloop_session::{Flush, SessionId, Store, StoreError};

/// Keeps the entries in a store, and writes them onto a cassette as well.
pub(crate) struct RecordingStore {
    inner: Box<dyn Store>,
    cassette: Cassette,
    seq: u64,
}

impl RecordingStore {
    /// A store for a session with that past.
    pub(crate) fn new(inner: Box<dyn Store>, cassette: Cassette, past: &[Entry]) -> Self {
        for entry in past {
            let entry = redacted(cassette.redactor(), entry);
            cassette.write(&json!({ "past": entry }));
        }
        Self {
            inner,
            cassette,
            seq: 0,
        }
    }
}

impl Store for RecordingStore {
    fn session(&self) -> SessionId {
        self.inner.session()
    }

    fn append(&mut self, entries: &[Entry]) -> Result<(), StoreError> {
        self.inner.append(entries)?;
        for entry in entries {
            self.seq = self.seq.saturating_add(1);
            let entry = redacted(self.cassette.redactor(), entry);
            self.cassette
                .write(&json!({ "seq": self.seq, "entry": entry }));
        }
        Ok(())
    }

    fn flush(&self) -> Flush {
        self.inner.flush()
    }
}

/// The entry without secrets.
fn redacted(redactor: &Redactor, entry: &Entry) -> Entry {
    let mut entry = entry.clone();
    match &mut entry {
        Entry::Message(message) => {
            let mut clean = message.message().clone();
            redactor.redact_message(&mut clean);
            *message = Arc::new(HistoryMessage::new(clean));
        }
        Entry::CallRewritten { input, .. } => redactor.redact_object(input),
        Entry::CallFinished(result) => redactor.redact_result(result),
        Entry::Permission { permission, .. } => match permission {
            Permission::Allowed { rule } => {
                if let Some(rule) = rule {
                    redactor.redact_text(rule);
                }
            }
            Permission::Denied { reason, .. } => redactor.redact_text(reason),
        },
        Entry::Retry { error, .. } => redactor.redact_error(error),
        Entry::TurnEnd(end) => redact_end(redactor, end),
        Entry::Compacted {
            summary,
            request,
            carried,
            ..
        } => {
            redactor.redact_text(summary);
            for part in request.iter_mut().chain(carried) {
                match part {
                    Content::Text(text) => redactor.redact_text(text),
                    Content::Image(_) | Content::Document(_) => {}
                }
            }
        }
        Entry::Shortened { .. }
        | Entry::CallStarted { .. }
        | Entry::Discarded { .. }
        | Entry::Spent { .. }
        | Entry::Continue(_)
        | Entry::Rewound { .. } => {}
    }
    entry
}

fn redact_end(redactor: &Redactor, end: &mut TurnEnd) {
    match end {
        TurnEnd::ModelError { error, .. } => redactor.redact_error(error),
        TurnEnd::ContextLimit { message: words }
        | TurnEnd::StructuredOutputFailed { problem: words, .. }
        | TurnEnd::HookStopped { reason: words }
        | TurnEnd::StopHookPrevented { reason: words } => redactor.redact_text(words),
        TurnEnd::Completed
        | TurnEnd::MaxTurns { .. }
        | TurnEnd::MaxToolCalls { .. }
        | TurnEnd::Budget(_)
        | TurnEnd::Deadline { .. }
        | TurnEnd::OutputLimit
        | TurnEnd::Interrupted { .. }
        | TurnEnd::Refused
        | TurnEnd::LoopDetected { .. } => {}
    }
}
