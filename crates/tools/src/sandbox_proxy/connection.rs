//! One connection of a client: one request, then the end.
//!
//! A connection is never used for a second request, so each request is judged: what a client sends
//! behind the body of the first one goes nowhere.

use std::io;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::body::Follow;
use super::denied::{Denials, Denied, DeniedWhy};
use super::head::{self, Body, Head, Kind};
use super::hello::{self, Hello};
use super::hosts::Host;
use super::reach::{Reach, Unreached};

/// The most bytes of a head.
const MAX_HEAD: usize = 16 << 10;

/// The bytes that are under way in one direction.
const BUFFER: usize = 16 << 10;

/// What is read, and for how long, so that a refusal arrives before the connection ends.
const LINGER: u64 = 64 << 10;
const LINGER_LIMIT: Duration = Duration::from_secs(1);

/// What all connections share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) reach: Reach,
    pub(super) denials: Mutex<Denials>,
    pub(super) head_limit: Duration,
    pub(super) idle_limit: Duration,
}

/// Answers one client. Whatever fails ends this connection and nothing else.
pub(super) async fn serve<S>(mut client: S, shared: &Shared)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut read = Vec::new();
    let heading = read_head(&mut client, &mut read);
    let head = match tokio::time::timeout(shared.head_limit, heading).await {
        Ok(Ok(Some(head))) => head,
        Ok(Ok(None) | Err(_)) => return,
        Err(_) => return refuse(client, "408 Request Timeout", "no whole request came").await,
    };
    let head = match head {
        Ok(head) => head,
        Err(Refused { status, words }) => return refuse(client, status, words).await,
    };
    let server = match shared.reach.connect(&head.host, head.port).await {
        Ok(server) => server,
        Err(Unreached::Denied(denied)) => {
            let words = denied.to_string();
            shared.deny(denied);
            return refuse(client, "403 Forbidden", &words).await;
        }
        Err(Unreached::Failed(words)) => {
            let words = format!("cannot connect to {}:{}: {words}", head.host, head.port);
            return refuse(client, "502 Bad Gateway", &words).await;
        }
    };
    let behind = read.get(head.length..).unwrap_or_default();
    // Who is at either end sees the connection end; there is nobody else to tell.
    drop(pass(client, server, head, behind, shared).await);
}

impl Shared {
    fn deny(&self, denied: Denied) {
        let denials = self.denials.lock();
        let mut denials = denials.unwrap_or_else(PoisonError::into_inner);
        denials.note(denied);
    }
}

/// A request that is not passed on, whoever it is for.
struct Refused {
    status: &'static str,
    words: &'static str,
}

/// Reads until a head is whole. `None` if the client went before.
async fn read_head(
    client: &mut (impl AsyncRead + Unpin),
    read: &mut Vec<u8>,
) -> io::Result<Option<Result<Head, Refused>>> {
    let mut piece = vec![0; 4 << 10];
    loop {
        let count = client.read(&mut piece).await?;
        if count == 0 {
            return Ok(None);
        }
        read.extend_from_slice(piece.get(..count).unwrap_or_default());
        match head::parse(read) {
            Ok(Some(head)) if head.length <= MAX_HEAD => return Ok(Some(Ok(head))),
            Ok(None) if read.len() <= MAX_HEAD => {}
            Ok(_) => {
                let status = "431 Request Header Fields Too Large";
                let words = "the head of the request is longer than 16 KiB";
                return Ok(Some(Err(Refused { status, words })));
            }
            Err(malformed) => {
                let status = "400 Bad Request";
                let words = malformed.0;
                return Ok(Some(Err(Refused { status, words })));
            }
        }
    }
}

async fn refuse(mut client: impl AsyncRead + AsyncWrite + Unpin, status: &str, words: &str) {
    let body = format!("sandbox: {words}\n");
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    );
    let telling = async {
        client.write_all(answer.as_bytes()).await?;
        client.shutdown().await?;
        // An end with bytes unread would take the answer away from who has not read it yet.
        tokio::io::copy(&mut client.take(LINGER), &mut tokio::io::sink()).await
    };
    // Who does not want to hear it need not.
    drop(tokio::time::timeout(LINGER_LIMIT, telling).await);
}

/// Passes on what either side says until both have ended, or until nothing has moved for long.
async fn pass(
    client: impl AsyncRead + AsyncWrite + Unpin,
    mut server: TcpStream,
    head: Head,
    behind: &[u8],
    shared: &Shared,
) -> io::Result<()> {
    let moved = Moved::new();
    let (mut from_client, mut to_client) = tokio::io::split(client);
    let (mut from_server, mut to_server) = server.split();
    let passing = async {
        match head.kind {
            Kind::Tunnel => {
                to_client
                    .write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
                    .await?;
                moved.now();
                let there = async {
                    // The other way is open meanwhile: not every server waits for its client.
                    let first = beginning(behind, &mut from_client, &moved).await?;
                    if let Some(why) = whom(&first, &head.host, head.port) {
                        shared.deny(why);
                        return Err(io::ErrorKind::PermissionDenied.into());
                    }
                    to_server.write_all(&first).await?;
                    moved.now();
                    copy(&mut from_client, &mut to_server, &moved).await
                };
                let back = copy(&mut from_server, &mut to_client, &moved);
                tokio::try_join!(there, back).map(drop)
            }
            Kind::Plain { head, body } => {
                to_server.write_all(&head).await?;
                moved.now();
                let there = async {
                    copy_body(body, behind, &mut from_client, &mut to_server, &moved).await?;
                    // A client that has gone is noticed; what it sends beside that goes nowhere.
                    tokio::io::copy(&mut from_client, &mut tokio::io::sink()).await?;
                    to_server.shutdown().await?;
                    std::future::pending::<io::Result<()>>().await
                };
                let back = copy(&mut from_server, &mut to_client, &moved);
                tokio::select! {
                    // What is not there yet when the answer is over is not wanted any more.
                    passed = back => passed,
                    Err(error) = there => Err(error),
                }
            }
        }
    };
    tokio::select! {
        biased;
        passed = passing => passed,
        () = moved.not_for(shared.idle_limit) => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// Reads the first bytes that go through a tunnel, until they tell whom they are for.
async fn beginning(
    behind: &[u8],
    from: &mut (impl AsyncRead + Unpin),
    moved: &Moved,
) -> io::Result<Vec<u8>> {
    let mut first = behind.to_vec();
    let mut buffer = vec![0; BUFFER];
    while hello::look(&first) == Hello::Unfinished {
        let count = from.read(&mut buffer).await?;
        moved.now();
        if count == 0 {
            break;
        }
        first.extend_from_slice(buffer.get(..count).unwrap_or_default());
    }
    Ok(first)
}

/// Why what begins so does not go to that host.
fn whom(first: &[u8], host: &Host, port: u16) -> Option<Denied> {
    let (host, why) = match hello::look(first) {
        Hello::Name(name) if Host::parse(&name).as_ref() == Some(host) => return None,
        Hello::Name(name) => match Host::parse(&name) {
            Some(other) => (other.to_string(), DeniedWhy::OtherName),
            None => (host.to_string(), DeniedWhy::Unreadable),
        },
        Hello::Unreadable => (host.to_string(), DeniedWhy::Unreadable),
        // The client has ended before it was whole, so that no server can make anything of it.
        Hello::Nobody | Hello::Unfinished => return None,
    };
    Some(Denied { host, port, why })
}

/// When something last moved in either direction.
struct Moved {
    begun: Instant,
    last: AtomicU64,
}

impl Moved {
    fn new() -> Self {
        Self {
            begun: Instant::now(),
            last: AtomicU64::new(0),
        }
    }

    fn now(&self) {
        let millis = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(millis, Ordering::Relaxed);
    }

    /// Waits until nothing has moved for that long.
    async fn not_for(&self, limit: Duration) {
        loop {
            let last = Duration::from_millis(self.last.load(Ordering::Relaxed));
            let still = last
                .saturating_add(limit)
                .saturating_sub(self.begun.elapsed());
            if still.is_zero() {
                return;
            }
            tokio::time::sleep(still).await;
        }
    }
}

/// Copies until the end, and passes that on. What is not taken is not read.
async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    moved: &Moved,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let count = from.read(&mut buffer).await?;
        moved.now();
        if count == 0 {
            return to.shutdown().await;
        }
        to.write_all(buffer.get(..count).unwrap_or_default())
            .await?;
        moved.now();
    }
}

/// Copies the body of a request and nothing behind it.
async fn copy_body(
    body: Body,
    behind: &[u8],
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    moved: &Moved,
) -> io::Result<()> {
    let broken = |_| io::Error::from(io::ErrorKind::InvalidData);
    let mut follow = Follow::new(body);
    let taken = follow.feed(behind).map_err(broken)?;
    to.write_all(behind.get(..taken).unwrap_or_default())
        .await?;
    let mut buffer = vec![0; BUFFER];
    while !follow.is_done() {
        let count = from.read(&mut buffer).await?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let piece = buffer.get(..count).unwrap_or_default();
        let taken = follow.feed(piece).map_err(broken)?;
        to.write_all(piece.get(..taken).unwrap_or_default()).await?;
        moved.now();
    }
    Ok(())
}
