//! The words between the rest of the server and its backends.

use throng_http1::origin::{OriginEvent, OriginFailure, OriginRequest};
use throng_types::ConnId;

/// A whole answer: its status and its body.
pub type WholeAnswer = Result<(u16, Vec<u8>), OriginFailure>;

#[derive(Clone, Copy, Debug)]
pub struct AskLimits {
    pub bytes_max: usize,
    /// From the request to the whole answer, in milliseconds.
    pub timeout_ms: u64,
}

#[derive(Clone, Copy, Debug)]
pub struct BackendLimits {
    pub head_bytes_max: usize,
    /// Time for which a backend may take nothing of its request, in milliseconds. The timeout of
    /// a request's route holds instead, if it has one.
    pub stall_timeout_ms: u64,
    /// Links kept for later, for each place.
    pub idle_max: usize,
    /// Links kept for later, of all places together.
    pub idle_all_max: usize,
    /// Time for which one is kept, in milliseconds.
    pub idle_timeout_ms: u64,
}

impl Default for BackendLimits {
    fn default() -> Self {
        Self {
            head_bytes_max: 64 << 10,
            stall_timeout_ms: 60_000,
            idle_max: 256,
            idle_all_max: 1024,
            idle_timeout_ms: 15_000,
        }
    }
}

/// A request under way, by the number that its caller gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TicketId(pub u64);

/// Receiver of a backend's answer.
#[derive(Clone, Copy, Debug)]
pub enum AnswerTo {
    /// A connection, piece by piece, with the number that its request carried.
    Conn(ConnId, u32),
    /// The caller, which gets the answer whole, within these limits.
    Whole(AskLimits),
    /// The caller, which gets the message that answers a call of gRPC, with the status 200. The
    /// request's body is the message that goes.
    Message(AskLimits),
    /// Nobody: the exchange ends with the answer's head.
    Nobody,
}

#[derive(Debug)]
pub enum Call<T> {
    /// Carries out a request.
    Begin {
        /// Names the request from now on.
        ticket: TicketId,
        to: AnswerTo,
        request: OriginRequest,
        /// Kept until the exchange ends; comes back with a whole answer.
        token: T,
    },
    /// The client has taken this many bytes of the answer.
    Grant(TicketId, usize),
    /// More of what follows the request; `None` for its end.
    Follow(TicketId, Option<Vec<u8>>),
    /// Ends an exchange without a word.
    Cancel(TicketId),
}

#[derive(Debug)]
pub enum Reply<T> {
    /// Event for a connection, with the number of its request.
    Event(ConnId, u32, OriginEvent),
    Whole(T, WholeAnswer),
}
