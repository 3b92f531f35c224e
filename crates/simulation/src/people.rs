//! Somebody who answers questions as the script says.

use std::time::Duration;

use futures_util::future::BoxFuture;
use tooloop::{Approver, Question, Reply};
use tooloop_model::ToolUseId;

use crate::law::Law;
use crate::script::{AnswerPlan, Moment, Place, Said};
use crate::tools;
use crate::world::{Shared, World};

pub(crate) struct SimulatedPerson(pub(crate) Shared);

impl Approver for SimulatedPerson {
    fn decide(&self, question: Question) -> BoxFuture<'static, Reply> {
        let shared = self.0.clone();
        let id = question.tool_use.id.clone();
        let plan = shared.lock().asks(&question);
        let Some(plan) = plan else {
            return Box::pin(std::future::pending());
        };
        let life = shared.lock().life.number;
        let waiting = Waiting { shared, life, id };
        Box::pin(async move {
            if plan.what == Said::Never {
                let () = std::future::pending().await;
            }
            if plan.wait > 0 {
                tokio::time::sleep(Duration::from_millis(plan.wait)).await;
            }
            let reply = waiting.shared.lock().says(&question, plan.what);
            match reply {
                Some(reply) => reply,
                None => std::future::pending().await,
            }
        })
    }
}

/// Tells when nobody waits for an answer any more.
struct Waiting {
    shared: Shared,
    life: u32,
    id: ToolUseId,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut world = self.shared.lock();
        if world.life.number == self.life {
            world.life.questions.retain(|id| *id != self.id);
            world.life.never = false;
        }
    }
}

impl World {
    fn asks(&mut self, question: &Question) -> Option<AnswerPlan> {
        let id = &question.tool_use.id;
        self.moment(Moment::Question, question.ask, || {
            format!("question {} about {id}", question.ask)
        });
        if !self.alive() {
            return None;
        }
        self.see("question");
        let open = self.record.call(id).is_some()
            && !self.record.answered.contains(id)
            && !self.record.started.contains_key(id);
        self.require(Law::RecordFirst, open, || {
            format!("it is asked about {id}, which is no open call on record")
        });
        let others = self.life.questions.len();
        self.require(Law::Permission, others == 0, || {
            format!("it is asked about {id} while {others} questions are open")
        });
        self.life.questions.push(id.clone());
        let plan = self.script.answers.get(self.used.answers).cloned();
        self.used.answers += 1;
        let plan = plan.unwrap_or(AnswerPlan {
            wait: 0,
            what: Said::Allow,
        });
        self.life.never = plan.what == Said::Never;
        Some(plan)
    }

    fn says(&mut self, question: &Question, said: Said) -> Option<Reply> {
        let id = &question.tool_use.id;
        self.moment(Moment::Answer, question.ask, || {
            format!("question {} is answered: {said:?}", question.ask)
        });
        if !self.alive() {
            return None;
        }
        self.life.answers.insert(id.clone(), said != Said::Deny);
        Some(match said {
            Said::Allow | Said::Never => Reply::Allow,
            Said::Always => {
                let plan = tools::plan_of(&self.script, &question.tool_use.input);
                let host = plan.map_or(Place::Asked, |plan| plan.place).host();
                self.life.granted.insert(host);
                Reply::AllowForSession
            }
            Said::Deny => Reply::Deny {
                reason: "not now".into(),
            },
        })
    }
}
