//! What is known of git's command line.

use super::{
    parts::Word,
    read_only::options_are_harmless,
    tables::{GIT, GIT_BRANCH, GIT_TAG},
};

/// Where the subcommand of a git command is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subcommand {
    /// It is this word.
    At {
        /// The index among all words.
        index: usize,
        /// What the options before it do.
        globals: Globals,
    },
    /// There is none.
    None,
    /// It is only known when the line runs.
    Unclear,
}

/// What git's own options do to what a subcommand does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Globals {
    /// Nothing.
    Plain,
    /// They have it work in another folder, as `cd` would.
    Moved,
    /// Something else.
    Changed,
}

const PLAIN: &[&str] = &[
    "--no-pager",
    "-P",
    "--no-optional-locks",
    "--no-advice",
    "--literal-pathspecs",
    "--glob-pathspecs",
    "--noglob-pathspecs",
    "--icase-pathspecs",
    "--no-replace-objects",
    "--no-lazy-fetch",
];
/// Options with which git prints something about itself and runs no subcommand.
const PRINTS: &[&str] = &[
    "--version",
    "-v",
    "--help",
    "-h",
    "--exec-path",
    "--html-path",
    "--man-path",
    "--info-path",
];
const OTHER: &[&str] = &["-p", "--paginate", "--bare"];
const VALUED: &[&str] = &[
    "-C",
    "--git-dir",
    "--work-tree",
    "--namespace",
    "--super-prefix",
    "--attr-source",
];

/// Finds the subcommand behind git's own options.
pub(crate) fn skip_globals(words: &[Word]) -> Subcommand {
    let mut index = 1;
    let mut globals = Globals::Plain;
    loop {
        let Some(word) = words.get(index) else {
            return Subcommand::None;
        };
        let Some(text) = word.literal() else {
            let Some((name, _)) = word.prefix().split_once('=') else {
                return Subcommand::Unclear;
            };
            if word.splits() || !VALUED.contains(&name) {
                return Subcommand::Unclear;
            }
            globals = Globals::Changed;
            index += 1;
            continue;
        };
        if !text.starts_with('-') {
            return Subcommand::At { index, globals };
        }
        let name = text.split('=').next().unwrap_or_default();
        if PRINTS.contains(&text) {
            return Subcommand::None;
        }
        if PLAIN.contains(&text) {
            index += 1;
        } else if OTHER.contains(&text)
            || (name.len() < text.len() && (VALUED.contains(&name) || name == "--exec-path"))
        {
            globals = Globals::Changed;
            index += 1;
        } else if VALUED.contains(&text) {
            globals = globals.max(if text == "-C" {
                Globals::Moved
            } else {
                Globals::Changed
            });
            if words.get(index + 1).is_some_and(Word::splits) {
                return Subcommand::Unclear;
            }
            index += 2;
        } else if text == "-c" {
            // A setting can make any word a subcommand.
            let setting = words.get(index + 1).and_then(Word::literal);
            if setting.is_none_or(is_alias) {
                return Subcommand::Unclear;
            }
            globals = Globals::Changed;
            index += 2;
        } else {
            return Subcommand::Unclear;
        }
    }
}

fn is_alias(setting: &str) -> bool {
    let setting = setting.to_ascii_lowercase();
    setting.starts_with("alias.") || setting.starts_with("include")
}

/// The folder that git is told to work in, if its own options name one.
pub(super) fn folder(options: &[Word]) -> Option<Word> {
    let mut words = options.iter();
    let mut folder = None;
    while let Some(word) = words.next() {
        if word.literal() == Some("-C") {
            folder = words.next().cloned();
        }
    }
    folder
}

/// Tells whether a subcommand is one that changes nothing, unless an option makes it.
pub(super) fn is_known_to_read(name: &str) -> bool {
    const OTHERS: &[&str] = &[
        "branch", "tag", "remote", "config", "stash", "worktree", "reflog",
    ];
    GIT.iter().any(|known| known.name == name) || OTHERS.contains(&name)
}

/// Tells whether a git command runs other commands that it is given.
pub(super) fn runs_others(words: &[Word]) -> bool {
    let Subcommand::At { index, .. } = skip_globals(words) else {
        return false;
    };
    let globals = words.get(1..index).unwrap_or_default();
    if globals.iter().any(changes_programs) {
        return true;
    }
    let arguments = words.get(index + 1..).unwrap_or_default();
    let has = |wanted: &[&str]| {
        arguments.iter().any(|word| {
            wanted
                .iter()
                .any(|wanted| word.prefix().starts_with(wanted))
        })
    };
    // The other end of a talk is a command that may be named.
    const ENDS: &[&str] = &["--upload-pack", "--upload-arch", "--receive-pack", "--exec"];
    match words.get(index).and_then(Word::literal) {
        Some("submodule") => has(&["foreach"]),
        Some("bisect") => has(&["run"]),
        Some("rebase") => has(&["-x", "--exec", "--exe"]),
        Some("difftool") => has(&["-x", "--extcmd"]),
        Some("grep") => has(&["-O", "--open"]),
        Some("clone") => has(ENDS) || has(&["-u", "-c", "--config"]),
        Some("fetch" | "pull" | "ls-remote" | "push" | "archive" | "fetch-pack" | "send-pack") => {
            has(ENDS)
        }
        Some("filter-branch" | "for-each-repo" | "hook" | "send-email" | "remote-ext") => true,
        // An alias of the settings, or a program of that name.
        Some(name) => SUBCOMMANDS.binary_search(&name).is_err(),
        None => false,
    }
}

/// Checks whether one of git's own options may say which programs it runs.
fn changes_programs(word: &Word) -> bool {
    const PARTS: &[&str] = &[
        "askpass",
        "cmd",
        "command",
        "driver",
        "editor",
        "external",
        "filter",
        "fsmonitor",
        "helper",
        "hook",
        "include",
        "pager",
        "program",
        "proxy",
        "textconv",
        "uploadpack",
        "receivepack",
    ];
    let text = word.prefix().to_ascii_lowercase();
    if text.starts_with("--exec-path=") || text.starts_with("--config-env") {
        return true;
    }
    let (key, _) = text.split_once('=').unwrap_or((&text, ""));
    let is_setting = !key.starts_with('-') && key.contains('.') && !key.contains('/');
    is_setting && PARTS.iter().any(|part| key.contains(part))
}

/// The subcommands that are part of git and run no command that they are given.
const SUBCOMMANDS: &[&str] = &[
    "add",
    "am",
    "annotate",
    "apply",
    "archive",
    "bisect",
    "blame",
    "branch",
    "bugreport",
    "bundle",
    "cat-file",
    "check-attr",
    "check-ignore",
    "check-mailmap",
    "check-ref-format",
    "checkout",
    "checkout-index",
    "cherry",
    "cherry-pick",
    "clean",
    "clone",
    "column",
    "commit",
    "commit-graph",
    "commit-tree",
    "config",
    "count-objects",
    "credential",
    "describe",
    "diagnose",
    "diff",
    "diff-files",
    "diff-index",
    "diff-tree",
    "difftool",
    "fast-export",
    "fast-import",
    "fetch",
    "fetch-pack",
    "fmt-merge-msg",
    "for-each-ref",
    "format-patch",
    "fsck",
    "gc",
    "get-tar-commit-id",
    "grep",
    "gui",
    "hash-object",
    "help",
    "index-pack",
    "init",
    "interpret-trailers",
    "lfs",
    "log",
    "ls-files",
    "ls-remote",
    "ls-tree",
    "mailinfo",
    "mailsplit",
    "maintenance",
    "merge",
    "merge-base",
    "merge-file",
    "merge-index",
    "merge-tree",
    "mergetool",
    "mktag",
    "mktree",
    "multi-pack-index",
    "mv",
    "name-rev",
    "notes",
    "pack-objects",
    "pack-redundant",
    "pack-refs",
    "patch-id",
    "prune",
    "prune-packed",
    "pull",
    "push",
    "range-diff",
    "read-tree",
    "rebase",
    "receive-pack",
    "reflog",
    "remote",
    "repack",
    "replace",
    "request-pull",
    "rerere",
    "reset",
    "restore",
    "rev-list",
    "rev-parse",
    "revert",
    "rm",
    "send-pack",
    "shortlog",
    "show",
    "show-branch",
    "show-index",
    "show-ref",
    "sparse-checkout",
    "stage",
    "stash",
    "status",
    "stripspace",
    "submodule",
    "svn",
    "switch",
    "symbolic-ref",
    "tag",
    "unpack-file",
    "unpack-objects",
    "update-index",
    "update-ref",
    "update-server-info",
    "var",
    "verify-commit",
    "verify-pack",
    "verify-tag",
    "version",
    "whatchanged",
    "worktree",
    "write-tree",
];

/// Tells whether a git command provably changes nothing.
pub(super) fn is_read_only(words: &[Word]) -> bool {
    let arguments = words.get(1..).unwrap_or_default();
    if let [only] = arguments
        && matches!(only.literal(), Some("--version" | "version"))
    {
        return true;
    }
    let Subcommand::At {
        index,
        globals: Globals::Plain,
    } = skip_globals(words)
    else {
        return false;
    };
    let (Some(name), Some(arguments)) = (
        words.get(index).and_then(Word::literal),
        words.get(index + 1..),
    ) else {
        return false;
    };
    match name {
        "branch" => lists(arguments, GIT_BRANCH),
        "tag" => lists(arguments, GIT_TAG),
        "remote" => match literals(arguments).as_deref() {
            Some([] | ["-v" | "--verbose"] | ["get-url", ..]) => true,
            Some(_) | None => false,
        },
        "stash" | "worktree" => match literals(arguments).as_deref() {
            Some(["list"]) => true,
            Some(["list", "--porcelain"]) => name == "worktree",
            Some(_) | None => false,
        },
        "reflog" => match literals(arguments).as_deref() {
            Some([]) => true,
            Some(["show", ..]) => options_are_harmless(arguments, "", &["output", "ext-diff"]),
            Some(_) | None => false,
        },
        "config" => reads_settings(arguments),
        _ => GIT
            .iter()
            .find(|known| known.name == name)
            .is_some_and(|known| options_are_harmless(arguments, known.short, known.long)),
    }
}

fn literals(words: &[Word]) -> Option<Vec<&str>> {
    words.iter().map(Word::literal).collect()
}

/// Tells whether every option is one that lists, and operands only stand where they select.
fn lists(arguments: &[Word], known: &[(&str, bool)]) -> bool {
    let Some(arguments) = literals(arguments) else {
        return false;
    };
    let mut selects = false;
    let mut operands = 0_usize;
    for text in arguments {
        if !text.starts_with('-') {
            operands += 1;
            continue;
        }
        let name = text.split('=').next().unwrap_or_default();
        // `-n5` of `git tag` is `-n` with a number.
        let name = name.trim_end_matches(|c: char| c.is_ascii_digit());
        match known.iter().find(|(option, _)| *option == name) {
            Some((_, takes_operands)) => selects |= takes_operands,
            None => return false,
        }
    }
    operands == 0 || selects
}

fn reads_settings(arguments: &[Word]) -> bool {
    const ACTIONS: &[&str] = &["--get", "--get-all", "--get-regexp", "--list", "-l"];
    const OTHERS: &[&str] = &[
        "--global",
        "--local",
        "--system",
        "--worktree",
        "--show-origin",
        "--show-scope",
        "--name-only",
        "-z",
        "--null",
        "--bool",
        "--int",
        "--path",
    ];
    let Some(arguments) = literals(arguments) else {
        return false;
    };
    let operands = || arguments.iter().filter(|text| !text.starts_with('-'));
    // One name alone is looked up; a second operand would be its new value.
    let looks_up = operands().count() == 1 && operands().all(|name| name.contains('.'));
    (looks_up || arguments.iter().any(|text| ACTIONS.contains(text)))
        && arguments
            .iter()
            .all(|text| !text.starts_with('-') || ACTIONS.contains(text) || OTHERS.contains(text))
}
