//! The file tools as a model meets them.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
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
mod races;
mod room;
