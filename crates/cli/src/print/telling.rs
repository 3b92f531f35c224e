//! What a headless run shows of its events.

use serde_json::Value;
use tooloop::{Event, Question};

use super::complain;
use super::turns::Run;
use crate::args::OutputFormat;
use crate::text::clean;

impl Run<'_> {
    pub(super) async fn event(&mut self, event: Event) {
        if let (Event::Asked(Question { agent: Some(_), .. }), Some(_)) = (&event, &self.strict) {
            // The no that a subagent got ends its own turn.
            drop(self.session.interrupt().await);
        }
        let streaming = self.format == OutputFormat::StreamJson;
        match &event {
            Event::Warning(words) if !streaming => return complain(words),
            Event::Recorded(entry) if !streaming => {
                if let tooloop::Entry::Retry {
                    error,
                    wait_ms,
                    attempt,
                    ..
                } = &**entry
                {
                    let seconds = std::time::Duration::from_millis(*wait_ms).as_secs_f64();
                    complain(&format!(
                        "{}; attempt {} in {seconds:.1} s",
                        error.message,
                        attempt.saturating_add(1)
                    ));
                }
                return;
            }
            Event::Subagent { agent, event, .. } if !streaming => {
                if let Some(words) = warned(event) {
                    complain(&format!("{}: {words}", clean(agent)));
                }
                return;
            }
            _ if !streaming => return,
            _ => {}
        }
        let records = self.records_of(event);
        for record in records {
            self.output.record(&record).await;
        }
    }

    /// The records of an event.
    fn records_of(&mut self, event: Event) -> Vec<Value> {
        match event {
            Event::Subagent {
                tool_use_id, event, ..
            } => {
                let before = self.records.of(Some(tool_use_id));
                let records = self.records_of(*event);
                self.records.of(before);
                records
            }
            Event::Recorded(entry) => self.records.entries(&entry),
            Event::Delta { call, event } => self.records.piece(call, &event),
            Event::Voided { call } => vec![self.records.voided(call)],
            Event::Warning(words) => vec![self.records.warning(&words)],
            Event::Noticed(words) => vec![self.records.notice(&words)],
            Event::Compaction { state, .. } => vec![self.records.compaction(&state)],
            Event::Hook(note) if self.hook_events => vec![self.records.hook(&note)],
            Event::Lagged { missed } => {
                let words = format!("the reader is too slow: {missed} events are left out");
                vec![self.records.warning(&words)]
            }
            Event::ToolEnded {
                tool_use_id,
                refusals,
                ..
            } => {
                let record = |refusal| self.records.refused(&tool_use_id, refusal);
                refusals.iter().map(record).collect()
            }
            Event::Hook(_)
            | Event::ToolStarted { .. }
            | Event::ToolProgress { .. }
            | Event::Asked(_)
            | Event::TurnEnded(_) => Vec::new(),
        }
    }
}

/// What a person should know of what happened to a subagent.
fn warned(event: &Event) -> Option<&str> {
    match event {
        Event::Subagent { event, .. } => warned(event),
        Event::Warning(words) => Some(words),
        _ => None,
    }
}
