//! Skills and commands as they lie in folders.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "shared test code may panic"
)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use tooloop_model::{Content, JsonObject};
use tooloop_policy::{Mode, Policy};
use tooloop_tool::{DynTool, Scope, ToolContext, Withheld, tool};
use tooloop_tools::{CommandSet, Place, SkillSet, SkillTool};

struct Folders {
    _held: tempfile::TempDir,
    path: PathBuf,
}

fn folders() -> Folders {
    let held = tempfile::tempdir().unwrap();
    Folders {
        path: held.path().canonicalize().unwrap(),
        _held: held,
    }
}

fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn skill(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name).join("SKILL.md");
    put(&path, text);
    path
}

fn by_model(skills: SkillSet) -> Arc<dyn DynTool> {
    let tool = tool(SkillTool::new(Arc::new(skills)));
    tool.for_session(&Scope::new()).unwrap()
}

async fn call(tool: &Arc<dyn DynTool>, input: Value) -> Result<String, String> {
    let input = JsonObject::parse(&input.to_string()).unwrap();
    match tool.run(&input, &ToolContext::new("/")).await {
        Ok(output) => match output.content.as_slice() {
            [Content::Text(text)] => Ok(text.clone()),
            other => panic!("{other:?}"),
        },
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn the_earlier_folder_counts_and_bad_skills_are_named() {
    let folders = folders();
    let (near, far) = (folders.path.join("near"), folders.path.join("far"));
    skill(&near, "a", "---\nname: same\ndescription: of near\n---\nx");
    skill(&far, "b", "---\nname: same\ndescription: of far\n---\nx");
    skill(
        &far,
        "c",
        "---\ndescription: >\n  two\n  lines\nwhen_to_use: at once\nargument-hint: [x] [y]\nother: 1\n---\nx",
    );
    skill(&far, "d", "---\nname: d\n---\n# What d does\n\nmore");
    skill(
        &far,
        "e",
        "---\nname: e\ndescription: \"\\e[2Jred\"\nuser-invocable: false\n---\n",
    );
    let bad = [
        (
            skill(&far, "f", "---\nname: f\ndescription: 'open\n---\n"),
            3,
        ),
        (skill(&far, "g", "no front matter"), 1),
        (
            skill(&far, "h", "---\nname: ../up\ndescription: x\n---\n"),
            2,
        ),
        (skill(&far, "i", "---\nname: i\n---\n"), 1),
        (
            skill(&far, "j", "---\nname: j\ndescription: [a, b]\n---\n"),
            3,
        ),
        (
            skill(
                &far,
                "k",
                "---\ndescription: x\nuser-invocable: perhaps\n---\n",
            ),
            3,
        ),
    ];
    put(&far.join("no-skill/README.md"), "x");
    put(&far.join("file"), "x");
    let set = SkillSet::discover(&[
        Place::of_user(&near),
        Place::of_user(folders.path.join("missing")),
        Place::of_user(&far),
    ]);
    let found: Vec<_> = set
        .iter()
        .map(|skill| (skill.name.as_str(), skill.description.as_str()))
        .collect();
    assert_eq!(
        found,
        [
            ("c", "two lines at once"),
            ("d", "What d does"),
            ("e", "[2Jred"),
            ("same", "of near"),
        ]
    );
    assert_eq!(
        set.get("c").unwrap().argument_hint.as_deref(),
        Some("[x] [y]")
    );
    assert!(!set.get("e").unwrap().for_user);
    assert_eq!(set.warnings().len(), bad.len(), "{:?}", set.warnings());
    for ((path, line), warning) in bad.iter().zip(set.warnings()) {
        let start = format!("skill left out: {}:{line}: ", path.display());
        assert!(warning.starts_with(&start), "{warning}");
    }
}

/// UTF-16 with a byte order mark.
fn utf16(text: &str, unit: fn(u16) -> [u8; 2]) -> Vec<u8> {
    let units = "\u{feff}".encode_utf16().chain(text.encode_utf16());
    units.flat_map(unit).collect()
}

/// Files as other systems save them: a name, the bytes, and the line that a warning names.
fn saved() -> Vec<(&'static str, Vec<u8>, Option<usize>)> {
    let plain = "---\ndescription: Use it.\n---\nDo it.\n";
    vec![
        ("mark", format!("\u{feff}{plain}").into(), None),
        ("returns", plain.replace('\n', "\r\n").into(), None),
        (
            "marked-returns",
            format!("\u{feff}{plain}").replace('\n', "\r\n").into(),
            None,
        ),
        ("little", utf16(plain, u16::to_le_bytes), None),
        ("big", utf16(plain, u16::to_be_bytes), None),
        ("no-newline", "---\ndescription: Use it.\n---".into(), None),
        (
            "blanks",
            "--- \t\ndescription: Use it.\n---  \nDo it.\n".into(),
            None,
        ),
        (
            "tab",
            "---\ndescription:\tUse it.\n---\nDo it.\n".into(),
            None,
        ),
        (
            "colon",
            "---\ndescription: Use when: a, b\n---\nDo it.\n".into(),
            None,
        ),
        (
            "latin",
            b"---\nname: latin\ndescription: caf\xe9\n---\nDo it.\n".into(),
            Some(3),
        ),
        (
            "quote",
            "---\ndescription: \"Use it.\n---\nDo it.\n".into(),
            Some(2),
        ),
        (
            "list",
            "---\ndescription: [a, b]\n---\nDo it.\n".into(),
            Some(2),
        ),
    ]
}

#[test]
fn skills_are_read_as_other_systems_save_them() {
    let folders = folders();
    let root = folders.path.join("project");
    let place = root.join("skills");
    let put = |name: &str, bytes: &[u8]| {
        fs::create_dir_all(place.join(name)).unwrap();
        fs::write(place.join(name).join("SKILL.md"), bytes).unwrap();
    };
    let mut table = saved();
    table.push((
        "number",
        "---\nname: 12\ndescription: Use it.\n---\nDo it.\n".into(),
        None,
    ));
    table.push(("empty", Vec::new(), Some(1)));
    table.push(("no-front-matter", "Do it.\n".into(), Some(1)));
    for (name, bytes, _) in &table {
        put(name, bytes);
    }
    skill(
        &root.join("other"),
        "inner",
        "---\ndescription: Use it.\n---\nDo it.\n",
    );
    symlink("../other/inner", place.join("inner")).unwrap();
    skill(
        &folders.path,
        "outer",
        "---\ndescription: Use it.\n---\nDo it.\n",
    );
    symlink("../../outer", place.join("outer")).unwrap();
    let set = SkillSet::discover(&[Place::of_project(&place, &root)]);
    let mut expected: Vec<&str> = table
        .iter()
        .filter(|row| row.2.is_none())
        .map(|row| row.0)
        .collect();
    expected.retain(|name| *name != "number");
    expected.extend(["12", "inner"]);
    expected.sort_unstable();
    let names: Vec<&str> = set.iter().map(|skill| skill.name.as_str()).collect();
    assert_eq!(names, expected, "{:?}", set.warnings());
    for skill in set.iter() {
        let (description, text) = match skill.name.as_str() {
            "colon" => ("Use when: a, b", "Do it."),
            "no-newline" => ("Use it.", ""),
            _ => ("Use it.", "Do it."),
        };
        assert_eq!(skill.description, description, "{}", skill.name);
        let whole = skill.text("").unwrap();
        assert!(whole.trim_end().ends_with(text), "{}: {whole}", skill.name);
        assert!(
            !whole.contains(['\u{feff}', '\r']),
            "{}: {whole:?}",
            skill.name
        );
    }
    for (name, _, line) in table.iter().filter(|row| row.2.is_some()) {
        let file = place.join(name).join("SKILL.md");
        let start = format!("skill left out: {}:{}: ", file.display(), line.unwrap());
        assert!(
            set.warnings().iter().any(|one| one.starts_with(&start)),
            "{start}: {:?}",
            set.warnings()
        );
    }
    assert!(
        set.warnings().iter().any(|one| one.contains("outer")),
        "{:?}",
        set.warnings()
    );
    assert_eq!(set.warnings().len(), 6, "{:?}", set.warnings());
}

#[test]
fn commands_are_read_as_other_systems_save_them() {
    let folders = folders();
    for (name, bytes, _) in saved() {
        fs::write(folders.path.join(format!("{name}.md")), bytes).unwrap();
    }
    fs::write(folders.path.join("plain.md"), "\u{feff}Do it.\r\n").unwrap();
    let set = CommandSet::discover(&[Place::of_user(&folders.path)]);
    for (name, _, line) in saved() {
        let Some(line) = line else {
            let command = set.get(name).unwrap();
            assert!(
                command.description.starts_with("Use "),
                "{name}: {}",
                command.description
            );
            match command.expand("") {
                Ok(expanded) => assert_eq!(expanded.text.trim(), "Do it.", "{name}"),
                Err(error) => assert!(name == "no-newline" && error.contains("no text"), "{error}"),
            }
            continue;
        };
        assert!(set.get(name).is_none(), "{name}");
        let file = folders.path.join(format!("{name}.md"));
        let part = format!("{}:{line}: ", file.display());
        assert!(
            set.warnings().iter().any(|one| one.contains(&part)),
            "{part}: {:?}",
            set.warnings()
        );
    }
    assert_eq!(
        set.get("plain").unwrap().expand("").unwrap().text.trim(),
        "Do it."
    );
}

#[test]
fn links_of_a_project_lead_nowhere_else() {
    let folders = folders();
    let (project, outside) = (folders.path.join("project"), folders.path.join("outside"));
    let text = "---\nname: private\ndescription: secret\n---\nsecret";
    skill(&outside, "private", text);
    let skills = project.join(".agents/skills");
    fs::create_dir_all(skills.join("file")).unwrap();
    symlink(outside.join("private"), skills.join("folder")).unwrap();
    symlink(
        outside.join("private/SKILL.md"),
        skills.join("file/SKILL.md"),
    )
    .unwrap();
    let set = SkillSet::discover(&[Place::of_project(&skills, &project)]);
    assert_eq!(set.iter().count(), 0);
    assert_eq!(set.warnings().len(), 2, "{:?}", set.warnings());
    assert!(
        set.warnings()[0].contains("it is a link out of"),
        "{:?}",
        set.warnings()
    );
    // A person's own may lead where they like, and one within the project too.
    assert_eq!(
        SkillSet::discover(&[Place::of_user(&skills)])
            .iter()
            .count(),
        1
    );
    fs::remove_dir_all(&skills).unwrap();
    fs::create_dir_all(&skills).unwrap();
    skill(
        &project.join("tools"),
        "inner",
        "---\ndescription: x\n---\n",
    );
    symlink(project.join("tools/inner"), skills.join("inner")).unwrap();
    let set = SkillSet::discover(&[Place::of_project(&skills, &project)]);
    assert_eq!(set.iter().count(), 1, "{:?}", set.warnings());
}

#[test]
fn a_pipe_is_not_waited_for() {
    let folders = folders();
    let path = folders.path.join("pipe/SKILL.md");
    fs::create_dir(path.parent().unwrap()).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RWXU).unwrap();
    let set = SkillSet::discover(&[Place::of_user(&folders.path)]);
    assert!(
        set.warnings()[0].ends_with("it is no regular file"),
        "{:?}",
        set.warnings()
    );
}

#[tokio::test]
async fn a_skill_is_read_by_its_name() {
    let folders = folders();
    let text = "---\nname: greet\ndescription: x\n---\n\nSay hello to $1.\nSee notes.md\n";
    let path = skill(&folders.path, "greeting", text);
    skill(
        &folders.path,
        "mine",
        "---\ndescription: x\ndisable-model-invocation: true\n---\nx",
    );
    let set = SkillSet::discover(&[Place::of_user(&folders.path)]);
    let tool = by_model(set);
    let folder = folders.path.join("greeting");
    let expected = format!(
        "Skill greet. Paths in it are relative to {}\n\nSay hello to Ann.\nSee notes.md",
        folder.display()
    );
    let answer = call(&tool, json!({ "name": "greet", "args": "Ann Bee" })).await;
    assert_eq!(answer, Ok(expected.clone()));
    for (name, expected) in [
        ("other", "there is no skill \"other\"; there are: greet"),
        (
            "greeting",
            "there is no skill \"greeting\"; there are: greet",
        ),
        (
            "../greeting",
            "there is no skill \"../greeting\"; there are: greet",
        ),
        ("mine", "the skill mine is for the user alone to call"),
    ] {
        assert_eq!(
            call(&tool, json!({ "name": name })).await,
            Err(expected.to_owned())
        );
    }
    // What was loaded is still known after a summary; another session knows nothing of it.
    let carried = tool.carried(&Withheld::nothing()).await;
    assert_eq!(
        (carried.len(), carried[0].title.as_str(), &carried[0].text),
        (1, "skill greet", &expected)
    );
    assert_eq!(
        tool.for_session(&Scope::new())
            .unwrap()
            .carried(&Withheld::nothing())
            .await,
        []
    );
    // Its text is read when it is asked for.
    let long = format!(
        "---\nname: greet\ndescription: x\n---\n{}é",
        "x".repeat(32 * 1024 - 1)
    );
    fs::write(&path, long).unwrap();
    let answer = call(&tool, json!({ "name": "greet" })).await.unwrap();
    let end = format!("xxx\n[2 bytes more are in {}]", path.display());
    assert!(answer.ends_with(&end), "{}", &answer[answer.len() - 100..]);
    assert_eq!(tool.carried(&Withheld::nothing()).await.len(), 1);
    fs::remove_file(&path).unwrap();
    let answer = call(&tool, json!({ "name": "greet" })).await.unwrap_err();
    assert!(answer.contains("SKILL.md"), "{answer}");
}

#[test]
fn a_skill_asks_nobody() {
    let access = SkillTool::new(Arc::default());
    let access = tooloop_tool::Tool::access(
        &access,
        &tooloop_tools::SkillInput {
            name: "x".into(),
            args: None,
        },
    );
    for mode in Mode::ALL {
        let policy = Policy {
            mode,
            ..Policy::default()
        };
        assert!(policy.decide("skill", &access).is_allow(), "{mode}");
    }
}

#[test]
fn commands_are_files_in_folders() {
    let folders = folders();
    let (near, far) = (folders.path.join("near"), folders.path.join("far"));
    put(
        &near.join("review.md"),
        "---\ndescription: Reviews.\nargument-hint: [file]\nallowed-tools: Bash(git:*)\nmodel: x\n---\n\nReview $1 (@src/lib.rs), all: $ARGUMENTS",
    );
    put(&far.join("review.md"), "far");
    put(
        &far.join("git/deep/tidy.md"),
        "Tidy up.\n\nState: !`git status`\n",
    );
    put(&far.join("bad.md"), "---\nx\n---\n");
    put(&far.join("a b.md"), "x");
    put(&far.join("readme.txt"), "x");
    put(&far.join("a/b/c/d/e.md"), "too deep");
    put(&far.join("empty.md"), "---\ndescription: nothing\n---\n");
    symlink(&far, far.join("round")).unwrap();
    let set = CommandSet::discover(&[Place::of_user(&near), Place::of_user(&far)]);
    let found: Vec<_> = set
        .iter()
        .map(|command| (command.name.as_str(), command.description.as_str()))
        .collect();
    assert_eq!(
        found,
        [
            ("empty", "nothing"),
            ("git:deep:tidy", "Tidy up."),
            ("review", "Reviews.")
        ]
    );
    assert_eq!(set.warnings().len(), 2, "{:?}", set.warnings());
    assert!(
        set.warnings()[1].contains("bad.md:2: "),
        "{:?}",
        set.warnings()
    );
    let review = set.get("review").unwrap();
    assert_eq!(review.argument_hint.as_deref(), Some("[file]"));
    let expanded = review.expand("'a b' c").unwrap();
    assert_eq!(expanded.text, "Review a b (@src/lib.rs), all: 'a b' c");
    assert_eq!(expanded.notes, [""; 0]);
    // A shell line is not run, and that is said to both.
    let expanded = set.get("git:deep:tidy").unwrap().expand("").unwrap();
    assert_eq!(
        expanded.text,
        "Tidy up.\n\nState: !`git status`\n\n(Commands written as !`command` above were not run: run those \
         whose output is needed.)"
    );
    let note = format!("{}:3: shell lines", far.join("git/deep/tidy.md").display());
    assert!(expanded.notes[0].starts_with(&note), "{:?}", expanded.notes);
    assert!(
        set.get("empty")
            .unwrap()
            .expand("")
            .unwrap_err()
            .ends_with("there is no text in it")
    );
}
