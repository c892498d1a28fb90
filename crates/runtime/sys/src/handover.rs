//! Descriptors on their way to another process, over a Unix socket.
//!
//! Owns: one message with descriptors. Never: frames, versions, or what the descriptors are.
//!
//! Rules of Linux (unix(7)): at most 253 descriptors go with one message; they travel with its
//! first byte; what nobody received is closed. A reader that asks for no more bytes than the
//! message has gets the descriptors of that message and of no other.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// The most descriptors of one message (`SCM_MAX_FD`).
pub const DESCRIPTORS_MAX: usize = 253;

const SPACE: usize = rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX));

/// Sends bytes, and with the first of them up to [`DESCRIPTORS_MAX`] descriptors; returns how many
/// bytes were taken. If that is one at least, so were the descriptors. Errors: those of sendmsg(2):
/// `ETOOMANYREFS` if more descriptors are under way than this process may have open.
pub fn send(socket: BorrowedFd<'_>, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); SPACE];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(Errno::INVAL.into());
    }
    let bytes = [IoSlice::new(bytes)];
    Ok(retry_on_intr(|| {
        sendmsg(socket, &bytes, &mut control, SendFlags::NOSIGNAL)
    })?)
}

/// Receives bytes, and appends the descriptors that came with them; 0 bytes are the end. Errors:
/// those of recvmsg(2); `EMFILE` if there was no room for all descriptors, some of which are then
/// lost.
pub fn recv(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    fds: &mut Vec<OwnedFd>,
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); SPACE];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let message = retry_on_intr(|| {
        let mut buffer = [IoSliceMut::new(&mut *buffer)];
        recvmsg(socket, &mut buffer, &mut control, RecvFlags::CMSG_CLOEXEC)
    })?;
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(came) = part {
            fds.extend(came);
        }
    }
    if message.flags.contains(ReturnFlags::CTRUNC) {
        return Err(Errno::MFILE.into());
    }
    Ok(message.bytes)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn descriptors_come_with_their_message() {
        let (here, there) = UnixStream::pair().unwrap();
        let spares: Vec<OwnedFd> = (0..DESCRIPTORS_MAX)
            .map(|_| crate::socket::spare().unwrap())
            .collect();
        let borrowed: Vec<BorrowedFd<'_>> = spares.iter().map(AsFd::as_fd).collect();
        assert_eq!(send(here.as_fd(), b"ab", &borrowed).unwrap(), 2);
        assert_eq!(send(here.as_fd(), b"cd", &borrowed[..1]).unwrap(), 2);
        let too_many = [borrowed[0]; DESCRIPTORS_MAX + 1];
        assert!(send(here.as_fd(), b"e", &too_many).is_err());
        let (mut bytes, mut fds) = ([0; 2], Vec::new());
        assert_eq!(recv(there.as_fd(), &mut bytes, &mut fds).unwrap(), 2);
        assert_eq!((&bytes, fds.len()), (b"ab", DESCRIPTORS_MAX));
        assert_eq!(recv(there.as_fd(), &mut bytes, &mut fds).unwrap(), 2);
        assert_eq!((&bytes, fds.len()), (b"cd", DESCRIPTORS_MAX + 1));
        drop(here);
        assert_eq!(recv(there.as_fd(), &mut bytes, &mut fds).unwrap(), 0);
    }
}
