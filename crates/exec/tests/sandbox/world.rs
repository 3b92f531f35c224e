//! What there is round a sandbox that is tried.

use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::{env, process};

use tempfile::TempDir;
use tooloop_exec::{
    Command, Confined, Mechanism, Outcome, Processes, Sandbox, SandboxNetwork, SandboxOptions,
    SandboxProfile,
};

use crate::acts::{WORLD, World};
use crate::support::command;

/// The variable that names the folder that was prepared for another user.
pub(crate) const BASE: &str = "TOOLOOP_EXEC_TEST_BASE";

/// More processes than these are in no namespace of a command.
const LOW: u32 = 100;

/// A folder for a test, if there is a place that the user can reach, with this program in it.
///
/// Away from the temporary folders, if that can be, for a command has its own of those.
pub(crate) fn places(user: Option<u32>) -> Option<TempDir> {
    let home = env::var_os("HOME").map(PathBuf::from);
    let folders = [
        Some(env!("CARGO_TARGET_TMPDIR").into()),
        home,
        Some("/srv".into()),
        Some("/opt".into()),
    ];
    let is_open = |folder: &Path| {
        user.is_none()
            || folder.ancestors().all(|folder| {
                fs::metadata(folder).is_ok_and(|folder| folder.permissions().mode() & 1 == 1)
            })
    };
    let is_apart = |folder: &PathBuf| {
        let mut covered = ["/tmp", "/var/tmp", "/run", "/dev"].iter();
        !covered.any(|other| folder.starts_with(other))
    };
    let folders = folders.into_iter().flatten().filter(is_apart);
    let folders = folders.chain([env::temp_dir()]);
    let base = folders
        .filter(|folder| is_open(folder))
        .find_map(|folder| TempDir::new_in(folder).ok())?;
    fs::set_permissions(base.path(), PermissionsExt::from_mode(0o755)).unwrap();
    for folder in ["work", "out", "out/folder", "hidden", "temp"] {
        fs::create_dir(base.path().join(folder)).unwrap();
    }
    fs::copy(
        env::current_exe().unwrap(),
        base.path().join("work/program"),
    )
    .unwrap();
    if let Some(user) = user {
        let program = base.path().join("out/as-root");
        fs::copy(env::current_exe().unwrap(), &program).unwrap();
        fs::set_permissions(program, PermissionsExt::from_mode(0o4755)).unwrap();
        for folder in ["", "work", "out", "out/folder", "hidden", "temp"] {
            chown(base.path().join(folder), Some(user), Some(user)).unwrap();
        }
    }
    Some(base)
}

/// The options with which a mechanism is taken, or a weaker one where it cannot be used.
pub(crate) fn only(mechanism: Mechanism) -> SandboxOptions {
    SandboxOptions {
        namespaces: mechanism == Mechanism::Namespaces,
        bubblewrap: mechanism == Mechanism::Bubblewrap,
        ..SandboxOptions::default()
    }
}

/// A sandbox, and the world that it is to keep safe.
pub(crate) struct Stage {
    pub(crate) sandbox: Sandbox,
    pub(crate) world: World,
    pub(crate) udp: UdpSocket,
    /// What is there as long as this.
    _held: (
        Option<TempDir>,
        TcpListener,
        Option<TcpListener>,
        Vec<UnixListener>,
        OwnedFd,
    ),
    messages: UnixDatagram,
    /// The number of shared memory, if it could be had.
    memory: i32,
    foreign: Child,
    socket: PathBuf,
}

impl Stage {
    /// One for each mechanism, or why there is none.
    pub(crate) fn all() -> Vec<Result<Self, String>> {
        let mechanisms = [
            Mechanism::Namespaces,
            Mechanism::Bubblewrap,
            Mechanism::Landlock,
        ];
        let made = mechanisms.map(|mechanism| {
            let sandbox = Sandbox::probe(&only(mechanism)).map_err(|error| error.to_string())?;
            if sandbox.enforced().mechanism != mechanism {
                return Err(format!("{mechanism} cannot be used here"));
            }
            Self::new(sandbox)
        });
        made.into()
    }

    fn new(sandbox: Sandbox) -> Result<Self, String> {
        let given = env::var_os(BASE);
        let own = if given.is_none() { places(None) } else { None };
        let base = given
            .map(PathBuf::from)
            .or_else(|| Some(own.as_ref()?.path().to_path_buf()));
        let base = base
            .ok_or("there is no folder to try it in")?
            .canonicalize()
            .unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let tcp6 = TcpListener::bind("[::1]:0").ok();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        udp.set_nonblocking(true).unwrap();
        // Inside of a namespace the low numbers are those of other processes.
        let foreign = loop {
            let mut foreign = process::Command::new("sleep");
            foreign
                .arg("1000")
                .stdin(Stdio::null())
                .stdout(Stdio::null());
            let mut foreign = foreign.spawn().unwrap();
            if foreign.id() > LOW {
                break foreign;
            }
            foreign.kill().unwrap();
            foreign.wait().unwrap();
        };
        let number = Some(process::id()).filter(|number| *number > LOW);
        let number = number.unwrap_or(foreign.id());
        let path = base.join("out/docker.sock");
        drop(fs::remove_file(&path));
        let socket = PathBuf::from(format!("/run/tooloop-act-{number}.sock"));
        let name = SocketAddr::from_abstract_name(format!("tooloop-act-{number}")).unwrap();
        let mut services = vec![UnixListener::bind(path).unwrap()];
        services.extend(UnixListener::bind_addr(&name));
        services.extend(UnixListener::bind(&socket));
        // Under a path that is not that of the file.
        let out = fs::File::open(base.join("out")).unwrap();
        let at = |name: &str| {
            let path = base.join("out").join(name);
            drop(fs::remove_file(&path));
            path
        };
        drop(at("odd.sock"));
        let odd = format!("/proc/self/fd/{}/odd.sock", out.as_raw_fd());
        services.push(UnixListener::bind(odd).unwrap());
        let path = base.join("work/service.sock");
        drop(fs::remove_file(&path));
        services.push(UnixListener::bind(path).unwrap());
        let messages = UnixDatagram::bind(at("messages.sock")).unwrap();
        messages.set_nonblocking(true).unwrap();
        let kind = rustix::net::SocketType::SEQPACKET;
        let packets = rustix::net::socket(rustix::net::AddressFamily::UNIX, kind, None).unwrap();
        let address = rustix::net::SocketAddrUnix::new(at("packets.sock")).unwrap();
        rustix::net::bind(&packets, &address).unwrap();
        rustix::net::listen(&packets, 1).unwrap();
        let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
        let world = World {
            base,
            harness: number,
            foreign: foreign.id(),
            tcp: port(&tcp),
            tcp6: tcp6.as_ref().map_or(0, port),
            udp: udp.local_addr().unwrap().port(),
        };
        let name = std::ffi::CString::new(world.queue()).unwrap();
        // SAFETY: the name lives for the calls. Where there are none, acts find none either.
        let memory = unsafe {
            let flags = libc::O_CREAT | libc::O_RDONLY | libc::O_CLOEXEC;
            drop_queue(libc::mq_open(name.as_ptr(), flags, 0o666, 0));
            libc::shmget(world.key(), 4096, libc::IPC_CREAT | 0o666)
        };
        Ok(Self {
            sandbox,
            world,
            udp,
            _held: (own, tcp, tcp6, services, packets),
            messages,
            memory,
            foreign,
            socket,
        })
    }

    pub(crate) fn has_mounts(&self) -> bool {
        self.sandbox.enforced().mechanism != Mechanism::Landlock
    }

    /// Whether a command does not see the world since a folder of its own is laid over it.
    pub(crate) fn is_covered(&self) -> bool {
        let mut covered = ["/tmp", "/var/tmp"].iter();
        self.has_mounts() && covered.any(|folder| self.world.base.starts_with(folder))
    }

    pub(crate) fn name(&self) -> String {
        self.sandbox.enforced().mechanism.to_string()
    }

    /// Puts all in order for the next.
    pub(crate) fn reset(&self) {
        let at = |path: &str| self.world.at(path);
        for folder in ["work", "temp"] {
            for entry in fs::read_dir(at(folder)).unwrap().flatten() {
                let path = entry.path();
                if path.ends_with("program") || path.ends_with("service.sock") {
                    continue;
                }
                if entry.file_type().unwrap().is_dir() {
                    fs::remove_dir_all(path).unwrap();
                } else {
                    fs::remove_file(path).unwrap();
                }
            }
        }
        fs::create_dir_all(at("work/.git/hooks")).unwrap();
        fs::write(at("work/.git/config"), "[core]\n").unwrap();
        for (path, text) in [
            ("out/file", "as it was\n"),
            ("hidden/secret", "kk\n"),
            ("secret", "kk\n"),
        ] {
            fs::write(at(path), text).unwrap();
        }
    }

    /// What of the world is not as it was.
    pub(crate) fn damage(&mut self) -> Vec<&'static str> {
        let at = |path: &str| self.world.at(path);
        let read = |path| fs::read_to_string(at(path)).unwrap_or_default();
        let mut damage = Vec::new();
        if read("out/file") != "as it was\n" {
            damage.push("out/file");
        }
        if read("hidden/secret") != "kk\n" || read("secret") != "kk\n" {
            damage.push("what is hidden");
        }
        if at("out/made").symlink_metadata().is_ok() || !at("out/folder").is_dir() {
            damage.push("out");
        }
        if self.udp.recv(&mut [0; 10]).is_ok() {
            damage.push("a datagram came");
        }
        if self.messages.recv(&mut [0; 10]).is_ok() {
            damage.push("a message came");
        }
        if self.foreign.try_wait().unwrap().is_some() {
            damage.push("the foreign process");
        }
        damage
    }

    pub(crate) fn profile(&self) -> SandboxProfile {
        let at = |path: &str| self.world.at(path);
        SandboxProfile {
            writable: vec![self.world.work()],
            read_only: vec![at("work/.git/hooks"), at("work/.git/config")],
            hidden: vec![at("hidden"), at("secret")],
            temp: at("temp"),
            staged: Vec::new(),
            network: SandboxNetwork::Off,
        }
    }

    pub(crate) fn command(&self, text: &str) -> Command {
        self.command_in(text, self.profile())
    }

    pub(crate) fn command_in(&self, text: &str, profile: SandboxProfile) -> Command {
        let mut command = command(text, &self.world.work());
        let mut environment = (*command.environment).clone();
        environment.set(WORLD, self.world.text());
        environment.set("HOME", self.world.work());
        environment.set("PROGRAM", self.world.at("work/program"));
        command.environment = Arc::new(environment);
        command.sandbox = Some(Confined {
            sandbox: self.sandbox.clone(),
            profile: Arc::new(profile),
        });
        command
    }

    pub(crate) async fn run(&self, processes: &Processes, text: &str) -> Outcome {
        processes.run(self.command(text)).await.unwrap()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.foreign.kill().unwrap();
        self.foreign.wait().unwrap();
        drop(fs::remove_file(&self.socket));
        let name = std::ffi::CString::new(self.world.queue()).unwrap();
        // SAFETY: the name lives for the call.
        unsafe {
            libc::mq_unlink(name.as_ptr());
            libc::shmctl(self.memory, libc::IPC_RMID, std::ptr::null_mut());
        }
    }
}

/// Closes a queue that was only made.
fn drop_queue(queue: libc::mqd_t) {
    // SAFETY: the queue was opened for this, if it could be.
    unsafe { libc::mq_close(queue) };
}
