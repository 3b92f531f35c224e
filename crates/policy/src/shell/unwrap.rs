//! Commands behind commands: `env`, `xargs`, `find -exec`, `sh -c`, `eval` and their like.

use std::{borrow::Cow, collections::BTreeMap, sync::LazyLock};

use super::{
    expansion::names,
    git,
    parser::{Parsed, parse_nested},
    parts::{Assignment, Command, Nature, Origin, Parts, Piece, Problem, Unknown, Word},
    read_only::{
        find_is_read_only, is_harmful_variable, is_harmless_environment, is_read_only,
        standard_program,
    },
    scripts::{awk_is_read_only, sed_runs_nothing},
    tables::{
        ENVIRONMENTS, EXECUTORS, FIND, RUNNERS, RUNNING_OPTIONS, RUNNING_SUBCOMMANDS,
        SCRIPT_RUNNERS, SHELLS, WATCH, WRAPPERS, Wrapper, XARGS,
    },
};

/// Commands behind more commands than this are not looked into.
const MAX_WRAPPERS: usize = 10;

/// More commands than this are not looked into.
const MAX_COMMANDS: usize = 16 * 1024;

/// What a command turns out to run.
#[derive(Default)]
struct Found {
    nature: Nature,
    /// Commands among its words: where each starts, with what is set before it.
    commands: Vec<(usize, Vec<Assignment>, Vec<Word>)>,
    /// Texts that it runs as lines.
    texts: Vec<String>,
    /// It gives variables values from elsewhere.
    taints: bool,
}

impl Found {
    fn opaque(why: &'static str) -> Self {
        Self {
            nature: Nature::Opaque(why),
            ..Self::default()
        }
    }
}

const UNKNOWN_PROGRAM: &str = "its program is only known when it runs";
const UNKNOWN_TEXT: &str = "it runs a text that is only known when it runs";
const UNKNOWN_OPTION: &str = "it has an option that is not known here";
const RUNS_GIVEN: &str = "it runs what it is given";
const ELSEWHERE: &str = "it runs commands from elsewhere";

/// Adds to the parts every command that one of its commands would run.
pub(super) fn unwrap(parts: &mut Parts) -> Parsed<()> {
    let mut depths: Vec<usize> = vec![0; parts.commands.len()];
    let mut index = 0;
    while let Some(command) = parts.commands.get(index) {
        let place = command.place;
        let found = look(&command.words);
        let depth = depths.get(index).copied().unwrap_or_default() + 1;
        let runs_something = !found.commands.is_empty() || !found.texts.is_empty();
        if runs_something && depth > MAX_WRAPPERS {
            return Err(Problem::TooDeep(MAX_WRAPPERS));
        }
        parts.tainted |= found.taints;
        if let Some(command) = parts.commands.get_mut(index) {
            command.nature = found.nature;
        }
        for (at, assignments, words) in found.commands {
            for value in assignments.iter().flat_map(|set| &set.values) {
                parts.assign(value);
            }
            let text = words
                .iter()
                .map(|word| word.raw.as_str())
                .collect::<Vec<_>>()
                .join(" ");
            parts.commands.push(Command {
                text,
                assignments,
                words,
                origin: Origin::Words { parent: index, at },
                nature: Nature::Plain,
                place,
            });
        }
        for text in found.texts {
            parts.place = place;
            parse_nested(&text, parts, depth, index)?;
        }
        if parts.commands.len() > MAX_COMMANDS {
            return Err(Problem::Unsupported("a line of so many commands"));
        }
        depths.resize(parts.commands.len(), depth);
        index += 1;
    }
    // Only now it is known whether a variable may hold a text that `test` would evaluate.
    for command in &mut parts.commands {
        let is_test = command.nature == Nature::Plain
            && matches!(command.program(), Some("test" | "["))
            && command.words.iter().any(|word| word.literal().is_none());
        if is_test && !is_read_only(command, parts.tainted) {
            command.nature = Nature::Opaque(UNKNOWN_TEXT);
        }
    }
    Ok(())
}

fn look(words: &[Word]) -> Found {
    let Some(first) = words.first() else {
        return Found::default();
    };
    let Some(program) = first.literal() else {
        return Found::opaque(UNKNOWN_PROGRAM);
    };
    let base = program.rsplit('/').next().unwrap_or_default();
    let name = if base.bytes().any(|byte| byte.is_ascii_uppercase()) {
        Cow::Owned(base.to_ascii_lowercase())
    } else {
        Cow::Borrowed(base)
    };
    let mut found = look_at(&name, words);
    // Another program of that name, or a script beside, may do more than the one that is known.
    let is_standard = standard_program(program) == Some(&*name);
    if !is_standard && program.contains('/') && found.nature == Nature::Plain {
        found.nature = Nature::Opaque("it is a file that may run anything");
    }
    if !is_standard && matches!(found.nature, Nature::Transparent | Nature::Launcher) {
        found.nature = Nature::Carrier;
    }
    found
}

/// How the programs in the tables run others.
enum Way {
    Wrapper(&'static Wrapper),
    Shell { is_like_ours: bool },
    Runner,
    Environment(&'static [&'static str]),
    Options(&'static [&'static str]),
}

/// The names that stand in one of the tables.
static WAYS: LazyLock<BTreeMap<&'static str, Way>> = LazyLock::new(|| {
    let wrappers = WRAPPERS
        .iter()
        .map(|wrapper| (wrapper.name, Way::Wrapper(wrapper)));
    let shells = SHELLS
        .iter()
        .map(|&(name, is_like_ours)| (name, Way::Shell { is_like_ours }));
    let runners = RUNNERS.iter().map(|name| (*name, Way::Runner));
    let environments = ENVIRONMENTS
        .iter()
        .map(|&(name, subcommands)| (name, Way::Environment(subcommands)));
    let options = RUNNING_OPTIONS
        .iter()
        .map(|&(name, options)| (name, Way::Options(options)));
    let all = wrappers.chain(shells).chain(runners).chain(environments);
    let mut ways = BTreeMap::new();
    for (name, way) in all.chain(options) {
        ways.entry(name).or_insert(way);
    }
    ways
});

fn look_at(name: &str, words: &[Word]) -> Found {
    let arguments = words.get(1..).unwrap_or_default();
    if let Some(found) = WAYS.get(name).and_then(|way| look_in_tables(way, words)) {
        return found;
    }
    let has = |option: &str| {
        arguments
            .iter()
            .any(|word| word.prefix().starts_with(option))
    };
    match name {
        "xargs" => xargs(words),
        "find" => find(words),
        "fd" | "fdfind" => fd(words),
        "watch" => watch(words),
        "eval" => eval(arguments),
        "trap" => trap(arguments),
        "source" | "." => Found::opaque(ELSEWHERE),
        "git" if git::runs_others(words) => Found::opaque(RUNS_GIVEN),
        "sed" if !sed_runs_nothing(arguments) => Found::opaque(RUNS_GIVEN),
        "awk" | "gawk" | "mawk" | "nawk" if !awk_is_read_only(arguments) => {
            Found::opaque(RUNS_GIVEN)
        }
        "alias"
            if arguments
                .iter()
                .any(|word| word.literal().is_none_or(|t| t.contains('='))) =>
        {
            Found::opaque("it changes what a name means")
        }
        "enable" | "bind" | "complete" | "compgen" | "fc" => Found::opaque(ELSEWHERE),
        "hash" if has("-") && !has("-r") => Found::opaque("it changes what a name means"),
        "mapfile" | "readarray" if has("-C") => Found::opaque(ELSEWHERE),
        "let" if lets_harm(arguments) => Found::opaque(UNKNOWN_TEXT),
        "let" | "read" | "mapfile" | "readarray" | "getopts" | "declare" | "typeset" | "local"
        | "export" | "readonly" | "unset" => assigning(arguments),
        "printf" if has("-v") => assigning(arguments),
        "test" | "[" if has("-v") || has("-R") => assigning(arguments),
        "set" => Found {
            taints: arguments
                .iter()
                .any(|word| word.literal() == Some("--") || !word.prefix().starts_with(['-', '+'])),
            ..Found::default()
        },
        _ if executes(name, arguments) => Found::opaque(RUNS_GIVEN),
        _ => Found::default(),
    }
}

/// Checks whether a program runs what it is given in a way that is not looked into.
fn executes(name: &str, arguments: &[Word]) -> bool {
    let only = match arguments {
        [only] => only.literal(),
        _ => None,
    };
    if matches!(only, Some("--version" | "--help" | "-V")) {
        return false;
    }
    let base = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let is_executor = |name: &str| EXECUTORS.binary_search(&name).is_ok();
    if is_executor(name) || is_executor(base) {
        let is_listing = name == "sqlite3"
            && arguments
                .get(1)
                .and_then(Word::literal)
                .is_some_and(|text| {
                    matches!(text, ".tables" | ".schema" | ".databases" | ".indexes")
                });
        return only != Some("-v") && !is_listing;
    }
    let is_one = |word: &Word, subcommands: &[&str]| {
        word.literal()
            .is_none_or(|text| subcommands.contains(&text))
    };
    if let Some((_, harmless)) = SCRIPT_RUNNERS.iter().find(|(known, _)| *known == name) {
        let first = arguments
            .iter()
            .find(|word| !word.prefix().starts_with('-'));
        return match first.map(Word::literal) {
            Some(Some(subcommand)) => !harmless.contains(&subcommand),
            Some(None) => true,
            None => name != "npm" && only != Some("-v"),
        };
    }
    let running = RUNNING_SUBCOMMANDS.iter().find(|(known, _)| *known == name);
    running.is_some_and(|(_, subcommands)| arguments.iter().any(|word| is_one(word, subcommands)))
}

fn look_in_tables(way: &Way, words: &[Word]) -> Option<Found> {
    let found = match way {
        Way::Wrapper(wrapper) => wrapped(wrapper, words),
        Way::Shell { is_like_ours } => shell(words, *is_like_ours),
        Way::Runner => Found::opaque(RUNS_GIVEN),
        Way::Environment(subcommands) => {
            let found = environment(words, subcommands);
            if found.nature == Nature::Plain && found.commands.is_empty() {
                return None;
            }
            found
        }
        Way::Options(options) => {
            let may_be = |word: &Word| options.iter().any(|option| may_be(word, option));
            if !words.iter().skip(1).any(may_be) {
                return None;
            }
            Found::opaque(RUNS_GIVEN)
        }
    };
    Some(found)
}

/// Tells whether a word may be this option, its value attached or its name cut short.
fn may_be(word: &Word, option: &str) -> bool {
    let text = word.prefix();
    if !option.starts_with("--") {
        return text.starts_with(option);
    }
    let name = text.split('=').next().unwrap_or_default();
    name == option || (name.len() > 4 && option.starts_with(name))
}

/// Checks whether `let` may assign to a variable that changes what a shell or its programs do.
fn lets_harm(arguments: &[Word]) -> bool {
    arguments.iter().any(|word| {
        word.literal()
            .is_none_or(|text| names(text).into_iter().any(is_harmful_variable))
    })
}

/// Builtins that take names of variables also evaluate the subscripts of arrays in them.
fn assigning(arguments: &[Word]) -> Found {
    let runs = arguments.iter().any(|word| {
        let text: String = word
            .pieces
            .iter()
            .filter_map(|piece| match piece {
                Piece::Text(text) => Some(text.as_str()),
                Piece::Unknown(_) => None,
            })
            .collect();
        text.contains('[') && text.contains(['$', '`'])
    });
    Found {
        nature: if runs {
            Nature::Opaque(UNKNOWN_TEXT)
        } else {
            Nature::Plain
        },
        taints: true,
        ..Found::default()
    }
}

/// Finds the first word behind the options of a wrapper.
fn skip_options(wrapper: &Wrapper, words: &[Word]) -> Option<usize> {
    let mut index = 1;
    while let Some(word) = words.get(index) {
        let Some(text) = word.literal() else {
            return (!word.may_be_option()).then_some(index);
        };
        if text == "--" {
            return Some(index + 1);
        }
        let Some(option) = text.strip_prefix('-').filter(|rest| !rest.is_empty()) else {
            return (text != "-").then_some(index);
        };
        let takes_next = if let Some(option) = option.strip_prefix('-') {
            match option.split_once('=') {
                Some((name, _)) if wrapper.long_valued.contains(&name) => false,
                Some(_) => return None,
                None if wrapper.long_flags.contains(&option) => false,
                None if wrapper.long_valued.contains(&option) => true,
                None => return None,
            }
        } else {
            let letters = option.trim_start_matches(|letter| wrapper.flags.contains(letter));
            let mut letters = letters.chars();
            match letters.next() {
                None => false,
                Some(letter) if wrapper.valued.contains(letter) => letters.next().is_none(),
                Some(_) => return None,
            }
        };
        if takes_next && words.get(index + 1).is_none_or(Word::splits) {
            return None;
        }
        index += 1 + usize::from(takes_next);
    }
    Some(index)
}

fn wrapped(wrapper: &Wrapper, words: &[Word]) -> Found {
    let asks_for_name = wrapper.name == "command"
        && matches!(words.get(1).and_then(Word::literal), Some("-v" | "-V"));
    if asks_for_name {
        return Found::default();
    }
    let Some(mut index) = skip_options(wrapper, words) else {
        return Found::opaque(UNKNOWN_OPTION);
    };
    let mut nature = wrapper.nature;
    if wrapper.name == "env" && index > 1 {
        nature = Nature::Carrier;
    }
    let mut assignments = Vec::new();
    while wrapper.assigns
        && let Some(word) = words.get(index)
        && let Some(assignment) = assignment_word(word)
    {
        if word.splits() {
            return Found::opaque(UNKNOWN_PROGRAM);
        }
        if !is_harmless_environment(&assignment.name) {
            nature = Nature::Carrier;
        }
        assignments.push(assignment);
        index += 1;
    }
    for _ in 0..wrapper.operands {
        if words.get(index).is_some_and(Word::splits) {
            return Found::opaque(UNKNOWN_PROGRAM);
        }
        index += 1;
    }
    inner(nature, words, index, assignments)
}

/// What `uv run`, `bundle exec` and their like run.
fn environment(words: &[Word], subcommands: &[&str]) -> Found {
    let is_one = |word: &Word| {
        word.literal()
            .is_none_or(|text| subcommands.contains(&text))
    };
    match words.get(1) {
        Some(word) if is_one(word) => {}
        // An option may come before it, or take its place.
        Some(word) if word.may_be_option() && words.iter().skip(2).any(is_one) => {
            return Found::opaque(UNKNOWN_OPTION);
        }
        Some(_) | None => return Found::default(),
    }
    let index = match words.get(2).and_then(Word::literal) {
        Some("--") => 3,
        Some(_) | None => 2,
    };
    if words.get(index).is_some_and(Word::may_be_option) || words.get(1).is_some_and(Word::splits) {
        return Found::opaque(UNKNOWN_OPTION);
    }
    let mut found = inner(Nature::Carrier, words, index, Vec::new());
    // Whoever names the subcommand in a rule knows that it runs what comes after.
    for (at, _, _) in &mut found.commands {
        *at -= 1;
    }
    found
}

/// The command that starts at this word, if there is one.
fn inner(nature: Nature, words: &[Word], index: usize, assignments: Vec<Assignment>) -> Found {
    match words.get(index..) {
        None | Some([]) => Found::default(),
        Some([first, ..]) if first.prefix().starts_with('-') => Found::opaque(UNKNOWN_OPTION),
        Some(rest) => Found {
            nature,
            commands: vec![(index, assignments, rest.to_vec())],
            ..Found::default()
        },
    }
}

/// Reads a word as an assignment for a program, which anything with `=` is taken for.
fn assignment_word(word: &Word) -> Option<Assignment> {
    let at = word.pieces.iter().position(|piece| match piece {
        Piece::Text(text) => text.contains('='),
        Piece::Unknown(_) => false,
    })?;
    let mut pieces = word.pieces.get(at..).unwrap_or_default().to_vec();
    let mut name = String::new();
    if let Some(Piece::Text(text)) = pieces.first_mut()
        && let Some((before, value)) = text.split_once('=')
    {
        before.clone_into(&mut name);
        *text = value.to_owned();
    }
    // A name that is not known is none that could be harmless.
    if at > 0 {
        name.clear();
    }
    Some(Assignment {
        name,
        values: vec![Word {
            raw: word.raw.clone(),
            pieces,
        }],
        raw: word.raw.clone(),
    })
}

fn xargs(words: &[Word]) -> Found {
    let Some(index) = skip_options(&XARGS, words) else {
        return Found::opaque(UNKNOWN_OPTION);
    };
    let mut rest = words.get(index..).unwrap_or_default().to_vec();
    if rest.is_empty() {
        rest.push(Word::text("echo"));
    }
    match replacement(words.get(1..index).unwrap_or_default()) {
        Replacement::None => {
            rest.push(Word::unknown("...", Unknown::Output { quoted: false }));
        }
        Replacement::Text(mark) => replace(&mut rest, &mark, Unknown::Output { quoted: true }),
        Replacement::Unknown => return Found::opaque(UNKNOWN_PROGRAM),
    }
    Found {
        nature: Nature::Transparent,
        commands: vec![(index, Vec::new(), rest)],
        ..Found::default()
    }
}

enum Replacement {
    None,
    Text(String),
    Unknown,
}

/// Finds the mark that `xargs -I` replaces.
fn replacement(options: &[Word]) -> Replacement {
    let mut words = options.iter();
    while let Some(word) = words.next() {
        let Some(text) = word.literal() else { continue };
        let Some(letters) = text.strip_prefix('-').filter(|rest| !rest.starts_with('-')) else {
            continue;
        };
        let letters = letters.trim_start_matches(|letter| XARGS.flags.contains(letter));
        let mut value = letters.chars();
        let option = value.next();
        let attached = value.as_str();
        let value = if attached.is_empty() {
            option.and_then(|_| words.next()).and_then(Word::literal)
        } else {
            Some(attached)
        };
        if option == Some('I') {
            return match value {
                Some(mark) if !mark.is_empty() => Replacement::Text(mark.to_owned()),
                Some(_) | None => Replacement::Unknown,
            };
        }
    }
    Replacement::None
}

/// Makes every word that holds the mark an unknown one.
fn replace(words: &mut [Word], mark: &str, by: Unknown) {
    for word in words {
        let holds = word.pieces.iter().any(|piece| match piece {
            Piece::Text(text) => text.contains(mark),
            Piece::Unknown(_) => false,
        });
        if holds {
            let before = word.prefix().split(mark).next().unwrap_or_default();
            let mut pieces = Vec::new();
            if !before.is_empty() {
                pieces.push(Piece::Text(before.to_owned()));
            }
            pieces.push(Piece::Unknown(by));
            pieces.extend(word.unknowns().map(Piece::Unknown));
            word.pieces = pieces;
        }
    }
}

fn find(words: &[Word]) -> Found {
    let mut found = Found::default();
    // What it does itself.
    let mut own: Vec<Word> = Vec::new();
    let mut index = 1;
    while let Some(word) = words.get(index) {
        index += 1;
        if !matches!(
            word.literal(),
            Some("-exec" | "-execdir" | "-ok" | "-okdir")
        ) {
            // A word that is not known may be an `-exec`, unless it is the value of a test.
            if word.literal().is_none() && word.may_be_option() {
                found.nature = Nature::Opaque(UNKNOWN_PROGRAM);
            }
            let values = word
                .literal()
                .and_then(|text| FIND.iter().find(|(name, _)| *name == text))
                .map_or(0, |(_, values)| *values);
            own.push(word.clone());
            let is_one_word = |word: &Word| !word.splits();
            if words.get(index).is_some_and(is_one_word) {
                own.extend(
                    words
                        .get(index..index + values)
                        .into_iter()
                        .flatten()
                        .cloned(),
                );
                index += values;
            }
            continue;
        }
        let rest = words.get(index..).unwrap_or_default();
        let length = rest
            .iter()
            .position(|word| matches!(word.literal(), Some(";" | "+")))
            .unwrap_or(rest.len());
        let mut inner = rest.get(..length).unwrap_or_default().to_vec();
        // With `+` the word becomes several: all paths at once.
        let is_batch = rest.get(length).and_then(Word::literal) == Some("+");
        replace(&mut inner, "{}", Unknown::Output { quoted: !is_batch });
        if !inner.is_empty() {
            found.commands.push((index, Vec::new(), inner));
        }
        if found.nature == Nature::Plain {
            found.nature = Nature::Carrier;
        }
        index += length + 1;
    }
    if found.nature == Nature::Carrier && find_is_read_only(&own) {
        found.nature = Nature::Transparent;
    }
    found
}

fn fd(words: &[Word]) -> Found {
    let position = words.iter().position(|word| {
        matches!(
            word.literal(),
            Some("-x" | "-X" | "--exec" | "--exec-batch")
        )
    });
    let Some(position) = position else {
        let hides = words.iter().any(|word| {
            let text = word.prefix();
            text.starts_with("--exec")
                || (text.starts_with('-') && !text.starts_with("--") && text.contains(['x', 'X']))
        });
        return if hides {
            Found::opaque(UNKNOWN_OPTION)
        } else {
            Found::default()
        };
    };
    let mut rest = words.get(position + 1..).unwrap_or_default().to_vec();
    // All paths at once: a word becomes several.
    let is_batch = words
        .get(position)
        .is_some_and(|word| matches!(word.literal(), Some("-X" | "--exec-batch")));
    let paths = Unknown::Output { quoted: !is_batch };
    replace(&mut rest, "{", paths);
    rest.push(Word::unknown("...", paths));
    Found {
        nature: Nature::Carrier,
        commands: vec![(position + 1, Vec::new(), rest)],
        ..Found::default()
    }
}

fn watch(words: &[Word]) -> Found {
    let Some(index) = skip_options(&WATCH, words) else {
        return Found::opaque(UNKNOWN_OPTION);
    };
    let rest = words.get(index..).unwrap_or_default();
    let found = eval(rest);
    Found {
        nature: match found.nature {
            Nature::Transparent => Nature::Carrier,
            Nature::Plain | Nature::Launcher | Nature::Carrier | Nature::Opaque(_) => found.nature,
        },
        ..found
    }
}

fn eval(arguments: &[Word]) -> Found {
    let arguments = match arguments {
        [dashes, rest @ ..] if dashes.literal() == Some("--") => rest,
        all => all,
    };
    if arguments.is_empty() {
        return Found::default();
    }
    let Some(texts) = arguments
        .iter()
        .map(Word::literal)
        .collect::<Option<Vec<_>>>()
    else {
        return Found::opaque(UNKNOWN_TEXT);
    };
    Found {
        nature: Nature::Transparent,
        texts: vec![texts.join(" ")],
        ..Found::default()
    }
}

fn trap(arguments: &[Word]) -> Found {
    let arguments = match arguments {
        [dashes, rest @ ..] if dashes.literal() == Some("--") => rest,
        all => all,
    };
    match arguments.first().map(Word::literal) {
        None | Some(Some("" | "-" | "-l" | "-p")) => Found::default(),
        Some(None) => Found::opaque(UNKNOWN_TEXT),
        Some(Some(text)) => Found {
            nature: Nature::Carrier,
            texts: vec![text.to_owned()],
            ..Found::default()
        },
    }
}

fn shell(words: &[Word], is_like_ours: bool) -> Found {
    let mut nature = if is_like_ours {
        Nature::Transparent
    } else {
        Nature::Carrier
    };
    let mut takes_line = false;
    let mut index = 1;
    while let Some(word) = words.get(index) {
        let Some(text) = word.literal() else {
            if word.may_be_option() {
                return Found::opaque(UNKNOWN_OPTION);
            }
            break;
        };
        if text == "--version" && words.len() == 2 {
            return Found::default();
        }
        let Some(letters) = text.strip_prefix(['-', '+']) else {
            break;
        };
        index += 1;
        if text == "--" || letters.is_empty() {
            break;
        }
        if text.starts_with("--") {
            match text {
                "--norc" | "--noprofile" | "--posix" => {}
                "--login" => nature = launches(nature),
                _ => return Found::opaque(UNKNOWN_OPTION),
            }
            continue;
        }
        for letter in letters.chars() {
            match letter {
                'c' => takes_line = true,
                'e' | 'u' | 'f' => {}
                'o' | 'O' => {
                    if words.get(index).is_none_or(Word::splits) {
                        return Found::opaque(UNKNOWN_OPTION);
                    }
                    nature = launches(nature);
                    index += 1;
                }
                's' => return Found::opaque(ELSEWHERE),
                _ => nature = launches(nature),
            }
        }
    }
    if !takes_line {
        return Found::opaque(ELSEWHERE);
    }
    match words.get(index).map(Word::literal) {
        None => Found::default(),
        Some(None) => Found::opaque(UNKNOWN_TEXT),
        Some(Some(text)) => Found {
            nature,
            texts: vec![text.to_owned()],
            taints: words.len() > index + 1,
            ..Found::default()
        },
    }
}

const fn launches(nature: Nature) -> Nature {
    match nature {
        Nature::Transparent => Nature::Launcher,
        Nature::Plain | Nature::Launcher | Nature::Carrier | Nature::Opaque(_) => nature,
    }
}
