//! An export in Markdown.

use std::io::{self, Write};

use tooloop::journal::Header;

use super::Page;
use super::items::{Item, Kind};

/// Text of the model is Markdown already; all other text stands between fences, or is quoted.
#[derive(Debug)]
pub(super) struct Markdown;

impl Page for Markdown {
    fn begin(&mut self, header: &Header, out: &mut dyn Write) -> io::Result<()> {
        let place = header.workspace.display().to_string();
        writeln!(
            out,
            "# Session {}\n\nBegun {} in {}.",
            header.session,
            header.created,
            code(&place)
        )
    }

    fn item(&mut self, item: &Item, out: &mut dyn Write) -> io::Result<()> {
        let time = item
            .time
            .map_or_else(String::new, |time| format!(" · {time}"));
        match item.kind {
            Kind::Prompt => {
                let quoted = item.text.replace('\n', "\n> ");
                writeln!(out, "\n## {}{time}\n\n> {quoted}", item.title)?;
            }
            Kind::Answer => writeln!(out, "\n{}", item.text.trim_end())?,
            Kind::Thinking => writeln!(
                out,
                "\n<details><summary>{}</summary>\n\n{}\n</details>",
                item.title,
                fenced(&item.text, "text")
            )?,
            Kind::Call => {
                let body = fenced(&item.text, "json");
                writeln!(out, "\n**{}**{time}\n\n{body}", code(&item.title))?;
            }
            Kind::Result | Kind::Failure => writeln!(
                out,
                "\n<details><summary>{}</summary>\n\n{}\n</details>",
                escaped(&item.title),
                fenced(&item.text, "text")
            )?,
            Kind::Note => writeln!(out, "\n_{}_", escaped(&one_line(&item.text)))?,
        }
        for image in &item.images {
            let kind = code(&one_line(&image.media_type));
            writeln!(out, "\n_(a picture, {kind})_")?;
        }
        Ok(())
    }

    fn end(&mut self, _: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}

/// Between fences that the text does not have.
fn fenced(text: &str, language: &str) -> String {
    let fence = "`".repeat(longest_run(text).saturating_add(1).max(3));
    format!(
        "{fence}{language}\n{}\n{fence}",
        text.trim_end_matches('\n')
    )
}

fn code(text: &str) -> String {
    let text = one_line(text);
    let ticks = "`".repeat(longest_run(&text).saturating_add(1));
    format!("{ticks} {text} {ticks}")
}

fn longest_run(text: &str) -> usize {
    let runs = text.split(|character| character != '`');
    runs.map(str::len).max().unwrap_or_default()
}

fn one_line(text: &str) -> String {
    text.replace('\n', " ")
}

/// Words, and no marks.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if "\\`*_{}[]<>#|!~&".contains(character) {
            out.push('\\');
        }
        out.push(character);
    }
    out
}
