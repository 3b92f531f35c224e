//! Worlds of fixed seeds, and worlds made for one thing.
use std::collections::BTreeSet;

use tooloop_simulation::{
    Act, After, Block, Ceilings, End, Knobs, Law, Moment, Outcome, Reply, Script, What, explain,
    play, play_planted, run, shrink,
};

/// So many seeds take some twenty seconds without optimisation.
const SEEDS: u64 = 5_000;

#[test]
fn no_law_is_broken() {
    let (sum, found) = run(0..SEEDS, None).unwrap();
    if let Some(found) = found {
        panic!("{}", explain(&found).unwrap());
    }
    // The worlds say nothing if their stories lead nowhere.
    let seen: BTreeSet<_> = sum.seen.keys().copied().collect();
    let missed: Vec<_> = PLACES
        .iter()
        .filter(|place| !seen.contains(*place))
        .collect();
    assert_eq!(missed, Vec::<&&str>::new(), "of {} steps", sum.steps);
}

/// What a world may meet.
const PLACES: [&str; 61] = [
    "answer: a form",
    "answer: broken input",
    "answer: denied",
    "answer: interrupted before",
    "answer: interrupted while it ran",
    "answer: misfit",
    "answer: no output",
    "answer: not begun",
    "answer: outcome",
    "answer: outcome unknown",
    "answer: stopped by a hook before",
    "answer: the tool failed inside",
    "answer: too many calls",
    "answer: unknown tool",
    "append fails",
    "busy",
    "call: early",
    "call: read-only",
    "call rewritten",
    "call: with effects",
    "continue: escalate",
    "continue: fallback",
    "continue: follow-up",
    "continue: form",
    "continue: hook",
    "continue: output",
    "continue: pause",
    "continue: reminder",
    "continue: results",
    "continue: retry",
    "continue: steered",
    "death of the process",
    "denied",
    "end: budget",
    "end: completed",
    "end: context limit",
    "end: deadline",
    "end: hook",
    "end: hook stopped",
    "end: interrupted",
    "end: loop",
    "end: max turns",
    "end: model error",
    "end: no form",
    "end: output limit",
    "end: refused",
    "end: tool calls",
    "fault",
    "flush fails",
    "loss of power",
    "nonsense",
    "notice",
    "question",
    "report",
    "request",
    "request below a ceiling",
    "resumed",
    "rewound",
    "stop hook",
    "tool hook",
    "wake",
];

#[test]
fn the_same_seed_is_the_same_world() {
    for seed in 0..60 {
        let script = Script::draw(seed);
        let told = play(&script, true).unwrap();
        assert_eq!(told, play(&script, true).unwrap(), "seed {seed}");
        // To be told what happens changes nothing.
        let untold = play(&script, false).unwrap();
        let story = Vec::new();
        assert_eq!(untold, Outcome { story, ..told }, "seed {seed}");
    }
}

#[test]
fn a_script_that_breaks_a_law_is_made_as_small_as_can_be() {
    // The law is that no call begins for the third time in a life.
    let broken = |script: &Script| {
        let outcome = play_planted(script, Moment::CallBegins, 3).unwrap();
        outcome.broken.map(|broken| broken.law)
    };
    let seed = (0..).find(|seed| broken(&Script::draw(*seed)).is_some());
    let script = Script::draw(seed.unwrap());
    let least = shrink(&script, Law::Planted, 3_000, broken);
    assert_eq!(broken(&least), Some(Law::Planted));
    // One prompt, and three calls in one reply or in several.
    assert_eq!(least.acts.len(), 1, "{least}");
    let blocks: usize = least.replies.iter().map(|reply| reply.blocks.len()).sum();
    assert_eq!(blocks, 3, "{least}");
    assert!(least.deaths.is_empty() && least.disk.is_empty(), "{least}");
    assert!(least.to_string().contains("the user prompts"), "{least}");
}

fn script(knobs: Knobs, acts: &[(After, What)], replies: Vec<Reply>) -> Script {
    let acts = acts.iter().map(|(after, what)| Act {
        after: *after,
        what: *what,
    });
    Script {
        knobs,
        acts: acts.collect(),
        replies,
        calls: Vec::new(),
        answers: Vec::new(),
        disk: Vec::new(),
        stops: Vec::new(),
        advice: Vec::new(),
        summaries: Vec::new(),
        deaths: Vec::new(),
    }
}

/// What was said before an interrupt is sent again, and the provider has not counted it.
#[test]
fn what_was_interrupted_is_reckoned_with() {
    let slow = Reply {
        gap: 10,
        blocks: vec![Block::Text; 8],
        usage: Some(0),
        end: End::Silence,
        ..Reply::default()
    };
    let knobs = Knobs {
        limits: Ceilings {
            tokens: Some(6_000),
            ..Ceilings::default()
        },
        ..Knobs::default()
    };
    let acts = [
        (After::Idle, What::Prompt),
        (After::Millis(200), What::Interrupt),
        // From here on the provider does not say what was used.
        (After::Idle, What::Prompt),
        (After::Idle, What::Prompt),
        (After::Idle, What::Prompt),
    ];
    let silent = Reply {
        blocks: Vec::new(),
        ..Reply::default()
    };
    let replies = vec![slow, silent.clone(), silent.clone(), silent];
    let outcome = play(&script(knobs, &acts, replies), true).unwrap();
    assert_eq!(outcome.broken, None, "{}", outcome.story.join("\n"));
}
