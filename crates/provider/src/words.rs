//! Other people's words, made fit for an error message.

/// The most characters of a provider's words that are shown.
pub(crate) const LIMIT: usize = 300;

/// The text of a body that may be anything: without markup and control characters.
pub(crate) fn plain(body: &[u8]) -> String {
    // Far more than is shown, so that a huge body costs little.
    let head = body.get(..64 << 10).unwrap_or(body);
    plain_text(&String::from_utf8_lossy(head))
}

/// The same for text.
pub(crate) fn plain_text(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        let (before, tag) = rest.split_at(at);
        push_clean(&mut out, before);
        let name: String = tag
            .chars()
            .skip(1)
            .take_while(|character| character.is_ascii_alphanumeric())
            .collect();
        let is_tag = !name.is_empty() || tag.starts_with("</") || tag.starts_with("<!");
        if !is_tag {
            // A less-than sign between words.
            push_clean(&mut out, "<");
            rest = tag.get(1..).unwrap_or_default();
            continue;
        }
        let name = name.to_ascii_lowercase();
        // What stands in a style sheet or a script is no text.
        let tag = if name == "style" || name == "script" {
            let end = tag.to_ascii_lowercase().find(&format!("</{name}"));
            end.and_then(|end| tag.get(end..)).unwrap_or_default()
        } else {
            tag
        };
        rest = tag.split_once('>').map_or("", |(_, rest)| rest);
        push_clean(&mut out, " ");
    }
    push_clean(&mut out, rest);
    out.trim_end().to_owned()
}

/// Appends text with every run of blanks and control characters as one blank.
fn push_clean(out: &mut String, text: &str) {
    for character in text.chars() {
        if character.is_whitespace() || character.is_control() {
            if !out.is_empty() && !out.ends_with(' ') {
                out.push(' ');
            }
        } else {
            out.push(character);
        }
    }
}

/// At most `limit` characters, with a mark where something was left out.
pub(crate) fn short(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        None => text.to_owned(),
        Some(_) => {
            let kept: String = text.chars().take(limit.saturating_sub(1)).collect();
            format!("{}…", kept.trim_end())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_and_control_characters_go() {
        assert_eq!(plain_text("a <b>c</b>\r\n\u{1b}[31md"), "a c [31md");
        assert_eq!(plain_text("<script>x < 1</script>y"), "y");
        assert_eq!(plain_text("1 < 2 and <- left"), "1 < 2 and <- left");
        assert_eq!(plain_text("<html"), "");
        assert_eq!(plain(b"\xff<p>x"), "\u{fffd} x");
    }

    #[test]
    fn long_words_are_cut() {
        assert_eq!(short("abc", 3), "abc");
        assert_eq!(short("日本語です", 3), "日本…");
    }
}
