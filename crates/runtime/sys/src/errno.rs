//! The error numbers that name a limit of the machine, for crates that must not know libc.
//!
//! Compare with [`std::io::Error::raw_os_error`].

pub use libc::{
    EADDRINUSE, EADDRNOTAVAIL, EAGAIN, ECONNREFUSED, ECONNRESET, EMFILE, ENFILE, ENOBUFS, ENOMEM,
    ENOSPC, EPERM, ETIMEDOUT,
};
