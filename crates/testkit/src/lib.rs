//! For tests of agents: a model server over real sockets that plays a script, with faults, and that judges every
//! request as strictly as the strictest vendor; and a way to run the agent's binary against it.
//!
//! A test writes down what the model says, lets the agent run, and looks at what was asked:
//!
//! ```
//! use std::io::{Read, Write};
//! use std::time::Duration;
//! use tooloop_testkit::{ModelServer, Reply, anthropic, reset};
//!
//! let server = ModelServer::start([
//!     Reply::stream([anthropic::open(), anthropic::text_start(0), reset()]), // breaks off
//!     Reply::stream(anthropic::say("ok")),
//! ]);
//!
//! // The agent under test would be pointed at `server.base_url()`. Here two bare requests stand in for it.
//! for _ in 0..2 {
//!     let body = r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#;
//!     let mut socket = std::net::TcpStream::connect(server.address())?;
//!     write!(socket, "POST /v1/messages HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())?;
//!     let mut answer = String::new();
//!     let end = socket.read_to_string(&mut answer);
//!     assert!(end.is_err() || answer.contains("\"text\":\"ok\""));
//! }
//!
//! server.wait_for_requests(2, Duration::from_secs(30)).unwrap();
//! assert_eq!(server.request(0).body, server.request(1).body);
//! server.assert_clean();
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! - [`ModelServer`] listens on a free port of 127.0.0.1 and ends, with all its threads, when it is dropped. It needs
//!   no async runtime, so that blocking and async tests can use it alike.
//! - A [`Reply`] is a list of [`Step`]s: bytes, and verbs such as [`hold`], [`cut`], [`reset`], [`pause`] and
//!   [`wait_for`] a [`Gate`]. [`anthropic`] and [`openai_chat`] make the bytes; [`Wire`] spells and cuts them in every
//!   legal way.
//! - The [`oracle`] judges each request. One that breaks a rule is answered with status 400 in its format's own shape
//!   and kept; [`ModelServer::assert_clean`] fails with a report of all of them.
//!
//! - [`run::Run`] runs a binary in a [`Scratch`] home with a known environment, bounded waits and nothing left behind.
//!
//! The crate knows wire formats by nature, and nothing of the agents that it tests.

pub mod anthropic;
mod builder;
mod capture;
mod connection;
mod finished;
mod gate;
mod http;
mod intake;
pub mod openai_chat;
pub mod oracle;
mod pipes;
mod process;
mod reply;
pub mod run;
mod running;
mod scratch;
mod server;
pub mod sse;
mod wire;

pub use builder::ServerBuilder;
pub use capture::{CapturedRequest, Format, ToolAnswer};
pub use gate::{Gate, TimedOut, wait_until};
pub use intake::{AfterLast, Judge};
pub use pipes::{Captured, Line};
pub use process::{Process, processes, processes_in, processes_with};
pub use reply::{
    Framing, Head, NUMBER, Reply, Step, Steps, bytes, close, cut, hold, open_gate, pause, reset,
    wait_for,
};
pub use scratch::Scratch;
pub use server::{Exchange, ModelServer, Outcome};
pub use wire::{Cuts, Newline, Wire};
