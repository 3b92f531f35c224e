//! Scripts from seeds.

use tooloop_model::{ModelErrorKind, StopReason};

use crate::random::Random;
use crate::script::{
    Act, AdvicePlan, Advised, After, AnswerPlan, Block, CallPlan, Ceilings, Death, DiskFault,
    DiskTrouble, End, Fault, Form, How, IdKind, InputKind, Judged, Knobs, Loss, Moment, Place,
    Prepared, Reply, Said, Script, StopPlan, SummaryPlan, ToolKind, What,
};

impl Script {
    /// The script of a seed.
    #[must_use]
    pub fn draw(seed: u64) -> Self {
        let random = &mut Random::new(seed);
        // Some worlds are without deaths, some without faults, so that long stories are told too.
        let deadly = random.chance(60);
        let faulty = random.chance(70);
        let calls = random.many(2, 7, call_plan);
        let plans = calls.len() as u64;
        let advice = random.many(0, 10, |random| advice(random, plans));
        let mut knobs = knobs(random);
        let windows = [(2, 2_500), (3, 4_000), (2, 6_000), (1, 10_000)];
        knobs.window = random.chance(35).then(|| random.weighted(&windows));
        knobs.summary_hook = random.chance(20);
        // What fills a window takes long.
        let (more, longer) = if knobs.window.is_some() {
            (50, 14)
        } else {
            (0, 0)
        };
        let mut replies = random.many(2, 28 + more, |random| reply(random, faulty, plans));
        persist(random, &mut replies);
        Self {
            acts: random.many(4, 16 + longer, |random| act(random, deadly, &knobs)),
            knobs,
            replies,
            calls,
            answers: random.many(0, 8, answer),
            disk: random.many(0, u64::from(faulty) * 2, disk_fault),
            stops: stops(random),
            advice,
            summaries: random.many(0, 4, summary),
            deaths: random.many(0, u64::from(deadly) * 3, death),
        }
    }
}

/// Some models do the same again and again.
fn persist(random: &mut Random, replies: &mut Vec<Reply>) {
    let place = usize::try_from(random.below(replies.len() as u64)).unwrap_or(0);
    let Some(mut again) = replies.get(place).cloned() else {
        return;
    };
    let fault = fault_end(random);
    let overloaded = End::Refused(Fault {
        kind: ModelErrorKind::Overloaded,
        retry_after: None,
    });
    let end = random.weighted(&[
        (62, None),
        (8, Some(overloaded)),
        (10, Some(End::Stop(StopReason::ToolUse))),
        (7, Some(End::Stop(StopReason::MaxTokens))),
        (7, Some(fault)),
        (6, Some(End::Cut)),
    ]);
    if let Some(end) = end {
        again.end = end;
        let times = usize::try_from(random.range(2, 9)).unwrap_or(2);
        let rest = replies.split_off(place);
        replies.extend(std::iter::repeat_n(again, times));
        replies.extend(rest);
    }
}

fn knobs(random: &mut Random) -> Knobs {
    let cap = random.chance(50).then_some(1000);
    Knobs {
        max_parallel: random.weighted(&[(1, 1), (1, 2), (3, 10)]),
        max_turns: random.chance(15).then(|| below(random, 5)),
        cap,
        larger_cap: random.chance(60).then_some(8000),
        attempts: random.weighted(&[(1, 1), (2, 2), (3, 3), (2, 10)]),
        stop_after: random.weighted(&[(1, 2), (1, 4), (2, 6)]),
        watched: random.chance(50),
        asks: random.chance(85),
        flush: random.weighted(&[(1, 0), (3, 1), (2, 5), (1, 200)]),
        limits: ceilings(random),
        priced: random.chance(60),
        fallback: random.chance(40),
        form: random
            .chance(15)
            .then(|| random.weighted(&[(1, Form::Native), (1, Form::Tool)])),
        hook: random.chance(15),
        tool_hook: random.chance(25),
        window: None,
        summary_hook: false,
    }
}

fn summary(random: &mut Random) -> SummaryPlan {
    SummaryPlan {
        wait: random.weighted(&[(3, 0), (2, 8), (1, 900)]),
        what: random.weighted(&[
            (3, Prepared::Nothing),
            (3, Prepared::Refuse),
            (1, Prepared::Late),
        ]),
    }
}

fn ceilings(random: &mut Random) -> Ceilings {
    let times = [(1, 5), (2, 300), (2, 5_000), (1, 70_000)];
    let tokens = random.range(200, 6_000);
    let cost = random.range(1_000_000, 60_000_000);
    Ceilings {
        calls: random.chance(10).then(|| below(random, 6)),
        time: random.chance(10).then(|| random.weighted(&times)),
        tokens: random.chance(20).then_some(tokens),
        cost: random.chance(15).then_some(cost),
    }
}

fn stops(random: &mut Random) -> Vec<StopPlan> {
    // Some hooks never have enough.
    if random.chance(10) {
        let what = Judged::GoOn;
        return random.many(9, 11, |_| StopPlan { wait: 0, what });
    }
    random.many(0, 6, stop)
}

fn stop(random: &mut Random) -> StopPlan {
    StopPlan {
        wait: random.weighted(&[(3, 0), (2, 8), (1, 3_000)]),
        what: random.weighted(&[
            (5, Judged::Done),
            (5, Judged::GoOn),
            (1, Judged::End),
            (1, Judged::Never),
        ]),
    }
}

fn advice(random: &mut Random, plans: u64) -> AdvicePlan {
    let other = usize::try_from(random.below(plans)).unwrap_or(0);
    AdvicePlan {
        wait: random.weighted(&[(4, 0), (2, 6), (1, 900)]),
        what: random.weighted(&[
            (5, Advised::Nothing),
            (4, Advised::Allow),
            (3, Advised::Ask),
            (3, Advised::Deny),
            (4, Advised::Rewrite(other)),
            (3, Advised::Tell),
            (1, Advised::Stop),
            (1, Advised::Fail),
            (1, Advised::Late),
        ]),
    }
}

fn below(random: &mut Random, bound: u32) -> u32 {
    u32::try_from(random.below(u64::from(bound))).unwrap_or(0)
}

fn act(random: &mut Random, deadly: bool, knobs: &Knobs) -> Act {
    let what = random.weighted(&[
        (12, What::Prompt),
        (1, What::Blank),
        (4, What::Steer),
        (3, What::FollowUp),
        (2, What::Interrupt),
        (1, What::Desert),
        (2, What::Wake),
        (1, What::Model),
        (2, What::Look),
        (1, What::Rewind(0)),
        (1 + 2 * u64::from(knobs.window.is_some()), What::Compact),
        (1, What::Close),
        (1, What::Leave),
        (u64::from(deadly), What::Die(Loss::Process(0))),
        (u64::from(deadly), What::Die(Loss::Power(0))),
    ]);
    let what = match what {
        What::Rewind(_) => What::Rewind(usize::try_from(random.below(6)).unwrap_or(0)),
        What::Die(Loss::Power(_)) => What::Die(Loss::Power(share(random))),
        other => other,
    };
    let idle = match what {
        What::Prompt => 80,
        What::Wake | What::Rewind(_) | What::Compact => 60,
        What::Steer | What::FollowUp | What::Interrupt | What::Desert | What::Die(_) => 5,
        What::Blank | What::Model | What::Look | What::Close | What::Leave => 30,
    };
    let after = if random.chance(idle) {
        After::Idle
    } else {
        After::Millis(random.weighted(&[
            (2, 0),
            (3, 3),
            (3, 20),
            (2, 150),
            (1, 3_000),
            (1, 40_000),
        ]))
    };
    Act { after, what }
}

fn share(random: &mut Random) -> u8 {
    let percent = u8::try_from(random.below(101)).unwrap_or(0);
    random.weighted(&[(1, 0), (1, 100), (3, percent)])
}

fn reply(random: &mut Random, faulty: bool, plans: u64) -> Reply {
    let calls = random.chance(70);
    let mut blocks = random.many(0, 2, |random| {
        random.weighted(&[
            (6, Block::Text),
            (2, Block::Answer),
            (1, Block::Blank),
            (3, Block::Thinking),
            (1, Block::Vendor),
        ])
    });
    if calls {
        blocks.extend(random.many(1, 5, |random| call(random, plans)));
    }
    let end = if faulty && random.chance(25) {
        fault_end(random)
    } else {
        let usual = if calls {
            StopReason::ToolUse
        } else {
            StopReason::EndTurn
        };
        End::Stop(random.weighted(&[
            (30, usual),
            (4, StopReason::MaxTokens),
            (1, StopReason::Refusal),
            (1, StopReason::Pause),
            (1, StopReason::ContextWindow),
            (1, StopReason::Other(String::new())),
        ]))
    };
    let cut = match end {
        End::Stop(StopReason::MaxTokens) => random.chance(50),
        End::Stop(_) => false,
        _ => random.chance(80),
    };
    Reply {
        wait: random.weighted(&[(4, 0), (3, 2), (2, 30), (1, 2_000)]),
        gap: random.weighted(&[(4, 0), (3, 1), (2, 7), (1, 700)]),
        usage: random
            .chance(70)
            .then(|| random.weighted(&[(2, 0), (1, 7), (1, 90), (1, 900)])),
        cut: cut.then(|| usize::try_from(random.below(4 * blocks.len() as u64 + 2)).unwrap_or(0)),
        blocks,
        end,
    }
}

fn call(random: &mut Random, plans: u64) -> Block {
    Block::Call {
        tool: random.weighted(&[
            (8, ToolKind::Look),
            (7, ToolKind::Act),
            (1, ToolKind::Put),
            (2, ToolKind::Note),
            (1, ToolKind::Gone),
            (1, ToolKind::Answer),
        ]),
        plan: usize::try_from(random.below(plans)).unwrap_or(0),
        id: random.weighted(&[
            (14, IdKind::Fresh),
            (3, IdKind::Same),
            (1, IdKind::Empty),
            (1, IdKind::Odd),
        ]),
        input: random.weighted(&[
            (18, InputKind::Good),
            (1, InputKind::Broken),
            (1, InputKind::Misfit),
        ]),
    }
}

fn fault_end(random: &mut Random) -> End {
    let fault = |random: &mut Random| {
        let kind = random.weighted(&[
            (6, ModelErrorKind::Overloaded),
            (3, ModelErrorKind::RateLimited),
            (3, ModelErrorKind::Server),
            (2, ModelErrorKind::Connection),
            (1, ModelErrorKind::FirstByteTimeout),
            (1, ModelErrorKind::ContentTimeout),
            (1, ModelErrorKind::Decode),
            (1, ModelErrorKind::Auth),
            (1, ModelErrorKind::BadRequest),
            (1, ModelErrorKind::NotFound),
            (1, ModelErrorKind::ContextTooLong),
            (1, ModelErrorKind::ContentRefused),
        ]);
        let asked = random.weighted(&[(4, 0), (4, 1_500), (4, 30_000), (1, 60_000), (1, 61_000)]);
        Fault {
            kind,
            retry_after: random.chance(40).then_some(asked),
        }
    };
    let fault = fault(random);
    random.weighted(&[
        (3, End::Cut),
        (1, End::Silence),
        (4, End::Fault(fault.clone())),
        (4, End::Refused(fault)),
        (1, End::Nonsense),
        (1, End::StopAndMore),
    ])
}

fn call_plan(random: &mut Random) -> CallPlan {
    let times = [(6, 0), (4, 2), (3, 25), (1, 5_000)];
    CallPlan {
        place: random.weighted(&[(10, Place::Free), (6, Place::Asked), (1, Place::Denied)]),
        before: random.weighted(&times),
        after: random.weighted(&times),
        stubborn: random.weighted(&[(6, 0), (1, 10), (1, 1_000), (1, 9_000)]),
        how: random.weighted(&[
            (10, How::Works),
            (1, How::Talks),
            (1, How::Silent),
            (3, How::Fails),
            (1, How::Panics),
            (1, How::Hangs),
        ]),
        notice: random
            .chance(10)
            .then(|| random.weighted(&[(1, 0), (1, 10), (1, 400)])),
    }
}

fn answer(random: &mut Random) -> AnswerPlan {
    AnswerPlan {
        wait: random.weighted(&[(3, 0), (3, 4), (2, 80), (1, 20_000)]),
        what: random.weighted(&[
            (6, Said::Allow),
            (3, Said::Always),
            (3, Said::Deny),
            (1, Said::Never),
        ]),
    }
}

fn disk_fault(random: &mut Random) -> DiskFault {
    let slow = random.range(1, 3_000);
    DiskFault {
        skip: below(random, 40),
        what: random.weighted(&[
            (2, DiskTrouble::Full),
            (2, DiskTrouble::Flush),
            (3, DiskTrouble::Slow(slow)),
        ]),
    }
}

fn death(random: &mut Random) -> Death {
    let moments = Moment::ALL.map(|moment| (1, moment));
    let share = share(random);
    let most = random.weighted(&[(2, 3), (2, 10), (1, 60)]);
    Death {
        moment: random.weighted(&moments),
        nth: 1 + below(random, most),
        loss: random.weighted(&[(1, Loss::Process(share)), (1, Loss::Power(share))]),
    }
}
