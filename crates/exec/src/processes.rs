//! The owner of all commands of a run.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::pipe::{PipeFlags, pipe_with};
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use crate::exit::Exit;
use crate::keeper::{self, Request};
use crate::output::Capture;
use crate::platform::{Image, MARK, Script, Stage, Strings, above_standard, directory_script};
use crate::running::{Parts, Running};
use crate::sandbox::{Confinement, Places, Shut};
use crate::shared::Shared;
use crate::shell::{self, ORIGINAL_STARTUP};
use crate::terminal::{self, Terminal, TerminalSize};
use crate::{Command, Outcome, StartError, tree};

/// How many commands may wait to be started before the next one waits to be queued.
const QUEUE: usize = 64;

/// The stack of the thread that starts commands.
const STACK: usize = 512 * 1024;

/// The owner of all commands of a run: starts them, and ends what they leave behind.
///
/// A handle: clones share one owner. When the last one and the last [`Running`] are gone, all
/// leftovers are killed.
#[derive(Debug, Clone)]
pub struct Processes {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) shared: Arc<Shared>,
    requests: mpsc::Sender<Request>,
    keeper: Mutex<Keeper>,
}

/// Where a command prints.
enum Output {
    Pipe(OwnedFd),
    Terminal(OwnedFd),
}

/// A command that is ready to be started.
struct Made {
    shut: Shut,
    /// Where its shell tells its directory.
    directory: Option<OwnedFd>,
    /// The paths, where some are others for the command.
    moved: Option<Places>,
}

#[derive(Debug)]
enum Keeper {
    Idle(mpsc::Receiver<Request>),
    Running(JoinHandle<()>),
    Gone,
}

impl Processes {
    /// An owner without commands. It starts its thread and its guardian with the first command.
    ///
    /// # Errors
    /// The system has no descriptors left.
    pub fn new() -> io::Result<Self> {
        let (requests, receiver) = mpsc::channel(QUEUE);
        Ok(Self {
            inner: Arc::new(Inner {
                shared: Arc::new(Shared::new()?),
                requests,
                keeper: Mutex::new(Keeper::Idle(receiver)),
            }),
        })
    }

    /// Starts the thread and the guardian now, so that the first command does not wait for them.
    /// Cheap; to be called where there is time, as while an answer is awaited.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn prepare(&self) -> io::Result<()> {
        self.inner.ensure_keeper()
    }

    /// Runs a command to its end.
    ///
    /// # Errors
    /// It could not be started. Whatever happens after that is an [`Outcome`].
    pub async fn run(&self, command: Command) -> Result<Outcome, StartError> {
        Ok(self.start(command).await?.outcome().await)
    }

    /// Starts a command. To be called, as what follows, inside a tokio runtime with I/O and time.
    ///
    /// # Errors
    /// It could not be started.
    pub async fn start(&self, command: Command) -> Result<Running, StartError> {
        self.inner.ensure_keeper()?;
        let number = self.inner.shared.next_command();
        let (output, their_output) = pipe()?;
        let mut made = self.image(&command, number, Output::Pipe(their_output))?;
        if let Some(input) = &command.input {
            made.shut.image.input = Some(Script::new(input)?.to_read()?);
        }
        let mut errors = None;
        if let Some(limits) = &command.errors {
            let (ours, theirs) = pipe()?;
            made.shut.image.errors = Some(above_standard(theirs)?);
            let name = format!("errors-{}-{number}.txt", self.inner.shared.run);
            errors = Some((ours, Capture::new(limits.clone(), name)));
        }
        let begin = Instant::now();
        let (pid, exit) = self.launch(&command, number, made.shut).await?;
        let name = format!("output-{}-{number}.txt", self.inner.shared.run);
        let capture = Capture::new(command.output.clone(), name);
        let parts = Parts {
            inner: Arc::clone(&self.inner),
            pid,
            number,
            begin,
            exit,
            output,
            directory: made.directory,
            moved: made.moved,
            capture,
            errors,
        };
        Running::new(parts, command)
    }

    /// Starts a command on a terminal of its own. Of the bounds of the command only `grace` and
    /// `leftovers` mean anything here.
    ///
    /// # Errors
    /// It could not be started.
    pub async fn open_terminal(
        &self,
        mut command: Command,
        size: TerminalSize,
    ) -> Result<Terminal, StartError> {
        self.inner.ensure_keeper()?;
        let number = self.inner.shared.next_command();
        let (ours, theirs) = terminal::open(size)?;
        let ends = command
            .leftovers
            .as_ref()
            .map_or_else(CancellationToken::new, CancellationToken::child_token);
        command.leftovers = Some(ends.clone());
        let made = self.image(&command, number, Output::Terminal(theirs))?;
        let (pid, exit) = self.launch(&command, number, made.shut).await?;
        let inner = Arc::clone(&self.inner);
        Terminal::new(inner, (pid, number), exit, ours, command.grace, ends)
    }

    async fn launch(
        &self,
        command: &Command,
        number: u64,
        shut: Shut,
    ) -> Result<(i32, Exit), StartError> {
        let (answer, started) = oneshot::channel();
        let lifeline = shut.report.as_ref().map(OwnedFd::try_clone).transpose()?;
        let request = Request {
            image: shut.image,
            command: number,
            leftovers: command.leftovers.clone(),
            lifeline,
            answer,
        };
        let gone = || io::Error::other("the thread that starts processes is gone");
        self.inner
            .requests
            .send(request)
            .await
            .map_err(|_| gone())?;
        self.inner.shared.wake();
        let pid = started
            .await
            .map_err(|_| gone())?
            .map_err(|(stage, source)| match stage {
                Stage::Program if command.sandbox.is_some() => StartError::Sandbox {
                    path: "its program".into(),
                    source,
                },
                Stage::Directory => StartError::Directory {
                    path: command.directory.clone(),
                    source,
                },
                Stage::Program => StartError::Shell {
                    path: command.shell.path().into(),
                    source,
                },
                Stage::Clone | Stage::Prepare => StartError::System(source),
            })?;
        match Exit::watch(pid, shut.report) {
            Ok(exit) => Ok((pid, exit)),
            Err(error) => {
                self.inner.shared.abandon(pid);
                Err(StartError::System(error))
            }
        }
    }

    fn image(&self, command: &Command, number: u64, output: Output) -> Result<Made, StartError> {
        let confinement = command.sandbox.as_ref().map(Confinement::of).transpose()?;
        let temp = confinement.as_ref().map(Confinement::temp);
        let (output, is_terminal) = match output {
            Output::Pipe(output) => (output, false),
            Output::Terminal(output) => (output, true),
        };
        let output = above_standard(output)?;
        let numbers = command.shell.descriptors();
        // In rising order of their numbers.
        let mut extra = Vec::new();
        if command.text.contains('\0') {
            return Err(StartError::Nul);
        }
        if shell::is_too_long(&command.text) {
            let script = Script::new(command.text.as_bytes())?;
            extra.push((numbers.text, script.handed()?));
        }
        let own_startup = command.environment.get("BASH_ENV");
        let mut startup = None;
        let mut directory = None;
        if !is_terminal && (shell::may_change_directory(&command.text) || own_startup.is_some()) {
            // Without descriptors to spare the directory is not told; the command runs.
            if let Ok((ours, theirs)) = directory_script() {
                startup = command
                    .shell
                    .startup()
                    .and_then(|text| Script::new(text.as_bytes()).ok()?.handed().ok());
                if startup.is_some() || !command.shell.is_bash() {
                    directory = Some((ours, theirs));
                }
            }
        }
        let mut environment = Strings::default();
        let mut is_whole = true;
        let mut add = |parts: &[&OsStr]| is_whole &= environment.push(parts);
        let equals = OsStr::new("=");
        for (name, value) in command.environment.iter() {
            let is_replaced = name == "PWD"
                || name == MARK
                || (name == "BASH_ENV" && startup.is_some())
                || (name == "TMPDIR" && temp.is_some());
            if !is_replaced {
                add(&[name, equals, value]);
            }
        }
        add(&[OsStr::new("PWD="), command.directory.as_os_str()]);
        add(&[
            OsStr::new(MARK),
            equals,
            OsStr::new(&self.inner.shared.mark(number)),
        ]);
        if let Some(temp) = temp {
            add(&[OsStr::new("TMPDIR="), temp.as_os_str()]);
        }
        if startup.is_some() {
            let path = format!("BASH_ENV=/proc/self/fd/{}", numbers.startup);
            add(&[OsStr::new(&path)]);
            if let Some(own) = own_startup {
                add(&[OsStr::new(ORIGINAL_STARTUP), equals, own]);
            }
        }
        let arguments = command
            .shell
            .arguments(&command.text, directory.is_some())
            .filter(|_| is_whole)
            .ok_or(StartError::Nul)?;
        extra.extend(startup.map(|script| (numbers.startup, script)));
        let mut ours = None;
        if let Some((our_end, theirs)) = directory {
            extra.push((numbers.directory, theirs));
            ours = Some(our_end);
        }
        let string = |text: &OsStr| CString::new(text.as_bytes()).map_err(|_| StartError::Nul);
        let image = Image {
            program: string(command.shell.path().as_os_str())?,
            arguments,
            environment,
            directory: string(command.directory.as_os_str())?,
            input: None,
            output,
            errors: None,
            is_terminal,
            extra,
            oom_score: self
                .inner
                .shared
                .oom_mark()
                .and_then(|mark| CString::new(mark.to_string()).ok()),
            ignores_signals: false,
        };
        let report = None;
        Ok(Made {
            shut: match &confinement {
                Some(confinement) => confinement.shut(image)?,
                None => Shut { image, report },
            },
            directory: ours,
            moved: confinement.and_then(|confinement| confinement.moved().cloned()),
        })
    }

    /// Whether there is a guardian, the process that ends all commands if this one dies by SIGKILL:
    /// `None` before the first command, an error if it could not be started.
    #[must_use]
    pub fn guardian(&self) -> Option<Result<(), io::Error>> {
        self.inner.shared.guardian()
    }

    /// Ends all that commands have left behind, and commands that still run: asks, and kills after
    /// `grace` what has not gone by then. Returns when all are gone.
    pub async fn end_all(&self, grace: Duration) {
        let shared = Arc::clone(&self.inner.shared);
        let ended = spawn_blocking(move || end_all(&shared, grace)).await;
        if ended.is_err() {
            // The runtime is being taken down and runs nothing more.
            self.end_all_now();
        }
    }

    /// Kills all that commands have left behind, and commands that still run. Returns when they are
    /// gone; blocks for a few milliseconds, or up to two seconds if the kernel is slow.
    pub fn end_all_now(&self) {
        end_all(&self.inner.shared, Duration::ZERO);
    }
}

/// A pipe whose end to read from does not block.
fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    Ok((ours, theirs))
}

fn end_all(shared: &Shared, grace: Duration) {
    if !shared.is_clean() {
        tree::end(|| shared.scope(), grace, None);
        shared.settle();
    }
}

impl Inner {
    fn ensure_keeper(&self) -> io::Result<()> {
        let mut keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        if !matches!(*keeper, Keeper::Idle(_)) {
            return Ok(());
        }
        if let Keeper::Idle(receiver) = std::mem::replace(&mut *keeper, Keeper::Gone) {
            let shared = Arc::clone(&self.shared);
            let thread = thread::Builder::new()
                .name("tooloop-spawn".into())
                .stack_size(STACK)
                .spawn(move || keeper::keep(&shared, receiver))?;
            *keeper = Keeper::Running(thread);
        }
        Ok(())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        end_all(&self.shared, Duration::ZERO);
        self.shared.stop();
        let keeper = self
            .keeper
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        if let Keeper::Running(thread) = std::mem::replace(keeper, Keeper::Gone) {
            // It does not panic; if it did, there is nothing left to do.
            thread.join().unwrap_or_default();
        }
    }
}
