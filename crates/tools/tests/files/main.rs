//! The file tools as a model meets them.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "shared test code may panic"
)]

mod cases;
mod patch;
mod room;
