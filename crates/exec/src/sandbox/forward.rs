//! Carries connections out of a network namespace that has no other way out.

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::RawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// The stack of a thread that only copies.
pub(super) const STACK: usize = 128 * 1024;

/// How many connections there may be at a time; others wait in the queue of the kernel.
const MOST: usize = 256;

/// How long is waited when there are too many, or when none can be taken.
const BREATH: Duration = Duration::from_millis(10);

/// Carries every connection to the socket behind a descriptor, for as long as this process lives.
pub(super) fn serve(listener: &TcpListener, socket: RawFd) {
    let open = Arc::new(AtomicUsize::new(0));
    loop {
        if open.load(Ordering::Relaxed) >= MOST {
            thread::sleep(BREATH);
            continue;
        }
        let Ok((connection, _)) = listener.accept() else {
            thread::sleep(BREATH);
            continue;
        };
        let guard = Counted::new(&open);
        // Without a thread the connection closes.
        drop(thread::Builder::new().stack_size(STACK).spawn(move || {
            // What fails on either side ends the connection, which is all there is to tell.
            carry(&connection, socket).unwrap_or_default();
            drop(guard);
        }));
    }
}

fn carry(connection: &TcpStream, socket: RawFd) -> io::Result<()> {
    // The descriptor stands for the socket wherever that lies, though no path leads there from here.
    let proxy = UnixStream::connect(format!("/proc/self/fd/{socket}"))?;
    let (mut from, mut to) = (connection.try_clone()?, proxy.try_clone()?);
    let outward = thread::Builder::new().stack_size(STACK).spawn(move || {
        io::copy(&mut from, &mut to).unwrap_or_default();
        to.shutdown(Shutdown::Write).unwrap_or_default();
    })?;
    let (mut from, mut to) = (&proxy, connection);
    io::copy(&mut from, &mut to).unwrap_or_default();
    connection.shutdown(Shutdown::Write).unwrap_or_default();
    // It does not panic, and if it did, the connection would be over.
    outward.join().unwrap_or_default();
    Ok(())
}

struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
