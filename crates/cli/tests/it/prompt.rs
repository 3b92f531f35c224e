//! What the model knows before anybody has said a word, and what it is told beside what people say.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};
use tooloop::provider::compat;
use tooloop_testkit::{CapturedRequest, ModelServer, Scratch};

use crate::support::{Api, bare, both, end, finish, journal, resume, tooloop};

/// `tooloop prompt` with these flags: what it prints.
fn printed(scratch: &Scratch, flags: &[&str]) -> (String, String) {
    let run = bare(scratch).arg("prompt").args(flags.to_vec());
    let finished = end(&run.start());
    finished.assert_code(0);
    (finished.stdout.text(), finished.stderr.text())
}

/// All texts of all user messages of a request, one after the other.
fn said(request: &CapturedRequest) -> Vec<String> {
    let messages = request.messages().iter();
    let users = messages.filter(|message| message["role"] == "user");
    users
        .flat_map(|message| match &message["content"] {
            Value::String(text) => vec![text.clone()],
            Value::Array(parts) => parts
                .iter()
                .filter_map(|part| part["text"].as_str().map(str::to_owned))
                .collect(),
            _ => Vec::new(),
        })
        .collect()
}

/// The same of which `what` is a part.
fn saying(request: &CapturedRequest, what: &str) -> usize {
    said(request)
        .iter()
        .filter(|text| text.contains(what))
        .count()
}

/// The date that the model was told last.
fn date(request: &CapturedRequest) -> String {
    let said = said(request);
    let told = said
        .iter()
        .rev()
        .find_map(|text| text.split_once("\nDate: "));
    told.unwrap().1.get(..10).unwrap().to_owned()
}

#[test]
fn it_is_printed_without_a_model_and_as_it_is_sent() {
    let scratch = Scratch::new();
    scratch.write("AGENTS.md", "Speak softly.\n");
    scratch.write(".git/HEAD", "ref: refs/heads/main\n");
    let server = ModelServer::start([Api::Messages.say("ok")]);
    finish(&tooloop(&scratch, &server, Api::Messages).arg("go").start()).answer();
    let (text, _) = printed(&scratch, &[]);
    assert_eq!(text.trim_end(), server.request(0).system());
    let root = fs::canonicalize(scratch.workspace()).unwrap();
    for words in [
        "You are tooloop",
        "Speak softly.",
        "- Git repository: yes, the folder is its root",
        root.to_str().unwrap(),
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    for volatile in ["main", "Date"] {
        assert!(!text.contains(volatile), "{volatile}: {text}");
    }

    let (json, _) = printed(&scratch, &["--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["text"], text.trim_end());
    let sections = json["sections"].as_array().unwrap();
    let names: Vec<_> = sections.iter().map(|section| &section["name"]).collect();
    assert_eq!(
        names,
        ["identity", "work", "tools", "environment", "instructions"]
    );
    for section in sections {
        let text = section["text"].as_str().unwrap();
        assert_eq!(section["bytes"], text.len(), "{section}");
    }
    let together = json["together"]["tokens"].as_u64().unwrap();
    assert!((1_500..5_000).contains(&together), "{together} tokens");

    let (table, _) = printed(&scratch, &["--sections", "--tools", "bash,read"]);
    let mut lines = table.lines();
    assert!(lines.next().unwrap().starts_with("section"), "{table}");
    for name in ["identity", "definitions of 2 tools", "together"] {
        assert!(
            table.lines().any(|line| line.starts_with(name)),
            "{name}: {table}"
        );
    }
}

#[test]
fn flags_and_settings_say_what_is_in_it() {
    let scratch = Scratch::new();
    scratch.write("AGENTS.md", "Speak softly.");
    let replaced = printed(
        &scratch,
        &[
            "--system-prompt",
            "Be brief.",
            "--append-system-prompt",
            "End.",
        ],
    )
    .0;
    assert!(
        replaced.starts_with("Be brief.\n\n# Instructions\n"),
        "{replaced}"
    );
    assert!(replaced.contains("Speak softly."), "{replaced}");
    assert!(replaced.ends_with("\n\nEnd.\n"), "{replaced}");
    let bare_one = printed(&scratch, &["--bare", "--system-prompt", "Be brief."]).0;
    assert_eq!(bare_one, "Be brief.\n");
    let only_bash = printed(&scratch, &["--tools", "bash-only"]).0;
    assert!(
        only_bash.contains("one tool: bash") && !only_bash.contains("`read`"),
        "{only_bash}"
    );
    let without = bare(&scratch)
        .arg("prompt")
        .env("TOOLOOP_INSTRUCTIONS", "false");
    let without = end(&without.start()).stdout.text();
    assert!(
        without.contains("# Environment") && !without.contains("softly"),
        "{without}"
    );
}

#[test]
fn instructions_come_from_the_user_and_from_the_root_down() {
    let scratch = Scratch::new();
    scratch.write(
        scratch.config().join("tooloop/AGENTS.md"),
        "ours of the user\n@~/more.md",
    );
    scratch.write(scratch.home().join("more.md"), "more of the user");
    scratch.write(
        scratch.home().join(compat::USER_INSTRUCTIONS),
        "theirs of the user",
    );
    scratch.write(".git/HEAD", "ref: refs/heads/main\n");
    scratch.write("AGENTS.md", "the root\n@docs/style.md");
    scratch.write(compat::INSTRUCTIONS, "@AGENTS.md\nthe root for others");
    scratch.write("docs/style.md", "the style");
    scratch.write("app/AGENTS.md", "the app");
    scratch.write(format!("app/{}", compat::INSTRUCTIONS), "the app\r\n");
    let app = scratch.workspace().join("app");
    let (text, complaints) = printed(&scratch, &["-C", app.to_str().unwrap()]);
    let order = [
        "more of the user",
        "ours of the user",
        "theirs of the user",
        "the style",
        "the root\n",
        "the root for others",
        "the app\n",
    ];
    let places: Vec<_> = order.iter().map(|words| text.find(words)).collect();
    assert!(
        places.iter().all(Option::is_some) && places.is_sorted(),
        "{places:?} {text}"
    );
    assert_eq!(text.matches("the app\n").count(), 1, "{text}");
    assert!(!complaints.contains("instructions:"), "{complaints}");
}

#[test]
fn what_a_project_wants_read_that_is_not_its_own_is_named_and_not_read() {
    let scratch = Scratch::new();
    scratch.write(".git/HEAD", "ref: refs/heads/main\n");
    scratch.write(scratch.outside().join("key.md"), "KEEP-OUT");
    scratch.write("AGENTS.md", "@../outside/key.md\n@missing.md\n@.env\n");
    scratch.write(".env", "KEEP-OUT");
    symlink(
        "../outside/key.md",
        scratch.workspace().join(compat::INSTRUCTIONS),
    )
    .unwrap();
    let flags = ["--disallowedTools", "Read(./.env)"];
    let (text, complaints) = printed(&scratch, &flags);
    assert!(
        text.contains("@missing.md") && !text.contains("KEEP-OUT"),
        "{text}"
    );
    let link = format!(
        "{} is not read: it leads out of the repository",
        compat::INSTRUCTIONS
    );
    for words in [
        "AGENTS.md imports @../outside/key.md, which is not read: it leads out of the repository",
        "AGENTS.md imports @missing.md, which is not read: there is no such file",
        "AGENTS.md imports @.env, which is not read: a rule withholds it",
        &link,
    ] {
        assert!(complaints.contains(words), "{words}: {complaints}");
    }
}

#[test]
fn a_pipe_is_not_waited_for_and_too_much_is_cut() {
    let scratch = Scratch::new();
    let fifo = scratch.workspace().join("AGENTS.md");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, kind, mode, 0).unwrap();
    scratch.write(compat::INSTRUCTIONS, "0123456789\n".repeat(20_000));
    let (text, complaints) = printed(&scratch, &[]);
    assert!((32_000..40_000).contains(&text.len()), "{}", text.len());
    let cut = format!(
        "{} is cut to its first 32757 of 220000 bytes",
        compat::INSTRUCTIONS
    );
    for words in ["AGENTS.md is not read: it is not a regular file", &cut] {
        assert!(complaints.contains(words), "{words}: {complaints}");
    }
}

both! {
    /// A provider that keeps what it has seen charges nothing new for it.
    fn a_day_later_the_same_bytes_are_sent(api) {
        let scratch = Scratch::new();
        scratch.write("AGENTS.md", "Speak softly.");
        scratch.write(".git/HEAD", "ref: refs/heads/garden\n");
        let server = ModelServer::start([
            api.bash("tu_1", "echo one"),
            api.say("first"),
            api.say("second"),
            api.say("third"),
        ]);
        let run = tooloop(&scratch, &server, api).arg("hello KEEP");
        let session = finish(&run.start()).session();
        let first = server.request(1);
        let today = date(&first);
        assert_eq!(saying(&first, "\nGit branch: garden"), 1, "{}", first.body);
        // As if it had been said long ago.
        let old = "2001-02-03";
        let path = journal(&scratch, &session);
        let record = scratch.read(&path);
        assert_eq!(record.matches(&format!("Date: {today}")).count(), 1);
        fs::write(&path, record.replace(&format!("Date: {today}"), &format!("Date: {old}"))).unwrap();
        // What git has is told as it was.
        scratch.write(".git/HEAD", "ref: refs/heads/other\n");
        assert_eq!(resume(&scratch, &server, api, &session, "and on").answer(), "second");
        let second = server.request(2);
        assert_eq!(date(&second), today, "another day is told");
        assert_eq!(saying(&second, "Date: "), 2, "{}", second.body);
        assert_eq!(saying(&second, "\nGit branch: other"), 1, "{}", second.body);

        // The second request is the first one, whole, and goes on behind its messages.
        let sent = |request: &CapturedRequest| String::from_utf8(request.raw.to_vec()).unwrap();
        let before = sent(&first).replace(&format!("Date: {today}"), &format!("Date: {old}"));
        same_prefix(api, &before, &sent(&second));

        // On the same day nothing is told again.
        assert_eq!(resume(&scratch, &server, api, &session, "once more").answer(), "third");
        let third = server.request(3);
        assert_eq!(saying(&third, "Date: "), 2, "{}", third.body);
        same_prefix(api, &sent(&second), &sent(&third));
        server.assert_clean();

        // People see what people said.
        for command in [vec!["list", "--json"], vec!["show", &session], vec!["export", &session]] {
            let finished = end(&bare(&scratch).arg("sessions").args(command.clone()).start());
            let shown = finished.stdout.text();
            assert!(shown.contains("hello KEEP"), "{command:?} {finished}");
            assert!(!shown.contains("reminder"), "{command:?} {finished}");
        }
    }

    /// Two zones whose dates always differ: the date that changes comes after what was sent.
    fn another_date_leaves_what_was_sent(api) {
        let scratch = Scratch::new();
        let server = ModelServer::start([
            api.bash("tu_1", "echo one"),
            api.say("first"),
            api.say("second"),
            api.say("third"),
        ]);
        let run = |zone: &str| tooloop(&scratch, &server, api).env("TZ", zone);
        let session = finish(&run("AAA12").arg("first").start()).session();
        for (zone, prompt) in [("BBB-14", "second"), ("AAA12", "third")] {
            let done = finish(&run(zone).args(["--resume", &session, prompt]).start());
            assert_eq!(done.answer(), prompt);
        }
        let requests = server.requests();
        let sent: Vec<_> = requests
            .iter()
            .map(|request| String::from_utf8(request.raw.to_vec()).unwrap())
            .collect();
        for pair in sent.windows(2) {
            same_prefix(api, &pair[0], &pair[1]);
        }
        let dates: Vec<_> = requests.iter().map(date).collect();
        assert!(dates[0] == dates[1] && dates[1] != dates[2], "{dates:?}");
        assert_eq!(dates[1], dates[3]);
        server.assert_clean();
    }

    fn folders_further_down_are_told_once_behind_the_results(api) {
        let scratch = Scratch::new();
        scratch.write("AGENTS.md", "root");
        scratch.write("app/a.txt", "alpha");
        scratch.write("app/b.txt", "beta");
        scratch.write("app/AGENTS.md", "the app's own KEEP-77");
        let read = |id: &str, path: &str| api.call(id, "read", &json!({ "path": path }));
        let server = ModelServer::start([
            read("tu_1", "app/a.txt"),
            read("tu_2", "app/b.txt"),
            api.say("done"),
            read("tu_3", "app/a.txt"),
            api.say("still"),
        ]);
        let run = tooloop(&scratch, &server, api).arg("go");
        let done = finish(&run.start());
        assert_eq!(done.answer(), "done");
        let told: Vec<_> = (0..3).map(|at| saying(&server.request(at), "KEEP-77")).collect();
        assert_eq!(told, [0, 1, 1]);
        // Behind the results, and not in them.
        let second = server.request(1);
        let result = second.tool_result("tu_1").unwrap();
        assert!(result.text.contains("alpha") && !result.text.contains("KEEP-77"), "{result:?}");
        let last = said(&second).pop().unwrap();
        let begin = "<reminder>\nInstructions for what is below app:\n<instructions file=\"app/AGENTS.md\">";
        assert!(last.starts_with(begin), "{last}");
        // It is known again after a resume.
        assert_eq!(resume(&scratch, &server, api, &done.session(), "again").answer(), "still");
        assert_eq!(saying(&server.request(4), "KEEP-77"), 1);
        // The records show what people said.
        assert!(!done.records.iter().any(|record| record.to_string().contains("<reminder>")));
        server.assert_clean();
    }
}

/// The bytes of the later request are those of the earlier one up to the end of its messages, and
/// what follows the messages is the same. Marks of what is to be kept in the cache move.
fn same_prefix(api: Api, before: &str, after: &str) {
    let plain = |text: &str| match api {
        Api::Messages => text.replace(",\"cache_control\":{\"type\":\"ephemeral\"}", ""),
        Api::Chat => text.to_owned(),
    };
    let (before, after) = (plain(before), plain(after));
    let same = before
        .bytes()
        .zip(after.bytes())
        .take_while(|(one, other)| one == other)
        .count();
    let rest = before.get(same..).unwrap();
    // The list of messages ends here in the one and goes on in the other.
    assert!(
        rest.starts_with(']') || rest.starts_with("}]"),
        "differs at {same}: {rest}"
    );
    assert!(
        after.ends_with(rest.trim_start_matches('}')),
        "{rest}\n{after}"
    );
}
