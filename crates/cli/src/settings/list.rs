//! Lists written in one line of text, as variables and flags have them.

use toml::de::DeValue;

/// Takes a list apart: a TOML array, or items between commas and blanks. Within brackets neither
/// parts items, so that `Bash(git log *), Read` is two.
///
/// # Errors
/// What is wrong: a list that cannot be told apart for sure is refused, since half a deny rule
/// denies nothing.
pub(super) fn items(text: &str) -> Result<Vec<String>, String> {
    if text.trim_start().starts_with('[') {
        return array(text.trim());
    }
    let mut items = Vec::new();
    let mut item = String::new();
    let mut depth = 0_usize;
    for character in text.chars() {
        if depth == 0 && (character == ',' || character.is_whitespace()) {
            if !item.is_empty() {
                items.push(std::mem::take(&mut item));
            }
            continue;
        }
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        item.push(character);
    }
    if depth > 0 {
        return Err(
            "has a bracket that is not closed; write a list like [\"Bash(git log *)\", \"Read\"] \
             if a rule holds a single bracket"
                .to_owned(),
        );
    }
    if !item.is_empty() {
        items.push(item);
    }
    Ok(items)
}

fn array(text: &str) -> Result<Vec<String>, String> {
    let value = DeValue::parse(text)
        .map_err(|error| format!("is not a valid TOML list: {}", error.message()))?;
    let DeValue::Array(values) = value.get_ref() else {
        return Err("is not a valid TOML list".to_owned());
    };
    values
        .iter()
        .map(|value| match value.get_ref() {
            DeValue::String(item) => Ok(item.clone().into_owned()),
            other => Err(format!(
                "holds a value of type {}, only strings are allowed",
                other.type_str()
            )),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::items;

    #[test]
    fn lists_are_taken_apart() {
        let table: [(&str, &[&str]); 10] = [
            ("", &[]),
            (" , ,\n", &[]),
            ("Read", &["Read"]),
            ("Read,Edit", &["Read", "Edit"]),
            ("Read Edit\nBash(ls)", &["Read", "Edit", "Bash(ls)"]),
            (
                "Bash(git log *), Bash(a, b)",
                &["Bash(git log *)", "Bash(a, b)"],
            ),
            (
                "Bash(echo $(date) (x)) Read",
                &["Bash(echo $(date) (x))", "Read"],
            ),
            (
                "[\"Bash(echo :( *)\", 'Edit']",
                &["Bash(echo :( *)", "Edit"],
            ),
            (" [ ] ", &[]),
            ("[\"Read\",]", &["Read"]),
        ];
        for (text, expected) in table {
            assert_eq!(
                items(text).as_deref(),
                Ok(&*expected
                    .iter()
                    .map(|&item| item.to_owned())
                    .collect::<Vec<_>>()),
                "{text:?}"
            );
        }
    }

    #[test]
    fn what_cannot_be_told_apart_is_refused() {
        for text in [
            "Bash(echo :( *), Edit(x)",
            "Bash(ls",
            "[\"Read\"",
            "[3]",
            "[\"a\"] b",
            "[[\"a\"]]",
        ] {
            assert!(items(text).is_err(), "{text:?}");
        }
    }
}
