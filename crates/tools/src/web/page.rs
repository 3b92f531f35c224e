//! What a body is to a model: text, a picture, or nothing that it can read.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};
use tokio_util::sync::CancellationToken;
use tooloop_model::Image;

use super::client::Answer;
use super::{MAX_BODY, html, image};

/// How far into a page its own word about its charset may stand.
const META_WITHIN: usize = 1024;

/// A page as it is told.
#[derive(Debug, Default)]
pub(crate) struct Page {
    /// Address, status, type and size, and the title if there is one.
    pub(crate) head: String,
    pub(crate) text: String,
    pub(crate) image: Option<Image>,
    /// Whether it is an answer that tells of a failure, or one that cannot be read.
    pub(crate) is_error: bool,
}

/// Reads an answer. `None`: it was cancelled.
pub(crate) fn read(answer: &Answer, cancellation: &CancellationToken) -> Option<Page> {
    let kind = kind(answer);
    let is_text = matches!(kind, Kind::Html | Kind::Text);
    let failed = answer.status >= 400;
    let named = match answer.content_type.as_str() {
        "" => "no content type",
        named => named,
    };
    let named: String = named.chars().take(100).collect();
    let size = if answer.cut {
        format!("more than {MAX_BODY} bytes")
    } else {
        format!("{} bytes", answer.body.len())
    };
    let mut page = Page {
        head: format!(
            "{}\nstatus {}, {named}, {size}\n",
            answer.url, answer.status
        ),
        is_error: failed,
        ..Page::default()
    };
    match kind {
        Kind::Html => {
            let converted = html::convert(&text(answer, true), &answer.url, cancellation)?;
            if !converted.title.is_empty() {
                page.head.push_str(&format!("title: {}\n", converted.title));
            }
            page.text = converted.text;
            if page.text.is_empty() {
                page.text
                    .push_str("(no text in it: scripts may build the page in a browser)");
            }
            if converted.cut {
                page.text
                    .push_str("\n\n(the page is too large: the rest was not converted)");
            }
        }
        Kind::Text => page.text = text(answer, false),
        Kind::Image(media_type) => {
            page.image = Some(Image {
                media_type: media_type.into(),
                data: STANDARD.encode(&answer.body),
            });
        }
        Kind::BadImage(why) => {
            page.is_error = true;
            page.text = format!("(a picture that cannot be shown: {why})");
        }
        Kind::Binary if failed => {}
        Kind::Binary => {
            page.is_error = true;
            page.text = "(not text, and not a picture that can be shown: it was not read)".into();
        }
    }
    if answer.cut && is_text {
        page.text
            .push_str("\n\n(the body is larger than what is read of one: its end is missing)");
    }
    if page.text.trim().is_empty() && page.image.is_none() {
        page.text = "(the body is empty)".into();
    }
    Some(page)
}

enum Kind {
    Html,
    Text,
    Image(&'static str),
    BadImage(String),
    Binary,
}

fn kind(answer: &Answer) -> Kind {
    let body = answer.body.as_slice();
    let essence = answer.content_type.split(';').next().unwrap_or_default();
    let essence = essence.trim().to_ascii_lowercase();
    let (main, sub) = essence.split_once('/').unwrap_or((&essence, ""));
    let is_image = main == "image" && sub != "svg+xml";
    if is_image || main.is_empty() || sub == "octet-stream" {
        match image::check(body) {
            Some(_) if answer.cut => return Kind::BadImage(format!("more than {MAX_BODY} bytes")),
            Some(Ok(media_type)) => return Kind::Image(media_type),
            Some(Err(why)) => return Kind::BadImage(why),
            None if is_image => return Kind::Binary,
            None => {}
        }
    }
    let named_text = main == "text"
        || sub.ends_with("+json")
        || sub.ends_with("+xml")
        || sub.ends_with("+yaml")
        || matches!(
            sub,
            "json"
                | "xml"
                | "javascript"
                | "ecmascript"
                | "x-javascript"
                | "typescript"
                | "yaml"
                | "x-yaml"
                | "toml"
                | "sql"
                | "graphql"
                | "x-sh"
                | "x-ndjson"
                | "jsonl"
                | "markdown"
                | "x-www-form-urlencoded"
                | "rtf"
                | "x-tex"
                | "x-python"
                | "x-httpd-php"
        );
    match (main, sub) {
        ("text", "html") | ("application", "xhtml+xml") => Kind::Html,
        _ if named_text => Kind::Text,
        // Servers that do not know say so, or nothing: the bytes know better.
        ("", _) | ("application", "octet-stream") if is_text(body) => {
            let start = body.get(..256).unwrap_or(body);
            let start = String::from_utf8_lossy(start)
                .trim_start()
                .to_ascii_lowercase();
            if start.starts_with("<!doctype html") || start.starts_with("<html") {
                Kind::Html
            } else {
                Kind::Text
            }
        }
        _ => Kind::Binary,
    }
}

/// Whether bytes are text beyond doubt. The last character may be cut.
fn is_text(body: &[u8]) -> bool {
    let valid = match std::str::from_utf8(body) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none(),
    };
    valid
        && !body
            .iter()
            .any(|byte| matches!(byte, 0..=8 | 14..=26 | 28..=31))
}

/// The body as text: by its byte order mark, by the header, by its own word, by its look.
fn text(answer: &Answer, is_html: bool) -> String {
    let body = answer.body.as_slice();
    let marked = Encoding::for_bom(body).map(|(encoding, _)| encoding);
    let header = charset(&answer.content_type);
    let own = || {
        let start = body.get(..META_WITHIN).unwrap_or(body);
        let found = is_html.then(|| own_charset(start)).flatten()?;
        // Whoever can read the word does not read two bytes a character.
        Some(
            if found == encoding_rs::UTF_16LE || found == encoding_rs::UTF_16BE {
                UTF_8
            } else {
                found
            },
        )
    };
    let by_look = || {
        let is_utf_8 = match std::str::from_utf8(body) {
            Ok(_) => true,
            Err(error) => answer.cut && error.error_len().is_none(),
        };
        if is_utf_8 { UTF_8 } else { WINDOWS_1252 }
    };
    let encoding = marked.or(header).or_else(own).unwrap_or_else(by_look);
    encoding.decode(body).0.into_owned()
}

/// The encoding that a `charset=` names.
fn charset(text: &str) -> Option<&'static Encoding> {
    let lower = text.to_ascii_lowercase();
    let (_, label) = lower.split_once("charset=")?;
    let label = label.trim_start_matches(['"', '\'', ' ']);
    let end = label
        .find(['"', '\'', ';', ' ', '>', '/'])
        .unwrap_or(label.len());
    Encoding::for_label(label.get(..end)?.as_bytes())
}

/// What the first `meta` that speaks of a charset says, or the declaration of XML.
fn own_charset(start: &[u8]) -> Option<&'static Encoding> {
    let start = String::from_utf8_lossy(start).to_ascii_lowercase();
    if let Some(declared) = start.trim_start().strip_prefix("<?xml") {
        let declared = declared.split("?>").next().unwrap_or_default();
        if let Some((_, label)) = declared.split_once("encoding=") {
            return charset(&format!("charset={label}"));
        }
    }
    start
        .split("<meta")
        .skip(1)
        .filter_map(|tag| tag.split('>').next())
        .find_map(charset)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(content_type: &str, body: &[u8]) -> Answer {
        Answer {
            url: "https://a.test/x".parse().unwrap(),
            status: 200,
            content_type: content_type.into(),
            body: body.to_vec(),
            cut: false,
        }
    }

    fn page(answer: &Answer) -> Page {
        read(answer, &CancellationToken::new()).unwrap()
    }

    #[test]
    fn charsets_are_found() {
        let table: [(&str, &[u8], &str); 12] = [
            ("text/plain; charset=ISO-8859-1", b"caf\xe9", "café"),
            ("text/plain; charset=\"shift_jis\"", b"\x93\xfa", "日"),
            ("text/plain; charset=utf-8", b"a\xff", "a\u{fffd}"),
            ("text/plain; charset=nonsense", "é".as_bytes(), "é"),
            ("text/plain", b"caf\xe9 \x96", "café –"),
            ("text/plain", "日".as_bytes(), "日"),
            ("text/plain; charset=latin1", b"\xef\xbb\xbf\xc3\xa9", "é"),
            ("text/plain", b"\xff\xfea\0\xe9\0", "aé"),
            ("text/html", b"<meta charset=windows-1251>\xcf", "П"),
            (
                "text/html",
                b"<meta http-equiv=\"Content-Type\" content=\"text/html; charset=koi8-r\">\xf0",
                "П",
            ),
            ("text/html", "<meta charset=utf-16>é".as_bytes(), "é"),
            (
                "application/xhtml+xml",
                b"<?xml version='1.0' encoding='iso-8859-2'?><p>\xb1</p>",
                "ą",
            ),
        ];
        for (content_type, body, expected) in table {
            assert_eq!(
                page(&answer(content_type, body)).text,
                expected,
                "{content_type} {body:?}"
            );
        }
    }

    #[test]
    fn what_a_body_is_decides_what_is_told() {
        let picture = b"GIF89a\x10\0\x20\0";
        let table: [(&str, &[u8], &str, bool); 13] = [
            ("application/json", b"{\"a\": 1}", "{\"a\": 1}", false),
            ("application/ld+json", b"{}", "{}", false),
            ("image/svg+xml", b"<svg/>", "<svg/>", false),
            ("text/x-rust", b"fn main() {}", "fn main() {}", false),
            ("application/octet-stream", b"# Read me", "# Read me", false),
            ("", b" <!DOCTYPE html><p>x", "x", false),
            ("", b"<p>x", "<p>x", false),
            (
                "text/html",
                b"<script>x</script>",
                "(no text in it: scripts may build the page in a browser)",
                false,
            ),
            ("text/plain", b" \n", "(the body is empty)", false),
            (
                "application/pdf",
                b"%PDF",
                "(not text, and not a picture that can be shown: it was not read)",
                true,
            ),
            (
                "application/octet-stream",
                b"a\0b",
                "(not text, and not a picture that can be shown: it was not read)",
                true,
            ),
            (
                "image/png",
                b"\x89PNG\r\n\x1a\n",
                "(a picture that cannot be shown: it is damaged)",
                true,
            ),
            (
                "image/bmp",
                b"BM",
                "(not text, and not a picture that can be shown: it was not read)",
                true,
            ),
        ];
        for (content_type, body, text, is_error) in table {
            let page = page(&answer(content_type, body));
            assert_eq!(
                (page.text.as_str(), page.is_error),
                (text, is_error),
                "{content_type}"
            );
            assert_eq!(page.image, None);
        }
        let shown = page(&answer("image/png", picture));
        assert_eq!(shown.image.unwrap().media_type, "image/gif");
        assert!(shown.text.is_empty() && !shown.is_error);
    }

    #[test]
    fn the_head_says_what_came() {
        let mut answer = answer("text/html; charset=utf-8", b"<title> A\n b </title><p>x");
        answer.status = 404;
        let failed = page(&answer);
        assert!(failed.is_error);
        assert_eq!(
            failed.head,
            "https://a.test/x\nstatus 404, text/html; charset=utf-8, 25 bytes\ntitle: A b\n"
        );
        answer.cut = true;
        answer.content_type.clear();
        let cut = page(&answer);
        assert!(
            cut.head
                .contains("no content type, more than 5242880 bytes"),
            "{}",
            cut.head
        );
        assert!(cut.text.ends_with("its end is missing)"), "{}", cut.text);
    }
}
