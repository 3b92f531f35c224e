use std::process::Command;

use super::*;

const ALL: [&str; 12] = [
    "apply_patch",
    "bash",
    "edit",
    "glob",
    "grep",
    "job_output",
    "job_stop",
    "read",
    "terminal",
    "todo",
    "web_fetch",
    "write",
];

fn prompt(profile: PromptProfile, tools: &[&str]) -> SystemPrompt {
    let state = PromptState::new("/work/garden/beds")
        .profile(profile)
        .tools(tools.iter().copied())
        .folders(["/data".into(), "/more\n# Work".into()])
        .repository(Some("/work/garden".into()))
        .shell(Path::new("/usr/bin/bash"));
    SystemPrompt::new(state.sections())
}

#[test]
fn advice_is_given_on_tools_that_are_there() {
    let all = prompt(PromptProfile::Default, &ALL);
    for name in [
        "grep",
        "glob",
        "read",
        "edit",
        "apply_patch",
        "write",
        "terminal",
    ] {
        assert!(all.text().contains(&format!("`{name}`")), "{name}");
        let without: Vec<_> = ALL.into_iter().filter(|tool| *tool != name).collect();
        let text = prompt(PromptProfile::Default, &without).text();
        assert!(!text.contains(&format!("`{name}`")), "{name}: {text}");
    }
    let bash = prompt(PromptProfile::Default, &["bash"]);
    let tools = &bash.section("tools").unwrap().text;
    assert!(
        tools.contains("grep -rn") && !tools.contains("run_in_background"),
        "{tools}"
    );
    let none = prompt(PromptProfile::Default, &[]);
    assert!(none.section("tools").unwrap().is_blank());
    for text in [all.text(), bash.text(), none.text()] {
        assert!(!text.contains("- ["), "a mark is left: {text}");
        assert!(!text.contains("\n\n\n"), "{text}");
    }
}

#[test]
fn the_environment_is_what_is_so() {
    let prompt = prompt(PromptProfile::Default, &["bash"]);
    let (system, machine) = (std::env::consts::OS, std::env::consts::ARCH);
    assert_eq!(
        prompt.section("environment").unwrap().text,
        format!(
            "# Environment\n- Folder: /work/garden/beds (relative paths start here)\n\
             - Further folder: /data\n- Further folder: /more\u{fffd}# Work\n\
             - Git repository: yes, its root is /work/garden\n\
             - Platform: {system} on {machine}\n- Shell: bash"
        )
    );
    let bare = PromptState::new("/x").sections();
    let text = &bare.last().unwrap().text;
    assert!(
        text.contains("\n- Git repository: no\n") && !text.contains("Shell"),
        "{text}"
    );
}

#[test]
fn prompts_are_short() {
    for profile in [PromptProfile::Default, PromptProfile::BashOnly] {
        let text = prompt(profile, &ALL).text();
        // 1,000 tokens, by the estimate of 3.5 bytes a token.
        assert!(text.len() < 3_500, "{profile:?}: {} bytes", text.len());
    }
}

/// Not a test of its own: it says the prompt for the one below.
#[test]
fn says_the_prompt() {
    if std::env::var_os("SAY_THE_PROMPT").is_some() {
        let mut tools: std::collections::HashSet<&str> = ALL.into_iter().collect();
        tools.remove("todo");
        let tools: Vec<_> = tools.into_iter().collect();
        println!("PROMPT {:?}", prompt(PromptProfile::Default, &tools).text());
    }
}

#[test]
fn another_process_writes_the_same_bytes() {
    let said = || {
        // Another process, another seed of its hash tables, and so another order of the tools.
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "prompt::tests::says_the_prompt", "--nocapture"])
            .env("SAY_THE_PROMPT", "1")
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let line = text.lines().find(|line| line.starts_with("PROMPT "));
        line.expect("the prompt is said").to_owned()
    };
    let first = said();
    assert!(first.contains("# Environment"));
    for _ in 0..4 {
        assert_eq!(said(), first);
    }
}
