//! HTML to Markdown, in one pass over its tags.
//!
//! There is no tree: what is open stands in a list of bounded length, so that no page takes more
//! than time and memory in proportion to its size. Pages are not expected to be well formed.

use html5gum::emitters::default::DefaultEmitter;
use html5gum::{StartTag, Token, Tokenizer};
use reqwest::Url;
use tokio_util::sync::CancellationToken;

use super::markdown::{Markdown, fenced, in_backticks};
use super::table::Table;
use super::tags::{
    Attributes, Element, Group, Kind, attribute, heading_level, is_block, is_known, is_left_out,
    language,
};

/// How many elements may be open in one another; what is deeper counts as its parent's.
const MAX_DEPTH: usize = 100;

/// How many tables may be open in one another.
const MAX_TABLES: usize = 6;

/// How many tags are read between two looks at the cancellation.
const LOOK_EVERY: usize = 256;

/// The longest address of a link that is told.
const MAX_LINK: usize = 1_000;

/// The fewest bytes that make a main part worth being told first.
const MIN_MAIN: usize = 200;

/// What a page is as Markdown.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Converted {
    pub(crate) title: String,
    pub(crate) text: String,
    /// Whether there was no room for the end.
    pub(crate) cut: bool,
}

/// Converts a page that was found at `url`. `None`: it was cancelled.
pub(crate) fn convert(
    page: &str,
    url: &Url,
    cancellation: &CancellationToken,
) -> Option<Converted> {
    let mut emitter = DefaultEmitter::default();
    // So that scripts are not read as tags.
    emitter.naively_switch_states(true);
    let mut converter = Converter::new(url);
    for (number, token) in Tokenizer::new_with_emitter(page, emitter).enumerate() {
        if number % LOOK_EVERY == 0 && cancellation.is_cancelled() {
            return None;
        }
        match token {
            Ok(Token::StartTag(tag)) => converter.start(&tag),
            Ok(Token::EndTag(tag)) => converter.end(&String::from_utf8_lossy(&tag.name)),
            Ok(Token::String(text)) => converter.text(&String::from_utf8_lossy(&text)),
            Ok(Token::Comment(_) | Token::Doctype(_) | Token::Error(_)) => {}
            Err(never) => match never {},
        }
        if converter.markdown.is_full() {
            break;
        }
    }
    Some(converter.finish())
}

struct Converter {
    base: Url,
    markdown: Markdown,
    open: Vec<Element>,
    /// How many elements are open that had no room in the list.
    deeper: usize,
    /// An element that is left out, and how often it is open in itself.
    skipped: Option<(String, usize)>,
    title: Option<String>,
    in_title: bool,
    /// Where the main part stands.
    main: Option<(usize, usize)>,
}

impl Converter {
    fn new(url: &Url) -> Self {
        Self {
            base: url.clone(),
            markdown: Markdown::new(),
            open: Vec::new(),
            deeper: 0,
            skipped: None,
            title: None,
            in_title: false,
            main: None,
        }
    }

    fn start(&mut self, tag: &StartTag<()>) {
        let name = String::from_utf8_lossy(&tag.name);
        let name = name.as_ref();
        if let Some((skipped, times)) = &mut self.skipped {
            if skipped == name && !tag.self_closing {
                *times = times.saturating_add(1);
            }
            return;
        }
        let attributes = &tag.attributes;
        if is_left_out(name, attributes) {
            if !tag.self_closing || !matches!(name, "svg" | "math") {
                self.skipped = Some((name.to_owned(), 1));
            }
            return;
        }
        self.close_implied(name);
        match name {
            "br" if self.markdown.is_raw() => self.markdown.push("\n"),
            "br" => self.markdown.line(),
            "hr" => {
                self.markdown.block();
                self.markdown.lines("---");
                self.markdown.block();
            }
            "img" => self.image(attributes),
            "base" => {
                let base = attribute(attributes, "href");
                if let Some(base) = base.and_then(|href| self.base.join(href.trim()).ok()) {
                    self.base = base;
                }
            }
            "title" => self.in_title = self.title.is_none(),
            _ if is_known(name) => self.push(name, attributes),
            _ => {}
        }
    }

    fn push(&mut self, name: &str, attributes: &Attributes) {
        if self.open.len() >= MAX_DEPTH {
            self.deeper = self.deeper.saturating_add(1);
            return;
        }
        let group = Group::of(name);
        let kind = self.kind(name, attributes);
        match &kind {
            Kind::Plain | Kind::Marked { .. } | Kind::Code { .. } | Kind::Row => {}
            Kind::Link { .. } => self.markdown.begin_one_line(),
            Kind::Heading => {
                self.markdown.block();
                self.markdown.begin_one_line();
            }
            Kind::List { .. } if self.is_in_item() => self.markdown.line(),
            Kind::Block | Kind::List { .. } | Kind::Table(_) | Kind::Main { .. } => {
                self.markdown.block();
            }
            Kind::Item if group == Group::Quote => self.markdown.block(),
            Kind::Item => self.markdown.line(),
            Kind::Preformatted => self.markdown.begin_piece(true),
            Kind::Cell => self.markdown.begin_piece(false),
        }
        match name {
            "li" => {
                let mark = self.next_mark();
                self.markdown.begin_item(mark, "");
            }
            "dd" => self.markdown.begin_item(": ", ""),
            "blockquote" => self.markdown.begin_item("> ", "> "),
            _ => {}
        }
        if let (Kind::Heading, Some(level)) = (&kind, heading_level(name))
            && !self.is_open(Group::Link)
        {
            self.markdown
                .begin_item(format!("{} ", "#".repeat(level)), "");
        }
        let language = language(attributes);
        if name == "code"
            && let Some(outer) = self.open.last_mut()
            && matches!(outer.kind, Kind::Preformatted)
            && language.is_some()
        {
            outer.language = language.clone();
        }
        if !matches!(kind, Kind::Plain) {
            self.open.push(Element {
                name: name.to_owned(),
                group,
                kind,
                language,
            });
        }
    }

    fn kind(&mut self, name: &str, attributes: &Attributes) -> Kind {
        let is_main = name == "main" || attribute(attributes, "role").as_deref() == Some("main");
        let tables = if matches!(name, "table" | "tr" | "td" | "th") {
            let open = self.open.iter();
            open.filter(|element| matches!(element.kind, Kind::Table(_)))
                .count()
        } else {
            0
        };
        match name {
            _ if self.markdown.is_raw() && !is_block(name) => Kind::Plain,
            _ if self.markdown.is_raw() => Kind::Block,
            // Not inside of what is written anew when it ends.
            _ if is_main
                && self.main.is_none()
                && self.markdown.is_outermost()
                && !self.is_open(Group::Link)
                && !self.is_open(Group::Code) =>
            {
                let start = self.markdown.position();
                self.main = Some((start, start));
                Kind::Main { start }
            }
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => Kind::Heading,
            "ul" | "menu" => Kind::List { next: None },
            "ol" => {
                let start = attribute(attributes, "start");
                let start = start.and_then(|start| start.trim().parse::<u32>().ok());
                Kind::List {
                    next: Some(start.map_or(1, u64::from)),
                }
            }
            "li" | "dd" | "blockquote" => Kind::Item,
            "b" | "strong" => Kind::Marked {
                mark: "**",
                opened: false,
            },
            "i" | "em" => Kind::Marked {
                mark: "*",
                opened: false,
            },
            "del" | "s" => Kind::Marked {
                mark: "~~",
                opened: false,
            },
            "a" => {
                let href = attribute(attributes, "href").unwrap_or_default();
                let local = href.trim().starts_with('#');
                Kind::Link {
                    to: self.link(&href).filter(|_| !local),
                    local,
                    start: None,
                }
            }
            "q" => Kind::Marked {
                mark: "\"",
                opened: false,
            },
            "code" | "kbd" | "samp" | "tt" if !self.is_open(Group::Code) => {
                Kind::Code { start: None }
            }
            "pre" | "listing" | "plaintext" | "xmp" => Kind::Preformatted,
            "table" if tables < MAX_TABLES => Kind::Table(Table::default()),
            "tr" if tables > 0 => {
                self.with_table(Table::begin_row);
                Kind::Row
            }
            "td" | "th" if tables > 0 => {
                let heads = name == "th";
                self.with_table(|table| table.begin_cell(heads));
                Kind::Cell
            }
            _ if is_block(name) => Kind::Block,
            _ => Kind::Plain,
        }
    }

    fn with_table(&mut self, act: impl FnOnce(&mut Table)) {
        let table = self.open.iter_mut().rev().find_map(|element| {
            if let Kind::Table(table) = &mut element.kind {
                Some(table)
            } else {
                None
            }
        });
        if let Some(table) = table {
            act(table);
        }
    }

    /// The mark of the next item of the innermost list.
    fn next_mark(&mut self) -> String {
        let list = self.open.iter_mut().rev().find_map(|element| {
            if let Kind::List { next } = &mut element.kind {
                Some(next)
            } else {
                None
            }
        });
        let Some(Some(next)) = list else {
            return "- ".into();
        };
        let mark = format!("{next}. ");
        *next = next.saturating_add(1);
        mark
    }

    /// The innermost open element that is wanted, looking no further out than the border.
    fn innermost(
        &self,
        wanted: impl Fn(&Element) -> bool,
        border: impl Fn(Group) -> bool,
    ) -> Option<usize> {
        for (place, element) in self.open.iter().enumerate().rev() {
            if wanted(element) {
                return Some(place);
            }
            if border(element.group) {
                return None;
            }
        }
        None
    }

    fn is_open(&self, group: Group) -> bool {
        self.open.iter().any(|element| element.group == group)
    }

    fn is_in_item(&self) -> bool {
        let item = |element: &Element| element.group == Group::Item;
        self.innermost(item, |group| group == Group::Table)
            .is_some()
    }

    /// Ends what a start tag ends without saying so.
    fn close_implied(&mut self, name: &str) {
        use Group::{
            Cell, Choice, Item, Link, List, Paragraph, Quote, Row, Rows, Table, Term, Terms,
        };
        let (ended, borders): (&[Group], &[Group]) = match Group::of(name) {
            Item => (&[Item], &[List, Table]),
            Term => (&[Term], &[Terms, Table]),
            Cell => (&[Cell], &[Table]),
            Row => (&[Row, Cell], &[Table]),
            Rows => (&[Rows, Row, Cell], &[Table]),
            Link => (&[Link], &[Table, Cell]),
            Choice => (&[Choice], &[]),
            _ if is_block(name) => (&[Paragraph], &[Table, Cell, Item, Quote, Group::Division]),
            _ => return,
        };
        let is_ended = |element: &Element| ended.contains(&element.group);
        while let Some(place) = self.innermost(is_ended, |group| borders.contains(&group)) {
            self.close_to(place);
        }
    }

    fn end(&mut self, name: &str) {
        if let Some((skipped, times)) = &mut self.skipped {
            if skipped == name {
                *times = times.saturating_sub(1);
                if *times == 0 {
                    self.skipped = None;
                }
            }
            return;
        }
        match name {
            "title" => self.in_title = false,
            "br" => self.markdown.line(),
            _ if !is_known(name) => {}
            _ if self.deeper > 0 => self.deeper = self.deeper.saturating_sub(1),
            _ => {
                use Group::{Cell, Preformatted, Row, Rows, Table};
                let borders: &[Group] = match Group::of(name) {
                    Table | Row | Rows | Cell => &[Table],
                    _ if is_block(name) => &[Table, Cell],
                    _ => &[Table, Cell, Preformatted],
                };
                let wanted = |element: &Element| element.name == name;
                if let Some(place) = self.innermost(wanted, |group| borders.contains(&group)) {
                    self.close_to(place);
                }
            }
        }
    }

    /// Ends all that is open from this place on.
    fn close_to(&mut self, place: usize) {
        while self.open.len() > place {
            let Some(element) = self.open.pop() else {
                return;
            };
            self.close(element);
        }
    }

    fn close(&mut self, element: Element) {
        let markdown = &mut self.markdown;
        match element.kind {
            Kind::Plain | Kind::Row => {}
            Kind::Block => markdown.block(),
            Kind::List { .. } => {
                if self.is_in_item() {
                    self.markdown.line();
                } else {
                    self.markdown.block();
                }
            }
            Kind::Item => {
                markdown.end_item();
                if element.group == Group::Quote {
                    markdown.block();
                } else {
                    markdown.line();
                }
            }
            Kind::Heading => {
                markdown.end_one_line();
                if !self.is_open(Group::Link) {
                    self.markdown.end_item();
                }
                self.markdown.block();
            }
            Kind::Marked { mark, opened } => {
                if opened {
                    markdown.push(mark);
                }
            }
            Kind::Link { to, local, start } => {
                markdown.end_one_line();
                let Some(start) = start else { return };
                let text = markdown.since(start).trim();
                // A sign that leads to the heading it stands at.
                let is_sign = local && !text.chars().any(char::is_alphanumeric);
                match to {
                    _ if is_sign => drop(markdown.take_since(start)),
                    Some(to) => {
                        let text = markdown.take_since(start);
                        markdown.push(&format!("[{}]({to})", text.trim()));
                    }
                    None => {}
                }
            }
            Kind::Code { start } => {
                // What was not closed before a block began is no piece of code in a line.
                if let Some(start) = start
                    && !markdown.since(start).contains('\n')
                {
                    let code = markdown.take_since(start);
                    markdown.push(&in_backticks(&code));
                }
            }
            Kind::Preformatted => self.preformatted(element.language),
            Kind::Cell => {
                let cell = markdown.end_piece();
                self.with_table(|table| table.end_cell(cell));
            }
            Kind::Table(table) => {
                markdown.block();
                markdown.lines(&table.write());
                markdown.block();
                self.with_table(Table::holds_table);
            }
            Kind::Main { start } => {
                markdown.block();
                self.main = Some((start, self.markdown.position()));
            }
        }
    }

    fn preformatted(&mut self, language: Option<String>) {
        let code = self.markdown.end_piece();
        let code = code.strip_prefix('\n').unwrap_or(&code).trim_end();
        if code.trim().is_empty() {
            return;
        }
        let around = self.open.iter().rev().take(3);
        let language = language
            .or_else(|| around.filter_map(|element| element.language.clone()).next())
            .unwrap_or_default();
        self.markdown.block();
        self.markdown.lines(&fenced(code, &language));
        self.markdown.block();
    }

    fn text(&mut self, text: &str) {
        if self.in_title {
            self.title.get_or_insert_default().push_str(text);
        } else if self.skipped.is_none() {
            self.words(text);
        }
    }

    /// Writes words, and before them the marks of what was opened since the last ones.
    fn words(&mut self, text: &str) {
        let open = &mut self.open;
        let in_code = open
            .iter()
            .any(|element| matches!(element.kind, Kind::Code { .. }));
        let mut is_first = true;
        self.markdown.words(text, |markdown| {
            if !std::mem::take(&mut is_first) {
                return;
            }
            let piece = open
                .iter()
                .rposition(|element| matches!(element.kind, Kind::Cell | Kind::Preformatted));
            for element in open.iter_mut().skip(piece.map_or(0, |piece| piece + 1)) {
                match &mut element.kind {
                    Kind::Marked { mark, opened } if !*opened && !in_code => {
                        *opened = true;
                        markdown.push(mark);
                    }
                    Kind::Link { start, .. } | Kind::Code { start } if start.is_none() => {
                        *start = Some(markdown.position());
                    }
                    _ => {}
                }
            }
        });
    }

    fn image(&mut self, attributes: &Attributes) {
        let alt = attribute(attributes, "alt").unwrap_or_default();
        let alt = one_line(&alt);
        if alt.is_empty() || self.markdown.is_raw() {
            return;
        }
        let source = attribute(attributes, "src").and_then(|source| self.link(&source));
        match source {
            Some(source) if !self.is_open(Group::Link) => {
                self.words(&format!("![{alt}]({source})"));
            }
            _ => self.words(&alt),
        }
    }

    /// A link made whole, if it leads to a page.
    fn link(&self, href: &str) -> Option<String> {
        let href = href.trim();
        if href.is_empty() || href.len() > MAX_LINK {
            return None;
        }
        let url = self.base.join(href).ok()?;
        if !matches!(url.scheme(), "http" | "https" | "mailto") {
            return None;
        }
        let link = String::from(url).replace('(', "%28").replace(')', "%29");
        (link.len() <= MAX_LINK).then_some(link)
    }

    fn finish(mut self) -> Converted {
        self.close_to(0);
        let cut = self.markdown.is_full();
        let text = self.markdown.finish();
        let (start, end) = self.main.unwrap_or_default();
        let part = |from, to| text.get(from..to).unwrap_or_default().trim();
        let (before, main, after) = (part(0, start), part(start, end), part(end, text.len()));
        let text = if main.len() < MIN_MAIN || (before.is_empty() && after.is_empty()) {
            text.trim().to_owned()
        } else {
            let rest = [before, after].join("\n\n");
            format!("{main}\n\n---\n(the rest of the page)\n\n{}", rest.trim())
        };
        Converted {
            title: one_line(&self.title.unwrap_or_default()),
            text,
            cut,
        }
    }
}

fn one_line(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    let line = words.join(" ");
    line.chars().take(300).collect()
}
