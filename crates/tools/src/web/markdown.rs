//! A writer of Markdown: lines, their beginnings, and the space between what is on them.
//!
//! It knows nothing of HTML. Breaks and spaces are remembered and written only when something
//! follows them, so that none pile up. What it writes is bounded.

/// The most bytes of Markdown.
const MAX_BYTES: usize = 8 << 20;

/// What lines begin with inside of a list item, a quote or a heading.
#[derive(Debug)]
struct Prefix {
    first: String,
    rest: &'static str,
    width: usize,
    begun: bool,
}

/// A text under way: the page, or a piece that is looked at whole before it goes into the page.
#[derive(Debug, Default)]
struct Buffer {
    text: String,
    prefixes: Vec<Prefix>,
    /// How many line ends the next word needs before it.
    breaks: u8,
    space: bool,
    /// Whether white space is kept.
    raw: bool,
}

/// The writer.
#[derive(Debug)]
pub(crate) struct Markdown {
    buffers: Vec<Buffer>,
    top: Buffer,
    written: usize,
    /// More than 0 inside of what must stay on one line.
    one_line: usize,
}

impl Markdown {
    pub(crate) fn new() -> Self {
        Self {
            buffers: Vec::new(),
            top: Buffer::default(),
            written: 0,
            one_line: 0,
        }
    }

    /// Whether there is no room for more.
    pub(crate) fn is_full(&self) -> bool {
        self.written >= MAX_BYTES
    }

    /// Whether white space is kept here.
    pub(crate) fn is_raw(&self) -> bool {
        self.top.raw
    }

    /// Whether this is the page itself, outside of lists and quotes.
    pub(crate) fn is_outermost(&self) -> bool {
        self.buffers.is_empty() && self.top.prefixes.is_empty()
    }

    /// Where the next word will stand, at the earliest.
    pub(crate) fn position(&self) -> usize {
        self.top.text.len()
    }

    /// What has been written since then.
    pub(crate) fn since(&self, start: usize) -> &str {
        self.top.text.get(start..).unwrap_or_default()
    }

    /// Takes back what has been written since then.
    pub(crate) fn take_since(&mut self, start: usize) -> String {
        if self.top.text.is_char_boundary(start) && start <= self.top.text.len() {
            self.top.text.split_off(start)
        } else {
            String::new()
        }
    }

    pub(crate) fn begin_one_line(&mut self) {
        self.one_line = self.one_line.saturating_add(1);
    }

    pub(crate) fn end_one_line(&mut self) {
        self.one_line = self.one_line.saturating_sub(1);
    }

    /// A new line follows.
    pub(crate) fn line(&mut self) {
        self.break_at_least(1);
    }

    /// A blank line follows.
    pub(crate) fn block(&mut self) {
        self.break_at_least(2);
    }

    fn break_at_least(&mut self, breaks: u8) {
        if self.top.raw {
            if !self.top.text.is_empty() && !self.top.text.ends_with('\n') {
                self.push("\n");
            }
        } else if self.one_line > 0 {
            self.space();
        } else if self.top.prefixes.last().is_none_or(|prefix| prefix.begun) {
            // What begins an item stands behind its mark.
            self.top.breaks = self.top.breaks.max(breaks);
        }
    }

    fn space(&mut self) {
        self.top.space |= !self.top.text.is_empty();
    }

    /// Begins an item: the first line has a mark, the others are set in or have a mark of their
    /// own.
    pub(crate) fn begin_item(&mut self, first: impl Into<String>, rest: &'static str) {
        let first = first.into();
        self.top.prefixes.push(Prefix {
            width: if rest.is_empty() { first.len() } else { 0 },
            first,
            rest,
            begun: false,
        });
    }

    pub(crate) fn end_item(&mut self) {
        self.top.prefixes.pop();
    }

    /// Begins a piece of its own.
    pub(crate) fn begin_piece(&mut self, raw: bool) {
        let piece = Buffer {
            raw,
            ..Buffer::default()
        };
        self.buffers.push(std::mem::replace(&mut self.top, piece));
    }

    /// Ends it, and gives it away.
    pub(crate) fn end_piece(&mut self) -> String {
        let outer = self.buffers.pop().unwrap_or_default();
        std::mem::replace(&mut self.top, outer).text
    }

    /// Writes words, with their white space made one.
    pub(crate) fn words(&mut self, text: &str, mut before: impl FnMut(&mut Self)) {
        if self.top.raw {
            return self.push(text);
        }
        let is_space = |c: char| c.is_ascii_whitespace() || c == '\u{a0}';
        if text.starts_with(is_space) {
            self.space();
        }
        let mut is_first = true;
        for word in text.split(is_space) {
            let hidden = ['\u{200b}', '\u{feff}', '\u{ad}'];
            let cleaned: String;
            let word = if word.contains(hidden) {
                cleaned = word.replace(hidden, "");
                &cleaned
            } else {
                word
            };
            if word.is_empty() {
                continue;
            }
            if !std::mem::take(&mut is_first) {
                self.space();
            }
            self.begin();
            before(self);
            self.push(word);
        }
        if !is_first && text.ends_with(is_space) {
            self.space();
        }
    }

    /// Writes whole lines.
    pub(crate) fn lines(&mut self, text: &str) {
        for line in text.lines() {
            self.line();
            self.begin();
            self.push(line);
        }
    }

    /// Writes the breaks or the space that are due.
    pub(crate) fn begin(&mut self) {
        if self.top.raw {
            return;
        }
        let is_start = self.top.text.is_empty();
        let breaks = std::mem::take(&mut self.top.breaks);
        let space = std::mem::take(&mut self.top.space);
        if is_start || breaks > 0 {
            if !is_start {
                self.push("\n");
                if breaks > 1 {
                    let blank = self.line_start(true);
                    self.push(blank.trim_end());
                    self.push("\n");
                }
            }
            let start = self.line_start(false);
            self.push(&start);
        } else if space {
            self.push(" ");
        }
    }

    fn line_start(&mut self, blank: bool) -> String {
        let mut start = String::new();
        for prefix in &mut self.top.prefixes {
            if prefix.begun {
                start.push_str(prefix.rest);
                start.extend(std::iter::repeat_n(' ', prefix.width));
            } else if !blank {
                start.push_str(&prefix.first);
                prefix.begun = true;
            }
        }
        start
    }

    /// Writes as it is.
    pub(crate) fn push(&mut self, text: &str) {
        if !self.is_full() {
            self.written = self.written.saturating_add(text.len());
            self.top.text.push_str(text);
        }
    }

    pub(crate) fn finish(self) -> String {
        self.top.text
    }
}

/// How many backticks stand together at most.
fn longest_run(code: &str) -> usize {
    let mut longest = 0;
    let mut run = 0_usize;
    for byte in code.bytes() {
        run = if byte == b'`' {
            run.saturating_add(1)
        } else {
            0
        };
        longest = longest.max(run);
    }
    longest
}

/// A piece of code in a line.
pub(crate) fn in_backticks(code: &str) -> String {
    let fence = "`".repeat(longest_run(code).saturating_add(1));
    let room = if code.contains('`') { " " } else { "" };
    format!("{fence}{room}{}{room}{fence}", code.trim())
}

/// Lines of code.
pub(crate) fn fenced(code: &str, language: &str) -> String {
    let fence = "`".repeat(longest_run(code).saturating_add(1).max(3));
    format!("{fence}{language}\n{code}\n{fence}")
}
