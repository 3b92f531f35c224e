//! What there is of a kind, for a model that has named one that there is not.

/// Says which there are, and which of them run.
pub(crate) fn known<'k>(all: impl Iterator<Item = (&'k str, bool)>) -> String {
    let known: Vec<String> = all
        .map(|(id, is_running)| {
            let state = if is_running { "running" } else { "ended" };
            format!("{id} ({state})")
        })
        .collect();
    if known.is_empty() {
        "there are none".into()
    } else {
        format!("there are {}", known.join(", "))
    }
}
