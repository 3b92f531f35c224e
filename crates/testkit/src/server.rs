//! The scripted model server: what it is told, what it saw, and how it ends.
//!
//! Sockets and the playing of replies are the connection's business; what a body may say is the judge's.

use crate::builder::ServerBuilder;
use crate::capture::CapturedRequest;
use crate::connection;
use crate::gate::{Bell, TimedOut, lock};
use crate::intake::{Intake, Script, Settings};
use crate::oracle::{Rule, Sent, Violation};
use crate::reply::Reply;
use rustix::event::{PollFd, PollFlags, poll};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// More connections than this at a time are closed as they come.
const MAX_CONNECTIONS: usize = 512;

/// How the answer to a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// All of it was written.
    Completed,
    /// The client closed its side before that.
    ClientGone,
    /// The script closed the connection in the middle.
    Cut,
    /// The script reset the connection.
    Reset,
    /// The server was dropped before that.
    ServerEnded,
}

/// A model request and what became of it.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// The request.
    pub request: CapturedRequest,
    /// When the status line was written.
    pub head_sent: Option<Instant>,
    /// How and when the answer ended; `None` while it lasts.
    pub ended: Option<(Outcome, Instant)>,
}

/// What all threads of a server share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Rung at every change of the state, of an inbox or of a gate that a reply waits for.
    pub(crate) bell: Arc<Bell>,
    pub(crate) stop: AtomicBool,
    pub(crate) settings: Settings,
    /// Held while a request is numbered, judged and given its reply, so that numbers and replies agree.
    pub(crate) intake: Mutex<Intake>,
    pub(crate) state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) exchanges: Vec<Exchange>,
    pub(crate) others: Vec<CapturedRequest>,
    pub(crate) sent: Sent,
    connections: u64,
    sockets: BTreeMap<u64, Arc<TcpStream>>,
    threads: Vec<JoinHandle<()>>,
}

impl Shared {
    pub(crate) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Changes the state and tells everyone.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let out = change(&mut lock(&self.state));
        self.bell.ring();
        out
    }
}

impl State {
    pub(crate) fn forget_socket(&mut self, connection: u64) {
        self.sockets.remove(&connection);
    }
}

/// Starts a server that behaves as these say.
pub(crate) fn listen(script: Script, settings: Settings, sent: Sent) -> io::Result<ModelServer> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let (ended, end) = io::pipe()?;
    let shared = Arc::new(Shared {
        bell: Arc::default(),
        stop: AtomicBool::new(false),
        settings,
        intake: Mutex::new(Intake::new(script)),
        state: Mutex::new(State {
            sent,
            ..State::default()
        }),
    });
    let acceptor = std::thread::Builder::new()
        .name("model server".to_owned())
        .spawn({
            let shared = Arc::clone(&shared);
            move || accept(&listener, &ended, &shared)
        })?;
    Ok(ModelServer {
        address,
        shared,
        acceptor: Some(acceptor),
        end: Some(end),
    })
}

fn accept(listener: &TcpListener, ended: &io::PipeReader, shared: &Arc<Shared>) {
    while !shared.stopped() {
        let mut ready = [
            PollFd::new(listener, PollFlags::IN),
            PollFd::new(ended, PollFlags::IN),
        ];
        // Fails for signals only, after which the loop looks again.
        if poll(&mut ready, None).is_err()
            || ready.first().is_none_or(|one| one.revents().is_empty())
        {
            continue;
        }
        let Ok((socket, _)) = listener.accept() else {
            continue;
        };
        let socket = Arc::new(socket);
        let number = {
            let mut state = lock(&shared.state);
            let (done, running) = std::mem::take(&mut state.threads)
                .into_iter()
                .partition(JoinHandle::is_finished);
            state.threads = running;
            join_all(done);
            if state.sockets.len() >= MAX_CONNECTIONS {
                continue;
            }
            state.connections += 1;
            let number = state.connections;
            state.sockets.insert(number, Arc::clone(&socket));
            number
        };
        shared.bell.ring();
        let spawned = std::thread::Builder::new()
            .name(format!("model server connection {number}"))
            .spawn({
                let shared = Arc::clone(shared);
                move || connection::serve(&shared, socket, number)
            });
        shared.change(|state| match spawned {
            Ok(thread) => state.threads.push(thread),
            Err(_) => state.forget_socket(number),
        });
    }
}

fn join_all(threads: Vec<JoinHandle<()>>) {
    for thread in threads {
        // A thread that panicked has said so on standard error.
        drop(thread.join());
    }
}

/// A model server on 127.0.0.1 that plays a script, keeps what it is asked and judges it.
///
/// It listens from when it is started until it is dropped, which ends its connections and joins its threads. See
/// the [crate] for an example.
#[derive(Debug)]
pub struct ModelServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
    /// Dropped to end the acceptor.
    end: Option<io::PipeWriter>,
}

impl ModelServer {
    /// Starts a server that gives the n-th reply to the n-th model request.
    ///
    /// # Panics
    /// If the machine gives no port on 127.0.0.1.
    #[must_use = "the server ends when it is dropped"]
    pub fn start<R: Into<Reply>>(replies: impl IntoIterator<Item = R>) -> Self {
        Self::builder().replies(replies).start()
    }

    /// Starts a server whose replies are chosen by a function of the request.
    ///
    /// # Panics
    /// If the machine gives no port on 127.0.0.1.
    #[must_use = "the server ends when it is dropped"]
    pub fn start_with(choose: impl FnMut(&CapturedRequest) -> Reply + Send + 'static) -> Self {
        Self::builder().choose(choose).start()
    }

    /// Begins to describe a server.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address as a URL without a path, such as `http://127.0.0.1:4321`.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The address as a URL with the path `/v1`.
    pub fn base_url_v1(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// The model requests so far.
    pub fn requests(&self) -> Vec<CapturedRequest> {
        lock(&self.shared.state)
            .exchanges
            .iter()
            .map(|exchange| exchange.request.clone())
            .collect()
    }

    /// One model request, counted from 0.
    ///
    /// # Panics
    /// If it has not come.
    pub fn request(&self, index: usize) -> CapturedRequest {
        let exchange = lock(&self.shared.state).exchanges.get(index).cloned();
        match exchange {
            Some(exchange) => exchange.request,
            #[expect(clippy::panic, reason = "an assertion of the test")]
            None => panic!("there is no model request {index}; {}", self.summary()),
        }
    }

    /// The model requests so far with what became of them.
    pub fn exchanges(&self) -> Vec<Exchange> {
        lock(&self.shared.state).exchanges.clone()
    }

    /// All other requests so far: lists of models, probes, token counts.
    pub fn other_requests(&self) -> Vec<CapturedRequest> {
        lock(&self.shared.state).others.clone()
    }

    /// How many connections were accepted so far.
    pub fn connections(&self) -> u64 {
        lock(&self.shared.state).connections
    }

    /// How many replies of the list have not been used.
    pub fn replies_left(&self) -> usize {
        lock(&self.shared.intake).replies_left()
    }

    /// What was sent so far.
    pub fn sent(&self) -> Sent {
        lock(&self.shared.state).sent.clone()
    }

    /// Every broken rule with the index of its request.
    pub fn violations(&self) -> Vec<(usize, Violation)> {
        lock(&self.shared.state)
            .exchanges
            .iter()
            .flat_map(|exchange| {
                exchange
                    .request
                    .violations
                    .iter()
                    .map(|violation| (exchange.request.index, violation.clone()))
            })
            .collect()
    }

    /// Waits until `count` model requests have come.
    ///
    /// # Errors
    /// If `within` passed first.
    pub fn wait_for_requests(&self, count: usize, within: Duration) -> Result<(), TimedOut> {
        self.wait(within, &format!("{count} model requests"), |state| {
            state.exchanges.len() >= count
        })
    }

    /// Waits until the answer to a model request has ended, however it did.
    ///
    /// # Errors
    /// If `within` passed first.
    pub fn wait_ended(&self, index: usize, within: Duration) -> Result<Outcome, TimedOut> {
        let mut outcome = Outcome::Completed;
        self.wait(
            within,
            &format!("the end of the answer to model request {index}"),
            |state| {
                state
                    .exchanges
                    .get(index)
                    .and_then(|exchange| exchange.ended)
                    .is_some_and(|(ended, _)| {
                        outcome = ended;
                        true
                    })
            },
        )?;
        Ok(outcome)
    }

    /// Waits until the client has gone away from a model request whose answer had not ended.
    ///
    /// # Errors
    /// If `within` passed first, or if the answer ended otherwise.
    pub fn wait_client_gone(&self, index: usize, within: Duration) -> Result<(), TimedOut> {
        let awaited = format!("the client to leave model request {index}");
        let start = Instant::now();
        match self.wait_ended(index, within) {
            Ok(Outcome::ClientGone) => Ok(()),
            Ok(outcome) => Err(TimedOut {
                awaited,
                seen: format!("its answer ended: {outcome:?}"),
                within: start.elapsed(),
            }),
            Err(TimedOut { seen, within, .. }) => Err(TimedOut {
                awaited,
                seen,
                within,
            }),
        }
    }

    /// Asserts that no request broke a rule.
    ///
    /// # Panics
    /// With a report, if one did.
    pub fn assert_clean(&self) {
        self.assert_clean_except(&[]);
    }

    /// Asserts that no request broke a rule other than these.
    ///
    /// # Panics
    /// With a report, if one did.
    pub fn assert_clean_except(&self, expected: &[Rule]) {
        let report = self.report(expected);
        #[expect(clippy::panic, reason = "an assertion of the test")]
        if !report.is_empty() {
            panic!("{report}");
        }
    }

    /// Tells which requests broke which rules, these apart; empty if none did.
    pub fn report(&self, expected: &[Rule]) -> String {
        const SHOWN: usize = 4_000;
        let mut report = String::new();
        for exchange in &self.exchanges() {
            let request = &exchange.request;
            let mut broken = request
                .violations
                .iter()
                .filter(|violation| !expected.contains(&violation.rule))
                .peekable();
            if broken.peek().is_none() {
                continue;
            }
            // Writing to a string cannot fail.
            let _ok = writeln!(
                report,
                "model request {} ({} {}) breaks the rules:",
                request.index, request.method, request.path
            );
            for violation in broken {
                let _ok = writeln!(report, "  {violation}");
            }
            let body = String::from_utf8_lossy(&request.raw);
            let shown: String = body.chars().take(SHOWN).collect();
            let cut = if shown.len() < body.len() { " ..." } else { "" };
            let _ok = writeln!(report, "  body: {shown}{cut}");
        }
        report
    }

    fn wait(
        &self,
        within: Duration,
        awaited: &str,
        mut done: impl FnMut(&State) -> bool,
    ) -> Result<(), TimedOut> {
        let deadline = Instant::now() + within;
        if self
            .shared
            .bell
            .wait_until(Some(deadline), || done(&lock(&self.shared.state)))
        {
            return Ok(());
        }
        Err(TimedOut {
            awaited: awaited.to_owned(),
            seen: self.summary(),
            within,
        })
    }

    fn summary(&self) -> String {
        let state = lock(&self.shared.state);
        let mut text = format!("{} model requests", state.exchanges.len());
        for exchange in &state.exchanges {
            let violations = exchange.request.violations.len();
            let ended = exchange
                .ended
                .map_or_else(|| "lasts".to_owned(), |(outcome, _)| format!("{outcome:?}"));
            let _ok = write!(
                text,
                "; {}: {ended}, {violations} violations",
                exchange.request.index
            );
        }
        let _ok = write!(text, "; {} other requests", state.others.len());
        text
    }
}

// Locks forget that a holder panicked, and every change under them is whole.
impl UnwindSafe for ModelServer {}
impl RefUnwindSafe for ModelServer {}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.bell.ring();
        drop(self.end.take());
        // After this no connection is added, so none is missed below.
        join_all(self.acceptor.take().into_iter().collect());
        let threads = self.shared.change(|state| {
            for socket in state.sockets.values() {
                // It may have been closed by the client.
                drop(socket.shutdown(Shutdown::Both));
            }
            std::mem::take(&mut state.threads)
        });
        join_all(threads);
    }
}
