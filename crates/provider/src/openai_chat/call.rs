//! A tool use that grows.

use tooloop_model::{
    BlockStart, MessageBuilder, ModelError, ModelErrorKind, StreamEvent, ToolUseId, VendorData,
};

#[derive(Debug)]
pub(super) struct Call {
    /// The provider's indexes, where it gives any. One call may come under several.
    pub(super) theirs: Vec<u64>,
    pub(super) id: String,
    pub(super) name: String,
    /// Our index, once the block has begun.
    pub(super) index: Option<usize>,
    /// All of its arguments so far.
    pub(super) text: String,
    /// What came with it before the block had begun.
    extra: Option<VendorData>,
    pub(super) json: JsonEnd,
    pub(super) open: bool,
    /// A call that was complete came again under its id.
    pub(super) repeated: bool,
}

impl Default for Call {
    fn default() -> Self {
        Self {
            theirs: Vec::new(),
            id: String::new(),
            name: String::new(),
            index: None,
            text: String::new(),
            extra: None,
            json: JsonEnd::default(),
            open: true,
            repeated: false,
        }
    }
}

/// More indexes than one call has anywhere.
const MOST_INDEXES: usize = 8;

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
    /// One that comes again.
    pub(super) fn repeated(id: String, name: String) -> Self {
        Self {
            id,
            name,
            repeated: true,
            ..Self::default()
        }
    }

    /// Whether there is all that the start of its block says.
    pub(super) const fn is_known(&self) -> bool {
        !self.id.is_empty() && !self.name.is_empty()
    }

    /// Takes in what a piece says about the call besides its arguments.
    pub(super) fn announce(&mut self, theirs: Option<u64>, id: String, name: &str) {
        if let Some(theirs) = theirs
            && !self.theirs.contains(&theirs)
            && self.theirs.len() < MOST_INDEXES
        {
            self.theirs.push(theirs);
        }
        if self.index.is_some() {
            return;
        }
        if self.id.is_empty() {
            self.id = id;
        }
        // A name may come in pieces, and it may come again with each piece.
        if !self.repeated && self.name != name {
            if name.starts_with(&self.name) {
                self.name.clear();
            }
            self.name.push_str(name);
        }
    }

    /// Begins the block, with all that has come of the call.
    pub(super) fn begin(&mut self, index: usize, out: &mut Vec<StreamEvent>) {
        self.index = Some(index);
        out.push(StreamEvent::BlockStart {
            index,
            block: BlockStart::ToolUse {
                id: ToolUseId(self.id.clone()),
                name: self.name.clone(),
            },
        });
        if !self.text.is_empty() {
            let json = self.text.clone();
            out.push(StreamEvent::InputDelta { index, json });
        }
        if let Some(data) = self.extra.take() {
            out.push(StreamEvent::VendorDelta { index, data });
        }
    }

    /// Attaches what the provider wants back with the call.
    pub(super) fn attach(&mut self, data: VendorData, out: &mut Vec<StreamEvent>) {
        match self.index {
            Some(index) => out.push(StreamEvent::VendorDelta { index, data }),
            None => self.extra = Some(data),
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
        if self.text.len().saturating_add(arguments.len()) > MessageBuilder::MAX_BYTES {
            return Err(ModelError::new(
                ModelErrorKind::Decode,
                "the arguments of a call are larger than any real ones",
            ));
        }
        self.json.push(arguments);
        self.text.push_str(arguments);
        if let Some(index) = self.index
            && !arguments.is_empty()
        {
            out.push(StreamEvent::InputDelta {
                index,
                json: arguments.to_owned(),
            });
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
