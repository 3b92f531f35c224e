//! The person at the terminal as an [`Approver`]: questions wait here for their answers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::oneshot;
use tooloop::{Approver, Question, Reply};

/// The questions that nobody has answered yet. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Questions(Arc<Mutex<BTreeMap<u64, Waiting>>>);

#[derive(Debug)]
struct Waiting {
    question: Question,
    answer: oneshot::Sender<Reply>,
}

impl Questions {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers a question. Nothing happens if it was withdrawn.
    pub(crate) fn answer(&self, ask: u64, reply: Reply) {
        let waiting = self.lock().remove(&ask);
        if let Some(waiting) = waiting {
            // An error means that it was withdrawn this very moment.
            drop(waiting.answer.send(reply));
        }
    }

    /// All that wait, oldest first: for a screen that has missed some.
    pub(crate) fn waiting(&self) -> Vec<Question> {
        let waiting = self.lock();
        waiting
            .values()
            .map(|waiting| waiting.question.clone())
            .collect()
    }
}

impl Approver for Questions {
    fn decide(&self, question: Question) -> BoxFuture<'static, Reply> {
        let ask = question.ask;
        let (answer, reply) = oneshot::channel();
        self.lock().insert(ask, Waiting { question, answer });
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
        self.0.lock().remove(&self.1);
    }
}

#[cfg(test)]
mod tests {
    use tooloop::{ToolInput, ToolUse};

    use super::*;

    fn question(ask: u64) -> Question {
        Question {
            ask,
            tool_use: ToolUse {
                id: "1".into(),
                name: "bash".into(),
                input: ToolInput::parse("{}"),
                vendor: None,
            },
            reason: "why not".into(),
            rule: None,
        }
    }

    #[tokio::test]
    async fn an_answer_reaches_its_question() {
        let questions = Questions::default();
        let first = questions.decide(question(1));
        let second = questions.decide(question(2));
        assert_eq!(questions.waiting(), [question(1), question(2)]);
        questions.answer(2, Reply::Allow);
        questions.answer(2, Reply::AllowForSession);
        questions.answer(7, Reply::Allow);
        assert_eq!(second.await, Reply::Allow);
        assert_eq!(questions.waiting(), [question(1)]);
        drop(first);
        assert_eq!(questions.waiting(), []);
    }
}
