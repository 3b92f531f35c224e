//! Random shell lines by a grammar: all that the analysis claims to see through, and some noise.
//!
//! Whatever comes of it must be fit to be run: programs are stubs, paths lead nowhere else, no
//! function calls itself, each loop ends.

/// A generator of numbers that are the same for the same seed.
#[derive(Clone, Debug)]
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, count: usize) -> usize {
        usize::try_from(self.next() % (count as u64)).unwrap()
    }

    pub(crate) fn chance(&mut self, of: usize) -> bool {
        self.below(of) == 0
    }

    pub(crate) fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }
}

/// Stubs that write down that they ran.
pub(crate) const LEAVES: &[&str] = &[
    "git", "ls", "rm", "touch", "make", "grep", "c1", "c2", "c3", "tee", "head", "sort",
];

/// What a leaf is called with.
const COMMANDS: &[&str] = &[
    "git push",
    "git push origin",
    "git log",
    "git log -n 1",
    "git status",
    "git commit -m 'git push'",
    "git -C . push",
    "git -C sub log",
    "git --no-pager push",
    "git -c a.b=c push",
    "git -P log",
    "ls",
    "ls -l",
    "ls sub",
    "rm f1",
    "rm -f f2",
    "touch M",
    "make",
    "make test",
    "grep -n a f1",
    "c1",
    "c1 a",
    "c2 'b c'",
    "c3",
    "tee M",
    "head -n 1",
    "sort -o M f1",
    "sort f1",
];

/// Texts that a word may become.
const TEXTS: &[&str] = &[
    "push", "log", "git", "a", "f1", "-n", "rm", "touch", "M", "c1", "c3", "git push", "touch M",
    "-exec", "status", "sub",
];

pub(crate) struct Generator<'a> {
    pub(crate) numbers: &'a mut Numbers,
    /// The folder of the stubs.
    pub(crate) bin: &'a str,
    /// Functions that may be called.
    functions: Vec<&'static str>,
    /// Programs whose names are those of functions being defined.
    closed: Vec<&'static str>,
    documents: usize,
}

impl<'a> Generator<'a> {
    pub(crate) fn new(numbers: &'a mut Numbers, bin: &'a str) -> Self {
        Self {
            numbers,
            bin,
            functions: Vec::new(),
            closed: Vec::new(),
            documents: 0,
        }
    }

    pub(crate) fn line(&mut self) -> String {
        let depth = 1 + self.numbers.below(4);
        let mut line = self.list(depth);
        // Noise, but not where a path could become another one.
        if self.numbers.chance(8) && !line.contains('/') {
            for _ in 0..=self.numbers.below(3) {
                let at = self.numbers.below(line.len() + 1);
                if line.is_char_boundary(at) {
                    let noise = [
                        ";", "|", "&", "(", ")", "{", "}", "<", ">", "$", "`", "'", "\"", "\\",
                        "#", " ", "\n", "!", "=", "*", "\\\n", "~", "$(", "${", "[", "]", "\t",
                        "-",
                    ];
                    line.insert_str(at, self.numbers.pick(&noise));
                }
            }
        }
        // A shell drops these before it looks for words and operators.
        if self.numbers.chance(8) {
            for _ in 0..=self.numbers.below(2) {
                let at = self.numbers.below(line.len() + 1);
                if line.is_char_boundary(at) {
                    line.insert_str(at, "\\\n");
                }
            }
        }
        line
    }

    fn list(&mut self, depth: usize) -> String {
        let mut line = self.pipeline(depth);
        for _ in 0..self.numbers.below(3) {
            let between = self
                .numbers
                .pick(&["; ", " && ", " || ", "\n", " & ", ";", "&&"]);
            line = self.join(&line, between, depth);
        }
        line
    }

    /// Here-documents take the rest of their line, so only a line end may follow one.
    fn join(&mut self, line: &str, between: &str, depth: usize) -> String {
        let next = self.pipeline(depth);
        let between = if ends_with_document(line) {
            "\n"
        } else {
            between
        };
        format!("{line}{between}{next}")
    }

    fn pipeline(&mut self, depth: usize) -> String {
        let mut line = match self.numbers.below(16) {
            0 => format!("! {}", self.command(depth)),
            1 => format!("time {}", self.command(depth)),
            _ => self.command(depth),
        };
        while self.numbers.chance(5) && !ends_with_document(&line) {
            let pipe = self.numbers.pick(&[" | ", "|", " |& ", " |\n"]);
            line = format!("{line}{pipe}{}", self.command(depth));
        }
        line
    }

    fn command(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.simple(0);
        }
        let inner = depth - 1;
        let line = match self.numbers.below(30) {
            0 => format!("({})", self.closed_list(inner)),
            1 => format!("{{ {}\n}}", self.closed_list(inner)),
            2 => format!(
                "if {}\nthen {}\nelse {}\nfi",
                self.closed_list(inner),
                self.closed_list(inner),
                self.closed_list(inner)
            ),
            3 => format!(
                "for x in {} {}; do {}\ndone",
                self.word(inner),
                self.word(inner),
                self.closed_list(inner)
            ),
            4 => format!(
                "{} {}\ndo {}\nbreak\ndone",
                self.numbers.pick(&["while", "until"]),
                self.closed_list(inner),
                self.closed_list(inner)
            ),
            5 => format!(
                "case {} in {}) {}\n;; *) {}\nesac",
                self.word(inner),
                self.numbers.pick(&["push", "a|b", "(*", "'x'"]),
                self.closed_list(inner),
                self.closed_list(inner)
            ),
            6 => self.function(inner),
            7..=13 => self.wrapper(inner),
            14 => self.evaluation(inner),
            15 => self.variable(inner),
            16 => self.test(inner),
            _ => self.simple(inner),
        };
        if self.numbers.chance(12) && !ends_with_document(&line) {
            format!("{line} {}", self.redirect(inner))
        } else {
            line
        }
    }

    /// A list with its here-documents ended, so that anything may follow.
    fn closed_list(&mut self, depth: usize) -> String {
        let list = self.list(depth);
        if ends_with_document(&list) {
            format!("{list}\n:")
        } else {
            list
        }
    }

    fn function(&mut self, depth: usize) -> String {
        let names = ["f1", "g1", "h1", "git", "c1", "ls"];
        let name = names[self.numbers.below(names.len())];
        if self.closed.contains(&name) {
            return self.simple(depth);
        }
        let open = std::mem::take(&mut self.functions);
        self.closed.push(name);
        let body = self.closed_list(depth);
        self.closed.pop();
        self.functions = open;
        self.functions.push(name);
        let call = self.word(0);
        match self.numbers.below(4) {
            0 => format!("{name}() {{ {body}\n}}; {name} {call}"),
            1 => format!("{name} () ( {body}\n); {name}"),
            2 => format!("function {name} {{ {body}\n}}; {name} {call}"),
            _ => format!("{name}() {{ {body}\n}}\n{name}"),
        }
    }

    fn variable(&mut self, depth: usize) -> String {
        let value = self.value(depth);
        let leaf = self.leaf();
        match self.numbers.below(14) {
            0 => format!("x={value}; git $x"),
            1 => format!("x={value}; $x push"),
            2 => format!("x={value} {leaf}"),
            3 => format!("x={value}; \"$x\""),
            4 => format!("export x={value}; {leaf}"),
            5 => format!("a=({} {}); \"${{a[@]}}\"", self.word(0), self.word(0)),
            6 => format!("set -- {}; git \"$@\"", self.word(0)),
            7 => format!("x={value}; git ${{x:-log}}"),
            8 => format!("git ${{y:-{}}}", self.word(0)),
            9 => format!("x={value}; {leaf} \"$x\" '$x'"),
            10 => format!("read x <<< {value}; git $x"),
            11 => format!("local x={value}; {leaf}"),
            12 => format!("x={value}; y=x; git ${{!y}}"),
            _ => format!("x=git; x+={value}; $x"),
        }
    }

    fn value(&mut self, depth: usize) -> String {
        match self.numbers.below(7) {
            0 => format!("'{}'", self.numbers.pick(TEXTS)),
            1 => format!("\"{}\"", self.numbers.pick(TEXTS)),
            2 if depth > 0 => format!("$({})", self.closed_list(depth - 1)),
            3 => "'a[$(git push)]'".to_owned(),
            _ => self
                .numbers
                .pick(&["push", "log", "git", "a", "status", "c1"])
                .to_owned(),
        }
    }

    fn test(&mut self, depth: usize) -> String {
        let word = self.word(depth);
        match self.numbers.below(8) {
            0 => format!("[ -f {word} ]"),
            1 => format!("[[ {word} == a* ]]"),
            2 => format!("[[ -n {word} && {word} != b ]]"),
            3 => "x='a[$(git push)]'; [[ $x -eq 1 ]]".to_owned(),
            4 => "x='a[$(git push)]'; echo $((x))".to_owned(),
            5 => format!("test {word}"),
            6 => "[[ ab =~ ^(a|b) ]]".to_owned(),
            _ => format!(
                "(( {} + 1 ))",
                self.numbers.pick(&["1", "x", "$x", "2 * 3"])
            ),
        }
    }

    fn evaluation(&mut self, depth: usize) -> String {
        let list = self.closed_list(depth);
        match self.numbers.below(6) {
            0 => format!("eval {}", quoted(&list)),
            1 => format!("eval {}", self.leaf()),
            2 => format!("trap {} EXIT", quoted(&list)),
            3 => format!("x={}; eval \"$x\"", quoted(&list)),
            4 => format!("eval eval {}", quoted(&quoted(&list))),
            _ => format!(
                "eval \"{}\"",
                self.leaf().replace(['"', '\\', '$', '`'], "")
            ),
        }
    }

    fn wrapper(&mut self, depth: usize) -> String {
        let leaf = self.leaf();
        let list = self.closed_list(depth);
        let text = self.text(&list);
        match self.numbers.below(35) {
            0 => format!("env {leaf}"),
            1 => format!("env A=1 {leaf}"),
            2 => format!("env -u A -- {leaf}"),
            3 => format!("env A=1 B=2 nice {leaf}"),
            4 => format!("command {leaf}"),
            5 => format!("exec {leaf}"),
            6 => format!("timeout 1 {leaf}"),
            7 => format!("timeout -s KILL -k 1 1 {leaf}"),
            8 => format!("nice -n 5 {leaf}"),
            9 => format!("nohup {leaf}"),
            10 => format!("stdbuf -oL {leaf}"),
            11 => format!("setsid -w {leaf}"),
            12 => format!("sudo {leaf}"),
            13 => format!("sudo -n A=1 {leaf}"),
            14..=16 => format!("sh -c {text}"),
            17 => format!("bash -c {text} a b"),
            18 => format!("bash -lc {text}"),
            19 => format!("sh -ec {text}"),
            20 => format!("echo {} | xargs {leaf}", self.word(0)),
            21 => format!("echo {} | xargs -I{{}} {leaf} {{}}", self.word(0)),
            22 => format!("echo {} | xargs -n 1 git", self.word(0)),
            23 => format!("echo {} | xargs -I X X push", self.word(0)),
            24 => format!("find . -maxdepth 0 -exec {leaf} \\;"),
            25 => format!("find . -name log -exec {leaf} {{}} +"),
            26 => format!("find . -maxdepth 1 -name p\\* -execdir sh -c {text} _ {{}} ';'"),
            27 => format!(
                "find . -maxdepth 1 -name push -exec {} {{}} \\; -print",
                self.program()
            ),
            28 => format!("echo {text} | sh"),
            29 => format!("sh <<< {text}"),
            30 => format!("builtin command {leaf}"),
            31 => format!("env env nice {leaf}"),
            32 => format!("xargs -a log {leaf}"),
            33 => format!("uv run {leaf}"),
            _ => format!("env -S {}", quoted(&leaf)),
        }
    }

    /// A list as one word.
    fn text(&mut self, list: &str) -> String {
        if self.numbers.chance(3) && !list.contains(['"', '\\', '`', '!']) {
            // Between these quotes the outer shell expands what it finds.
            format!("\"{list}\"")
        } else {
            quoted(list)
        }
    }

    fn simple(&mut self, depth: usize) -> String {
        let mut line = self.leaf();
        if self.numbers.chance(10)
            && let Some(name) = self.functions.last().copied()
        {
            line = format!("{name} {}", self.word(0));
        }
        for _ in 0..self.numbers.below(3) {
            line = format!("{line} {}", self.word(depth));
        }
        match self.numbers.below(14) {
            0 => line = format!("{} {line}", self.redirect(depth)),
            1 | 2 => line = format!("{line} {}", self.redirect(depth)),
            3 => line = format!("A={} {line}", self.word(depth)),
            4 => {
                line = format!(
                    "{line} # {}",
                    self.numbers.pick(&["x", "; git push", "'", "`"])
                )
            }
            5 => line = self.document(&line, depth),
            6 => line = format!("{line} <({})", self.closed_list(depth.min(1))),
            7 => line = format!("cd {}; {line}", self.numbers.pick(&["sub", ".", "\"$x\""])),
            8 => line = format!("echo {line}"),
            _ => {}
        }
        if line.contains(" # ") {
            format!("{line}\n:")
        } else {
            line
        }
    }

    fn document(&mut self, line: &str, depth: usize) -> String {
        self.documents += 1;
        let mark = format!("E{}", self.documents);
        let (open, dash) = match self.numbers.below(5) {
            0 => (format!("'{mark}'"), ""),
            1 => (format!("\\{mark}"), ""),
            2 => (mark.clone(), "-"),
            _ => (mark.clone(), ""),
        };
        let list = self.closed_list(depth.min(1));
        let body = match self.numbers.below(5) {
            0 => format!("$({list})"),
            1 => format!("a ${{x:-$({list})}}"),
            2 if !list.contains(['`', '\\']) => format!("`{list}`"),
            3 => list,
            _ => "text 'x \" $x".to_owned(),
        };
        let tab = if dash.is_empty() { "" } else { "\t" };
        // Lines of the body that look like its end would end it.
        let program = self.numbers.pick(&["", "", "sh ", "cat "]);
        let line = if program.is_empty() { line } else { program };
        format!("{line} <<{dash}{open}\n{tab}{body}\n{tab}{mark}")
    }

    fn redirect(&mut self, depth: usize) -> String {
        match self.numbers.below(12) {
            0 => "> f1".to_owned(),
            1 => ">> f2".to_owned(),
            2 => "2> f1".to_owned(),
            3 => "2>&1".to_owned(),
            4 => "< log".to_owned(),
            5 => ">&2".to_owned(),
            6 => "&> f2".to_owned(),
            7 => "<<< a".to_owned(),
            8 => ">| f1".to_owned(),
            9 if depth > 0 => format!("< <({})", self.closed_list(depth - 1)),
            10 if depth > 0 => format!("> >({})", self.closed_list(depth - 1)),
            _ => "2>f1".to_owned(),
        }
    }

    /// A command that is a stub, in one of many spellings.
    fn leaf(&mut self) -> String {
        let mut command = self.numbers.pick(COMMANDS).to_owned();
        let (mut program, mut rest) = match command.split_once(' ') {
            Some((program, rest)) => (program.to_owned(), format!(" {rest}")),
            None => (command.clone(), String::new()),
        };
        if self.closed.contains(&program.as_str()) {
            program = "c2".to_owned();
        }
        if self.numbers.chance(4) {
            program = self.spelled(&program);
        }
        if self.numbers.chance(8) && rest == " push" {
            rest = format!(
                " {}",
                self.numbers.pick(&[
                    "pu\\sh",
                    "'push'",
                    "\"push\"",
                    "p''ush",
                    "$'push'",
                    "p*",
                    "{push,log}",
                    "pu?h",
                    "$(echo push)",
                    "`echo push`",
                    "[p]ush",
                    "\\\npush",
                    "${z:-push}",
                ])
            );
        }
        command = format!("{program}{rest}");
        command
    }

    fn program(&mut self) -> String {
        let mut leaf = self.numbers.pick(LEAVES);
        if self.closed.contains(&leaf) {
            leaf = "c2";
        }
        leaf.to_owned()
    }

    fn spelled(&mut self, program: &str) -> String {
        let (first, rest) = program.split_at(1);
        match self.numbers.below(10) {
            0 => format!("\\{program}"),
            1 => format!("\"{program}\""),
            2 => format!("'{program}'"),
            3 => format!("{first}''{rest}"),
            4 => format!("{first}\\{rest}"),
            5 => format!("$'{program}'"),
            6 => format!("{}/{program}", self.bin),
            7 => format!("$(echo {program})"),
            8 => format!("${{q:-{program}}}"),
            _ => format!("{first}\"{rest}\""),
        }
    }

    fn word(&mut self, depth: usize) -> String {
        let text = self.numbers.pick(TEXTS).to_owned();
        let plain = self
            .numbers
            .pick(&["push", "log", "a", "f1", "M", "c3"])
            .to_owned();
        match self.numbers.below(22) {
            0 => format!("'{text}'"),
            1 => format!("\"{text}\""),
            2 => "$x".to_owned(),
            3 => "\"$x\"".to_owned(),
            4 => "\"$@\"".to_owned(),
            5 => "p*".to_owned(),
            6 => format!("{{{plain},b}}"),
            7 => format!("$(echo {text})"),
            8 => format!("\"$(echo {text})\""),
            9 if depth > 0 => format!("$({})", self.closed_list(depth - 1)),
            10 if depth > 0 => format!("\"$({})\"", self.closed_list(depth - 1)),
            11 if depth > 0 => {
                let list = self.closed_list(depth - 1);
                if list.contains(['`', '\\']) {
                    plain
                } else {
                    format!("`{list}`")
                }
            }
            12 if depth > 0 => format!("${{y:-$({})}}", self.closed_list(depth - 1)),
            13 => "$((1 + 2))".to_owned(),
            14 => format!("a\\ {plain}"),
            15 => "~".to_owned(),
            16 => "'; git push; '".to_owned(),
            17 => "\"; touch M #\"".to_owned(),
            18 => "\\;".to_owned(),
            19 => "-x".to_owned(),
            _ => plain,
        }
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Tells whether the last line is the end mark of a here-document.
fn ends_with_document(line: &str) -> bool {
    line.rsplit('\n').next().is_some_and(|last| {
        let last = last.trim_start_matches('\t');
        last.len() > 1 && last.starts_with('E') && last[1..].chars().all(|c| c.is_ascii_digit())
    })
}
