//! What can be rescued from a line.

use memchr::memmem;
use serde::Deserialize;
use serde_json::value::RawValue;
use tooloop_kernel::Entry;

use crate::migration::Migration;
use crate::{Record, UnknownRecord};

/// How a record begins as it is written.
const BEGINNING: &[u8] = b"{\"seq\":";

/// How many beginnings of a record are tried on one damaged line.
const MOST_TRIES: usize = 64;

/// A piece of a line.
#[derive(Debug)]
pub(crate) struct Piece {
    /// Where it begins in the line.
    pub(crate) at: usize,
    pub(crate) length: usize,
    pub(crate) what: What,
    /// Bytes of it that were no UTF-8 are now U+FFFD.
    pub(crate) is_replaced: bool,
}

#[derive(Debug)]
pub(crate) enum What {
    Record(Box<Record>),
    /// The envelope is whole; the entry is not understood, for this reason.
    Unknown(Box<UnknownRecord>, String),
    Lost(String),
}

/// Takes a line apart. A whole record is one piece; a blank line has none.
pub(crate) fn pieces(line: &[u8], migration: Migration) -> Vec<Piece> {
    if migration.is_none()
        && let Ok(record) = serde_json::from_slice::<Record>(line)
    {
        return vec![Piece {
            at: 0,
            length: line.len(),
            what: What::Record(Box::new(record)),
            is_replaced: false,
        }];
    }
    match std::str::from_utf8(line) {
        Ok(text) => take_apart(text, migration),
        Err(_) => replaced(line, migration),
    }
}

/// Damage outside of a text stays damage: U+FFFD is no JSON there.
fn replaced(line: &[u8], migration: Migration) -> Vec<Piece> {
    let text = String::from_utf8_lossy(line);
    let mut pieces = take_apart(&text, migration);
    for piece in &mut pieces {
        let end = piece.at.saturating_add(piece.length);
        let own = text.get(piece.at..end).unwrap_or_default();
        piece.is_replaced = own.contains('\u{fffd}');
        // Places in the replaced text are none in the file.
        piece.at = 0;
        piece.length = line.len();
    }
    pieces
}

fn take_apart(text: &str, migration: Migration) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut tries = 0;
    let mut at = 0;
    let mut push = |at, length, what| {
        pieces.push(Piece {
            at,
            length,
            what,
            is_replaced: false,
        });
    };
    loop {
        let rest = text.get(at..).unwrap_or_default();
        let blank = rest.len().saturating_sub(rest.trim_ascii_start().len());
        at = at.saturating_add(blank);
        let rest = rest.trim_ascii_start();
        if rest.is_empty() {
            return pieces;
        }
        let reason = match first(rest, migration) {
            Ok((what, length)) => {
                push(at, length, what);
                at = at.saturating_add(length);
                continue;
            }
            Err(reason) => reason,
        };
        match next(rest, migration, &mut tries) {
            Some((skipped, length, what)) => {
                push(at, skipped, What::Lost(reason));
                at = at.saturating_add(skipped);
                push(at, length, what);
                at = at.saturating_add(length);
            }
            None => {
                push(at, rest.len(), What::Lost(reason));
                return pieces;
            }
        }
    }
}

/// The record that `text` begins with, and its length.
fn first(text: &str, migration: Migration) -> Result<(What, usize), String> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    let raw = match values.next() {
        Some(Ok(raw)) => raw,
        Some(Err(error)) => return Err(error.to_string()),
        None => return Err("there is nothing".into()),
    };
    let length = values.byte_offset();
    let migrated;
    let json = if migration.is_none() {
        raw.get()
    } else {
        let value = serde_json::from_str(raw.get()).map_err(|error| error.to_string())?;
        migrated = migration.apply(value).to_string();
        &migrated
    };
    let reason = match serde_json::from_str::<Record>(json) {
        Ok(record) => return Ok((What::Record(Box::new(record)), length)),
        Err(error) => error.to_string(),
    };
    let Ok(unknown) = serde_json::from_str::<UnknownRecord>(json) else {
        return Err(reason);
    };
    let reason = match serde_json::from_str::<Entry>(unknown.entry.get()) {
        Err(error) if unknown.kind().is_some() => error.to_string(),
        Ok(_) | Err(_) => return Err(reason),
    };
    Ok((What::Unknown(Box::new(unknown), reason), length))
}

/// The next record in `text` that stands behind something else. Where records were glued together,
/// one ends where the line ends or where the next one begins; what is a part of another record, such as the
/// input of a call that looks like a record, does not.
fn next(text: &str, migration: Migration, tries: &mut usize) -> Option<(usize, usize, What)> {
    let places = memmem::find_iter(text.as_bytes(), BEGINNING);
    for at in places.filter(|at| *at > 0) {
        if *tries >= MOST_TRIES {
            return None;
        }
        *tries = tries.saturating_add(1);
        let candidate = text.get(at..)?;
        let Ok((what, length)) = first(candidate, migration) else {
            continue;
        };
        let behind = candidate.get(length..)?.trim_ascii_start();
        if behind.is_empty() || behind.as_bytes().starts_with(BEGINNING) {
            return Some((at, length, what));
        }
    }
    None
}

/// The value of a member in what is left of an object.
pub(crate) fn member<T: for<'a> Deserialize<'a>>(line: &[u8], name: &str) -> Option<T> {
    let key = format!("\"{name}\":");
    let at = memmem::find(line, key.as_bytes())?;
    let value = line.get(at.saturating_add(key.len())..)?;
    let mut values = serde_json::Deserializer::from_slice(value).into_iter::<T>();
    values.next()?.ok()
}
