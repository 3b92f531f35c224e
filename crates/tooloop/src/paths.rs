//! Where a path leads, links resolved.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// How many links are followed: what the kernel follows.
const MOST_LINKS: usize = 40;

/// An absolute path without `.` and `..`, as text.
pub(crate) fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                normal.pop();
            }
            Component::CurDir => {}
            Component::RootDir | Component::Normal(_) | Component::Prefix(_) => normal.push(part),
        }
    }
    normal
}

/// Where an absolute path leads when each link on the way is followed. Parts that are not there
/// stand for themselves. With more links than the kernel follows it is the path itself, which
/// nothing can open.
pub(crate) fn real(path: &Path) -> PathBuf {
    // The parts still to go, the next one last.
    let mut parts: Vec<OsString> = Vec::new();
    push(&mut parts, path);
    let mut real = PathBuf::from("/");
    let mut links = 0_usize;
    while let Some(part) = parts.pop() {
        if part == ".." {
            real.pop();
            continue;
        }
        let next = real.join(&part);
        match std::fs::read_link(&next) {
            Ok(target) if links < MOST_LINKS => {
                links += 1;
                if target.is_absolute() {
                    real = PathBuf::from("/");
                }
                push(&mut parts, &target);
            }
            Ok(_) => return path.to_owned(),
            // No link, or nothing there.
            Err(_) => real = next,
        }
    }
    real
}

/// Where an absolute path leads when the links of its directory are followed, but not a link that it
/// names itself; and where it leads when that is followed too.
pub(crate) fn entry_and_real(path: &Path) -> (PathBuf, PathBuf) {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        let real = real(path);
        return (real.clone(), real);
    };
    let entry = real(parent).join(name);
    let whole = match std::fs::read_link(&entry) {
        Ok(_) => real(path),
        Err(_) => entry.clone(),
    };
    (entry, whole)
}

fn push(parts: &mut Vec<OsString>, path: &Path) {
    parts.extend(path.components().rev().filter_map(|part| match part {
        Component::Normal(part) => Some(part.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    }));
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_are_followed_wherever_they_stand() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("w/sub")).unwrap();
        std::fs::create_dir_all(root.join("o")).unwrap();
        symlink(root.join("o"), root.join("w/out")).unwrap();
        symlink("sub", root.join("w/in")).unwrap();
        symlink("../o/new", root.join("w/dangling")).unwrap();
        symlink("loop", root.join("w/loop")).unwrap();
        let table = [
            ("w/in/ok.txt", "w/sub/ok.txt"),
            ("w/out/new.txt", "o/new.txt"),
            ("w/out/../x", "x"),
            ("w/out/./a/b", "o/a/b"),
            ("w/dangling", "o/new"),
            ("w/none/../../x", "x"),
            ("w/loop", "w/loop"),
            ("w/loop/x", "w/loop/x"),
        ];
        for (path, expected) in table {
            assert_eq!(real(&root.join(path)), root.join(expected), "{path}");
        }
        let (entry, whole) = entry_and_real(&root.join("w/in/../dangling"));
        assert_eq!(entry, root.join("w/dangling"));
        assert_eq!(whole, root.join("o/new"));
        assert_eq!(real(Path::new("/../..")), Path::new("/"));
        assert_eq!(normal(Path::new("/a/./b/../c/")), Path::new("/a/c"));
        assert_eq!(normal(Path::new("/../a")), Path::new("/a"));
    }
}
