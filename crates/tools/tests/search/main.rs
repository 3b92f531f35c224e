//! `glob` and `grep` over real files.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "shared test code may panic"
)]

mod both;
mod glob;
mod grep;
mod properties;
mod room;
