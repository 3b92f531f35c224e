//! A stop hook that says what the script says.

use std::time::Duration;

use futures_util::future::BoxFuture;
use tooloop::{StopHook, StopJudgement, Stopping};

use crate::script::{Judged, Moment, StopPlan};
use crate::world::{Shared, World};

#[derive(Debug)]
pub(crate) struct SimulatedHook(pub(crate) Shared);

impl StopHook for SimulatedHook {
    fn judge(&self, _: Stopping) -> BoxFuture<'static, StopJudgement> {
        let shared = self.0.clone();
        let plan = shared.lock().stops();
        Box::pin(async move {
            let Some(plan) = plan.filter(|plan| plan.what != Judged::Never) else {
                return std::future::pending().await;
            };
            if plan.wait > 0 {
                tokio::time::sleep(Duration::from_millis(plan.wait)).await;
            }
            let judged = shared.lock().judges(plan.what);
            match judged {
                Some(judged) => judged,
                None => std::future::pending().await,
            }
        })
    }
}

impl World {
    fn stops(&mut self) -> Option<StopPlan> {
        self.moment(Moment::Stop, 0, || {
            "a hook is told that the model is done".into()
        });
        if !self.alive() {
            return None;
        }
        self.see("stop hook");
        let plan = self.script.stops.get(self.used.stops).cloned();
        self.used.stops += 1;
        Some(plan.unwrap_or(StopPlan {
            wait: 0,
            what: Judged::Done,
        }))
    }

    fn judges(&mut self, judged: Judged) -> Option<StopJudgement> {
        self.moment(Moment::Answer, 0, || format!("the hook says {judged:?}"));
        if !self.alive() {
            return None;
        }
        Some(match judged {
            Judged::Done | Judged::Never => StopJudgement::Done,
            Judged::GoOn => {
                let reason = format!("object {}", self.number());
                self.life.objections.push(reason.clone());
                StopJudgement::GoOn { reason }
            }
            Judged::End => {
                self.life.hook_ended = true;
                StopJudgement::End {
                    reason: "the hook".into(),
                }
            }
        })
    }
}
