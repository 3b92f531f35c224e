//! A world from its script to its end.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, Once};
use std::time::Duration;

use tooloop::{Agent, Approval, OutputSchema, ResultBudget, RetryPolicy};
use tooloop_kernel::Limits;
use tooloop_model::Money;
use tooloop_policy::Policy;

use crate::hook::SimulatedHook;
use crate::law::{Broken, Law};
use crate::model::SimulatedModel;
use crate::people::SimulatedPerson;
use crate::random;
use crate::script::{Moment, Script, ToolKind};
use crate::tool_hook;
use crate::tools::SimulatedTool;
use crate::user::{self, Next};
use crate::world::{Planted, Shared, World};

/// More lives than any script has.
const MOST_LIVES: u32 = 60;

/// What a world came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The inputs that the harness was given: pieces of replies and failures, what calls came to,
    /// answers, timers, notices, what the user did, and pasts to go on with.
    pub steps: u64,
    /// The same whenever the same happens.
    pub fingerprint: u64,
    /// The law that was broken first.
    pub broken: Option<Broken>,
    /// How often each kind of thing happened.
    pub seen: BTreeMap<&'static str, u64>,
    /// What happened, in words, if that was asked for.
    pub story: Vec<String>,
}

/// Plays a script.
///
/// # Errors
/// If no runtime or no agent can be made.
pub fn play(script: &Script, told: bool) -> anyhow::Result<Outcome> {
    play_with(script, told, None)
}

/// Plays a script in a world with one more law: that no moment of this kind comes for the so manyth
/// time in a life. To see that what is broken is found.
///
/// # Errors
/// If no runtime or no agent can be made.
pub fn play_planted(script: &Script, moment: Moment, nth: u32) -> anyhow::Result<Outcome> {
    play_with(script, false, Some((moment, nth)))
}

fn play_with(script: &Script, told: bool, planted: Option<Planted>) -> anyhow::Result<Outcome> {
    watch_panics();
    random::begin_chance(1);
    let shared = Shared::new(World::new(script.clone(), told, planted));
    let agent = agent(&shared, script)?;
    for _ in 0..MOST_LIVES {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()?;
        let next = runtime.block_on(async {
            let stop = shared.lock().begin_life();
            tokio::select! {
                biased;
                () = stop.notified() => Next::Again,
                next = user::live(&shared, &agent) => next,
            }
        });
        {
            let _clock = runtime.enter();
            shared.lock().end_life();
        }
        // Whatever is under way ends where it stands, as it does when a process dies.
        drop(runtime);
        if let Some(words) = PANIC.take() {
            shared.lock().fell_over(words);
        }
        if next == Next::Over || shared.lock().broken.is_some() {
            break;
        }
    }
    let mut world = shared.lock();
    Ok(Outcome {
        steps: world.steps,
        fingerprint: world.fingerprint,
        broken: world.broken.take(),
        seen: std::mem::take(&mut world.seen),
        story: world.story.take().unwrap_or_default(),
    })
}

fn agent(shared: &Shared, script: &Script) -> anyhow::Result<Agent> {
    let knobs = &script.knobs;
    let mut builder = Agent::builder()
        .provider(Arc::new(SimulatedModel(shared.clone())))
        .model("model")
        .workspace("/")
        .policy(Policy {
            allow: vec!["WebFetch(domain:free.example)".parse()?],
            deny: vec!["WebFetch(domain:denied.example)".parse()?],
            ..Policy::default()
        })
        .retry(RetryPolicy {
            max_attempts: knobs.attempts,
            ..RetryPolicy::default()
        })
        .max_parallel_tools(knobs.max_parallel)
        .stop_after_repeats(knobs.stop_after)
        .results(ResultBudget {
            single: 300,
            message: 900,
            preview: 120,
        })
        .chance(random::chance);
    for kind in [ToolKind::Look, ToolKind::Act, ToolKind::Put, ToolKind::Note] {
        let shared = shared.clone();
        builder = builder.dyn_tool(Arc::new(SimulatedTool { kind, shared }));
    }
    if knobs.asks {
        builder = builder.approval(Approval::By(Arc::new(SimulatedPerson(shared.clone()))));
    }
    if let Some(limit) = knobs.max_turns {
        builder = builder.max_turns(limit);
    }
    if knobs.fallback {
        builder = builder.fallback_model("fallback", knobs.cap, knobs.larger_cap);
    }
    if knobs.form.is_some() {
        builder = builder.output_schema(OutputSchema::parse(SCHEMA)?);
    }
    if knobs.hook {
        builder = builder.stop_hook(Arc::new(SimulatedHook(shared.clone())));
    }
    if knobs.tool_hook || knobs.summary_hook {
        builder = builder.hooks(tool_hook::hooks(shared, knobs));
    }
    builder = builder.limits(Limits {
        tool_calls: knobs.limits.calls,
        time: knobs.limits.time.map(Duration::from_millis),
        tokens: knobs.limits.tokens,
        cost: knobs.limits.cost.map(Money),
    });
    if let Some(cap) = knobs.cap {
        builder = builder.output_tokens(cap, knobs.larger_cap);
    }
    Ok(builder.build()?)
}

/// The form of an answer.
const SCHEMA: &str = r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}"#;

thread_local! {
    /// The words of the newest panic on this thread. Simulated ones have none.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Keeps what panics say, since a task's panic is seen by nobody.
fn watch_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            PANIC.set(Some(info.to_string()));
            usual(info);
        }));
    });
}

impl World {
    /// What we did wrong fails loudly.
    fn fell_over(&mut self, words: String) {
        self.broken = Some(Broken {
            law: Law::Panic,
            words,
        });
    }
}
