//! The sandbox as tools use it: what a call runs in, and what to say when it refused something.
//!
//! A call runs in the profile of the agent, widened by what its context says that it was given.
//! Nothing here decides whether a call may run, or what it is given.

mod refusals;
mod view;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};
use tooloop_exec::{Confined, Sandbox, SandboxNetwork, SandboxProfile};
use tooloop_policy::{Confinement, Grant, Reach};
use tooloop_tool::{ToolContext, ToolError};

use crate::{HostPattern, SandboxProxy, SandboxProxySettings};

pub use view::{TempView, ViewedOps};

/// The sandbox of an agent's commands.
///
/// ```no_run
/// use std::sync::Arc;
/// use tooloop_exec::{Sandbox, SandboxNetwork, SandboxOptions, SandboxProfile};
/// use tooloop_policy::Confinement;
/// use tooloop_tools::ToolConfinement;
///
/// // First thing in `main`: tooloop_exec::sandbox_main();
/// let sandbox = Sandbox::probe(&SandboxOptions::default())?;
/// let profile = SandboxProfile {
///     writable: vec!["/work".into()],
///     read_only: vec!["/work/.git/hooks".into()],
///     hidden: Vec::new(),
///     temp: "/var/lib/agent/temp".into(),
///     staged: Vec::new(),
///     network: SandboxNetwork::Off,
/// };
/// let confinement = ToolConfinement::new(sandbox, profile);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct ToolConfinement {
    /// How commands are shut in.
    pub sandbox: Sandbox,
    /// What they may do. What they reach of the network is said by `policy`.
    pub profile: Arc<SandboxProfile>,
    /// The same as the policy knows it.
    pub policy: Confinement,
    /// What is never written either where a call is given more to write.
    pub obeyed: Vec<PathBuf>,
    /// What is not there and must not come to be; what a command made of it is removed.
    pub absent: Vec<PathBuf>,
    /// How the proxy is set up that lets a call reach some hosts. Its hosts are added to.
    pub proxy: SandboxProxySettings,
}

impl ToolConfinement {
    /// A sandbox with this profile. Commands reach all of the network or nothing, as it says.
    #[must_use]
    pub fn new(sandbox: Sandbox, profile: SandboxProfile) -> Self {
        let network = match profile.network {
            SandboxNetwork::On => Reach::Everything,
            SandboxNetwork::Off | SandboxNetwork::Proxy { .. } => Reach::Nothing,
        };
        let mut temp = vec![profile.temp.clone()];
        let mapped = !sandbox
            .enforced()
            .gaps
            .contains(&tooloop_exec::Gap::SharedTemp);
        if mapped {
            temp.extend(TempView::SEEN_AS.map(PathBuf::from));
        }
        let port = !sandbox.enforced().network_namespace;
        Self {
            policy: Confinement {
                writable: profile.writable.clone(),
                temp,
                network,
            },
            sandbox,
            obeyed: profile.read_only.clone(),
            absent: Vec::new(),
            profile: Arc::new(profile),
            proxy: SandboxProxySettings {
                port,
                ..SandboxProxySettings::default()
            },
        }
    }

    /// What a program runs in that was not asked about, such as a hook.
    ///
    /// # Errors
    /// The proxy for its hosts cannot be started.
    ///
    /// # Panics
    /// Outside of a tokio runtime, if it may reach some hosts.
    pub fn wall(&self) -> Result<Wall, ToolError> {
        self.widened(
            SandboxProfile::clone(&self.profile),
            Vec::new(),
            Path::new("/"),
        )
    }

    /// What a call runs in that was given this; `None`: in nothing.
    pub(crate) fn wall_for(
        &self,
        context: &ToolContext,
        directory: &Path,
    ) -> Result<Option<Wall>, ToolError> {
        if context.grants.contains(&Grant::Unconfined) {
            return Ok(None);
        }
        let mut profile = SandboxProfile::clone(&self.profile);
        if context.is_read_only {
            self.close(&mut profile);
        }
        self.widened(profile, context.grants.clone(), directory)
            .map(Some)
    }

    /// Leaves nothing to be written but the folder for what does not last.
    fn close(&self, profile: &mut SandboxProfile) {
        let gaps = &self.sandbox.enforced().gaps;
        let mapped = !gaps.contains(&tooloop_exec::Gap::SharedTemp);
        // What the private folder would cover has to be seen all the same.
        profile.writable.retain(|place| {
            let mut covering = TempView::SEEN_AS.iter();
            mapped && covering.any(|temp| place.starts_with(temp))
        });
        profile.read_only.extend(profile.writable.iter().cloned());
    }

    fn widened(
        &self,
        mut profile: SandboxProfile,
        grants: Vec<Grant>,
        directory: &Path,
    ) -> Result<Wall, ToolError> {
        let mut everything = self.policy.network == Reach::Everything;
        let mut hosts: Vec<String> = match &self.policy.network {
            Reach::Hosts(hosts) => hosts.clone(),
            Reach::Nothing | Reach::Everything => Vec::new(),
        };
        for grant in grants {
            match grant {
                Grant::Write(path) => {
                    let path = place(&path);
                    let obeyed = self
                        .obeyed
                        .iter()
                        .filter(|obeyed| obeyed.starts_with(&path));
                    profile.read_only.extend(obeyed.cloned());
                    profile.writable.push(path);
                }
                Grant::Network => everything = true,
                Grant::Host(host) => hosts.push(host),
                // Without a wall there is nothing to be widened.
                Grant::Unconfined => {}
            }
        }
        let mut proxy = None;
        profile.network = if everything {
            SandboxNetwork::On
        } else if hosts.is_empty() {
            SandboxNetwork::Off
        } else {
            let started = self.start_proxy(&hosts)?;
            let network = SandboxNetwork::Proxy {
                socket: started.socket().to_owned(),
                port: started.address().map(|address| address.port()),
            };
            proxy = Some(started);
            network
        };
        Ok(Wall {
            confined: Confined {
                sandbox: self.sandbox.clone(),
                profile: Arc::new(profile),
            },
            proxy,
            confinement: self.policy.clone(),
            absent: self.absent.clone(),
            directory: directory.to_owned(),
        })
    }

    fn start_proxy(&self, hosts: &[String]) -> Result<SandboxProxy, ToolError> {
        let mut settings = self.proxy.clone();
        for host in hosts {
            let pattern: HostPattern = host.parse().map_err(|error| {
                ToolError::Failed(format!("the sandbox cannot let {host} be reached: {error}"))
            })?;
            settings.hosts.push(pattern);
        }
        SandboxProxy::start(settings).map_err(|error| ToolError::Failed(error.to_string()))
    }
}

/// Where something is written that may not be there yet: the folder that it is to be in then.
fn place(path: &Path) -> PathBuf {
    let there = path
        .ancestors()
        .find(|path| std::fs::symlink_metadata(path).is_ok());
    let there = there.unwrap_or(path);
    // A grant for a file that is not there must not open the whole system.
    let there = if there.parent().is_none() {
        path
    } else {
        there
    };
    there.canonicalize().unwrap_or_else(|_| there.to_owned())
}

/// What one call runs in. To be kept until the call is over: the way to its hosts ends with it.
#[derive(Debug)]
pub struct Wall {
    confined: Confined,
    proxy: Option<SandboxProxy>,
    confinement: Confinement,
    absent: Vec<PathBuf>,
    /// Where it runs.
    directory: PathBuf,
}

impl Wall {
    /// For [`tooloop_exec::Command::sandbox`].
    #[must_use]
    pub fn confined(&self) -> Confined {
        self.confined.clone()
    }
}

impl Wall {
    /// Removes what must not be there; gives the paths of what was.
    fn clear(&self) -> Vec<PathBuf> {
        let mut cleared = Vec::new();
        for path in &self.absent {
            let Ok(found) = std::fs::symlink_metadata(path) else {
                continue;
            };
            let removed = if found.is_dir() {
                std::fs::remove_dir_all(path)
            } else {
                std::fs::remove_file(path)
            };
            if removed.is_ok() {
                cleared.push(path.clone());
            }
        }
        cleared
    }
}

impl Drop for Wall {
    fn drop(&mut self) {
        // Nobody may have looked for refusals.
        drop(self.clear());
    }
}

/// Something beyond the sandbox that a call asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedGrant(pub Grant);

impl<'de> Deserialize<'de> for WantedGrant {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for WantedGrant {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "WantedGrant".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }
}
