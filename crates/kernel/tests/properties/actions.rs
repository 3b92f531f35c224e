//! What may happen to a kernel, at random.

use proptest::prelude::*;
use tooloop_model::ModelErrorKind;

use crate::replies;

/// Numbers among what is under way are picked when the action is played, since only then is it
/// known what there is.
#[derive(Debug, Clone)]
pub(crate) enum Action {
    Say {
        blank: bool,
        later: bool,
    },
    /// Background work says something.
    Notice,
    Wake,
    /// The next pieces of the reply come.
    Pieces(usize),
    /// An event comes that makes no sense.
    Nonsense,
    Fail(Failure),
    Finish {
        pick: usize,
        text: String,
        is_error: bool,
    },
    Answer {
        allow: bool,
        rule: bool,
    },
    /// Those who have a say in a call say it.
    Advise {
        pick: usize,
        verdict: u8,
        input: u8,
        context: bool,
        stop: bool,
    },
    Timer,
    /// The turn has taken as long as it may.
    Deadline,
    /// Who was told that the model is done judges that.
    Judge(u8),
    HookStop,
    Interrupt,
    Configure(Knobs),
    /// Something comes that names nothing under way.
    Stale {
        kind: Stale,
        pick: usize,
    },
    Resumed,
    /// The process dies; of the entries that need not be durable yet, so many are lost.
    Crash {
        lost: usize,
        resumed: bool,
    },
}

#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) kind: ModelErrorKind,
    pub(crate) retry_after: Option<u64>,
    pub(crate) seconds: u64,
    pub(crate) chance: u16,
}

#[derive(Debug, Clone)]
pub(crate) struct Knobs {
    pub(crate) max_parallel: usize,
    pub(crate) max_turns: Option<u32>,
    pub(crate) escalation: bool,
    pub(crate) stop_after: u32,
    pub(crate) attempts: u32,
    pub(crate) stop_hook: bool,
    pub(crate) deadline: bool,
    pub(crate) tool_calls: Option<u32>,
    pub(crate) fallback: bool,
    pub(crate) form: bool,
    pub(crate) hooks: bool,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Stale {
    Event,
    Stop,
    Failure,
    Run,
    Advice,
    Answer,
    Timer,
    Judgement,
    Interrupt,
    Resumed,
    BlankPrompt,
}

pub(crate) fn action() -> impl Strategy<Value = Action> {
    let weighted = prop::bool::weighted;
    prop_oneof![
        8 => (weighted(0.1), weighted(0.3)).prop_map(|(blank, later)| Action::Say { blank, later }),
        4 => Just(Action::Notice),
        4 => Just(Action::Wake),
        30 => (1..25_usize).prop_map(Action::Pieces),
        1 => Just(Action::Nonsense),
        2 => failure().prop_map(Action::Fail),
        24 => (any::<usize>(), replies::text(), any::<bool>()).prop_map(
            |(pick, text, is_error)| Action::Finish { pick, text, is_error },
        ),
        10 => (weighted(0.7), any::<bool>())
            .prop_map(|(allow, rule)| Action::Answer { allow, rule }),
        16 => (any::<usize>(), 0..6_u8, 0..8_u8, any::<bool>(), weighted(0.05)).prop_map(
            |(pick, verdict, input, context, stop)| {
                Action::Advise { pick, verdict, input, context, stop }
            },
        ),
        8 => Just(Action::Timer),
        1 => Just(Action::Deadline),
        10 => (0..6_u8).prop_map(Action::Judge),
        1 => Just(Action::HookStop),
        2 => Just(Action::Interrupt),
        3 => knobs().prop_map(Action::Configure),
        8 => (stale(), any::<usize>()).prop_map(|(kind, pick)| Action::Stale { kind, pick }),
        1 => Just(Action::Resumed),
        3 => (any::<usize>(), weighted(0.8))
            .prop_map(|(lost, resumed)| Action::Crash { lost, resumed }),
    ]
}

fn failure() -> impl Strategy<Value = Failure> {
    (
        replies::failure(),
        prop::option::weighted(0.3, 0..70_u64),
        0..200_u64,
        any::<u16>(),
    )
        .prop_map(|(kind, retry_after, seconds, chance)| Failure {
            kind,
            retry_after,
            seconds,
            chance,
        })
}

fn knobs() -> impl Strategy<Value = Knobs> {
    let weighted = prop::bool::weighted;
    (
        0..4_usize,
        prop::option::weighted(0.3, 0..5_u32),
        any::<bool>(),
        2..7_u32,
        1..5_u32,
        (
            weighted(0.5),
            weighted(0.3),
            prop::option::weighted(0.2, 0..6_u32),
            weighted(0.5),
            weighted(0.5),
            weighted(0.4),
        ),
    )
        .prop_map(
            |(max_parallel, max_turns, escalation, stop_after, attempts, more)| {
                let (stop_hook, deadline, tool_calls, fallback, form, hooks) = more;
                Knobs {
                    max_parallel,
                    max_turns,
                    escalation,
                    stop_after,
                    attempts,
                    stop_hook,
                    deadline,
                    tool_calls,
                    fallback,
                    form,
                    hooks,
                }
            },
        )
}

fn stale() -> impl Strategy<Value = Stale> {
    prop::sample::select(vec![
        Stale::Event,
        Stale::Stop,
        Stale::Failure,
        Stale::Run,
        Stale::Advice,
        Stale::Answer,
        Stale::Timer,
        Stale::Judgement,
        Stale::Interrupt,
        Stale::Resumed,
        Stale::BlankPrompt,
    ])
}
