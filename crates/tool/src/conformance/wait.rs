//! Futures run with an eye on panics and on the clock, whatever runtime there is.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::mpsc;
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

/// How a future ended.
pub(super) enum Ended<T> {
    Done(T),
    Panicked,
    TooLate,
}

/// What a closure gives, unless it panics.
pub(super) fn unless_panic<T>(ask: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(ask)).ok()
}

/// Runs a future, at most as long as there is patience.
pub(super) async fn run<T>(
    future: Pin<Box<dyn Future<Output = T> + Send + '_>>,
    patience: Duration,
) -> Ended<T> {
    let mut future = future;
    let begun = Instant::now();
    let mut alarm: Option<Alarm> = None;
    poll_fn(move |context| {
        match unless_panic(|| future.as_mut().poll(context)) {
            None => return Poll::Ready(Ended::Panicked),
            Some(Poll::Ready(done)) => return Poll::Ready(Ended::Done(done)),
            Some(Poll::Pending) => {}
        }
        let left = patience.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return Poll::Ready(Ended::TooLate);
        }
        // The newest waker is the one that counts.
        drop(alarm.replace(Alarm::after(left, context)));
        Poll::Pending
    })
    .await
}

/// Runs a future, and does something as soon as it has begun.
pub(super) async fn after_first_poll<T>(future: impl Future<Output = T>, act: impl FnOnce()) -> T {
    let mut future = pin!(future);
    let mut act = Some(act);
    poll_fn(move |context| {
        let polled = future.as_mut().poll(context);
        if let Some(act) = act.take() {
            act();
        }
        polled
    })
    .await
}

/// A thread that wakes a task after a time, and ends when nobody waits for it any more.
struct Alarm {
    off: Option<mpsc::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Alarm {
    fn after(time: Duration, context: &Context<'_>) -> Self {
        let waker = context.waker().clone();
        let (off, told) = mpsc::channel::<()>();
        let thread = thread::spawn(move || {
            if told.recv_timeout(time) == Err(mpsc::RecvTimeoutError::Timeout) {
                waker.wake();
            }
        });
        Self {
            off: Some(off),
            thread: Some(thread),
        }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        drop(self.off.take());
        if let Some(thread) = self.thread.take() {
            // It only sleeps and wakes: there is nothing to hear of.
            drop(thread.join());
        }
    }
}
