//! Whether what the user is told, and what is left at a quiet moment, is so.

use std::collections::BTreeMap;

use tooloop::TurnReport;
use tooloop_kernel::{Delivery, During, Entry, Transcript, TurnEnd};
use tooloop_model::Content;

use crate::bills::Bill;
use crate::law::Law;
use crate::record::Record;
use crate::script::Act;
use crate::world::World;

impl World {
    /// A process begins with what the disk has kept.
    pub(crate) fn wakes(&mut self) -> Vec<Entry> {
        self.life.resuming = true;
        let entries = self.disk.reopen(self.lost.take());
        self.folded = Transcript::default();
        self.folded.keep_past();
        self.record = Record::default();
        for (entry, end) in &entries {
            self.record.note(entry, *end);
            self.folded.apply(entry);
        }
        self.record.of_the_dead();
        self.life.foreign_past = self.others_counted;
        self.life.paid = self.folded.usage();
        self.life.spent_before = Bill {
            tokens: self.folded.spent_tokens(),
            cost: self.folded.spent().0,
        };
        let count = entries.len();
        self.tell(|| format!("a process begins with {count} entries"));
        self.steps += 1;
        if self.life.number > 1 && count > 0 {
            self.see("resumed");
        }
        entries.into_iter().map(|(entry, _)| entry).collect()
    }

    pub(crate) fn next_act(&mut self) -> Option<Act> {
        let act = self.script.acts.get(self.used.acts).cloned();
        self.used.acts += 1;
        act
    }

    /// Somebody is told how a turn ended.
    pub(crate) fn reported(&mut self, report: &TurnReport) {
        self.tell(|| format!("a report: {:?}", report.end));
        self.see("report");
        // Those before it had nobody to be told.
        let ended = loop {
            let Some(ended) = self.life.ends.pop_front() else {
                let words = format!(
                    "a report of a turn that has no end on record: {:?}",
                    report.end
                );
                return self.break_law(Law::Report, words);
            };
            // A call may be broken off before it is made.
            let broken_off = matches!(
                ended.end,
                TurnEnd::Interrupted {
                    during: During::Model,
                    ..
                }
            );
            let steps = ended.steps..=ended.steps + u32::from(broken_off);
            let same = ended.end == report.end && steps.contains(&report.steps);
            // One that nobody is told of may have ended in the same way.
            let other = self.life.deserted > 0 && ended.usage != report.usage;
            if same && !other {
                break ended;
            }
            if self.life.deserted == 0 {
                let words = format!(
                    "on record is {:?} after {} steps, the report says {:?} after {}",
                    ended.end, ended.steps, report.end, report.steps
                );
                return self.break_law(Law::Report, words);
            }
            self.life.deserted -= 1;
        };
        self.require(Law::Truth, ended.usage == report.usage, || {
            format!(
                "the turn used {:?}, the report says {:?}",
                ended.usage, report.usage
            )
        });
        let by_model = report.model_usage.iter();
        let by_model = by_model.filter(|(_, usage)| !usage.is_empty()).cloned();
        let by_model: BTreeMap<_, _> = by_model.collect();
        self.require(Law::Truth, ended.by_model == by_model, || {
            format!(
                "used was {:?}, the report says {by_model:?}",
                ended.by_model
            )
        });
        let answered = report.structured_output.is_some();
        let formed = self.script.knobs.form.is_none() || report.end != TurnEnd::Completed;
        self.require(Law::Truth, answered || formed, || {
            "the answer has no form".into()
        });
        let said = ended.text;
        self.require(Law::Truth, report.text.ends_with(&said), || {
            format!("the model said {said:?}, the report {:?}", report.text)
        });
        for content in &report.unsent {
            let [Content::Text(text)] = content.as_slice() else {
                return self.break_law(Law::Truth, format!("{content:?} is given back"));
            };
            let before = self.life.said.len();
            self.life.said.retain(|words| words.text != *text);
            let once = before == self.life.said.len() + 1;
            self.require(Law::Truth, once, || {
                format!("{text:?} is given back, and is on record or was never said")
            });
        }
    }

    /// Nothing is under way.
    pub(crate) fn is_quiet(&mut self) {
        if !self.alive() {
            return;
        }
        let failed = self.life.append_failed || self.life.flush_failed;
        if failed || self.record.in_turn || self.life.compacting > 0 {
            return;
        }
        let open = self.folded.open_calls().len();
        self.require(Law::Pairing, open == 0, || {
            format!("nothing is under way, and {open} calls are open")
        });
        let (used, paid) = (self.folded.usage(), self.life.paid);
        self.require(Law::Truth, used == paid, || {
            format!("the provider counted {paid:?}, on record is {used:?}")
        });
        self.is_booked();
        let questions = self.life.questions.len();
        self.require(Law::Bounds, questions == 0, || {
            format!("nothing is under way, and {questions} questions are open")
        });
        let busy = self.life.runs.iter().find(|run| run.is_under_way());
        let busy = busy.map(|run| run.id.clone());
        self.require(Law::Bounds, busy.is_none(), || {
            format!("nothing is under way, and {busy:?} runs")
        });
        // What was said and not sent is given back or warned of.
        let said = self.life.said.iter();
        let lost: Vec<_> = said
            .filter(|words| {
                words.delivery != Delivery::Notice && !self.life.uncertain.contains(&words.text)
            })
            .map(|words| words.text.clone())
            .collect();
        let warned = std::mem::take(&mut self.life.warned);
        let told = !self.script.knobs.watched
            || (lost.len()..=lost.len() + self.life.uncertain.len()).contains(&warned);
        self.require(Law::Truth, told, || {
            format!("{lost:?} is lost, {warned} warnings say so")
        });
        self.life
            .said
            .retain(|words| words.delivery == Delivery::Notice);
        self.life.uncertain.clear();
        self.life.deserted = 0;
        self.life.ends.clear();
        self.life.interrupt_wanted = false;
        self.life.more_interrupts = 0;
        let unread = self.life.unread.len();
        self.require(Law::Report, unread == 0, || {
            format!("{unread} entries were told to no reader of events")
        });
    }

    /// A session is over: nothing of it is left.
    pub(crate) fn is_over(&mut self) {
        let left = self.life.runs.iter().filter(|run| run.live).count();
        self.require(Law::Bounds, left == 0, || {
            format!("the session is over, and {left} calls run")
        });
        let questions = self.life.questions.len();
        self.require(Law::Bounds, questions == 0, || {
            format!("the session is over, and {questions} questions are open")
        });
        let failed = self.life.append_failed || self.life.flush_failed;
        let open = self.folded.open_calls().len();
        self.require(Law::Pairing, open == 0 || failed, || {
            format!("the session was closed, and {open} calls are open")
        });
        let in_turn = self.record.in_turn && !failed;
        self.require(Law::Report, !in_turn, || {
            "the session was closed, and its turn has no end".into()
        });
    }
}
