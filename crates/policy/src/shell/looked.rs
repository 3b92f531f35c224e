//! What one command is known to do, by its program.

use std::{borrow::Cow, mem::take};

use super::{
    Command, Contact, Effects, Part, Subcommand, Touched, Unknown, Word,
    arguments::{Arguments, after},
    git,
    hosts::{Target, git_target, remote_host, url_host},
    programs::{GIT_REMOTE, GIT_VALUED, KNOWN, Known, REMOTES, Remote, Web, Writer, Written},
    read_only::is_short,
};

/// A command whose effects are looked for.
pub(super) struct Looked<'a> {
    pub(super) command: &'a Command,
    pub(super) part: Part,
    pub(super) effects: &'a mut Effects,
    /// Whether the program touches what is below the paths that it writes.
    pub(super) is_deep: bool,
}

/// Programs that write what they name and nothing below it.
const SHALLOW: &[&str] = &[
    "c++",
    "cc",
    "clang",
    "clang++",
    "curl",
    "dd",
    "fallocate",
    "g++",
    "gcc",
    "ld",
    "mkdir",
    "mkfifo",
    "mktemp",
    "openssl",
    "rmdir",
    "sed",
    "sort",
    "ssh-keygen",
    "tee",
    "touch",
    "truncate",
    "unlink",
    "wget",
    "zip",
];

impl<'a> Looked<'a> {
    fn arguments(&self) -> &'a [Word] {
        self.command.arguments()
    }

    pub(super) fn look(mut self) {
        let name = self.command.program().and_then(known_name);
        let Some((name, known)) = name.and_then(|name| KNOWN.get_key_value(name)) else {
            return;
        };
        let name = *name;
        self.is_deep = !SHALLOW.contains(&name);
        let arguments = self.command.arguments();
        let prints = matches!(
            arguments.first().and_then(Word::literal),
            Some("--version" | "--help" | "version" | "help")
        );
        if prints {
            return;
        }
        if is_outsider(known, arguments) {
            self.effects.outsiders.push(self.part);
        }
        for writer in &known.writers {
            self.writer(writer);
        }
        if let Some(web) = known.web {
            self.web(web);
        }
        if known.is_raw && !listens(name, arguments) {
            self.raw(name);
        }
        if known
            .remotes
            .iter()
            .any(|remote| needs_remote(remote, arguments))
        {
            self.contact(None, true);
        }
        match name {
            "dd" => self.dd(),
            "sed" | "perl" => self.in_place(),
            "tar" | "bsdtar" => self.tar(),
            "zip" => {
                let first = arguments.iter().find(|word| !word.may_be_option());
                if let Some(word) = first {
                    self.write(word.clone());
                }
            }
            "rsync" | "scp" => self.copies(),
            "python" | "python3" => self.python(),
            "cargo" => self.cargo(),
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
                is_deep: self.is_deep,
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
        let arguments = self.arguments();
        let read = Arguments::read(arguments, writer.valued, writer.long_valued, writer.outputs);
        let has_target = !read.outputs.is_empty();
        for word in read.outputs {
            self.write(word.into_owned());
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
                && remote_host(word).is_some();
            if is_written && !is_remote {
                self.write(word.clone());
            }
        }
    }

    fn web(&mut self, web: &Web) {
        let arguments = self.arguments();
        let named = ["--url"];
        let mut read = Arguments::read(arguments, web.valued, web.long_valued, &named);
        read.outputs
            .extend(take(&mut read.operands).into_iter().map(Cow::Borrowed));
        let mut found = false;
        for word in read.outputs {
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
        for word in self.arguments() {
            if let Some(rest) = after(word, "of=") {
                self.write(rest);
            }
        }
    }

    /// `sed -i` and `perl -i` write the files that they are given.
    fn in_place(&mut self) {
        let arguments = self.arguments();
        let mut is_in_place = false;
        let mut has_script = false;
        let mut operands = Vec::new();
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let text = word.prefix();
            if word.literal() == Some("--") {
                operands.extend(words.by_ref().cloned());
            } else if text.starts_with("--") {
                is_in_place |= text.starts_with("--in-place");
                has_script |= text.starts_with("--expression") || text.starts_with("--file");
            } else if let Some(letters) = text.strip_prefix('-').filter(|rest| !rest.is_empty()) {
                let mut letters = letters.chars();
                while let Some(letter) = letters.next() {
                    match letter {
                        // What follows is the suffix of a copy.
                        'i' => {
                            is_in_place = true;
                            break;
                        }
                        'e' | 'f' => {
                            has_script = true;
                            if letters.as_str().is_empty() {
                                words.next();
                            }
                            break;
                        }
                        _ => {}
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
        let arguments = self.arguments();
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
                    "index-file" => {
                        let value = after(word, "--index-file=")
                            .or_else(|| words.next().map(|w| w.1.clone()));
                        if let Some(value) = value {
                            self.write(value);
                        }
                    }
                    "one-top-level" => folder = after(word, "--one-top-level=").or(folder),
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
        let arguments = self.arguments();
        for word in arguments {
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

    /// Cargo writes beside the manifest that it is given.
    fn cargo(&mut self) {
        let named = ["--manifest-path"];
        for word in Arguments::read(self.arguments(), "pFjZ", &[], &named).outputs {
            self.write_below(Word::text(".."), Some(word.into_owned()));
        }
    }

    fn find(&mut self) {
        let arguments = self.arguments();
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
        let arguments = words.get(index + 1..).unwrap_or_default();
        // `-o` is something else for others.
        let outputs: &[&str] = match name {
            "archive" | "format-patch" | "bugreport" | "diagnose" | "index-pack" => {
                &["-o", "--output", "--output-directory"]
            }
            "clone" | "init" => &["--separate-git-dir"],
            _ => &["--output"],
        };
        let read = Arguments::read(arguments, "", GIT_VALUED, &[]);
        let written = Arguments::read(arguments, "", &[], outputs).outputs;
        let operands = read.operands;
        match name {
            "clone" if operands.len() > 1 => self.write_operand(&operands, 1, base.clone()),
            "init" => self.write_operand(&operands, 0, base.clone()),
            "worktree" if operands.first().and_then(|word| word.literal()) == Some("add") => {
                self.write_operand(&operands, 1, base.clone());
            }
            "bundle" => self.write_operand(&operands, 1, base.clone()),
            "restore" | "rm" | "mv" | "clean" => {
                for word in &operands {
                    self.write_below((*word).clone(), base.clone());
                }
            }
            "checkout" => {
                let paths = arguments
                    .iter()
                    .skip_while(|word| word.literal() != Some("--"));
                for word in paths.skip(1) {
                    self.write_below(word.clone(), base.clone());
                }
            }
            _ => {}
        }
        for word in written {
            self.write_below(word.into_owned(), base.clone());
        }
        if !git::is_known_to_read(name) {
            let globals = words.get(1..index).unwrap_or_default();
            let folders = ["--work-tree", "--git-dir"];
            for word in Arguments::read(globals, "cC", &[], &folders).outputs {
                self.write(word.into_owned());
            }
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
            _ => operands.first().copied(),
        };
        match target.map(git_target) {
            Some(Target::Here) => {}
            Some(Target::Web(host)) => self.contact(host, true),
            Some(Target::Shell(host)) => self.contact(Some(host), false),
            Some(Target::Unknown) | None => self.contact(None, true),
        }
    }

    fn write_operand(&mut self, operands: &[&Word], index: usize, base: Option<Word>) {
        if let Some(word) = operands.get(index) {
            self.write_below((*word).clone(), base);
        }
    }
}

/// The name by which a program is known: found by name, or in whatever folder from the root on.
fn known_name(program: &str) -> Option<&str> {
    let base = program.rsplit('/').next()?;
    (is_short(program) || program.starts_with('/')).then_some(base)
}

fn is_outsider(known: &Known, arguments: &[Word]) -> bool {
    let first = || {
        arguments
            .iter()
            .filter_map(Word::literal)
            .find(|text| !matches!(*text, "-y" | "-q" | "-qq" | "--yes" | "--quiet"))
    };
    known.outsiders.iter().any(|subcommands| {
        subcommands.is_empty() || first().is_some_and(|text| subcommands.contains(&text))
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

fn needs_remote(remote: &Remote, arguments: &[Word]) -> bool {
    let is_spared = arguments.iter().any(|word| {
        remote
            .unless
            .iter()
            .any(|option| word.literal() == Some(*option))
    });
    if is_spared {
        return false;
    }
    let words = arguments.iter().map(Word::prefix);
    let words = || words.clone().filter(|word| !word.starts_with(['-', '+']));
    if remote.subcommands.is_empty() {
        return !arguments.is_empty();
    }
    let Some(name) = remote.subcommands.iter().find(|wanted| {
        let mut given = words();
        wanted.split(' ').all(|wanted| given.next() == Some(wanted))
    }) else {
        return false;
    };
    let is_fetched = |word: &&str| !word.starts_with(['.', '/']);
    let named = words().filter(is_fetched).count();
    !remote.only_with_operands.contains(name) || named > name.split(' ').count()
}
