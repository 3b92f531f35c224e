//! The border as the gate keeps it: what no answer and no mode opens to a call, and what an allowed
//! call is given beyond the sandbox.

use std::path::Path;

use tooloop_policy::{Access, Confinement, Grant, Mode, Policy, Rule, Touch, beyond};
use tooloop_tools::TempView;

use crate::boundary::Boundary;

/// The border of an agent: for all tools that touch files by their paths, and, where there is a
/// sandbox, for what commands are given beyond it. See [`crate::AgentBuilder::border`].
#[derive(Debug, Clone, Default)]
pub struct Border {
    /// What may be written, and what not even read.
    pub boundary: Boundary,
    /// What commands may do, as the policy knows it.
    pub confinement: Confinement,
    /// How temporary folders are seen, if commands do not see them as they are.
    pub view: Option<TempView>,
}

impl Border {
    /// Why this call cannot be, whoever allows it. What is outside can be allowed, by a rule or by
    /// somebody who is asked; in the mode that asks nobody, nobody has.
    pub(crate) fn refuses(&self, tool: &str, access: &Access, policy: &Policy) -> Option<String> {
        let boundary = &self.boundary;
        let below = |path: &Path, roots: &[std::path::PathBuf]| {
            roots.iter().any(|root| path.starts_with(root))
        };
        let asks_nobody = policy.mode == Mode::BypassPermissions;
        let mut is_named = None;
        let mut is_named =
            || *is_named.get_or_insert_with(|| is_named_by_rules(tool, access, policy));
        for touch in &access.touches {
            match touch {
                Touch::Read(path) if below(path, &boundary.hidden) => {
                    return Some(format!("the sandbox hides `{}`", path.display()));
                }
                Touch::Write(path) if boundary.lets_write(path) => {}
                Touch::Write(path) if below(path, &boundary.protected) => {
                    return Some(format!(
                        "the sandbox protects `{}`: programs outside of it obey what stands there",
                        path.display()
                    ));
                }
                Touch::Write(path) if boundary.writable.is_empty() => {
                    return Some(format!(
                        "the sandbox is read-only, so `{}` is not written",
                        path.display()
                    ));
                }
                Touch::Write(path) if asks_nobody && !is_named() => {
                    return Some(format!(
                        "the sandbox ends before `{}`, and in mode {} nobody is asked: a rule \
                         that names the path would allow it",
                        path.display(),
                        policy.mode
                    ));
                }
                Touch::Grant(grant)
                    if asks_nobody && !self.confinement.includes(grant) && !is_named() =>
                {
                    return Some(format!(
                        "`{grant}` asks for more than the sandbox gives, and in mode {} nobody \
                         is asked: a rule Sandbox({grant}) would allow it",
                        policy.mode
                    ));
                }
                Touch::Read(_)
                | Touch::Write(_)
                | Touch::Grant(_)
                | Touch::Command(_)
                | Touch::Input(_)
                | Touch::Host(_) => {}
            }
        }
        None
    }

    /// What an allowed call is given beyond the sandbox: what it has asked for, and what its lines
    /// are known to need, since that was in the question. Where nobody is asked, rules give it.
    pub(crate) fn grants(
        &self,
        tool: &str,
        access: &Access,
        workspace: &Path,
        policy: &Policy,
    ) -> Vec<Grant> {
        let directory = access.directory.as_deref().unwrap_or(workspace);
        let mut grants: Vec<Grant> = Vec::new();
        for touch in &access.touches {
            match touch {
                Touch::Grant(grant) => grants.push(grant.clone()),
                Touch::Command(line) => {
                    let home = policy.home.as_deref();
                    grants.extend(beyond(line, directory, home, &self.confinement));
                }
                Touch::Read(_) | Touch::Write(_) | Touch::Input(_) | Touch::Host(_) => {}
            }
        }
        let is_given = policy.mode != Mode::BypassPermissions
            || grants.is_empty()
            || is_named_by_rules(tool, access, policy);
        if is_given { grants } else { Vec::new() }
    }
}

/// Whether rules alone allow a call.
fn is_named_by_rules(tool: &str, access: &Access, policy: &Policy) -> bool {
    let strict = Policy {
        mode: Mode::DontAsk,
        ..policy.clone()
    };
    strict.decide(tool, access).is_allow()
}

impl Border {
    /// What the lines of a call are seen to need beyond the sandbox, beside what the call names.
    fn foreseen(&self, access: &Access, workspace: &Path, policy: &Policy) -> Vec<Grant> {
        let directory = access.directory.as_deref().unwrap_or(workspace);
        let lines = access.touches.iter().filter_map(|touch| match touch {
            Touch::Command(line) => Some(line),
            Touch::Read(_)
            | Touch::Write(_)
            | Touch::Input(_)
            | Touch::Host(_)
            | Touch::Grant(_) => None,
        });
        let home = policy.home.as_deref();
        let needs = lines.flat_map(|line| beyond(line, directory, home, &self.confinement));
        needs
            .filter(|need| !access.touches.contains(&Touch::Grant(need.clone())))
            .collect()
    }

    /// The rules that give other calls what this one is seen to need, where that is a path or a
    /// host: what is wider is for the very same call.
    pub(crate) fn giving(&self, access: &Access, workspace: &Path, policy: &Policy) -> Vec<Rule> {
        let needs = self.foreseen(access, workspace, policy);
        if needs.iter().all(is_narrow) {
            exact(needs)
        } else {
            Vec::new()
        }
    }

    /// Rules that refuse what a person has refused to a call that is seen to go beyond the sandbox:
    /// what it needs, if that is one path or one host, or else its lines as they are, since of
    /// several needs any may be the one that was not wanted.
    pub(crate) fn refusing(
        &self,
        tool: &str,
        access: &Access,
        workspace: &Path,
        policy: &Policy,
    ) -> Vec<Rule> {
        let needs = self.foreseen(access, workspace, policy);
        match needs.as_slice() {
            [] => Vec::new(),
            [need] if is_narrow(need) => exact(needs),
            _ => {
                let lines = Access {
                    touches: access.touches.iter().filter(is_line).cloned().collect(),
                    ..access.clone()
                };
                Policy::default().allow_always_rules(tool, &lines)
            }
        }
    }
}

/// Whether it opens one place and no more.
const fn is_narrow(grant: &Grant) -> bool {
    match grant {
        Grant::Write(_) | Grant::Host(_) => true,
        Grant::Network | Grant::Unconfined => false,
    }
}

fn is_line(touch: &&Touch) -> bool {
    matches!(touch, Touch::Command(_))
}

/// The rules that speak of exactly these.
fn exact(grants: Vec<Grant>) -> Vec<Rule> {
    let exact = |grant: Grant| {
        let only = Access {
            touches: vec![Touch::Grant(grant)],
            ..Access::session()
        };
        Policy::default().allow_always_rules("", &only)
    };
    grants.into_iter().flat_map(exact).collect()
}

/// Rules that refuse what a call asked for beyond the sandbox, so that it is asked about once.
pub(crate) fn refusing(access: &Access) -> Vec<Rule> {
    let grants = access.touches.iter().filter_map(|touch| match touch {
        Touch::Grant(grant) => Some(grant.clone()),
        Touch::Command(_) | Touch::Read(_) | Touch::Write(_) | Touch::Input(_) | Touch::Host(_) => {
            None
        }
    });
    exact(grants.collect())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn border() -> Border {
        Border {
            boundary: Boundary {
                writable: vec!["/w".into()],
                protected: vec!["/w/.git/hooks".into()],
                obeyed: Vec::new(),
                watched: Vec::new(),
                names: Vec::new(),
                read: Vec::new(),
                hidden: vec!["/h/keys".into()],
                temp: "/t".into(),
            },
            confinement: Confinement {
                writable: vec!["/w".into()],
                temp: vec!["/t".into()],
                ..Confinement::default()
            },
            view: None,
        }
    }

    fn policy(mode: Mode, allow: &[&str]) -> Policy {
        Policy {
            mode,
            allow: allow.iter().map(|rule| rule.parse().unwrap()).collect(),
            roots: vec!["/w".into()],
            ..Policy::default()
        }
    }

    #[test]
    fn what_nobody_can_open_stays_shut() {
        let bypass = policy(Mode::BypassPermissions, &[]);
        let named = policy(Mode::BypassPermissions, &["Edit(/o/**)"]);
        let asking = policy(Mode::Default, &[]);
        let write = |path: &str| Access::effectful().writing(path);
        let table = [
            (&bypass, write("/w/a"), None),
            (&bypass, write("/t/a"), None),
            (
                &bypass,
                write("/o/a"),
                Some("the sandbox ends before `/o/a`"),
            ),
            (&named, write("/o/a"), None),
            (&asking, write("/o/a"), None),
            (
                &asking,
                write("/w/.git/hooks/x"),
                Some("the sandbox protects"),
            ),
            (
                &bypass,
                write("/w/.git/hooks/x"),
                Some("the sandbox protects"),
            ),
            (
                &asking,
                Access::read_only().reading("/h/keys/a"),
                Some("the sandbox hides"),
            ),
            (&asking, Access::read_only().reading("/h/other"), None),
            (&asking, Access::command("x").wanting(Grant::Network), None),
            (
                &bypass,
                Access::command("x").wanting(Grant::Network),
                Some("`network` asks for more"),
            ),
            (
                &bypass,
                Access::command("x").wanting(Grant::Write("/w/b".into())),
                None,
            ),
        ];
        for (policy, access, expected) in table {
            let words = border().refuses("t", &access, policy);
            let fits = match expected {
                None => words.is_none(),
                Some(start) => words.as_ref().is_some_and(|words| words.starts_with(start)),
            };
            assert!(fits, "{access:?}: {words:?}");
        }
        let mut read_only = border();
        read_only.boundary.writable = Vec::new();
        let words = read_only.refuses("t", &write("/w/a"), &asking).unwrap();
        assert!(words.starts_with("the sandbox is read-only"), "{words}");
        assert_eq!(read_only.refuses("t", &write("/t/a"), &asking), None);
    }

    #[test]
    fn a_call_is_given_what_was_in_the_question() {
        let workspace = PathBuf::from("/w");
        let grants =
            |access: &Access, policy: &Policy| border().grants("bash", access, &workspace, policy);
        let write = Access::command("touch /o/x");
        let given = [Grant::Write("/o/x".into())];
        assert_eq!(grants(&write, &policy(Mode::Default, &[])), given);
        // Nobody was asked, and no rule speaks of it.
        let none: [Grant; 0] = [];
        assert_eq!(grants(&write, &policy(Mode::BypassPermissions, &[])), none);
        let ruled = policy(Mode::BypassPermissions, &["Bash(touch /o/x)"]);
        assert_eq!(grants(&write, &ruled), given);
        let inside = Access::command("touch x");
        assert_eq!(grants(&inside, &policy(Mode::Default, &[])), none);
    }

    #[test]
    fn a_refusal_of_what_was_foreseen_is_about_that_alone() {
        let workspace = PathBuf::from("/w");
        let mut confined = policy(Mode::Default, &[]);
        confined.confinement = Some(border().confinement);
        let asks = |policy: &Policy, line: &str| {
            let decision = policy.decide("bash", &Access::command(line));
            (decision.is_ask(), decision.is_deny())
        };
        let (asked, denied) = ((true, false), (false, true));
        let table = [
            // One path: whatever writes there.
            ("touch /o/x", "cp a /o/x", "touch /o/y"),
            ("touch a /o/x", "echo > /o/x", "touch /o"),
            // All of the network: the very same line.
            ("git push", "true; git push", "git push x"),
            // Several things: nobody knows which of them was not wanted.
            ("touch /o/x /o/y", "touch /o/x /o/y", "touch /o/x"),
        ];
        for (line, same, other) in table {
            let access = Access::command(line);
            assert_eq!(asks(&confined, line), asked, "{line}");
            let mut after = confined.clone();
            after.deny = border().refusing("bash", &access, &workspace, &confined);
            assert_eq!(asks(&after, line), denied, "{line}");
            assert_eq!(asks(&after, same), denied, "{same}");
            assert_eq!(asks(&after, other), asked, "{other}");
        }
        // What stays within was asked about for another reason.
        let access = Access::command("touch x");
        assert_eq!(
            border().refusing("bash", &access, &workspace, &confined),
            []
        );
    }

    #[test]
    fn what_was_given_to_a_line_is_given_to_others_if_it_is_narrow() {
        let workspace = PathBuf::from("/w");
        let confined = policy(Mode::Default, &[]);
        let giving = |line: &str| {
            let rules = border().giving(&Access::command(line), &workspace, &confined);
            rules.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(giving("touch /o/x"), ["Sandbox(write:/o/x)"]);
        assert_eq!(
            giving("curl https://a.example/ > /o/x"),
            ["Sandbox(host:a.example)", "Sandbox(write:/o/x)"]
        );
        let none: [&str; 0] = [];
        for line in ["git push", "touch /o/x; git push", "sudo ls", "touch x"] {
            assert_eq!(giving(line), none, "{line}");
        }
    }

    #[test]
    fn what_was_refused_is_refused_from_then_on() {
        let access = Access::command("x")
            .wanting(Grant::Write("/o/a*b".into()))
            .wanting(Grant::Network);
        let policy = Policy {
            deny: refusing(&access),
            ..policy(Mode::Default, &[])
        };
        assert_eq!(policy.deny.len(), 2);
        assert!(policy.decide("bash", &access).is_deny());
        let other = Access::command("x").wanting(Grant::Write("/o/other".into()));
        assert!(policy.decide("bash", &other).is_ask());
    }
}
