//! The error numbers that name a limit of the machine or the end of a connection, for crates that
//! must not know libc.
//!
//! Compare with [`std::io::Error::raw_os_error`].

pub use libc::{
    EADDRINUSE, EADDRNOTAVAIL, EAGAIN, ECONNABORTED, ECONNREFUSED, ECONNRESET, EMFILE, ENFILE,
    ENOBUFS, ENOMEM, ENOSPC, EPERM, EPIPE, ETIMEDOUT,
};
