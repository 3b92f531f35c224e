//! The sandbox as tools use it: what a call runs in, and what to say when it refused something.
//!
//! A call runs in the profile of the agent, widened by what its context says that it was given.
//! Nothing here decides whether a call may run, or what it is given.

mod git_config;
mod guard;
mod refusals;
mod removal;
mod scan;
mod staging;
mod view;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};
use tooloop_exec::{Confined, Sandbox, SandboxNetwork, SandboxProfile};
use tooloop_policy::{Confinement, Grant, Reach};
use tooloop_tool::{ToolContext, ToolError};

use self::guard::{Guard, Removal};
use self::scan::Scanner;
use self::staging::Staging;
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
    /// How the proxy is set up that lets a call reach some hosts. Its hosts are added to.
    pub proxy: SandboxProxySettings,
    scanner: Arc<Scanner>,
    /// What commands have left running.
    left: Arc<Mutex<Vec<Left>>>,
}

/// A command that has ended, and processes of it that have not.
#[derive(Debug)]
struct Left {
    guard: Guard,
    processes: Vec<u32>,
}

impl Drop for Left {
    fn drop(&mut self) {
        // No result can carry it any more.
        drop(self.guard.end());
    }
}

impl ToolConfinement {
    /// How many directories are looked at by [`ToolConfinement::watch`].
    pub const WATCHED: usize = scan::MOST;

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
            scanner: Arc::new(Scanner::new(Vec::new(), Vec::new())),
            left: Arc::default(),
            profile: Arc::new(profile),
            proxy: SandboxProxySettings {
                port,
                ..SandboxProxySettings::default()
            },
        }
    }

    /// Has repositories and further protected entries looked for at any depth below these
    /// directories, when a command begins and when it has ended. `names`: relative paths.
    ///
    /// Returns whether all directories could be looked at: there are no more than
    /// [`ToolConfinement::WATCHED`].
    #[must_use]
    pub fn watch(&mut self, roots: Vec<PathBuf>, names: Vec<String>) -> bool {
        self.scanner = Arc::new(Scanner::new(roots, names));
        self.scanner.scan().first_unseen().is_none()
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
            false,
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
        let grants = context.grants.clone();
        self.widened(profile, grants, directory, context.is_read_only)
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
        is_read_only: bool,
    ) -> Result<Wall, ToolError> {
        let mut everything = self.policy.network == Reach::Everything;
        let mut hosts: Vec<String> = match &self.policy.network {
            Reach::Hosts(hosts) => hosts.clone(),
            Reach::Nothing | Reach::Everything => Vec::new(),
        };
        let mut new = Vec::new();
        for grant in grants {
            let is_included = self.policy.includes(&grant);
            match grant {
                Grant::Write(path) => match path.canonicalize() {
                    Ok(path) => {
                        let obeyed = self
                            .obeyed
                            .iter()
                            .filter(|obeyed| obeyed.starts_with(&path));
                        profile.read_only.extend(obeyed.cloned());
                        profile.writable.push(path);
                    }
                    Err(_) if is_included => {}
                    Err(_) => new.push(path),
                },
                Grant::Network => everything = true,
                Grant::Host(host) => hosts.push(host),
                // Without a wall there is nothing to be widened.
                Grant::Unconfined => {}
            }
        }
        let has_mounts = self.sandbox.enforced().mechanism != tooloop_exec::Mechanism::Landlock;
        let staging = Staging::prepare(new, &self.obeyed, has_mounts, &mut profile)?;
        let late = self.look_after_left();
        // What is read-only as a whole holds nothing that could be made.
        let guard = (!is_read_only).then(|| Guard::begin(&self.scanner, &mut profile));
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
            guard,
            staging: Some(staging),
            late,
            left: Arc::clone(&self.left),
            directory: directory.to_owned(),
        })
    }

    /// Takes back what processes that were left running have made.
    fn look_after_left(&self) -> Vec<Removal> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let removals = left.iter().flat_map(|left| left.guard.end()).collect();
        left.retain(|left| {
            let mut processes = left.processes.iter();
            processes.any(|number| Path::new(&format!("/proc/{number}")).exists())
        });
        removals
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

/// What one call runs in. To be kept until the call is over: the way to its hosts ends with it.
#[derive(Debug)]
pub struct Wall {
    confined: Confined,
    proxy: Option<SandboxProxy>,
    confinement: Confinement,
    guard: Option<Guard>,
    staging: Option<Staging>,
    /// What others have left behind, found when this one began.
    late: Vec<Removal>,
    left: Arc<Mutex<Vec<Left>>>,
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
    /// Takes back what must not stay, and moves what was granted to its place. Done once.
    /// `processes`: what of the command still runs.
    fn finish(&mut self, processes: &[u32]) -> Vec<Removal> {
        let mut removals = std::mem::take(&mut self.late);
        removals.extend(self.staging.take().map(Staging::end).unwrap_or_default());
        let Some(guard) = self.guard.take() else {
            return removals;
        };
        removals.extend(guard.end());
        if !processes.is_empty() {
            let processes = processes.to_vec();
            let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
            left.push(Left { guard, processes });
        }
        removals
    }

    /// The same for who has no result to put it into: a note for each thing that was taken back.
    pub(crate) fn finish_with_notes(&mut self) -> Vec<String> {
        let removals = self.finish(&[]);
        let told = refusals::of_removals(&removals);
        told.map(|refusal| format!("({refusal})")).collect()
    }
}

impl Drop for Wall {
    fn drop(&mut self) {
        // Nobody may have looked for refusals.
        drop(self.finish(&[]));
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
