//! What is typed at the prompt: a prompt for the model, or a command for us.

/// What a line means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Typed {
    /// Nothing.
    Blank,
    /// For the model.
    Prompt,
    /// For us.
    Command(Command),
    /// It looks like a command and is none of ours: its name.
    Unknown(String),
}

/// The commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Command {
    Help,
    Exit,
    /// Tells the model's name, or has another one write.
    Model(Option<String>),
    Clear,
    Cost,
    /// Has the conversation summed up; what the summary is to look at most closely.
    Compact(Option<String>),
    /// Tells what fills the window.
    Context,
    /// Goes back to a turn, or lists them.
    Rewind(String),
    /// Tells what holds commands.
    Sandbox,
    /// Lists the notes about the project.
    Memory,
    /// Lists what is allowed, says why a call is, or takes an answer back.
    Permissions(String),
}

/// Each name, and what it does.
pub(crate) const COMMANDS: [(&str, &str); 12] = [
    ("/help", "this list"),
    ("/model", "the model's name; /model NAME changes it"),
    ("/clear", "begin a new session; the old one can be resumed"),
    (
        "/rewind",
        "the turns; /rewind N goes back to before one of them",
    ),
    ("/sandbox", "what holds commands and file tools"),
    (
        "/permissions",
        "what is allowed, and where that stands; explain COMMAND says why",
    ),
    ("/memory", "the notes about this project"),
    (
        "/compact",
        "sum up what was said, to make room; /compact WORDS says what matters most",
    ),
    ("/context", "what fills the model's window"),
    (
        "/cost",
        "tokens, steps and cost so far, and what missed the provider's cache",
    ),
    ("/exit", "leave (Ctrl-D does too)"),
    ("/quit", "the same"),
];

/// The keys, for `/help`.
pub(crate) const KEYS: [(&str, &str); 8] = [
    ("Enter", "send"),
    (
        "Alt-Enter",
        "a new line; so do Ctrl-J and a \\ at the end of the line",
    ),
    ("Ctrl-R, Up", "what was typed before"),
    ("Enter", "while it works: say something for its next step"),
    ("Tab", "while it works: say something for when it is done"),
    ("Esc, Ctrl-C", "while it works: interrupt"),
    ("Ctrl-C twice", "leave"),
    (
        "a blank first",
        "sends a line that begins with / to the model",
    ),
];

/// Tells what a line means. Commands are lower case letters behind a slash; a path has a second
/// slash, and what begins with a blank is never a command.
pub(crate) fn parse(line: &str) -> Typed {
    if line.trim().is_empty() {
        return Typed::Blank;
    }
    let Some(rest) = line.strip_prefix('/') else {
        return Typed::Prompt;
    };
    let (name, argument) = match rest.split_once(char::is_whitespace) {
        Some((name, argument)) => (name, argument.trim()),
        None => (rest, ""),
    };
    if name.contains('/') {
        return Typed::Prompt;
    }
    Typed::Command(match name {
        "help" | "?" => Command::Help,
        "exit" | "quit" => Command::Exit,
        "model" => Command::Model((!argument.is_empty()).then(|| argument.to_owned())),
        "clear" | "new" => Command::Clear,
        "cost" => Command::Cost,
        "memory" => Command::Memory,
        "compact" => Command::Compact((!argument.is_empty()).then(|| argument.to_owned())),
        "context" => Command::Context,
        "sandbox" => Command::Sandbox,
        "rewind" => Command::Rewind(argument.to_owned()),
        "permissions" => Command::Permissions(argument.to_owned()),
        _ => {
            return Typed::Unknown(name.to_owned());
        }
    })
}

/// The name that may have been meant: ours, or another one that can be called.
pub(crate) fn nearest(name: &str, others: &[String]) -> Option<String> {
    let ours = COMMANDS
        .iter()
        .map(|(command, _)| command.trim_start_matches('/'));
    let others = others.iter().map(String::as_str);
    ours.chain(others)
        .map(|other| {
            (
                strsim::jaro_winkler(&name.to_lowercase(), &other.to_lowercase()),
                other,
            )
        })
        .filter(|(likeness, _)| *likeness >= 0.7)
        .max_by(|one, two| one.0.total_cmp(&two.0))
        .map(|(_, name)| format!("/{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_mean_what_they_say() {
        let unknown = |name: &str| Typed::Unknown(name.into());
        let cases = [
            ("", Typed::Blank),
            (" \n\t ", Typed::Blank),
            ("hello", Typed::Prompt),
            ("/help", Typed::Command(Command::Help)),
            ("/exit", Typed::Command(Command::Exit)),
            ("/quit  ", Typed::Command(Command::Exit)),
            ("/model", Typed::Command(Command::Model(None))),
            (
                "/model  qwen 2 ",
                Typed::Command(Command::Model(Some("qwen 2".into()))),
            ),
            ("/clear\n", Typed::Command(Command::Clear)),
            ("/cost", Typed::Command(Command::Cost)),
            ("/context", Typed::Command(Command::Context)),
            ("/compact ", Typed::Command(Command::Compact(None))),
            (
                "/compact the parser",
                Typed::Command(Command::Compact(Some("the parser".into()))),
            ),
            (
                "/rewind 3  files",
                Typed::Command(Command::Rewind("3  files".into())),
            ),
            (
                "/permissions explain ls",
                Typed::Command(Command::Permissions("explain ls".into())),
            ),
            ("/etc/hosts what is this", Typed::Prompt),
            ("//", Typed::Prompt),
            (" /tmp is full", Typed::Prompt),
            ("what is /help", Typed::Prompt),
            ("/modl", unknown("modl")),
            ("/git:tidy now", unknown("git:tidy")),
            ("/memory", Typed::Command(Command::Memory)),
            ("/zzz", unknown("zzz")),
            ("/", unknown("")),
        ];
        for (line, meaning) in cases {
            assert_eq!(parse(line), meaning, "{line:?}");
        }
    }

    #[test]
    fn the_nearest_name_is_told() {
        let others = ["review".to_owned(), "git:Tidy".to_owned()];
        for (name, expected) in [
            ("modl", Some("/model")),
            ("Exit", Some("/exit")),
            ("revew", Some("/review")),
            ("git:tdy", Some("/git:Tidy")),
            ("zzz", None),
            ("", None),
        ] {
            assert_eq!(nearest(name, &others).as_deref(), expected, "{name}");
        }
    }
}
