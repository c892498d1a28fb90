//! Waiting for conditions, never for time.

use std::io::{self, ErrorKind, Read};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Reached only by a broken program; far beyond what anything here takes on a slow machine.
pub const DEADLINE: Duration = Duration::from_mins(3);

/// Interval between two looks at a condition without notification.
const GLANCE: Duration = Duration::from_millis(10);

/// Result of a look: whether something is so, or what was found.
pub trait Look {
    /// Value that ends the wait.
    type Found;

    /// The value, unless it has to be looked again.
    fn found(self) -> Option<Self::Found>;
}

impl Look for bool {
    type Found = ();

    fn found(self) -> Option<()> {
        self.then_some(())
    }
}

impl<T> Look for Option<T> {
    type Found = T;

    fn found(self) -> Self {
        self
    }
}

/// Looks until there is an answer; fails at the deadline with the name of what did not come.
#[track_caller]
pub fn until<L: Look>(what: &str, mut look: impl FnMut() -> L) -> L::Found {
    let deadline = Deadline::default();
    loop {
        if let Some(found) = look().found() {
            return found;
        }
        deadline.check(what);
        std::thread::sleep(GLANCE);
    }
}

/// The end of a whole wait. Bytes and messages that are not waited for do not move it.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Instant);

impl Default for Deadline {
    fn default() -> Self {
        Self::after(DEADLINE)
    }
}

impl Deadline {
    /// Begins a wait of at most this time.
    pub fn after(time: Duration) -> Self {
        Self(Instant::now() + time)
    }

    /// The time that is left; zero at the end.
    pub fn left(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    /// Fails a test that waits on, in a loop over what comes.
    #[track_caller]
    pub fn check(self, what: &str) {
        assert!(!self.left().is_zero(), "waited in vain for {what}");
    }

    /// Lets the next read of this socket wait until the deadline.
    ///
    /// # Errors
    /// `WouldBlock`, as the read itself says, if it has passed.
    pub fn bound(self, socket: &TcpStream) -> io::Result<()> {
        match self.left() {
            Duration::ZERO => Err(ErrorKind::WouldBlock.into()),
            left => socket.set_read_timeout(Some(left)),
        }
    }

    /// Reads from this socket, all reads together until the deadline.
    pub const fn over(self, socket: &TcpStream) -> impl Read {
        Bounded(self, socket)
    }
}

struct Bounded<'s>(Deadline, &'s TcpStream);

impl Read for Bounded<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.bound(self.1)?;
        self.1.read(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// A peer that sends a byte now and then does not keep a wait alive. It sends long enough that
    /// a wait of which it moves the deadline would hear its end.
    #[test]
    fn what_comes_meanwhile_does_not_move_a_deadline() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        thread::spawn(move || {
            for _ in 0..500 {
                if peer.write_all(b".").is_err() {
                    return;
                }
                thread::sleep(GLANCE);
            }
        });
        let mut all = Vec::new();
        let deadline = Deadline::after(GLANCE * 20);
        let error = deadline.over(&socket).read_to_end(&mut all).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        assert!(deadline.left().is_zero());
    }
}
