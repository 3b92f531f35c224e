//! The wall of a run: what is tried at start, what is drawn from settings, and what is said of it.
//!
//! What is said is what is so: the mechanism by a real attempt, and what stays open beside.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tooloop::boundary::{Boundary, BoundarySettings, DeniedFiles, PrivateTemp};
use tooloop::exec::{
    Gap, Sandbox, SandboxNetwork, SandboxOptions, SandboxProfile, SandboxUnavailable,
};
use tooloop::provider::compat;
use tooloop::tools::{SandboxProxySettings, TempView, ToolConfinement};
use tooloop::{Border, Mode, Policy, Reach, Rule};

use crate::exit::{Failure, Status};
use crate::sessions;
use crate::settings::{self, Settings};
use crate::setup::environment;

/// How many directories a sandbox takes: each is a mount of every command.
const MOST_DIRECTORIES: usize = 2000;

/// An attempt to set up a sandbox, which goes on beside the rest of the start.
pub(crate) struct Attempt(Option<JoinHandle<Result<Sandbox, SandboxUnavailable>>>);

impl Attempt {
    /// Begins it, if the settings want one.
    pub(crate) fn begin(settings: &Settings) -> Self {
        Self(match settings.sandbox {
            settings::Sandbox::Off => None,
            settings::Sandbox::Auto
            | settings::Sandbox::Workspace
            | settings::Sandbox::ReadOnly
            | settings::Sandbox::Required => Some(tokio::task::spawn_blocking(|| {
                Sandbox::probe(&SandboxOptions::default())
            })),
        })
    }

    /// What came of it; `None`: no sandbox is wanted.
    ///
    /// # Errors
    /// One must be there and is not.
    pub(crate) async fn end(self, settings: &Settings) -> Result<Tried, Failure> {
        let Some(attempt) = self.0 else {
            return Ok(Tried::Off);
        };
        let attempt = attempt.await.map_err(|error| {
            Failure::new(Status::Internal, format!("cannot try a sandbox: {error}"))
        })?;
        match attempt {
            Ok(sandbox) => Ok(Tried::Works(sandbox)),
            Err(missing) if settings.sandbox == settings::Sandbox::Auto => {
                Ok(Tried::Missing(missing.to_string()))
            }
            Err(missing) => Err(Failure::new(
                Status::Sandbox,
                format!(
                    "sandbox = \"{}\": {missing}; --sandbox off runs commands without one",
                    settings.sandbox.name()
                ),
            )),
        }
    }
}

/// What came of the attempt.
pub(crate) enum Tried {
    Off,
    Missing(String),
    Works(Sandbox),
    /// It works, and nothing will be run in it.
    Unused(Sandbox),
}

/// The wall of a run.
pub(crate) struct Wall {
    pub(crate) report: SandboxReport,
    /// For tools that run commands, and for whatever else is started.
    pub(crate) confinement: Option<ToolConfinement>,
    /// For the gate.
    pub(crate) border: Option<Border>,
    /// To be held until all that was started has ended.
    pub(crate) temp: Option<PrivateTemp>,
}

impl Wall {
    /// Puts it up.
    ///
    /// # Errors
    /// There is no folder for temporary files, or there are too many directories.
    pub(crate) fn put_up(
        tried: Tried,
        settings: &Settings,
        workspace: &Path,
        folders: &[PathBuf],
    ) -> Result<Self, Failure> {
        let (sandbox, is_used) = match tried {
            Tried::Works(sandbox) => (sandbox, true),
            Tried::Unused(sandbox) => (sandbox, false),
            Tried::Off => return Ok(Self::none(None)),
            Tried::Missing(missing) => return Ok(Self::none(Some(missing))),
        };
        let count = folders.len() + settings.sandbox_writable.len() + settings.sandbox_hidden.len();
        if count > MOST_DIRECTORIES {
            return Err(Failure::new(
                Status::Sandbox,
                format!(
                    "{count} directories are named by --add-dir, sandbox_writable and \
                     sandbox_hidden, and the sandbox takes at most {MOST_DIRECTORIES}: name a \
                     directory above them, or use --sandbox off"
                ),
            ));
        }
        let system = std::env::temp_dir();
        let temp = if is_used {
            PrivateTemp::create(&system)
        } else {
            PrivateTemp::imagined(&system)
        };
        let temp = temp.map_err(|error| {
            Failure::new(
                Status::Sandbox,
                format!(
                    "cannot make a private folder for temporary files in {}: {error}",
                    system.display()
                ),
            )
        })?;
        let is_read_only = settings.sandbox == settings::Sandbox::ReadOnly;
        // That is so as long as the mode is: each call is told.
        let is_closed = is_read_only || settings.permission_mode == Mode::Plan;
        let home = environment("HOME").map(PathBuf::from);
        let home = home.filter(|home| home.is_absolute());
        let denied = denied(settings, workspace, folders, home.as_deref());
        let boundary = Boundary::draw(&BoundarySettings {
            folders,
            writable: &settings.sandbox_writable,
            hidden: &[settings.sandbox_hidden.clone(), denied.hidden].concat(),
            protected: &compat::PROGRAM_SETTINGS,
            own: &[own(home.as_deref()), denied.read_only].concat(),
            home: home.as_deref(),
            variable: |name| std::env::var_os(name),
            caches: settings.sandbox_caches,
            read_only: is_read_only,
            ..BoundarySettings::new(workspace, temp.path())
        });
        let mut profile = SandboxProfile {
            writable: boundary.writable.clone(),
            read_only: boundary.protected.clone(),
            hidden: boundary.hidden.clone(),
            temp: boundary.temp.clone(),
            staged: Vec::new(),
            network: SandboxNetwork::Off,
        };
        let roots = std::iter::once(workspace).chain(folders.iter().map(PathBuf::as_path));
        let has_view = !sandbox.enforced().gaps.contains(&Gap::SharedTemp);
        if has_view {
            // Where the private folder would cover what is worked on or read.
            let covered =
                |root: &&Path| TempView::SEEN_AS.iter().any(|temp| root.starts_with(temp));
            let read = boundary.read.iter().map(PathBuf::as_path);
            let read = read.chain(roots.clone().filter(|_| is_read_only));
            for root in read.filter(covered) {
                profile.writable.push(root.to_owned());
                profile.read_only.push(root.to_owned());
            }
        }
        let gaps = sandbox.gaps(&profile);
        let mut gaps: Vec<String> = gaps.iter().map(ToString::to_string).collect();
        gaps.extend(denied.is_partial.then(|| PARTIAL.to_owned()));
        let mut confinement = ToolConfinement::new(sandbox.clone(), profile);
        confinement.policy.writable = boundary.writable.clone();
        confinement.obeyed = boundary.obeyed.clone();
        confinement.policy.network = settings.sandbox_network.clone();
        confinement.proxy = SandboxProxySettings {
            private_hosts: settings.private_hosts.clone(),
            ..confinement.proxy
        };
        if is_used && !is_read_only {
            let (watched, names) = (boundary.watched.clone(), boundary.names.clone());
            if !confinement.watch(watched, names) {
                gaps.push(format!(
                    "repositories and protected files that lie deeper than the first {} \
                     directories are not looked for",
                    ToolConfinement::WATCHED
                ));
            }
        }
        let view = has_view.then(|| TempView {
            private: boundary.temp.clone(),
            kept: roots
                .map(Path::to_owned)
                .chain(boundary.writable.iter().cloned())
                .collect(),
        });
        let report = SandboxReport {
            profile: if is_closed { "read-only" } else { "workspace" },
            mechanism: Some(sandbox.enforced().mechanism.to_string()),
            landlock_abi: sandbox.enforced().landlock_abi,
            network: settings.sandbox_network.clone(),
            writable: if is_closed {
                Vec::new()
            } else {
                boundary.writable.clone()
            },
            gaps,
            missing: None,
        };
        let border = Border {
            boundary,
            confinement: confinement.policy.clone(),
            view,
        };
        Ok(Self {
            report,
            confinement: Some(confinement),
            border: Some(border),
            temp: Some(temp),
        })
    }

    fn none(missing: Option<String>) -> Self {
        Self {
            report: SandboxReport {
                missing,
                ..SandboxReport::off()
            },
            confinement: None,
            border: None,
            temp: None,
        }
    }

    /// Tells a policy of it: what stays within needs no question, and file tools work where
    /// commands do.
    pub(crate) fn shape(&self, policy: Policy, settings: &Settings) -> Policy {
        let (Some(confinement), Some(border)) = (&self.confinement, &self.border) else {
            return policy;
        };
        let mut policy = Policy {
            confinement: settings.sandbox_allows.then(|| confinement.policy.clone()),
            protected: border.boundary.protected.clone(),
            ..policy
        };
        policy.roots.push(border.boundary.temp.clone());
        policy
            .roots
            .extend(settings.sandbox_writable.iter().cloned());
        if let Reach::Hosts(hosts) = &settings.sandbox_network {
            // Nobody is asked twice about a host.
            let rules = hosts.iter().map(|host| format!("WebFetch(domain:{host})"));
            policy
                .allow
                .extend(rules.filter_map(|rule| rule.parse::<Rule>().ok()));
        }
        policy
    }
}

/// What is open where deny rules name more files than are looked at.
const PARTIAL: &str =
    "some files that deny rules name by a pattern, since there are too many files";

/// The files that deny rules name: commands are held to the same rules as file tools.
fn denied(
    settings: &Settings,
    workspace: &Path,
    folders: &[PathBuf],
    home: Option<&Path>,
) -> DeniedFiles {
    let policy = Policy {
        deny: settings.disallowed_tools.clone(),
        ..Policy::default()
    };
    let denied = policy.anchored(workspace, home).denied_paths();
    let roots = [&[workspace.to_owned()], folders].concat();
    DeniedFiles::find(&denied, &roots)
}

/// What is ours, or of others who start programs, wherever it is.
fn own(home: Option<&Path>) -> Vec<PathBuf> {
    let mut own: Vec<PathBuf> = vec![settings::MANAGED.into()];
    let config = environment("XDG_CONFIG_HOME").map(PathBuf::from);
    let config = config.or_else(|| Some(home?.join(".config")));
    own.extend(config.map(|config| config.join("tooloop")));
    let data = sessions::root(&environment);
    own.extend(data.as_deref().and_then(Path::parent).map(Path::to_owned));
    own.extend(home.map(|home| home.join(compat::USER_SETTINGS)));
    own
}

/// What is said of the sandbox.
#[derive(Debug, Clone)]
pub(crate) struct SandboxReport {
    profile: &'static str,
    mechanism: Option<String>,
    landlock_abi: i32,
    network: Reach,
    writable: Vec<PathBuf>,
    gaps: Vec<String>,
    /// Why there is none, although one was wanted.
    missing: Option<String>,
}

impl SandboxReport {
    /// There is none.
    pub(crate) const fn off() -> Self {
        Self {
            profile: "off",
            mechanism: None,
            landlock_abi: 0,
            network: Reach::Everything,
            writable: Vec::new(),
            gaps: Vec::new(),
            missing: None,
        }
    }

    fn network(&self) -> String {
        match &self.network {
            Reach::Nothing => "off".into(),
            Reach::Everything => "on".into(),
            Reach::Hosts(hosts) => format!("to {}", hosts.join(", ")),
        }
    }

    /// In few words.
    pub(crate) fn short(&self) -> String {
        match &self.mechanism {
            Some(mechanism) => format!("sandbox {} ({mechanism})", self.profile),
            None => "sandbox off".into(),
        }
    }

    /// In one line.
    pub(crate) fn line(&self) -> String {
        match (&self.mechanism, &self.missing) {
            (Some(mechanism), _) => format!(
                "sandbox: {} ({mechanism}), network {}",
                self.profile,
                self.network()
            ),
            (None, Some(missing)) => format!("sandbox: off, commands run as you: {missing}"),
            (None, None) => "sandbox: off, commands run as you".into(),
        }
    }

    /// All of it, for people.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = vec![self.line()];
        if self.mechanism.is_some() {
            let writable: Vec<String> = self
                .writable
                .iter()
                .map(|path| path.display().to_string())
                .collect();
            lines.push(format!("writable: {}", writable.join(", ")));
            if !self.gaps.is_empty() {
                lines.push(format!("not closed: {}", self.gaps.join("; ")));
            }
        }
        lines
    }

    /// For programs.
    pub(crate) fn record(&self) -> Value {
        let network = match &self.network {
            Reach::Nothing => json!("off"),
            Reach::Everything => json!("on"),
            Reach::Hosts(hosts) => json!(hosts),
        };
        json!({
            "profile": self.profile,
            "mechanism": self.mechanism,
            "landlock_abi": self.mechanism.is_some().then_some(self.landlock_abi),
            "network": network,
            "writable": self.writable,
            "gaps": self.gaps,
            "missing": self.missing,
        })
    }
}
