//! Secrets that show by their look. One pass over the text; each byte is looked at a bounded number
//! of times, whatever stands there.

use std::ops::Range;

use memchr::memmem;

/// A kind of key: how it begins, and how many bytes of a word must follow at least.
struct Prefix {
    text: &'static str,
    least: usize,
    /// Whether words of plain language may begin so too: a key has a digit or a capital in it.
    common: bool,
}

const PREFIXES: [Prefix; 38] = [
    distinct("sk-ant-", 8),
    common("sk-", 16),
    distinct("AIza", 35),
    distinct("ghp_", 16),
    distinct("gho_", 16),
    distinct("ghu_", 16),
    distinct("ghs_", 16),
    distinct("ghr_", 16),
    distinct("github_pat_", 16),
    distinct("xoxb-", 8),
    distinct("xoxa-", 8),
    distinct("xoxp-", 8),
    distinct("xapp-", 8),
    distinct("glpat-", 16),
    distinct("sk_live_", 8),
    distinct("sk_test_", 8),
    distinct("rk_live_", 8),
    distinct("rk_test_", 8),
    distinct("whsec_", 16),
    distinct("gsk_", 20),
    common("xai-", 20),
    common("hf_", 20),
    common("npm_", 30),
    common("pypi-", 30),
    common("r8_", 30),
    distinct("dop_v1_", 20),
    distinct("shpat_", 16),
    distinct("shpss_", 16),
    distinct("sntrys_", 16),
    distinct("lin_api_", 16),
    distinct("glrt-", 16),
    distinct("glptt-", 16),
    distinct("gldt-", 16),
    distinct("xoxe-", 8),
    distinct("xoxr-", 8),
    distinct("xoxs-", 8),
    common("pplx-", 20),
    distinct("sq0csp-", 16),
];

const fn distinct(text: &'static str, least: usize) -> Prefix {
    Prefix {
        text,
        least,
        common: false,
    }
}

const fn common(text: &'static str, least: usize) -> Prefix {
    Prefix {
        text,
        least,
        common: true,
    }
}

/// How a block begins and ends, as words: a space and its title follow.
const BEGIN: &str = "-----BEGIN";
const END: &str = "-----END";
const DASHES: &[u8] = b"-----";
const KEY: &[u8] = b"PRIVATE KEY";
/// The longest title of a block, and the longest block.
const LINE: usize = 64;
const BLOCK: usize = 64 << 10;

/// Where secrets stand, in order and apart from each other.
pub(super) fn find(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut ends = Ends {
        finder: memmem::Finder::new(END),
        next: Some(0),
    };
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(start) = bytes
        .get(at..)
        .and_then(|rest| rest.iter().position(|&byte| is_word(byte)))
        .map(|skipped| at.saturating_add(skipped))
    {
        let end = run(text, start, is_word);
        let span = secret(text, start..end, &mut ends).or_else(|| {
            let start = start.saturating_add(escape(text, start)?);
            secret(text, start..end, &mut ends)
        });
        match span {
            Some(span) => {
                at = span.end.max(end);
                found.push(span);
            }
            None => at = end,
        }
    }
    found
}

/// The secret that the word is, or that it introduces.
fn secret(text: &str, word: Range<usize>, ends: &mut Ends) -> Option<Range<usize>> {
    let Range { start, end } = word;
    let word = text.get(start..end)?;
    key(word)
        .map(|length| start..start.saturating_add(length))
        .or_else(|| token(text, start, end))
        .or_else(|| bearer(text, word, end))
        .or_else(|| block(text, word, end, ends))
}

/// The length of what belongs to an escape at the beginning of a word, as in `\nsk-...` in the text
/// of a JSON string.
fn escape(text: &str, start: usize) -> Option<usize> {
    let before = text.as_bytes().get(start.checked_sub(1)?)?;
    let letter = text.as_bytes().get(start)?;
    match (before, letter) {
        (b'\\', b'n' | b'r' | b't' | b'b' | b'f') => Some(1),
        (b'\\', b'u') => Some(5),
        _ => None,
    }
}

const fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

/// Where the bytes of a kind that stand at `start` end.
fn run(text: &str, start: usize, is_part: impl Fn(u8) -> bool) -> usize {
    let rest = text.as_bytes().get(start..).unwrap_or_default();
    let length = rest.iter().position(|&byte| !is_part(byte));
    start.saturating_add(length.unwrap_or(rest.len()))
}

/// The length of the key that the word is.
fn key(word: &str) -> Option<usize> {
    for prefix in &PREFIXES {
        let Some(rest) = word.strip_prefix(prefix.text) else {
            continue;
        };
        let has_mark = || {
            rest.bytes()
                .any(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase())
        };
        if rest.len() >= prefix.least && (!prefix.common || has_mark()) {
            return Some(word.len());
        }
    }
    // An access key's id: 20 capitals and digits.
    if word.starts_with("AKIA") || word.starts_with("ASIA") {
        let capital = |byte: &u8| byte.is_ascii_digit() || byte.is_ascii_uppercase();
        let length = word.bytes().take_while(|byte| capital(byte)).count();
        let ends = word
            .as_bytes()
            .get(length)
            .is_none_or(|byte| !byte.is_ascii_alphanumeric());
        return (length == 20 && ends).then_some(length);
    }
    None
}

/// A JSON Web Token: three words between dots, of which two are JSON objects in base64.
fn token(text: &str, start: usize, first_end: usize) -> Option<Range<usize>> {
    const OBJECT: &str = "eyJ";
    const LEAST: usize = 10;
    let is_object = |part: Range<usize>| {
        part.len() >= LEAST && text.get(part).is_some_and(|part| part.starts_with(OBJECT))
    };
    let after_dot =
        |end: usize| (text.as_bytes().get(end) == Some(&b'.')).then(|| end.saturating_add(1));
    if !is_object(start..first_end) {
        return None;
    }
    let second = after_dot(first_end)?;
    let second_end = run(text, second, is_word);
    if !is_object(second..second_end) {
        return None;
    }
    let third = after_dot(second_end)?;
    Some(start..run(text, third, is_word))
}

/// What follows the word "Bearer".
fn bearer(text: &str, word: &str, word_end: usize) -> Option<Range<usize>> {
    if !word.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let start = run(text, word_end, |byte| byte == b' ' || byte == b'\t');
    let end = run(text, start, |byte| {
        is_word(byte) || matches!(byte, b'.' | b'~' | b'+' | b'/' | b'=')
    });
    let token = text.get(start..end)?;
    let has_mark = token
        .bytes()
        .skip(1)
        .any(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase());
    let is_token = start > word_end && (token.len() >= 20 || token.len() >= 8 && has_mark);
    is_token.then_some(start..end)
}

/// Where blocks end. Looked for once for each place, however many blocks begin before it.
struct Ends {
    finder: memmem::Finder<'static>,
    next: Option<usize>,
}

impl Ends {
    /// The first end at or after `from`; `from` never goes back.
    fn after(&mut self, text: &str, from: usize) -> Option<usize> {
        if self.next? < from {
            let rest = text.as_bytes().get(from..)?;
            self.next = self
                .finder
                .find(rest)
                .map(|found| from.saturating_add(found));
        }
        self.next
    }
}

/// A private key between its lines; without its last line all that may be a part of it.
fn block(text: &str, word: &str, word_end: usize, ends: &mut Ends) -> Option<Range<usize>> {
    if !word.ends_with(BEGIN) {
        return None;
    }
    let start = word_end.checked_sub(BEGIN.len())?;
    let inside = title(text, word_end)?;
    let limit = inside.saturating_add(BLOCK);
    let end = ends
        .after(text, inside)
        .filter(|end| *end <= limit)
        .and_then(|end| title(text, end.saturating_add(END.len())));
    let open = || {
        run(text, inside, |byte| {
            is_word(byte) || byte.is_ascii_whitespace() || b"+/=\\,:".contains(&byte)
        })
    };
    Some(start..end.unwrap_or_else(open))
}

/// Where a line such as ` RSA PRIVATE KEY-----` ends that stands at `from`.
fn title(text: &str, from: usize) -> Option<usize> {
    let line = text.as_bytes().get(from..)?;
    let of_title =
        |byte: &&u8| **byte == b' ' || byte.is_ascii_uppercase() || byte.is_ascii_digit();
    let length = line.iter().take(LINE).take_while(of_title).count();
    let (title, after) = line.split_at_checked(length)?;
    let is_key = memmem::find(title, KEY).is_some();
    let end = from.saturating_add(length).saturating_add(DASHES.len());
    (is_key && after.starts_with(DASHES)).then_some(end)
}
