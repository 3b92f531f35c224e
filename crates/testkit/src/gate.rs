//! Latches between a test and the threads it drives, and waiting with a bound.
//!
//! A [`Gate`] is how a test and a scripted reply take turns without sleeping: the reply stops at a gate until the
//! test opens it, or opens one to say how far it has come. Knows nothing of HTTP.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Locks without minding that another thread panicked: a failed assertion must not hide behind a poisoned lock.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Wakes every thread that waits for some change, so that each can look whether the change is the one it wants.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    rings: Mutex<u64>,
    rung: Condvar,
}

impl Bell {
    pub(crate) fn ring(&self) {
        *lock(&self.rings) += 1;
        self.rung.notify_all();
    }

    /// Waits until `done` holds; says false if the deadline came first. `done` is called with no lock held.
    pub(crate) fn wait_until(
        &self,
        deadline: Option<Instant>,
        mut done: impl FnMut() -> bool,
    ) -> bool {
        loop {
            // Read before looking: a ring that comes while `done` runs changes the count and is not lost.
            let seen = *lock(&self.rings);
            if done() {
                return true;
            }
            let mut rings = lock(&self.rings);
            while *rings == seen {
                match deadline {
                    None => {
                        rings = self
                            .rung
                            .wait(rings)
                            .unwrap_or_else(PoisonError::into_inner)
                    }
                    Some(at) => {
                        let now = Instant::now();
                        if now >= at {
                            drop(rings);
                            return done();
                        }
                        rings = self
                            .rung
                            .wait_timeout(rings, at - now)
                            .unwrap_or_else(PoisonError::into_inner)
                            .0;
                    }
                }
            }
        }
    }
}

/// A latch: closed at first, open for good once [`open`](Self::open) was called.
///
/// Clones are handles to the same latch.
///
/// ```
/// use std::time::Duration;
/// use tooloop_testkit::Gate;
///
/// let gate = Gate::new();
/// let other = gate.clone();
/// let thread = std::thread::spawn(move || other.open());
/// assert!(gate.wait(Duration::from_secs(10)));
/// thread.join().unwrap();
/// ```
#[derive(Debug, Clone, Default)]
pub struct Gate {
    shared: Arc<GateShared>,
}

#[derive(Debug, Default)]
struct GateShared {
    state: Mutex<GateState>,
    bell: Bell,
}

#[derive(Debug, Default)]
struct GateState {
    open: bool,
    listeners: Vec<Weak<Bell>>,
}

impl Gate {
    /// Makes a closed gate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens the gate for everyone who waits and everyone who will.
    pub fn open(&self) {
        let listeners = {
            let mut state = lock(&self.shared.state);
            state.open = true;
            std::mem::take(&mut state.listeners)
        };
        self.shared.bell.ring();
        for bell in listeners.iter().filter_map(Weak::upgrade) {
            bell.ring();
        }
    }

    /// Says whether the gate has been opened.
    pub fn is_open(&self) -> bool {
        lock(&self.shared.state).open
    }

    /// Waits until the gate is open; says false if `within` passed first.
    #[must_use = "says whether the gate was opened in time"]
    pub fn wait(&self, within: Duration) -> bool {
        self.shared
            .bell
            .wait_until(Some(Instant::now() + within), || self.is_open())
    }

    /// Has `bell` rung when the gate opens, for a thread that waits for more than this gate.
    pub(crate) fn ring_on_open(&self, bell: &Arc<Bell>) {
        let mut state = lock(&self.shared.state);
        if !state.open {
            state.listeners.retain(|other| other.strong_count() > 0);
            if !state
                .listeners
                .iter()
                .any(|other| std::ptr::eq(other.as_ptr(), Arc::as_ptr(bell)))
            {
                state.listeners.push(Arc::downgrade(bell));
            }
        }
    }
}

/// Looks every few milliseconds whether `condition` holds; says false if `within` passed first.
///
/// For conditions that nothing announces, such as a file that appears. The condition is looked at once more at the
/// end, so a slow machine cannot make a true condition look false.
#[must_use = "says whether the condition came true in time"]
pub fn wait_until(within: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + within;
    while Instant::now() < deadline {
        if condition() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    condition()
}

/// A wait that ended at its bound, with what had been seen by then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("waited {} ms for {awaited}; seen: {seen}", within.as_millis())]
pub struct TimedOut {
    /// What was waited for.
    pub awaited: String,
    /// What there was at the end.
    pub seen: String,
    /// How long the wait was.
    pub within: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const LONG: Duration = Duration::from_secs(30);

    #[test]
    fn a_gate_stays_open_and_wakes_all() {
        let gate = Gate::new();
        assert!(!gate.is_open());
        assert!(!gate.wait(Duration::ZERO));
        let through = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    assert!(gate.wait(LONG));
                    through.fetch_add(1, Ordering::Relaxed);
                });
            }
            gate.open();
        });
        assert_eq!(through.load(Ordering::Relaxed), 4);
        assert!(gate.wait(Duration::ZERO));
    }

    #[test]
    fn a_gate_rings_a_bell_once_however_often_it_was_asked() {
        let gate = Gate::new();
        let bell = Arc::new(Bell::default());
        for _ in 0..100 {
            gate.ring_on_open(&bell);
        }
        assert_eq!(lock(&gate.shared.state).listeners.len(), 1);
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(bell.wait_until(None, || gate.is_open())));
            gate.open();
        });
    }

    #[test]
    fn a_condition_is_looked_at_once_more_at_the_end() {
        assert!(wait_until(Duration::ZERO, || true));
        assert!(!wait_until(Duration::from_millis(20), || false));
        let looks = AtomicUsize::new(0);
        assert!(wait_until(LONG, || looks.fetch_add(1, Ordering::Relaxed) >= 3));
    }
}
