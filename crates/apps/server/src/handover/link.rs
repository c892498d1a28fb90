//! Messages between two processes, with descriptors, over a Unix socket.
//!
//! A message is its length, the number of its descriptors, and its bytes. The descriptors come with
//! the first byte of the length, which is read alone: so they are never mixed with another
//! message's.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use throng_sys::handover;
use throng_types::{Load as _, Save as _, Saved};

const HEAD_BYTES: usize = 8;

/// One end of a socket pair between two processes.
pub(crate) struct Link(UnixStream);

impl Link {
    /// Over a socket, on which no read or write takes longer than this.
    pub(crate) fn new(socket: UnixStream, longest: Duration) -> io::Result<Self> {
        let link = Self(socket);
        link.set_longest(longest)?;
        Ok(link)
    }

    pub(crate) fn set_longest(&self, longest: Duration) -> io::Result<()> {
        self.0.set_read_timeout(Some(longest))?;
        self.0.set_write_timeout(Some(longest))
    }

    /// Makes a pair: this end, on which no read or write takes longer than `longest`, and the
    /// other.
    pub(crate) fn pair(longest: Duration) -> io::Result<(Self, OwnedFd)> {
        let (here, there) = UnixStream::pair()?;
        Ok((Self::new(here, longest)?, there.into()))
    }

    /// Sends a message, with no more than [`handover::DESCRIPTORS_MAX`] descriptors.
    pub(crate) fn send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let length = u32::try_from(bytes.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let head = (length, fds.len() as u32).saved();
        let sent = handover::send(self.0.as_fd(), &head, fds)?;
        (&self.0).write_all(&head[sent..])?;
        (&self.0).write_all(bytes)
    }

    /// Receives a message, and its descriptors. Memory follows the bytes that come.
    pub(crate) fn recv(&self) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
        let (mut head, mut fds, mut at) = ([0; HEAD_BYTES], Vec::new(), 0);
        while at < HEAD_BYTES {
            match handover::recv(self.0.as_fd(), &mut head[at..], &mut fds)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => at += count,
            }
        }
        let (length, count) = <(u32, u32)>::load(&mut Saved::new(&head)).unwrap_or_default();
        let mut bytes = Vec::new();
        (&self.0).take(length.into()).read_to_end(&mut bytes)?;
        if bytes.len() != length as usize || fds.len() != count as usize {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok((bytes, fds))
    }

    /// Says that a step went well, or why not.
    pub(crate) fn say(&self, result: &Result<(), String>) -> io::Result<()> {
        let said = match result {
            Ok(()) => (true, String::new()),
            Err(why) => (false, why.clone()),
        };
        self.send(&said.saved(), &[])
    }

    pub(crate) fn hear(&self) -> io::Result<Result<(), String>> {
        let (bytes, _) = self.recv()?;
        match <(bool, String)>::load_whole(&bytes) {
            Some((true, _)) => Ok(Ok(())),
            Some((false, why)) => Ok(Err(why)),
            None => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_keep_their_descriptors() {
        let longest = Duration::from_secs(10);
        let (here, there) = Link::pair(longest).expect("a pair");
        let there = Link::new(UnixStream::from(there), longest).expect("an end");
        let spare = throng_sys::socket::spare().expect("a descriptor");
        here.send(b"one", &[spare.as_fd(); 3]).expect("room");
        here.send(b"", &[]).expect("room");
        here.send(b"three", &[spare.as_fd()]).expect("room");
        here.say(&Err("no".to_owned())).expect("room");
        for (text, count) in [("one", 3), ("", 0), ("three", 1)] {
            let (bytes, fds) = there.recv().expect("a message");
            assert_eq!((bytes.as_slice(), fds.len()), (text.as_bytes(), count));
        }
        assert_eq!(there.hear().expect("a word"), Err("no".to_owned()));
        drop(here);
        assert!(there.recv().is_err());
    }
}
