//! What the model is reminded of: tools that it has forgotten.

use tooloop_kernel::{Delivery, Entry, Input};
use tooloop_model::{Content, Message};

use super::Driver;

impl Driver {
    /// Takes note of which tools a step uses. What is to be said goes with its results, if it has
    /// any.
    pub(super) fn note_use(&mut self, entry: &Entry) {
        let Entry::Message(message) = entry else {
            return;
        };
        let Message::Assistant(reply) = message.message() else {
            return;
        };
        if reply.tool_uses().next().is_none() {
            return;
        }
        for name in self.registry.names() {
            if reply.tool_uses().any(|tool_use| tool_use.name == name) {
                self.unused.remove(name);
                continue;
            }
            let Some(tool) = self.registry.get(name) else {
                continue;
            };
            let steps = self.unused.entry(name.to_owned()).or_default();
            *steps = steps.saturating_add(1);
            if let Some(words) = tool.reminder(*steps) {
                self.asides.push_back(words);
            }
        }
    }

    /// The next reminder that waits to be said.
    pub(super) fn next_aside(&mut self) -> Option<Input> {
        let words = self.asides.pop_front()?;
        Some(Input::User {
            content: vec![Content::reminder(&words)],
            delivery: Delivery::Aside,
        })
    }
}
