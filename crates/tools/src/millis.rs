//! Times that a call may ask for, in milliseconds.

use std::borrow::Cow;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};

/// The longest time that a call may take.
const MAX_TIME_LIMIT: Duration = Duration::from_secs(600);

/// A time limit that a call may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeLimit(pub Duration);

impl<'de> Deserialize<'de> for TimeLimit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let given = serde_json::Value::deserialize(deserializer)?;
        millis(&given)
            .filter(|limit| !limit.is_zero() && *limit <= MAX_TIME_LIMIT)
            .map(Self)
            .ok_or_else(|| {
                de::Error::custom(format!(
                    "timeout_ms must be a whole number from 1 to {}, not {given}; for longer \
                     work, set run_in_background and leave timeout_ms out",
                    MAX_TIME_LIMIT.as_millis()
                ))
            })
    }
}

impl JsonSchema for TimeLimit {
    fn schema_name() -> Cow<'static, str> {
        "TimeLimit".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": 1, "maximum": 600_000 })
    }
}

/// For how long a call may wait, `MAX` milliseconds at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait<const MAX: u32>(pub Duration);

impl<'de, const MAX: u32> Deserialize<'de> for Wait<MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let given = serde_json::Value::deserialize(deserializer)?;
        millis(&given)
            .filter(|wait| *wait <= Duration::from_millis(MAX.into()))
            .map(Self)
            .ok_or_else(|| {
                de::Error::custom(format!(
                    "wait_ms must be a whole number from 0 to {MAX}, not {given}"
                ))
            })
    }
}

impl<const MAX: u32> JsonSchema for Wait<MAX> {
    fn schema_name() -> Cow<'static, str> {
        format!("Wait{MAX}").into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": 0, "maximum": MAX })
    }
}

fn millis(given: &serde_json::Value) -> Option<Duration> {
    given
        .as_u64()
        // Some models write 5000.0, and some "5000".
        .or_else(|| given.as_f64().and_then(whole))
        .or_else(|| given.as_str()?.trim().parse().ok())
        .map(Duration::from_millis)
}

fn whole(number: f64) -> Option<u64> {
    let fits = number.fract() == 0.0 && (0.0..=1e9).contains(&number);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "whole and within the range, as just seen"
    )]
    fits.then_some(number as u64)
}
