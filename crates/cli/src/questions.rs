//! Questions about calls that wait for their answers, whoever gives them: an [`Approver`] for front
//! ends.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::{Notify, oneshot};
use tooloop::{Approver, Question, Reply};

/// The questions that nobody has answered yet. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Questions(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    waiting: BTreeMap<u64, Waiting>,
    /// Why nobody answers any more.
    closed: Option<String>,
}

#[derive(Debug)]
struct Waiting {
    question: Question,
    answer: oneshot::Sender<Reply>,
}

impl Questions {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers a question; says false if it does not wait (any more).
    pub(crate) fn answer(&self, ask: u64, reply: Reply) -> bool {
        let waiting = self.lock().waiting.remove(&ask);
        // An error means that it was withdrawn this very moment.
        waiting.is_some_and(|waiting| waiting.answer.send(reply).is_ok())
    }

    /// All that wait, oldest first.
    pub(crate) fn waiting(&self) -> Vec<Question> {
        let state = self.lock();
        let waiting = state.waiting.values();
        waiting.map(|waiting| waiting.question.clone()).collect()
    }

    /// Waits until a question has come up or was withdrawn. One that did so before, and was not
    /// waited for, counts too.
    pub(crate) async fn changed(&self) {
        self.0.changed.notified().await;
    }

    /// From now on nobody answers: what waits, and what comes, is denied with these words.
    pub(crate) fn close(&self, words: &str) {
        let waiting = {
            let mut state = self.lock();
            state.closed.get_or_insert_with(|| words.to_owned());
            std::mem::take(&mut state.waiting)
        };
        for waiting in waiting.into_values() {
            let reason = denied(&waiting.question, words);
            drop(waiting.answer.send(Reply::Deny { reason }));
        }
    }
}

fn denied(question: &Question, words: &str) -> String {
    format!("{}, and {words}", question.reason)
}

impl Approver for Questions {
    fn decide(&self, question: Question) -> BoxFuture<'static, Reply> {
        let ask = question.ask;
        let (answer, reply) = oneshot::channel();
        {
            let mut state = self.lock();
            if let Some(words) = &state.closed {
                let reason = denied(&question, words);
                return std::future::ready(Reply::Deny { reason }).boxed();
            }
            state.waiting.insert(ask, Waiting { question, answer });
        }
        self.0.changed.notify_one();
        let withdrawal = Withdrawal(self.clone(), ask);
        async move {
            let reply = reply.await;
            drop(withdrawal);
            reply.unwrap_or_else(|_| Reply::Deny {
                reason: "the question was withdrawn".into(),
            })
        }
        .boxed()
    }
}

/// Takes a question back when nobody waits for its answer any more.
struct Withdrawal(Questions, u64);

impl Drop for Withdrawal {
    fn drop(&mut self) {
        let Self(questions, ask) = self;
        if questions.lock().waiting.remove(ask).is_some() {
            questions.0.changed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use tooloop::{ToolInput, ToolUse};

    use super::*;

    fn question(ask: u64) -> Question {
        Question {
            denying: Vec::new(),
            ask,
            agent: None,
            tool_use: ToolUse {
                id: "1".into(),
                name: "bash".into(),
                input: ToolInput::parse("{}"),
                vendor: None,
            },
            reason: "why not".into(),
            cause: None,
            rules: Vec::new(),
        }
    }

    #[tokio::test]
    async fn an_answer_reaches_its_question() {
        let questions = Questions::default();
        let first = questions.decide(question(1));
        let second = questions.decide(question(2));
        assert_eq!(questions.waiting(), [question(1), question(2)]);
        questions.changed().await;
        assert!(questions.answer(2, Reply::Allow));
        assert!(!questions.answer(2, Reply::AllowForSession));
        assert!(!questions.answer(7, Reply::Allow));
        assert_eq!(second.await, Reply::Allow);
        assert_eq!(questions.waiting(), [question(1)]);
        drop(first);
        questions.changed().await;
        assert_eq!(questions.waiting(), []);
    }

    #[tokio::test]
    async fn where_nobody_answers_any_more_all_is_denied() {
        let questions = Questions::default();
        let before = questions.decide(question(1));
        questions.close("they have left");
        let after = questions.decide(question(2));
        let reason = "why not, and they have left".to_owned();
        for reply in [before, after] {
            let reason = reason.clone();
            assert_eq!(reply.await, Reply::Deny { reason });
        }
        assert_eq!(questions.waiting(), []);
    }
}
