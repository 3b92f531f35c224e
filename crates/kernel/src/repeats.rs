//! Notices when a model does the same thing again and again.

/// Counts how often the same calls had the same outcome in a row.
#[derive(Debug, Clone, Default)]
pub(crate) struct Repeats {
    newest: Vec<String>,
    times: u32,
}

impl Repeats {
    /// Takes in what one message's calls were and came to. Returns how often in a row that was so.
    pub(crate) fn note(&mut self, outcome: Vec<String>) -> u32 {
        if outcome == self.newest {
            self.times = self.times.saturating_add(1);
        } else {
            self.newest = outcome;
            self.times = 1;
        }
        self.times
    }
}
