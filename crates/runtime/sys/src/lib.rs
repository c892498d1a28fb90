//! Syscalls and every unsafe block of the workspace.
//!
//! Owns: the translation between the kernel's interfaces and plain Rust values. Never: keeps
//! state, starts threads, decides policy, retries what the caller may want to know about.
//!
//! Linux only: the engine stands on epoll, `/proc` and Linux's socket rules.

#[cfg(not(target_os = "linux"))]
compile_error!("throng-sys speaks to Linux only");

pub mod clock;
pub mod cpu;
pub mod errno;
pub mod handover;
pub mod limits;
pub mod memory;
pub mod random;
pub mod socket;
