//! What is known of the elements of a page by their names and attributes.

use std::collections::BTreeMap;

use html5gum::{HtmlString, Spanned};

use super::table::Table;

/// An element that is open.
#[derive(Debug)]
pub(crate) struct Element {
    pub(crate) name: String,
    pub(crate) group: Group,
    pub(crate) kind: Kind,
    pub(crate) language: Option<String>,
}

/// Elements that end one another, or keep others from doing so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Group {
    Division,
    Paragraph,
    Link,
    Code,
    Preformatted,
    Quote,
    List,
    Item,
    Terms,
    Term,
    Table,
    Rows,
    Row,
    Cell,
    Choice,
    Other,
}

impl Group {
    pub(crate) fn of(name: &str) -> Self {
        match name {
            "div" => Self::Division,
            "p" => Self::Paragraph,
            "a" => Self::Link,
            "code" | "kbd" | "samp" | "tt" => Self::Code,
            "pre" | "listing" | "plaintext" | "xmp" => Self::Preformatted,
            "blockquote" => Self::Quote,
            "ul" | "ol" | "menu" => Self::List,
            "li" => Self::Item,
            "dl" => Self::Terms,
            "dt" | "dd" => Self::Term,
            "table" => Self::Table,
            "thead" | "tbody" | "tfoot" => Self::Rows,
            "tr" => Self::Row,
            "td" | "th" => Self::Cell,
            "option" => Self::Choice,
            _ => Self::Other,
        }
    }
}

/// What an element does to what is in it.
#[derive(Debug)]
pub(crate) enum Kind {
    /// Says nothing.
    Plain,
    /// Stands apart from what is around it.
    Block,
    /// A block whose lines begin with something.
    Item,
    Heading,
    List {
        next: Option<u64>,
    },
    /// Emphasis: opened with the first word in it.
    Marked {
        mark: &'static str,
        opened: bool,
    },
    Link {
        to: Option<String>,
        local: bool,
        start: Option<usize>,
    },
    Code {
        start: Option<usize>,
    },
    Preformatted,
    Table(Table),
    Row,
    Cell,
    Main {
        start: usize,
    },
}

/// Attributes by name.
pub(crate) type Attributes = BTreeMap<HtmlString, Spanned<HtmlString, ()>>;

pub(crate) fn attribute(attributes: &Attributes, name: &str) -> Option<String> {
    let value = attributes.get(name.as_bytes())?;
    Some(String::from_utf8_lossy(value).into_owned())
}

pub(crate) fn is_left_out(name: &str, attributes: &Attributes) -> bool {
    let is_set = |name: &str, value: &str| attribute(attributes, name).as_deref() == Some(value);
    matches!(
        name,
        "script"
            | "style"
            | "noscript"
            | "template"
            | "svg"
            | "math"
            | "iframe"
            | "object"
            | "canvas"
            | "audio"
            | "video"
            | "select"
            | "button"
            | "noframes"
            | "noembed"
            | "datalist"
            | "dialog"
    ) || (has_end(name) && (is_set("hidden", "") || is_set("aria-hidden", "true")))
}

/// Whether an element has an end tag for sure.
fn has_end(name: &str) -> bool {
    let may_lack_it = [
        "p", "li", "dt", "dd", "tr", "td", "th", "thead", "tbody", "tfoot", "option", "html",
        "body",
    ];
    !is_void(name) && !may_lack_it.contains(&name)
}

fn is_void(name: &str) -> bool {
    matches!(
        name,
        "area"
            | "base"
            | "br"
            | "col"
            | "embed"
            | "hr"
            | "img"
            | "input"
            | "link"
            | "meta"
            | "param"
            | "source"
            | "track"
            | "wbr"
            | "frame"
            | "basefont"
            | "keygen"
    )
}

pub(crate) fn is_block(name: &str) -> bool {
    heading_level(name).is_some()
        || matches!(
            name,
            "address"
                | "article"
                | "aside"
                | "blockquote"
                | "body"
                | "caption"
                | "center"
                | "dd"
                | "details"
                | "dir"
                | "div"
                | "dl"
                | "dt"
                | "fieldset"
                | "figcaption"
                | "figure"
                | "footer"
                | "form"
                | "header"
                | "hgroup"
                | "hr"
                | "legend"
                | "li"
                | "main"
                | "menu"
                | "nav"
                | "ol"
                | "optgroup"
                | "option"
                | "p"
                | "pre"
                | "search"
                | "section"
                | "summary"
                | "table"
                | "tbody"
                | "td"
                | "textarea"
                | "tfoot"
                | "th"
                | "thead"
                | "tr"
                | "ul"
                | "listing"
                | "plaintext"
                | "xmp"
        )
}

/// Whether an element does anything to what is in it.
pub(crate) fn is_known(name: &str) -> bool {
    let in_lines = [
        "a", "b", "strong", "i", "em", "del", "s", "q", "code", "kbd", "samp", "tt",
    ];
    in_lines.contains(&name) || (is_block(name) && !is_void(name))
}

pub(crate) fn heading_level(name: &str) -> Option<usize> {
    let levels = ["h1", "h2", "h3", "h4", "h5", "h6"];
    levels
        .iter()
        .position(|level| *level == name)
        .map(|level| level + 1)
}

/// The language of code, as the class of its element says it.
pub(crate) fn language(attributes: &Attributes) -> Option<String> {
    let class = attribute(attributes, "class")?;
    let found = class.split_ascii_whitespace().find_map(|class| {
        ["language-", "lang-", "highlight-source-", "highlight-"]
            .iter()
            .find_map(|before| class.strip_prefix(before))
    })?;
    let fits = (1..=20).contains(&found.len())
        && found
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"+#-_.".contains(&byte));
    (fits && found != "default" && found != "none").then(|| found.to_owned())
}
