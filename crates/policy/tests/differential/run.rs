//! Runs lines by a real bash among stubs, and reads what ran.

use std::{
    collections::BTreeSet,
    fs,
    io::Read,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc::{Receiver, Sender, channel},
    time::Duration,
};

use crate::generate::LEAVES;

/// Programs that run others; the real ones stand beside the stubs.
const WRAPPERS: &[&str] = &[
    "timeout", "nice", "nohup", "xargs", "find", "sh", "stdbuf", "setsid", "cat",
];

/// The same for those that could lead away from the stubs: a login shell and an empty environment
/// have another `PATH`.
const SCRIPTS: &[(&str, &str)] = &[
    (
        "bash",
        "#!/bin/sh\ncase \"$1\" in -*l*c) shift; set -- -c \"$@\";; -*l*|--l*) exit 1;; esac\nexec /bin/bash \"$@\"\n",
    ),
    (
        "env",
        "#!/bin/sh\ncase \"$1\" in -|-i*|--i*|-*i*) exit 1;; esac\nexec /usr/bin/env \"$@\"\n",
    ),
    (
        "uv",
        "#!/bin/sh\n[ \"$1\" = run ] || exit 1\nshift\nexec \"$@\"\n",
    ),
    (
        "sudo",
        "#!/bin/sh\nwhile [ \"${1#-}\" != \"$1\" ]; do shift; done\nexec env \"$@\"\n",
    ),
];

/// How long a line may run.
const LIMIT: Duration = Duration::from_secs(2);

/// What came of a line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Ran {
    /// The stubs that ran, with what they were given.
    pub(crate) commands: Vec<Vec<String>>,
    /// The files that it made or changed.
    pub(crate) files: BTreeSet<String>,
    pub(crate) was_stopped: bool,
}

/// A folder with stubs and a place to work in.
#[derive(Debug)]
pub(crate) struct Ground {
    root: PathBuf,
    bash: PathBuf,
    watch: Sender<Option<u32>>,
    stopped: Receiver<()>,
}

fn located(program: &str) -> Option<PathBuf> {
    ["/usr/bin", "/bin", "/usr/local/bin"]
        .iter()
        .map(|folder| Path::new(folder).join(program))
        .find(|path| path.exists())
}

impl Ground {
    /// Lays the ground out; says what is missing if it cannot be.
    pub(crate) fn new(root: &Path) -> Result<Self, String> {
        let bash = located("bash").ok_or("there is no bash")?;
        let kill = located("kill").ok_or("there is no program `kill`")?;
        let say = |error: std::io::Error| error.to_string();
        for folder in ["bin", "work", "home"] {
            fs::create_dir_all(root.join(folder)).map_err(say)?;
        }
        // One write, so that what runs at once does not mix.
        let stub = "#!/bin/sh\nprintf '%s\\037' \"${0##*/}\" \"$@\" '\u{1e}' >> \"$STUB_LOG\"\n";
        for leaf in LEAVES {
            let path = root.join("bin").join(leaf);
            fs::write(&path, stub).map_err(say)?;
            fs::set_permissions(&path, PermissionsExt::from_mode(0o555)).map_err(say)?;
        }
        for wrapper in WRAPPERS {
            if let Some(real) = located(wrapper) {
                std::os::unix::fs::symlink(real, root.join("bin").join(wrapper)).map_err(say)?;
            }
        }
        for (name, text) in SCRIPTS {
            let path = root.join("bin").join(name);
            fs::write(&path, text).map_err(say)?;
            fs::set_permissions(&path, PermissionsExt::from_mode(0o555)).map_err(say)?;
        }
        let (watch, watched) = channel::<Option<u32>>();
        let (tell, stopped) = channel();
        std::thread::spawn(move || watch_over(&kill, &watched, &tell));
        let ground = Self {
            root: root.to_owned(),
            bash,
            watch,
            stopped,
        };
        ground.restore();
        Ok(ground)
    }

    pub(crate) fn bin(&self) -> String {
        self.root.join("bin").to_string_lossy().into_owned()
    }

    /// Puts the place to work in back as it was.
    fn restore(&self) {
        let work = self.root.join("work");
        for name in self.files() {
            drop(fs::remove_file(work.join(name)));
        }
        drop(fs::create_dir(work.join("sub")));
        for (name, text) in [("push", ""), ("log", "push a\n")] {
            fs::write(work.join(name), text).unwrap();
        }
        fs::write(self.root.join("log"), "").unwrap();
    }

    /// The files in the place to work in that were not there before.
    fn files(&self) -> BTreeSet<String> {
        let work = self.root.join("work");
        let mut found = BTreeSet::new();
        for folder in ["", "sub"] {
            let Ok(entries) = fs::read_dir(work.join(folder)) else {
                continue;
            };
            for entry in entries.flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                let path = Path::new(folder).join(name);
                found.insert(path.to_string_lossy().into_owned());
            }
        }
        for (name, length) in [("push", 0), ("log", 7), ("sub", u64::MAX)] {
            let is_same = |data: fs::Metadata| data.is_dir() || data.len() == length;
            if fs::metadata(work.join(name)).is_ok_and(is_same) {
                found.remove(name);
            }
        }
        found
    }

    pub(crate) fn run(&self, line: &str) -> Ran {
        self.restore();
        let (mut reader, writer) = std::io::pipe().unwrap();
        // One that leaves its output elsewhere still holds the pipe.
        const OUTER: &str = "exec 9>&1; exec \"$0\" --norc --noprofile -c \"$1\"";
        let mut command = Command::new(&self.bash);
        command
            .args(["--norc", "--noprofile", "-c", OUTER])
            .arg(&self.bash)
            .arg(line)
            .env_clear()
            .env("PATH", self.bin())
            .env("HOME", self.root.join("home"))
            .env("STUB_LOG", self.root.join("log"))
            .env("LC_ALL", "C")
            // A function that calls itself would go on for long.
            .env("FUNCNEST", "4")
            .current_dir(self.root.join("work"))
            .stdin(Stdio::null())
            .stdout(writer.try_clone().unwrap())
            .stderr(writer)
            .process_group(0);
        let mut child = command.spawn().unwrap();
        drop(command);
        self.watch.send(Some(child.id())).unwrap();
        // It ends when the last of what was started has ended.
        let mut buffer = [0; 4096];
        while reader.read(&mut buffer).is_ok_and(|count| count > 0) {}
        child.wait().unwrap();
        self.watch.send(None).unwrap();
        let was_stopped = self.stopped.try_recv().is_ok();
        let log = fs::read(self.root.join("log")).unwrap();
        let log = String::from_utf8_lossy(&log);
        let commands = log
            .split("\u{1f}\u{1e}\u{1f}")
            .filter(|record| !record.is_empty())
            .map(|record| record.split('\u{1f}').map(str::to_owned).collect())
            .collect();
        Ran {
            commands,
            files: self.files(),
            was_stopped,
        }
    }
}

/// Ends the group of a line that runs for too long.
fn watch_over(kill: &Path, watched: &Receiver<Option<u32>>, tell: &Sender<()>) {
    while let Ok(next) = watched.recv() {
        let Some(group) = next else { continue };
        if watched.recv_timeout(LIMIT).is_ok() {
            continue;
        }
        let ended = Command::new(kill)
            .args(["-KILL", "--", &format!("-{group}")])
            .status();
        if ended.is_err() || tell.send(()).is_err() {
            return;
        }
    }
}
