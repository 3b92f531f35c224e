//! Scripts of `sed` and `awk`: which of them change nothing and run nothing.
//!
//! Both checks accept a part of the language only. What they do not accept may write or run
//! something.

use super::Word;

/// Checks that `sed` with these arguments writes nothing, runs nothing and reads only its operands.
pub(super) fn sed_is_read_only(arguments: &[Word]) -> bool {
    match sed_options(arguments) {
        Some(is_in_place) => !is_in_place,
        None => false,
    }
}

/// Checks that `sed` with these arguments runs nothing, and writes at most the files that it edits.
pub(super) fn sed_runs_nothing(arguments: &[Word]) -> bool {
    sed_options(arguments).is_some()
}

/// Whether `sed` edits in place; `None` if its options or its script are not harmless.
fn sed_options(arguments: &[Word]) -> Option<bool> {
    let mut scripts = Vec::new();
    let mut operands = Vec::new();
    let mut is_in_place = false;
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let Some(text) = word.literal() else {
            if word.may_be_option() {
                return None;
            }
            operands.push(word);
            continue;
        };
        if text == "--" {
            operands.extend(words.by_ref());
        } else if let Some(option) = text.strip_prefix("--") {
            match option
                .split_once('=')
                .map_or((option, None), |(name, value)| (name, Some(value)))
            {
                (
                    "quiet" | "silent" | "regexp-extended" | "posix" | "separate" | "null-data"
                    | "unbuffered" | "sandbox" | "debug" | "version" | "help",
                    None,
                ) => {}
                ("in-place", _) => is_in_place = true,
                ("expression", Some(script)) => scripts.push(script),
                ("expression", None) => scripts.push(words.next()?.literal()?),
                _ => return None,
            }
        } else if let Some(letters) = text.strip_prefix('-').filter(|rest| !rest.is_empty()) {
            let letters_left = letters.trim_start_matches(['n', 'E', 'r', 's', 'u', 'z']);
            match letters_left.strip_prefix('e') {
                Some("") => scripts.push(words.next()?.literal()?),
                Some(script) => scripts.push(script),
                // What follows is the suffix of a copy.
                None if letters_left.starts_with('i') => is_in_place = true,
                None if letters_left.is_empty() => {}
                None => return None,
            }
        } else {
            operands.push(word);
        }
    }
    if scripts.is_empty() {
        scripts.push(operands.first().map_or(Some(""), |word| word.literal())?);
    }
    // Several scripts are one, each on lines of its own.
    let are_harmless = scripts.iter().all(|script| sed_script_is_harmless(script));
    are_harmless.then_some(is_in_place)
}

/// Checks a script of `sed`, command by command.
fn sed_script_is_harmless(script: &str) -> bool {
    let mut rest = script;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\n', ';', '{', '}']);
        if rest.is_empty() {
            return true;
        }
        let Some(after) = sed_command(rest) else {
            return false;
        };
        rest = after;
    }
}

/// The rest of a script behind one harmless command; `None` if it is not known to be harmless.
fn sed_command(script: &str) -> Option<&str> {
    let mut rest = sed_address(script)?;
    if let Some(second) = rest.trim_start_matches(' ').strip_prefix(',') {
        rest = sed_address(second.trim_start_matches(' '))?;
    }
    rest = rest.trim_start_matches([' ', '!']);
    let mut letters = rest.chars();
    let command = letters.next()?;
    let after = letters.as_str();
    let end = |text: &str| -> Option<usize> {
        let blank = text.len() - text.trim_start_matches([' ', '\t']).len();
        let next = text.get(blank..)?.chars().next();
        matches!(next, None | Some(';' | '\n' | '}')).then_some(blank)
    };
    match command {
        '{' => Some(after),
        '#' => Some(after.split_once('\n').map_or("", |(_, next)| next)),
        '=' | 'd' | 'D' | 'g' | 'G' | 'h' | 'H' | 'n' | 'N' | 'p' | 'P' | 'x' | 'z' => {
            after.get(end(after)?..)
        }
        'l' | 'q' | 'Q' => {
            let after = after.trim_start_matches(|c: char| c == ' ' || c.is_ascii_digit());
            after.get(end(after)?..)
        }
        'b' | 't' | 'T' | ':' => {
            let is_label = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ' ');
            let after = after.trim_start_matches(is_label);
            after.get(end(after)?..)
        }
        's' => {
            let delimiter = delimiter(after)?;
            let after = sed_text(after.get(delimiter.len_utf8()..)?, delimiter)?;
            let after = sed_text(after, delimiter)?;
            // Not among them are `e`, which runs, and `w`, which writes.
            let is_flag =
                |c: char| c.is_ascii_digit() || matches!(c, 'g' | 'p' | 'i' | 'I' | 'M' | 'm');
            let after = after.trim_start_matches(is_flag);
            after.get(end(after)?..)
        }
        'y' => {
            let delimiter = delimiter(after)?;
            let after = sed_text(after.get(delimiter.len_utf8()..)?, delimiter)?;
            let after = sed_text(after, delimiter)?;
            after.get(end(after)?..)
        }
        _ => None,
    }
}

fn delimiter(text: &str) -> Option<char> {
    text.chars()
        .next()
        .filter(|c| c.is_ascii_punctuation() && !matches!(c, '\\' | '[' | ']' | ';' | '{' | '}'))
}

/// The rest behind an address, if there is one.
fn sed_address(text: &str) -> Option<&str> {
    let rest = if let Some(rest) = text.strip_prefix('/') {
        sed_text(rest, '/')?.trim_start_matches(['I', 'M'])
    } else {
        let is_number = |c: char| c.is_ascii_digit() || matches!(c, '$' | '~' | '+');
        text.trim_start_matches(is_number)
    };
    Some(rest)
}

/// The rest behind a text and the delimiter that ends it.
fn sed_text(text: &str, delimiter: char) -> Option<&str> {
    let mut is_escaped = false;
    let mut in_class = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\n' => return None,
            '\\' => is_escaped = true,
            // Not every `sed` agrees that a bracket keeps the delimiter.
            c if c == delimiter && in_class => return None,
            c if c == delimiter => return text.get(at + c.len_utf8()..),
            '[' => in_class = true,
            ']' => in_class = false,
            _ => {}
        }
    }
    None
}

/// Checks that `awk` with these arguments writes nothing, runs nothing and reads only its operands.
pub(super) fn awk_is_read_only(arguments: &[Word]) -> bool {
    let mut words = arguments.iter();
    loop {
        let Some(text) = words.next().map(Word::literal) else {
            return true;
        };
        let Some(text) = text else {
            return false;
        };
        match text {
            "-F" | "-v" => {
                if words.next().and_then(Word::literal).is_none() {
                    return false;
                }
            }
            "--" => {
                let program = words.next().and_then(Word::literal);
                return program.is_none_or(awk_program_is_harmless);
            }
            _ if text.starts_with("-F") || text.starts_with("-v") => {}
            _ if text.starts_with('-') => return false,
            program => return awk_program_is_harmless(program),
        }
    }
}

/// Checks a program of `awk`.
fn awk_program_is_harmless(program: &str) -> bool {
    // Which text is a string is only certain where nothing else can hold a quote.
    let is_certain = !program.contains(['/', '#', '\'', '\\']);
    let code = if is_certain {
        match without_strings(program) {
            Some(code) => code,
            None => return false,
        }
    } else {
        program.to_owned()
    };
    let runs = ["system", "getline", "ARGV", "ARGC", "@", "|&"]
        .iter()
        .any(|word| code.contains(word));
    if runs || code.replace("||", "").contains('|') {
        return false;
    }
    if !code.contains('>') {
        return true;
    }
    // After `print` it names a file, elsewhere it compares.
    if is_certain {
        code.split(['{', '}', ';', '\n']).all(|statement| {
            statement
                .rfind('>')
                .and_then(|at| statement.get(..at))
                .is_none_or(|before| !before.contains("print"))
        })
    } else {
        !code.contains("print")
    }
}

/// A program without its strings; `None` if one has no end.
fn without_strings(program: &str) -> Option<String> {
    let mut code = String::new();
    let mut parts = program.split('"');
    code.push_str(parts.next()?);
    while let Some(_string) = parts.next() {
        code.push_str(" 0 ");
        code.push_str(parts.next()?);
    }
    Some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn harmless_sed_scripts_are_known() {
        let table = [
            ("1,2p", true),
            ("$p", true),
            ("10,20p", true),
            ("/a/,/b/p", true),
            ("/a/!d", true),
            ("s/a/b/", true),
            ("s|a|b|g", true),
            ("s/a\\/b/c/2p", true),
            ("s/[a-z]*/x/gI", true),
            ("1d;$d", true),
            ("/x/{p;q}", true),
            (":a;N;$!ba;s/\\n/ /g", true),
            ("y/abc/xyz/", true),
            ("2q", true),
            ("# a comment\np", true),
            ("1~2p", true),
            ("1e touch M", false),
            ("e", false),
            ("1w M", false),
            ("w M", false),
            ("r M", false),
            ("R M", false),
            ("W M", false),
            ("s/a/b/e", false),
            ("s/a/b/w M", false),
            ("s/a/b/gw M", false),
            ("s/a/b/;w M", false),
            ("p;e", false),
            ("/a/e", false),
            ("\\,a,p", false),
            ("s/[/]/x/;w M", false),
            ("a text", false),
            ("i\\\ntext", false),
            ("s/a/b", false),
            ("s/a/b\n/e", false),
            ("b a;w M", false),
            (":a;e", false),
            ("l 5;e", false),
            ("pw M", false),
        ];
        for (script, expected) in table {
            assert_eq!(sed_script_is_harmless(script), expected, "{script}");
        }
    }

    #[test]
    fn harmless_awk_programs_are_known() {
        let table = [
            ("{print $1}", true),
            ("{print $1, $NF}", true),
            ("NR==1", true),
            ("NR > 1", true),
            ("$3 > 5 {print $1}", true),
            ("{if ($1 > 5) print $2; else print $3}", true),
            ("/re/ {print}", true),
            ("!seen[$0]++", true),
            ("{s += $1} END {print s}", true),
            ("{print $1 \" > \" $2}", true),
            ("{printf \"%s\\n\", $1}", true),
            ("a || b", true),
            ("BEGIN{system(\"touch M\")}", false),
            ("{print > \"M\"}", false),
            ("{print $1 > \"M\"}", false),
            ("{printf \"x\" >> \"M\"}", false),
            ("{print | \"sh\"}", false),
            ("{\"ls\" | getline x}", false),
            ("{getline x < \"f\"}", false),
            ("{print |& \"sh\"}", false),
            ("@load \"x\"", false),
            ("BEGIN {f = \"system\"; @f(\"x\")}", false),
            ("BEGIN {ARGV[1] = \"/etc/passwd\"; ARGC = 2} {print}", false),
            ("/\"/ {print > \"M\"} #\"", false),
            ("{print /;/ > \"M\"}", false),
            ("# \"\n{print > \"M\"}", false),
            ("{print \"a\\\"\" > \"M\"}", false),
        ];
        for (program, expected) in table {
            assert_eq!(awk_program_is_harmless(program), expected, "{program}");
        }
    }
}
