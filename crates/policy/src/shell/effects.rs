//! What a line is known to do: what it reads and writes, whom it talks to, what it leaves unknown.

use std::path::{Component, Path, PathBuf};

use super::{
    Analysis, Command, Direction, Nature, Piece, Subcommand, Unknown, Word, git,
    programs::{
        GIT_REMOTE, GIT_VALUED, OUTSIDERS, RAW, REMOTES, WEB, WRITERS, Web, Writer, Written,
    },
    read_only::is_short,
};

/// What a line is known to do. What is not in it may be done all the same.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Effects {
    /// What it reads by redirection.
    pub reads: Vec<Touched>,
    /// What it writes by redirection or because a known program is told to.
    pub writes: Vec<Touched>,
    /// Whom it talks to.
    pub contacts: Vec<Contact>,
    /// The parts of it that cannot work inside of a sandbox.
    pub outsiders: Vec<Part>,
    /// Whether it may do more than this.
    pub is_unknown: bool,
}

/// A part of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// The command of this index.
    Command(usize),
    /// The redirection of this index.
    Redirect(usize),
}

/// A path that a line names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touched {
    /// The part that touches it.
    pub part: Part,
    /// The path, as far as it is known.
    pub word: Word,
    /// The folder that it starts from, if the part itself names one.
    base: Option<Word>,
    place: Option<usize>,
}

/// A talk with another machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contact {
    /// The part that talks.
    pub part: Part,
    /// The host, if the line names it.
    pub host: Option<String>,
    /// Whether it goes through an HTTP proxy where one is set.
    pub obeys_proxy: bool,
}

/// A path that a line touches, as far as it can be told before it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resolved {
    pub(crate) path: PathBuf,
    /// Whether that is all of it, and not only the folder in which it begins.
    pub(crate) is_whole: bool,
}

impl Analysis {
    /// Tells what the line is known to do.
    #[must_use]
    pub fn effects(&self) -> Effects {
        let mut effects = Effects {
            is_unknown: self.problem.is_some(),
            ..Effects::default()
        };
        for (index, redirect) in self.redirects().iter().enumerate() {
            let part = Part::Redirect(index);
            if redirect.direction == Direction::Internal {
                continue;
            }
            if let Some(host) = socket(&redirect.target) {
                effects.contacts.push(Contact {
                    part,
                    host,
                    obeys_proxy: false,
                });
                continue;
            }
            let touched = Touched {
                part,
                word: redirect.target.clone(),
                base: None,
                place: redirect.place,
            };
            match redirect.direction {
                Direction::Read => effects.reads.push(touched),
                Direction::Write if !redirect.is_harmless() => effects.writes.push(touched),
                Direction::Write | Direction::Internal => {}
            }
        }
        for (index, command) in self.commands().iter().enumerate() {
            effects.is_unknown |= match command.nature {
                Nature::Plain => !self.command_is_read_only(command),
                Nature::Opaque(_) => true,
                Nature::Transparent | Nature::Launcher | Nature::Carrier => false,
            };
            if !command.words.is_empty() {
                Looked {
                    command,
                    part: Part::Command(index),
                    effects: &mut effects,
                }
                .look();
            }
        }
        effects
    }

    /// Where a path that the line names is. `None` where that is not known.
    pub(crate) fn resolve(
        &self,
        touched: &Touched,
        directory: Option<&Path>,
        home: Option<&Path>,
    ) -> Option<Resolved> {
        let start = || self.place(touched.place, directory, home);
        let from = || match &touched.base {
            None => start(),
            Some(base) => resolve_word(base, &start, home)
                .filter(|base| base.is_whole)
                .map(|base| base.path),
        };
        resolve_word(&touched.word, &from, home)
    }

    /// The folder that the line has gone to.
    fn place(
        &self,
        place: Option<usize>,
        directory: Option<&Path>,
        home: Option<&Path>,
    ) -> Option<PathBuf> {
        // A line may go on and on, so this is no recursion.
        let mut steps = Vec::new();
        let mut at = place;
        while let Some((before, word)) = at.and_then(|at| self.parts.places.get(at)) {
            steps.push(word);
            at = *before;
        }
        let mut folder = directory.map(Path::to_owned);
        for word in steps.into_iter().rev() {
            let from = || folder.clone();
            folder = resolve_word(word, &from, home)
                .filter(|found| found.is_whole)
                .map(|found| found.path);
        }
        folder
    }
}

/// Resolves a word as a path, as far as it is known.
fn resolve_word(
    word: &Word,
    from: &dyn Fn() -> Option<PathBuf>,
    home: Option<&Path>,
) -> Option<Resolved> {
    let (start, pieces) = match word.pieces.as_slice() {
        [Piece::Unknown(Unknown::Tilde), rest @ ..] => {
            let is_own = word.raw == "~" || word.raw.starts_with("~/");
            (Some(home.filter(|_| is_own)?.to_owned()), rest)
        }
        [Piece::Unknown(Unknown::Variable { .. }), rest @ ..] => {
            (Some(variable(word, from, home)?), rest)
        }
        pieces => (None, pieces),
    };
    let (text, is_whole) = match pieces {
        [] => ("", true),
        [Piece::Text(text)] => (text.as_str(), true),
        [Piece::Text(text), ..] => (
            text.rsplit_once('/').map_or("", |(folder, _)| folder),
            false,
        ),
        [Piece::Unknown(_), ..] => return None,
    };
    // A folder that is only known because nothing is, such as `/` of `/$x`, is none.
    if text.is_empty() && (start.is_none() || !is_whole) {
        return None;
    }
    let path = match start {
        Some(start) if text.is_empty() => start,
        // What follows a value directly is part of its name.
        Some(start) => start.join(text.strip_prefix('/')?),
        None if text.starts_with('/') => PathBuf::from(text),
        None => from()?.join(text),
    };
    let path = normal(&path);
    let is_deep = path.components().count() > 2;
    (is_whole || is_deep).then_some(Resolved { path, is_whole })
}

/// The value of the variable with which a word begins, if it is one that is known.
fn variable(
    word: &Word,
    from: &dyn Fn() -> Option<PathBuf>,
    home: Option<&Path>,
) -> Option<PathBuf> {
    let raw = word.raw.trim_start_matches('"').strip_prefix('$')?;
    let (name, rest) = match raw.strip_prefix('{') {
        Some(inner) => inner.split_once('}')?,
        None => {
            let end = raw
                .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
                .unwrap_or(raw.len());
            raw.split_at_checked(end)?
        }
    };
    let ends = rest.is_empty() || rest.starts_with(['/', '"']);
    match name {
        "HOME" if ends => home.map(Path::to_owned),
        "PWD" if ends => from(),
        _ => None,
    }
}

/// A path with `.` and `..` resolved as text.
pub(crate) fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            Component::RootDir | Component::Prefix(_) | Component::Normal(_) => {
                normal.push(component);
            }
        }
    }
    normal
}

/// The host of a name below `/dev/tcp` or `/dev/udp`.
fn socket(target: &Word) -> Option<Option<String>> {
    let known = target.prefix();
    let rest = known
        .strip_prefix("/dev/tcp/")
        .or_else(|| known.strip_prefix("/dev/udp/"))?;
    let host = rest.split_once('/').map(|(host, _)| host.to_owned());
    Some(host.filter(|host| !host.is_empty()))
}

/// A command whose effects are looked for.
struct Looked<'a> {
    command: &'a Command,
    part: Part,
    effects: &'a mut Effects,
}

impl Looked<'_> {
    fn look(mut self) {
        let Some(name) = self.command.program().and_then(known_name) else {
            return;
        };
        let arguments = self.command.arguments();
        let prints = matches!(
            arguments.first().and_then(Word::literal),
            Some("--version" | "--help" | "version" | "help")
        );
        if prints {
            return;
        }
        if is_outsider(name, arguments) {
            self.effects.outsiders.push(self.part);
        }
        for writer in WRITERS.iter().filter(|writer| writer.names.contains(&name)) {
            self.writer(writer);
        }
        if let Some(web) = WEB.iter().find(|web| web.names.contains(&name)) {
            self.web(web);
        }
        if RAW.contains(&name) && !listens(name, arguments) {
            self.raw(name);
        }
        if REMOTES
            .iter()
            .any(|remote| remote.names.contains(&name) && needs_remote(remote, arguments))
        {
            self.contact(None, true);
        }
        match name {
            "dd" => self.dd(),
            "sed" | "perl" => self.in_place(),
            "tar" | "bsdtar" => self.tar(),
            "zip" | "7z" | "sqlite3" => {
                let first = arguments.iter().find(|word| !word.may_be_option());
                if let Some(word) = first.filter(|_| name == "zip") {
                    self.write(word.clone());
                }
            }
            "rsync" | "scp" => self.copies(),
            "python" | "python3" => self.python(),
            "git" => self.git(),
            "find" => self.find(),
            _ => {}
        }
    }

    fn write(&mut self, word: Word) {
        self.write_below(word, None);
    }

    fn write_below(&mut self, word: Word, base: Option<Word>) {
        let is_device = word.literal().is_some_and(|text| {
            matches!(
                text,
                "/dev/null" | "/dev/stdout" | "/dev/stderr" | "/dev/tty" | "-"
            ) || text.starts_with("/dev/fd/")
        });
        if !is_device {
            self.effects.writes.push(Touched {
                part: self.part,
                word,
                base,
                place: self.command.place,
            });
        }
    }

    fn contact(&mut self, host: Option<String>, obeys_proxy: bool) {
        self.effects.contacts.push(Contact {
            part: self.part,
            host,
            obeys_proxy,
        });
    }

    fn writer(&mut self, writer: &Writer) {
        let arguments = self.command.arguments().to_vec();
        let read = Arguments::read(
            &arguments,
            writer.valued,
            writer.long_valued,
            writer.outputs,
        );
        let has_target = !read.outputs.is_empty();
        for word in read.outputs {
            self.write(word);
        }
        // A copy to another machine is no file here.
        let operands = read.operands;
        let count = operands.len();
        for (index, word) in operands.into_iter().enumerate() {
            let is_written = match writer.operands {
                Written::Nothing => false,
                Written::All => true,
                Written::After(skipped) => index >= skipped,
                Written::Last => !has_target && count > 1 && index + 1 == count,
            };
            let is_remote = writer
                .names
                .iter()
                .any(|name| matches!(*name, "scp" | "rsync"))
                && remote_host(&word).is_some();
            if is_written && !is_remote {
                self.write(word);
            }
        }
    }

    fn web(&mut self, web: &Web) {
        let arguments = self.command.arguments().to_vec();
        let named = ["--url"];
        let mut read = Arguments::read(&arguments, web.valued, web.long_valued, &named);
        read.operands.append(&mut read.outputs);
        let mut found = false;
        for word in read.operands {
            // Brackets and question marks of an address look like patterns.
            let is_pattern = word.unknowns().all(|unknown| unknown == Unknown::Glob);
            let raw = word.raw.trim_matches(['"', '\'']);
            let text = if is_pattern { raw } else { word.prefix() };
            let is_whole = is_pattern || word.literal().is_some();
            if text.starts_with("file:") {
                found = true;
                continue;
            }
            let host = match text.split_once("://") {
                Some((_, rest)) => url_host(rest, is_whole),
                None if web.bare => url_host(text, is_whole),
                None => continue,
            };
            found = true;
            self.contact(host, true);
        }
        if !found && !web.bare && !arguments.is_empty() {
            self.contact(None, true);
        }
    }

    fn raw(&mut self, name: &str) {
        let host = self
            .command
            .arguments()
            .iter()
            .find(|word| !word.may_be_option())
            .and_then(Word::literal)
            .map(|text| text.rsplit_once('@').map_or(text, |(_, host)| host))
            .filter(|_| {
                matches!(
                    name,
                    "ssh" | "sftp" | "telnet" | "ping" | "mosh" | "ftp" | "whois"
                )
            })
            .map(str::to_owned);
        self.contact(host, false);
    }

    fn dd(&mut self) {
        for word in self.command.arguments().to_vec() {
            if let Some(rest) = after(&word, "of=") {
                self.write(rest);
            }
        }
    }

    /// `sed -i` and `perl -i` write the files that they are given.
    fn in_place(&mut self) {
        let arguments = self.command.arguments().to_vec();
        let mut is_in_place = false;
        let mut has_script = false;
        let mut operands = Vec::new();
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let text = word.prefix();
            if text.starts_with("--") {
                is_in_place |= text.starts_with("--in-place");
                has_script |= text.starts_with("--expression") || text.starts_with("--file");
            } else if text.starts_with('-') && text.len() > 1 {
                // What follows an `i` is the suffix of a copy.
                let letters = text.trim_start_matches('-');
                let before = letters.split('i').next().unwrap_or_default();
                is_in_place |= letters.contains('i');
                if before.contains(['e', 'f', 'E']) || letters.ends_with(['e', 'f']) {
                    has_script |= !(before.contains('E') && !before.contains(['e', 'f']));
                    if letters.ends_with(['e', 'f']) {
                        words.next();
                    }
                }
            } else {
                operands.push(word.clone());
            }
        }
        if is_in_place {
            let skipped = usize::from(!has_script);
            for word in operands.into_iter().skip(skipped) {
                self.write(word);
            }
        }
    }

    fn tar(&mut self) {
        let arguments = self.command.arguments().to_vec();
        let mut archive = None;
        let mut folder = None;
        let (mut extracts, mut creates) = (false, false);
        let mut words = arguments.iter().enumerate();
        while let Some((index, word)) = words.next() {
            let text = word.prefix();
            if let Some(name) = text.strip_prefix("--") {
                match name.split('=').next().unwrap_or_default() {
                    "extract" | "get" => extracts = true,
                    "create" | "append" | "update" | "delete" => creates = true,
                    "file" => {
                        archive =
                            after(word, "--file=").or_else(|| words.next().map(|w| w.1.clone()));
                    }
                    "directory" => {
                        folder = after(word, "--directory=")
                            .or_else(|| words.next().map(|w| w.1.clone()));
                    }
                    _ => {}
                }
                continue;
            }
            let letters = match text.strip_prefix('-') {
                Some(letters) => letters,
                None if index == 0 => text,
                None => continue,
            };
            for (at, letter) in letters.char_indices() {
                match letter {
                    'x' => extracts = true,
                    'c' | 'r' | 'u' => creates = true,
                    'f' | 'C' => {
                        let rest = letters.get(at + 1..).unwrap_or_default();
                        let is_old = !text.starts_with('-');
                        let value = if rest.is_empty() || is_old {
                            words.next().map(|word| word.1.clone())
                        } else {
                            Some(Word::text(rest))
                        };
                        if letter == 'f' {
                            archive = value;
                        } else {
                            folder = value;
                        }
                        if !is_old {
                            break;
                        }
                    }
                    _ => {}
                }
            }
        }
        if creates && let Some(word) = archive {
            self.write(word);
        }
        if extracts {
            self.write(folder.unwrap_or_else(|| Word::text(".")));
        }
    }

    fn copies(&mut self) {
        let arguments = self.command.arguments().to_vec();
        for word in &arguments {
            if let Some(host) = remote_host(word) {
                self.contact(Some(host), false);
                return;
            }
        }
    }

    /// `python -m pip` is pip.
    fn python(&mut self) {
        let arguments = self.command.arguments();
        let [option, module, rest @ ..] = arguments else {
            return;
        };
        if option.literal() == Some("-m") && matches!(module.literal(), Some("pip" | "pip3")) {
            let fetches = REMOTES
                .iter()
                .any(|remote| remote.names.contains(&"pip") && needs_remote(remote, rest));
            if fetches {
                self.contact(None, true);
            }
        }
    }

    fn find(&mut self) {
        let arguments = self.command.arguments().to_vec();
        let deletes = arguments
            .iter()
            .any(|word| word.literal() == Some("-delete"));
        if deletes {
            let is_path = |word: &&Word| !word.prefix().starts_with(['-', '(', '!']);
            for word in arguments.iter().take_while(is_path) {
                self.write(word.clone());
            }
        }
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            if matches!(
                word.literal(),
                Some("-fprint" | "-fprint0" | "-fls" | "-fprintf")
            ) && let Some(file) = words.next()
            {
                self.write(file.clone());
            }
        }
    }

    fn git(&mut self) {
        let words = &self.command.words;
        let Subcommand::At { index, .. } = git::skip_globals(words) else {
            return;
        };
        let Some(name) = words.get(index).and_then(Word::literal) else {
            return;
        };
        let base = git::folder(words.get(1..index).unwrap_or_default());
        let arguments = words.get(index + 1..).unwrap_or_default().to_vec();
        let outputs = ["-o", "--output"];
        let read = Arguments::read(&arguments, "", GIT_VALUED, &[]);
        let written = Arguments::read(&arguments, "", &[], &outputs).outputs;
        let operands = read.operands;
        match name {
            "clone" if operands.len() > 1 => self.write_operand(&operands, 1, base.clone()),
            "init" => self.write_operand(&operands, 0, base.clone()),
            "worktree" if operands.first().and_then(Word::literal) == Some("add") => {
                self.write_operand(&operands, 1, base.clone());
            }
            "bundle" => self.write_operand(&operands, 1, base.clone()),
            "archive" | "format-patch" | "log" | "diff" | "show" => {
                for word in written {
                    self.write_below(word, base.clone());
                }
            }
            _ => {}
        }
        let is_elsewhere = base.is_some() || self.command.place.is_some();
        if is_elsewhere && !git::is_known_to_read(name) && name != "clone" && name != "init" {
            self.write_below(base.clone().unwrap_or_else(|| Word::text(".")), None);
        }
        let talks = GIT_REMOTE.iter().any(|(known, wanted)| {
            let speaks = |word: &Word| {
                wanted
                    .iter()
                    .any(|wanted| word.prefix().starts_with(wanted))
            };
            *known == name && (wanted.is_empty() || arguments.iter().any(speaks))
        });
        if !talks {
            return;
        }
        let target = match name {
            "submodule" | "remote" | "lfs" | "archive" | "svn" => None,
            _ => operands.first(),
        };
        match target.map(git_target) {
            Some(Target::Here) => {}
            Some(Target::Web(host)) => self.contact(host, true),
            Some(Target::Shell(host)) => self.contact(Some(host), false),
            Some(Target::Unknown) | None => self.contact(None, true),
        }
    }

    fn write_operand(&mut self, operands: &[Word], index: usize, base: Option<Word>) {
        if let Some(word) = operands.get(index) {
            self.write_below(word.clone(), base);
        }
    }
}

/// What a remote of git is.
enum Target {
    /// A folder of this machine.
    Here,
    /// Something on the web.
    Web(Option<String>),
    /// Something behind `ssh`, or another way of its own.
    Shell(String),
    /// Only the settings of the repository say it.
    Unknown,
}

fn git_target(word: &Word) -> Target {
    let text = word.prefix();
    let is_whole = word.literal().is_some();
    match text.split_once("://") {
        Some(("file", _)) => Target::Here,
        Some(("http" | "https", rest)) => Target::Web(url_host(rest, is_whole)),
        Some((_, rest)) => url_host(rest, is_whole).map_or(Target::Unknown, Target::Shell),
        None if text.starts_with(['/', '.', '~']) => Target::Here,
        None => remote_host(word).map_or(Target::Unknown, Target::Shell),
    }
}

/// The host of an address without its scheme.
fn url_host(rest: &str, is_whole: bool) -> Option<String> {
    let end = rest.find(['/', '?', '#']);
    if end.is_none() && !is_whole {
        return None;
    }
    let authority = rest.get(..end.unwrap_or(rest.len()))?;
    let host = authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host);
    let host = match host.strip_prefix('[') {
        Some(inner) => inner.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let is_name = !host.is_empty()
        && host
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-._:".contains(c));
    is_name.then(|| host.trim_end_matches('.').to_ascii_lowercase())
}

/// The host of `user@host:path` or `host:path`.
fn remote_host(word: &Word) -> Option<String> {
    let text = word.prefix();
    let (host, _) = text.split_once(':')?;
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let is_name = !host.is_empty()
        && host
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-._".contains(c));
    is_name.then(|| host.to_ascii_lowercase())
}

/// Names for this machine itself.
pub(crate) fn is_this_machine(host: &str) -> bool {
    host == "localhost"
        || host.ends_with(".localhost")
        || host == "::1"
        || host.starts_with("127.")
        || host == "0.0.0.0"
}

/// The name by which a program is known: found by name, or in whatever folder from the root on.
fn known_name(program: &str) -> Option<&str> {
    let base = program.rsplit('/').next()?;
    (is_short(program) || program.starts_with('/')).then_some(base)
}

fn is_outsider(name: &str, arguments: &[Word]) -> bool {
    let first = || {
        arguments
            .iter()
            .filter_map(Word::literal)
            .find(|text| !matches!(*text, "-y" | "-q" | "-qq" | "--yes" | "--quiet"))
    };
    OUTSIDERS.iter().any(|(names, subcommands)| {
        names.contains(&name)
            && (subcommands.is_empty() || first().is_some_and(|text| subcommands.contains(&text)))
    })
}

fn listens(name: &str, arguments: &[Word]) -> bool {
    matches!(name, "nc" | "ncat" | "netcat")
        && arguments.iter().any(|word| {
            let text = word.prefix();
            text.starts_with("--listen")
                || (text.starts_with('-') && !text.starts_with("--") && text.contains('l'))
        })
        || (name == "ssh" && matches!(arguments.first().and_then(Word::literal), Some("-V")))
}

fn needs_remote(remote: &super::programs::Remote, arguments: &[Word]) -> bool {
    let is_spared = arguments.iter().any(|word| {
        remote
            .unless
            .iter()
            .any(|option| word.literal() == Some(*option))
    });
    if is_spared {
        return false;
    }
    let operands: Vec<&Word> = arguments
        .iter()
        .filter(|word| !word.prefix().starts_with(['-', '+']))
        .collect();
    let words: Vec<&str> = operands.iter().map(|word| word.prefix()).collect();
    if remote.subcommands.is_empty() {
        return !arguments.is_empty();
    }
    let Some(name) = remote.subcommands.iter().find(|wanted| {
        let wanted: Vec<&str> = wanted.split(' ').collect();
        words.starts_with(&wanted)
    }) else {
        return false;
    };
    let is_fetched = |word: &&&str| !word.starts_with(['.', '/']);
    let named = words.iter().filter(is_fetched).count();
    !remote.only_with_operands.contains(name) || named > name.split(' ').count()
}

/// A word without its known beginning.
fn after(word: &Word, beginning: &str) -> Option<Word> {
    let rest = word.prefix().strip_prefix(beginning)?;
    let mut pieces = word.pieces.clone();
    match pieces.first_mut() {
        Some(Piece::Text(text)) if rest.is_empty() => {
            text.clear();
            pieces.remove(0);
        }
        Some(Piece::Text(text)) => *text = rest.to_owned(),
        Some(Piece::Unknown(_)) | None => {}
    }
    let raw = word.raw.strip_prefix(beginning).unwrap_or(&word.raw);
    Some(Word {
        raw: raw.to_owned(),
        pieces,
    })
}

/// The words after a program, told apart.
struct Arguments {
    operands: Vec<Word>,
    /// The values of the options that were looked for.
    outputs: Vec<Word>,
}

impl Arguments {
    fn read(words: &[Word], valued: &str, long_valued: &[&str], outputs: &[&str]) -> Self {
        let mut found = Self {
            operands: Vec::new(),
            outputs: Vec::new(),
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let text = word.prefix();
            if text == "--" && word.literal().is_some() {
                found.operands.extend(words.cloned());
                break;
            }
            if !text.starts_with('-') || text.len() < 2 {
                found.operands.push(word.clone());
                continue;
            }
            if word.literal().is_some_and(|text| outputs.contains(&text)) {
                found.outputs.extend(words.next().cloned());
                continue;
            }
            if text.starts_with("--") {
                let name = text.split('=').next().unwrap_or_default();
                if name.len() < text.len() {
                    let value = outputs
                        .contains(&name)
                        .then(|| after(word, &format!("{name}=")));
                    found.outputs.extend(value.flatten());
                } else if long_valued.contains(&name) {
                    words.next();
                }
                continue;
            }
            if long_valued.contains(&text) {
                words.next();
                continue;
            }
            for (at, letter) in text.char_indices().skip(1) {
                let option = format!("-{letter}");
                let is_output = outputs.contains(&option.as_str());
                if !is_output && !valued.contains(letter) {
                    continue;
                }
                let is_last = text.len() == at + letter.len_utf8() && word.literal().is_some();
                let value = if is_last {
                    words.next().cloned()
                } else {
                    text.get(..at + letter.len_utf8())
                        .and_then(|before| after(word, before))
                };
                if is_output {
                    found.outputs.extend(value);
                }
                break;
            }
        }
        found
    }
}
