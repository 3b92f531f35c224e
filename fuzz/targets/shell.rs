//! Any text as a shell line. It is only read, never run: what is not understood is never allowed.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tooloop_policy::shell::{self, Hazard, Nature};
use tooloop_policy::{Access, AccessEffect, Confinement, Mode, Policy, Rule, beyond};

static PLAIN: LazyLock<[Policy; 4]> = LazyLock::new(|| {
    let mode = |mode| Policy {
        mode,
        ..Policy::default()
    };
    [Mode::Default, Mode::AcceptEdits, Mode::Plan, Mode::DontAsk].map(mode)
});

static WITH_RULES: LazyLock<Policy> = LazyLock::new(|| Policy {
    allow: vec![
        rule("Bash(git *)"),
        rule("Bash(echo *)"),
        rule("Bash(make *)"),
    ],
    deny: vec![rule("Bash(rm *)")],
    ..Policy::default()
});

static ALL_BUT_RM: LazyLock<Policy> = LazyLock::new(|| Policy {
    mode: Mode::BypassPermissions,
    allow: vec![rule("Bash")],
    deny: vec![rule("Bash(rm *)")],
    ..Policy::default()
});

static CONFINED: LazyLock<Policy> = LazyLock::new(|| Policy {
    deny: vec![rule("Bash(rm *)")],
    roots: vec!["/w".into()],
    home: Some("/home/u".into()),
    confinement: Some(Confinement {
        writable: vec!["/w".into()],
        temp: vec!["/tmp".into()],
        ..Confinement::default()
    }),
    ..Policy::default()
});

fn rule(text: &str) -> Rule {
    text.parse().expect("a rule")
}

fuzz_target!(|data: &[u8]| {
    let line = String::from_utf8_lossy(data);
    let analysis = shell::analyse(&line);
    assert_eq!(
        analysis.is_read_only(),
        analysis.why_not_read_only().is_none()
    );
    let access = Access::command(line.as_ref());
    assert_eq!(
        analysis.is_read_only(),
        access.effect == AccessEffect::ReadOnly
    );
    // With no rule, only what changes nothing, though it may be left in the background.
    for policy in PLAIN.iter() {
        let decision = policy.decide("bash", &access);
        let may_run = match policy.mode {
            Mode::Plan => analysis.is_read_only(),
            _ => is_harmless(&analysis),
        };
        assert!(!decision.is_allow() || may_run, "{policy:?}");
    }
    if analysis.problem().is_some() {
        assert!(analysis.commands().is_empty(), "half a line is shown");
        assert!(!analysis.is_read_only());
        for policy in [&*WITH_RULES, &*ALL_BUT_RM] {
            let decision = policy.decide("bash", &access);
            assert!(!decision.is_allow(), "{policy:?}");
        }
    }
    // What needs more than the sandbox gives is asked about, and what is said of it is one story.
    let explanation = CONFINED.explain("bash", &access);
    assert_eq!(explanation.decision, CONFINED.decide("bash", &access));
    let within = CONFINED.confinement.clone().unwrap_or_default();
    let needed = beyond(&line, "/w".as_ref(), CONFINED.home.as_deref(), &within);
    assert_eq!(explanation.beyond, needed);
    assert!(needed.is_empty() || !explanation.decision.is_allow());
    if analysis.problem().is_some() {
        assert!(!explanation.decision.is_allow(), "it may be what is denied");
    }
    let removes = |command: &shell::Command| command.program() == Some("rm");
    if analysis.commands().iter().any(removes) {
        for policy in [&*WITH_RULES, &*ALL_BUT_RM, &*CONFINED] {
            let decision = policy.decide("bash", &access);
            assert!(!decision.is_allow(), "{policy:?}");
        }
    }
});

fn is_harmless(analysis: &shell::Analysis) -> bool {
    let only_runs_others = |command: &shell::Command| {
        matches!(command.nature, Nature::Transparent | Nature::Launcher)
            || command
                .program()
                .is_some_and(|program| analysis.defines(program))
    };
    analysis.problem().is_none()
        && analysis
            .hazards()
            .all(|hazard| matches!(hazard, Hazard::Background | Hazard::Function))
        && analysis
            .redirects()
            .iter()
            .all(|redirect| redirect.is_harmless())
        && analysis
            .commands()
            .iter()
            .all(|command| only_runs_others(command) || analysis.command_is_read_only(command))
}
