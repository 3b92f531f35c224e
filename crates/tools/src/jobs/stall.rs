//! Tells a job that waits for an answer from one that works in silence.

use std::time::Duration;

/// How many characters of a line are shown.
const SHOWN: usize = 200;

/// What lines end in that ask for an answer.
const ENDS: [&str; 10] = [
    "?",
    ":",
    "]",
    ">",
    "(y/n)",
    "(yes/no)",
    "password",
    "passphrase",
    "continue",
    "enter",
];

/// What is to be said of a job that has been silent, if it seems to wait for an answer.
pub(super) fn hint(id: &str, newest: &str, silence: Duration) -> Option<String> {
    // A question leaves the cursor on its line.
    let line = newest.rsplit('\n').next()?.trim();
    let lower = line.to_lowercase();
    let asks = !line.is_empty() && ENDS.iter().any(|end| lower.ends_with(end));
    asks.then(|| {
        let shown: String = line.chars().take(SHOWN).collect();
        format!(
            "(background job {id} has printed nothing for {} s and seems to wait for an answer: \
             {shown:?}; it has no input: end it with job_stop, or run it again with the input \
             piped in)",
            silence.as_secs_f64()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_told_from_work() {
        let hint = |newest| hint("job_1", newest, Duration::from_secs(45));
        for asks in [
            "a\nProceed?",
            "Proceed? ",
            "Password: ",
            "[sudo] password for x:",
            "Overwrite [Y/n]",
            "go on (y/n) ",
            ">>> ",
            "Enter PASSPHRASE",
            "Press any key to continue",
        ] {
            assert!(hint(asks).is_some(), "{asks:?}");
        }
        for works in [
            "",
            "done\n",
            "Proceed?\n",
            "Compiling x",
            "50%",
            " ",
            "a?\nb",
        ] {
            assert_eq!(hint(works), None, "{works:?}");
        }
        assert_eq!(
            hint("a\nSure \"x\"? ").unwrap(),
            "(background job job_1 has printed nothing for 45 s and seems to wait for an answer: \
             \"Sure \\\"x\\\"?\"; it has no input: end it with job_stop, or run it again with the \
             input piped in)"
        );
    }
}
