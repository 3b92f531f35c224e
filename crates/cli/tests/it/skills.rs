//! Skills and commands at the real binary.

use serde_json::json;
use tooloop_testkit::{ModelServer, Scratch};

use super::support::{
    Api, Done, ask, asking, end, finish, front_end, said, speak, told, tooloop, wait_for_result,
};

const API: Api = Api::Messages;

fn skill(scratch: &Scratch, folder: &str, name: &str, description: &str, body: &str) {
    let text = format!("---\nname: {name}\ndescription: {description}\n---\n\n{body}\n");
    scratch.write(format!("{folder}/{name}/SKILL.md"), text);
}

fn warnings(done: &Done, about: &str) -> Vec<String> {
    let records = done.system("warning").into_iter();
    let words = records.map(|record| record["message"].as_str().unwrap().to_owned());
    words.filter(|words| words.contains(about)).collect()
}

#[test]
fn a_skill_is_listed_read_by_name_and_its_files_with_it() {
    let scratch = Scratch::new();
    skill(
        &scratch,
        ".claude/skills",
        "release",
        "Makes a release.",
        "Bump $1.",
    );
    skill(
        &scratch,
        "../home/.agents/skills",
        "letters",
        "Writes letters.",
        "See form.txt.",
    );
    // The project's counts, not the user's.
    skill(
        &scratch,
        "../home/.config/tooloop/skills",
        "release",
        "Not this one.",
        "no",
    );
    scratch.write("../home/.agents/skills/letters/form.txt", "Dear all\n");
    scratch.write(
        ".tooloop/skills/bad/SKILL.md",
        "---\nname: bad\nx: 'open\n---\n",
    );
    let form = scratch.home().join(".agents/skills/letters/form.txt");
    let server = ModelServer::start([
        API.call("a", "skill", &json!({ "name": "release", "args": "2.0" })),
        API.call("b", "skill", &json!({ "name": "letters" })),
        API.call("c", "read", &json!({ "path": form })),
        API.call("d", "skill", &json!({ "name": "../letters" })),
        API.say("done"),
    ]);
    let run = asking(&scratch, &server, API).args(["--output-format", "stream-json", "go"]);
    let done = finish(&run.start());
    assert_eq!(done.answer(), "done");
    let system = server.request(0).system();
    assert!(
        system.contains("\n- letters: Writes letters.\n- release: Makes a release."),
        "{system}"
    );
    let last = server.request(4);
    assert!(
        told(&last, "a").ends_with("\n\nBump 2.0."),
        "{}",
        told(&last, "a")
    );
    let folder = form.parent().unwrap().display().to_string();
    assert!(told(&last, "b").contains(&folder), "{}", told(&last, "b"));
    assert!(
        told(&last, "c").contains("Dear all"),
        "{}",
        told(&last, "c")
    );
    assert_eq!(
        told(&last, "d"),
        "there is no skill \"../letters\"; there are: letters, release"
    );
    let bad = warnings(&done, "skill left out");
    assert_eq!(bad.len(), 1, "{bad:?}");
    assert!(bad[0].contains("bad/SKILL.md:3: "), "{bad:?}");
    server.assert_clean();
}

#[test]
fn without_skills_or_with_bare_there_is_no_tool_for_them() {
    let scratch = Scratch::new();
    let server = ModelServer::start([API.say("one"), API.say("two"), API.say("three")]);
    ask(&scratch, &server, API, "go");
    skill(&scratch, ".agents/skills", "x", "X.", "x");
    finish(
        &tooloop(&scratch, &server, API)
            .args(["--bare", "go"])
            .start(),
    );
    ask(&scratch, &server, API, "go");
    let has = |index: usize| {
        server
            .request(index)
            .tool_names()
            .contains(&"skill".to_owned())
    };
    assert_eq!([has(0), has(1), has(2)], [false, false, true]);
    assert!(!server.request(1).system().contains("# Skills"));
    server.assert_clean();
}

#[test]
fn the_list_of_skills_keeps_within_its_part_of_the_window() {
    let scratch = Scratch::new();
    let long = "many words ".repeat(50);
    for number in 0..60 {
        skill(
            &scratch,
            ".tooloop/skills",
            &format!("skill-{number:02}"),
            &long,
            "x",
        );
    }
    let server = ModelServer::start([API.say("one"), API.say("two"), API.say("three")]);
    let run = |window: &str| {
        let run = tooloop(&scratch, &server, API).env("TOOLOOP_CONTEXT_WINDOW", window);
        finish(&run.arg("go").start())
    };
    let sections = |index: usize| {
        let system = server.request(index).system();
        let section = &system[system.find("# Skills").unwrap()..];
        section.split("\n\n# ").next().unwrap().to_owned()
    };
    let small = run("20000");
    // 250 tokens at the least, 1 % of a large window.
    assert!(sections(0).len() <= 875, "{}", sections(0));
    // What they are for is left out before any name is.
    assert_eq!(sections(0).matches("\n- skill-").count(), 60);
    assert_eq!(warnings(&small, "list of skills").len(), 0);
    let large = run("200000");
    assert!(
        (6_000..=7_000).contains(&sections(1).len()),
        "{}",
        sections(1).len()
    );
    assert_eq!(sections(1).matches("\n- skill-").count(), 60);
    assert_eq!(warnings(&large, "list of skills").len(), 0);
    // The same bytes in another process.
    run("200000");
    assert_eq!(server.request(1).system(), server.request(2).system());
}

#[test]
fn a_command_becomes_the_prompt() {
    let scratch = Scratch::new();
    scratch.write(
        ".claude/commands/git/review.md",
        "---\ndescription: Reviews.\nargument-hint: [file]\n---\nReview $1 like @README.md\n!`date`\n",
    );
    let server = ModelServer::start([
        API.say("one"),
        API.say("two"),
        API.say("three"),
        API.say("four"),
    ]);
    let done = ask(&scratch, &server, API, "/git:review src/a.rs");
    assert_eq!(done.answer(), "one");
    let noted = warnings(&done, "are not run");
    assert!(noted[0].contains("git/review.md:6: "), "{noted:?}");
    for text in [
        "/etc/hosts is what?",
        "/nothing of the kind",
        " /git:review x",
    ] {
        ask(&scratch, &server, API, text);
    }
    let prompt = |index: usize| said(&server.request(index)).pop().unwrap().1;
    assert!(
        prompt(0).contains("Review src/a.rs like @README.md\n!`date`\n\n(Commands written as"),
        "{}",
        prompt(0)
    );
    assert!(prompt(1).contains("/etc/hosts is what?"));
    assert!(prompt(2).contains("/nothing of the kind"));
    assert!(prompt(3).contains("/git:review x"));
    server.assert_clean();
}

#[test]
fn a_user_calls_a_skill_and_a_broken_command_is_no_prompt() {
    let scratch = Scratch::new();
    let mine =
        "---\nname: mine\ndescription: x\ndisable-model-invocation: true\n---\nDo $ARGUMENTS.";
    scratch.write("../home/.claude/skills/mine/SKILL.md", mine);
    scratch.write(".tooloop/commands/broken.md", "---\nx: 'open\n---\n");
    let server = ModelServer::start([API.say("one")]);
    let done = ask(&scratch, &server, API, "/mine this and that");
    assert_eq!(done.answer(), "one");
    let prompt = said(&server.request(0)).pop().unwrap().1;
    assert!(prompt.ends_with("\n\nDo this and that."), "{prompt}");
    assert!(!server.request(0).system().contains("mine"));
    let failed = end(&asking(&scratch, &server, API).arg("/broken").start());
    let words = failed.stderr.text();
    assert!(words.contains("broken.md:2: "), "{words}");
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn dollar_signs_in_a_skill_reach_the_model() {
    let bill = "The fee is `$25` or $1,000 of $1.2M. Run `awk '{print $1}' f`.\n\n```sh\nset -- $1 $2\n```";
    let scratch = Scratch::new();
    skill(&scratch, ".tooloop/skills", "bill", "Bills.", bill);
    skill(
        &scratch,
        ".tooloop/skills",
        "price",
        "Prices.",
        "It is \\$1 for $1.",
    );
    scratch.write(".tooloop/commands/check.md", "Review $1 and $ARGUMENTS.");
    let shown = |prompt: &str| {
        let server = ModelServer::start([API.say("ok")]);
        ask(&scratch, &server, API, prompt).answer();
        said(&server.request(0)).pop().unwrap().1
    };
    let server = ModelServer::start([
        API.call("a", "skill", &json!({ "name": "bill" })),
        API.say("ok"),
    ]);
    ask(&scratch, &server, API, "go").answer();
    let loaded = told(&server.request(1), "a");
    assert!(loaded.ends_with(bill), "{loaded}");
    for (prompt, expected) in [
        ("/bill", bill.to_owned()),
        ("/bill 1111", format!("{bill}\n\nArguments: 1111")),
        ("/check a b", "Review a and a b.".into()),
        (
            "/check $100 $& $1 $$ $ARGUMENTS",
            "Review $100 and $100 $& $1 $$ $ARGUMENTS.".into(),
        ),
        ("/price ten", "It is $1 for ten.".into()),
    ] {
        let seen = shown(prompt);
        assert!(seen.ends_with(&expected), "{prompt}: {seen}");
    }
}

#[test]
fn a_front_end_calls_commands_too() {
    let scratch = Scratch::new();
    scratch.write(".tooloop/commands/hi.md", "Say hi to $1.");
    let server = ModelServer::start([API.say("one"), API.say("two")]);
    let running = front_end(&scratch, &server, API).start();
    speak(&running, "/hi Ann");
    wait_for_result(&running, 1);
    speak(&running, "/hello Ann");
    wait_for_result(&running, 2);
    running.close_stdin();
    finish(&running);
    let prompt = |index: usize| said(&server.request(index)).pop().unwrap().1;
    assert!(prompt(0).ends_with("Say hi to Ann."), "{}", prompt(0));
    assert!(prompt(1).ends_with("/hello Ann"), "{}", prompt(1));
    server.assert_clean();
}
