//! The border around what an agent may change: which folders it may write, which entries in them
//! it may not, and a temporary folder of its own.
//!
//! [`Boundary::draw`] looks at the file system and gives plain lists of paths. What holds commands
//! to them is the sandbox of `tooloop_exec`; what holds the other tools to them is the policy. It
//! must not know either, nor settings and flags.
//!
//! The reasons for what is on the lists are in `docs/sandbox.md`.
//!
//! ```
//! use tooloop::boundary::{Boundary, BoundarySettings};
//!
//! let folder = std::env::temp_dir();
//! let boundary = Boundary::draw(&BoundarySettings::new(&folder, &folder.join("private")));
//! assert!(boundary.writable.contains(&folder.canonicalize().unwrap()));
//! ```

mod caches;
mod denied;
mod git;
mod home;
mod temp;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

pub use denied::DeniedFiles;
pub use temp::PrivateTemp;

use tooloop_policy::protected::PROJECT_ENTRIES;

use crate::paths::real;

/// What a boundary is drawn from.
#[derive(Debug, Clone)]
pub struct BoundarySettings<'a> {
    /// The folder that the agent works in.
    pub workspace: &'a Path,
    /// Its private temporary folder.
    pub temp: &'a Path,
    /// Further folders that it works in.
    pub folders: &'a [PathBuf],
    /// Files and folders that are writable beside.
    pub writable: &'a [PathBuf],
    /// Files and folders that commands cannot even read.
    pub hidden: &'a [PathBuf],
    /// Further entries of the project's folders that are never written, such as the settings of
    /// programs that start other programs: relative paths.
    pub protected: &'a [&'a str],
    /// Files and folders that are never written, wherever they are: absolute paths.
    pub own: &'a [PathBuf],
    /// The home folder.
    pub home: Option<&'a Path>,
    /// Looks up a variable of the environment; some say where a cache is.
    pub variable: fn(&str) -> Option<OsString>,
    /// Whether the caches of package managers and compilers are writable.
    pub caches: bool,
    /// Nothing but the temporary folder is writable.
    pub read_only: bool,
}

impl<'a> BoundarySettings<'a> {
    /// The workspace alone, without caches.
    #[must_use]
    pub const fn new(workspace: &'a Path, temp: &'a Path) -> Self {
        Self {
            workspace,
            temp,
            folders: &[],
            writable: &[],
            hidden: &[],
            protected: &[],
            own: &[],
            home: None,
            variable: |_| None,
            caches: false,
            read_only: false,
        }
    }
}

/// Which paths may be written: absolute, links resolved, those that are needless left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Boundary {
    /// What may be written, with all below it.
    pub writable: Vec<PathBuf>,
    /// What below it may not, with all below that. Some of it may not be there.
    pub protected: Vec<PathBuf>,
    /// What is never written either where more becomes writable: it holds what is protected.
    pub obeyed: Vec<PathBuf>,
    /// Below these, repositories and further entries with the names below are protected at any depth.
    pub watched: Vec<PathBuf>,
    /// Names of protected entries, relative to whatever directory they are in.
    pub names: Vec<String>,
    /// What repositories of the workspace read elsewhere: stores of objects and linked hooks. With
    /// `read_only` also the directories that they write otherwise.
    pub read: Vec<PathBuf>,
    /// What may not even be read.
    pub hidden: Vec<PathBuf>,
    /// The private temporary folder, which is writable.
    pub temp: PathBuf,
}

impl Boundary {
    /// Draws it.
    #[must_use]
    pub fn draw(settings: &BoundarySettings<'_>) -> Self {
        let mut boundary = Self {
            temp: real(settings.temp),
            hidden: settings.hidden.iter().map(|path| real(path)).collect(),
            ..Self::default()
        };
        let roots = std::iter::once(settings.workspace)
            .chain(settings.folders.iter().map(PathBuf::as_path))
            .map(real);
        let stores = git::named_stores(settings.variable);
        if settings.read_only {
            let found = roots.map(|root| git::folders(&root)).chain([stores]);
            let read = found.flat_map(|git| [git.writable, git.read].concat());
            boundary.read = without_needless(read.collect());
            return boundary;
        }
        let mut protected = stores.protected;
        boundary.writable = stores.writable;
        boundary.read = stores.read;
        for root in roots {
            let git = git::folders(&root);
            boundary.writable.extend(git.writable);
            boundary.read.extend(git.read);
            protected.extend(git.protected);
            let names = PROJECT_ENTRIES.iter().chain(settings.protected);
            protected.extend(names.map(|name| root.join(name)));
            boundary.watched.push(root.clone());
            boundary.writable.push(root);
        }
        let names = PROJECT_ENTRIES.iter().chain(settings.protected);
        boundary.names = names.map(|name| (*name).to_owned()).collect();
        let further = settings.writable.iter().map(|path| real(path));
        let further: Vec<PathBuf> = further.collect();
        boundary.watched.extend(further.iter().cloned());
        boundary.watched = without_needless(boundary.watched);
        boundary.writable.extend(further);
        if let Some(home) = settings.home {
            let home = real(home);
            if settings.caches {
                let caches = caches::caches(&home, settings.variable);
                boundary.writable.extend(caches.writable);
                protected.extend(caches.protected);
            }
            protected.extend(home::protected(&home));
        }
        protected.extend(settings.own.iter().map(|path| real(path)));
        boundary.writable = without_needless(boundary.writable);
        let written = &boundary.writable;
        boundary.read.retain(|path| !is_below(written, path));
        boundary.read = without_needless(boundary.read);
        boundary.obeyed = without_needless(protected.clone());
        // What is not below anything writable needs no protection.
        protected.retain(|path| is_below(&boundary.writable, path));
        boundary.protected = without_needless(protected);
        boundary
    }

    /// Whether a path (absolute, links resolved) may be written.
    #[must_use]
    pub fn lets_write(&self, path: &Path) -> bool {
        let below = |roots: &[PathBuf]| roots.iter().any(|root| path.starts_with(root));
        path.starts_with(&self.temp) || below(&self.writable) && !below(&self.protected)
    }
}

/// Sorted, and without what lies below another one.
fn without_needless(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.sort();
    let mut kept: Vec<PathBuf> = Vec::with_capacity(paths.len());
    for path in paths {
        // Paths are sorted by their parts, so what lies below a path follows it.
        if kept.last().is_none_or(|above| !path.starts_with(above)) {
            kept.push(path);
        }
    }
    kept
}

/// Whether a path is one of the sorted paths, or lies below one. The time depends on the depth of the
/// path, not on how many there are.
fn is_below(sorted: &[PathBuf], path: &Path) -> bool {
    path.ancestors().any(|above| {
        let found = sorted.binary_search_by(|other| other.as_path().cmp(above));
        found.is_ok()
    })
}
