//! One connection: reads requests, plays replies, and knows at any time whether the client is still there.
//!
//! Each connection has two threads. One reads all that comes into an inbox, so that the end of the client is seen
//! also while nothing is being read or written; the other plays. Both end with the connection or the server.

use crate::gate::lock;
use crate::http::{self, LAST_CHUNK, Parsed, RequestHead};
use crate::intake;
use crate::oracle::Learner;
use crate::reply::{Framing, Head, NUMBER, Reply, Step};
use crate::server::{Outcome, Shared};
use crate::wire::{Cuts, Writer};
use rustix::net::sockopt::set_socket_linger;
use std::borrow::Cow;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Bytes that a client may send ahead.
const INBOX_LIMIT: usize = http::BODY_LIMIT + (1 << 20);

/// What has come from the client and was not taken yet.
#[derive(Debug, Default)]
struct Inbox {
    bytes: Vec<u8>,
    gone: bool,
}

/// What to do with the connection after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    KeepOpen,
    Close,
    Reset,
}

pub(crate) fn serve(shared: &Shared, socket: Arc<TcpStream>, number: u64) {
    // Each write of a script is to leave as it is.
    drop(socket.set_nodelay(true));
    let inbox = Mutex::new(Inbox::default());
    let connection = Connection {
        shared,
        socket: &socket,
        number,
        inbox: &inbox,
    };
    let after = std::thread::scope(|scope| {
        scope.spawn(|| connection.fill_inbox());
        let after = connection.run();
        // Ends the reading thread. A side that is to be reset must not say goodbye before.
        let side = if after == After::Reset {
            Shutdown::Read
        } else {
            Shutdown::Both
        };
        drop(socket.shutdown(side));
        after
    });
    if after == After::Reset {
        // With nothing to linger for, closing the last handle sends a reset.
        let _: Result<(), _> = set_socket_linger(&*socket, Some(Duration::ZERO));
    }
    shared.change(|state| state.forget_socket(number));
}

#[derive(Clone, Copy)]
struct Connection<'a> {
    shared: &'a Shared,
    socket: &'a TcpStream,
    number: u64,
    inbox: &'a Mutex<Inbox>,
}

impl Connection<'_> {
    fn fill_inbox(self) {
        let mut buffer = vec![0; 64 << 10];
        let mut socket = self.socket;
        loop {
            let read = socket.read(&mut buffer);
            let mut inbox = lock(self.inbox);
            match read {
                Ok(count) if count > 0 && inbox.bytes.len() + count <= INBOX_LIMIT => {
                    inbox
                        .bytes
                        .extend_from_slice(buffer.get(..count).unwrap_or_default());
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => inbox.gone = true,
            }
            let gone = inbox.gone;
            drop(inbox);
            self.shared.bell.ring();
            if gone {
                return;
            }
        }
    }

    fn is_gone(self) -> bool {
        lock(self.inbox).gone
    }

    fn run(self) -> After {
        loop {
            let (head, body) = match self.next_request() {
                Ok(Some(request)) => request,
                Ok(None) => return After::Close,
                Err(words) => {
                    let reply = Reply::http(400, &[("content-type", "text/plain")], words);
                    Player::new(self, None, false, false).play(&reply);
                    return After::Close;
                }
            };
            let (keep_alive, head_only) = (head.keep_alive, head.method == "HEAD");
            let (reply, index) = intake::take(self.shared, self.number, head, body);
            let (outcome, after) = Player::new(self, index, keep_alive, head_only).play(&reply);
            if let Some(index) = index {
                self.shared.change(|state| {
                    if let Some(exchange) = state.exchanges.get_mut(index) {
                        exchange.ended = Some((outcome, Instant::now()));
                    }
                });
            }
            if after != After::KeepOpen {
                return after;
            }
        }
    }

    /// Waits for the next request; `None` when the client or the server has ended.
    fn next_request(self) -> Result<Option<(RequestHead, Vec<u8>)>, &'static str> {
        let Some(head) = self.receive(http::parse_head)? else {
            return Ok(None);
        };
        if head.expects_continue {
            // A client that has gone is noticed when its body does not come.
            drop(self.write(b"HTTP/1.1 100 Continue\r\n\r\n"));
        }
        let body = self.receive(|bytes| http::parse_body(&head, bytes))?;
        Ok(body.map(|body| (head, body)))
    }

    fn receive<T>(self, parse: impl Fn(&[u8]) -> Parsed<T>) -> Result<Option<T>, &'static str> {
        let mut out = Ok(None);
        self.shared.bell.wait_until(None, || {
            let mut inbox = lock(self.inbox);
            match parse(&inbox.bytes) {
                Parsed::Whole(thing, used) => {
                    inbox.bytes.drain(..used);
                    out = Ok(Some(thing));
                }
                Parsed::Broken(words) => out = Err(words),
                Parsed::Partial => return inbox.gone || self.shared.stopped(),
            }
            true
        });
        out
    }

    fn write(self, bytes: &[u8]) -> std::io::Result<()> {
        let mut socket = self.socket;
        socket.write_all(bytes)
    }
}

/// Plays one reply.
struct Player<'a> {
    connection: Connection<'a>,
    index: Option<usize>,
    keep_alive: bool,
    head_only: bool,
    framing: Option<Framing>,
    raw: bool,
    written: usize,
    learner: Learner,
    /// The place of this reply among all that was sent.
    sent_at: Option<usize>,
}

/// Why the playing of steps came to an early end.
struct Ended(Outcome, After);

impl<'a> Player<'a> {
    fn new(
        connection: Connection<'a>,
        index: Option<usize>,
        keep_alive: bool,
        head_only: bool,
    ) -> Self {
        Self {
            connection,
            index,
            keep_alive,
            head_only,
            framing: None,
            raw: false,
            written: 0,
            learner: Learner::default(),
            sent_at: None,
        }
    }

    fn play(mut self, reply: &Reply) -> (Outcome, After) {
        match self.play_steps(reply) {
            Ok(after) => (Outcome::Completed, after),
            Err(Ended(outcome, after)) => (outcome, after),
        }
    }

    fn play_steps(&mut self, reply: &Reply) -> Result<After, Ended> {
        let mut writer = Writer::new(reply.wire_form());
        for step in self.prepare(reply) {
            self.check_alive()?;
            match step {
                Step::Head(head) => self.send_head(&head)?,
                Step::Bytes(bytes) => self.send_body(&bytes, &mut writer)?,
                Step::Event(text) => self.send_body(text.as_bytes(), &mut writer)?,
                Step::Raw(bytes) => {
                    self.raw = true;
                    self.write(&bytes)?;
                }
                Step::Pause(length) => self.wait(Instant::now().checked_add(length), || false)?,
                Step::WaitFor(gate) => {
                    gate.ring_on_open(&self.connection.shared.bell);
                    self.wait(None, || gate.is_open())?;
                }
                Step::Open(gate) => gate.open(),
                Step::Hold => self.wait(None, || false)?,
                Step::Close => break,
                Step::Cut => return Err(Ended(Outcome::Cut, After::Close)),
                Step::Reset => return Err(Ended(Outcome::Reset, After::Reset)),
            }
        }
        self.finish()
    }

    /// Fills in numbers, and joins what is to leave in one write.
    fn prepare<'r>(&self, reply: &'r Reply) -> Vec<Step> {
        let number = self.index.map_or(0, |index| index + 1).to_string();
        let join = reply.wire_form().cuts != Cuts::Steps;
        let mut out: Vec<Step> = Vec::new();
        for step in reply.steps() {
            let bytes: Cow<'r, [u8]> = match step {
                Step::Event(text) => text.replace(NUMBER, &number).into_bytes().into(),
                Step::Bytes(bytes) => bytes.into(),
                other => {
                    out.push(other.clone());
                    continue;
                }
            };
            match out.last_mut() {
                Some(Step::Bytes(before)) if join => before.extend_from_slice(&bytes),
                _ => out.push(Step::Bytes(bytes.into_owned())),
            }
        }
        out
    }

    fn check_alive(&self) -> Result<(), Ended> {
        if self.connection.shared.stopped() {
            return Err(Ended(Outcome::ServerEnded, After::Close));
        }
        if self.connection.is_gone() {
            return Err(Ended(Outcome::ClientGone, After::Close));
        }
        Ok(())
    }

    /// Waits until `done` holds or the deadline has come, unless the client or the server ends first.
    fn wait(&self, deadline: Option<Instant>, done: impl Fn() -> bool) -> Result<(), Ended> {
        self.connection
            .shared
            .bell
            .wait_until(deadline, || done() || self.check_alive().is_err());
        self.check_alive()
    }

    fn write(&self, bytes: &[u8]) -> Result<(), Ended> {
        self.connection.write(bytes).map_err(|_| {
            let stopped = self.connection.shared.stopped();
            Ended(
                if stopped {
                    Outcome::ServerEnded
                } else {
                    Outcome::ClientGone
                },
                After::Close,
            )
        })
    }

    fn send_head(&mut self, head: &Head) -> Result<(), Ended> {
        if self.framing.is_some() {
            return Ok(());
        }
        self.framing = Some(head.framing);
        if let Some(index) = self.index {
            self.connection.shared.change(|state| {
                if let Some(exchange) = state.exchanges.get_mut(index) {
                    exchange.head_sent = Some(Instant::now());
                }
            });
        }
        self.write(&http::head_bytes(head, self.keep_alive))
    }

    fn send_body(&mut self, bytes: &[u8], writer: &mut Writer<'_>) -> Result<(), Ended> {
        if !self.raw {
            self.send_head(&Head::event_stream())?;
        }
        if self.head_only {
            return Ok(());
        }
        // Before it is written: the client may answer to it at once.
        self.learn(bytes);
        for piece in writer.writes(bytes) {
            self.check_alive()?;
            self.written += piece.len();
            match self.framing {
                Some(Framing::Chunked) => self.write(&http::chunk_bytes(&piece))?,
                Some(Framing::Length(_) | Framing::UntilClose) | None => self.write(&piece)?,
            }
        }
        Ok(())
    }

    fn learn(&mut self, bytes: &[u8]) {
        if self.index.is_some() {
            self.learner.feed(bytes);
            self.keep_learnt();
        }
    }

    fn keep_learnt(&mut self) {
        let Some(message) = self.learner.message() else {
            return;
        };
        self.sent_at = Some(self.connection.shared.change(|state| {
            let at = self.sent_at.unwrap_or(state.sent.messages.len());
            match state.sent.messages.get_mut(at) {
                Some(place) => *place = message,
                None => state.sent.messages.push(message),
            }
            at
        }));
    }

    fn finish(&mut self) -> Result<After, Ended> {
        if !self.raw {
            self.send_head(&Head::event_stream())?;
        }
        let whole = match self.framing {
            Some(Framing::Chunked) if !self.head_only => {
                // The client may leave as soon as it has read what it wanted.
                self.connection.write(LAST_CHUNK).is_ok()
            }
            Some(Framing::Chunked) => true,
            Some(Framing::Length(length)) => self.head_only || self.written == length,
            Some(Framing::UntilClose) | None => false,
        };
        Ok(if whole && self.keep_alive && !self.raw {
            After::KeepOpen
        } else {
            After::Close
        })
    }
}
