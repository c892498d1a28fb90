//! The new process's side: messages that it gets, and its replies.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use throng_sys::clock;
use throng_types::Load as _;

use super::hello::{Group, Hello};
use super::link::Link;

/// Longest wait for a step of the old process, whose own waits are shorter.
const STEP: Duration = Duration::from_secs(60);

/// The server that this process takes over from.
pub struct Predecessor {
    link: Link,
    pub(crate) hello: Hello,
    pub(crate) groups: Vec<Group>,
    /// The way of each shard from the old one of its number.
    pub(crate) links: Vec<Link>,
}

impl Predecessor {
    /// Takes what the old process says on a socket: its standard input, see
    /// [`crate::handover::Program`].
    /// Error: a sentence about what is wrong. The old process gets it, too, and goes on.
    pub fn greet(socket: OwnedFd) -> Result<Self, String> {
        let lost = |error: io::Error| format!("no message from the old process: {error}");
        let link = Link::new(UnixStream::from(socket), STEP).map_err(lost)?;
        let greeted = Self::listen(&link);
        if let Err(why) = &greeted {
            // If it does not hear this, it sees the end.
            let _ = link.say(&Err(why.clone()));
        }
        let (hello, ends, groups) = greeted?;
        let links = ends
            .into_iter()
            .map(|end| Link::new(UnixStream::from(end), STEP));
        Ok(Self {
            links: links.collect::<Result<_, _>>().map_err(lost)?,
            link,
            hello,
            groups,
        })
    }

    fn listen(link: &Link) -> Result<(Hello, Vec<OwnedFd>, Vec<Group>), String> {
        let lost = |error: io::Error| format!("no message from the old process: {error}");
        let (bytes, ends) = link.recv().map_err(lost)?;
        let hello = Hello::of_bytes(&bytes)?;
        if ends.len() != usize::from(hello.shards) || ends.is_empty() {
            return Err("its first message lacks the sockets of its shards".to_owned());
        }
        let group = |_| {
            let (bytes, listeners) = link.recv().map_err(lost)?;
            let (wanted, bound) = <_>::load_whole(&bytes).ok_or("a listener is damaged")?;
            if listeners.len() != usize::from(hello.shards) {
                return Err("a listener is missing".to_owned());
            }
            Ok(Group {
                wanted,
                bound,
                listeners,
            })
        };
        let groups = (0..hello.addresses).map(group).collect::<Result<_, _>>()?;
        Ok((hello, ends, groups))
    }

    /// Returns its process id and the version of its software, for the log.
    pub fn name(&self) -> String {
        format!(
            "process {} (version {})",
            self.hello.pid, self.hello.software
        )
    }

    /// The start of all its times.
    pub(crate) fn zero(&self) -> Instant {
        let ago = clock::monotonic_us().saturating_sub(self.hello.zero_us);
        let now = Instant::now();
        now.checked_sub(Duration::from_micros(ago)).unwrap_or(now)
    }

    /// Reports the outcome of a step to it.
    pub(crate) fn say(&self, result: &Result<(), String>) -> Result<(), String> {
        let said = self.link.say(result);
        said.map_err(|error| format!("the old process has gone: {error}"))
    }

    /// Waits for its word to begin. If it has gone since it gave away everything, there is nobody
    /// else who could serve.
    pub(crate) fn wait(&self) -> Result<(), String> {
        match self.link.hear() {
            Ok(said) => said,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(()),
            Err(error) => Err(format!(
                "the old process does not say when to begin: {error}"
            )),
        }
    }
}

impl fmt::Debug for Predecessor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Predecessor")
            .field("pid", &self.hello.pid)
            .finish_non_exhaustive()
    }
}
