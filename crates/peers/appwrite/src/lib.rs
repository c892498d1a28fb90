//! Appwrite's HTTP API: who a user is, and presences to keep.
//!
//! Owns: which question comes next and how many are asked at the same time, the requests of one
//! question and the meaning of their answers, the cache. Never: sockets, HTTP, clocks, threads.
//! Requests go out as values, whole answers come in, with the time.
//!
//! [`Directory`] queues look-ups; an [`Inquiry`] is one of them under way, which asks and gets
//! answers until it has [`Outcome`]. [`Known`] remembers answers, and who has changed since.
//! [`Presences`] queues calls that write and delete presences.

mod api;
mod cache;
mod changes;
mod directory;
mod identify;
mod known;
mod presences;

pub use api::{Answer, Api, ApiError};
pub use directory::{Askers, Directory, DirectoryOptions, Inquiry, Next, Outcome, Settled};
pub use identify::Note;
pub use known::Known;
pub use presences::{Presences, presence_answer};
