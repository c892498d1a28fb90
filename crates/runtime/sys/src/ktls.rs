//! TLS in the kernel (Linux's kTLS): records that the kernel seals and opens on a TCP socket.
//!
//! Owns: how keys, record types and their answers look to the kernel. Never: shakes hands, chooses
//! keys or sequence numbers, or decides what a record means.
//!
//! Rules of Linux (Documentation/networking/tls.rst)
//! - Once keys are set, plain reads and writes are application data. One write makes one record or
//!   several; one read gives data of one record or several.
//! - A read without a place for a record's type fails with `EIO` at a record that is not
//!   application data, which then stays: [`recv_record`] takes it.
//! - What a write took may still wait above TCP. It leaves when there is room, or with the next
//!   write that finds some.
//! - The state belongs to the connection and not to the descriptor: another process that gets the
//!   descriptor goes on with it.

mod probe;

use std::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::{fmt, io, mem, ptr};

use zeroize::Zeroize;

pub use self::probe::{Lack, probe};

const TLS_TX: c_int = 1;
const TLS_RX: c_int = 2;
const SET_RECORD_TYPE: c_int = 1;
const GET_RECORD_TYPE: c_int = 2;
/// Version and cipher, and then what the cipher needs: a nonce's base, key, salt, sequence number.
const KEYS_BYTES_MAX: usize = 4 + 12 + 32 + 8;

/// What seals records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cipher {
    /// AES-128-GCM, a key of 16 bytes.
    Aes128Gcm,
    /// AES-256-GCM, a key of 32 bytes.
    Aes256Gcm,
    /// ChaCha20-Poly1305, a key of 32 bytes. Linux has it since 5.11.
    ChaCha20Poly1305,
}

impl Cipher {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Aes128Gcm, Self::Aes256Gcm, Self::ChaCha20Poly1305];

    const fn number(self) -> u16 {
        match self {
            Self::Aes128Gcm => 51,
            Self::Aes256Gcm => 52,
            Self::ChaCha20Poly1305 => 54,
        }
    }

    const fn key_bytes(self) -> usize {
        match self {
            Self::Aes128Gcm => 16,
            Self::Aes256Gcm | Self::ChaCha20Poly1305 => 32,
        }
    }
}

impl fmt::Display for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Aes128Gcm => "AES-128-GCM",
            Self::Aes256Gcm => "AES-256-GCM",
            Self::ChaCha20Poly1305 => "ChaCha20-Poly1305",
        })
    }
}

/// The keys of one direction.
pub struct Keys<'a> {
    /// What it seals with.
    pub cipher: Cipher,
    /// TLS 1.3, not 1.2.
    pub is_tls13: bool,
    /// As long as the cipher says, or the kernel is not asked.
    pub key: &'a [u8],
    /// The base of the nonces. For AES-GCM in TLS 1.2: the salt, and the explicit nonce of the next
    /// record, from which the kernel counts upwards.
    pub iv: &'a [u8; 12],
    /// The number of the next record.
    pub sequence: u64,
}

impl Keys<'_> {
    /// As the kernel wants it, and how much of it counts.
    fn pack(&self) -> Option<([u8; KEYS_BYTES_MAX], usize)> {
        if self.key.len() != self.cipher.key_bytes() {
            return None;
        }
        let version: u16 = if self.is_tls13 { 0x0304 } else { 0x0303 };
        let (salt, iv) = match self.cipher {
            Cipher::ChaCha20Poly1305 => (&[][..], &self.iv[..]),
            Cipher::Aes128Gcm | Cipher::Aes256Gcm => self.iv.split_at(4),
        };
        let mut packed = [0; KEYS_BYTES_MAX];
        let mut used = 0;
        for part in [
            &version.to_ne_bytes()[..],
            &self.cipher.number().to_ne_bytes(),
            iv,
            self.key,
            salt,
            &self.sequence.to_be_bytes(),
        ] {
            packed[used..used + part.len()].copy_from_slice(part);
            used += part.len();
        }
        Some((packed, used))
    }
}

/// Lets the kernel seal and open from here on. The connection is established; nothing that is
/// sealed waits to be sent in this process, and nothing that was read is left.
///
/// # Errors
/// `ENOENT` without the module `tls`; `ENOTCONN` if the connection has gone; others if the kernel
/// does not know the cipher or has no memory. The connection is then of no more use.
pub fn begin(fd: BorrowedFd<'_>, sends: &Keys<'_>, receives: &Keys<'_>) -> io::Result<()> {
    attach(fd)?;
    set_keys(fd, TLS_TX, sends)?;
    set_keys(fd, TLS_RX, receives)
}

fn attach(fd: BorrowedFd<'_>) -> io::Result<()> {
    set(fd, libc::IPPROTO_TCP, libc::TCP_ULP, b"tls\0")
}

fn set_keys(fd: BorrowedFd<'_>, direction: c_int, keys: &Keys<'_>) -> io::Result<()> {
    let Some((mut packed, used)) = keys.pack() else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let outcome = set(fd, libc::SOL_TLS, direction, &packed[..used]);
    packed.zeroize();
    outcome
}

fn set(fd: BorrowedFd<'_>, level: c_int, name: c_int, value: &[u8]) -> io::Result<()> {
    // SAFETY: `fd` is borrowed, hence open for the whole call. The pointer and the length describe
    // `value`, which outlives the call; the kernel copies it.
    let outcome = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            name,
            value.as_ptr().cast(),
            value.len() as libc::socklen_t,
        )
    };
    if outcome == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// What the kernel seals the records of this connection with, and how many it has sealed, counted
/// on from the number that it was given; [`begin`] was called before.
///
/// # Errors
/// If the kernel does not tell.
pub fn sealed_records(fd: BorrowedFd<'_>) -> io::Result<(Cipher, u64)> {
    // The first question is for the cipher, which says how long the whole is: no part is given.
    let mut packed = [0; KEYS_BYTES_MAX];
    get_keys(fd, &mut packed[..4])?;
    let number = u16::from_ne_bytes([packed[2], packed[3]]);
    let cipher = { Cipher::ALL.into_iter() }.find(|cipher| cipher.number() == number);
    let cipher = cipher.ok_or(io::ErrorKind::Unsupported)?;
    // Nonce and salt are twelve bytes together.
    let used = 4 + 12 + cipher.key_bytes() + 8;
    let outcome = get_keys(fd, &mut packed[..used]);
    let sequence = packed[..used].last_chunk::<8>().copied();
    packed.zeroize();
    outcome?;
    let sequence = u64::from_be_bytes(sequence.unwrap_or_default());
    Ok((cipher, sequence))
}

fn get_keys(fd: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<()> {
    let mut length = into.len() as libc::socklen_t;
    // SAFETY: `fd` is borrowed, hence open for the whole call. The pointer and the length describe
    // `into`, which outlives the call; the kernel writes no more than that.
    let outcome = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_TLS,
            TLS_TX,
            into.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if outcome == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Room for one control message with one byte. It begins where its head may stand.
#[repr(C)]
union Control {
    head: libc::cmsghdr,
    room: [u8; 64],
}

impl Control {
    const fn new() -> Self {
        Self { room: [0; 64] }
    }
}

/// Sends a record of another type than application data. Gives how many bytes were taken: all, or
/// none.
///
/// # Errors
/// `WouldBlock` when the send buffer is full; those of sendmsg(2).
pub fn send_record(fd: BorrowedFd<'_>, kind: u8, body: &[u8]) -> io::Result<usize> {
    let mut control = Control::new();
    let mut slice = slice_of(body.as_ptr().cast_mut(), body.len());
    let mut message = message(&mut slice, &mut control);
    // SAFETY: `message` names `control`, which has room for a head and one byte and lives until the
    // end of this function; so the first header is there, and its data is inside of `control`.
    unsafe {
        message.msg_controllen = libc::CMSG_SPACE(1) as _;
        let head = libc::CMSG_FIRSTHDR(&raw const message);
        (*head).cmsg_level = libc::SOL_TLS;
        (*head).cmsg_type = SET_RECORD_TYPE;
        (*head).cmsg_len = libc::CMSG_LEN(1) as _;
        libc::CMSG_DATA(head).write(kind);
    }
    retry(|| {
        // SAFETY: `fd` is open, and what `message` names outlives the call; `body` is only read.
        unsafe { libc::sendmsg(fd.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) }
    })
}

/// Takes one record, whatever its type. Gives the type and how many of its bytes are in `buffer`:
/// 0 without a type is the end of the peer's stream.
///
/// # Errors
/// `WouldBlock` when no record is whole; `EBADMSG` if it is not the peer's; those of recvmsg(2).
pub fn recv_record(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<(Option<u8>, usize)> {
    let mut control = Control::new();
    let mut slice = slice_of(buffer.as_mut_ptr(), buffer.len());
    let mut message = message(&mut slice, &mut control);
    let count = retry(|| {
        message.msg_controllen = size_of::<Control>() as _;
        // SAFETY: `fd` is open, and what `message` names outlives the call and may be written to.
        unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut message, 0) }
    })?;
    // SAFETY: the kernel has filled `control` and said how far; the first header, if there is one,
    // lies within.
    let kind = unsafe {
        let head = libc::CMSG_FIRSTHDR(&raw const message);
        let is_kind = !head.is_null()
            && (*head).cmsg_level == libc::SOL_TLS
            && (*head).cmsg_type == GET_RECORD_TYPE;
        is_kind.then(|| libc::CMSG_DATA(head).read())
    };
    Ok((kind, count))
}

const fn slice_of(base: *mut u8, length: usize) -> libc::iovec {
    libc::iovec {
        iov_base: base.cast::<c_void>(),
        iov_len: length,
    }
}

/// A message of this slice, with this room for control messages. It is valid while both live.
fn message(slice: &mut libc::iovec, control: &mut Control) -> libc::msghdr {
    // SAFETY: all of its fields are numbers and pointers, for which zero is a value.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = ptr::from_mut(slice);
    message.msg_iovlen = 1;
    message.msg_control = ptr::from_mut(control).cast();
    message
}

fn retry(mut call: impl FnMut() -> isize) -> io::Result<usize> {
    loop {
        if let Ok(count) = usize::try_from(call()) {
            return Ok(count);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Whether at least a third of the send buffer is free, so that a write also takes along what waits
/// above TCP. If not, readiness to write will be told.
#[must_use]
pub fn has_room(fd: BorrowedFd<'_>) -> bool {
    let mut asked = libc::pollfd {
        fd: fd.as_raw_fd(),
        events: libc::POLLOUT,
        revents: 0,
    };
    // SAFETY: the pointer and the count describe the local `asked`, which outlives the call. It
    // does not wait.
    let ready = unsafe { libc::poll(&raw mut asked, 1, 0) };
    ready == 1
}

#[cfg(test)]
mod tests;
