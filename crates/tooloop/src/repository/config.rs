//! Settings of a repository that may name a program.

/// Sections all of whose settings are data, but for those named in [`PROGRAMS`].
const DATA: &[&str] = &[
    "advice",
    "am",
    "apply",
    "author",
    "blame",
    "branch",
    "checkout",
    "clean",
    "clone",
    "color",
    "column",
    "commit",
    "committer",
    "core",
    "diff",
    "extensions",
    "feature",
    "fetch",
    "format",
    "fsck",
    "gc",
    "gitflow",
    "grep",
    "gui",
    "http",
    "i18n",
    "index",
    "init",
    "lfs",
    "log",
    "maintenance",
    "merge",
    "notes",
    "pack",
    "pull",
    "push",
    "rebase",
    "receive",
    "remote",
    "rerere",
    "stash",
    "status",
    "submodule",
    "svn-remote",
    "tag",
    "transfer",
    "url",
    "user",
    "versionsort",
    "worktree",
];

/// Parts of names of settings that name a program or lead to another file of settings.
const PROGRAMS: &[&str] = &[
    "agent",
    "askpass",
    "browser",
    "clean",
    "cmd",
    "command",
    "driver",
    "editor",
    "external",
    "fsmonitor",
    "gitproxy",
    "helper",
    "hook",
    "pager",
    "path",
    "process",
    "program",
    "receivepack",
    "smudge",
    "textconv",
    "uploadpack",
    "vcs",
    "viewer",
];

/// Returns the first setting of a configuration file that may name a program; `is_tree` checks
/// whether a path is the working tree that git would use anyway.
///
/// What is not understood counts as such a setting.
pub(super) fn risky_setting(text: &str, is_tree: impl Fn(&str) -> bool) -> Option<String> {
    let mut section = String::new();
    let mut lines = text.trim_start_matches('\u{feff}').lines();
    while let Some(line) = lines.next() {
        let mut rest = line.trim();
        if let Some(header) = rest.strip_prefix('[') {
            let Some(end) = header_end(header) else {
                return Some(line.trim().to_owned());
            };
            let name = header.get(..end).unwrap_or_default();
            let main = name.split(['.', ' ', '\t', '"']).next().unwrap_or_default();
            section = main.to_ascii_lowercase();
            if !DATA.contains(&section.as_str()) {
                return Some(name.to_owned());
            }
            // A setting may stand behind the name of its section.
            rest = header.get(end + 1..).unwrap_or_default().trim();
        }
        if rest.is_empty() || rest.starts_with(['#', ';']) {
            continue;
        }
        let (key, value) = rest.split_once('=').unwrap_or((rest, "true"));
        let key = key.trim().to_ascii_lowercase();
        let value = value.trim();
        let continues = rest.ends_with('\\');
        if continues {
            // The value goes on in the next lines, which are no settings of their own.
            while lines.next().is_some_and(|line| line.ends_with('\\')) {}
        }
        let is_plain =
            !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        if !is_plain || is_program(&section, &key, value, continues, &is_tree) {
            return Some(format!("{section}.{key}"));
        }
    }
    None
}

fn is_program(
    section: &str,
    key: &str,
    value: &str,
    continues: bool,
    is_tree: &impl Fn(&str) -> bool,
) -> bool {
    let is_switch = matches!(
        value.to_ascii_lowercase().as_str(),
        "" | "true" | "false" | "yes" | "no" | "on" | "off" | "0" | "1"
    );
    match (section, key) {
        // Without a program it means one that is part of git.
        ("core", "fsmonitor" | "usebuiltinfsmonitor") => !is_switch,
        ("core", "worktree") => continues || !is_tree(value.trim_matches('"')),
        ("core", "quotepath") => false,
        ("submodule", "update") => value.trim_matches('"').starts_with('!'),
        _ => PROGRAMS.iter().any(|part| key.contains(part)),
    }
}

/// Where the closing bracket of a section's name is.
fn header_end(header: &str) -> Option<usize> {
    let mut is_quoted = false;
    let mut is_escaped = false;
    for (at, c) in header.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            ']' if !is_quoted => return Some(at),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_settings_name_no_program() {
        let text = "# a comment\n[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = \
                    false\n\tlogallrefupdates = true\n\tfsmonitor = true\n\tworktree = ../w\n\
                    [remote \"origin\"]\n\turl = https://a.example/x.git\n\tfetch = \
                    +refs/heads/*:refs/remotes/origin/*\n[branch \"a]b\\\"c\"]\n\tremote = \
                    origin\n\tmerge = refs/heads/main\n[user]\n\tname = A \\\n B\n[commit] gpgsign = \
                    true\n[submodule \"x\"]\n\tactive = true\n\turl = ../x\n[pull]\n\trebase\n";
        assert_eq!(risky_setting(text, |tree| tree == "../w"), None);
    }

    #[test]
    fn settings_that_name_programs_are_found() {
        let table = [
            ("[core]\nfsmonitor = touch M; false", "core.fsmonitor"),
            ("[core] FSMonitor = x", "core.fsmonitor"),
            ("[core]\nworktree = /elsewhere", "core.worktree"),
            ("[core]\nhooksPath = h", "core.hookspath"),
            ("[core]\npager = x", "core.pager"),
            ("[core]\neditor = x", "core.editor"),
            ("[core]\nsshCommand = x", "core.sshcommand"),
            ("[core]\naskPass = x", "core.askpass"),
            ("[diff]\nexternal = x", "diff.external"),
            ("[diff \"d\"]\ntextconv = x", "diff.textconv"),
            ("[diff \"d\"]\ncommand = x", "diff.command"),
            ("[filter \"f\"]\nclean = x", "filter \"f\""),
            ("[pager]\nlog = x", "pager"),
            ("[gpg]\nprogram = x", "gpg"),
            ("[credential]\nhelper = x", "credential"),
            ("[alias]\nx = !y", "alias"),
            ("[include]\npath = x", "include"),
            (
                "[includeIf \"gitdir:x\"]\npath = x",
                "includeIf \"gitdir:x\"",
            ),
            ("[merge \"m\"]\ndriver = x", "merge.driver"),
            ("[remote \"r\"]\nuploadpack = x", "remote.uploadpack"),
            ("[submodule \"s\"]\nupdate = !x", "submodule.update"),
            ("[sequence]\neditor = x", "sequence"),
            ("[trailer \"t\"]\ncmd = x", "trailer \"t\""),
            ("[protocol \"ext\"]\nallow = always", "protocol \"ext\""),
            ("[user]\nname = a \\\n[x\n[core]\npager = x", "core.pager"),
            ("[core\npager = x", "[core"),
        ];
        for (text, expected) in table {
            assert_eq!(
                risky_setting(text, |_| false).as_deref(),
                Some(expected),
                "{text}"
            );
        }
    }
}
