//! Paths that are never written from inside of a sandbox, whatever the rules allow.

use std::path::{Component, Path, PathBuf};

/// What a shell, or git, reads in the home folder when it starts.
const HOME_FILES: &[&str] = &[
    ".bash_aliases",
    ".bash_login",
    ".bash_logout",
    ".bash_profile",
    ".bashrc",
    ".config/fish",
    ".config/git/config",
    ".cshrc",
    ".gitconfig",
    ".inputrc",
    ".kshrc",
    ".login",
    ".mkshrc",
    ".pam_environment",
    ".profile",
    ".tcshrc",
    ".zlogin",
    ".zlogout",
    ".zprofile",
    ".zshenv",
    ".zshrc",
];

/// What is protected, beside what belongs to it always.
pub(crate) struct Protected<'a> {
    pub(crate) named: &'a [PathBuf],
    pub(crate) roots: &'a [PathBuf],
    /// Folders for what does not last, in which nothing is protected that is not named.
    pub(crate) temp: &'a [PathBuf],
    pub(crate) home: Option<&'a Path>,
}

impl Protected<'_> {
    /// Tells whether a path is protected. It is compared as text, `.` and `..` resolved.
    pub(crate) fn holds(&self, path: &Path) -> bool {
        if self.named.iter().any(|named| path.starts_with(named)) {
            return true;
        }
        let in_home = self.home.is_some_and(|home| {
            path.strip_prefix(home)
                .is_ok_and(|rest| HOME_FILES.iter().any(|file| rest.starts_with(file)))
        });
        if in_home {
            return true;
        }
        // The innermost root counts: a workspace may itself lie below a folder of such a name.
        let root = self
            .roots
            .iter()
            .filter(|root| path.starts_with(root))
            .max_by_key(|root| root.as_os_str().len());
        let within = root.and_then(|root| path.strip_prefix(root).ok());
        if within.is_none() && self.temp.iter().any(|folder| path.starts_with(folder)) {
            return false;
        }
        is_well_known(within.unwrap_or(path))
    }
}

/// Hooks and settings of a repository, at whatever depth, and our own settings.
fn is_well_known(path: &Path) -> bool {
    let parts: Vec<&str> = path
        .components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_str().unwrap_or_default()),
            Component::Prefix(_)
            | Component::RootDir
            | Component::CurDir
            | Component::ParentDir => None,
        })
        .collect();
    let is = |part: Option<&&str>, names: &[&str]| {
        part.is_some_and(|part| names.iter().any(|name| part.eq_ignore_ascii_case(name)))
    };
    let mut rest = parts.iter().enumerate();
    rest.any(|(index, part)| {
        if part.eq_ignore_ascii_case(".tooloop") {
            return true;
        }
        if !part.eq_ignore_ascii_case(".git") {
            return false;
        }
        let next = parts.get(index + 1);
        if is(next, &["hooks", "config", "config.worktree"]) {
            return true;
        }
        let deeper = parts.get(index + 2..).unwrap_or_default();
        is(next, &["modules"])
            && deeper
                .iter()
                .any(|part| is(Some(part), &["hooks", "config"]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hooks_and_settings_are_known_wherever_they_lie() {
        let roots = [PathBuf::from("/h/u/.tooloop/trees/w"), "/w".into()];
        let named = [PathBuf::from("/w/vendor")];
        let temp = [PathBuf::from("/tmp")];
        let protected = Protected {
            named: &named,
            roots: &roots,
            temp: &temp,
            home: Some(Path::new("/h/u")),
        };
        let table = [
            ("/w/.git/hooks/pre-commit", true),
            ("/w/.git/hooks", true),
            ("/w/.git/config", true),
            ("/w/.GIT/Config", true),
            ("/w/sub/.git/config", true),
            ("/w/.git/modules/a/b/hooks/x", true),
            ("/w/.tooloop/settings.toml", true),
            ("/w/vendor/a", true),
            ("/h/u/.bashrc", true),
            ("/h/u/.config/fish/config.fish", true),
            ("/o/.git/config", true),
            ("/w/.git/index", false),
            ("/w/.git/refs/heads/hooks", false),
            ("/w/.git/configuration", false),
            ("/w/.gitignore", false),
            ("/w/.git", false),
            ("/w/hooks/x", false),
            ("/w/.bashrc", false),
            ("/tmp/x/.git/config", false),
            ("/h/u/.tooloop/trees/w/src/a", false),
            ("/h/u/.tooloop/trees/w/.tooloop/a", true),
            ("/h/u/.tooloop/a", true),
        ];
        for (path, expected) in table {
            assert_eq!(protected.holds(Path::new(path)), expected, "{path}");
        }
    }
}
