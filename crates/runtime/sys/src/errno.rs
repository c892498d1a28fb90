//! The error numbers that name a limit of the machine or the end of a connection, for crates that
//! must not know libc.
//!
//! Compare with [`std::io::Error::raw_os_error`].

pub use libc::{
    EADDRINUSE, EADDRNOTAVAIL, EAGAIN, EBADMSG, ECONNABORTED, ECONNREFUSED, ECONNRESET, EINVAL,
    EIO, EMFILE, EMSGSIZE, ENFILE, ENOBUFS, ENOMEM, ENOSPC, EPERM, EPIPE, ETIMEDOUT,
};
