//! What a [`Store`] must hold to, as a test that any store can run.

use tooloop_kernel::{Entry, Transcript};
use tooloop_model::Message;

use crate::{Flush, Store};

/// Appends to a store made by `make` and reads it back with `read`, which folds what the store has
/// kept under the same session. Returns what is wrong, if something is.
///
/// # Errors
/// The first thing that does not hold.
pub fn check<S: Store>(
    make: impl FnOnce() -> S,
    read: impl FnOnce(&S) -> Vec<Entry>,
) -> Result<(), String> {
    let mut store = make();
    let session = store.session();
    let entries = [
        Entry::message(Message::user("one")),
        Entry::message(Message::user("two\nlines \u{2028} and \u{0} more")),
        Entry::TurnEnd(tooloop_kernel::TurnEnd::Completed),
    ];
    let told = |what: &'static str| move |error: crate::StoreError| format!("{what}: {error}");
    store.append(&[]).map_err(told("append of nothing"))?;
    let [first, rest @ ..] = &entries;
    store
        .append(std::slice::from_ref(first))
        .map_err(told("append of one"))?;
    let flush = store.flush();
    store.append(rest).map_err(told("append of many"))?;
    // One that waits needs its own runtime, which is not known here: it is only begun.
    match flush {
        Flush::Waiting(flush) => drop(flush()),
        Flush::Blocking(flush) => std::thread::scope(|scope| scope.spawn(|| flush()).join())
            .map_err(|_| "a flush on another thread panics".to_owned())?
            .map_err(told("flush"))?,
    }
    if store.session() != session {
        return Err("the session changes its name".into());
    }
    let kept = read(&store);
    if kept != entries {
        return Err(format!("kept {kept:?} of {entries:?}"));
    }
    let mut transcript = Transcript::default();
    kept.iter().for_each(|entry| transcript.apply(entry));
    if transcript.messages().len() != 2 {
        return Err("what was kept does not fold to what was said".into());
    }
    Ok(())
}
