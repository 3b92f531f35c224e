//! What is expected of a line, and whether it came so. Rules are read here in a way of their own,
//! much simpler than the policy's.

use tooloop_policy::{
    Access, Mode, Policy, Rule,
    shell::{Analysis, Direction, Hazard, Nature, Piece, Word, analyse},
};

use crate::run::Ran;

/// Rules that are tried: what they allow, what they deny.
const POLICIES: &[(&[&str], &[&str])] = &[
    (&["*"], &["git push *"]),
    (&["*"], &["rm *", "touch *"]),
    (&["*"], &["c1 a", "git *"]),
    (&["git log *", "ls *", "echo *", "cat *"], &[]),
    (&["git *", "make", "c1 *"], &["git push *"]),
    (
        &[
            "env *",
            "sh *",
            "bash *",
            "xargs *",
            "find *",
            "timeout *",
            "sudo *",
            "nice *",
        ],
        &[],
    ),
    (
        &[
            "c1 *", "c2 *", "c3 *", "make *", "git *", "xargs *", "find *",
        ],
        &["touch *"],
    ),
    (&["touch M", "rm f1", "git push"], &[]),
    (
        &[
            "eval *",
            "trap *",
            "command *",
            "exec *",
            "nohup *",
            "setsid *",
        ],
        &[],
    ),
    (
        &["git push *", "rm *", "touch *", "tee *", "sort *"],
        &["git log *", "c3 *"],
    ),
];

/// Programs among the stubs that change nothing, and the subcommands of git that do not.
const READERS: &[&str] = &["ls", "grep", "head"];
const GIT_READERS: &[&str] = &["log", "status"];

pub(crate) struct Checker {
    policies: Vec<(Policy, Vec<&'static str>, Vec<&'static str>)>,
}

pub(crate) enum Verdict {
    Right,
    Wrong(String),
}

impl std::fmt::Debug for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Right => f.write_str("right"),
            Self::Wrong(words) => f.write_str(words),
        }
    }
}

/// What must hold for what a line runs.
pub(crate) struct Expectations<'a> {
    analysis: Analysis,
    is_known: bool,
    allowing: Vec<&'a (Policy, Vec<&'static str>, Vec<&'static str>)>,
}

impl Checker {
    pub(crate) fn new() -> Self {
        let rule = |text: &&str| -> Rule { Rule::new("Bash", Some(text)).unwrap() };
        let policies = POLICIES.iter().map(|(allow, deny)| {
            let policy = Policy {
                mode: Mode::Default,
                allow: allow.iter().map(rule).collect(),
                deny: deny.iter().map(rule).collect(),
                ..Policy::default()
            };
            (policy, allow.to_vec(), deny.to_vec())
        });
        Self {
            policies: policies.collect(),
        }
    }

    /// What is expected of a line; `None` if whatever it runs is fine, since nothing allows it and
    /// nothing is claimed.
    pub(crate) fn expectations(&self, line: &str) -> Option<Expectations<'_>> {
        let analysis = analyse(line);
        let access = Access::command(line);
        let allows = |policy: &Policy| policy.decide("bash", &access).is_allow();
        let allowing: Vec<_> = self.policies.iter().filter(|all| allows(&all.0)).collect();
        let is_known = analysis.problem().is_none()
            && !analysis
                .hazards()
                .any(|hazard| matches!(hazard, Hazard::Evaluation | Hazard::Dialect))
            && !analysis
                .commands()
                .iter()
                .any(|command| matches!(command.nature, Nature::Opaque(_)));
        (is_known || !allowing.is_empty()).then_some(Expectations {
            analysis,
            is_known,
            allowing,
        })
    }
}

impl Expectations<'_> {
    pub(crate) fn is_allowed(&self) -> bool {
        !self.allowing.is_empty()
    }

    pub(crate) fn verdict(&self, ran: &Ran) -> Verdict {
        for record in &ran.commands {
            if self.is_known && !self.foresees(record) {
                return Verdict::Wrong(format!("{record:?} ran and was not foreseen"));
            }
            if self.analysis.is_read_only() && !reads(record) {
                return Verdict::Wrong(format!("{record:?} ran in a line called read-only"));
            }
            for (_, allow, deny) in &self.allowing {
                if deny.iter().any(|rule| names(rule, record)) {
                    return Verdict::Wrong(format!("{record:?} ran, which {deny:?} denies"));
                }
                // Whoever allows `sh` whatever it is given has allowed what is not known of it.
                let is_vouched = !self.is_known && allow.iter().any(|rule| runs_others(rule));
                if !is_vouched && !reads(record) && !allow.iter().any(|rule| names(rule, record)) {
                    return Verdict::Wrong(format!(
                        "{record:?} ran, which {allow:?} does not cover"
                    ));
                }
            }
        }
        for file in &ran.files {
            let name = file.rsplit('/').next().unwrap_or_default();
            let is_foreseen = self.analysis.redirects().iter().any(|redirect| {
                redirect.direction == Direction::Write
                    && redirect.target.literal().is_none_or(|text| text == name)
            });
            if name != "nohup.out" && self.is_known && !is_foreseen {
                return Verdict::Wrong(format!("{file} was written, which was not foreseen"));
            }
            if self.analysis.is_read_only() {
                return Verdict::Wrong(format!("{file} was written by a line called read-only"));
            }
            for (_, allow, _) in &self.allowing {
                let is_vouched = !self.is_known && allow.iter().any(|rule| runs_others(rule));
                if name != "nohup.out" && !allow.contains(&"*") && !is_vouched {
                    return Verdict::Wrong(format!(
                        "{file} was written, which {allow:?} does not cover"
                    ));
                }
            }
        }
        Verdict::Right
    }

    fn foresees(&self, record: &[String]) -> bool {
        self.analysis.commands().iter().any(|command| {
            let mut words = command.words.iter();
            let program = words.next().and_then(Word::literal);
            let program = program.map(|text| text.rsplit('/').next().unwrap_or_default());
            let rest: Vec<_> = words.collect();
            program == record.first().map(String::as_str) && fits(&rest, &record[1..])
        })
    }
}

/// Tells whether words may have become these.
fn fits(words: &[&Word], found: &[String]) -> bool {
    let Some((word, rest)) = words.split_first() else {
        return found.is_empty();
    };
    if word.splits() {
        return (0..=found.len()).any(|count| fits(rest, &found[count..]));
    }
    found
        .split_first()
        .is_some_and(|(first, others)| fits_word(&word.pieces, first) && fits(rest, others))
}

fn fits_word(pieces: &[Piece], text: &str) -> bool {
    match pieces.split_first() {
        None => text.is_empty(),
        Some((Piece::Text(known), rest)) => text
            .strip_prefix(known.as_str())
            .is_some_and(|text| fits_word(rest, text)),
        Some((Piece::Unknown(_), rest)) => (0..=text.len())
            .filter_map(|at| text.get(at..))
            .any(|text| fits_word(rest, text)),
    }
}

/// The words of a record; of git without the options before its subcommand.
fn plain(record: &[String]) -> Vec<&str> {
    let mut words: Vec<&str> = record.iter().map(String::as_str).collect();
    while words.first() == Some(&"git") && words.get(1).is_some_and(|word| word.starts_with('-')) {
        let count = if matches!(words[1], "-C" | "-c") {
            2
        } else {
            1
        };
        words.drain(1..(1 + count).min(words.len()));
    }
    words
}

fn names(rule: &str, record: &[String]) -> bool {
    let words = plain(record);
    match rule.strip_suffix('*') {
        Some(start) => words.starts_with(&start.split_whitespace().collect::<Vec<_>>()),
        None => words == rule.split_whitespace().collect::<Vec<_>>(),
    }
}

fn runs_others(rule: &str) -> bool {
    const RUNNERS: &[&str] = &[
        "env", "sh", "bash", "xargs", "find", "timeout", "sudo", "nice", "eval", "trap", "command",
        "exec", "nohup", "setsid",
    ];
    RUNNERS
        .iter()
        .any(|runner| rule.split(' ').next() == Some(*runner))
}

fn reads(record: &[String]) -> bool {
    match plain(record).as_slice() {
        ["git"] => true,
        ["git", subcommand, ..] => GIT_READERS.contains(subcommand),
        ["sort", rest @ ..] => !rest.iter().any(|word| word.starts_with("-o")),
        [program, ..] => READERS.contains(program),
        [] => true,
    }
}
