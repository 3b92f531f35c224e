//! Programs that an option of a command starts: compressors, pagers, the far end of a connection.
//!
//! A rule such as `Bash(git fetch *)` covers git, not the program that `--upload-pack` names.

use super::{
    git::{Subcommand, skip_globals},
    parts::{Command, Word},
    tables::RUNNING_OPTIONS,
};

/// Options with which programs start others, beside [`RUNNING_OPTIONS`]. A name ends with `=` if it
/// is an operand.
const OPTIONS: &[(&str, &[&str])] = &[
    ("ag", &["--pager"]),
    ("bat", &["--pager"]),
    ("batcat", &["--pager"]),
    ("bsdtar", &["-I", "--use-compress-program"]),
    ("cargo", &["--config"]),
    ("clang", &["-fplugin", "-load"]),
    ("clang++", &["-wrapper", "-fplugin", "-load"]),
    ("cpio", &["--rsh-command"]),
    ("diff3", &["--diff-program"]),
    ("docker", &["--host", "-H", "--config"]),
    (
        "emacs",
        &["--eval", "--execute", "-f", "--funcall", "-l", "--load"],
    ),
    ("g++", &["-B", "-fplugin", "-specs"]),
    ("gcc", &["-B", "-fplugin", "-specs"]),
    ("cc", &["-B", "-fplugin", "-specs"]),
    (
        "go",
        &[
            "-toolexec",
            "--toolexec",
            "-exec",
            "--exec",
            "-vettool",
            "--vettool",
        ],
    ),
    ("hg", &["--config", "-e", "--ssh", "--remotecmd"]),
    ("less", &["+"]),
    ("make", &["--eval", "SHELL="]),
    ("gmake", &["--eval", "SHELL="]),
    ("more", &["+"]),
    ("mysql", &["--pager"]),
    (
        "node",
        &[
            "-r",
            "--require",
            "--import",
            "--loader",
            "--experimental-loader",
        ],
    ),
    ("npm", &["--script-shell", "--shell", "--node-options"]),
    ("nvim", &["-c", "+", "--cmd", "-S", "-u"]),
    ("openssl", &["-engine", "-provider-path"]),
    ("pnpm", &["--script-shell", "--shell"]),
    ("rustc", &["-C", "--codegen"]),
    ("scp", &["-o", "-F", "-D"]),
    ("sdiff", &["--diff-program"]),
    ("sftp", &["-S", "-o", "-F", "-D"]),
    ("ssh", &["-o", "-F"]),
    (
        "svn",
        &[
            "--config-option",
            "--diff-cmd",
            "--diff3-cmd",
            "--editor-cmd",
        ],
    ),
    ("tar", &["--use-compress-program"]),
    ("tcpdump", &["-z"]),
    ("vi", &["-c", "+", "--cmd", "-S", "-u"]),
    ("view", &["-c", "+", "--cmd", "-S", "-u"]),
    ("vim", &["-c", "+", "--cmd", "-S", "-u"]),
    ("wget", &["--use-askpass", "--config", "-e", "--execute"]),
];

/// Options of git itself.
const GIT: &[&str] = &["-c", "--config-env", "--exec-path"];

/// Options of git's subcommands.
const GIT_OPTIONS: &[(&str, &[&str])] = &[
    ("archive", &["--exec"]),
    (
        "clone",
        &["-u", "--upload-pack", "-c", "--config", "--template"],
    ),
    ("cvsimport", &["-d"]),
    ("difftool", &["-x", "--extcmd"]),
    ("fetch", &["--upload-pack"]),
    ("fetch-pack", &["--upload-pack", "--exec"]),
    ("filter-branch", &["--"]),
    ("grep", &["-O", "--open-files-in-pager"]),
    ("init", &["--template"]),
    ("instaweb", &["-d", "--httpd", "-b", "--browser"]),
    ("ls-remote", &["--upload-pack", "--exec"]),
    ("pull", &["--upload-pack"]),
    ("push", &["--receive-pack", "--exec"]),
    ("rebase", &["-x", "--exec"]),
    (
        "send-email",
        &[
            "--sendmail-cmd",
            "--smtp-server",
            "--to-cmd",
            "--cc-cmd",
            "--header-cmd",
        ],
    ),
    ("send-pack", &["--receive-pack", "--exec"]),
];

/// Subcommands of git whose operands can be an address `helper::...`, which starts that helper.
const GIT_TALKS: &[&str] = &[
    "archive",
    "clone",
    "fetch",
    "fetch-pack",
    "ls-remote",
    "pull",
    "push",
    "remote",
    "send-pack",
    "submodule",
];

/// Returns how many words of the command a rule has to name, all that start a program among them;
/// `None` if no option starts one.
pub(crate) fn words_that_start_programs(command: &Command) -> Option<usize> {
    let program = command.program()?.rsplit('/').next()?.to_ascii_lowercase();
    let words = &command.words;
    let tables = [RUNNING_OPTIONS, OPTIONS];
    let mut options = tables.iter().flat_map(|table| table.iter());
    let options = options
        .by_ref()
        .filter(|(name, _)| *name == program)
        .flat_map(|(_, options)| options.iter().copied());
    let options: Vec<&str> = options.collect();
    let mut last = named(words, 1, &options);
    if program == "tar" || program == "bsdtar" {
        last = last.max(old_tar(words));
    }
    if program == "git" {
        last = last.max(git(words));
    }
    last
}

fn git(words: &[Word]) -> Option<usize> {
    let (end, subcommand) = match skip_globals(words) {
        Subcommand::At { index, .. } => (index, words.get(index).and_then(Word::literal)),
        Subcommand::None | Subcommand::Unclear => (words.len(), None),
    };
    let mut last = named(words.get(..end).unwrap_or_default(), 1, GIT);
    let Some(subcommand) = subcommand else {
        return last;
    };
    let options = GIT_OPTIONS
        .iter()
        .find(|(name, _)| *name == subcommand)
        .map_or(&[][..], |(_, options)| options);
    last = last.max(named(words, end + 1, options));
    if GIT_TALKS.contains(&subcommand) {
        let helper = words.iter().skip(end + 1).rposition(|word| {
            let (scheme, _) = word.prefix().split_once("::").unwrap_or_default();
            !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric())
        });
        last = last.max(helper.map(|at| end + at + 2));
    }
    last
}

/// Returns how many words there are up to the last one of these options and its value.
fn named(words: &[Word], from: usize, options: &[&str]) -> Option<usize> {
    let mut last = None;
    for (index, word) in words.iter().enumerate().skip(from) {
        for option in options {
            last = last.max(match meets(word, option) {
                Meets::Not => None,
                Meets::WithValue => Some(index + 1),
                Meets::ValueFollows => Some((index + 2).min(words.len())),
            });
        }
    }
    last
}

enum Meets {
    Not,
    /// The option with its value in the same word.
    WithValue,
    /// The option; its value is the next word.
    ValueFollows,
}

/// How a word meets an option: attached, shortened, or among other letters.
fn meets(word: &Word, option: &str) -> Meets {
    let text = word.prefix();
    if option == "+" {
        return if text.len() > 1 && text.starts_with('+') {
            Meets::WithValue
        } else {
            Meets::Not
        };
    }
    if option.ends_with('=') {
        return if text.starts_with(option) {
            Meets::WithValue
        } else {
            Meets::Not
        };
    }
    let (name, has_value) = match text.split_once('=') {
        Some((name, _)) => (name, true),
        None => (text, word.literal().is_none()),
    };
    let found = if has_value {
        Meets::WithValue
    } else {
        Meets::ValueFollows
    };
    if option.starts_with("--") {
        // Programs take any unique beginning of a long option for the whole of it.
        let is_beginning = name.len() > 3 && option.starts_with(name);
        return if name == option || is_beginning {
            found
        } else {
            Meets::Not
        };
    }
    let letters = option.strip_prefix('-').unwrap_or(option);
    if letters.chars().nth(1).is_some() {
        return if name == option { found } else { Meets::Not };
    }
    let Some(given) = text.strip_prefix('-').filter(|rest| !rest.starts_with('-')) else {
        return Meets::Not;
    };
    match given.split_once(letters) {
        Some((before, "")) if before.chars().all(char::is_alphabetic) => Meets::ValueFollows,
        Some((before, _)) if before.chars().all(char::is_alphabetic) => Meets::WithValue,
        Some(_) | None => Meets::Not,
    }
}

/// The first word of tar can be letters without a dash; their values follow.
fn old_tar(words: &[Word]) -> Option<usize> {
    let first = words.get(1)?.prefix();
    let is_old = !first.starts_with('-') && first.contains(['I', 'F']);
    is_old.then_some(words.len())
}
