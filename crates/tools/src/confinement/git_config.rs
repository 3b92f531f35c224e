//! The configuration of a repository without what names programs.
//!
//! What is known to name none is kept, and nothing else: a setting that a future git runs is then
//! removed too.

/// What of a configuration is kept, and what was removed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cleaned {
    pub(super) text: String,
    /// The names of settings, such as `core.fsmonitor`.
    pub(super) removed: Vec<String>,
}

/// Sections whose settings name no program, but for those below.
const SECTIONS: [&str; 31] = [
    "advice",
    "apply",
    "blame",
    "branch",
    "checkout",
    "clean",
    "color",
    "column",
    "commit",
    "diff",
    "extensions",
    "feature",
    "fetch",
    "format",
    "gc",
    "grep",
    "http",
    "i18n",
    "index",
    "init",
    "log",
    "merge",
    "pack",
    "pull",
    "push",
    "rebase",
    "remote",
    "rerere",
    "status",
    "submodule",
    "tag",
];

/// Settings of `core` that are kept.
const CORE: [&str; 19] = [
    "abbrev",
    "autocrlf",
    "bare",
    "bigfilethreshold",
    "checkstat",
    "compression",
    "eol",
    "filemode",
    "ignorecase",
    "logallrefupdates",
    "precomposeunicode",
    "preloadindex",
    "protecthfs",
    "quotepath",
    "repositoryformatversion",
    "safecrlf",
    "sharedrepository",
    "sparsecheckout",
    "sparsecheckoutcone",
];

/// Further settings that are kept.
const OTHERS: [(&str, &str); 10] = [
    ("core", "symlinks"),
    ("core", "trustctime"),
    ("core", "untrackedcache"),
    ("core", "whitespace"),
    ("core", "worktree"),
    ("core", "longpaths"),
    ("lfs", "repositoryformatversion"),
    ("lfs", "url"),
    ("user", "email"),
    ("user", "name"),
];

/// Settings of the sections above that name programs, or where programs are; at the end of a name.
const PROGRAMS: [&str; 16] = [
    "command",
    "driver",
    "external",
    "guitool",
    "hook",
    "mergeoptions",
    "program",
    "receivepack",
    "sshcommand",
    "templatedir",
    "textconv",
    "tool",
    "uploadpack",
    "vcs",
    "path",
    "cmd",
];

/// Removes from a configuration what is not known to be harmless. `None`: there is no such thing.
pub(super) fn clean(text: &str) -> Option<Cleaned> {
    let (settings, is_whole) = parse(text);
    let mut removed: Vec<String> = Vec::new();
    let mut kept = String::new();
    let mut header = None;
    for setting in &settings {
        if !is_kept(setting) {
            let name = setting.name();
            if !removed.contains(&name) {
                removed.push(name);
            }
            continue;
        }
        if header != Some((&setting.section, &setting.subsection)) {
            header = Some((&setting.section, &setting.subsection));
            kept.push_str(&setting.header());
        }
        kept.push('\t');
        kept.push_str(&setting.key);
        if let Some(value) = setting.value {
            kept.push_str(" = ");
            kept.push_str(value.trim());
        }
        kept.push('\n');
    }
    if !is_whole {
        removed.push("what could not be read".into());
    }
    (!removed.is_empty()).then_some(Cleaned {
        text: kept,
        removed,
    })
}

fn is_kept(setting: &Setting<'_>) -> bool {
    let (section, key) = (setting.section.as_str(), setting.key.as_str());
    let value = setting.value.unwrap_or_default().trim();
    let value = value.trim_start_matches('"');
    if section == "core" && CORE.contains(&key) || OTHERS.contains(&(section, key)) {
        return true;
    }
    if !SECTIONS.contains(&section) || PROGRAMS.iter().any(|end| key.ends_with(end)) {
        return false;
    }
    // A command of a submodule's update, and a transport that is a program.
    let transport = value.split_once("::").map(|(name, _)| name);
    let is_name =
        |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    !(value.starts_with('!') || transport.is_some_and(is_name))
}

#[derive(Debug)]
struct Setting<'a> {
    section: String,
    subsection: Option<String>,
    key: String,
    /// As it stands there.
    value: Option<&'a str>,
}

impl Setting<'_> {
    fn name(&self) -> String {
        let Self { section, key, .. } = self;
        match &self.subsection {
            Some(subsection) => format!("{section}.{subsection}.{key}"),
            None => format!("{section}.{key}"),
        }
    }

    fn header(&self) -> String {
        let section = &self.section;
        match &self.subsection {
            Some(subsection) => {
                let subsection = subsection.replace('\\', "\\\\").replace('"', "\\\"");
                format!("[{section} \"{subsection}\"]\n")
            }
            None => format!("[{section}]\n"),
        }
    }
}

/// The settings up to the end, or to what git would not read either.
fn parse(text: &str) -> (Vec<Setting<'_>>, bool) {
    let mut settings = Vec::new();
    let mut rest = text.trim_start_matches('\u{feff}');
    let mut section: Option<(String, Option<String>)> = None;
    loop {
        rest = rest.trim_start();
        let Some(first) = rest.chars().next() else {
            return (settings, true);
        };
        if matches!(first, '#' | ';') {
            rest = rest.split_once('\n').map_or("", |(_, rest)| rest);
        } else if first == '[' {
            let Some((name, after)) = header(rest) else {
                return (settings, false);
            };
            (section, rest) = (Some(name), after);
        } else {
            let Some((section, subsection)) = section.clone() else {
                return (settings, false);
            };
            let is_key = |c: char| c.is_ascii_alphanumeric() || c == '-';
            let end = rest.find(|c| !is_key(c)).unwrap_or(rest.len());
            let (key, after) = rest.split_at(end);
            if key.is_empty() {
                return (settings, false);
            }
            let after = after.trim_start_matches([' ', '\t']);
            let (value, after) = match after.strip_prefix('=') {
                Some(after) => match value(after) {
                    Some((value, after)) => (Some(value), after),
                    None => return (settings, false),
                },
                None => {
                    let (line, after) = after.split_once('\n').unwrap_or((after, ""));
                    let line = line.trim();
                    if !(line.is_empty() || line.starts_with(['#', ';'])) {
                        return (settings, false);
                    }
                    (None, after)
                }
            };
            settings.push(Setting {
                section,
                subsection,
                key: key.to_ascii_lowercase(),
                value,
            });
            rest = after;
        }
    }
}

/// Reads `[name "sub"]`.
fn header(text: &str) -> Option<((String, Option<String>), &str)> {
    let text = text.strip_prefix('[')?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    let end = text.find(|c| !is_name(c))?;
    let (name, rest) = text.split_at(end);
    let name = name.to_ascii_lowercase();
    if let Some(rest) = rest.strip_prefix(']') {
        return Some(match name.split_once('.') {
            Some((name, subsection)) => ((name.to_owned(), Some(subsection.to_owned())), rest),
            None => ((name, None), rest),
        });
    }
    let rest = rest.trim_start_matches([' ', '\t']).strip_prefix('"')?;
    let mut subsection = String::new();
    let mut characters = rest.char_indices();
    while let Some((place, character)) = characters.next() {
        match character {
            '"' => {
                let rest = rest.get(place + 1..)?.strip_prefix(']')?;
                return Some(((name, Some(subsection)), rest));
            }
            '\\' => subsection.push(characters.next()?.1),
            '\n' => return None,
            character => subsection.push(character),
        }
    }
    None
}

/// Reads a value up to the end of its line, and of those that continue it.
fn value(text: &str) -> Option<(&str, &str)> {
    let mut is_quoted = false;
    let mut is_comment = false;
    let mut characters = text.char_indices();
    while let Some((place, character)) = characters.next() {
        match character {
            '\n' if is_quoted => return None,
            '\n' => return Some((text.get(..place)?, text.get(place + 1..)?)),
            _ if is_comment => {}
            '\\' => {
                // A carriage return may come before the end of the line.
                if let Some((place, '\r')) = characters.next()
                    && text.get(place + 1..)?.starts_with('\n')
                {
                    characters.next();
                }
            }
            '"' => is_quoted = !is_quoted,
            '#' | ';' if !is_quoted => is_comment = true,
            _ => {}
        }
    }
    (!is_quoted).then_some((text, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_configuration_stays_as_it_is() {
        for text in [
            "",
            "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n",
            "[remote \"origin\"]\n\turl = https://example.com/a.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n",
            "[core]\n\tworktree = ../../../lib/m\n[submodule \"a\"]\n\tactive = true\n",
            "# words\n[extensions]\n objectformat = sha256 ; words\n",
            "[core] bare\n",
        ] {
            assert_eq!(clean(text), None, "{text}");
        }
    }

    #[test]
    fn what_names_a_program_is_removed() {
        for (text, names) in [
            ("[core]\n\tfsmonitor = touch x; false\n", "core.fsmonitor"),
            ("[core]fsmonitor=x", "core.fsmonitor"),
            ("[CORE]\n\tFsMonitor = \"x\"\n", "core.fsmonitor"),
            (
                "[core]\n\thooksPath = h\n\tpager = p\n",
                "core.hookspath core.pager",
            ),
            ("[core]\n\tsshCommand\\\n = x\n", "what could not be read"),
            ("[core]\n\tbare = fa\\\nlse\n\teditor = x\n", "core.editor"),
            (
                "[core]\n\tbare = \"a\n\teditor = x\n",
                "what could not be read",
            ),
            ("[alias]\n\tst = !x\n", "alias.st"),
            ("[alias \"st\"]\n\tcommand = !x\n", "alias.st.command"),
            ("[include]\n\tpath = ../x\n", "include.path"),
            (
                "[includeIf \"gitdir:/\"]\n\tpath = ../x\n",
                "includeif.gitdir:/.path",
            ),
            (
                "[filter \"a\"]\n\tclean = x\n\trequired\n",
                "filter.a.clean filter.a.required",
            ),
            ("[filter.a]\n\tsmudge = x\n", "filter.a.smudge"),
            ("[diff]\n\texternal = x\n", "diff.external"),
            ("[diff \"a]\"]\n\ttextconv = x\n", "diff.a].textconv"),
            ("[diff \"a\\\"b\"]\n\tcommand = x\n", "diff.a\"b.command"),
            ("[merge \"a\"]\n\tdriver = x\n", "merge.a.driver"),
            ("[gpg]\n\tprogram = x\n", "gpg.program"),
            ("[credential]\n\thelper = x\n", "credential.helper"),
            ("[sequence]\n\teditor = x\n", "sequence.editor"),
            ("[pager]\n\tlog = x\n", "pager.log"),
            (
                "[protocol \"ext\"]\n\tallow = always\n",
                "protocol.ext.allow",
            ),
            ("[remote \"o\"]\n\turl = ext::sh -c x\n", "remote.o.url"),
            ("[remote \"o\"]\n\tuploadpack = x\n", "remote.o.uploadpack"),
            ("[submodule \"a\"]\n\tupdate = !x\n", "submodule.a.update"),
            ("[gc]\n\trecentObjectsHook = x\n", "gc.recentobjectshook"),
            ("[trailer \"a\"]\n\tcommand = x\n", "trailer.a.command"),
            ("[unknown]\n\tsetting = 1\n", "unknown.setting"),
        ] {
            let cleaned = clean(text).unwrap();
            assert_eq!(cleaned.removed.join(" "), names, "{text}");
            assert_eq!(clean(&cleaned.text), None, "{text}");
        }
    }

    #[test]
    fn what_is_kept_is_still_the_same() {
        let text =
            "[core]\n\tbare = false # no\n\tpager = x\n[remote \"a\\\\b\"]\n\turl = \"u v\"\n";
        let cleaned = clean(text).unwrap();
        assert_eq!(
            cleaned.text,
            "[core]\n\tbare = false # no\n[remote \"a\\\\b\"]\n\turl = \"u v\"\n"
        );
    }
}
