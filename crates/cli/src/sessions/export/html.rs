//! An export as one page, with no script and nothing from elsewhere.

use std::io::{self, Write};

use tooloop::Image;
use tooloop::journal::Header;

use super::Page;
use super::items::{Item, Kind};

#[derive(Debug)]
pub(super) struct Html;

/// Nothing may be loaded or run, whatever slipped in.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem;\
color:#1b1b1b;background:#fff}h1{font-size:1.3rem}pre{white-space:pre-wrap;overflow-wrap:anywhere;margin:.4rem 0;\
font:13px/1.45 ui-monospace,monospace}.prompt,.answer{white-space:pre-wrap;overflow-wrap:anywhere}.prompt{\
background:#eef3fb;border-left:4px solid #4a78c0;padding:.6rem .9rem;margin:1.6rem 0 .8rem}.answer{margin:.8rem 0}\
.call,details{background:#f6f6f6;border-radius:4px;padding:.4rem .8rem;margin:.4rem 0}.failed{background:#fbeeee}\
.note,time,.about{color:#6b6b6b;font-size:.85rem}.note{margin:.3rem 0}time{float:right}img{max-width:100%}\
@media(prefers-color-scheme:dark){body{color:#ddd;background:#161616}.prompt{background:#1d2733}.call,details{\
background:#222}.failed{background:#331e1e}}";

impl Page for Html {
    fn begin(&mut self, header: &Header, out: &mut dyn Write) -> io::Result<()> {
        let place = header.workspace.display().to_string();
        writeln!(
            out,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n<title>Session {session}</title>\n\
             <style>{STYLE}</style>\n</head>\n<body>\n<h1>Session {session}</h1>\n\
             <p class=\"about\">Begun {created} in {place}</p>",
            session = header.session,
            created = header.created,
            place = escaped(&place),
        )
    }

    fn item(&mut self, item: &Item, out: &mut dyn Write) -> io::Result<()> {
        let time = item.time.map_or_else(String::new, |time| {
            format!("<time datetime=\"{time}\">{time}</time>")
        });
        let title = escaped(&item.title);
        let text = escaped(&item.text);
        let images: String = item.images.iter().map(picture).collect();
        match item.kind {
            Kind::Prompt => {
                writeln!(out, "<div class=\"prompt\">{time}{text}{images}</div>")
            }
            Kind::Answer => writeln!(out, "<div class=\"answer\">{text}</div>"),
            Kind::Thinking => writeln!(
                out,
                "<details><summary>{title}</summary><pre>{text}</pre></details>"
            ),
            Kind::Call => writeln!(
                out,
                "<div class=\"call\">{time}<strong>{title}</strong><pre>{text}</pre></div>"
            ),
            Kind::Result => writeln!(
                out,
                "<details><summary>{title}</summary><pre>{text}</pre>{images}</details>"
            ),
            Kind::Failure => writeln!(
                out,
                "<details class=\"failed\" open><summary>{title}</summary><pre>{text}</pre>{images}</details>"
            ),
            Kind::Note => writeln!(out, "<p class=\"note\">{text}</p>"),
        }
    }

    fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "</body>\n</html>")
    }
}

/// A picture of a kind that runs nothing, or a word that there was one.
fn picture(image: &Image) -> String {
    let known = ["image/png", "image/jpeg", "image/gif", "image/webp"];
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
    if known.contains(&image.media_type.as_str()) && image.data.bytes().all(is_base64) {
        return format!(
            "<p><img alt=\"a picture\" src=\"data:{};base64,{}\"></p>",
            image.media_type, image.data
        );
    }
    let kind = escaped(&image.media_type);
    format!("<p class=\"note\">(a picture, {kind})</p>")
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}
