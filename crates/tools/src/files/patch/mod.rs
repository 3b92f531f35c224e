//! Patches: what changes they ask for, in which files. Pure.

mod envelope;
pub(crate) mod place;
mod unified;

/// The most bytes of a patch.
const MOST: usize = 4 << 20;

/// Changes to several files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Patch {
    pub(crate) sections: Vec<Section>,
    /// Whether it would change modes, which is not done.
    pub(crate) has_modes: bool,
}

/// The most changed files of a patch.
const MOST_SECTIONS: usize = 1000;

/// A change to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Section {
    /// The line of the patch, from 1.
    pub(crate) line: usize,
    pub(crate) path: String,
    pub(crate) change: Change,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// A new file.
    Add(String),
    /// The file goes. What it is said to hold, if the patch tells.
    Delete(Vec<Hunk>),
    Update {
        /// Its new path.
        to: Option<String>,
        hunks: Vec<Hunk>,
    },
}

/// A change to a stretch of lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Hunk {
    /// The line of the patch, from 1.
    pub(crate) line: usize,
    /// Lines that come somewhere before it, in this order.
    pub(crate) anchors: Vec<String>,
    /// The line of the file that it is said to start at, from 1; after which, if it has no old
    /// lines.
    pub(crate) at: Option<usize>,
    pub(crate) rows: Vec<Row>,
    /// Whether it ends where the file ends.
    pub(crate) is_at_end: bool,
}

/// A line of a hunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) sign: Sign,
    /// The line without its end.
    pub(crate) text: String,
    pub(crate) has_cr: bool,
    /// False if the patch says that the file ends without a line end here.
    pub(crate) has_end: bool,
    /// Whether it stands in the patch without so much as a sign.
    is_bare: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sign {
    Keep,
    Remove,
    Add,
}

/// Why a text is no patch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("patch line {line}: {problem}")]
pub(crate) struct PatchError {
    pub(crate) line: usize,
    pub(crate) problem: String,
}

impl Patch {
    /// Reads a patch in the envelope form or as a unified diff.
    pub(crate) fn parse(text: &str) -> Result<Self, PatchError> {
        if text.len() > MOST {
            return error(1, "the patch is longer than 4 MiB");
        }
        let lines = Source::new(text);
        let first = lines.first_words();
        let patch = match first {
            None => return error(1, "the patch is empty"),
            Some(place) if lines.at(place).is_some_and(|line| line.starts_with("***")) => {
                // A context diff starts with stars, too.
                envelope::parse(&lines, place)?
            }
            Some(_) => unified::parse(&lines)?,
        };
        if let Some(section) = patch.sections.get(MOST_SECTIONS) {
            return error(
                section.line,
                format!("the patch changes more than {MOST_SECTIONS} files; make several of it"),
            );
        }
        if patch.sections.is_empty() {
            return error(
                first.unwrap_or_default() + 1,
                "no change is found; begin with *** Begin Patch, or with --- and +++ lines",
            );
        }
        Ok(patch)
    }
}

impl Hunk {
    /// The lines that it expects in the file.
    pub(crate) fn old(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.sign != Sign::Add)
    }

    /// Whether its lines tell their line ends: they do if they have not all the same one.
    fn has_own_ends(&self) -> bool {
        let with_cr = self.rows.iter().filter(|row| row.has_cr).count();
        with_cr > 0 && with_cr < self.rows.len()
    }
}

impl Row {
    fn new(sign: Sign, text: &str) -> Self {
        let body = text.strip_suffix('\r').unwrap_or(text);
        Self {
            sign,
            text: body.into(),
            has_cr: body.len() < text.len(),
            has_end: true,
            is_bare: false,
        }
    }

    /// A line of a hunk as it is written in a patch.
    fn parse(line: &str) -> Option<Self> {
        let (sign, text) = match line.as_bytes().first() {
            // Blanks at the ends of lines get lost on the way.
            None => (Sign::Keep, line),
            Some(b'\r') if line.len() == 1 => (Sign::Keep, line),
            Some(b' ') => (Sign::Keep, line.get(1..)?),
            Some(b'-') => (Sign::Remove, line.get(1..)?),
            Some(b'+') => (Sign::Add, line.get(1..)?),
            _ => return None,
        };
        Some(Self {
            is_bare: line.len() == text.len(),
            ..Self::new(sign, text)
        })
    }
}

/// The lines of a patch.
struct Source<'a>(Vec<&'a str>);

impl<'a> Source<'a> {
    fn new(text: &'a str) -> Self {
        let text = text.strip_suffix('\n').unwrap_or(text);
        let lines: Vec<&str> = text.split('\n').collect();
        // A patch that has CRLF throughout got it on its way.
        if lines.iter().all(|line| line.ends_with('\r')) {
            let bare = |line: &&'a str| line.strip_suffix('\r').unwrap_or(line);
            return Self(lines.iter().map(bare).collect());
        }
        Self(lines)
    }

    /// A line as it is.
    fn raw(&self, place: usize) -> Option<&'a str> {
        self.0.get(place).copied()
    }

    /// A line without a CR at its end.
    fn at(&self, place: usize) -> Option<&'a str> {
        let line = self.raw(place)?;
        Some(line.strip_suffix('\r').unwrap_or(line))
    }

    /// The first line that is not blank.
    fn first_words(&self) -> Option<usize> {
        self.0.iter().position(|line| !line.trim().is_empty())
    }
}

/// Takes blank lines off that stand between hunks and are no lines of the file.
fn drop_bare_end(rows: &mut Vec<Row>) {
    while rows.last().is_some_and(|row| row.is_bare) {
        rows.pop();
    }
}

/// What new lines are as a file.
fn content(rows: &[Row]) -> String {
    let mut content = String::new();
    for row in rows.iter().filter(|row| row.sign == Sign::Add) {
        content.push_str(&row.text);
        if row.has_cr {
            content.push('\r');
        }
        if row.has_end {
            content.push('\n');
        }
    }
    content
}

/// The old line number of `@@ -1,2 +3,4 @@`, with both counts.
fn numbers(line: &str) -> Option<(usize, usize, usize)> {
    let (old, rest) = line.strip_prefix("@@ -")?.split_once(" +")?;
    let (new, _) = rest.split_once(" @@").or_else(|| rest.split_once("@@"))?;
    let side = |text: &str| -> Option<(usize, usize)> {
        match text.split_once(',') {
            Some((start, count)) => Some((start.trim().parse().ok()?, count.trim().parse().ok()?)),
            None => Some((text.trim().parse().ok()?, 1)),
        }
    };
    let (start, old_count) = side(old)?;
    let (_, new_count) = side(new)?;
    Some((start, old_count, new_count))
}

fn error<T>(line: usize, problem: impl Into<String>) -> Result<T, PatchError> {
    Err(PatchError {
        line,
        problem: problem.into(),
    })
}
