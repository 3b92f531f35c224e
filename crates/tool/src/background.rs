//! Work that goes on after the call that began it has answered.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The background work of a session, and what it has to say. A handle: clones share one list.
///
/// A tool that starts such work calls [`Background::begin`] and keeps what it gets with the work.
/// What the work says is a *notice*: it reaches the model exactly once, between two of its steps,
/// and goes on with a turn that is over.
#[derive(Debug, Clone, Default)]
pub struct Background(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    said: Notify,
    /// Work has ended, with or without a notice.
    ended: Notify,
    ends_with_answer: bool,
}

#[derive(Debug, Default)]
struct State {
    newest: u64,
    works: BTreeMap<u64, Title>,
    notices: VecDeque<String>,
}

#[derive(Debug)]
struct Title {
    title: String,
    /// The model was promised a notice of its end.
    is_promised: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Background {
    /// The background work of a subagent: its answer ends it.
    #[must_use]
    pub fn of_subagent() -> Self {
        Self(Arc::new(Shared {
            ends_with_answer: true,
            ..Shared::default()
        }))
    }

    /// Whether the answer of the session ends its background work.
    #[must_use]
    pub fn ends_with_answer(&self) -> bool {
        self.0.ends_with_answer
    }

    /// Work begins whose end the model is told by a notice. The title names it to a person in a few
    /// words.
    #[must_use]
    pub fn begin(&self, title: impl Into<String>) -> Work {
        self.add(title.into(), true)
    }

    /// Work begins whose end is not told: a headless run does not wait for it.
    #[must_use]
    pub fn begin_untold(&self, title: impl Into<String>) -> Work {
        self.add(title.into(), false)
    }

    fn add(&self, title: String, is_promised: bool) -> Work {
        let mut state = self.0.lock();
        state.newest = state.newest.saturating_add(1);
        let number = state.newest;
        let work = Title { title, is_promised };
        state.works.insert(number, work);
        drop(state);
        Work {
            background: self.clone(),
            number,
        }
    }

    /// The titles of the work that is under way, in the order in which it began.
    #[must_use]
    pub fn under_way(&self) -> Vec<String> {
        let state = self.0.lock();
        let works = state.works.values();
        works.map(|work| work.title.clone()).collect()
    }

    /// The titles of the work under way whose end the model was promised a notice of.
    #[must_use]
    pub fn promised(&self) -> Vec<String> {
        let state = self.0.lock();
        let promised = state.works.values().filter(|work| work.is_promised);
        promised.map(|work| work.title.clone()).collect()
    }

    /// Whether any work has ever begun.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.0.lock().newest > 0
    }

    /// Whether notices wait to be taken.
    #[must_use]
    pub fn has_notices(&self) -> bool {
        !self.0.lock().notices.is_empty()
    }

    /// Waits until work ends. An end that was not waited for counts too. For one waiter.
    pub async fn ended(&self) {
        self.0.ended.notified().await;
    }

    /// The next notice, as soon as there is one. Whoever gets it has the only copy.
    pub async fn notice(&self) -> String {
        loop {
            // Taken before the look, so that nothing that comes between is missed.
            let said = self.0.said.notified();
            if let Some(notice) = self.0.lock().notices.pop_front() {
                return notice;
            }
            said.await;
        }
    }

    /// The next notice if there is one.
    #[must_use]
    pub fn try_notice(&self) -> Option<String> {
        self.0.lock().notices.pop_front()
    }
}

/// One piece of work under way. Dropping it ends it without a word: for work whose end somebody
/// has been told of already.
#[derive(Debug)]
pub struct Work {
    background: Background,
    number: u64,
}

impl Work {
    /// Says something while the work goes on. Say little: each notice costs the model a step.
    pub fn say(&self, notice: impl Into<String>) {
        let shared = &self.background.0;
        shared.lock().notices.push_back(notice.into());
        shared.said.notify_one();
    }

    /// Ends, and says how.
    pub fn finish(self, notice: impl Into<String>) {
        self.say(notice);
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let shared = &self.background.0;
        shared.lock().works.remove(&self.number);
        shared.ended.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_notice_is_given_once_and_work_is_listed_until_it_ends() {
        let background = Background::default();
        let first = background.begin("make");
        let second = background.begin("watch");
        assert_eq!(background.under_way(), ["make", "watch"]);
        first.finish("make has ended");
        assert_eq!(background.notice().await, "make has ended");
        assert_eq!(background.try_notice(), None);
        drop(second);
        assert!(background.under_way().is_empty());
        assert_eq!(background.try_notice(), None);
    }

    #[tokio::test]
    async fn who_waits_is_woken() {
        let background = Background::default();
        let work = background.begin("make");
        let waiting = background.clone();
        let waiter = tokio::spawn(async move { waiting.notice().await });
        tokio::task::yield_now().await;
        work.finish("done");
        assert_eq!(waiter.await.unwrap(), "done");
    }
}
