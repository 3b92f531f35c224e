//! The kernel's laws under random replies, orders, late inputs and crashes.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod actions;
mod bills;
mod codecs;
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

/// One in so many of the cases that `PROPTEST_CASES` says; a failing one is printed, not written
/// to a file.
fn config(one_in: u32) -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig {
        cases: usual.cases / one_in,
        failure_persistence: None,
        ..usual
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
    #![proptest_config(config(1))]

    /// Every check is in `World`, after every step.
    #[test]
    fn the_laws_hold_whatever_comes((replies, actions) in story()) {
        let mut world = World::new(replies);
        for action in actions {
            world.act(action);
        }
        world.bring_to_an_end();
    }

    /// A budget is a ceiling.
    #[test]
    fn the_bill_never_passes_the_ceiling(bill in bills::case()) {
        bills::pay(bill);
    }

    #[test]
    fn any_entries_fold_to_a_history_that_a_provider_accepts(
        entries in prop::collection::vec(journal::entry(), 0..40),
    ) {
        journal::fold(&entries);
    }
}

proptest! {
    #![proptest_config(config(4))]

    #[test]
    fn a_journal_cut_at_every_byte_resumes((replies, actions) in story()) {
        let mut world = World::new(replies);
        for action in actions {
            world.act(action);
        }
        journal::cut_everywhere(world.journal());
    }

    #[test]
    fn no_request_is_refused_by_a_strict_server((replies, actions) in story()) {
        let mut world = World::new(replies);
        for action in actions {
            world.act(action);
        }
        world.bring_to_an_end();
        for request in world.requests() {
            codecs::accepted(request);
        }
    }
}

/// What a story may meet.
const PLACES: [&str; 50] = [
    "Ask",
    "AskStop",
    "CallModel",
    "CancelAsk",
    "CancelConsult",
    "CancelModel",
    "CancelStop",
    "CancelTimer",
    "CancelTool",
    "Consult",
    "Continue ContinueOutput",
    "Continue EscalateOutput",
    "Continue FallbackModel",
    "Continue FollowUp",
    "Continue NextStep",
    "Continue PauseTurn",
    "Continue Reminder",
    "Continue Retry",
    "Continue SchemaRetry",
    "Continue Steered",
    "Continue StopHookBlocked",
    "EndTurn",
    "Record CallFinished",
    "Record CallRewritten",
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
    "TurnEnd Deadline",
    "TurnEnd HookStopped",
    "TurnEnd Interrupted",
    "TurnEnd LoopDetected",
    "TurnEnd MaxToolCalls",
    "TurnEnd MaxTurns",
    "TurnEnd ModelError",
    "TurnEnd OutputLimit",
    "TurnEnd Refused",
    "TurnEnd StopHookPrevented",
    "TurnEnd StructuredOutputFailed",
    "Void",
    "resumed, not begun",
    "resumed, unknown",
];

/// The properties say nothing if their stories lead nowhere.
#[test]
fn the_stories_lead_everywhere() {
    let mut runner = TestRunner::deterministic();
    let mut seen = BTreeSet::new();
    for _ in 0..3_000 {
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
