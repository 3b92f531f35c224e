//! Where the paths of calls led when they were judged, kept until the calls run.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tooloop_kernel::Verdict;
use tooloop_model::ToolUseId;
use tooloop_tool::{JudgedPath, JudgedPaths};

/// The most calls that are kept. Calls that are broken off during a question are not taken out.
const MOST_CALLS: usize = 4096;

/// The paths of calls that were judged and have not run.
#[derive(Debug, Default)]
pub(crate) struct JudgedCalls(Mutex<HashMap<ToolUseId, Judged>>);

#[derive(Debug)]
struct Judged {
    paths: Vec<JudgedPath>,
    /// A path led elsewhere when the call was judged again, and no rule allowed it there.
    has_changed: bool,
}

impl JudgedCalls {
    /// Notes where the paths of a call led. A call that is asked about is judged again after the
    /// answer: then its paths must still lead to the places that the question was about.
    pub(crate) fn note(&self, id: &ToolUseId, paths: Vec<JudgedPath>, verdict: &Verdict) {
        let mut calls = self.lock();
        match verdict {
            Verdict::Deny { .. } | Verdict::Invalid { .. } => {
                calls.remove(id);
                return;
            }
            Verdict::Ask { .. } => {
                // With another input it is another question.
                if let Some(judged) = calls.get_mut(id)
                    && names_same(&judged.paths, &paths)
                {
                    judged.has_changed |= judged.paths != paths;
                    return;
                }
            }
            Verdict::Allow => {}
        }
        if calls.len() >= MOST_CALLS {
            calls.clear();
        }
        let has_changed = false;
        calls.insert(id.clone(), Judged { paths, has_changed });
    }

    /// Returns the paths of a call that is about to run.
    pub(crate) fn take(&self, id: &ToolUseId) -> JudgedPaths {
        let judged = self.lock().remove(id).filter(|judged| !judged.has_changed);
        JudgedPaths::new(judged.map(|judged| judged.paths).unwrap_or_default())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ToolUseId, Judged>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn names_same(one: &[JudgedPath], other: &[JudgedPath]) -> bool {
    let names = |path: &JudgedPath| (path.given.clone(), path.may_write);
    one.iter().map(names).eq(other.iter().map(names))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tooloop_policy::AskCause;
    use tooloop_tool::NotJudged;

    use super::*;

    fn path(given: &str, real: &str) -> JudgedPath {
        JudgedPath {
            given: given.into(),
            entry: real.into(),
            real: real.into(),
            may_write: true,
        }
    }

    fn asked() -> Verdict {
        Verdict::Ask {
            reason: "?".into(),
            cause: AskCause::Uncovered,
        }
    }

    /// Where `/w/a` leads for a call that was judged so, one judgement after the other.
    fn judged(course: &[(&str, Verdict)]) -> Option<String> {
        let (calls, id) = (JudgedCalls::default(), ToolUseId("c".into()));
        for (real, verdict) in course {
            calls.note(&id, vec![path("/w/a", real)], verdict);
        }
        let paths = calls.take(&id);
        let found = paths.get(Path::new("/w/a")).ok()??;
        Some(found.real.display().to_string())
    }

    #[test]
    fn a_call_opens_the_place_of_its_question_or_rule() {
        let denied = || Verdict::Deny {
            reason: "no".into(),
        };
        type Case<'c> = (&'c [(&'c str, Verdict)], Option<&'c str>);
        let table: [Case<'_>; 7] = [
            (&[("/w/a", Verdict::Allow)], Some("/w/a")),
            (&[("/w/a", asked()), ("/w/a", asked())], Some("/w/a")),
            (&[("/w/a", asked()), ("/o/a", asked())], None),
            (
                &[("/w/a", asked()), ("/o/a", asked()), ("/w/a", asked())],
                None,
            ),
            (&[("/o/a", asked()), ("/w/a", Verdict::Allow)], Some("/w/a")),
            (&[("/w/a", Verdict::Allow), ("/o/a", denied())], None),
            (&[], None),
        ];
        for (course, expected) in table {
            assert_eq!(judged(course).as_deref(), expected, "{course:?}");
        }
    }

    #[test]
    fn another_input_is_another_question() {
        let (calls, id) = (JudgedCalls::default(), ToolUseId("c".into()));
        calls.note(&id, vec![path("/w/a", "/w/a")], &asked());
        calls.note(&id, vec![path("/w/b", "/w/b")], &asked());
        let paths = calls.take(&id);
        assert!(paths.get(Path::new("/w/b")).unwrap().is_some());
        assert_eq!(paths.get(Path::new("/w/a")), Err(NotJudged));
        assert_eq!(calls.take(&id).get(Path::new("/w/b")), Err(NotJudged));
    }
}
