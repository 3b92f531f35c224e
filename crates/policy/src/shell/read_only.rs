//! Proof that a command changes nothing.
//!
//! A command is read-only if its program is in the tables, each of its words that could be an
//! option is known, and none is known to do harm.

use std::{collections::BTreeMap, sync::LazyLock};

use super::{
    git,
    parser::is_name,
    parts::{Assignment, Command, Nature, Piece, Unknown, Word},
    scripts::{awk_is_read_only, sed_is_read_only},
    tables::{
        FIND, FLAGS, HARMFUL_PREFIXES, HARMFUL_VARIABLES, HARMLESS, HARMLESS_ENVIRONMENT, LISTING,
        OPTIONS, Options, TEST_BINARY, TEST_UNARY, VERSIONS,
    },
};

/// The programs that change nothing, each with the options with which it does, if there are any.
static KNOWN: LazyLock<BTreeMap<&'static str, Option<&'static Options>>> = LazyLock::new(|| {
    let by_options = OPTIONS.iter().map(|options| (options.name, Some(options)));
    let always = HARMLESS.iter().map(|name| (*name, None));
    by_options.chain(always).collect()
});

/// Tells whether a command, without what it runs, provably changes nothing.
pub(super) fn is_read_only(command: &Command, tainted: bool) -> bool {
    let Some(program) = command.words.first() else {
        return command.assignments.iter().all(is_harmless_assignment);
    };
    let Some(program) = program.literal().and_then(standard_program) else {
        return false;
    };
    let splits_input = program == "read";
    let assigns_harmless = command.assignments.iter().all(|assignment| {
        is_harmless_environment(&assignment.name) || (splits_input && assignment.name == "IFS")
    });
    if !assigns_harmless {
        return false;
    }
    match command.nature {
        Nature::Transparent => return true,
        Nature::Launcher | Nature::Carrier | Nature::Opaque(_) => return false,
        Nature::Plain => {}
    }
    let arguments = command.arguments();
    match KNOWN.get(program) {
        Some(None) => return true,
        Some(Some(known)) => return options_are_harmless(arguments, known.short, known.long),
        None => {}
    }
    match program {
        "git" => git::is_read_only(&command.words),
        "find" => find_is_read_only(arguments),
        "test" => test_is_read_only(arguments, tainted),
        "[" => arguments.split_last().is_some_and(|(last, rest)| {
            last.literal() == Some("]") && test_is_read_only(rest, tainted)
        }),
        "cd" => arguments.len() <= 1 && !arguments.iter().any(Word::may_be_option),
        "command" => {
            matches!(arguments.first().and_then(Word::literal), Some("-v" | "-V"))
        }
        "date" => date_is_read_only(arguments),
        "env" => arguments
            .iter()
            .all(|word| matches!(word.literal(), Some("-0" | "--null"))),
        "printf" => arguments
            .first()
            .is_some_and(|format| !format.may_be_option()),
        "read" => read_is_read_only(arguments),
        "set" => set_is_read_only(arguments),
        "uniq" => uniq_is_read_only(arguments),
        "sed" => sed_is_read_only(arguments),
        "awk" | "gawk" | "mawk" | "nawk" => awk_is_read_only(arguments),
        "tar" => tar_is_read_only(arguments),
        "xxd" => xxd_is_read_only(arguments),
        "sqlite3" => sqlite_is_read_only(arguments),
        "wait" => arguments.iter().all(|word| {
            let is_number = word.unknowns().all(|unknown| unknown == Unknown::Number);
            is_number && !word.prefix().starts_with('-')
        }),
        _ => prints(program, arguments),
    }
}

/// Checks whether a program only prints something about itself or about what is installed.
fn prints(program: &str, arguments: &[Word]) -> bool {
    let Some(arguments) = arguments
        .iter()
        .map(Word::literal)
        .collect::<Option<Vec<_>>>()
    else {
        return false;
    };
    let is_operand = |text: &&str| !text.starts_with('-') && !text.is_empty();
    let lists = |text: &&str| is_operand(text) || LISTING.iter().any(|o| text.starts_with(o));
    match (program, arguments.as_slice()) {
        ("go", ["version"]) => true,
        ("go", ["env", names @ ..]) => names
            .iter()
            .all(|name| is_operand(name) && !name.contains('=')),
        ("npm", ["ls" | "list", rest @ ..]) => rest.iter().all(lists),
        ("pip" | "pip3", ["list" | "show" | "freeze", rest @ ..]) => rest.iter().all(lists),
        (_, [option]) => VERSIONS
            .iter()
            .any(|(name, options)| *name == program && options.contains(option)),
        _ => false,
    }
}

/// `tar` lists an archive on this machine if its options ask for nothing else.
fn tar_is_read_only(arguments: &[Word]) -> bool {
    let Some(arguments) = arguments
        .iter()
        .map(Word::literal)
        .collect::<Option<Vec<_>>>()
    else {
        return false;
    };
    let mut lists = false;
    let mut words = arguments.iter();
    let mut is_first = true;
    while let Some(word) = words.next() {
        let letters = match word.strip_prefix('-') {
            None if is_first => Some(*word),
            None => None,
            Some(option) if option.starts_with('-') => {
                let option = option.trim_start_matches('-');
                match option.split_once('=') {
                    Some(("file", archive)) if !archive.contains(':') => {}
                    None if option == "list" => lists = true,
                    None if matches!(option, "verbose" | "gzip" | "bzip2" | "xz" | "zstd") => {}
                    Some(_) | None => return false,
                }
                None
            }
            Some(letters) => Some(letters),
        };
        is_first = false;
        let Some(letters) = letters else { continue };
        lists |= letters.contains('t');
        let (flags, has_file) = match letters.split_once('f') {
            // Letters with a value take it from further words, in their order.
            Some((flags, "")) => (flags, true),
            Some(_) => return false,
            None => (letters, false),
        };
        if !flags.chars().all(|letter| "tvzjJa".contains(letter)) {
            return false;
        }
        // A host before a colon is reached by another program.
        if has_file && words.next().is_none_or(|archive| archive.contains(':')) {
            return false;
        }
    }
    lists
}

/// The second operand of `xxd` is a file that it writes.
fn xxd_is_read_only(arguments: &[Word]) -> bool {
    let mut operands = 0_usize;
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if word.splits() {
            return false;
        }
        match word.literal() {
            Some("-l" | "-s" | "-c" | "-g" | "-o") => {
                if words.next().and_then(Word::literal).is_none() {
                    return false;
                }
            }
            Some("-p" | "-b" | "-u" | "-i" | "-e" | "-E" | "-a") => {}
            Some(option) if option.starts_with('-') && option.len() > 1 => return false,
            None if word.may_be_option() => return false,
            Some(_) | None => operands += 1,
        }
    }
    operands <= 1
}

/// `sqlite3` with a database and a command that lists what is in it.
fn sqlite_is_read_only(arguments: &[Word]) -> bool {
    match arguments {
        [database, command] => {
            !database.may_be_option()
                && !database.splits()
                && matches!(
                    command.literal(),
                    Some(".tables" | ".schema" | ".databases" | ".indexes")
                )
        }
        _ => false,
    }
}

/// Tells whether a program is found by its name alone.
pub(super) fn is_short(program: &str) -> bool {
    !program.contains('/')
}

/// Gives the name of a program that is found by name or in a folder of the system.
pub(super) fn standard_program(program: &str) -> Option<&str> {
    let name = program
        .strip_prefix("/usr")
        .unwrap_or(program)
        .strip_prefix("/bin/")
        .unwrap_or(program);
    (!name.contains('/')).then_some(name)
}

/// Checks that no word can be one of these options.
pub(super) fn options_are_harmless(arguments: &[Word], short: &str, long: &[&str]) -> bool {
    let mut before: Option<&Word> = None;
    for word in arguments {
        if word.literal() == Some("--") && before.is_none_or(takes_no_value) {
            return true;
        }
        before = Some(word);
        if word.may_be_option() && !is_harmless_option(word, short, long) {
            return false;
        }
    }
    true
}

fn is_harmless_option(word: &Word, short: &str, long: &[&str]) -> bool {
    // A value that splits may become further options.
    let splits = word.unknowns().any(|unknown| match unknown {
        Unknown::Variable { quoted } | Unknown::Output { quoted } => !quoted,
        Unknown::Brace => true,
        Unknown::Glob | Unknown::Tilde | Unknown::Number | Unknown::Process => false,
    });
    // The name of the option has to be known, its value need not be.
    let known = word.prefix();
    let is_whole = word.literal().is_some();
    if let Some(option) = known.strip_prefix("--") {
        let (name, has_value) = match option.split_once('=') {
            Some((name, _)) => (name, true),
            None => (option, false),
        };
        // Programs take any unique beginning of a long option for the whole of it.
        let is_bad = !name.is_empty() && long.iter().any(|bad| bad.starts_with(name));
        return !splits && !is_bad && (is_whole || (has_value && !name.is_empty()));
    }
    // A word that begins with `-` and is not fully known can be any option.
    is_whole && known.starts_with('-') && !known.chars().any(|letter| short.contains(letter))
}

/// Checks that a `--` after this word ends the options, and is not the value of an option.
fn takes_no_value(before: &Word) -> bool {
    let Some(text) = before.literal() else {
        return !before.may_be_option();
    };
    !text.starts_with('-') || text == "-" || FLAGS.contains(&text) || text.contains('=')
}

pub(super) fn find_is_read_only(arguments: &[Word]) -> bool {
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if !word.may_be_option() && !matches!(word.literal(), Some("!" | "(" | ")" | ",")) {
            continue;
        }
        let Some((_, values)) = word
            .literal()
            .and_then(|text| FIND.iter().find(|(name, _)| *name == text))
        else {
            return false;
        };
        for value in words.by_ref().take(*values) {
            if value.splits() {
                return false;
            }
        }
    }
    true
}

/// `test` evaluates the subscript of a variable whose name it is given, and takes a value for an
/// operator if it looks like one.
fn test_is_read_only(arguments: &[Word], tainted: bool) -> bool {
    let arguments = match arguments {
        [not, rest @ ..] if not.literal() == Some("!") && !rest.is_empty() => rest,
        all => all,
    };
    if arguments
        .iter()
        .any(|word| matches!(word.literal(), Some("-v" | "-R")))
    {
        return false;
    }
    let is_operator =
        |word: &Word, table: &[&str]| word.literal().is_some_and(|text| table.contains(&text));
    let holds_output = |word: &Word| {
        word.unknowns()
            .any(|unknown| unknown.splits() && is_output(unknown))
    };
    // A name of a file or a line of output can look like an operator.
    if arguments
        .iter()
        .any(|word| holds_output(word) || (tainted && word.splits()))
    {
        return false;
    }
    match arguments {
        [] | [_] => true,
        [operator, _] => is_operator(operator, TEST_UNARY),
        [_, operator, _] if is_operator(operator, TEST_BINARY) => true,
        all => {
            let is_whole = |word: &Word| word.literal().is_some();
            // A value can be an operator that evaluates the subscript in the next word.
            let has_subscript = |word: &Word| {
                word.pieces.iter().any(|piece| match piece {
                    Piece::Text(text) => text.contains('['),
                    Piece::Unknown(_) => false,
                })
            };
            all.iter().all(is_whole)
                || !all.iter().any(has_subscript)
                    && all
                        .iter()
                        .all(|word| is_whole(word) || (!tainted && !word.unknowns().any(is_output)))
        }
    }
}

const fn is_output(unknown: Unknown) -> bool {
    matches!(
        unknown,
        Unknown::Output { .. } | Unknown::Glob | Unknown::Brace
    )
}

fn date_is_read_only(arguments: &[Word]) -> bool {
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if word.splits() {
            return false;
        }
        let start = word.prefix();
        let known = start.starts_with('+')
            || [
                "--date=",
                "--reference=",
                "--iso-8601=",
                "--rfc-3339=",
                "-I",
                "-d",
            ]
            .iter()
            .any(|option| start.starts_with(option) && start.len() > option.len())
            || matches!(
                word.literal(),
                Some("-u" | "--utc" | "--universal" | "-R" | "--rfc-email" | "-I" | "--iso-8601")
            );
        let takes_value = matches!(word.literal(), Some("-d" | "-r" | "--date" | "--reference"));
        if takes_value {
            match words.next() {
                Some(value) if !value.splits() => {}
                Some(_) | None => return false,
            }
        } else if !known {
            return false;
        }
    }
    true
}

fn read_is_read_only(arguments: &[Word]) -> bool {
    arguments.iter().all(|word| match word.literal() {
        Some("-r") => true,
        Some(name) => is_name(name) && !is_harmful_variable(name),
        None => false,
    })
}

fn set_is_read_only(arguments: &[Word]) -> bool {
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let Some(letters) = word
            .literal()
            .and_then(|text| text.strip_prefix(['-', '+']))
            .filter(|letters| !letters.is_empty())
        else {
            return false;
        };
        if !letters
            .chars()
            .all(|letter| matches!(letter, 'e' | 'u' | 'f' | 'o'))
        {
            return false;
        }
        if letters.contains('o')
            && !matches!(
                words.next().and_then(Word::literal),
                Some("pipefail" | "errexit" | "nounset")
            )
        {
            return false;
        }
    }
    true
}

/// The second operand of `uniq` is a file that it writes.
fn uniq_is_read_only(arguments: &[Word]) -> bool {
    let mut operands = 0_usize;
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if word.splits() {
            return false;
        }
        match word.literal() {
            Some("-f" | "-s" | "-w") => {
                if words.next().is_none_or(Word::splits) {
                    return false;
                }
            }
            Some("--") => {
                operands += words.as_slice().len();
                return operands <= 1 && !words.as_slice().iter().any(Word::splits);
            }
            Some(option) if option.starts_with('-') && option.len() > 1 => {}
            Some(_) => operands += 1,
            None if word.may_be_option() => return false,
            None => operands += 1,
        }
    }
    operands <= 1
}

/// Tells whether setting this variable for a program changes nothing about what it does.
pub(crate) fn is_harmless_environment(name: &str) -> bool {
    HARMLESS_ENVIRONMENT.contains(&name)
}

/// Tells whether an assignment that stands alone changes nothing about what follows it.
fn is_harmless_assignment(assignment: &Assignment) -> bool {
    !is_harmful_variable(&assignment.name)
}

pub(super) fn is_harmful_variable(name: &str) -> bool {
    HARMFUL_VARIABLES.contains(&name)
        || HARMFUL_PREFIXES
            .iter()
            .any(|prefix| name.starts_with(prefix))
}
