//! The content of a file as it is changed: in UTF-8, or in bytes of which only ASCII is known.

use std::borrow::Cow;
use std::path::Path;

use tooloop_tool::ToolError;

use super::call::{Call, failed, length, too_large, words};
use super::machine::{OpenFile, WriteAs};
use super::seen::{Fingerprint, View};
use super::text::{self, Encoding};

/// The largest file that is changed.
pub(crate) const MOST: u64 = 100 << 20;

/// A file as it was found.
pub(crate) struct Content {
    pub(crate) file: OpenFile,
    /// The file's bytes, or what they say as UTF-8 where they are UTF-16.
    pub(crate) body: Vec<u8>,
    pub(crate) encoding: Encoding,
    pub(crate) fingerprint: Fingerprint,
}

impl Content {
    pub(crate) fn load(call: &Call, given: &str, mut file: OpenFile) -> Result<Self, ToolError> {
        let Some(bytes) = call.bytes(given, &mut file, MOST)? else {
            let hint = "a shell command such as sed can change it";
            return too_large(given, file.size, hint);
        };
        let Some(fingerprint) = Fingerprint::of_many(&bytes, &|| call.is_cancelled()) else {
            return Err(ToolError::Cancelled);
        };
        let encoding = text::encoding(&bytes);
        call.check()?;
        let body = if is_utf16(encoding) {
            let (text, is_lossy) = text::from_utf16(&bytes, encoding);
            if is_lossy {
                return failed(format!(
                    "{given} is UTF-16 text with broken characters, which a change could destroy"
                ));
            }
            text.into_bytes()
        } else {
            bytes
        };
        Ok(Self {
            file,
            body,
            encoding,
            fingerprint,
        })
    }

    /// Refuses new text that this file's encoding would not hold for certain.
    pub(crate) fn takes(&self, given: &str, new: &str) -> Result<(), ToolError> {
        if new.is_ascii() || self.encoding == Encoding::Utf8 || is_utf16(self.encoding) {
            return Ok(());
        }
        let odd = new.chars().find(|character| !character.is_ascii());
        failed(format!(
            "{given} is not UTF-8, and how it writes {:?} is not known: only ASCII text can be put \
             into it; convert the file to UTF-8 first, or write those bytes with a shell command",
            odd.unwrap_or_default()
        ))
    }

    /// The bytes of a file with this content.
    pub(crate) fn bytes<'a>(&self, body: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        if !is_utf16(self.encoding) {
            return Some(body.into());
        }
        let text = std::str::from_utf8(body).ok()?;
        Some(text::to_utf16(text, self.encoding).into())
    }

    /// Replaces the file, and returns what stands for its new content.
    pub(crate) fn replace(
        &self,
        call: &Call,
        given: &str,
        body: &[u8],
    ) -> Result<Fingerprint, ToolError> {
        let Some(bytes) = self.bytes(body) else {
            return failed(format!("the change would break the text of {given}"));
        };
        if length(&bytes) > MOST {
            return failed(format!("{given} would become too large"));
        }
        let path = &self.file.real_path;
        match call.ops.write(path, &bytes, WriteAs::Replacement) {
            Ok(_) => Ok(Fingerprint::of(&bytes)),
            Err(error) => failed(format!("cannot write {given}: {}", words(&error))),
        }
    }

    /// Notes that the file at this path has the new content. True if the model had seen an older
    /// one than that which was changed, so that it does not know this one either.
    pub(crate) fn note(&self, call: &Call, path: &Path, new: Fingerprint) -> bool {
        let view = call.seen.view(&self.file.real_path, self.fingerprint);
        if view == View::Fresh {
            call.seen.wrote(path.to_owned(), new);
        }
        view == View::Stale
    }
}

pub(crate) const fn is_utf16(encoding: Encoding) -> bool {
    matches!(encoding, Encoding::Utf16Little | Encoding::Utf16Big)
}
