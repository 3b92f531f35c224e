//! The whole loop in a box: kernel, runtime and journal under a virtual clock, with seeded faults.
//!
//! A seed is drawn into a [`Script`]: what the user does and when, what the model says and how it
//! fails, how calls go, what is said to questions, what is wrong with the disk, and at which moment
//! the process or the power dies. [`play`] runs the real driver against it on one thread with a
//! clock that stands still while anything can be done, so that a script comes out the same each
//! time. The world checks the laws of the house at each thing that happens: each entry as it is
//! appended, each request, each beginning and effect of a call, each event and report. What lives
//! on when a process dies is the disk, and the effects.
//!
//! A script that breaks a law is made smaller by [`shrink`] and says itself in words.
//!
//! ```
//! use tooloop_simulation::{Script, play};
//!
//! let outcome = play(&Script::draw(7), false)?;
//! assert_eq!(outcome.broken, None);
//! # Ok::<(), anyhow::Error>(())
//! ```

#![warn(missing_docs)]

mod answers;
mod bills;
mod disk;
mod draw;
mod hook;
mod law;
mod model;
mod people;
mod random;
mod reader;
mod record;
mod reports;
mod requests;
mod runner;
mod script;
mod shrink;
mod simulate;
mod tool_hook;
mod tools;
mod user;
mod words;
mod world;

pub use law::{Broken, Law};
pub use runner::{Found, Sum, explain, run};
pub use script::{
    Act, After, AnswerPlan, Block, CallPlan, Ceilings, Death, DiskFault, DiskTrouble, End, Fault,
    Form, How, IdKind, InputKind, Judged, Knobs, Loss, Moment, Place, Reply, Said, Script,
    StopPlan, ToolKind, What,
};
pub use shrink::shrink;
pub use simulate::{Outcome, play, play_planted};
