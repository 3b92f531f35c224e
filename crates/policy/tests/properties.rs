//! What holds for every line, however odd.

use proptest::{collection::vec, prelude::*, sample::select};
use tooloop_policy::{Access, Decision, Policy, Rule, shell::analyse};

/// Pieces of which shell lines are made, and some that do not belong in one.
const PIECES: &[&str] = &[
    " ",
    "\t",
    "\n",
    "\r",
    ";",
    ";;",
    ";&",
    "&",
    "&&",
    "|",
    "||",
    "|&",
    "(",
    ")",
    "((",
    "))",
    "{",
    "}",
    "[",
    "]",
    "[[",
    "]]",
    "<",
    ">",
    ">>",
    ">&",
    "&>",
    "<<",
    "<<-",
    "<<<",
    "<(",
    ">(",
    "$",
    "$(",
    "${",
    "$((",
    "$[",
    "`",
    "'",
    "\"",
    "\\",
    "$'",
    "$\"",
    "#",
    "!",
    "=",
    "+=",
    "~",
    "*",
    "?",
    "%",
    "^",
    "@",
    ":",
    "-",
    ",",
    "..",
    "a",
    "b=c",
    "x",
    "1",
    "2>&1",
    "é",
    "\u{0}",
    "EOF",
    "if",
    "then",
    "else",
    "elif",
    "fi",
    "for",
    "in",
    "do",
    "done",
    "while",
    "until",
    "case",
    "esac",
    "function",
    "select",
    "coproc",
    "time",
    "ls",
    "git",
    "push",
    "rm",
    "echo",
    "env",
    "xargs",
    "find",
    "-exec",
    "sh",
    "-c",
    "eval",
    "sudo",
    "timeout",
    "-I",
    "{}",
    "-",
    "--",
    "/dev/null",
];

fn line_of_pieces() -> impl Strategy<Value = String> {
    vec(select(PIECES), 0..24).prop_map(|pieces| pieces.concat())
}

fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        line_of_pieces(),
        vec(select(PIECES), 0..16).prop_map(|pieces| pieces.join(" ")),
        "[ -~\n]{0,40}",
        "[;&|<>(){}$`'\"\\\\\n a]{0,60}",
    ]
}

fn policy(deny: &str, allow: &str) -> Policy {
    let rule = |text: &str| text.parse::<Rule>().into_iter().collect();
    Policy {
        deny: rule(deny),
        allow: rule(allow),
        ..Policy::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_line_is_decided_and_what_is_not_understood_is_not_allowed(line in line()) {
        let analysis = analyse(&line);
        let access = Access::command(line.as_str());
        let decision = policy("Bash(git push *)", "Bash(echo *)").decide("bash", &access);
        if analysis.problem().is_some() {
            prop_assert!(!analysis.is_read_only());
            prop_assert!(analysis.commands().is_empty());
            prop_assert!(!decision.is_allow());
        }
        if analysis.is_read_only() {
            prop_assert!(policy("Edit(x)", "Read").decide("bash", &access).is_allow());
        }
    }

    #[test]
    fn what_follows_a_line_is_seen(line in line()) {
        // Unless the line swallows it, in which case it is no line of its own.
        let longer = format!("{line}\ntouch M");
        let alone = analyse(&line);
        let both = analyse(&longer);
        if alone.problem().is_none() && both.problem().is_none() {
            prop_assert!(both.commands().iter().any(|command| command.program() == Some("touch")));
            prop_assert!(!both.is_read_only());
        }
    }

    #[test]
    fn a_deny_rule_never_widens(line in line()) {
        let access = Access::command(line.as_str());
        let without = policy("", "Bash(git *)").decide("bash", &access);
        let with = policy("Bash(git push *)", "Bash(git *)").decide("bash", &access);
        prop_assert!(!with.is_allow() || without.is_allow());
        let all = policy("Bash", "Bash").decide("bash", &access);
        prop_assert!(all.is_deny());
    }

    #[test]
    fn always_saves_a_rule_for_this_line(line in line()) {
        let access = Access::command(line.as_str());
        let rules = Policy::default().allow_always_rules("bash", &access);
        if rules.is_empty() {
            prop_assert!(line.trim().is_empty());
            return Ok(());
        }
        for rule in &rules {
            prop_assert_eq!(&rule.to_string().parse::<Rule>(), &Ok(rule.clone()));
        }
        let saved = Policy { allow: rules, ..Policy::default() };
        prop_assert_eq!(saved.decide("bash", &access), Decision::Allow);
        let longer = format!("{line}; rm x");
        let removes = analyse(&longer).commands().iter().any(|command| command.text == "rm x");
        let allowed = saved.decide("bash", &Access::command(longer)).is_allow();
        prop_assert!(!(removes && allowed));
    }

    #[test]
    fn rules_read_back(tool in "[A-Za-z_][A-Za-z0-9_]{0,12}", specifier in any::<Option<String>>()) {
        if let Ok(rule) = Rule::new(&tool, specifier.as_deref()) {
            prop_assert_eq!(rule.to_string().parse::<Rule>(), Ok(rule));
        }
    }

    #[test]
    fn any_text_is_a_rule_or_an_error(text in any::<String>()) {
        if let Ok(rule) = text.parse::<Rule>() {
            let policy = Policy { deny: vec![rule.clone()], ask: vec![rule.clone()], allow: vec![rule], ..Policy::default() };
            let line = policy.decide("bash", &Access::command("git $x > out"));
            let edit = policy.decide("edit", &Access::effectful().writing("a/../b").host("h:1"));
            // One and the same rule in all places is never an allow by itself.
            prop_assert!(!line.is_allow() && !edit.is_allow());
        }
    }
}

/// Nesting that would take a parser without a limit down, or forever.
#[test]
fn deep_nesting_is_refused_without_harm() {
    // What is repeated, how it ends, and whether it nests, so that there is too much of it.
    let table = [
        ("(", ")", false),
        ("( ", " )", true),
        ("$(", ")", true),
        ("\"$(", ")\"", true),
        ("<(", ")", true),
        ("${x:-", "}", true),
        ("\"${x:-", "}\"", true),
        ("$((", "))", true),
        ("$(( (", ")))", true),
        ("{ ", "; }", true),
        ("if ", "; then ls; fi", true),
        ("while ls; do ", "; done", true),
        ("case a in a) ", ";; esac", true),
        ("case a in a) ", "; esac", true),
        ("for x in ", "; do ls; done", true),
        ("f() { ", "; }", true),
        ("function f { ", "; }", true),
        ("[[ ( ", " ) ]]", false),
        ("! ", "", false),
        ("time ", "", false),
        ("coproc ", "", true),
        ("env ", "", true),
        ("eval ", "", false),
        ("xargs ", "", false),
        ("sh -c '", "'", false),
        ("x=(", ")", false),
        ("`", "`", false),
        ("a[", "]", false),
        ("{a,", "}", false),
        ("[", "", false),
        ("{", "", false),
        ("\\", "", false),
        ("<<E ", "", false),
        ("$'", "", false),
        ("x=", "", false),
        ("2>", "", false),
        ("find -exec ", "", false),
    ];
    let policy = policy("Bash(git push *)", "Bash(echo *)");
    for (open, close, nests) in table {
        for count in [10, 33, 1000, 30_000 / open.len()] {
            for closed in [true, false] {
                let end = if closed { close } else { "" };
                let line = format!("echo x; {}ls{}", open.repeat(count), end.repeat(count));
                let analysis = analyse(&line);
                if count >= 1000 && nests {
                    assert!(
                        analysis.problem().is_some(),
                        "{count} times {open:?}, {closed}"
                    );
                }
                assert!(!policy.decide("bash", &Access::command(line)).is_deny());
            }
        }
    }
}

/// Long lines that would be slow if anything in a line were looked at again and again.
#[test]
fn long_lines_are_read_in_one_go() {
    for piece in [
        "a ",
        "a;",
        "a|",
        "a&&",
        "[a ",
        "[",
        "{a ",
        "{",
        "$x",
        "$x ",
        "'a'",
        "\"a\" ",
        "*",
        "a=b ",
        "~",
        "<a ",
        "`a`",
        "$(a)",
        "$(a) ",
        "{a,b}",
        "#",
        "\\a",
        "xargs a;",
        "git a $x;",
        "env a=b ",
        "find . -exec a \\; ;",
        "cd a;touch b;",
        "cd ..;> a;",
        "git log;",
        "f() { ls; };f;",
        "touch ../a ../b;",
        "-exec a ",
    ] {
        let line = format!("find {}", piece.repeat(30_000 / piece.len()));
        let policy = policy("Bash(git * push * x * y)", "Bash(* a * b * c *)");
        assert!(!policy.decide("bash", &Access::command(line)).is_deny());
    }
}
