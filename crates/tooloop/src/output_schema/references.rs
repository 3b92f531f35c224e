//! References of a schema, so that they hold wherever the schema is put.
//!
//! Providers resolve pointers from the top of what they are sent. They know neither identifiers of
//! embedded schemas nor anchors. So each reference becomes such a pointer.

use serde_json::{Map, Value};

/// Keywords whose values are no schemas and hold none.
const DATA: [&str; 4] = ["const", "default", "enum", "examples"];

/// Keywords whose values are objects of schemas under names of the author's choice.
const NAMED: [&str; 6] = [
    "$defs",
    "definitions",
    "dependencies",
    "dependentSchemas",
    "patternProperties",
    "properties",
];

/// Keywords that hold definitions. They stay at the top when the rest is moved.
const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];

/// The address of a schema without an identifier.
const TOP: &str = "schema:/answer";

/// The schema with all its references as pointers from the top.
pub(super) fn from_the_top(schema: &Value) -> Value {
    rewritten(schema, "")
}

/// An object schema with the schema under one field. Definitions move to the top of it.
pub(super) fn under_a_field(schema: &Value, field: &str) -> Value {
    let mut inner = rewritten(schema, &format!("/properties/{field}"));
    let mut outer = Map::new();
    if let Some(inner) = inner.as_object_mut() {
        for key in DEFINITIONS.into_iter().chain(["$schema"]) {
            if let Some(value) = inner.remove(key) {
                outer.insert(key.into(), value);
            }
        }
    }
    outer.insert("type".into(), "object".into());
    let properties = Map::from_iter([(field.to_owned(), inner)]);
    outer.insert("properties".into(), properties.into());
    outer.insert("required".into(), Value::from(vec![field]));
    Value::Object(outer)
}

/// The schema as it stands at `top` of a document.
fn rewritten(schema: &Value, top: &str) -> Value {
    let mut places = Places::default();
    places.gather(schema, TOP, "");
    let mut rest = schema.clone();
    places.rewrite(&mut rest, TOP, top);
    rest
}

/// Where references can point to.
#[derive(Default)]
struct Places {
    /// The address of each embedded schema that has one, and its pointer.
    resources: Vec<(String, String)>,
    /// The address that holds it, the name, the pointer, and whether it is a dynamic one.
    anchors: Vec<(String, String, String, bool)>,
}

/// The identifier of a schema; one that begins with `#` is an anchor.
fn identifier(schema: &Map<String, Value>) -> Option<&str> {
    schema.get("$id")?.as_str()
}

/// The base address within a schema.
fn base_of(schema: &Map<String, Value>, base: &str) -> String {
    match identifier(schema).map(without_fragment) {
        Some(id) if !id.is_empty() => join(base, id),
        Some(_) | None => base.to_owned(),
    }
}

fn without_fragment(address: &str) -> &str {
    address
        .split_once('#')
        .map_or(address, |(address, _)| address)
}

/// An address relative to another one.
fn join(base: &str, address: &str) -> String {
    let has_scheme = address.split_once(':').is_some_and(|(scheme, _)| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme
                .chars()
                .all(|one| one.is_ascii_alphanumeric() || "+-.".contains(one))
    });
    if has_scheme {
        return address.to_owned();
    }
    let after_scheme = base.find(':').map_or(0, |at| at + 1);
    let (scheme, rest) = base.split_at_checked(after_scheme).unwrap_or(("", base));
    if address.starts_with("//") {
        return format!("{scheme}{address}");
    }
    let authority = match rest.strip_prefix("//") {
        Some(rest) => rest.find('/').map_or(rest.len(), |at| at) + 2,
        None => 0,
    };
    let (authority, path) = rest.split_at_checked(authority).unwrap_or(("", rest));
    if address.starts_with('/') {
        return format!("{scheme}{authority}{address}");
    }
    let folder = path
        .rfind('/')
        .map_or("/", |at| path.get(..=at).unwrap_or("/"));
    let address = address.strip_prefix("./").unwrap_or(address);
    format!("{scheme}{authority}{folder}{address}")
}

fn escaped(token: &str) -> String {
    token
        .replace('~', "~0")
        .replace('/', "~1")
        .replace('%', "%25")
}

/// Calls `visit` with each schema in this one, and its place in it.
fn each_inner<'a>(schema: &'a Map<String, Value>, mut visit: impl FnMut(&'a Value, String)) {
    for (key, value) in schema {
        if DATA.contains(&key.as_str()) {
            continue;
        }
        match value {
            Value::Object(named) if NAMED.contains(&key.as_str()) => {
                for (name, value) in named {
                    visit(value, format!("/{}/{}", escaped(key), escaped(name)));
                }
            }
            Value::Object(_) => visit(value, format!("/{}", escaped(key))),
            Value::Array(values) => {
                for (place, value) in values.iter().enumerate() {
                    visit(value, format!("/{}/{place}", escaped(key)));
                }
            }
            _ => {}
        }
    }
}

impl Places {
    fn gather(&mut self, schema: &Value, base: &str, pointer: &str) {
        let Some(schema) = schema.as_object() else {
            return;
        };
        let within = base_of(schema, base);
        if pointer.is_empty() || within != base {
            self.resources.push((within.clone(), pointer.to_owned()));
        }
        let text = |key: &str| schema.get(key).and_then(Value::as_str);
        let old = identifier(schema).and_then(|id| id.strip_prefix('#'));
        let anchors = [
            (text("$anchor").or(old), false),
            (text("$dynamicAnchor"), true),
        ];
        for (name, dynamic) in anchors {
            if let Some(name) = name {
                let (within, pointer) = (within.clone(), pointer.to_owned());
                self.anchors
                    .push((within, name.to_owned(), pointer, dynamic));
            }
        }
        each_inner(schema, |inner, place| {
            self.gather(inner, &within, &format!("{pointer}{place}"));
        });
    }

    /// The pointer that a reference stands for.
    fn resolve(&self, reference: &str, base: &str, dynamic: bool) -> Option<String> {
        let (address, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let address = match address {
            "" => base.to_owned(),
            address => join(base, address),
        };
        if fragment.is_empty() || fragment.starts_with('/') {
            let mut resources = self.resources.iter();
            let (_, pointer) = resources.find(|(other, _)| *other == address)?;
            return Some(format!("{pointer}{fragment}"));
        }
        let mut anchors = self.anchors.iter();
        let (_, name, pointer, is_dynamic) =
            anchors.find(|(other, name, ..)| *other == address && name == fragment)?;
        // A dynamic anchor means the outermost one of its name: the first one on the way in.
        let outermost = self
            .anchors
            .iter()
            .find(|(_, other, _, other_dynamic)| *other_dynamic && other == name)
            .filter(|_| dynamic && *is_dynamic);
        Some(
            outermost
                .map_or(pointer, |(_, _, pointer, _)| pointer)
                .clone(),
        )
    }

    /// Writes each reference as a pointer, in a document whose schema stands at `top`.
    fn rewrite(&self, schema: &mut Value, base: &str, top: &str) {
        let Some(schema) = schema.as_object_mut() else {
            return;
        };
        let within = base_of(schema, base);
        for key in ["$ref", "$dynamicRef", "$recursiveRef"] {
            let Some(reference) = schema.get(key).and_then(Value::as_str) else {
                continue;
            };
            let Some(pointer) = self.resolve(reference, &within, key == "$dynamicRef") else {
                continue;
            };
            let moves = !DEFINITIONS.iter().any(|key| {
                let rest = pointer
                    .strip_prefix('/')
                    .and_then(|rest| rest.strip_prefix(key));
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            });
            let pointer = match moves {
                true => format!("#{top}{pointer}"),
                false => format!("#{pointer}"),
            };
            schema.remove(key);
            // A second reference of the same schema keeps its keyword: it may be a pointer as well.
            let key = if schema.contains_key("$ref") {
                key
            } else {
                "$ref"
            };
            schema.insert(key.into(), pointer.into());
        }
        // Pointers from the top do not hold below an identifier.
        for key in ["$id", "$anchor", "$dynamicAnchor", "$recursiveAnchor"] {
            if schema.get(key).is_some_and(|value| !value.is_object()) {
                schema.remove(key);
            }
        }
        for (key, value) in schema.iter_mut() {
            if DATA.contains(&key.as_str()) {
                continue;
            }
            match value {
                Value::Object(named) if NAMED.contains(&key.as_str()) => {
                    for value in named.values_mut() {
                        self.rewrite(value, &within, top);
                    }
                }
                Value::Object(_) => self.rewrite(value, &within, top),
                Value::Array(values) => {
                    for value in values {
                        self.rewrite(value, &within, top);
                    }
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn definitions_stay_at_the_top() {
        let record = json!({"type": "object", "properties": {"v": {"type": "integer"}}});
        for key in DEFINITIONS {
            let reference = format!("#/{key}/K");
            let list = json!({key: {"K": record}, "type": "array", "items": {"$ref": reference}});
            assert_eq!(
                under_a_field(&list, "answer"),
                json!({
                    key: {"K": record},
                    "type": "object",
                    "properties": {"answer": {"type": "array", "items": {"$ref": reference}}},
                    "required": ["answer"],
                })
            );
        }
        let choice =
            json!({"$defs": {"K": record}, "anyOf": [{"$ref": "#/$defs/K"}, {"type": "null"}]});
        let told = under_a_field(&choice, "answer");
        assert_eq!(
            told["properties"]["answer"]["anyOf"][0]["$ref"],
            "#/$defs/K"
        );
        assert_eq!(told["$defs"]["K"], record);
    }

    #[test]
    fn the_top_is_the_schema_and_not_what_it_is_put_into() {
        let tree = json!({"type": "array", "items": {"$ref": "#"}});
        let told = under_a_field(&tree, "answer");
        assert_eq!(
            told["properties"]["answer"]["items"]["$ref"],
            "#/properties/answer"
        );
        let inner = json!({"anyOf": [{"type": "null"}, {"$ref": "#/anyOf/0"}]});
        let told = under_a_field(&inner, "answer");
        assert_eq!(
            told["properties"]["answer"]["anyOf"][1]["$ref"],
            "#/properties/answer/anyOf/0"
        );
    }

    #[test]
    fn identifiers_and_anchors_become_pointers() {
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$id": "https://example.org/a/list.json",
            "type": "array",
            "items": {"anyOf": [
                {"$ref": "#name"},
                {"$ref": "item.json"},
                {"$ref": "https://example.org/a/item.json#/$defs/deep~1er"},
                {"$dynamicRef": "#node"},
                {"$ref": "list.json#/$defs/a%25b"},
            ]},
            "$defs": {
                "named": {"$anchor": "name", "type": "string"},
                "item": {
                    "$id": "item.json",
                    "$defs": {"deep/er": {"type": "null"}},
                    "items": {"$ref": "#/$defs/deep~1er"},
                    "definitions": {"$ref": {"const": {"$ref": "#"}}},
                },
                "node": {"$dynamicAnchor": "node", "items": {"$dynamicRef": "#node"}},
                "a%b": true,
            },
        });
        let told = under_a_field(&schema, "answer");
        let choices = &told["properties"]["answer"]["items"]["anyOf"];
        let expected = [
            "#/$defs/named",
            "#/$defs/item",
            "#/$defs/item/$defs/deep~1er",
            "#/$defs/node",
            "#/$defs/a%25b",
        ];
        for (place, expected) in expected.into_iter().enumerate() {
            assert_eq!(choices[place], json!({"$ref": expected}));
        }
        assert_eq!(
            told["$defs"]["item"],
            json!({
                "$defs": {"deep/er": {"type": "null"}},
                "items": {"$ref": "#/$defs/item/$defs/deep~1er"},
                "definitions": {"$ref": {"const": {"$ref": "#"}}},
            })
        );
        assert_eq!(
            told["$defs"]["node"],
            json!({"items": {"$ref": "#/$defs/node"}})
        );
        assert_eq!(told["$schema"], schema["$schema"]);
        assert_eq!(told["properties"]["answer"].get("$id"), None);
    }

    #[test]
    fn what_is_not_moved_keeps_its_pointers() {
        let schema = json!({
            "type": "object",
            "properties": {"$ref": {"type": "string"}, "k": {"$ref": "#/$defs/K"}},
            "$defs": {"K": {"type": "integer", "default": {"$ref": "#x"}}},
        });
        assert_eq!(from_the_top(&schema), schema);
    }
}
