//! What follows the name of a skill or command, put into its text.

/// Puts arguments in: `$ARGUMENTS` is all of them, `$1` to `$9` are single words, where quotes keep blanks
/// together. A text without these has them at its end. What is put in is not looked at again.
#[must_use]
pub fn with_arguments(text: &str, arguments: &str) -> String {
    let arguments = arguments.trim();
    let words = words(arguments);
    let mut made = String::with_capacity(text.len() + arguments.len());
    let mut used = false;
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        made.push_str(before);
        if let Some(after) = after.strip_prefix("ARGUMENTS") {
            made.push_str(arguments);
            used = true;
            rest = after;
            continue;
        }
        let mut characters = after.chars();
        let digit = characters.next().and_then(|c| c.to_digit(10));
        let goes_on = characters.next().is_some_and(|c| c.is_ascii_digit());
        match digit.and_then(|digit| usize::try_from(digit).ok()) {
            Some(nth @ 1..) if !goes_on => {
                made.push_str(words.get(nth - 1).map_or("", String::as_str));
                used = true;
                rest = after.get(1..).unwrap_or_default();
            }
            _ => {
                made.push('$');
                rest = after;
            }
        }
    }
    made.push_str(rest);
    if !used && !arguments.is_empty() {
        made.push_str("\n\nArguments: ");
        made.push_str(arguments);
    }
    made
}

/// Words as a shell parts them, as far as quotes go.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for character in text.chars() {
        match (character, quote) {
            (mark, Some(open)) if mark == open => quote = None,
            ('"' | '\'', None) if word.is_none() => {
                quote = Some(character);
                word = Some(String::new());
            }
            (blank, None) if blank.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_put_in_once() {
        for (text, arguments, expected) in [
            ("a $ARGUMENTS b", "x  y", "a x  y b"),
            ("$1, $2, $3.", "one \"two words\"", "one, two words, ."),
            ("$1", "it's", "it's"),
            ("$1 $ARGUMENTS", "$2 $ARGUMENTS", "$2 $2 $ARGUMENTS"),
            ("no place", "x", "no place\n\nArguments: x"),
            ("no place", " ", "no place"),
            ("$10 and $100 $0 $x $", "", "$10 and $100 $0 $x $"),
            ("$1é$", "ü", "üé$"),
            ("$1", "'open", "open"),
        ] {
            assert_eq!(
                with_arguments(text, arguments),
                expected,
                "{text} {arguments}"
            );
        }
    }
}
