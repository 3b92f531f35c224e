//! The file tools as a model meets them.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "shared test code may panic"
)]

mod carried;
mod cases;
mod edit;
mod kinds;
mod machine;
mod memory;
mod patch;
mod patch_errors;
mod processes;
mod properties;
mod room;
