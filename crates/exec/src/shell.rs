//! Which shell runs a command, and how the command reaches it.

use std::env;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{Access, access};

use crate::platform::Strings;

/// The longest single argument that the kernel takes, with its NUL.
const LONGEST_ARGUMENT: usize = 128 * 1024;

/// The descriptors that a shell may be given beside the standard three.
///
/// Out of the way for bash, which uses those from 10 on itself; `sh` may know single digits only.
pub(crate) struct ShellDescriptors {
    pub(crate) text: i32,
    pub(crate) startup: i32,
    pub(crate) directory: i32,
}

/// A shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shell {
    path: PathBuf,
    is_bash: bool,
}

impl Shell {
    /// The shell at a path. It is taken for bash if it is called so, else for a POSIX shell.
    #[must_use]
    pub fn at(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let is_bash = path.file_name() == Some(OsStr::new("bash"));
        Self { path, is_bash }
    }

    /// The shell of this system: `bash` if there is one, else `sh`. It is looked for once.
    pub fn system() -> &'static Self {
        static SYSTEM: OnceLock<Shell> = OnceLock::new();
        SYSTEM.get_or_init(|| {
            let path = env::var_os("PATH").unwrap_or_default();
            let folders: Vec<PathBuf> = env::split_paths(&path)
                .chain(["/bin".into(), "/usr/bin".into()])
                .filter(|folder| folder.is_absolute())
                .collect();
            let find = |name: &str| {
                folders
                    .iter()
                    .map(|folder| folder.join(name))
                    .find(|path| path.is_file() && access(path, Access::EXEC_OK).is_ok())
            };
            Self::at(
                find("bash")
                    .or_else(|| find("sh"))
                    .unwrap_or_else(|| "/bin/sh".into()),
            )
        })
    }

    /// Where it lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is bash.
    #[must_use]
    pub const fn is_bash(&self) -> bool {
        self.is_bash
    }

    pub(crate) const fn descriptors(&self) -> ShellDescriptors {
        if self.is_bash {
            ShellDescriptors {
                text: 241,
                startup: 242,
                directory: 243,
            }
        } else {
            ShellDescriptors {
                text: 7,
                startup: 8,
                directory: 9,
            }
        }
    }

    /// The arguments that run a text; `None` if it holds a NUL.
    ///
    /// The text is one argument, untouched. Only one that is longer than the kernel allows is
    /// read from a descriptor.
    pub(crate) fn arguments(&self, text: &str, tells_directory: bool) -> Option<Strings> {
        let from_descriptor = format!(". /proc/self/fd/{}", self.descriptors().text);
        let text = if is_too_long(text) {
            OsStr::new(&from_descriptor)
        } else {
            OsStr::new(text)
        };
        let wrapped = wrapped(self.descriptors().directory);
        let mut list: Vec<&OsStr> = Vec::with_capacity(6);
        list.push(OsStr::new(if self.is_bash { "bash" } else { "sh" }));
        if self.is_bash {
            list.extend(["--noprofile", "--norc"].map(OsStr::new));
        }
        list.push(OsStr::new("-c"));
        if tells_directory && !self.is_bash {
            list.extend([OsStr::new(&wrapped), OsStr::new("sh")]);
        }
        list.push(text);
        let mut strings = Strings::default();
        list.into_iter()
            .all(|argument| strings.push(&[argument]))
            .then_some(strings)
    }

    /// What bash reads before the command, so that it tells its directory when it exits. The
    /// command itself stays as it is, and so do its status, its name and its traps.
    pub(crate) fn startup(&self) -> Option<String> {
        let ShellDescriptors {
            startup, directory, ..
        } = self.descriptors();
        self.is_bash.then(|| {
            format!(
                "exec {startup}<&-\n\
                 if [ \"${{{ORIGINAL_STARTUP}+set}}\" ]; then BASH_ENV=${ORIGINAL_STARTUP}; \
                 unset {ORIGINAL_STARTUP}; . \"$BASH_ENV\"; else unset BASH_ENV; fi\n\
                 trap '{}' EXIT\n",
                tell(directory)
            )
        })
    }
}

/// Holds the value of `BASH_ENV` while ours stands in its place.
pub(crate) const ORIGINAL_STARTUP: &str = "TOOLOOP_BASH_ENV";

/// Writes the directory, whatever the options of the shell, and leaves no trace.
fn tell(directory: i32) -> String {
    format!("{{ command pwd >&{directory}; }} 2>/dev/null || :")
}

/// The POSIX shell reads no file before a command: it is given one that sets the trap and then
/// runs the text.
fn wrapped(directory: i32) -> String {
    format!("trap '{}' EXIT; eval \"set --; $1\"", tell(directory))
}

pub(crate) const fn is_too_long(text: &str) -> bool {
    text.len() >= LONGEST_ARGUMENT
}

/// Whether running a text may leave its shell in another directory.
///
/// Told by the words that can do it. A text that spells them in pieces is not found out; then the
/// directory simply stays.
pub(crate) fn may_change_directory(text: &str) -> bool {
    let text = text.as_bytes();
    if ["cd", "pushd", "popd", "eval", "source"]
        .iter()
        .any(|word| memchr::memmem::find(text, word.as_bytes()).is_some())
    {
        return true;
    }
    // The dot command: a dot that is a word.
    let mut before = b' ';
    let mut bytes = text.iter().peekable();
    while let Some(byte) = bytes.next() {
        if *byte == b'.'
            && matches!(
                before,
                b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'(' | b'{' | b'!'
            )
            && matches!(bytes.peek(), Some(b' ' | b'\t'))
        {
            return true;
        }
        before = *byte;
    }
    false
}

/// The path that a shell wrote, without its line end.
pub(crate) fn told_directory(bytes: &[u8]) -> Option<PathBuf> {
    let path = bytes.strip_suffix(b"\n")?;
    path.starts_with(b"/")
        .then(|| PathBuf::from(OsStr::from_bytes(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_change_directory() {
        for text in [
            "cd x",
            "make; pushd y",
            "popd",
            "eval \"$X\"",
            ". ./env.sh",
            "true;. env",
            "(source env)",
            "command cd x",
        ] {
            assert!(may_change_directory(text), "{text}");
        }
        for text in [
            "true",
            "ls .",
            "echo a.b",
            "./run .x. x.y",
            "cargo test",
            "",
        ] {
            assert!(!may_change_directory(text), "{text}");
        }
    }

    #[test]
    fn told_directories() {
        assert_eq!(told_directory(b"/a b\n"), Some("/a b".into()));
        assert_eq!(told_directory(b"/a\nb\n"), Some("/a\nb".into()));
        assert_eq!(told_directory(b""), None);
        assert_eq!(told_directory(b"/half"), None);
        assert_eq!(told_directory(b"(unreachable)/x\n"), None);
    }

    #[test]
    fn the_text_is_one_argument() {
        let bash = Shell::at("/bin/bash");
        assert!(bash.arguments("a\0b", false).is_none());
        assert_eq!(
            bash.arguments("echo 'a'", true),
            ["bash", "--noprofile", "--norc", "-c", "echo 'a'"]
                .iter()
                .try_fold(Strings::default(), |mut strings, argument| {
                    strings.push(&[OsStr::new(argument)]).then_some(strings)
                })
        );
    }
}
