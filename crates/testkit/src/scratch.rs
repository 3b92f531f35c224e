//! A home, a workspace and a place outside it, all new and gone with the test.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Temporary directories for one test: a home with the XDG directories, a workspace, and an empty directory outside
/// the workspace. All of it is deleted when the value is dropped.
///
/// ```
/// use tooloop_testkit::Scratch;
///
/// let scratch = Scratch::new();
/// scratch.write("src/a.txt", "one\n");
/// assert_eq!(scratch.read("src/a.txt"), "one\n");
/// assert!(!scratch.marker().exists());
/// ```
#[derive(Debug)]
pub struct Scratch {
    root: PathBuf,
    _directory: TempDir,
}

impl Scratch {
    /// Makes the directories.
    ///
    /// # Panics
    /// If the machine has no room for them; [`try_new`](Self::try_new) gives the error instead.
    pub fn new() -> Self {
        match Self::try_new() {
            Ok(scratch) => scratch,
            #[expect(clippy::panic, reason = "a test cannot go on without its directories")]
            Err(error) => panic!("there is no scratch directory: {error}"),
        }
    }

    /// Makes the directories.
    ///
    /// # Errors
    /// If one of them cannot be made.
    pub fn try_new() -> io::Result<Self> {
        let directory = tempfile::Builder::new().prefix("testkit-").tempdir()?;
        // Where the way to the temporary directory leads over a link, paths are to compare equal all the same.
        let root = directory.path().canonicalize()?;
        let scratch = Self {
            root,
            _directory: directory,
        };
        for path in [
            scratch.workspace(),
            scratch.outside(),
            scratch.temporary(),
            scratch.runtime(),
            scratch.config(),
            scratch.data(),
            scratch.state(),
            scratch.cache(),
        ] {
            fs::create_dir_all(path)?;
        }
        set_private(&scratch.runtime())?;
        Ok(scratch)
    }

    /// The directory that holds all the others.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The working directory of the agent.
    pub fn workspace(&self) -> PathBuf {
        self.root.join("workspace")
    }

    /// An empty directory outside the workspace.
    pub fn outside(&self) -> PathBuf {
        self.root.join("outside")
    }

    /// A file outside the workspace that does not exist: if it does later, the forbidden thing has run.
    pub fn marker(&self) -> PathBuf {
        self.outside().join("M")
    }

    /// `HOME`.
    pub fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    /// `XDG_CONFIG_HOME`.
    pub fn config(&self) -> PathBuf {
        self.home().join(".config")
    }

    /// `XDG_DATA_HOME`.
    pub fn data(&self) -> PathBuf {
        self.home().join(".local/share")
    }

    /// `XDG_STATE_HOME`.
    pub fn state(&self) -> PathBuf {
        self.home().join(".local/state")
    }

    /// `XDG_CACHE_HOME`.
    pub fn cache(&self) -> PathBuf {
        self.home().join(".cache")
    }

    /// `XDG_RUNTIME_DIR`.
    pub fn runtime(&self) -> PathBuf {
        self.root.join("run")
    }

    /// `TMPDIR`.
    pub fn temporary(&self) -> PathBuf {
        self.root.join("tmp")
    }

    /// The variables that point a process at these directories.
    pub fn environment(&self) -> Vec<(&'static str, OsString)> {
        [
            ("HOME", self.home()),
            ("XDG_CONFIG_HOME", self.config()),
            ("XDG_DATA_HOME", self.data()),
            ("XDG_STATE_HOME", self.state()),
            ("XDG_CACHE_HOME", self.cache()),
            ("XDG_RUNTIME_DIR", self.runtime()),
            ("TMPDIR", self.temporary()),
        ]
        .map(|(name, path)| (name, path.into_os_string()))
        .into()
    }

    /// Writes a file, directories included, and gives its path. A relative path starts at the workspace.
    ///
    /// # Panics
    /// If that fails.
    pub fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.workspace().join(path);
        let written = match path.parent() {
            Some(parent) => fs::create_dir_all(parent).and_then(|()| fs::write(&path, content)),
            None => fs::write(&path, content),
        };
        #[expect(clippy::panic, reason = "a test cannot go on without its files")]
        if let Err(error) = written {
            panic!("{} cannot be written: {error}", path.display());
        }
        path
    }

    /// The text of a file. A relative path starts at the workspace.
    ///
    /// # Panics
    /// If it cannot be read as text.
    pub fn read(&self, path: impl AsRef<Path>) -> String {
        let path = self.workspace().join(path);
        match fs::read_to_string(&path) {
            Ok(text) => text,
            #[expect(clippy::panic, reason = "an assertion of the test")]
            Err(error) => panic!("{} cannot be read: {error}", path.display()),
        }
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

fn set_private(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o700))
}
