//! The way out of a sandbox: an HTTP proxy that reaches some hosts and no others.
//!
//! It listens on a Unix socket in a folder that only this user may enter, and on request on a port
//! of this machine. It tunnels with CONNECT and passes plain HTTP on, one request a connection. Names
//! are judged as they are asked for and resolved here, and what is connected to is an address that
//! was looked at: private ones are refused as they are in [`crate::WebFetch`]. If what a client sends
//! first through a tunnel is a TLS ClientHello, the name in it has to be that of the host that was
//! asked for, since a server may be more than one host; nothing else of a tunnel is looked at.
//!
//! A proxy is cheap (a folder, a socket and a task), so what is to reach more for once gets one of
//! its own, and what was denied is known of each apart: see [`SandboxProxy::widened`].
//!
//! ```
//! use tooloop_tools::{SandboxProxy, SandboxProxySettings};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let settings = SandboxProxySettings {
//!     hosts: vec!["example.com".parse()?, "*.example.org".parse()?],
//!     ..SandboxProxySettings::default()
//! };
//! let proxy = SandboxProxy::start(settings)?;
//! // Inside of the sandbox a port leads here.
//! println!("{}", proxy.socket().display());
//! for denied in proxy.take_denials() {
//!     println!("{denied}");
//! }
//! proxy.close().await;
//! # Ok(())
//! # }
//! ```

mod body;
mod connection;
mod denied;
mod folder;
mod head;
mod hello;
mod hosts;
mod reach;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::web::address::Exceptions;
use crate::web::{Names, SystemNames};
use connection::Shared;
use denied::Denials;
use folder::Folder;
use reach::Reach;

pub use denied::{Denied, DeniedWhy};
pub use hosts::{HostPattern, HostPatternError};

/// How long the end of a proxy may take.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);

/// How long is waited before the next client when one could not be let in.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What a [`SandboxProxy`] needs of the world.
#[derive(Debug, Clone)]
pub struct SandboxProxySettings {
    /// The hosts that may be reached.
    pub hosts: Vec<HostPattern>,
    /// Hosts among them that may be private all the same: each `host` or `host:port`.
    pub private_hosts: Vec<String>,
    /// Where the folder of the socket is made. The path of a socket is at most 107 bytes long.
    pub folder: PathBuf,
    /// Whether it also listens on a port of 127.0.0.1, where every user of this machine may ask it.
    pub port: bool,
    /// Who tells the addresses of names.
    pub names: Arc<dyn Names>,
    /// How many connections are served at once. More wait for their turn.
    pub connections: usize,
    /// The time limit of a request's head.
    pub head_limit: Duration,
    /// The time limit of a connection's beginning, the name's addresses included.
    pub connect_limit: Duration,
    /// How long a connection on which nothing moves is kept.
    pub idle_limit: Duration,
}

impl Default for SandboxProxySettings {
    fn default() -> Self {
        Self {
            hosts: Vec::new(),
            private_hosts: Vec::new(),
            folder: std::env::temp_dir(),
            port: false,
            names: Arc::new(SystemNames),
            connections: 64,
            head_limit: Duration::from_secs(30),
            connect_limit: Duration::from_secs(20),
            idle_limit: Duration::from_secs(5 * 60),
        }
    }
}

/// A proxy cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum SandboxProxyError {
    /// The folder of the socket cannot be made.
    #[error("cannot make the folder {} for the sandbox's proxy: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Nothing can listen there.
    #[error("the sandbox's proxy cannot listen on {place}: {source}")]
    Listen {
        /// The socket or the port.
        place: String,
        /// What the system said.
        source: io::Error,
    },
}

/// A running proxy. It ends, with all its connections, when it is dropped.
#[derive(Debug)]
pub struct SandboxProxy {
    settings: SandboxProxySettings,
    folder: Folder,
    socket: PathBuf,
    address: Option<SocketAddr>,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
    end: DropGuard,
}

impl SandboxProxy {
    /// Starts a proxy on the runtime that this is called in.
    ///
    /// # Errors
    /// If the folder of its socket cannot be made, or nothing can listen there.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start(settings: SandboxProxySettings) -> Result<Self, SandboxProxyError> {
        let folder = Folder::new(&settings.folder)
            .map_err(|(path, source)| SandboxProxyError::Folder { path, source })?;
        let socket = folder.path().join("proxy");
        let listen_failed =
            |place: String| move |source| SandboxProxyError::Listen { place, source };
        let unix =
            UnixListener::bind(&socket).map_err(listen_failed(socket.display().to_string()))?;
        let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let tcp = if settings.port {
            Some(listen(local).map_err(listen_failed(local.to_string()))?)
        } else {
            None
        };
        let address = tcp.as_ref().and_then(|tcp| tcp.local_addr().ok());
        let shared = Arc::new(Shared {
            reach: Reach {
                hosts: settings.hosts.clone(),
                exceptions: Exceptions::new(&settings.private_hosts),
                names: Arc::clone(&settings.names),
                connect_limit: settings.connect_limit,
            },
            denials: Mutex::new(Denials::default()),
            head_limit: settings.head_limit,
            idle_limit: settings.idle_limit,
        });
        let end = CancellationToken::new();
        let listening = Listening {
            unix,
            tcp,
            places: Arc::new(Semaphore::new(settings.connections)),
            shared: Arc::clone(&shared),
        };
        let task = tokio::spawn(listening.run(end.clone()));
        Ok(Self {
            settings,
            folder,
            socket,
            address,
            shared,
            task,
            end: end.drop_guard(),
        })
    }

    /// Another proxy that reaches these hosts as well: for one call that was allowed more.
    ///
    /// # Errors
    /// As [`SandboxProxy::start`].
    pub fn widened(
        &self,
        hosts: impl IntoIterator<Item = HostPattern>,
    ) -> Result<Self, SandboxProxyError> {
        let mut settings = self.settings.clone();
        settings.hosts.extend(hosts);
        Self::start(settings)
    }

    /// The socket that it listens on.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The port of this machine that it listens on, if it was to.
    #[must_use]
    pub const fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// The hosts that may be reached.
    #[must_use]
    pub fn hosts(&self) -> &[HostPattern] {
        &self.settings.hosts
    }

    /// What was denied since this was last asked: each host, port and rule once, the first first. At
    /// most 64 are kept.
    #[must_use]
    pub fn take_denials(&self) -> Vec<Denied> {
        let denials = self.shared.denials.lock();
        denials.unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Ends it and waits until its connections are closed.
    pub async fn close(self) {
        let Self {
            folder, task, end, ..
        } = self;
        drop(end);
        // The task waits for nothing but its connections, which have been told.
        drop(tokio::time::timeout(CLOSE_LIMIT, task).await);
        drop(folder);
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// The task that owns all connections.
struct Listening {
    unix: UnixListener,
    tcp: Option<TcpListener>,
    places: Arc<Semaphore>,
    shared: Arc<Shared>,
}

impl Listening {
    async fn run(self, end: CancellationToken) {
        let mut connections = JoinSet::new();
        let accepting = async {
            loop {
                while connections.try_join_next().is_some() {}
                let places = Arc::clone(&self.places);
                // Never closed while it is used.
                let Ok(place) = places.acquire_owned().await else {
                    return;
                };
                let tcp = async {
                    match &self.tcp {
                        Some(tcp) => tcp.accept().await.map(|(stream, _)| stream),
                        None => std::future::pending().await,
                    }
                };
                let shared = Arc::clone(&self.shared);
                let accepted = tokio::select! {
                    unix = self.unix.accept() => unix.map(|(stream, _)| {
                        connections.spawn(async move {
                            connection::serve(stream, &shared).await;
                            drop(place);
                        })
                    }),
                    tcp = tcp => tcp.map(|stream| {
                        connections.spawn(async move {
                            connection::serve(stream, &shared).await;
                            drop(place);
                        })
                    }),
                };
                if accepted.is_err() {
                    // Out of descriptors, or the client has gone already.
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        };
        tokio::select! {
            () = end.cancelled() => {}
            () = accepting => {}
        }
        connections.shutdown().await;
    }
}
