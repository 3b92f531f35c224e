//! What is tried inside of a sandbox, each by a function that says whether it could be done.

use std::env;
use std::ffi::{CString, c_long};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, ToSocketAddrs, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The variable that tells an act of the world outside.
pub(crate) const WORLD: &str = "TOOLOOP_EXEC_TEST_WORLD";

/// The world outside, as far as an act tries to touch it.
#[derive(Debug, Clone, Default)]
pub(crate) struct World {
    /// The folder that holds all.
    pub(crate) base: PathBuf,
    pub(crate) harness: u32,
    /// A process of the same user.
    pub(crate) foreign: u32,
    /// On which the harness listens.
    pub(crate) tcp: u16,
    pub(crate) tcp6: u16,
    pub(crate) udp: u16,
}

impl World {
    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.base.join(path)
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.at("work")
    }

    /// The key of shared memory outside.
    pub(crate) fn key(&self) -> i32 {
        0x5400_0000 | (self.foreign & 0x00ff_ffff).cast_signed()
    }

    /// The name of a message queue outside.
    pub(crate) fn queue(&self) -> String {
        format!("/tooloop-act-{}", self.foreign)
    }

    pub(crate) fn text(&self) -> String {
        let Self {
            harness,
            foreign,
            tcp,
            tcp6,
            udp,
            ..
        } = self;
        format!(
            "{harness} {foreign} {tcp} {tcp6} {udp} {}",
            self.base.display()
        )
    }

    fn of_environment() -> Self {
        let text = env::var(WORLD).unwrap();
        let fields: Vec<&str> = text.splitn(6, ' ').collect();
        Self {
            base: fields[5].into(),
            harness: fields[0].parse().unwrap(),
            foreign: fields[1].parse().unwrap(),
            tcp: fields[2].parse().unwrap(),
            tcp6: fields[3].parse().unwrap(),
            udp: fields[4].parse().unwrap(),
        }
    }
}

type Tried = io::Result<()>;
type Act = fn(&World) -> Tried;

/// The end of an act that could be done, that could not, and that says nothing here.
pub(crate) const DONE: i32 = 40;
pub(crate) const REFUSED: i32 = 41;
pub(crate) const MEANINGLESS: i32 = 42;

/// Runs an act by its name, and ends this process with what came of it.
pub(crate) fn main(name: &str) -> i32 {
    if name == "be root" {
        return if is_root() { DONE } else { REFUSED };
    }
    let Some((_, act)) = ACTS.iter().find(|(other, _)| *other == name) else {
        println!("no such act: {name}");
        return 1;
    };
    match act(&World::of_environment()) {
        Ok(()) => DONE,
        Err(error)
            if error.kind() == io::ErrorKind::Unsupported && error.raw_os_error().is_none() =>
        {
            MEANINGLESS
        }
        Err(error) => {
            println!("{error}");
            REFUSED
        }
    }
}

fn meaningless() -> io::Error {
    io::ErrorKind::Unsupported.into()
}

fn refused(why: &str) -> io::Error {
    io::Error::other(why.to_owned())
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A system call, done if it does not fail.
fn call(number: c_long, arguments: [usize; 6]) -> Tried {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the arguments are numbers, or point to what lives for the call.
    let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// A system call that is refused by its number: another error comes from the call itself, which
/// was made then.
fn called(number: c_long, arguments: [usize; 6]) -> Tried {
    match call(number, arguments) {
        Err(error)
            if !matches!(
                error.raw_os_error(),
                Some(libc::EPERM | libc::EACCES | libc::ENOSYS)
            ) =>
        {
            Ok(())
        }
        result => result,
    }
}

fn pointer(text: &std::ffi::CStr) -> usize {
    text.as_ptr() as usize
}

fn opened_to_write(path: impl AsRef<Path>) -> Tried {
    OpenOptions::new().write(true).open(path).map(drop)
}

fn written(path: impl AsRef<Path>) -> Tried {
    fs::write(path, "written by an act\n")
}

fn socket(family: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    // SAFETY: no memory is handed over; the descriptor is new.
    unsafe {
        let socket = libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol);
        if socket < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(socket))
    }
}

fn c_path(path: &Path) -> CString {
    CString::new(path.to_str().unwrap()).unwrap()
}

/// A path of the world as another process sees it.
fn through(process: &str, path: &Path) -> PathBuf {
    PathBuf::from(format!("/proc/{process}/root{}", path.display()))
}

fn datagram(port: u16, address: &str) -> Tried {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.set_read_timeout(Some(Duration::from_millis(200)))?;
    socket.connect((address, port))?;
    socket.send(b"hello")?;
    match socket.recv(&mut [0; 10]) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        result => result.map(drop),
    }
}

pub(crate) const ACTS: &[(&str, Act)] = &[
    // Files.
    ("write inside", |world| {
        let path = world.work().join("made");
        written(&path)?;
        fs::rename(&path, world.work().join("moved"))?;
        fs::create_dir_all(world.work().join("folder/x"))?;
        fs::rename(world.work().join("moved"), world.work().join("folder/x/y"))?;
        fs::hard_link(world.work().join("folder/x/y"), world.work().join("linked"))?;
        OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(world.work().join("linked"))?;
        fs::remove_file(world.work().join("linked"))?;
        fs::remove_dir_all(world.work().join("folder"))
    }),
    ("read outside", |world| {
        fs::read(world.at("out/file")).map(drop)
    }),
    ("write to the private folder", |_| {
        written(Path::new(&env::var("TMPDIR").unwrap()).join("made"))
    }),
    ("write to /tmp", |_| {
        written("/tmp/tooloop-act").and_then(|()| fs::remove_file("/tmp/tooloop-act"))
    }),
    ("write to /var/tmp", |_| {
        written("/var/tmp/tooloop-act").and_then(|()| fs::remove_file("/var/tmp/tooloop-act"))
    }),
    ("write outside", |world| written(world.at("out/made"))),
    ("write over outside", |world| written(world.at("out/file"))),
    ("append outside", |world| {
        OpenOptions::new()
            .append(true)
            .open(world.at("out/file"))?
            .write_all(b"x")
    }),
    ("cut outside", |world| {
        let path = c_path(&world.at("out/file"));
        call(libc::SYS_truncate, [pointer(&path), 0, 0, 0, 0, 0])
    }),
    ("remove outside", |world| {
        fs::remove_file(world.at("out/file"))
    }),
    ("remove a folder outside", |world| {
        fs::remove_dir(world.at("out/folder"))
    }),
    ("make a folder outside", |world| {
        fs::create_dir(world.at("out/made"))
    }),
    ("make a link outside", |world| {
        symlink("/x", world.at("out/made"))
    }),
    ("make a pipe outside", |world| {
        let path = c_path(&world.at("out/made"));
        call(
            libc::SYS_mknodat,
            [
                libc::AT_FDCWD as usize,
                pointer(&path),
                (libc::S_IFIFO | 0o600) as usize,
                0,
                0,
                0,
            ],
        )
    }),
    ("rename over outside", |world| {
        let path = world.work().join("made");
        written(&path)?;
        fs::rename(path, world.at("out/file"))
    }),
    ("rename from outside", |world| {
        fs::rename(world.at("out/file"), world.work().join("made"))
    }),
    ("hard link from outside", |world| {
        fs::hard_link(world.at("out/file"), world.work().join("hard"))?;
        written(world.work().join("hard"))
    }),
    ("write through a link", |world| {
        let link = world.work().join("soft");
        drop(fs::remove_file(&link));
        symlink(world.at("out/file"), &link)?;
        written(link)
    }),
    ("write through a link to a folder", |world| {
        let link = world.work().join("soft-folder");
        drop(fs::remove_file(&link));
        symlink(world.at("out"), &link)?;
        written(link.join("made"))
    }),
    ("write by a way back", |world| {
        written(world.work().join("../out/file"))
    }),
    ("chmod outside", |world| {
        fs::set_permissions(world.at("out/file"), PermissionsExt::from_mode(0o600))
    }),
    ("chown outside", |world| {
        let user = rustix::process::geteuid().as_raw();
        chown(world.at("out/file"), Some(user), None)
    }),
    ("touch outside", |world| {
        let file = File::open(world.at("out/file"))?;
        file.set_modified(std::time::SystemTime::UNIX_EPOCH)
    }),
    ("give an attribute outside", |world| {
        let path = c_path(&world.at("out/file"));
        let call = call(
            libc::SYS_setxattr,
            [pointer(&path), pointer(c"user.act"), pointer(c"x"), 1, 0, 0],
        );
        match call {
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Err(meaningless()),
            call => call,
        }
    }),
    ("write by the root of itself", |world| {
        written(through("self", &world.at("out/file")))
    }),
    ("write by the root of the first process", |world| {
        written(through("1", &world.at("out/file")))
    }),
    ("write by the root of the harness", |world| {
        written(through(&world.harness.to_string(), &world.at("out/file")))
    }),
    ("open the memory of the harness", |world| {
        File::open(format!("/proc/{}/mem", world.harness)).map(drop)
    }),
    ("read the environment of the harness", |world| {
        File::open(format!("/proc/{}/environ", world.harness))?
            .read(&mut [0; 10])
            .map(drop)
    }),
    ("open the memory of the first process", |_| {
        File::open("/proc/1/mem").map(drop)
    }),
    ("set the system", |_| {
        opened_to_write("/proc/sys/kernel/core_pattern")
    }),
    ("press a key of the system", |_| {
        opened_to_write("/proc/sysrq-trigger")
    }),
    ("set a device", |_| {
        let path = "/sys/kernel/mm/transparent_hugepage/enabled";
        if Path::new(path).exists() {
            opened_to_write(path)
        } else {
            Err(meaningless())
        }
    }),
    ("set a hook", |world| {
        written(world.work().join(".git/hooks/post-commit"))
    }),
    ("remove the hooks", |world| {
        fs::remove_dir_all(world.work().join(".git/hooks"))
    }),
    ("write the configuration of git", |world| {
        OpenOptions::new()
            .append(true)
            .open(world.work().join(".git/config"))?
            .write_all(b"[x]\n")
    }),
    ("replace the configuration of git", |world| {
        let lock = world.work().join(".git/config.lock");
        written(&lock)?;
        let renamed = fs::rename(&lock, world.work().join(".git/config"));
        drop(fs::remove_file(lock));
        renamed
    }),
    ("put another folder in place of .git", |world| {
        fs::rename(world.work().join(".git"), world.work().join("was"))?;
        fs::create_dir_all(world.work().join(".git/hooks"))?;
        written(world.work().join(".git/hooks/post-commit"))
    }),
    ("read what is hidden", |world| {
        fs::read(world.at("hidden/secret")).map(drop)
    }),
    ("read what is hidden by another way", |world| {
        fs::read(through("self", &world.at("hidden/secret"))).map(drop)
    }),
    ("link what is hidden", |world| {
        fs::hard_link(world.at("hidden/secret"), world.work().join("open"))?;
        fs::read(world.work().join("open")).map(drop)
    }),
    ("read a hidden file", |world| {
        match fs::read(world.at("secret"))?.len() {
            0 => Err(refused("it is empty")),
            _ => Ok(()),
        }
    }),
    ("list what is hidden", |world| {
        match fs::read_dir(world.at("hidden"))?.next() {
            Some(_) => Ok(()),
            None => Err(refused("it is empty")),
        }
    }),
    ("make a device for characters", |world| {
        let path = c_path(&world.work().join("null"));
        let mode = (libc::S_IFCHR | 0o600) as usize;
        call(
            libc::SYS_mknodat,
            [
                libc::AT_FDCWD as usize,
                pointer(&path),
                mode,
                libc::makedev(1, 3) as usize,
                0,
                0,
            ],
        )
    }),
    ("make a device for blocks", |world| {
        let path = c_path(&world.work().join("disk"));
        let mode = (libc::S_IFBLK | 0o600) as usize;
        call(
            libc::SYS_mknodat,
            [
                libc::AT_FDCWD as usize,
                pointer(&path),
                mode,
                libc::makedev(8, 0) as usize,
                0,
                0,
            ],
        )
    }),
    ("write to a disk", |_| {
        let disks = [
            "/dev/sda",
            "/dev/vda",
            "/dev/nvme0n1",
            "/dev/loop0",
            "/dev/mem",
        ];
        // Where there are no such devices, they cannot be written to either.
        let open = |path| opened_to_write(path);
        disks
            .into_iter()
            .map(open)
            .find(Result::is_ok)
            .unwrap_or_else(|| Err(refused("none")))
    }),
    ("write to /dev/null", |_| written("/dev/null")),
    ("write to standard output by its name", |_| {
        written("/dev/stdout")
    }),
    ("open a terminal that is not there", |_| {
        opened_to_write("/dev/tty")
    }),
    ("make a new terminal", |_| opened_to_write("/dev/ptmx")),
    ("run a program of root as root", |world| {
        if is_root() || !world.at("out/as-root").exists() {
            return Err(meaningless());
        }
        let mut program = Command::new(world.at("out/as-root"));
        let status = program.args(["act", "be root"]).status()?;
        if status.code() == Some(DONE) {
            Ok(())
        } else {
            Err(refused("it is no root"))
        }
    }),
    ("gain privileges", |_| {
        // SAFETY: asks for a number.
        match unsafe { libc::prctl(libc::PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) } {
            1 => Err(refused("never")),
            _ => Ok(()),
        }
    }),
    // The network.
    ("connect to the harness", |world| {
        TcpStream::connect(("127.0.0.1", world.tcp)).map(drop)
    }),
    ("connect to the harness by the new protocol", |world| {
        if world.tcp6 == 0 {
            return Err(meaningless());
        }
        TcpStream::connect(("::1", world.tcp6)).map(drop)
    }),
    ("connect to the world", |_| {
        let address = std::net::SocketAddr::from(([192, 0, 2, 1], 80));
        TcpStream::connect_timeout(&address, Duration::from_secs(2)).map(drop)
    }),
    ("serve itself", |_| {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        TcpStream::connect(listener.local_addr()?).map(drop)
    }),
    ("send a datagram to the harness", |world| {
        datagram(world.udp, "127.0.0.1")
    }),
    ("send a datagram to the world", |_| {
        datagram(53, "192.0.2.1")
    }),
    ("ask for a name", |_| {
        "tooloop.invalid:80".to_socket_addrs().map(drop)
    }),
    ("make a raw socket", |_| {
        socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP).map(drop)
    }),
    ("make a packet socket", |_| {
        socket(libc::AF_PACKET, libc::SOCK_RAW, 0).map(drop)
    }),
    ("talk with the audit of the kernel", |_| {
        socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_AUDIT).map(drop)
    }),
    ("ask for the own addresses", |_| {
        socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE).map(drop)
    }),
    ("talk with the machine below", |_| {
        socket(libc::AF_VSOCK, libc::SOCK_STREAM, 0).map(drop)
    }),
    ("use the ciphers of the kernel", |_| {
        socket(libc::AF_ALG, libc::SOCK_SEQPACKET, 0).map(drop)
    }),
    ("connect to a service", |world| {
        UnixStream::connect(world.at("out/docker.sock")).map(drop)
    }),
    ("connect to a service by another way", |world| {
        UnixStream::connect(through("self", &world.at("out/docker.sock"))).map(drop)
    }),
    ("connect to a service of the system", |world| {
        let path = format!("/run/tooloop-act-{}.sock", world.harness);
        if is_root() {
            UnixStream::connect(path).map(drop)
        } else {
            Err(meaningless())
        }
    }),
    (
        "connect to a service that was bound by another path",
        |world| UnixStream::connect(world.at("out/odd.sock")).map(drop),
    ),
    ("connect to a service from its directory", |world| {
        env::set_current_dir(world.at("out"))?;
        UnixStream::connect("odd.sock").map(drop)
    }),
    ("connect to a service through a link", |world| {
        let link = world.work().join("link.sock");
        drop(fs::remove_file(&link));
        symlink(world.at("out/docker.sock"), &link)?;
        UnixStream::connect(link).map(drop)
    }),
    ("connect to a service that was linked", |world| {
        let link = world.work().join("hard.sock");
        drop(fs::remove_file(&link));
        fs::hard_link(world.at("out/docker.sock"), &link)?;
        UnixStream::connect(link).map(drop)
    }),
    ("connect to a service by an open descriptor", |world| {
        let flags = rustix::fs::OFlags::PATH;
        let path = world.at("out/docker.sock");
        let opened = rustix::fs::open(path, flags, rustix::fs::Mode::empty())?;
        UnixStream::connect(format!("/proc/self/fd/{}", opened.as_raw_fd())).map(drop)
    }),
    ("connect to a service with packets", |world| {
        let socket = socket(libc::AF_UNIX, libc::SOCK_SEQPACKET, 0)?;
        let address = rustix::net::SocketAddrUnix::new(world.at("out/packets.sock"))?;
        Ok(rustix::net::connect(&socket, &address)?)
    }),
    ("send a message to a service", |world| {
        UnixDatagram::unbound()?
            .send_to(b"hello", world.at("out/messages.sock"))
            .map(drop)
    }),
    ("send a message to a service by a pair", |world| {
        let (socket, _other) = UnixDatagram::pair()?;
        socket
            .send_to(b"hello", world.at("out/messages.sock"))
            .map(drop)
    }),
    ("connect to a service in the workspace", |world| {
        UnixStream::connect(world.work().join("service.sock")).map(drop)
    }),
    ("connect to an abstract socket", |world| {
        let name = format!("tooloop-act-{}", world.harness);
        UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?).map(drop)
    }),
    ("have a pair of sockets", |_| UnixStream::pair().map(drop)),
    ("serve itself on a Unix socket", |world| {
        let path = world.work().join("own.sock");
        let listener = UnixListener::bind(&path)?;
        let connected = UnixStream::connect(&path).map(drop);
        drop(listener);
        fs::remove_file(path)?;
        connected
    }),
    ("serve itself with packets", |world| {
        env::set_current_dir(world.work())?;
        let address = rustix::net::SocketAddrUnix::new("packets.sock")?;
        let service = socket(libc::AF_UNIX, libc::SOCK_SEQPACKET, 0)?;
        rustix::net::bind(&service, &address)?;
        rustix::net::listen(&service, 1)?;
        let client = socket(libc::AF_UNIX, libc::SOCK_SEQPACKET, 0)?;
        rustix::net::connect(&client, &address)?;
        fs::remove_file("packets.sock")
    }),
    ("serve itself on an abstract socket", |world| {
        let name = format!("tooloop-own-{}", world.harness);
        let name = SocketAddr::from_abstract_name(name)?;
        let _listener = UnixListener::bind_addr(&name)?;
        UnixStream::connect_addr(&name).map(drop)
    }),
    ("open shared memory by its key", |world| {
        // SAFETY: a call that hands over no memory.
        let found = unsafe { libc::shmget(world.key(), 0, 0) };
        if found < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }),
    ("attach shared memory by its number", |_| {
        called(libc::SYS_shmat, [0, 0, libc::SHM_RDONLY as usize, 0, 0, 0])
    }),
    ("have shared memory", |_| {
        // SAFETY: calls that hand over no memory.
        unsafe {
            let made = libc::shmget(libc::IPC_PRIVATE, 4096, libc::IPC_CREAT | 0o600);
            if made < 0 {
                return Err(io::Error::last_os_error());
            }
            libc::shmctl(made, libc::IPC_RMID, std::ptr::null_mut());
        }
        Ok(())
    }),
    ("open a message queue by its name", |world| {
        let name = CString::new(world.queue()).unwrap();
        call(
            libc::SYS_mq_open,
            [pointer(&name) + 1, libc::O_RDONLY as usize, 0, 0, 0, 0],
        )
    }),
    ("leave a setuid program", |world| {
        if !is_root() {
            return Err(meaningless());
        }
        let path = world.work().join("root");
        written(&path)?;
        fs::set_permissions(path, PermissionsExt::from_mode(0o4755))
    }),
    // Other processes.
    ("signal a foreign process", |world| {
        call(
            libc::SYS_kill,
            [world.foreign as usize, libc::SIGTERM as usize, 0, 0, 0, 0],
        )
    }),
    ("signal the harness", |world| {
        call(libc::SYS_kill, [world.harness as usize, 0, 0, 0, 0, 0])
    }),
    ("see the harness", |world| {
        fs::read(format!("/proc/{}/stat", world.harness)).map(drop)
    }),
    ("attach to the harness", |world| {
        called(
            libc::SYS_ptrace,
            [
                libc::PTRACE_SEIZE as usize,
                world.harness as usize,
                0,
                0,
                0,
                0,
            ],
        )
    }),
    ("be traced", |_| {
        call(
            libc::SYS_ptrace,
            [libc::PTRACE_TRACEME as usize, 0, 0, 0, 0, 0],
        )
    }),
    ("read the memory of a process", |_| {
        let mut byte = 0_u8;
        let other = 1_u8;
        let own = libc::iovec {
            iov_base: (&raw mut byte).cast(),
            iov_len: 1,
        };
        let theirs = libc::iovec {
            iov_base: (&raw const other).cast_mut().cast(),
            iov_len: 1,
        };
        call(
            libc::SYS_process_vm_readv,
            [
                std::process::id() as usize,
                &raw const own as usize,
                1,
                &raw const theirs as usize,
                1,
                0,
            ],
        )
    }),
    ("write the memory of a process", |_| {
        called(
            libc::SYS_process_vm_writev,
            [std::process::id() as usize, 0, 0, 0, 0, 0],
        )
    }),
    ("take a descriptor of a process", |_| {
        called(libc::SYS_pidfd_getfd, [usize::MAX, 0, 0, 0, 0, 0])
    }),
    // The kernel.
    ("mount", |_| {
        call(
            libc::SYS_mount,
            [pointer(c"x"), pointer(c"/mnt"), pointer(c"tmpfs"), 0, 0, 0],
        )
    }),
    ("mount in the new way", |_| {
        called(libc::SYS_fsopen, [pointer(c"tmpfs"), 0, 0, 0, 0, 0])
    }),
    ("copy a mount", |_| {
        called(
            libc::SYS_open_tree,
            [libc::AT_FDCWD as usize, pointer(c"/"), 1, 0, 0, 0],
        )
    }),
    ("unmount", |_| {
        called(
            libc::SYS_umount2,
            [pointer(c"/proc"), libc::MNT_DETACH as usize, 0, 0, 0, 0],
        )
    }),
    ("change the root", |_| {
        called(
            libc::SYS_pivot_root,
            [pointer(c"/"), pointer(c"/"), 0, 0, 0, 0],
        )
    }),
    ("change its own root", |_| {
        called(libc::SYS_chroot, [pointer(c"/"), 0, 0, 0, 0, 0])
    }),
    ("make a namespace of users", |_| {
        call(
            libc::SYS_unshare,
            [libc::CLONE_NEWUSER as usize, 0, 0, 0, 0, 0],
        )
    }),
    ("make a namespace of mounts", |_| {
        call(
            libc::SYS_unshare,
            [(libc::CLONE_NEWNS | libc::CLONE_FS) as usize, 0, 0, 0, 0, 0],
        )
    }),
    ("unshare its descriptors", |_| {
        call(
            libc::SYS_unshare,
            [libc::CLONE_FILES as usize, 0, 0, 0, 0, 0],
        )
    }),
    ("clone into a namespace", |_| {
        let flags = (libc::CLONE_NEWUSER | libc::SIGCHLD) as usize;
        // SAFETY: a fork; the child ends at once.
        match unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) } {
            // SAFETY: ends the child.
            0 => unsafe { libc::_exit(0) },
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }),
    ("clone in the new way", |_| called(libc::SYS_clone3, [0; 6])),
    ("start threads and processes", |_| {
        std::thread::spawn(|| ())
            .join()
            .map_err(|_| refused("a thread"))?;
        Command::new("/bin/sh")
            .args(["-c", "true"])
            .status()
            .map(drop)
    }),
    ("enter a namespace", |_| {
        let own = File::open("/proc/self/ns/uts")?;
        called(libc::SYS_setns, [own.as_raw_fd() as usize, 0, 0, 0, 0, 0])
    }),
    ("use the ring", |_| called(libc::SYS_io_uring_setup, [0; 6])),
    ("use keys", |_| {
        called(libc::SYS_keyctl, [usize::MAX, 0, 0, 0, 0, 0])
    }),
    ("add a key", |_| called(libc::SYS_add_key, [0; 6])),
    ("load a filter", |_| {
        called(libc::SYS_bpf, [usize::MAX, 0, 0, 0, 0, 0])
    }),
    ("measure", |_| called(libc::SYS_perf_event_open, [0; 6])),
    ("handle faults", |_| {
        called(libc::SYS_userfaultfd, [usize::MAX, 0, 0, 0, 0, 0])
    }),
    ("open by a handle", |_| {
        called(libc::SYS_open_by_handle_at, [usize::MAX, 0, 0, 0, 0, 0])
    }),
    ("load a module", |_| called(libc::SYS_init_module, [0; 6])),
    ("load a kernel", |_| {
        called(libc::SYS_kexec_load, [0, usize::MAX, 0, usize::MAX, 0, 0])
    }),
    ("restart", |_| called(libc::SYS_reboot, [0; 6])),
    ("set the clock", |_| {
        called(libc::SYS_clock_settime, [usize::MAX, 0, 0, 0, 0, 0])
    }),
    ("name the machine", |_| {
        called(libc::SYS_sethostname, [0, usize::MAX, 0, 0, 0, 0])
    }),
    ("type into a terminal", |_| {
        called(
            libc::SYS_ioctl,
            [usize::MAX, 0x5412, pointer(c"x"), 0, 0, 0],
        )
    }),
    ("type into a terminal by a wide number", |_| {
        called(
            libc::SYS_ioctl,
            [usize::MAX, 0x1_0000_5412, pointer(c"x"), 0, 0, 0],
        )
    }),
    ("use the other numbers", |_| {
        // Those of a program with short pointers; others have no such bit.
        call(libc::SYS_getpid | 0x4000_0000, [0; 6])
    }),
    ("use the calls of an older machine", |_| old_call()),
    ("debug a foreign program", |_| {
        let mut program = Command::new("/bin/true");
        // SAFETY: the child makes one system call that hands over no memory.
        unsafe {
            program.pre_exec(|| {
                call(
                    libc::SYS_ptrace,
                    [libc::PTRACE_TRACEME as usize, 0, 0, 0, 0, 0],
                )
            });
        }
        program.status().map(drop)
    }),
];

/// Asks for its number by the gate of 32-bit programs, which has other numbers.
#[cfg(target_arch = "x86_64")]
fn old_call() -> Tried {
    // SAFETY: a fork; the child ends at once.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: the call takes no arguments and returns a number in the register.
        unsafe {
            let mut number: u64 = 20;
            std::arch::asm!("int 0x80", inout("rax") number, options(nostack));
            libc::_exit(i32::from((number as i64) < 0));
        }
    }
    let mut status = 0;
    // SAFETY: the child is ours; the call fills the number.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    match status {
        0 => Ok(()),
        status => Err(refused(&format!("status {status}"))),
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn old_call() -> Tried {
    Err(meaningless())
}
