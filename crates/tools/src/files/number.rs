//! Whole numbers as models write them.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};

/// Takes 5, 5.0 and "5"; nothing for null.
pub(crate) fn lenient<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    let given = serde_json::Value::deserialize(deserializer)?;
    if given.is_null() {
        return Ok(None);
    }
    let number = given
        .as_i64()
        .or_else(|| given.as_f64().and_then(whole))
        .or_else(|| given.as_str()?.trim().parse().ok());
    match number {
        Some(number) => Ok(Some(number)),
        None => Err(de::Error::custom(format!("{given} is no whole number"))),
    }
}

fn whole(number: f64) -> Option<i64> {
    let fits = number.fract() == 0.0 && (-1e15..=1e15).contains(&number);
    #[expect(
        clippy::cast_possible_truncation,
        reason = "whole and within the range, as just seen"
    )]
    fits.then_some(number as i64)
}

pub(crate) fn schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["integer", "null"] })
}
