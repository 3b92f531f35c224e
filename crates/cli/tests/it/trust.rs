//! What a folder's files may do, at the real binary without a person.

use tooloop_testkit::{ModelServer, Scratch, run::Run};

use super::support::{Api, asking, bare, end};

const OWN: &str = ".tooloop/config.toml";
const JSON: &str = ".claude/settings.json";

/// A folder that allows `touch` in both kinds of files and denies `rm`.
fn folder() -> Scratch {
    let scratch = Scratch::new();
    scratch.write(
        OWN,
        "disallowed_tools = [\"Bash(rm *)\"]\nlog = \"trace\"\n",
    );
    scratch.write(JSON, "{\"permissions\": {\"allow\": [\"Bash(touch *)\"]}}");
    scratch
}

/// Whether the marker was made, and what was said meanwhile.
fn tries(scratch: &Scratch, arguments: &[&str]) -> (bool, String) {
    let marker = scratch.workspace().join("made");
    std::fs::remove_file(&marker).unwrap_or_default();
    let command = format!("touch {}", marker.display());
    let server = ModelServer::start([Api::Messages.bash("c", &command), Api::Messages.say("ok")]);
    let run = asking(scratch, &server, Api::Messages)
        .args(arguments)
        .arg("go");
    let finished = end(&run.start());
    // The run goes on whatever is left out.
    finished.assert_code(0);
    server.assert_clean();
    (marker.exists(), finished.stderr.text())
}

fn trust(scratch: &Scratch, arguments: &[&str]) -> (i32, String) {
    let run: Run = bare(scratch).arg("trust").args(arguments);
    let finished = end(&run.start());
    let said = format!("{}{}", finished.stdout.text(), finished.stderr.text());
    (finished.code.unwrap(), said)
}

#[test]
fn an_unknown_folder_widens_nothing_and_each_thing_is_named() {
    let scratch = folder();
    let (made, said) = tries(&scratch, &[]);
    assert!(!made);
    assert!(
        said.contains("config.toml:2:1: `log` is not applied: this folder is not trusted"),
        "{said}"
    );
    assert!(
        said.contains("settings.json:1:28: `permissions.allow` (Bash(touch *)) is not applied"),
        "{said}"
    );
    assert_eq!(said.matches("is not applied").count(), 2, "{said}");
    assert!(!scratch.data().join("tooloop/trusted.json").exists());
}

#[test]
fn a_flag_trusts_for_one_run() {
    let scratch = folder();
    let (made, said) = tries(&scratch, &["--trust-folder"]);
    assert!(made && !said.contains("is not applied"), "{said}");
    assert!(!tries(&scratch, &[]).0);
}

#[test]
fn trust_is_given_once_and_taken_back() {
    let scratch = folder();
    // Nobody is there to say yes.
    let (code, said) = trust(&scratch, &[]);
    assert_eq!(code, 2, "{said}");
    assert!(
        said.contains("Bash(touch *)  (.claude/settings.json:1)"),
        "{said}"
    );
    assert!(
        said.contains("log = \"trace\"  (.tooloop/config.toml:2)"),
        "{said}"
    );
    assert!(!tries(&scratch, &[]).0);

    assert_eq!(trust(&scratch, &["--yes"]).0, 0);
    let (made, said) = tries(&scratch, &[]);
    assert!(made && !said.contains("is not applied"), "{said}");
    assert!(
        trust(&scratch, &[])
            .1
            .contains("is trusted with all that it wants")
    );
    let listed = trust(&scratch, &["--list"]).1;
    assert!(
        listed.contains("(2 approved)") && listed.contains("workspace"),
        "{listed}"
    );

    // What has changed is left out again; what has not stays.
    scratch.write(OWN, "disallowed_tools = []\nlog = \"debug\"\n");
    let (made, said) = tries(&scratch, &[]);
    assert!(made);
    assert!(
        said.contains("`log` is not applied: it is new, or has changed"),
        "{said}"
    );
    assert_eq!(said.matches("is not applied").count(), 1, "{said}");
    assert!(trust(&scratch, &[]).1.contains("log = \"debug\""));

    assert!(
        trust(&scratch, &["--remove"])
            .1
            .contains("is not trusted any more")
    );
    assert!(!tries(&scratch, &[]).0);
    assert!(trust(&scratch, &["--remove"]).1.contains("was not known"));
    assert_eq!(trust(&scratch, &["--list"]).1, "");
}

#[test]
fn hooks_of_an_unknown_folder_are_none() {
    let scratch = Scratch::new();
    let hook = "[[hooks]]\nevent = \"Stop\"\ncommand = \"say done\"\n";
    scratch.write(OWN, hook);
    scratch.write(
        JSON,
        "{\"hooks\": {\"Stop\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"say json\"}]}]}}",
    );
    let shown = |arguments: &[&str]| {
        let finished = end(&bare(&scratch).arg("config").args(arguments).start());
        finished.assert_code(0);
        let text = finished.stdout.text();
        let line = text.lines().find(|line| line.starts_with("hooks = "));
        (line.unwrap().to_owned(), finished.stderr.text())
    };
    let (line, said) = shown(&[]);
    assert_eq!(line, "hooks = []  (default)");
    assert!(
        said.contains("config.toml:1:1: `hooks` (Stop: say done) is not applied"),
        "{said}"
    );
    assert!(
        said.contains("settings.json:1:32: `hooks` (Stop: say json) is not applied"),
        "{said}"
    );
    for line in [shown(&["--trust-folder"]).0, {
        assert_eq!(trust(&scratch, &["--yes"]).0, 0);
        shown(&[]).0
    }] {
        assert!(
            line.contains("\"Stop: say done\"") && line.contains("\"Stop: say json\""),
            "{line}"
        );
    }
    assert_eq!(shown(&["--bare"]).0, "hooks = []  (default)");
    // Another command is another hook.
    scratch.write(OWN, hook.replace("done", "more"));
    let (line, said) = shown(&[]);
    assert!(
        !line.contains("more") && said.contains("(Stop: say more) is not applied"),
        "{line} {said}"
    );
    assert!(line.contains("say json"), "{line}");
}

#[test]
fn a_script_that_a_hook_names_is_trusted_as_it_was() {
    let scratch = Scratch::new();
    let hook = r#"'"$TOOLOOP_PROJECT_DIR"/hooks/x.sh'"#;
    scratch.write(
        OWN,
        format!("[[hooks]]\nevent = \"SessionStart\"\ncommand = {hook}\n"),
    );
    let script = |content: &str| {
        use std::os::unix::fs::PermissionsExt as _;
        scratch.write("hooks/x.sh", format!("#!/bin/sh\n{content}\n"));
        let path = scratch.workspace().join("hooks/x.sh");
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    let runs = |name: &str| {
        let server = ModelServer::start([Api::Messages.say("ok")]);
        let finished = end(&asking(&scratch, &server, Api::Messages).arg("go").start());
        finished.assert_code(0);
        let ran = scratch.workspace().join(name).exists();
        (ran, finished.stderr.text())
    };
    script("touch one");
    assert_eq!(trust(&scratch, &["--yes"]).0, 0);
    assert!(runs("one").0);
    script("touch two");
    let (ran, said) = runs("two");
    assert!(!ran && said.contains("is new, or has changed"), "{said}");
    let (code, said) = trust(&scratch, &["--yes"]);
    assert!(code == 0 && said.contains("hooks/x.sh"), "{said}");
    assert!(runs("two").0);
    // What cannot be looked at whole is not trusted.
    let path = scratch.workspace().join("hooks/x.sh");
    let file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
    file.set_len((64 << 20) + 1).unwrap();
    let why = "hooks/x.sh cannot be read: it is larger than 64 MiB";
    let (code, said) = trust(&scratch, &["--yes"]);
    assert!(code == 0 && said.contains(why), "{said}");
    let (_, said) = runs("two");
    assert!(said.contains(why), "{said}");
}

#[test]
fn trust_is_for_where_a_folder_really_is() {
    let scratch = folder();
    assert_eq!(trust(&scratch, &["--yes"]).0, 0);
    let link = scratch.outside().join("link");
    std::os::unix::fs::symlink(scratch.workspace(), &link).unwrap();
    let link = link.display().to_string();
    assert!(tries(&scratch, &["-C", &link]).0);
    std::fs::create_dir(scratch.workspace().join("sub")).unwrap();
    assert!(tries(&scratch, &["-C", "sub/.."]).0);
    // A copy is another folder.
    let copy = scratch.outside().join("copy");
    let allow = scratch.read(scratch.workspace().join(JSON));
    scratch.write(copy.join(JSON), allow);
    assert!(!tries(&scratch, &["-C", &copy.display().to_string()]).0);
    // So is a folder within, in the same repository or not: it may have come from anywhere.
    let sub = scratch.workspace().join("sub");
    scratch.write(sub.join(JSON), scratch.read(scratch.workspace().join(JSON)));
    assert!(!tries(&scratch, &["-C", "sub"]).0);
    std::fs::create_dir(scratch.workspace().join(".git")).unwrap();
    assert!(!tries(&scratch, &["-C", "sub"]).0);
    assert!(tries(&scratch, &[]).0);
}

#[test]
fn bare_takes_nothing_from_the_folder() {
    let scratch = folder();
    assert_eq!(trust(&scratch, &["--yes"]).0, 0);
    let (made, said) = tries(&scratch, &["--bare"]);
    assert!(!made && !said.contains("is not applied"), "{said}");
    scratch.write(OWN, "disallowed_tools = [\"Bash(touch *)\"]\n");
    assert!(!tries(&scratch, &["--allowedTools", "Bash"]).0);
    assert!(tries(&scratch, &["--bare", "--allowedTools", "Bash"]).0);
    // Both at once make no sense.
    let run = bare(&scratch).args(["-p", "--bare", "--trust-folder", "go"]);
    end(&run.start()).assert_code(2);
}

#[test]
fn a_store_that_is_damaged_trusts_nothing() {
    let scratch = folder();
    assert_eq!(trust(&scratch, &["--yes"]).0, 0);
    let store = scratch.data().join("tooloop/trusted.json");
    scratch.write(&store, "{");
    let (made, said) = tries(&scratch, &[]);
    assert!(!made);
    assert!(
        said.contains("trusted.json") && said.contains("none is"),
        "{said}"
    );
    assert_eq!(trust(&scratch, &["--yes"]).0, 52);
    assert_eq!(scratch.read(&store), "{");
}

#[test]
fn a_folder_that_wants_nothing_needs_no_trust() {
    let scratch = Scratch::new();
    scratch.write(
        OWN,
        "tool_timeout_ms = 5000\ndisallowed_tools = [\"Bash(rm *)\"]\n",
    );
    assert!(
        trust(&scratch, &["--yes"])
            .1
            .contains("wants nothing that needs trust")
    );
    assert!(!scratch.data().join("tooloop/trusted.json").exists());
}
