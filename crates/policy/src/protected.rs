//! The names of files that no rule opens to be written: programs that run outside of a sandbox obey
//! what stands in them.
//!
//! This is the only list of such names. File tools, shell lines and the boundary of the sandbox use
//! it. Names that belong to one vendor are added through [`crate::Policy::protected_names`].

use std::path::{Component, Path, PathBuf};

/// Entries of a project's directories that are protected at any depth, with all below them.
pub const PROJECT_ENTRIES: [&str; 1] = [".tooloop"];

/// Entries of a repository's directory (`.git`, a bare repository, a linked worktree's directory, a
/// submodule's) that are protected, with all below them: they name programs that git runs, or lead
/// git to another repository.
pub const GIT_ENTRIES: [&str; 8] = [
    "commondir",
    "config",
    "config.worktree",
    "gitdir",
    "hooks",
    "info/attributes",
    "objects/info/alternates",
    "objects/info/http-alternates",
];

/// Entries of the home directory that are protected, with all below them: shells, sessions and git
/// read them when they start.
#[rustfmt::skip]
pub const HOME_STARTUP_ENTRIES: [&str; 33] = [
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".inputrc",
    ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".oh-my-zsh", ".kshrc", ".mkshrc", ".cshrc", ".tcshrc", ".login",
    ".config/fish", ".config/zsh", ".config/bash", ".config/environment.d", ".pam_environment",
    ".xinitrc", ".xprofile", ".xsession", ".xsessionrc", ".config/autostart", ".config/systemd", ".local/share/systemd",
    ".gitconfig", ".config/git/config", ".config/git/attributes",
];

/// Further entries of the home directory that a sandbox keeps from being written where the home
/// directory is writable as a whole: directories in which programs are found, keys, and settings that
/// name programs. A grant that names one of them opens it.
#[rustfmt::skip]
pub const HOME_PROGRAM_ENTRIES: [&str; 103] = [
    "bin", ".local/bin", ".cargo/bin", "go/bin", ".npm-global/bin", ".bun/bin", ".deno/bin", ".pyenv", ".rbenv", ".nvm", ".asdf",
    ".ssh", ".gnupg", ".rhosts", ".shosts", ".netrc", ".aws/config", ".kube/config", ".docker/config.json",
    ".config/git", ".hgrc", ".config/hg", ".cargo/config.toml", ".cargo/config", ".cargo/env", ".npmrc", ".yarnrc", ".yarnrc.yml",
    ".pip", ".config/pip", ".pypirc", ".gradle/init.d", ".gradle/gradle.properties", ".m2/settings.xml", ".bundle/config", ".gemrc",
    ".tmux.conf", ".config/tmux", ".screenrc", ".direnvrc", ".config/direnv", ".config/starship.toml", ".config/mise",
    ".vimrc", ".gvimrc", ".vim", ".config/nvim", ".exrc", ".nvimrc", ".emacs", ".emacs.d", ".config/emacs", ".config/helix", ".config/zed",
    ".config/Code/User", ".config/VSCodium/User", ".config/Cursor/User", ".nanorc", ".config/nano",
    ".gdbinit", ".config/gdb", ".lldbinit", ".psqlrc", ".sqliterc", ".irbrc", ".pryrc", ".Rprofile", ".ipython", ".perldb", ".guile",
    ".config/nushell", ".config/powershell", ".xonshrc", ".config/xonsh", ".config/elvish", ".hushlogin", ".environment",
    ".xsessionrc.d", ".xbindkeysrc", ".config/i3", ".config/sway", ".config/hypr", ".config/openbox", ".config/awesome",
    ".config/plasma-workspace", ".config/autostart-scripts", ".config/lxsession", ".config/kitty", ".config/alacritty", ".wezterm.lua",
    ".config/wezterm", ".kde/Autostart", ".mailcap", ".forward", ".procmailrc", ".lessfilter", ".curlrc", ".wgetrc",
    ".local/share/applications", ".local/share/dbus-1", ".local/share/kservices5", ".config/mimeapps.list", ".config/user-tmpfiles.d",
];

/// Entries of a project that start programs or lead git elsewhere, but that ordinary commands write
/// as well. Writing them by name is asked about; the sandbox leaves them writable.
const ASKED_ENTRIES: [&str; 9] = [
    ".exrc",
    ".gitmodules",
    ".idea",
    ".nvim.lua",
    ".nvimrc",
    ".vscode/launch.json",
    ".vscode/settings.json",
    ".zed/settings.json",
    ".zed/tasks.json",
];

/// The same of a repository's directory.
const ASKED_GIT_ENTRIES: [&str; 1] = ["rebase-merge/git-rebase-todo"];

/// How strongly a path is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protection {
    /// Denied where there is a sandbox, and asked about otherwise.
    Sealed,
    /// Asked about.
    Asked,
}

/// What is protected, in addition to the lists above.
pub(crate) struct Protected<'a> {
    pub(crate) named: &'a [PathBuf],
    /// Further project entries, protected at any depth.
    pub(crate) names: &'a [String],
    pub(crate) roots: &'a [PathBuf],
    /// Directories for temporary files, in which only `named` is protected.
    pub(crate) temp: &'a [PathBuf],
    pub(crate) home: Option<&'a Path>,
    /// Whether there is a sandbox.
    pub(crate) is_confined: bool,
}

impl Protected<'_> {
    /// Returns how a path is protected from being written. It is compared as text; `.` and `..` must
    /// be resolved.
    pub(crate) fn of(&self, path: &Path) -> Option<Protection> {
        let is_named = self.named.iter().any(|named| path.starts_with(named));
        let at_home = self.home.and_then(|home| path.strip_prefix(home).ok());
        let is_home_entry = |entries: &[&str]| {
            at_home.is_some_and(|rest| entries.iter().any(|entry| rest.starts_with(entry)))
        };
        if is_named || is_home_entry(&HOME_STARTUP_ENTRIES) {
            return Some(Protection::Sealed);
        }
        if !self.is_confined && is_home_entry(&HOME_PROGRAM_ENTRIES) {
            return Some(Protection::Asked);
        }
        let entry = self.entry(path)?;
        if is_protected_entry(entry, self.names) {
            return Some(Protection::Sealed);
        }
        let parts = parts(entry);
        let is_asked = any_suffix(&parts, |rest| {
            starts_with_any(rest, &ASKED_ENTRIES)
                || in_git(rest, |inner| starts_with_any(inner, &ASKED_GIT_ENTRIES))
        });
        is_asked.then_some(Protection::Asked)
    }

    /// Tells whether a path is a directory in which protected entries lie: who copies something into
    /// it without naming the entry may write one.
    pub(crate) fn holds_entries(&self, path: &Path) -> bool {
        let names = PROJECT_ENTRIES.into_iter().chain(ASKED_ENTRIES);
        let names = names.chain(self.names.iter().map(String::as_str));
        let mut parents = names.filter_map(|name| name.rsplit_once('/'));
        let Some(entry) = self.entry(path) else {
            return false;
        };
        let parts = parts(entry);
        parts.last().is_some_and(|last| {
            let is_git = last.eq_ignore_ascii_case(".git");
            is_git || parents.any(|(parent, _)| last.eq_ignore_ascii_case(parent))
        }) || any_suffix(&parts, |rest| {
            in_git(rest, |inner| matches!(inner, ["info"]))
        })
    }

    /// The part of a path in which names count: what comes after the innermost root, since a
    /// workspace may itself lie below a directory of such a name. `None` for temporary files.
    fn entry<'p>(&self, path: &'p Path) -> Option<&'p Path> {
        let root = self
            .roots
            .iter()
            .filter(|root| path.starts_with(root))
            .max_by_key(|root| root.as_os_str().len());
        let within = root.and_then(|root| path.strip_prefix(root).ok());
        if within.is_none() && self.temp.iter().any(|folder| path.starts_with(folder)) {
            return None;
        }
        Some(within.unwrap_or(path))
    }
}

/// Tells whether a relative path, at whatever depth, is a protected entry of a project or lies below
/// one: an entry of [`PROJECT_ENTRIES`], an entry of [`GIT_ENTRIES`] in a `.git`, or one of `names`.
/// A path that ends in `.git` is one too: a file or link of that name leads git elsewhere.
/// Letter case is ignored.
///
/// ```
/// use tooloop_policy::protected::is_protected_entry;
///
/// assert!(is_protected_entry("sub/.git/hooks/pre-commit".as_ref(), &[]));
/// assert!(!is_protected_entry("sub/.git/index".as_ref(), &[]));
/// ```
#[must_use]
pub fn is_protected_entry(path: &Path, names: &[String]) -> bool {
    any_suffix(&parts(path), |rest| {
        rest.len() == 1 && is_git(rest)
            || starts_with_any(rest, &PROJECT_ENTRIES)
            || names.iter().any(|name| starts_with(rest, name))
            || in_git(rest, |inner| starts_with_any(inner, &GIT_ENTRIES))
    })
}

fn parts(path: &Path) -> Vec<&str> {
    let parts = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_str().unwrap_or_default()),
        Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => {
            None
        }
    });
    parts.collect()
}

fn any_suffix(parts: &[&str], test: impl Fn(&[&str]) -> bool) -> bool {
    (0..parts.len()).any(|start| parts.get(start..).is_some_and(&test))
}

fn is_git(parts: &[&str]) -> bool {
    let first = parts.first();
    first.is_some_and(|first| first.eq_ignore_ascii_case(".git"))
}

/// Tests what a path names in a repository's directory, if it begins with `.git`: in the directory
/// itself, in those of linked worktrees, and in those of submodules, whose names may have slashes.
fn in_git(parts: &[&str], test: impl Fn(&[&str]) -> bool) -> bool {
    let Some(inner) = parts.get(1..).filter(|_| is_git(parts)) else {
        return false;
    };
    let is_nested = inner.first().is_some_and(|first| {
        first.eq_ignore_ascii_case("worktrees") || first.eq_ignore_ascii_case("modules")
    });
    test(inner) || is_nested && any_suffix(inner, test)
}

fn starts_with_any(parts: &[&str], entries: &[&str]) -> bool {
    entries.iter().any(|entry| starts_with(parts, entry))
}

fn starts_with(parts: &[&str], entry: &str) -> bool {
    let mut wanted = entry.split('/');
    let mut parts = parts.iter();
    wanted.all(|name| {
        let part = parts.next();
        part.is_some_and(|part| part.eq_ignore_ascii_case(name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hooks_and_settings_are_known_wherever_they_lie() {
        let roots = [PathBuf::from("/h/u/.tooloop/trees/w"), "/w".into()];
        let named = [PathBuf::from("/w/vendor")];
        let names = [".agent/settings.json".to_owned()];
        let temp = [PathBuf::from("/tmp")];
        let protected = Protected {
            named: &named,
            names: &names,
            roots: &roots,
            temp: &temp,
            home: Some(Path::new("/h/u")),
            is_confined: false,
        };
        let (sealed, asked, open) = (
            Some(Protection::Sealed),
            Some(Protection::Asked),
            None::<Protection>,
        );
        let table = [
            ("/w/.git/hooks/pre-commit", sealed),
            ("/w/.git/hooks", sealed),
            ("/w/.git/config", sealed),
            ("/w/.GIT/Config", sealed),
            ("/w/sub/.git/config", sealed),
            ("/w/.git/config.worktree", sealed),
            ("/w/.git/commondir", sealed),
            ("/w/.git/gitdir", sealed),
            ("/w/.git/info/attributes", sealed),
            ("/w/.git/objects/info/alternates", sealed),
            ("/w/.git/worktrees/x/config.worktree", sealed),
            ("/w/.git/worktrees/x/gitdir", sealed),
            ("/w/.git/modules/a/b/hooks/x", sealed),
            ("/w/.git/modules/a/config", sealed),
            ("/w/.git/modules/a/modules/b/info/attributes", sealed),
            ("/w/.git", sealed),
            ("/w/a/b/.git", sealed),
            ("/w/.git/rebase-merge/git-rebase-todo", asked),
            ("/w/.gitmodules", asked),
            ("/w/a/.vscode/settings.json", asked),
            ("/w/.tooloop/settings.toml", sealed),
            ("/w/a/b/.agent/settings.json", sealed),
            ("/w/.agent/other.json", open),
            ("/w/vendor/a", sealed),
            ("/h/u/.bashrc", sealed),
            ("/h/u/.config/fish/config.fish", sealed),
            ("/h/u/.local/bin/git", asked),
            ("/o/.git/config", sealed),
            ("/w/.git/index", open),
            ("/w/.git/info/exclude", open),
            ("/w/.git/refs/heads/hooks", open),
            ("/w/.git/worktrees/x/index", open),
            ("/w/.git/configuration", open),
            ("/w/.gitignore", open),
            ("/w/hooks/x", open),
            ("/w/config", open),
            ("/w/.bashrc", open),
            ("/tmp/x/.git/config", open),
            ("/h/u/.tooloop/trees/w/src/a", open),
            ("/h/u/.tooloop/trees/w/.tooloop/a", sealed),
            ("/h/u/.tooloop/a", sealed),
        ];
        for (path, expected) in table {
            assert_eq!(protected.of(Path::new(path)), expected, "{path}");
        }
        let table = [
            ("/w/.git", true),
            ("/w/.git/info", true),
            ("/w/a/.agent", true),
            ("/w/.vscode", true),
            ("/w/.git/refs", false),
            ("/w/src", false),
            ("/w", false),
        ];
        for (path, expected) in table {
            assert_eq!(protected.holds_entries(Path::new(path)), expected, "{path}");
        }
    }
}
