//! What a policy makes of a sandbox around commands: what is beyond it, what is protected, what is
//! asked for by name.
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot be set up is to fail"
)]

use std::path::Path;

use tooloop_policy::{
    Access, AskCause, Confinement, Decision, Grant, Mode, Policy, Reach, Rule, Touch, beyond,
    shell::analyse,
};

fn rules(texts: &[&str]) -> Vec<Rule> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn within() -> Confinement {
    Confinement {
        writable: vec!["/w".into(), "/added".into()],
        temp: vec!["/tmp".into()],
        network: Reach::Nothing,
    }
}

fn policy(mode: Mode, confinement: Option<Confinement>, allow: &[&str]) -> Policy {
    Policy {
        mode,
        allow: rules(allow),
        roots: vec!["/w".into(), "/added".into()],
        home: Some("/home/u".into()),
        confinement,
        protected: vec!["/w/vendor".into()],
        protected_names: vec![".agent/start.json".into()],
        ..Policy::default()
    }
}

fn word(decision: &Decision) -> &'static str {
    match decision {
        Decision::Allow => "allow",
        Decision::Deny { .. } => "deny",
        Decision::Ask { cause, .. } => match cause {
            AskCause::Rule => "rule",
            AskCause::Uncovered => "ask",
            AskCause::Beyond => "beyond",
        },
    }
}

#[test]
fn what_a_line_needs_is_named_exactly() {
    let table = [
        ("make", ""),
        ("touch /opt/a /opt/b M", "write:/opt/a write:/opt/b"),
        ("echo x > ../log", "write:/log"),
        ("echo x > /opt/a; echo y >> /opt/a", "write:/opt/a"),
        ("cp a b /opt/dir", "write:/opt/dir"),
        ("cp -t/opt/dir a b", "write:/opt/dir"),
        ("mv ../a /opt/b", "write:/a write:/opt/b"),
        ("rm -rf /opt/a/../b", "write:/opt/b"),
        ("rm /opt/logs/*.log", "write:/opt/logs"),
        ("rm /opt/logs/$x", "write:/opt/logs"),
        // What nothing is known of, and what would be far too much, is left to the sandbox.
        ("rm $x", ""),
        ("rm /$x", ""),
        ("rm ~/$x", ""),
        ("rm ~/a/$x", "write:/home/u/a"),
        (
            "touch ~/a $HOME/b \"${HOME}/c d\"",
            "write:/home/u/a write:/home/u/b write:/home/u/c d",
        ),
        ("touch ~other/a $HOMES/b", ""),
        (
            "cd /opt && touch a && cd b && touch c",
            "write:/opt/a write:/opt/b/c",
        ),
        ("(cd /opt && touch a); touch b", "write:/opt/a"),
        ("cd $x && touch ../a", ""),
        ("cd $x && touch /opt/a", "write:/opt/a"),
        ("cd -; touch a", ""),
        ("cd; touch a", "write:/home/u/a"),
        ("sh -c 'cd /opt; touch a'; touch b", "write:/opt/a"),
        ("tar -C /opt -xzf a.tgz", "write:/opt"),
        ("tar xzf a.tgz -C/opt", "write:/opt"),
        ("tar czf /opt/a.tgz .", "write:/opt/a.tgz"),
        ("dd if=/opt/a of=/opt/b bs=1", "write:/opt/b"),
        ("sed -i -e s/a/b/ -e s/c/d/ /opt/x", "write:/opt/x"),
        ("sed -n -i.orig s/a/b/ /opt/x", "write:/opt/x"),
        ("sed -e s/a/b/ /opt/x", ""),
        ("sed -n s/in/x/p /opt/x", ""),
        ("find /opt /srv -name x -delete", "write:/opt write:/srv"),
        ("find . -fprint /opt/x", "write:/opt/x"),
        ("ls > /dev/null 2> /dev/stderr", ""),
        (
            "curl https://a.example/x https://b.example",
            "host:a.example host:b.example",
        ),
        (
            "curl https://user:pw@a.example:8443/x?y#z",
            "host:a.example",
        ),
        ("curl -H 'A: b' -d @f A.Example.", "host:a.example"),
        ("curl \"https://a.example/$x\"", "host:a.example"),
        ("curl \"https://$x/a\"", "network"),
        ("curl https://a.example$x", "network"),
        ("curl 'https://a.example/?b=c&d=[1-3]'", "host:a.example"),
        ("curl https://a.example/?b=c", "host:a.example"),
        (
            "curl -o /opt/x https://a.example",
            "host:a.example write:/opt/x",
        ),
        ("curl https://a.example; git push", "network"),
        ("wget -O - http://a.example", "host:a.example"),
        ("curl file:///etc/hosts", ""),
        (
            "curl http://localhost:1/ http://127.0.0.1 http://[::1]/",
            "",
        ),
        ("git clone https://a.example/b.git", "host:a.example"),
        ("git clone git@a.example:b.git", "network"),
        ("git clone ssh://a.example/b.git", "network"),
        ("git clone ../b c", ""),
        ("git -C /opt/x commit", "write:/opt/x"),
        ("git -C /opt/x log", ""),
        ("git -C sub clone ./a /opt/b", "write:/opt/b"),
        ("git worktree add ../t", "write:/t"),
        ("ssh a.example", "network"),
        ("scp a b.example:c", "network"),
        ("scp b.example:c /opt/d", "network write:/opt/d"),
        ("rsync -a x/ y/", ""),
        ("echo x > /dev/udp/a.example/1", "network"),
        ("sudo touch /opt/x", "unconfined"),
        ("sudo ls; curl https://a.example", "unconfined"),
        ("'unclosed > /opt/x", ""),
    ];
    for (line, expected) in table {
        let found = beyond(line, Path::new("/w"), Some(Path::new("/home/u")), &within());
        let mut found: Vec<_> = found.iter().map(ToString::to_string).collect();
        let mut expected: Vec<_> = expected
            .split(" write:")
            .enumerate()
            .flat_map(|(at, text)| {
                let text = if at > 0 {
                    format!("write:{text}")
                } else {
                    text.to_owned()
                };
                let hosts = text.starts_with("host:") || text.starts_with("network");
                if hosts {
                    text.split(' ').map(str::to_owned).collect()
                } else {
                    vec![text]
                }
            })
            .filter(|text| !text.is_empty())
            .collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "{line}");
    }
}

#[test]
fn relative_paths_start_where_the_line_runs() {
    let policy = policy(Mode::Default, Some(within()), &[]);
    let line = Access::command("touch ../x");
    let decide = |access: &Access| word(&policy.decide("bash", access));
    assert_eq!(decide(&line), "beyond");
    assert_eq!(decide(&line.clone().in_directory("/w/sub")), "allow");
    assert_eq!(decide(&line.in_directory("/opt/sub")), "beyond");
}

#[test]
fn a_question_says_what_is_needed_and_why() {
    let policy = policy(Mode::Default, Some(within()), &[]);
    let reason = |line: &str| {
        let decision = policy.decide("bash", &Access::command(line));
        decision.reason().unwrap_or_default().to_owned()
    };
    assert_eq!(
        reason("make && cp out /opt/out; curl https://a.example"),
        "`cp out /opt/out` needs to write `/opt/out`, `curl https://a.example` needs to talk to \
         `a.example`: that is beyond the sandbox"
    );
    assert_eq!(
        reason("env sudo make install"),
        "`sudo make install` needs to run without the sandbox: that is beyond the sandbox"
    );
    assert_eq!(
        reason("echo x > .git/hooks/a"),
        "`/w/.git/hooks/a` is protected: it is never written while there is a sandbox"
    );
}

#[test]
fn what_is_protected_is_protected_from_file_tools() {
    let all = ["Edit", "Write", "Edit(/**)", "edit", "Bash"];
    let paths = [
        "/w/.git/hooks/pre-commit",
        "/w/.git/config",
        "/w/sub/../.git/config",
        "/w/.tooloop/settings.toml",
        "/w/sub/.git",
        "/w/.git/commondir",
        "/w/.git/info/attributes",
        "/added/.git/objects/info/alternates",
        "/w/a/b/.agent/start.json",
        "/added/.agent/start.json",
        "/home/u/.bashrc",
        "/w/vendor/a",
    ];
    for path in paths {
        let access = Access::effectful().reading(path).writing(path);
        for mode in Mode::ALL {
            let inside = policy(mode, Some(within()), &all).decide("edit", &access);
            assert_eq!(word(&inside), "deny", "{mode} {path}");
            let outside = policy(mode, None, &all).decide("edit", &access);
            let expected = match mode {
                Mode::Default | Mode::AcceptEdits => "rule",
                Mode::Plan | Mode::DontAsk => "deny",
                Mode::BypassPermissions => "allow",
            };
            assert_eq!(word(&outside), expected, "{mode} {path}");
        }
        if path.contains("..") {
            continue;
        }
        let read = Access::read_only().reading(path);
        let read =
            policy(Mode::Default, Some(within()), &["Read(/home/u/**)"]).decide("read", &read);
        assert_eq!(word(&read), "allow", "{path}");
        let offered = policy(Mode::Default, None, &[]).allow_always_rules("edit", &access);
        assert_eq!(offered, [], "no rule helps against {path}");
    }
    let open = Access::effectful().writing("/w/.gitignore");
    let decision = policy(Mode::AcceptEdits, Some(within()), &[]).decide("edit", &open);
    assert_eq!(word(&decision), "allow");
}

#[test]
fn file_tools_are_asked_about_as_ever() {
    let table = [
        (Mode::Default, "/w/a", "ask"),
        (Mode::AcceptEdits, "/w/a", "allow"),
        (Mode::Default, "/opt/a", "beyond"),
        (Mode::AcceptEdits, "/opt/a", "beyond"),
        (Mode::DontAsk, "/w/a", "deny"),
    ];
    for (mode, path, expected) in table {
        let decision =
            policy(mode, Some(within()), &[]).decide("edit", &Access::effectful().writing(path));
        assert_eq!(word(&decision), expected, "{mode} {path}");
    }
    let fetch = Access::read_only().host("a.example");
    let decision = policy(Mode::Default, Some(within()), &[]).decide("web_fetch", &fetch);
    assert_eq!(word(&decision), "ask");
    let other =
        policy(Mode::Default, Some(within()), &[]).decide("mcp__a__b", &Access::effectful());
    assert_eq!(word(&other), "ask");
}

#[test]
fn what_is_asked_for_by_name_needs_a_rule_or_an_answer() {
    let make = |grant: Grant| Access::command("make").wanting(grant);
    let write = |path: &str| make(Grant::Write(path.into()));
    let host = |name: &str| make(Grant::Host(name.into()));
    let table = [
        (&[][..], write("/opt/a"), "beyond"),
        (&[], write("/w/a"), "allow"),
        (&[], host("a.example"), "beyond"),
        (&[], make(Grant::Network), "beyond"),
        (&[], make(Grant::Unconfined), "beyond"),
        // A rule for commands is none for whatever is asked for beside them.
        (&["Bash"], make(Grant::Unconfined), "beyond"),
        (&["Bash(make)", "bash"], write("/opt/a"), "beyond"),
        (&["Sandbox(write:/opt/**)"], write("/opt/a"), "allow"),
        (&["Sandbox(write:/opt/**)"], write("/opt"), "allow"),
        (&["Sandbox(write:/opt/*)"], write("/opt/a/b"), "beyond"),
        (&["Sandbox(write:opt/**)"], write("/opt/a"), "beyond"),
        (&["Sandbox(network)"], make(Grant::Network), "allow"),
        (&["Sandbox(network)"], host("a.example"), "allow"),
        (&["Sandbox(host:a.example)"], host("a.example"), "allow"),
        (&["Sandbox(host:a.example)"], host("b.a.example"), "beyond"),
        (&["Sandbox(host:a.example)"], make(Grant::Network), "beyond"),
        (&["Sandbox(unconfined)"], make(Grant::Unconfined), "allow"),
        (&["Sandbox"], make(Grant::Unconfined), "allow"),
        (&["Sandbox(write:/w/**)"], write("/w/.git/config"), "deny"),
    ];
    for (allow, access, expected) in table {
        let decision = policy(Mode::Default, Some(within()), allow).decide("bash", &access);
        assert_eq!(
            word(&decision),
            expected,
            "{allow:?} {access:?}: {decision:?}"
        );
        let plan = policy(Mode::Plan, Some(within()), allow).decide("bash", &access);
        assert_eq!(word(&plan), "deny");
    }
    for (deny, expected) in [
        ("Sandbox", "deny"),
        ("Sandbox(network)", "deny"),
        ("Sandbox(host:a.example)", "beyond"),
    ] {
        let policy = Policy {
            deny: rules(&[deny]),
            ..policy(Mode::Default, Some(within()), &[])
        };
        assert_eq!(
            word(&policy.decide("bash", &make(Grant::Network))),
            expected,
            "{deny}"
        );
    }
    // What the line itself is seen to need is one question with it, and one answer.
    let curl = Access::command("curl https://a.example").wanting(Grant::Host("a.example".into()));
    let allowed = policy(Mode::Default, Some(within()), &["Bash(curl *)"]);
    assert_eq!(word(&allowed.decide("bash", &curl)), "allow");
    let more = curl.wanting(Grant::Write("/opt".into()));
    assert_eq!(word(&allowed.decide("bash", &more)), "beyond");
}

#[test]
fn always_covers_what_the_line_needs() {
    let policy = policy(Mode::Default, Some(within()), &[]);
    for access in [
        Access::command("curl https://a.example > /opt/x"),
        Access::command("make").wanting(Grant::Network),
        Access::command("make").wanting(Grant::Write("/opt/a*".into())),
        Access::command("git push && sudo ls"),
    ] {
        let rules = policy.allow_always_rules("bash", &access);
        assert!(!rules.is_empty(), "{access:?}");
        let saved = Policy {
            allow: rules,
            ..policy.clone()
        };
        assert_eq!(saved.decide("bash", &access), Decision::Allow);
        let other = Access::command("touch /srv/x");
        assert_eq!(word(&saved.decide("bash", &other)), "beyond");
    }
}

#[test]
fn what_is_typed_into_a_confined_program_is_confined() {
    let type_in = |text: &str| Access::effectful().typing(text);
    let plain = policy(Mode::Default, Some(within()), &[]);
    assert_eq!(
        word(&plain.decide("terminal", &type_in("rm -rf x\n"))),
        "allow"
    );
    let denies = Policy {
        deny: rules(&["Bash(rm *)"]),
        ..plain
    };
    assert_eq!(
        word(&denies.decide("terminal", &type_in("rm -rf x\n"))),
        "deny"
    );
    assert_eq!(word(&denies.decide("terminal", &type_in("ls\n"))), "allow");
}

#[test]
fn effects_tell_what_is_read_written_and_talked_to() {
    let effects = analyse("sort < in > out; curl https://a.example | tee log; $x").effects();
    let words = |touched: &[tooloop_policy::shell::Touched]| -> Vec<String> {
        touched
            .iter()
            .map(|touched| touched.word.raw.clone())
            .collect()
    };
    assert_eq!(words(&effects.reads), ["in"]);
    assert_eq!(words(&effects.writes), ["out", "log"]);
    let hosts: Vec<_> = effects
        .contacts
        .iter()
        .map(|contact| contact.host.as_deref())
        .collect();
    assert_eq!(hosts, [Some("a.example")]);
    assert!(effects.is_unknown);
    assert!(!analyse("ls | wc -l").effects().is_unknown);
    assert!(analyse("'").effects().is_unknown);
}

#[test]
fn rules_about_the_sandbox_are_tied_to_their_folder() {
    let anchored = |text: &str| {
        let rule: Rule = text.parse().unwrap();
        rule.anchored(Path::new("/w"), Some(Path::new("/home/u")))
            .to_string()
    };
    assert_eq!(
        anchored("Sandbox(write:~/notes/**)"),
        "Sandbox(write:/home/u/notes/**)"
    );
    assert_eq!(
        anchored("Sandbox(write:../out/**)"),
        "Sandbox(write:/w/../out/**)"
    );
    assert_eq!(anchored("Sandbox(write:/opt/**)"), "Sandbox(write:/opt/**)");
    assert_eq!(anchored("Sandbox(network)"), "Sandbox(network)");
}

#[test]
fn an_explanation_shows_each_part() {
    let policy = Policy {
        deny: rules(&["Bash(git push *)"]),
        ..policy(Mode::Default, Some(within()), &["Bash(cc *)"])
    };
    let access =
        Access::command("cc | env LC_ALL=C sh -c 'git push > /opt/x'").wanting(Grant::Network);
    let explanation = policy.explain("bash", &access);
    let parts: Vec<_> = explanation
        .parts
        .iter()
        .map(|part| {
            let rule = part
                .rule
                .as_ref()
                .map(|met| format!("{} {} {}", met.list.name(), met.index, met.rule));
            (
                part.text.as_str(),
                part.wrappers.join(" "),
                part.verdict.name(),
                rule.unwrap_or_default(),
            )
        })
        .collect();
    let table = [
        ("cc", "", "allowed", "allow 0 Bash(cc *)"),
        ("env LC_ALL=C sh -c 'git push > /opt/x'", "", "harmless", ""),
        ("sh -c 'git push > /opt/x'", "env", "harmless", ""),
        (
            "git push > /opt/x",
            "env sh",
            "denied",
            "deny 0 Bash(git push *)",
        ),
        ("> /opt/x", "", "beyond the sandbox", ""),
        ("network", "", "beyond the sandbox", ""),
    ];
    let table = table.map(|(a, b, c, d)| (a, b.to_owned(), c, d.to_owned()));
    assert_eq!(parts, table);
    assert!(explanation.decision.is_deny());
    let write = Grant::Write("/opt/x".into());
    assert_eq!(explanation.beyond, [Grant::Network, write]);
    let call = policy.explain("mcp__a__b", &Access::effectful());
    assert_eq!(call.parts[0].verdict.name(), "not covered");
    let edit = Access::effectful().writing("/w/a");
    assert!(matches!(edit.touches[0], Touch::Write(_)));
    assert_eq!(
        policy.explain("edit", &edit).parts[0].verdict.name(),
        "not covered"
    );
}
