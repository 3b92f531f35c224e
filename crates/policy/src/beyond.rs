//! What a shell line is known to need beyond the sandbox.

use std::path::Path;

use crate::{
    Confinement, Grant,
    shell::{Analysis, Effects, Part, analyse, is_this_machine},
};

/// Something that a part of a line needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    pub(crate) grant: Grant,
    pub(crate) part: Part,
}

/// Names what a line is known to need beyond the sandbox, each once.
///
/// It sees what stands in the line: paths that are written, hosts, programs that need the network
/// or cannot work inside. What it does not see the sandbox refuses. The policy asks about these,
/// and whoever runs an allowed line widens the sandbox by the very same list.
///
/// ```
/// use tooloop_policy::{Confinement, Grant, beyond};
///
/// let within = Confinement { writable: vec!["/w".into()], ..Confinement::default() };
/// let beyond = |line| beyond(line, "/w".as_ref(), None, &within);
/// assert_eq!(beyond("make > log; git commit -m x"), []);
/// assert_eq!(beyond("cp a ../b"), [Grant::Write("/b".into())]);
/// assert_eq!(beyond("curl https://a.example/x"), [Grant::Host("a.example".into())]);
/// assert_eq!(beyond("git push"), [Grant::Network]);
/// ```
#[must_use]
pub fn beyond(
    line: &str,
    directory: &Path,
    home: Option<&Path>,
    confinement: &Confinement,
) -> Vec<Grant> {
    let analysis = analyse(line);
    let needs = needs(&analysis, &analysis.known_effects(), Some(directory), home);
    summary(
        needs
            .into_iter()
            .map(|need| need.grant)
            .filter(|grant| !confinement.includes(grant)),
    )
}

/// Each of these once, and none that another one includes.
pub(crate) fn summary(grants: impl Iterator<Item = Grant>) -> Vec<Grant> {
    let mut all: Vec<Grant> = Vec::new();
    for grant in grants {
        if !all.contains(&grant) {
            all.push(grant);
        }
    }
    if all.contains(&Grant::Unconfined) {
        return vec![Grant::Unconfined];
    }
    if all.contains(&Grant::Network) {
        all.retain(|grant| !matches!(grant, Grant::Host(_)));
    }
    all
}

/// What the parts of a line need, whether the sandbox gives it or not.
pub(crate) fn needs(
    analysis: &Analysis,
    effects: &Effects,
    directory: Option<&Path>,
    home: Option<&Path>,
) -> Vec<Need> {
    let mut needs = Vec::new();
    let outsiders = effects.outsiders.iter().map(|part| Need {
        grant: Grant::Unconfined,
        part: *part,
    });
    needs.extend(outsiders);
    for contact in &effects.contacts {
        let grant = match &contact.host {
            Some(host) if is_this_machine(host) => continue,
            // What no proxy carries cannot be let through for one host alone.
            Some(host) if contact.obeys_proxy => Grant::Host(host.clone()),
            Some(_) | None => Grant::Network,
        };
        needs.push(Need {
            grant,
            part: contact.part,
        });
    }
    let folders = analysis.folders(directory, home);
    for touched in &effects.writes {
        if let Some(found) = analysis.resolve(touched, &folders)
            && !is_device(&found.path)
        {
            needs.push(Need {
                grant: Grant::Write(found.path),
                part: touched.part,
            });
        }
    }
    needs.sort_by_key(|need| need.part);
    needs
}

/// Devices that are there for everybody.
pub(crate) fn is_device(path: &Path) -> bool {
    [
        "/dev/null",
        "/dev/zero",
        "/dev/full",
        "/dev/random",
        "/dev/urandom",
        "/dev/tty",
        "/dev/ptmx",
    ]
    .iter()
    .any(|device| path == Path::new(device))
        || ["/dev/fd", "/dev/pts", "/dev/std", "/proc/self/fd"]
            .iter()
            .any(|folder| path.to_string_lossy().starts_with(folder))
}
