//! Inputs made from a schema: each wrong in its way.

use serde_json::{Map, Value, json};

/// A field that no tool has.
const UNKNOWN: &str = "surely_not_a_field";

/// What a provider would refuse.
pub(super) fn schema_problems(schema: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        problems.push("its type is not \"object\"".into());
    }
    if !schema.get("properties").is_some_and(Value::is_object) {
        problems.push("it has no \"properties\"".into());
    }
    for field in required(schema) {
        if !properties(schema).any(|(name, _)| *name == field) {
            problems.push(format!("it requires {field:?}, which is no property"));
        }
    }
    keys(schema, 0, &mut problems);
    problems
}

/// Looks at the property names, those of nested objects too.
fn keys(schema: &Value, depth: usize, problems: &mut Vec<String>) {
    if depth > 32 {
        return problems.push("it is nested more than 32 deep".into());
    }
    match schema {
        Value::Object(object) => {
            if let Some(Value::Object(properties)) = object.get("properties") {
                for name in properties.keys() {
                    let fits = (1..=64).contains(&name.len())
                        && name
                            .bytes()
                            .all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
                    if !fits {
                        problems.push(format!(
                            "the property {name:?} is not made of 1 to 64 letters, digits, '_', \
                             '.' and '-'"
                        ));
                    }
                }
            }
            for value in object.values() {
                keys(value, depth.saturating_add(1), problems);
            }
        }
        Value::Array(values) => {
            for value in values {
                keys(value, depth.saturating_add(1), problems);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.into_iter().flatten()
}

fn required(schema: &Value) -> Vec<String> {
    let required = schema.get("required").and_then(Value::as_array);
    let names = required.into_iter().flatten().filter_map(Value::as_str);
    names.map(str::to_owned).collect()
}

fn object(input: &str) -> Map<String, Value> {
    match serde_json::from_str(input) {
        Ok(Value::Object(object)) => object,
        _ => Map::new(),
    }
}

fn with(input: &str, field: &str, value: Value) -> String {
    let mut object = object(input);
    object.insert(field.into(), value);
    Value::Object(object).to_string()
}

pub(super) fn with_unknown_field(input: &str) -> String {
    with(input, UNKNOWN, json!(1))
}

/// Each required field, and the input without it.
pub(super) fn without_required(schema: &Value, input: &str) -> Vec<(String, String)> {
    required(schema)
        .into_iter()
        .map(|field| {
            let mut object = object(input);
            object.remove(&field);
            (field, Value::Object(object).to_string())
        })
        .collect()
}

/// The input with each field in turn of a type that the schema does not state for it.
pub(super) fn of_wrong_types(schema: &Value, input: &str) -> Vec<String> {
    let others = [
        ("null", json!(null)),
        ("boolean", json!(true)),
        ("number", json!(0.5)),
        ("string", json!("surely not")),
        ("array", json!([[]])),
        ("object", json!({ UNKNOWN: 1 })),
    ];
    let mut wrong = Vec::new();
    for (field, about) in properties(schema) {
        let stated: Vec<&str> = match about.get("type") {
            Some(Value::String(one)) => vec![one.as_str()],
            Some(Value::Array(some)) => some.iter().filter_map(Value::as_str).collect(),
            // Stated in another way, or not at all.
            _ => continue,
        };
        for (kind, value) in &others {
            if !stated.contains(kind) {
                wrong.push(with(input, field, value.clone()));
            }
        }
    }
    wrong
}

/// Inputs that no model should send, and that some model will.
pub(super) fn odd_inputs(schema: &Value) -> Vec<String> {
    let nested = format!("{}1{}", "[".repeat(100), "]".repeat(100));
    let values = [
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(1e308),
        json!(-0.5),
        json!(""),
        json!(" "),
        json!("\u{0}"),
        json!("../../\u{feff}\u{202e}é\u{10ffff}\r\n"),
        json!("$(true) `true` ; | > < * ~ \\ \" '"),
        json!("a".repeat(100_000)),
        json!([]),
        json!([null, 1, "a", {}]),
        json!({}),
        json!({ "a": { "b": [] } }),
        serde_json::from_str(&nested).unwrap_or_default(),
    ];
    let names: Vec<&String> = properties(schema).map(|(name, _)| name).collect();
    let mut inputs = vec!["{}".to_owned()];
    for value in values {
        let mut all = Map::new();
        for name in &names {
            all.insert((*name).clone(), value.clone());
            inputs.push(with("{}", name, value.clone()));
        }
        inputs.push(Value::Object(all).to_string());
    }
    inputs
}
