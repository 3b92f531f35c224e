//! Extended attributes, such as access lists: carried over to a file that replaces another as far
//! as the system lets one.

use std::fs::File;
use std::path::Path;

/// The most bytes of names, and of one value, that are carried over.
const MOST: usize = 65_536;

#[cfg(target_os = "linux")]
pub(crate) fn copy(old: &Path, new: &File) {
    use rustix::fs::{XattrFlags, fsetxattr, lgetxattr, llistxattr};

    let mut names = vec![0_u8; MOST];
    let Ok(length) = llistxattr(old, &mut names) else {
        return;
    };
    let names = names.get(..length).unwrap_or_default();
    let mut value = vec![0_u8; MOST];
    for name in names.split(|byte| *byte == 0) {
        if name.is_empty() {
            continue;
        }
        if let Ok(length) = lgetxattr(old, name, &mut value) {
            let value = value.get(..length).unwrap_or_default();
            let _kept = fsetxattr(new, name, value, XattrFlags::empty());
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn copy(_: &Path, _: &File) {}
