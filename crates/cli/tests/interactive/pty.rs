//! The binary at a pseudo terminal: keys go in, and what a person would read comes out.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Signal, WaitOptions, waitpid};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use tooloop_testkit::{ModelServer, Scratch};

/// A bound for what must happen, never a time to wait.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A running program and the terminal that it runs at.
pub(crate) struct Pty {
    child: Child,
    terminal: File,
    screen: Arc<(Mutex<Screen>, Condvar)>,
    reader: Option<JoinHandle<()>>,
    /// How much of the text was looked at.
    seen: usize,
}

#[derive(Default)]
struct Screen {
    raw: Vec<u8>,
    /// The same without what acts on the terminal.
    text: String,
    closed: bool,
}

impl Pty {
    /// Starts the binary with these arguments.
    pub(crate) fn start(scratch: &Scratch, server: &ModelServer, arguments: &[&str]) -> Self {
        Self::start_with(scratch, server, arguments, &[])
    }

    /// The same, with more variables.
    pub(crate) fn start_with(
        scratch: &Scratch,
        server: &ModelServer,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Self {
        Self::start_sized(scratch, server, arguments, variables, (80, 24))
    }

    /// The same in a window of so many columns and rows.
    pub(crate) fn start_sized(
        scratch: &Scratch,
        server: &ModelServer,
        arguments: &[&str],
        variables: &[(&str, &str)],
        (columns, rows): (u16, u16),
    ) -> Self {
        let master =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let name = Path::new(std::ffi::OsStr::from_bytes(name.as_bytes()));
        let size = Winsize {
            ws_col: columns,
            ws_row: rows,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&master, size).unwrap();
        let slave = OpenOptions::new()
            .read(true)
            .write(true)
            .open(name)
            .unwrap();
        let end = || Stdio::from(slave.try_clone().unwrap());
        let child = Command::new(env!("CARGO_BIN_EXE_tooloop"))
            .args(arguments)
            .current_dir(scratch.workspace())
            .env_clear()
            .envs(scratch.environment())
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("LANG", "C.UTF-8")
            .env("TERM", "xterm-256color")
            .env("ANTHROPIC_BASE_URL", server.base_url())
            .env("ANTHROPIC_API_KEY", "test-key")
            .env("TOOLOOP_MODEL", "anthropic/m")
            .env("TOOLOOP_SANDBOX", "off")
            .env("TOOLOOP_RETRY_BASE_MS", "20")
            .envs(variables.iter().copied())
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .unwrap();
        drop(slave);
        let terminal = File::from(master);
        let screen = Arc::new((Mutex::new(Screen::default()), Condvar::new()));
        let reader = {
            let (terminal, screen) = (terminal.try_clone().unwrap(), Arc::clone(&screen));
            std::thread::spawn(move || read(terminal, &screen))
        };
        Self {
            child,
            terminal,
            screen,
            reader: Some(reader),
            seen: 0,
        }
    }

    /// Presses keys.
    pub(crate) fn keys(&mut self, keys: &str) {
        self.terminal.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until this is shown, behind what was waited for before.
    pub(crate) fn shows(&mut self, wanted: &str) {
        let end = self.wait(&format!("{wanted:?} on the screen"), |screen, seen| {
            let place = screen.text.get(seen..)?.find(wanted)?;
            Some(seen + place + wanted.len())
        });
        self.seen = end;
    }

    /// Waits for the end of the turn and for the prompt behind it.
    pub(crate) fn is_asked(&mut self) {
        self.shows(" step");
        self.shows(" s\n");
        self.shows("> ");
    }

    fn wait<T>(&self, what: &str, look: impl Fn(&Screen, usize) -> Option<T>) -> T {
        let deadline = Instant::now() + LONG;
        let (lock, changed) = &*self.screen;
        let mut screen = lock.lock().unwrap();
        loop {
            if let Some(found) = look(&screen, self.seen) {
                return found;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || screen.closed {
                let text = screen.text.get(self.seen..).unwrap_or_default();
                panic!("no {what}; the screen since then:\n{text}");
            }
            screen = changed.wait_timeout(screen, left).unwrap().0;
        }
    }

    /// All bytes so far.
    pub(crate) fn raw(&self) -> Vec<u8> {
        lock(&self.screen).raw.clone()
    }

    /// All text so far.
    pub(crate) fn text(&self) -> String {
        lock(&self.screen).text.clone()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal)
            .unwrap();
    }

    /// Gives the window another size.
    pub(crate) fn resize(&self, columns: u16, rows: u16) {
        let size = Winsize {
            ws_col: columns,
            ws_row: rows,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&self.terminal, size).unwrap();
        self.signal(Signal::WINCH);
    }

    /// Waits until the process is stopped.
    pub(crate) fn is_stopped(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        let options = WaitOptions::UNTRACED;
        let status = waitpid(Some(pid), options).unwrap();
        assert!(status.is_some_and(|(_, status)| status.stopped()));
    }

    /// Whether lines are edited and shown by the terminal itself, as a shell wants it.
    pub(crate) fn is_restored(&self) -> bool {
        let modes = tcgetattr(&self.terminal).unwrap().local_modes;
        modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
    }

    /// Waits until the program reads single keys.
    pub(crate) fn has_the_terminal(&self) {
        let deadline = Instant::now() + LONG;
        while self.is_restored() {
            assert!(Instant::now() < deadline, "it does not take the terminal");
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }

    /// Waits for the end and gives the exit status.
    pub(crate) fn ends(&mut self) -> i32 {
        let deadline = Instant::now() + LONG;
        let (lock, changed) = &*self.screen;
        let mut screen = lock.lock().unwrap();
        while !screen.closed {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "it does not end:\n{}", screen.text);
            screen = changed.wait_timeout(screen, left).unwrap().0;
        }
        drop(screen);
        self.child.wait().unwrap().code().unwrap()
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        if let Some(reader) = self.reader.take() {
            drop(reader.join());
        }
    }
}

/// A test that failed has left the lock poisoned, and its screen is still read.
fn lock(screen: &(Mutex<Screen>, Condvar)) -> MutexGuard<'_, Screen> {
    screen.0.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads until nobody has the terminal open any more, and answers where the cursor is.
fn read(mut terminal: File, screen: &(Mutex<Screen>, Condvar)) {
    let mut buffer = [0; 4096];
    let mut text = Text::default();
    loop {
        let count = terminal.read(&mut buffer).unwrap_or(0);
        let mut state = lock(screen);
        let mut asked = 0;
        for &byte in &buffer[..count] {
            asked += usize::from(text.take(byte));
        }
        state.raw.extend_from_slice(&buffer[..count]);
        let plain = String::from_utf8_lossy(&text.plain).into_owned();
        state.text = plain;
        state.closed = count == 0;
        screen.1.notify_all();
        drop(state);
        for _ in 0..asked {
            drop(terminal.write_all(b"\x1b[12;1R"));
        }
        if count == 0 {
            return;
        }
    }
}

/// Takes out sequences; says when one asks for the cursor.
#[derive(Default)]
struct Text {
    plain: Vec<u8>,
    sequence: Option<Vec<u8>>,
}

impl Text {
    fn take(&mut self, byte: u8) -> bool {
        let Some(sequence) = &mut self.sequence else {
            match byte {
                0x1b => self.sequence = Some(Vec::new()),
                b'\r' => {}
                other => self.plain.push(other),
            }
            return false;
        };
        sequence.push(byte);
        let whole = sequence.len() > 1 && (0x40..0x7f).contains(&byte) || sequence[0] != b'[';
        let asks = whole && sequence == b"[6n";
        if whole {
            self.sequence = None;
        }
        asks
    }
}
