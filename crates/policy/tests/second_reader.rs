//! A second parser of bash as a witness: what it finds in a line is found here too.
//!
//! The witness is only used in tests. It is more lenient and reads some lines in time that doubles
//! with each level, so lines are short and always the same.

use std::collections::BTreeSet;

use brush_parser::{ParserOptions, ast::*, parse_tokens, uncached_tokenize_str};
use proptest::{
    collection::vec,
    prelude::*,
    sample::select,
    test_runner::{RngSeed, TestRunner},
};
use tooloop_policy::shell::analyse;

const PIECES: &[&str] = &[
    "c1",
    "c2 ",
    "c3 x",
    " ",
    " ",
    ";",
    "; ",
    " && ",
    " || ",
    " | ",
    "|&",
    " & ",
    "\n",
    "(",
    ")",
    "{ ",
    "; }",
    "$(",
    ")",
    "`",
    "\"",
    "'",
    "\\",
    "<<E\n",
    "\nE\n",
    "<<'E'\n",
    " #",
    "if ",
    "; then ",
    "; fi",
    "while ",
    "; do ",
    "; done",
    "for x in ",
    "case a in ",
    "a) ",
    ";; ",
    "esac",
    " > f",
    " < f",
    "<(",
    " 2>&1",
    "x=",
    "x=(",
    "function f ",
    "f()",
    "! ",
    "time ",
    "\\\n",
    "<<<",
    "$x",
    "${x:-",
    "}",
    "$((",
    "))",
    "[[ ",
    " ]]",
    "=~",
    "else ",
    "elif ",
    "until ",
    "*",
    "~",
    "a",
];

/// Gives the names of the programs that the witness finds, if it understands the line.
fn witnessed(line: &str) -> Option<BTreeSet<String>> {
    let options = ParserOptions {
        // As the shell does when it is given a line to run.
        enable_extended_globbing: false,
        ..ParserOptions::default()
    };
    let tokens = uncached_tokenize_str(line, &options.tokenizer_options()).ok()?;
    let program = parse_tokens(&tokens, &options).ok()?;
    let mut found = BTreeSet::new();
    for list in &program.complete_commands {
        walk_list(list, &mut found);
    }
    Some(found)
}

fn walk_list(list: &CompoundList, found: &mut BTreeSet<String>) {
    for CompoundListItem(and_or, _) in &list.0 {
        for (_, pipeline) in and_or {
            for command in &pipeline.seq {
                walk(command, found);
            }
        }
    }
}

fn walk(command: &Command, found: &mut BTreeSet<String>) {
    match command {
        Command::Simple(simple) => {
            if let Some(name) = &simple.word_or_name
                && !name.value.is_empty()
                && name.value.chars().all(|c| c.is_ascii_alphanumeric())
            {
                found.insert(name.value.clone());
            }
            let prefix = simple.prefix.iter().flat_map(|prefix| &prefix.0);
            let suffix = simple.suffix.iter().flat_map(|suffix| &suffix.0);
            for item in prefix.chain(suffix) {
                if let CommandPrefixOrSuffixItem::ProcessSubstitution(_, inner) = item {
                    walk_list(&inner.list, found);
                }
            }
        }
        Command::Compound(compound, _) => walk_compound(compound, found),
        Command::Function(function) => walk_compound(&function.body.0, found),
        Command::ExtendedTest(..) => {}
    }
}

fn walk_compound(compound: &CompoundCommand, found: &mut BTreeSet<String>) {
    match compound {
        CompoundCommand::Arithmetic(_) => {}
        CompoundCommand::ArithmeticForClause(inner) => walk_list(&inner.body.list, found),
        CompoundCommand::BraceGroup(inner) => walk_list(&inner.list, found),
        CompoundCommand::Subshell(inner) => walk_list(&inner.list, found),
        CompoundCommand::ForClause(inner) => walk_list(&inner.body.list, found),
        CompoundCommand::CaseClause(inner) => {
            for list in inner.cases.iter().filter_map(|case| case.cmd.as_ref()) {
                walk_list(list, found);
            }
        }
        CompoundCommand::IfClause(inner) => {
            walk_list(&inner.condition, found);
            walk_list(&inner.then, found);
            for part in inner.elses.iter().flatten() {
                part.condition
                    .iter()
                    .for_each(|list| walk_list(list, found));
                walk_list(&part.body, found);
            }
        }
        CompoundCommand::WhileClause(inner) | CompoundCommand::UntilClause(inner) => {
            walk_list(&inner.0, found);
            walk_list(&inner.1.list, found);
        }
        CompoundCommand::Coprocess(inner) => walk(&inner.body, found),
    }
}

#[test]
fn nothing_that_the_witness_finds_is_missed() {
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 40_000,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(7),
        ..ProptestConfig::default()
    });
    let lines = vec(select(PIECES), 1..10).prop_map(|pieces| pieces.concat());
    let compared = std::cell::Cell::new(0_u32);
    let result = runner.run(&lines, |line| {
        let analysis = analyse(&line);
        if analysis.problem().is_some() {
            return Ok(());
        }
        let Some(mut theirs) = witnessed(&line) else {
            return Ok(());
        };
        // Where bash has a keyword the witness sometimes has a program.
        theirs.remove("time");
        compared.set(compared.get() + 1);
        let ours: BTreeSet<_> = analysis
            .commands()
            .iter()
            .filter_map(|command| command.program().map(str::to_owned))
            .collect();
        prop_assert!(
            theirs.is_subset(&ours),
            "{:?}: {:?} are not all in {:?}",
            line,
            theirs,
            ours
        );
        Ok(())
    });
    assert_eq!(result, Ok(()));
    assert!(
        compared.get() > 2000,
        "only {} lines compared",
        compared.get()
    );
}
