//! The submodules in an index of git.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The mode of an entry that is a submodule.
const SUBMODULE: [u8; 4] = [0, 0, 0xE0, 0];

/// Where the mode of an entry is.
const MODE: usize = 24;

/// Where the flags of an entry are, with SHA-1.
const FLAGS: usize = 60;

/// Returns the paths of the submodules; `None` if they are not known.
pub(super) fn submodules(index: &[u8]) -> Option<Vec<PathBuf>> {
    // Without these bytes there is none, however the rest is to be read.
    if !index
        .windows(SUBMODULE.len())
        .any(|bytes| bytes == SUBMODULE)
    {
        return Some(Vec::new());
    }
    let number = |at: usize| -> Option<u32> {
        Some(u32::from_be_bytes(index.get(at..at + 4)?.try_into().ok()?))
    };
    let is_readable = index.starts_with(b"DIRC") && matches!(number(4)?, 2 | 3);
    if !is_readable {
        return None;
    }
    let mut found = Vec::new();
    let mut at = 12;
    for _ in 0..number(8)? {
        let entry = index.get(at..)?;
        let is_extended = entry.get(FLAGS)? & 0x40 != 0;
        let name_at = FLAGS + if is_extended { 4 } else { 2 };
        let name = entry.get(name_at..)?;
        let length = name.iter().position(|byte| *byte == 0)?;
        let name = name.get(..length)?;
        if entry.get(MODE..MODE + 4)? == SUBMODULE {
            found.push(PathBuf::from(OsStr::from_bytes(name)));
        }
        // At least one NUL, and the length of an entry is a multiple of eight.
        at += (name_at + length + 8) & !7;
    }
    // The checksum, or an extension, comes next: with other hashes the entries would not end here.
    let is_whole = index.len() >= at + 20;
    is_whole.then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(version: u32, entries: &[(&str, u32)]) -> Vec<u8> {
        let mut bytes = b"DIRC".to_vec();
        bytes.extend(version.to_be_bytes());
        bytes.extend(u32::try_from(entries.len()).unwrap().to_be_bytes());
        for (name, mode) in entries {
            let start = bytes.len();
            bytes.extend([1; MODE]);
            bytes.extend(mode.to_be_bytes());
            bytes.resize(start + FLAGS, 1);
            bytes.extend([0, u8::try_from(name.len()).unwrap()]);
            bytes.extend(name.as_bytes());
            let length = (bytes.len() - start + 8) & !7;
            bytes.resize(start + length, 0);
        }
        bytes.extend([1; 20]);
        bytes
    }

    #[test]
    fn submodules_are_found_by_their_mode() {
        let files = [("a", 0o100_644), ("b/c", 0o100_755)];
        assert_eq!(submodules(&index(2, &files)), Some(Vec::new()));
        let mixed = [
            ("a", 0o100_644),
            ("sub/module", 0o160_000),
            ("z", 0o120_000),
        ];
        assert_eq!(
            submodules(&index(2, &mixed)),
            Some(vec!["sub/module".into()])
        );
        // Names are compressed in version 4.
        assert_eq!(submodules(&index(4, &files)), Some(Vec::new()));
        assert_eq!(submodules(&index(4, &mixed)), None);
        let whole = index(2, &mixed);
        assert_eq!(submodules(&whole[..whole.len() - 40]), None);
    }
}
