//! What is set about the sandbox.

use tooloop::Reach;

use super::Settings;
use super::choice::{Choice, Refusal};
use super::list;

/// What holds commands besides the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sandbox {
    /// The workspace is writable; where no sandbox can be set up, commands run without.
    Auto,
    /// The workspace is writable; without a sandbox there is no run.
    Workspace,
    /// Nothing is writable; without a sandbox there is no run.
    ReadOnly,
    /// As `Workspace`, in the word for those who care for nothing but that there is one.
    Required,
    /// Nothing holds them.
    Off,
}

impl Sandbox {
    const ALL: [(Self, &'static str); 5] = [
        (Self::Auto, "auto"),
        (Self::Workspace, "workspace"),
        (Self::ReadOnly, "read-only"),
        (Self::Required, "required"),
        (Self::Off, "off"),
    ];

    /// As it is written.
    pub(crate) fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(sandbox, _)| *sandbox == self);
        found.map_or("off", |(_, name)| name)
    }

    const fn strictness(self) -> u8 {
        match self {
            Self::Off => 0,
            Self::Auto => 1,
            Self::Workspace | Self::Required => 2,
            Self::ReadOnly => 3,
        }
    }
}

/// No wider than before.
pub(super) fn is_narrower(new: &Settings, old: &Settings) -> bool {
    new.sandbox.strictness() >= old.sandbox.strictness()
}

/// No wider than before.
pub(super) fn reaches_no_further(new: &Settings, old: &Settings) -> bool {
    match (&new.sandbox_network, &old.sandbox_network) {
        (Reach::Nothing, _) | (_, Reach::Everything) => true,
        (Reach::Everything, _) | (Reach::Hosts(_), Reach::Nothing) => false,
        (Reach::Hosts(new), Reach::Hosts(old)) => new.iter().all(|host| old.contains(host)),
    }
}

impl Choice for Sandbox {
    fn choose(&mut self, word: &str) -> Result<(), Refusal> {
        let found = Self::ALL.iter().find(|(_, name)| *name == word);
        (*self, _) = *found.ok_or(Refusal::NoSuchWord)?;
        Ok(())
    }

    fn word(&self) -> Option<String> {
        Some(self.name().to_owned())
    }

    fn words(&self) -> String {
        let names: Vec<_> = Self::ALL.iter().map(|(_, name)| *name).collect();
        format!("one of {}", names.join(", "))
    }
}

impl Choice for Reach {
    fn choose(&mut self, word: &str) -> Result<(), Refusal> {
        *self = match word.trim() {
            "off" => Self::Nothing,
            "on" => Self::Everything,
            text => {
                let hosts = list::items(text).map_err(Refusal::Because)?;
                let wrong = hosts.iter().find_map(|host| {
                    // A slip in one of our words must not become the name of a host.
                    let is_name = host.contains('.') || host.contains(':') || host == "localhost";
                    let parsed = host.parse::<tooloop::tools::HostPattern>();
                    match parsed {
                        Ok(_) if is_name => None,
                        Ok(_) => Some(Refusal::NoSuchWord),
                        Err(error) => Some(Refusal::Because(format!("has a wrong host: {error}"))),
                    }
                });
                if let Some(wrong) = wrong {
                    return Err(wrong);
                }
                if hosts.is_empty() {
                    Self::Nothing
                } else {
                    Self::Hosts(hosts)
                }
            }
        };
        Ok(())
    }

    fn word(&self) -> Option<String> {
        Some(match self {
            Self::Nothing => "off".to_owned(),
            Self::Everything => "on".to_owned(),
            Self::Hosts(hosts) => hosts.join(", "),
        })
    }

    fn words(&self) -> String {
        "off, on, or a list of hosts such as [\"crates.io\", \"*.example.com\"]".to_owned()
    }

    fn takes_list(&self) -> bool {
        true
    }
}
