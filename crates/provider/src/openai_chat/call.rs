//! A tool use that grows.

use tooloop_model::{BlockStart, ModelError, ModelErrorKind, StreamEvent, ToolUseId};

#[derive(Debug)]
pub(super) struct Call {
    /// The provider's index, where it gives one.
    pub(super) theirs: Option<u64>,
    pub(super) id: String,
    /// Our index, once the block has begun, that is, once there is a name.
    pub(super) index: Option<usize>,
    /// What came before there was a name.
    pub(super) early: String,
    pub(super) json: JsonEnd,
    pub(super) open: bool,
}

/// Knows whether a growing text is a whole JSON object.
#[derive(Debug, Default)]
pub(super) struct JsonEnd {
    pub(super) depth: u32,
    pub(super) in_string: bool,
    pub(super) escaped: bool,
    pub(super) complete: bool,
}

impl JsonEnd {
    pub(super) fn push(&mut self, text: &str) {
        for byte in text.bytes() {
            if self.in_string {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => self.in_string = true,
                b'{' | b'[' => {
                    self.depth = self.depth.saturating_add(1);
                    self.complete = false;
                }
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    self.complete = self.depth == 0;
                }
                _ => {}
            }
        }
    }
}

impl Call {
    /// Begins the block, with what came before there was a name.
    pub(super) fn begin(&mut self, index: usize, name: String, out: &mut Vec<StreamEvent>) {
        self.index = Some(index);
        out.push(StreamEvent::BlockStart {
            index,
            block: BlockStart::ToolUse {
                id: ToolUseId(self.id.clone()),
                name,
            },
        });
        let json = std::mem::take(&mut self.early);
        if !json.is_empty() {
            out.push(StreamEvent::InputDelta { index, json });
        }
    }

    pub(super) fn push(
        &mut self,
        arguments: &str,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ModelError> {
        if !self.open {
            if arguments.trim().is_empty() {
                return Ok(());
            }
            return Err(ModelError::new(
                ModelErrorKind::Decode,
                "arguments came for a call that was complete",
            ));
        }
        self.json.push(arguments);
        match self.index {
            None => self.early.push_str(arguments),
            Some(_) if arguments.is_empty() => {}
            Some(index) => out.push(StreamEvent::InputDelta {
                index,
                json: arguments.to_owned(),
            }),
        }
        Ok(())
    }

    pub(super) fn end(&mut self, out: &mut Vec<StreamEvent>) {
        self.open = false;
        if let Some(index) = self.index {
            out.push(StreamEvent::BlockStop { index });
        }
    }
}
