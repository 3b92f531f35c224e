//! Rewinds to before a turn that a summary stands for.

use std::sync::Arc;

use tooloop_kernel::{CompactionTrigger, Entry, Input, Kernel, Settings, Transcript, TurnEnd};
use tooloop_model::Message;

use crate::common::ByName;

/// Two turns, each of which was summed up.
fn folded(mut transcript: Transcript) -> Transcript {
    for (prompt, cut) in [("one", 1), ("two", 2)] {
        transcript.apply(&Entry::message(Message::user(prompt)));
        transcript.apply(&Entry::TurnEnd(TurnEnd::Completed));
        transcript.apply(&Entry::Compacted {
            cut,
            summary: format!("summary of {prompt}"),
            request: Vec::new(),
            carried: Vec::new(),
            trigger: CompactionTrigger::Manual,
            before: 2,
            after: 1,
        });
    }
    assert_eq!(transcript.summed_up(), 2);
    transcript
}

fn keeping() -> Transcript {
    let mut transcript = Transcript::default();
    transcript.keep_past();
    transcript
}

fn kernel(transcript: Transcript) -> Kernel {
    Kernel::new(Settings::default(), Arc::new(ByName), transcript)
}

/// Whether the kernel recorded a rewind.
fn rewinds(kernel: &mut Kernel, turn: usize, past: Option<Transcript>) -> bool {
    let past = past.map(Box::new);
    !kernel.step(Input::Rewind { turn, past }).is_empty()
}

/// The first summary alone.
fn before_the_second_turn() -> Transcript {
    let mut transcript = folded(keeping());
    transcript.apply(&Entry::Rewound { turn: 2 });
    assert_eq!(
        (transcript.turns().len(), transcript.messages().len()),
        (1, 1)
    );
    transcript
}

#[test]
fn a_rewind_past_a_summary_needs_what_it_stands_for() {
    let summed_up = folded(Transcript::default());
    let mut kernel = kernel(summed_up.clone());
    for past in [None, Some(summed_up.clone())] {
        assert!(!rewinds(&mut kernel, 2, past));
        assert_eq!(*kernel.transcript(), summed_up);
    }
    assert!(rewinds(&mut kernel, 2, Some(folded(keeping()))));
    assert_eq!(*kernel.transcript(), before_the_second_turn());
    // The older state takes memory: the next rewind past a summary needs it again.
    assert!(!kernel.transcript().reaches(1));
}

#[test]
fn a_kernel_that_keeps_its_past_needs_no_other() {
    for other in [None, Some(Transcript::default()), Some(keeping())] {
        let mut kernel = kernel(folded(keeping()));
        assert!(rewinds(&mut kernel, 2, other));
        assert_eq!(*kernel.transcript(), before_the_second_turn());
        assert!(rewinds(&mut kernel, 1, None));
        assert_eq!(kernel.transcript().messages(), []);
    }
}
