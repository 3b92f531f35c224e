//! Lines of older versions of the format.
//!
//! Each version that is left behind adds one step, which takes a line (the header or a record) to the next
//! version. An old file is read through the steps; it is not changed until it is repaired, and
//! entries are appended to it in the newest version only after it was rewritten.

use serde_json::Value;

use crate::FORMAT_VERSION;

/// Takes a line from one version to the next.
pub(crate) type Step = fn(Value) -> Value;

/// The first takes a line from version 1 to version 2, and so on.
pub(crate) const STEPS: &[Step] = &[];

const _: () = assert!(
    STEPS.len() + 1 == FORMAT_VERSION as usize,
    "each version but the first has a step that leads to it"
);

/// The steps from a file's version to the newest.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Migration(&'static [Step]);

impl Migration {
    /// For a file of the newest version.
    pub(crate) const NONE: Self = Self(&[]);

    /// From the version that a header names; what is wrong with it otherwise.
    pub(crate) fn from(version: u64, steps: &'static [Step]) -> Result<Self, String> {
        let newest = steps.len().saturating_add(1);
        let Some(behind) = version.checked_sub(1) else {
            return Err("there is no version 0 of the format".into());
        };
        let behind = usize::try_from(behind).unwrap_or(usize::MAX);
        steps.get(behind..).map(Self).ok_or_else(|| {
            format!(
                "the session was written by a newer version of tooloop: its format is {version}, and \
                 this version knows formats up to {newest}; go on with it in the newer version"
            )
        })
    }

    pub(crate) const fn is_none(self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn apply(self, line: Value) -> Value {
        self.0.iter().fold(line, |line, step| step(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn first(mut line: Value) -> Value {
        line["steps"] = json!(["first"]);
        line
    }

    fn second(mut line: Value) -> Value {
        line["steps"].as_array_mut().unwrap().push("second".into());
        line
    }

    #[test]
    fn a_line_takes_the_steps_from_its_version_on() {
        const TWO: &[Step] = &[first, second];
        let from = |version| Migration::from(version, TWO);
        let line = json!({"steps": []});
        let steps = |version| from(version).unwrap().apply(line.clone())["steps"].clone();
        assert_eq!(steps(1), json!(["first", "second"]));
        assert_eq!(steps(2), json!(["second"]));
        assert_eq!(steps(3), json!([]));
        assert!(from(3).unwrap().is_none());
        for (version, words) in [
            (0, "no version 0"),
            (4, "format is 4"),
            (u64::MAX, "up to 3"),
        ] {
            let error = from(version).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
