//! Records as lines of a bounded length: readers refuse longer ones.

use serde_json::{Value, json};

/// The most bytes of a line, its line feed included.
pub(crate) const LIMIT: usize = 1_000_000;

/// The most bytes of one text, tried in this order until the record fits.
const TEXTS: [usize; 5] = [200_000, 50_000, 10_000, 2_000, 200];

/// The most items of a list and fields of an object, likewise.
const ITEMS: [usize; 3] = [1_000, 100, 10];

/// From this depth on, an object may lose fields: above are those that readers need.
const FIELDS_FROM: usize = 4;

/// From this depth on, lists and objects are left out if nothing else helps.
const LAST: usize = 5;

/// A record as one line of at most [`LIMIT`] bytes.
pub(crate) fn line(record: &Value) -> String {
    let line = format!("{record}\n");
    if line.len() <= LIMIT {
        return line;
    }
    format!("{}\n", shortened(record, LIMIT.saturating_sub(1)))
}

/// A copy of a record that takes at most `limit` bytes. Large images, documents and texts in it are
/// shortened, and notes in their places say so.
pub(crate) fn shortened(record: &Value, limit: usize) -> Value {
    let mut short = record.clone();
    let fits = |value: &Value| value.to_string().len() <= limit;
    for most in TEXTS {
        shorten(&mut short, most);
        if fits(&short) {
            return short;
        }
    }
    for most in ITEMS {
        drop_items(&mut short, most, 0);
        if fits(&short) {
            return short;
        }
    }
    leave_out(&mut short, 0);
    short
}

/// Shortens texts to `most` bytes and replaces images and documents that are larger.
fn shorten(value: &mut Value, most: usize) {
    match value {
        Value::String(text) if text.len() > most => {
            let all = text.len();
            text.truncate(text.floor_char_boundary(most));
            let left_out = all.saturating_sub(text.len());
            text.push_str(&format!(
                "\n[... {left_out} bytes are left out of this record]"
            ));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| shorten(item, most)),
        Value::Object(_) if media(value).is_some_and(|(_, data)| data.len() > most) => {
            let note = media(value).map_or_else(String::new, |(kind, data)| {
                let bytes = data.len() / 4 * 3;
                format!("[{kind}, {bytes} bytes, is left out of this record]")
            });
            *value = json!({ "type": "text", "text": note });
        }
        Value::Object(fields) => fields.values_mut().for_each(|field| shorten(field, most)),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The media type and the data of a block that is an image or a document.
fn media(block: &Value) -> Option<(&str, &str)> {
    let source = block.get("source")?;
    let kind = source.get("media_type")?.as_str()?;
    Some((kind, source.get("data")?.as_str()?))
}

fn drop_items(value: &mut Value, most: usize, depth: usize) {
    let next = depth.saturating_add(1);
    match value {
        Value::Array(items) => {
            items.truncate(most);
            items
                .iter_mut()
                .for_each(|item| drop_items(item, most, next));
        }
        Value::Object(fields) => {
            if depth >= FIELDS_FROM && fields.len() > most {
                let kept = std::mem::take(fields).into_iter().take(most);
                *fields = kept.collect();
            }
            fields
                .values_mut()
                .for_each(|field| drop_items(field, most, next));
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn leave_out(value: &mut Value, depth: usize) {
    let next = depth.saturating_add(1);
    match value {
        Value::Array(_) | Value::Object(_) if depth >= LAST => {
            *value = "[left out of this record]".into();
        }
        Value::Array(items) => items.iter_mut().for_each(|item| leave_out(item, next)),
        Value::Object(fields) => fields.values_mut().for_each(|item| leave_out(item, next)),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_is_longer_than_the_limit() {
        let big = "é\u{1}\"".repeat(700_000);
        let image = json!({
            "type": "image",
            "source": { "type": "base64", "media_type": "image/png", "data": "A".repeat(1_200_000) },
        });
        let wide: Value = (0..300_000)
            .map(|number| (number.to_string(), Value::from(number)))
            .collect::<serde_json::Map<_, _>>()
            .into();
        let mut deep = json!("x");
        for _ in 0..60 {
            deep = json!([deep.clone(), "y".repeat(100)]);
        }
        let inputs = [
            json!({ "content": big }),
            json!({ "edits": vec![json!({ "old": "a".repeat(90), "new": "b" }); 20_000] }),
            json!({ "texts": vec!["c".repeat(150_000); 20] }),
            json!({ "numbers": vec![1; 900_000] }),
            wide,
            json!({ "deep": vec![deep; 200] }),
        ];
        for input in inputs {
            let record = json!({
                "type": "assistant",
                "uuid": "u",
                "message": { "content": [{ "type": "tool_use", "id": "t", "name": "Write", "input": input }] },
            });
            let line = line(&record);
            assert!(line.len() <= LIMIT, "{}", line.len());
            let read: Value = serde_json::from_str(&line).unwrap();
            assert_eq!(read["uuid"], "u");
            assert_eq!(read["message"]["content"][0]["name"], "Write");
        }
        let record = json!({ "message": { "content": [{ "content": [image, { "type": "text", "text": "t" }] }] } });
        let read: Value = serde_json::from_str(&line(&record)).unwrap();
        let parts = &read["message"]["content"][0]["content"];
        assert_eq!(
            parts[0]["text"],
            "[image/png, 900000 bytes, is left out of this record]"
        );
        assert_eq!(parts[1]["text"], "t");
        let small = json!({ "a": "b" });
        assert_eq!(line(&small), "{\"a\":\"b\"}\n");
    }
}
