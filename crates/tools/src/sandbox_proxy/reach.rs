//! Who may be reached, and the way there.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;

use super::denied::{Denied, DeniedWhy};
use super::hosts::{Host, HostPattern};
use crate::web::Names;
use crate::web::address::{self, Exceptions};

/// Judges hosts and connects to them.
#[derive(Debug)]
pub(super) struct Reach {
    pub(super) hosts: Vec<HostPattern>,
    pub(super) exceptions: Exceptions,
    pub(super) names: Arc<dyn Names>,
    pub(super) connect_limit: Duration,
}

/// Why there is no connection.
#[derive(Debug)]
pub(super) enum Unreached {
    Denied(Denied),
    /// The world said no.
    Failed(String),
}

impl Reach {
    /// Connects to a host, if it may be reached: to an address that was looked at, so that a name
    /// cannot mean another one a moment later.
    pub(super) async fn connect(&self, host: &Host, port: u16) -> Result<TcpStream, Unreached> {
        self.listed(host, port)?;
        let connecting = async {
            let addresses = self.addresses(host, port).await?;
            let mut last = None;
            for address in addresses {
                match TcpStream::connect(SocketAddr::new(address, port)).await {
                    Ok(stream) => {
                        // It makes things slower at worst.
                        stream.set_nodelay(true).unwrap_or_default();
                        return Ok(stream);
                    }
                    Err(error) => last = Some(error),
                }
            }
            let error = last.map_or_else(|| "it has no address".to_owned(), |e| e.to_string());
            Err(Unreached::Failed(error))
        };
        let connected = tokio::time::timeout(self.connect_limit, connecting).await;
        connected.unwrap_or_else(|_| Err(Unreached::Failed("it does not answer".into())))
    }

    fn listed(&self, host: &Host, port: u16) -> Result<(), Unreached> {
        if self.hosts.iter().any(|known| known.covers_host(host, port)) {
            return Ok(());
        }
        let at_another = |known: &HostPattern| known.is_of(host);
        let why = if self.hosts.iter().any(at_another) {
            DeniedWhy::Port
        } else {
            DeniedWhy::NotListed
        };
        Err(denied(host, port, why))
    }

    async fn addresses(&self, host: &Host, port: u16) -> Result<Vec<IpAddr>, Unreached> {
        let spelled = host.to_string();
        let may_be_private = self.exceptions.contain(&spelled, port);
        let found = match host {
            Host::Address(address) => vec![*address],
            Host::Name(name) => {
                if !may_be_private && address::is_local_name(name) {
                    return Err(denied(host, port, DeniedWhy::LocalName));
                }
                let found = self.names.addresses(name).await;
                found.map_err(|error| Unreached::Failed(not_found(&error)))?
            }
        };
        if may_be_private {
            return Ok(found);
        }
        let first = found.first().copied();
        let public: Vec<_> = found
            .into_iter()
            .filter(|&at| address::is_public(at))
            .collect();
        match first {
            Some(first) if public.is_empty() => Err(denied(host, port, DeniedWhy::Private(first))),
            Some(_) | None => Ok(public),
        }
    }
}

fn denied(host: &Host, port: u16, why: DeniedWhy) -> Unreached {
    let host = host.to_string();
    Unreached::Denied(Denied { host, port, why })
}

fn not_found(error: &io::Error) -> String {
    format!("its name is not found: {error}")
}
