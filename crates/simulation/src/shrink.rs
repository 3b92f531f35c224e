//! The smallest script that breaks the same law.

use crate::law::Law;
use crate::script::{Act, After, AnswerPlan, CallPlan, Death, DiskFault, Knobs, Reply, Script};

/// Makes a script smaller as long as it breaks the law, with so many tries at most. `breaks` plays
/// a script and says which law it breaks.
#[must_use]
pub fn shrink(
    script: &Script,
    law: Law,
    tries: u32,
    mut breaks: impl FnMut(&Script) -> Option<Law>,
) -> Script {
    let mut search = Search {
        best: script.clone(),
        left: tries,
        holds: |script: &Script| breaks(script) == Some(law),
    };
    loop {
        let before = search.best.clone();
        search.cut(|script| &mut script.acts);
        search.cut(|script| &mut script.replies);
        search.cut(|script| &mut script.deaths);
        search.cut(|script| &mut script.disk);
        search.cut(|script| &mut script.answers);
        search.cut(|script| &mut script.stops);
        search.cut(|script| &mut script.advice);
        search.cut(|script| &mut script.summaries);
        search.cut_blocks();
        search.cut(|script| &mut script.calls);
        search.simplify();
        if search.best == before || search.left == 0 {
            return search.best;
        }
    }
}

struct Search<F> {
    best: Script,
    left: u32,
    holds: F,
}

impl<F: FnMut(&Script) -> bool> Search<F> {
    /// Takes the script if it still breaks the law. Returns whether it does.
    fn try_one(&mut self, script: Script) -> bool {
        if self.left == 0 || script == self.best {
            return false;
        }
        self.left -= 1;
        let holds = (self.holds)(&script);
        if holds {
            self.best = script;
        }
        holds
    }

    /// Leaves out pieces of a list: halves first, then quarters, down to single ones.
    fn cut<T: Clone>(&mut self, list: impl Fn(&mut Script) -> &mut Vec<T>) {
        let mut size = list(&mut self.best).len();
        while size > 0 {
            // From the end, so that what is behind does not change its place.
            let mut end = list(&mut self.best).len();
            while end > 0 {
                let begin = end.saturating_sub(size);
                let mut script = self.best.clone();
                list(&mut script).drain(begin..end);
                self.try_one(script);
                end = begin;
            }
            size /= 2;
        }
    }

    fn cut_blocks(&mut self) {
        for place in 0..self.best.replies.len() {
            let blocks = self
                .best
                .replies
                .get(place)
                .map_or(0, |reply| reply.blocks.len());
            for block in (0..blocks).rev() {
                self.with(place, |reply: &mut Reply| {
                    if block < reply.blocks.len() {
                        reply.blocks.remove(block);
                    }
                });
            }
        }
    }

    fn with(&mut self, place: usize, change: impl FnOnce(&mut Reply)) {
        self.change(|script| &mut script.replies, place, change);
    }

    fn change<T>(
        &mut self,
        list: impl Fn(&mut Script) -> &mut Vec<T>,
        place: usize,
        change: impl FnOnce(&mut T),
    ) {
        let mut script = self.best.clone();
        if let Some(item) = list(&mut script).get_mut(place) {
            change(item);
            self.try_one(script);
        }
    }

    /// Makes what is left as dull as can be.
    fn simplify(&mut self) {
        self.simplify_knobs();
        for place in 0..self.best.replies.len() {
            self.with(place, |reply| *reply = Reply::default());
            self.with(place, |reply| reply.end = Reply::default().end);
            self.with(place, |reply| reply.cut = None);
            self.with(place, |reply| reply.usage = None);
            self.with(place, |reply| reply.gap = 0);
            self.with(place, |reply| reply.wait = 0);
        }
        for place in 0..self.best.calls.len() {
            let dull = CallPlan::default;
            self.change(|script| &mut script.calls, place, |plan| *plan = dull());
            self.change(
                |script| &mut script.calls,
                place,
                |plan| plan.how = dull().how,
            );
            self.change(
                |script| &mut script.calls,
                place,
                |plan| plan.place = dull().place,
            );
            self.change(|script| &mut script.calls, place, |plan| plan.before = 0);
            self.change(|script| &mut script.calls, place, |plan| plan.after = 0);
            self.change(|script| &mut script.calls, place, |plan| plan.stubborn = 0);
            self.change(|script| &mut script.calls, place, |plan| plan.notice = None);
        }
        for place in 0..self.best.acts.len() {
            self.change(
                |script| &mut script.acts,
                place,
                |act: &mut Act| act.after = After::Idle,
            );
            self.change(
                |script| &mut script.acts,
                place,
                |act: &mut Act| {
                    act.after = After::Millis(0);
                },
            );
        }
        for place in 0..self.best.answers.len() {
            self.change(
                |script| &mut script.answers,
                place,
                |answer: &mut AnswerPlan| {
                    answer.wait = 0;
                },
            );
        }
        for place in 0..self.best.disk.len() {
            let skips = self.best.disk.get(place).map_or(0, |fault| fault.skip);
            for skip in smaller(skips) {
                self.change(
                    |script| &mut script.disk,
                    place,
                    |fault: &mut DiskFault| {
                        fault.skip = skip;
                    },
                );
            }
        }
        for place in 0..self.best.deaths.len() {
            let nth = self.best.deaths.get(place).map_or(1, |death| death.nth);
            for nth in smaller(nth - 1) {
                self.change(
                    |script| &mut script.deaths,
                    place,
                    |death: &mut Death| {
                        death.nth = nth + 1;
                    },
                );
            }
        }
    }

    fn simplify_knobs(&mut self) {
        let dull = Knobs::default();
        let changes: [fn(&mut Knobs, &Knobs); 20] = [
            |knobs, dull| knobs.max_parallel = dull.max_parallel,
            |knobs, dull| knobs.max_turns = dull.max_turns,
            |knobs, dull| (knobs.cap, knobs.larger_cap) = (dull.cap, dull.larger_cap),
            |knobs, dull| knobs.attempts = dull.attempts,
            |knobs, dull| knobs.stop_after = dull.stop_after,
            |knobs, dull| knobs.watched = dull.watched,
            |knobs, dull| knobs.asks = dull.asks,
            |knobs, dull| knobs.flush = dull.flush,
            |knobs, _| knobs.larger_cap = None,
            |knobs, dull| knobs.limits = dull.limits,
            |knobs, _| knobs.limits.calls = None,
            |knobs, _| knobs.limits.time = None,
            |knobs, _| knobs.limits.tokens = None,
            |knobs, _| knobs.limits.cost = None,
            |knobs, dull| knobs.priced = dull.priced,
            |knobs, dull| (knobs.fallback, knobs.hook) = (dull.fallback, dull.hook),
            |knobs, dull| knobs.tool_hook = dull.tool_hook,
            |knobs, dull| knobs.form = dull.form,
            |knobs, dull| knobs.summary_hook = dull.summary_hook,
            |knobs, dull| knobs.window = dull.window,
        ];
        for change in changes {
            let mut script = self.best.clone();
            change(&mut script.knobs, &dull);
            self.try_one(script);
        }
    }
}

/// Smaller numbers, the smallest first.
fn smaller(number: u32) -> impl Iterator<Item = u32> {
    let near = (0..number).take(4);
    let halves = (1..8).map(move |shift| number >> shift);
    near.chain(halves).filter(move |other| *other < number)
}
