//! What a policy decides, as tables.

use std::path::Path;

use tooloop_policy::{
    Access, AccessEffect, Confinement, Decision, FileFacts, Grant, Mode, Policy, Rule, Touch,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Allow,
    Ask,
    Deny,
}
use Verdict::{Allow, Ask, Deny};

fn rules(texts: &[&str]) -> Vec<Rule> {
    texts
        .iter()
        .filter_map(|text| match text.parse() {
            Ok(rule) => Some(rule),
            Err(error) => {
                assert_eq!(format!("{error}"), "", "{text}");
                None
            }
        })
        .collect()
}

fn policy(mode: Mode, deny: &[&str], ask: &[&str], allow: &[&str]) -> Policy {
    Policy {
        mode,
        deny: rules(deny),
        ask: rules(ask),
        allow: rules(allow),
        ..Policy::default()
    }
}

fn verdict(decision: &Decision) -> Verdict {
    match decision {
        Decision::Allow => Allow,
        Decision::Ask { .. } => Ask,
        Decision::Deny { .. } => Deny,
    }
}

/// Checks every line and shows all that come out wrong.
fn check_lines(policy: &Policy, table: &[(&str, Verdict)]) {
    let wrong: Vec<_> = table
        .iter()
        .map(|(line, expected)| {
            let decision = policy.decide("bash", &Access::command(*line));
            (line, expected, decision)
        })
        .filter(|(_, expected, decision)| verdict(decision) != **expected)
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn an_allowed_prefix_is_not_a_blank_cheque() {
    let policy = policy(
        Mode::Default,
        &[],
        &[],
        &["Bash(git log *)", "Bash(ls *)", "Bash(echo *)"],
    );
    // Each with the part that the question has to name.
    let asks = [
        ("git log; touch M", "touch M"),
        ("git log && touch M", "touch M"),
        ("git log\ntouch M", "touch M"),
        ("git log | tee M", "tee M"),
        ("git log & touch M", "touch M"),
        ("git log `touch M`", "touch M"),
        ("ls $(touch M)", "touch M"),
        ("ls <(touch M)", "touch M"),
        ("git log > M", "> M"),
        ("echo x >> M", ">> M"),
        ("echo x >| M", ">| M"),
        ("{ ls; touch M; }", "touch M"),
        ("if ls; then touch M; fi", "touch M"),
        ("(ls; touch M)", "touch M"),
        ("while ls; do touch M; done", "touch M"),
        ("case a in a) touch M;; esac", "touch M"),
        ("f() { touch M; }; f", "touch M"),
        ("ls || touch M", "touch M"),
        ("! touch M", "touch M"),
        ("echo \"$(touch M)\"", "touch M"),
        ("echo \"`touch M`\"", "touch M"),
        ("echo $(echo $(touch M))", "touch M"),
        ("echo ${x:-$(touch M)}", "touch M"),
        ("x=$(touch M) ls", "touch M"),
        ("cat <<EOF\n$(touch M)\nEOF", "touch M"),
        ("cat <<EOF\nx\nEOF\ntouch M", "touch M"),
        ("ls 2> M", "2> M"),
        ("ls &> M", "&> M"),
        ("ls >&M", ">&M"),
        ("{ ls; } > M", "> M"),
        ("> M", "> M"),
        ("ls | xargs touch", "touch"),
        ("ls | xargs -I{} touch {}", "touch {}"),
        ("timeout 5 touch M", "touch M"),
        ("env touch M", "touch M"),
        ("env A=1 ls", "env A=1 ls"),
        ("PATH=. ls", "PATH=. ls"),
        ("LD_PRELOAD=./x.so git log", "LD_PRELOAD=./x.so git log"),
        ("PATH=.; ls", "PATH=."),
        ("sh -c 'touch M'", "touch M"),
        ("bash -c 'ls; touch M'", "touch M"),
        ("sh -c 'ls > M'", "> M"),
        ("eval 'touch M'", "touch M"),
        ("eval \"$x\"", "eval \"$x\""),
        ("find . -exec touch M \\;", "touch M"),
        ("$x", "$x"),
        ("git -c core.pager=x log", "git -c core.pager=x log"),
        ("git logs", "git logs"),
        ("./git log", "./git log"),
        ("'git log'", "'git log'"),
        ("echox", "echox"),
        ("ls 'unclosed", "not closed"),
        ("x='a[$(touch M)]'; echo $((x))", "evaluates"),
    ];
    for (line, part) in asks {
        let decision = policy.decide("bash", &Access::command(line));
        assert_eq!(verdict(&decision), Ask, "{line:?}: {decision:?}");
        let reason = decision.reason().unwrap_or_default();
        assert!(reason.contains(part), "{line:?}: {reason}");
    }
    let runs = [
        "git log -n 1",
        "git log",
        "ls -l && echo done",
        "echo \"a; b && c > d\"",
        "ls 2>/dev/null",
        "git log 2>&1",
        "git log --output=x",
        "git --no-pager log -n 1",
        "git log | head -5",
        "git log & ls",
        "f() { ls; }; f",
        "timeout 5 git log",
        "command git log",
        "nohup git log",
        "sh -c 'git log; ls'",
        "bash -lc 'git log'",
        "eval git log",
        "ls | xargs git log",
        "echo $x $(ls) `ls`",
        "for f in *; do echo $f; done",
        "LC_ALL=C ls",
        "x=1; echo $x",
        "echo x > /dev/null",
        "cat <<EOF\n$(ls)\nEOF",
    ];
    for line in runs {
        assert_eq!(
            policy.decide("bash", &Access::command(line)),
            Decision::Allow,
            "{line:?}"
        );
    }
}

#[test]
fn a_denied_command_is_found_in_every_spelling() {
    for (mode, allow) in [
        (Mode::Default, &["Bash"][..]),
        (Mode::Default, &["Bash(*)"][..]),
        (Mode::BypassPermissions, &[][..]),
    ] {
        let policy = policy(mode, &["Bash(git push *)"], &[], allow);
        check_lines(
            &policy,
            &[
                ("git push", Deny),
                ("git push origin main", Deny),
                ("A=1 git push", Deny),
                ("env git push", Deny),
                ("env -i A=1 git push", Deny),
                ("env -u X git push", Deny),
                ("command git push", Deny),
                ("builtin command git push", Deny),
                ("exec git push", Deny),
                ("exec -a x git push", Deny),
                ("timeout 5 git push", Deny),
                ("timeout -s KILL -k 1 5 git push", Deny),
                ("nice -n 5 git push", Deny),
                ("nice -5 git push", Deny),
                ("nohup git push", Deny),
                ("stdbuf -oL git push", Deny),
                ("stdbuf -o L git push", Deny),
                ("time git push", Deny),
                ("time -p git push", Deny),
                ("\\time -p git push", Deny),
                ("sudo git push", Deny),
                ("sudo -u root git push", Deny),
                ("sudo -n A=1 git push", Deny),
                ("doas git push", Deny),
                ("setsid git push", Deny),
                ("ionice -c 3 git push", Deny),
                ("taskset 1 git push", Deny),
                ("flock lock git push", Deny),
                ("busybox env git push", Deny),
                ("watch git push", Deny),
                ("watch -n 1 'ls; git push'", Deny),
                ("sh -c 'git push'", Deny),
                ("bash -lc \"git push\"", Deny),
                ("dash -c 'git push'", Deny),
                ("zsh -c 'git push'", Deny),
                ("/bin/sh -c 'git push'", Deny),
                ("sh -c \"sh -c 'git push'\"", Deny),
                ("bash -o pipefail -ec 'git push'", Deny),
                ("eval git push", Deny),
                ("eval 'git push'", Deny),
                ("eval \"eval git push\"", Deny),
                ("trap 'git push' EXIT", Deny),
                ("git -C . push", Deny),
                ("git -C \"$d\" push", Deny),
                ("git --no-pager push", Deny),
                ("git -c a.b=c push", Deny),
                ("git --git-dir=x --work-tree y push", Deny),
                ("g\\it push", Deny),
                ("\"git\" push", Deny),
                ("g''i\"t\" push", Deny),
                ("git 'push'", Deny),
                ("git pu\\sh", Deny),
                ("git  \\\n push", Deny),
                ("/usr/bin/git push", Deny),
                ("./git push", Deny),
                ("GIT push", Deny),
                ("find . -maxdepth 0 -exec git push \\;", Deny),
                ("find . -execdir git push {} +", Deny),
                ("find . -ok git push \\;", Deny),
                ("fd -x git push", Deny),
                ("echo x | xargs git push", Deny),
                ("xargs -n 1 -I{} git push {} < f", Deny),
                ("ls; git push", Deny),
                ("ls && git push", Deny),
                ("ls | git push", Deny),
                ("ls & git push", Deny),
                ("(git push)", Deny),
                ("{ git push; }", Deny),
                ("if ls; then git push; fi", Deny),
                ("while git push; do ls; done", Deny),
                ("for i in 1; do git push; done", Deny),
                ("case a in a) git push;; esac", Deny),
                ("f() { git push; }; f", Deny),
                ("function f { git push; }; f", Deny),
                ("echo $(git push)", Deny),
                ("echo `git push`", Deny),
                ("echo \"$(git push)\"", Deny),
                ("cat <(git push)", Deny),
                ("cat <<EOF\n$(git push)\nEOF", Deny),
                ("cat <<'EOF'\n$(git push)\nEOF", Allow),
                ("x=$(git push)", Deny),
                ("! git push", Deny),
                ("git push > log 2>&1", Deny),
                ("git push --force", Deny),
                // The real program cannot be known.
                ("echo push | xargs git", Ask),
                ("echo push | xargs -I X git X", Ask),
                ("echo git | xargs -I X X push", Ask),
                ("git $x", Ask),
                ("git \"$x\"", Ask),
                ("git p$x", Ask),
                ("git {push,log}", Ask),
                ("git pu?h", Ask),
                ("git $(echo push)", Ask),
                ("git $'\\x70ush'", Ask),
                ("$x", Ask),
                ("$x push", Ask),
                ("$(echo git) push", Ask),
                ("g$x push", Ask),
                ("{git,push}", Ask),
                ("gi? push", Ask),
                ("eval \"$x\"", Ask),
                ("eval $x push", Ask),
                ("sh -c \"$x\"", Ask),
                ("sh -c \"git $x\"", Ask),
                ("echo git push | sh", Ask),
                ("bash script.sh", Ask),
                ("bash < script.sh", Ask),
                ("source script.sh", Ask),
                (". script.sh", Ask),
                ("env -S 'git push'", Ask),
                ("env $x git push", Ask),
                ("timeout $x git push", Ask),
                ("timeout --what 5 git push", Ask),
                ("sudo -i git push", Ask),
                ("git -c alias.p=push p", Ask),
                ("git -c ALIAS.p=push p", Ask),
                ("git -c \"$x\" p", Ask),
                ("git --what push", Ask),
                ("git submodule foreach 'git push'", Ask),
                ("git bisect run git push", Ask),
                ("git rebase -x 'git push'", Ask),
                ("alias p='git push'\np", Ask),
                ("parallel git ::: push", Ask),
                ("ssh localhost git push", Ask),
                ("su -c 'git push'", Ask),
                ("script -c 'git push'", Ask),
                ("find . $x git push \\;", Ask),
                ("git push 'unclosed", Ask),
                ("git pushx", Ask),
                ("make", Ask),
                ("trap \"$x\" EXIT", Ask),
                ("f() { git \"$@\"; }; f push", Ask),
                ("cmd=push; git $cmd", Ask),
                ("[[ -f x && git push ]]", Ask),
                ("x='a[$(git push)]'; echo $((x))", Ask),
                // Not it.
                ("git log", Allow),
                ("git log $x", Allow),
                ("git log push", Allow),
                ("echo git push", Allow),
                ("echo 'git push'", Allow),
                ("git commit -m 'git push'", Allow),
                ("env", Allow),
                ("ls | xargs git log", Allow),
                ("touch M > x", Allow),
                ("git -C . log", Allow),
                ("git --version", Allow),
                ("sh -c 'git log'", Allow),
                ("rm -rf $x", Allow),
                ("for f in a b; do rm $f; done", Allow),
            ],
        );
    }
}

#[test]
fn rules_and_modes_have_an_order() {
    let all = ["Bash(touch *)"];
    let line = Access::command("touch M");
    let table = [
        // Deny beats ask beats allow, in every mode.
        (Mode::Default, &all[..], &all[..], &all[..], Deny),
        (Mode::AcceptEdits, &all, &[], &all, Deny),
        (Mode::Plan, &all, &[], &all, Deny),
        (Mode::DontAsk, &all, &[], &all, Deny),
        (Mode::BypassPermissions, &all, &[], &[], Deny),
        (Mode::Default, &[], &all, &all, Ask),
        (Mode::AcceptEdits, &[], &all, &all, Ask),
        (Mode::DontAsk, &[], &all, &all, Deny),
        (Mode::BypassPermissions, &[], &all, &[], Allow),
        (Mode::Default, &[], &[], &all, Allow),
        (Mode::AcceptEdits, &[], &[], &all, Allow),
        (Mode::DontAsk, &[], &[], &all, Allow),
        (Mode::Plan, &[], &[], &all, Deny),
        // No rule.
        (Mode::Default, &[], &[], &[], Ask),
        (Mode::AcceptEdits, &[], &[], &[], Ask),
        (Mode::Plan, &[], &[], &[], Deny),
        (Mode::DontAsk, &[], &[], &[], Deny),
        (Mode::BypassPermissions, &[], &[], &[], Allow),
    ];
    for (mode, deny, ask, allow, expected) in table {
        let decision = policy(mode, deny, ask, allow).decide("bash", &line);
        assert_eq!(
            verdict(&decision),
            expected,
            "{mode} {deny:?} {ask:?} {allow:?}: {decision:?}"
        );
        assert_ne!(decision.reason(), Some(""));
    }
    let read = Access::command("git status");
    for mode in Mode::ALL {
        assert_eq!(
            policy(mode, &[], &[], &[]).decide("bash", &read),
            Decision::Allow,
            "{mode}"
        );
        let denied = policy(mode, &["Bash(git *)"], &[], &[]).decide("bash", &read);
        assert_eq!(verdict(&denied), Deny, "{mode}");
    }
}

#[test]
fn a_doubt_about_a_deny_is_no_allow_in_any_mode() {
    let line = Access::command("git $x");
    let table = [
        (Mode::Default, Ask),
        (Mode::AcceptEdits, Ask),
        (Mode::Plan, Deny),
        (Mode::DontAsk, Deny),
        (Mode::BypassPermissions, Ask),
    ];
    for (mode, expected) in table {
        let decision = policy(mode, &["Bash(git push *)"], &[], &["Bash"]).decide("bash", &line);
        assert_eq!(verdict(&decision), expected, "{mode}: {decision:?}");
    }
}

#[test]
fn edits_are_judged_by_path_and_mode() {
    let edit = |path: &str| Access::read_only().reading(path).writing(path);
    let table = [
        (Mode::Default, &[][..], "src/a.rs", Ask),
        (Mode::AcceptEdits, &[], "src/a.rs", Allow),
        (Mode::Plan, &[], "src/a.rs", Deny),
        (Mode::DontAsk, &[], "src/a.rs", Deny),
        (Mode::BypassPermissions, &[], "src/a.rs", Allow),
        (Mode::Default, &["Edit(src/**)"], "src/a.rs", Allow),
        (Mode::Default, &["Write(src/**)"], "src/a.rs", Allow),
        (Mode::Default, &["Edit"], "src/a.rs", Allow),
        (Mode::Default, &["Edit(src/**)"], "docs/a.md", Ask),
        (Mode::Default, &["Edit(src/**)"], "src/../docs/a.md", Ask),
        (Mode::Default, &["Edit(src/**)"], "/etc/src/a.rs", Ask),
        (Mode::Default, &["Read"], "src/a.rs", Ask),
        (Mode::Default, &["Bash"], "src/a.rs", Ask),
        (Mode::Plan, &["Edit"], "src/a.rs", Deny),
    ];
    for tool in ["edit", "write", "apply_patch"] {
        for (mode, allow, path, expected) in table {
            let decision = policy(mode, &[], &[], allow).decide(tool, &edit(path));
            assert_eq!(
                verdict(&decision),
                expected,
                "{tool} {mode} {allow:?} {path}: {decision:?}"
            );
        }
    }
    let both = edit("src/a.rs").writing("docs/b.md");
    let partly = policy(Mode::Default, &[], &[], &["Edit(src/**)"]).decide("apply_patch", &both);
    assert_eq!(
        partly.reason(),
        Some("writing `docs/b.md` is not covered by an allow rule")
    );
    let denied = policy(Mode::AcceptEdits, &["Edit(docs/**)"], &[], &[]);
    assert_eq!(verdict(&denied.decide("apply_patch", &both)), Deny);
}

#[test]
fn denied_paths_are_found_wherever_they_stand() {
    let policy = policy(
        Mode::BypassPermissions,
        &["Read(./secrets/**)", "Edit(.env)"],
        &[],
        &[],
    );
    let read = |path: &str| verdict(&policy.decide("read", &Access::read_only().reading(path)));
    assert_eq!(read("secrets/key"), Deny);
    assert_eq!(read("/home/u/p/secrets/a/key"), Deny);
    assert_eq!(read("src/../secrets/key"), Deny);
    assert_eq!(read("src/key"), Allow);
    let grep = Access::read_only().reading("src").reading("secrets/key");
    assert_eq!(verdict(&policy.decide("grep", &grep)), Deny);
    let write = Access::effectful().writing("/home/u/p/.env");
    assert_eq!(verdict(&policy.decide("write", &write)), Deny);
    check_lines(
        &policy,
        &[
            ("cat secrets/key", Deny),
            ("cat ./secrets/key | head", Deny),
            ("cat < secrets/key", Deny),
            ("grep --file=secrets/key x", Deny),
            ("env cat secrets/key", Deny),
            ("echo x > .env", Deny),
            ("echo x >> sub/.env", Deny),
            ("cat .env", Allow),
            ("cat README.md", Allow),
            ("echo x > out", Allow),
        ],
    );
}

#[test]
fn anchored_rules_cover_absolute_paths() {
    let policy = policy(
        Mode::Default,
        &["Edit(.git/**)"],
        &[],
        &["Edit(src/**)", "Bash(ls *)"],
    )
    .anchored(Path::new("/w/p"), None);
    let edit = |path: &str| verdict(&policy.decide("edit", &Access::effectful().writing(path)));
    assert_eq!(edit("/w/p/src/a.rs"), Allow);
    assert_eq!(edit("/w/p/src/../x"), Ask);
    assert_eq!(edit("/w/q/src/a.rs"), Ask);
    assert_eq!(edit("/w/p/.git/config"), Deny);
    assert_eq!(edit("/w/q/.git/config"), Ask);
}

#[test]
fn anchored_rules_are_held_against_shell_lines_too() {
    let rules = [
        "Read(./secrets/**)",
        "Read(.env)",
        "Read(~/.ssh/**)",
        "Read(/etc/shadow)",
        "Edit(gen/**)",
    ];
    let policy = Policy {
        roots: vec!["/w/p".into(), "/w/q".into()],
        ..policy(Mode::Default, &rules, &[], &["Bash"])
    }
    .anchored(Path::new("/w/p"), Some(Path::new("/home/u")));
    let table = [
        ("cat secrets/key", Deny),
        ("cat ./secrets/../secrets/key", Deny),
        ("cat ../p/secrets/key", Deny),
        ("cat < secrets/key", Deny),
        ("cat secrets/*", Deny),
        ("cat secrets/$X", Deny),
        ("cd secrets", Deny),
        ("cat /w/p/secrets/key", Deny),
        ("cat .env", Deny),
        ("cat sub/.env", Deny),
        ("cat ~/.ssh/id", Deny),
        ("cat /home/u/.ssh/id", Deny),
        ("cat /etc/shadow", Deny),
        ("dd if=secrets/key", Deny),
        ("echo x > gen/a", Deny),
        ("echo x > gen/$X", Deny),
        ("cat /w/q/other", Allow),
        ("cat secret", Allow),
        ("cat sub/secrets/key", Allow),
        ("cat ~/.bashrc", Allow),
        ("cat */key", Ask),
        ("cat gen/a", Allow),
    ];
    for (line, expected) in table {
        let decision = policy.decide("bash", &Access::command(line));
        assert_eq!(verdict(&decision), expected, "{line}");
    }
}

#[test]
fn rules_that_refuse_hold_where_links_lead() {
    let rules = [
        "Read(/w/p/secrets/**)",
        "Read(/w/p/*/key)",
        "Read(.env)",
        "Read(/**)",
        "Bash(/w/p/secrets/x)",
    ];
    let real = |path: &Path| match path.to_str() {
        Some("/w/p/secrets") => "/vault/a*b".into(),
        _ => path.to_owned(),
    };
    let before = policy(Mode::Default, &rules, &[], &["Read(/w/p/secrets/**)"]);
    let policy = before.clone().with_links_followed(real);
    let denied: Vec<_> = policy.deny.iter().map(ToString::to_string).collect();
    let more = [r"Read(/vault/a\*b/**)"];
    assert_eq!(denied, [&rules[..], &more[..]].concat());
    assert_eq!(policy.allow, before.allow);
}

#[test]
fn hosts_need_a_rule_even_for_reading() {
    let fetch = |host: &str| Access::read_only().host(host);
    let table = [
        (&[][..], &[][..], "example.com", Ask),
        (&[], &["WebFetch"], "example.com", Allow),
        (&[], &["WebFetch(domain:example.com)"], "example.com", Allow),
        (
            &[],
            &["WebFetch(domain:example.com)"],
            "EXAMPLE.com.",
            Allow,
        ),
        (
            &[],
            &["WebFetch(domain:example.com)"],
            "example.com:443",
            Allow,
        ),
        (&[], &["WebFetch(domain:example.com)"], "a.example.com", Ask),
        (
            &[],
            &["WebFetch(domain:example.com)"],
            "badexample.com",
            Ask,
        ),
        (
            &[],
            &["WebFetch(domain:*.example.com)"],
            "a.example.com",
            Allow,
        ),
        (&[], &["WebFetch(domain:*.example.com)"], "example.com", Ask),
        (
            &["WebFetch(domain:example.com)"],
            &["WebFetch"],
            "example.com",
            Deny,
        ),
        (
            &["WebFetch(domain:example.com)"],
            &["WebFetch"],
            "example.org",
            Allow,
        ),
    ];
    for (deny, allow, host, expected) in table {
        let decision = policy(Mode::Default, deny, &[], allow).decide("web_fetch", &fetch(host));
        assert_eq!(
            verdict(&decision),
            expected,
            "{deny:?} {allow:?} {host}: {decision:?}"
        );
    }
}

#[test]
fn tools_without_touches_are_judged_by_name_and_effect() {
    let tool = "mcp__git__push";
    let table = [
        (Access::read_only(), &[][..], &[][..], Allow),
        (Access::idempotent(), &[], &[], Ask),
        (Access::effectful(), &[], &[], Ask),
        (Access::effectful(), &[], &["mcp__git__push"], Allow),
        (Access::effectful(), &[], &["mcp__git"], Allow),
        (Access::effectful(), &[], &["mcp__git__*"], Allow),
        (Access::effectful(), &[], &["mcp__git__pull"], Ask),
        (Access::effectful(), &[], &["Bash", "Edit", "WebFetch"], Ask),
        (Access::read_only(), &["mcp__git"], &[], Deny),
        (
            Access::effectful(),
            &["MCP__GIT__PUSH"],
            &["mcp__git"],
            Deny,
        ),
        // A specifier that cannot be compared with the call does not let it pass.
        (
            Access::read_only(),
            &["mcp__git__push(main)"],
            &["mcp__git"],
            Ask,
        ),
        (Access::effectful(), &[], &["mcp__git__push(main)"], Ask),
    ];
    for (access, deny, allow, expected) in table {
        let decision = policy(Mode::Default, deny, &[], allow).decide(tool, &access);
        assert_eq!(
            verdict(&decision),
            expected,
            "{access:?} {deny:?} {allow:?}: {decision:?}"
        );
    }
}

#[test]
fn nobody_is_asked_about_the_session_s_own_state() {
    let session = Access::session;
    let command = |line: &str| Access::command(line).changing_session();
    let table = [
        (Mode::Default, session(), &[][..], &[][..], Allow),
        (Mode::AcceptEdits, session(), &[], &[], Allow),
        (Mode::Plan, session(), &[], &[], Allow),
        (Mode::DontAsk, session(), &[], &[], Allow),
        (Mode::BypassPermissions, session(), &[], &[], Allow),
        // Rules speak about it by its tool's name.
        (Mode::Default, session(), &["todo"], &[], Deny),
        (Mode::Default, session(), &[], &["Todo"], Ask),
        (
            Mode::Default,
            session(),
            &["Bash", "Edit"],
            &["Read"],
            Allow,
        ),
        // What else it touches is judged as it would be without.
        (Mode::Default, command("sleep 100"), &[], &[], Allow),
        (Mode::Plan, command("sleep 100"), &[], &[], Allow),
        (
            Mode::Default,
            command("sleep 100"),
            &["Bash(sleep *)"],
            &[],
            Deny,
        ),
        (Mode::Default, command("touch M"), &[], &[], Ask),
        (Mode::Plan, command("touch M"), &[], &[], Deny),
        (Mode::Default, session().writing("M"), &[], &[], Ask),
        (Mode::Plan, session().writing("M"), &[], &[], Deny),
        (Mode::Default, session().reading("M"), &[], &[], Allow),
        (Mode::Default, session().host("a.example"), &[], &[], Ask),
    ];
    for (mode, access, deny, ask, expected) in table {
        let decision = policy(mode, deny, ask, &[]).decide("todo", &access);
        assert_eq!(
            verdict(&decision),
            expected,
            "{mode} {access:?} {deny:?} {ask:?}: {decision:?}"
        );
    }
}

#[test]
fn an_effect_only_grows() {
    let table = [
        (
            Access::read_only().changing_session(),
            AccessEffect::Session,
        ),
        (Access::session().changing_session(), AccessEffect::Session),
        (
            Access::idempotent().changing_session(),
            AccessEffect::Idempotent,
        ),
        (
            Access::effectful().changing_session(),
            AccessEffect::Effectful,
        ),
        (Access::session().writing("M"), AccessEffect::Effectful),
        (Access::idempotent().writing("M"), AccessEffect::Idempotent),
        (
            Access::session().reading("M").host("h"),
            AccessEffect::Session,
        ),
    ];
    for (access, expected) in table {
        assert_eq!(access.effect, expected, "{access:?}");
    }
}

#[test]
fn a_statement_of_effect_is_not_believed_over_the_line() {
    for effect in [AccessEffect::ReadOnly, AccessEffect::Session] {
        let lying = Access {
            effect,
            touches: vec![Touch::Command("touch M".to_owned())],
            ..Access::read_only()
        };
        assert_eq!(verdict(&Policy::default().decide("bash", &lying)), Ask);
        let plan = policy(Mode::Plan, &[], &[], &["Bash"]);
        assert_eq!(verdict(&plan.decide("bash", &lying)), Deny);
    }
}

#[test]
fn what_is_typed_into_a_program_is_never_proven() {
    let table = [
        ("ls\n", &[][..], &[][..], Ask),
        ("ls\n", &[], &["Bash(ls *)", "Bash(ls)"], Ask),
        ("ls\n", &[], &["terminal"], Allow),
        ("ls\n", &[], &["Bash"], Allow),
        ("print(1)\n", &["Bash(rm *)"], &["terminal"], Allow),
        ("rm -r x\n", &["Bash(rm *)"], &["terminal"], Deny),
        (
            "cat secrets/key\n",
            &["Read(secrets/**)"],
            &["terminal"],
            Deny,
        ),
        ("ls\n", &["terminal"], &["Bash"], Deny),
    ];
    for (text, deny, allow, expected) in table {
        let access = Access::effectful().typing(text);
        let decision = policy(Mode::Default, deny, &[], allow).decide("terminal", &access);
        assert_eq!(
            verdict(&decision),
            expected,
            "{text} {deny:?} {allow:?}: {decision:?}"
        );
        let plan = policy(Mode::Plan, deny, &[], allow);
        assert_eq!(verdict(&plan.decide("terminal", &access)), Deny, "{text}");
    }
    let access = Access::effectful().typing("ls");
    assert_eq!(
        Policy::default().allow_always_rules("terminal", &access),
        []
    );
    assert_eq!(
        Policy::default().decide("terminal", &access).reason(),
        Some("`ls` on a terminal is not covered by an allow rule for all of `terminal`")
    );
}

#[test]
fn nobody_is_asked_about_a_thing_of_the_sessions_own() {
    let stop = Access::session();
    let table = [
        (stop.clone(), Allow, Allow),
        (Access::command("sleep 9").changing_session(), Allow, Allow),
        (Access::command("make").changing_session(), Ask, Deny),
        (stop.clone().writing("/x"), Ask, Deny),
        (stop.clone().typing("x"), Ask, Deny),
    ];
    for (access, expected, in_plan) in table {
        assert!(access.effect > AccessEffect::ReadOnly);
        let decision = Policy::default().decide("job_stop", &access);
        assert_eq!(verdict(&decision), expected, "{access:?}: {decision:?}");
        let decision = policy(Mode::Plan, &[], &[], &[]).decide("job_stop", &access);
        assert_eq!(verdict(&decision), in_plan, "{access:?}: {decision:?}");
    }
    let denied = policy(Mode::Default, &["job_stop"], &[], &[]).decide("job_stop", &stop);
    assert_eq!(verdict(&denied), Deny);
    let make = Access::command("make").changing_session();
    let rules = Policy::default().allow_always_rules("bash", &make);
    assert_eq!(rules, ["Bash(make)".parse().unwrap()]);
}

#[test]
fn allow_rules_match_words_and_no_more() {
    let table = [
        ("Bash(git log)", "git log", Allow),
        ("Bash(git log)", "git log -n 1", Allow), // proven, needs no rule
        ("Bash(make test)", "make test", Allow),
        ("Bash(make test)", "make 'test'", Allow),
        ("Bash(make test)", "make test all", Ask),
        ("Bash(make test)", "make", Ask),
        ("Bash(make test)", "make test > out", Ask),
        ("Bash(make test)", "cd src && make test", Allow),
        ("Bash(npm run:*)", "npm run build -- -x", Allow),
        ("Bash(npm run:*)", "npm run", Allow),
        ("Bash(npm run:*)", "npm runner", Ask),
        ("Bash(npm run *)", "npm run build", Allow),
        ("Bash(npm * test)", "npm -s test", Allow),
        ("Bash(npm * test)", "npm -s test; rm x", Ask),
        ("Bash(make*)", "make x", Allow),
        ("Bash(make*)", "makefoo", Allow),
        ("bash(make *)", "make x", Allow),
        ("Bash(make *)", "make $x \"$(ls)\"", Allow),
        ("Bash(make a)", "make $x", Ask),
        (
            "Bash(RUST_LOG=debug cargo test *)",
            "RUST_LOG=debug cargo test x",
            Allow,
        ),
        (
            "Bash(RUST_LOG=debug cargo test *)",
            "RUST_LOG=info cargo test x",
            Ask,
        ),
        ("Bash(cargo test *)", "RUST_LOG=debug cargo test x", Ask),
        // A rule about a wrapper covers what it names, not whatever is wrapped.
        ("Bash(sudo apt *)", "sudo apt update", Allow),
        ("Bash(sudo *)", "sudo apt update", Ask),
        ("Bash(apt *)", "sudo apt update", Ask),
        ("Bash(timeout *)", "timeout 5 rm x", Ask),
        ("Bash(rm x)", "timeout 5 rm x", Allow),
        ("Bash(xargs rm *)", "ls | xargs rm -f", Allow),
        ("Bash(xargs *)", "ls | xargs rm -f", Ask),
        ("Bash(find *)", "find . -name x -delete", Allow),
        ("Bash(find *)", "find . -exec rm {} \\;", Ask),
        ("Bash(bash *)", "bash -c 'rm x'", Ask),
        ("Bash(bash *)", "bash script.sh", Allow),
        ("Bash(bash -c 'rm x')", "bash -c 'rm x'", Allow),
        (
            "Bash(bash -c 'rm x > y')",
            "bash -c 'rm x > y' && ls",
            Allow,
        ),
        ("Bash(source env/activate)", "source env/activate", Allow),
        ("Bash(source env/activate)", "source other", Ask),
        // A rule without a star may be a whole line, as it stands.
        ("Bash(echo x > out)", "echo x > out", Allow),
        ("Bash(echo x > out)", "echo x > out2", Ask),
        ("Bash(touch a; rm b)", "touch a; rm b", Allow),
        ("Bash(touch a; rm b)", "touch 'a;' rm b", Ask),
        ("Bash(rm $x)", "rm $x", Allow),
        ("Bash(rm $x)", "rm '$x'", Ask),
        ("Bash(rm \\*.txt)", "rm *.txt", Allow),
        ("Bash(rm \\*.txt)", "rm a.txt", Ask),
        ("Bash(echo 'unclosed)", "echo 'unclosed", Allow),
        ("Bash(echo 'unclosed)", "echo 'unclosed x", Ask),
        ("Bash", "anything > goes; 'even this", Allow),
        ("Bash(*)", "anything > goes; 'even this", Allow),
        ("Read", "touch M", Ask),
    ];
    let wrong: Vec<_> = table
        .into_iter()
        .map(|(rule, line, expected)| {
            let policy = policy(Mode::Default, &[], &[], &[rule]);
            let decision = policy.decide("bash", &Access::command(line));
            (rule, line, expected, decision)
        })
        .filter(|(_, _, expected, decision)| verdict(decision) != *expected)
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn always_allows_this_call_and_no_other() {
    let lines = [
        "touch 1.txt",
        "touch *.txt",
        "touch \\*",
        "echo x > out",
        "rm $x",
        "npm run:*",
        "a; b && c",
        "printf 'a\nb'",
        "echo (unclosed",
        "  touch x  ",
        "echo $(touch M) \"`x`\"",
        "git commit -m \"$(cat <<'EOF'\nfix: (a) b\nEOF\n)\"",
    ];
    for line in lines {
        let access = Access::command(line);
        let rules = Policy::default().allow_always_rules("bash", &access);
        assert_eq!(rules.len(), 1, "{line:?}");
        assert_eq!(rules[0].to_string().parse::<Rule>().as_ref(), Ok(&rules[0]));
        let policy = Policy {
            allow: rules,
            ..Policy::default()
        };
        assert_eq!(policy.decide("bash", &access), Decision::Allow, "{line:?}");
        for other in [
            "rm 1.txt",
            "touch 2.txt",
            "touch a.txt",
            "rm y",
            "npm run x",
            "c",
        ] {
            let decision = policy.decide("bash", &Access::command(other));
            assert_eq!(verdict(&decision), Ask, "{line:?} must not allow {other:?}");
        }
    }
}

#[test]
fn always_is_offered_only_where_a_rule_can_say_it() {
    let offered = |tool: &str, access: &Access| {
        let rules = Policy::default().allow_always_rules(tool, access);
        let rules: Vec<_> = rules.iter().map(ToString::to_string).collect();
        rules.join(" ")
    };
    let table = [
        ("bash", Access::command("touch 1.txt"), "Bash(touch 1.txt)"),
        (
            "edit",
            Access::effectful().writing("/w/a*b"),
            "Edit(/w/a\\*b)",
        ),
        ("edit", Access::effectful().writing("a"), ""),
        (
            "fetch",
            Access::read_only().host("a.b"),
            "WebFetch(domain:a.b)",
        ),
        ("mcp__a__b", Access::effectful(), ""),
        (
            "patch",
            Access::effectful().writing("/a").writing("/b"),
            "Edit(/a) Edit(/b)",
        ),
        (
            "bash",
            Access::command("curl x.example").wanting(Grant::Host("x.example".into())),
            "Bash(curl x.example) Sandbox(host:x.example)",
        ),
        (
            "bash",
            Access::command("touch M").wanting(Grant::Write("/a*".into())),
            "Bash(touch M) Sandbox(write:/a\\*)",
        ),
    ];
    for (tool, access, expected) in table {
        assert_eq!(offered(tool, &access), expected, "{tool}");
    }
}

#[test]
fn a_refusal_names_its_rule() {
    let policy = policy(
        Mode::Default,
        &["Bash(git push *)"],
        &["Bash(cargo publish *)"],
        &["Bash"],
    );
    let reason = |line: &str| {
        policy
            .decide("bash", &Access::command(line))
            .reason()
            .map(str::to_owned)
    };
    assert_eq!(
        reason("ls; env git push x").as_deref(),
        Some("`git push x` is denied by the rule Bash(git push *)")
    );
    assert_eq!(
        reason("cargo publish").as_deref(),
        Some("the rule Bash(cargo publish *) asks about `cargo publish`")
    );
    let long = format!("git push {}\u{1b}[31m", "x".repeat(1000));
    let reason = reason(&long).unwrap_or_default();
    assert!(reason.len() < 400 && !reason.contains('\u{1b}'), "{reason}");
}

#[test]
fn what_lies_outside_of_the_roots_needs_a_rule_that_names_it() {
    let read = |path: &str| Access::read_only().reading(path);
    let edit = |path: &str| Access::effectful().reading(path).writing(path);
    let table: &[(Mode, &[&str], Access, Verdict)] = &[
        (Mode::Default, &[], read("/w/a"), Allow),
        (Mode::Default, &[], read("/w"), Allow),
        (Mode::Default, &[], read("/added/a"), Allow),
        (Mode::Default, &[], read("/wide/a"), Ask),
        (Mode::Default, &[], read("/w/../etc/passwd"), Ask),
        (Mode::Default, &["Read"], read("/etc/passwd"), Ask),
        (
            Mode::Default,
            &["Read(/etc/**)"],
            read("/etc/passwd"),
            Allow,
        ),
        (
            Mode::Default,
            &["Edit(/etc/**)"],
            read("/etc/passwd"),
            Allow,
        ),
        (Mode::Default, &["Read(/etc/**)"], edit("/etc/passwd"), Ask),
        (Mode::Default, &["Edit", "Write"], edit("/etc/passwd"), Ask),
        (Mode::Default, &["Edit"], edit("/w/a"), Allow),
        (
            Mode::Default,
            &["Edit(/etc/**)"],
            edit("/etc/passwd"),
            Allow,
        ),
        (Mode::AcceptEdits, &[], edit("/w/a"), Allow),
        (Mode::AcceptEdits, &[], edit("/etc/passwd"), Ask),
        (Mode::DontAsk, &[], read("/etc/passwd"), Deny),
        (Mode::BypassPermissions, &[], edit("/etc/passwd"), Allow),
        // Both where it stands and where it leads.
        (
            Mode::AcceptEdits,
            &[],
            edit("/w/out").writing("/o/new"),
            Ask,
        ),
    ];
    for (mode, allow, access, expected) in table {
        let policy = Policy {
            roots: vec!["/w".into(), "/added".into()],
            ..policy(*mode, &[], &[], allow)
        };
        let decision = policy.decide("edit", access);
        assert_eq!(
            verdict(&decision),
            *expected,
            "{mode:?} {allow:?} {access:?}: {decision:?}"
        );
    }
    let policy = Policy {
        roots: vec!["/w".into()],
        ..Policy::default()
    };
    assert_eq!(
        policy.decide("read", &read("/etc/passwd")).reason(),
        Some("`/etc/passwd` is outside of the workspace")
    );
    let rules = |access: &Access| {
        let rules = policy.allow_always_rules("edit", access);
        rules.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(rules(&edit("/w/a")), ["Edit(/w/a)"]);
    let both = edit("/w/a").writing("/w/b");
    assert_eq!(rules(&both), ["Edit(/w/a)", "Edit(/w/b)"]);
}

#[test]
fn links_in_shell_lines_count_as_what_they_lead_to() {
    let policy = Policy {
        roots: vec!["/w".into()],
        ..policy(
            Mode::Default,
            &["Edit(/w/locked/**)", "Read(/w/secrets/**)"],
            &[],
            &["Bash(cp *)"],
        )
    };
    let facts = FileFacts {
        links: vec![
            ("/w/l".into(), "/out/key".into()),
            ("/w/d/key".into(), "/out/key".into()),
            ("/w/into".into(), "/w/src/file".into()),
            ("/w/e".into(), "/w/locked/a".into()),
            ("/w/s".into(), "/w/secrets/a".into()),
            ("/w/g/config".into(), "/w/.git/config".into()),
        ],
        ..FileFacts::default()
    };
    let table = [
        ("cat f", Allow),
        ("cp f g/config", Ask),
        ("cat into", Allow),
        ("cat l", Ask),
        ("cat < l", Ask),
        ("cat d/key", Ask),
        ("cd d; cat key", Ask),
        ("cat s", Deny),
        ("cp f e", Deny),
        ("cp f free", Allow),
    ];
    for (line, expected) in table {
        let access = Access::command(line).with_facts(facts.clone());
        assert_eq!(verdict(&policy.decide("bash", &access)), expected, "{line}");
    }
    // A line that runs without the sandbox is judged like one where there is none.
    let policy = Policy {
        confinement: Some(Confinement {
            writable: vec!["/w".into()],
            ..Confinement::default()
        }),
        allow: ["Bash(cp *)", "Bash(cat *)", "Sandbox(unconfined)"]
            .map(|rule| rule.parse().unwrap())
            .to_vec(),
        ..policy
    };
    let table = [
        ("cat f", Allow),
        ("cat s", Deny),
        ("cat \"$x\"", Ask),
        ("cp f e", Deny),
        ("cp f g/config", Deny),
        ("cp f free", Allow),
    ];
    for (line, expected) in table {
        let access = Access::command(line)
            .wanting(Grant::Unconfined)
            .with_facts(facts.clone());
        assert_eq!(verdict(&policy.decide("bash", &access)), expected, "{line}");
    }
}

#[test]
fn git_is_asked_about_in_a_repository_that_is_not_trusted() {
    let facts = || FileFacts {
        git_risk: Some("its settings name a program".to_owned()),
        ..FileFacts::default()
    };
    for line in [
        "git status",
        "git log | head",
        "env git diff",
        "ls; git blame f",
    ] {
        for (mode, expected) in [
            (Mode::Default, Ask),
            (Mode::AcceptEdits, Ask),
            (Mode::Plan, Deny),
            (Mode::DontAsk, Deny),
        ] {
            let policy = policy(mode, &[], &[], &[]);
            let trusted = Access::command(line);
            assert_eq!(verdict(&policy.decide("bash", &trusted)), Allow, "{line}");
            let access = trusted.with_facts(facts());
            assert_eq!(access.effect, AccessEffect::Effectful, "{line}");
            assert_eq!(
                verdict(&policy.decide("bash", &access)),
                expected,
                "{line} {mode}"
            );
        }
        // A rule that covers the command says that it may run.
        let covered = policy(Mode::Default, &[], &[], &["Bash(git *)"]);
        let access = Access::command(line).with_facts(facts());
        assert_eq!(verdict(&covered.decide("bash", &access)), Allow, "{line}");
    }
    let access = Access::command("ls").with_facts(facts());
    assert_eq!(access.effect, AccessEffect::ReadOnly);
    let decision = policy(Mode::Default, &[], &[], &[])
        .decide("bash", &Access::command("git status").with_facts(facts()));
    assert!(
        decision
            .reason()
            .unwrap()
            .contains("its settings name a program")
    );
}

#[test]
fn walks_leave_out_files_that_read_rules_match() {
    let held = |mode, deny: &[&str], ask: &[&str], tool: &str, path: &str| {
        let withholding = policy(mode, deny, ask, &[]).withholding(tool);
        withholding.is_some_and(|withholding| withholding.holds(path.as_ref()))
    };
    let default = Mode::Default;
    assert!(held(default, &["Read(/w/s/**)"], &[], "grep", "/w/s/key"));
    assert!(!held(default, &["Read(/w/s/**)"], &[], "grep", "/w/key"));
    assert!(held(default, &[], &["Read(/w/s/**)"], "grep", "/w/s/key"));
    assert!(held(default, &["grep(/w/s/**)"], &[], "grep", "/w/s/key"));
    // Rules about writing, for other tools and without a path hide no file.
    for rule in ["Edit(/w/s/**)", "glob(/w/s/**)", "Bash(/w/s/**)"] {
        assert!(!held(default, &[rule], &[], "grep", "/w/s/key"), "{rule}");
        let none = policy(default, &[rule], &[], &[]).withholding("grep");
        assert!(none.is_none(), "{rule}");
    }
    for rule in ["Read", "grep"] {
        let none = policy(default, &[rule], &[], &[]).withholding("grep");
        assert!(none.is_none(), "{rule}");
    }
    // In bypassPermissions only deny rules count.
    let bypass = Mode::BypassPermissions;
    assert!(held(bypass, &["Read(/w/s/**)"], &[], "grep", "/w/s/key"));
    assert!(!held(bypass, &[], &["Read(/w/s/**)"], "grep", "/w/s/key"));
}

#[test]
fn paths_of_deny_rules_are_named_for_a_sandbox() {
    let denied = |rule: &str| policy(Mode::Default, &[rule], &[], &[]).denied_paths();
    // Rule, start, whether the start itself is denied, whether reading is denied.
    for (rule, start, is_start, is_read) in [
        ("Edit(/w/locked/**)", "/w/locked", true, false),
        ("Read(/w/key)", "/w/key", true, true),
        ("Read(/w/keys/)", "/w/keys", true, true),
        ("Read(/w/*.pem)", "/w", false, true),
        ("Write(/w/a?/b)", "/w", false, false),
        ("Read(/**/key)", "/", false, true),
        ("Read(/w/**/**)", "/w", true, true),
    ] {
        let [path] = &*denied(rule) else {
            panic!("{rule}");
        };
        assert_eq!(path.start(), Path::new(start), "{rule}");
        assert_eq!(
            (path.is_start(), path.is_read),
            (is_start, is_read),
            "{rule}"
        );
    }
    for rule in ["Bash(/w/x)", "Read(key)", "Read", "Sandbox(write:/w/x)"] {
        assert_eq!(denied(rule), [], "{rule}");
    }
    let pem = &denied("Read(/w/*.pem)")[0];
    assert!(pem.matches("/w/a.pem".as_ref()) && !pem.matches("/w/a.key".as_ref()));
    assert!(pem.may_match_below("/w".as_ref()) && !pem.may_match_below("/v".as_ref()));
}

#[test]
fn always_saves_each_rule_once() {
    let always = |access: &Access| {
        let rules = Policy::default().allow_always_rules("edit", access);
        rules.iter().map(Rule::to_string).collect::<Vec<_>>()
    };
    let twice = Access::effectful().writing("/w/a").writing("/w/a");
    assert_eq!(always(&twice), ["Edit(/w/a)"]);
    let both = Access::effectful().reading("/w/a").writing("/w/a");
    assert_eq!(always(&both), ["Edit(/w/a)"]);
    let other = Access::effectful().reading("/w/b").writing("/w/a");
    assert_eq!(always(&other), ["Read(/w/b)", "Edit(/w/a)"]);
    let host = Access::effectful().host("*.example.com");
    assert_eq!(always(&host), [""; 0]);
}

#[test]
fn a_decision_is_one_of_three() {
    let policy = policy(Mode::Default, &["Bash(a)"], &[], &["Bash(b)"]);
    for (line, expected) in [
        ("b", (true, false, false)),
        ("c", (false, true, false)),
        ("a", (false, false, true)),
    ] {
        let decision = policy.decide("bash", &Access::command(line));
        let is = (decision.is_allow(), decision.is_ask(), decision.is_deny());
        assert_eq!(is, expected, "{line}");
    }
}

#[test]
fn a_rule_names_a_tool_or_all_of_a_server() {
    let names = |rule: &str, tool: &str| rules(&[rule])[0].names(tool);
    assert!(names("mcp__a", "mcp__a__b") && names("mcp__a", "mcp__a"));
    assert!(!names("mcp__a", "mcp__ab") && !names("mcp__a", "mcp__"));
    assert!(!names("mcp", "mcp__a__b") && !names("a", "a__b"));
    let below = Rule::reading_below("/w/a*".as_ref()).unwrap();
    assert_eq!(below.to_string(), r"Read(/w/a\*/**)");
}
