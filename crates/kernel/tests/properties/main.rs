//! The kernel's laws under random replies, orders, late inputs and crashes.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod actions;
#[path = "../common/mod.rs"]
mod common;
mod journal;
mod replies;
mod world;

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::actions::{Action, action};
use crate::replies::{Reply, reply};
use crate::world::World;

/// As many cases as `PROPTEST_CASES` says; a failing one is printed, not written to a file.
fn config() -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// What a session goes through.
fn story() -> impl Strategy<Value = (Vec<Reply>, Vec<Action>)> {
    (
        prop::collection::vec(reply(), 1..8),
        prop::collection::vec(action(), 0..100),
    )
}

proptest! {
    #![proptest_config(config())]

    /// Every check is in `World`, after every step.
    #[test]
    fn the_laws_hold_whatever_comes((replies, actions) in story()) {
        let mut world = World::new(replies);
        for action in actions {
            world.act(action);
        }
        world.bring_to_an_end();
    }

    #[test]
    fn a_journal_cut_at_every_byte_resumes((replies, actions) in story()) {
        let mut world = World::new(replies);
        for action in actions {
            world.act(action);
        }
        journal::cut_everywhere(world.journal());
    }

    #[test]
    fn any_entries_fold_to_a_history_that_a_provider_accepts(
        entries in prop::collection::vec(journal::entry(), 0..40),
    ) {
        journal::fold(&entries);
    }
}

const PLACES: [&str; 36] = [
    "Ask",
    "CallModel",
    "CancelAsk",
    "CancelModel",
    "CancelTimer",
    "CancelTool",
    "Continue ContinueOutput",
    "Continue EscalateOutput",
    "Continue FollowUp",
    "Continue NextStep",
    "Continue Reminder",
    "Continue Retry",
    "Continue Steered",
    "EndTurn",
    "Record CallFinished",
    "Record CallStarted",
    "Record Discarded",
    "Record Message",
    "Record Permission",
    "Record Retry",
    "RunTool",
    "RunTool beside others",
    "RunTool early",
    "Show",
    "StartTimer",
    "TurnEnd Completed",
    "TurnEnd ContextLimit",
    "TurnEnd Interrupted",
    "TurnEnd LoopDetected",
    "TurnEnd MaxTurns",
    "TurnEnd ModelError",
    "TurnEnd OutputLimit",
    "TurnEnd Refused",
    "Void",
    "resumed, not begun",
    "resumed, unknown",
];

/// The other properties say nothing if their stories lead nowhere.
#[test]
fn the_stories_lead_everywhere() {
    let mut runner = TestRunner::deterministic();
    let mut seen = BTreeSet::new();
    for _ in 0..400 {
        let (replies, actions) = story().new_tree(&mut runner).unwrap().current();
        let mut world = World::new(replies);
        for action in actions {
            world.act(action);
        }
        world.bring_to_an_end();
        seen.extend(world.seen().iter().cloned());
    }
    let missed: Vec<_> = PLACES
        .into_iter()
        .filter(|place| !seen.contains(*place))
        .collect();
    assert_eq!(missed, Vec::<&str>::new());
}
