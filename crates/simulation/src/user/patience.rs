//! How the user waits: as long as something happens.

use std::time::Duration;

use super::{Gone, INTERRUPTED, SILENT, Told, User, next_report};
use crate::law::Law;
use crate::script::Moment;

impl User {
    /// Waits, and takes reports meanwhile.
    pub(super) async fn wait(&mut self, time: Duration) -> Result<(), Gone> {
        let sleep = tokio::time::sleep(time);
        tokio::pin!(sleep);
        loop {
            tokio::select! {
                biased;
                told = next_report(&mut self.turns) => self.take(told)?,
                () = &mut sleep => return Ok(()),
            }
        }
    }

    pub(super) fn take(&mut self, told: Told) -> Result<(), Gone> {
        let (result, alone, text) = told;
        self.told(result, alone, text)
    }

    /// Waits until no turn is under way. Something must happen all the time.
    pub(super) async fn settle(&mut self) -> Result<(), Gone> {
        loop {
            while !self.turns.is_empty() {
                let before = self.moments();
                let wanted = self.shared.lock().ends_soon();
                let longest = if wanted { INTERRUPTED } else { SILENT };
                let told = tokio::time::timeout(longest, next_report(&mut self.turns)).await;
                match told {
                    Ok(told) => self.take(told)?,
                    Err(_) if wanted && self.shared.lock().ends_soon() => {
                        let mut world = self.shared.lock();
                        world.break_law(Law::Bounds, "a turn goes on that was interrupted");
                        return Err(Gone);
                    }
                    Err(_) if self.moments() != before => {}
                    Err(_) => self.lose_patience().await?,
                }
            }
            self.look().await?;
            if !self.shared.lock().record.in_turn {
                return Ok(());
            }
            // A turn that nobody waits for.
            let began = tokio::time::Instant::now();
            while self.shared.lock().record.in_turn {
                if began.elapsed() > INTERRUPTED {
                    let mut world = self.shared.lock();
                    world.break_law(Law::Bounds, "a turn goes on that nobody waits for");
                    return Err(Gone);
                }
                self.wait(Duration::from_millis(50)).await?;
                if self.session_is_over() {
                    return Err(Gone);
                }
            }
        }
    }

    pub(super) fn session_is_over(&self) -> bool {
        let world = self.shared.lock();
        world.life.append_failed || world.life.flush_failed
    }

    pub(super) fn moments(&self) -> u32 {
        self.shared.lock().life.all_moments
    }

    /// Nothing has happened for long. That is only so if nobody answers a question.
    pub(super) async fn lose_patience(&mut self) -> Result<(), Gone> {
        let never = self.shared.lock().life.never;
        if !never {
            let mut world = self.shared.lock();
            world.break_law(Law::Bounds, "a turn waits for nothing");
            return Err(Gone);
        }
        {
            let mut world = self.shared.lock();
            world.moment(Moment::User, 99, || "the user loses patience".into());
        }
        self.interrupt().await
    }
}
