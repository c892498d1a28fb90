//! Errors with which calls are answered.

use throng_types::{coded_enum, error_text};

use crate::code::Malformed;

/// A body that is not the JSON that its method asks for: HTTP status 400.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MalformedBody(Box<str>);

impl MalformedBody {
    pub(super) fn new(why: impl Into<Box<str>>) -> Self {
        Self(why.into())
    }

    /// Refuses a body with more calls than one request may carry.
    ///
    /// # Errors
    /// Fails if the request has more than `max` calls.
    pub fn check_count(count: usize, max: usize) -> Result<(), Self> {
        match count <= max {
            true => Ok(()),
            false => Err(Self(format!("more than {max} calls").into())),
        }
    }
}

impl From<Malformed> for MalformedBody {
    fn from(error: Malformed) -> Self {
        Self::new(error.to_string())
    }
}

coded_enum! {
    /// Reason for which a call failed (Centrifugo, pages "Server API" and "Codes").
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum ServerApiError {
        fn code -> u32;
        /// Text on the wire.
        fn message;
        /// A queue is full; nothing happened. Centrifugo has no other number for what is temporary.
        Busy = 100, "a queue is full: nothing was done, try again";
        BatchFull = 100,
            "the answers before this one fill the batch: nothing was done, ask in another batch";
        /// The broker is away; nothing happened.
        Unavailable = 100, "broker unavailable: nothing was done, try again";
        /// The broker did not answer: it may have happened.
        Unknown = 100,
            "broker did not answer: it may have published, repeat with the same idempotency_key";
        /// Not every node has answered, so the call may have been carried out on some.
        Unanswered = 100,
            "not every node has answered: what was called for may have been done, try again";
        /// History cannot be written to disk; nothing happened.
        NotWritten = 100, "history cannot be written to disk: nothing was done, try again later";
        /// Published, but refused by the disk.
        NotOnDisk = 100, "published, but the disk refused it: repeat with the same idempotency_key";
        /// No such channel, or no such namespace.
        UnknownChannel = 102, "unknown channel";
        NotFound = 104, "not found";
        /// The call makes no sense.
        BadRequest = 107, "bad request";
        BadChannel = 107,
            "bad request: a channel is a name of 1 to 255 bytes without control characters";
        NoChannel = 107, "bad request: `channel` is missing";
        NoChannels = 107, "bad request: `channels` is empty";
        TooManyChannels = 107, "bad request: too many channels in one request";
        NoData = 107, "bad request: `data` or `b64data` is missing";
        BadBase64 = 107, "bad request: `b64data` is not base64 with padding";
        /// Neither a user nor a connection is named.
        NoTarget = 107, "bad request: `user`, `client` or `session` is missing";
        BadDisconnect = 107,
            "bad request: `disconnect` has a `code` of 3000 to 4999, a `reason` of up to 123 bytes";
        BadOptions = 107,
            "bad request: `b64info` or `b64data` is not base64, or a `value` of `override` is null";
        BadTransport = 107, "bad request: `transport` is websocket, sse or stream";
        NoMethod = 107, "bad request: `method` is missing";
        /// The server or the channel does not offer that.
        NotAvailable = 108, "not available";
        /// The stream no longer holds what was asked for, or has begun anew.
        UnrecoverablePosition = 112, "unrecoverable position";
    }
}

impl ServerApiError {
    /// The HTTP status in transport error mode; in the ordinary mode it is always 200.
    #[must_use]
    pub const fn http_status(self) -> u16 {
        match self {
            Self::Busy
            | Self::BatchFull
            | Self::Unavailable
            | Self::Unknown
            | Self::Unanswered
            | Self::NotWritten
            | Self::NotOnDisk => 503,
            Self::UnknownChannel | Self::NotFound => 404,
            Self::UnrecoverablePosition => 416,
            _ => 400,
        }
    }
}

error_text!(ServerApiError.message[code]);

/// Error that answers a call, or the fault of its parameters; displayed as it is on the wire.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    #[error("{}", .0.message())]
    Known(#[from] ServerApiError),
    /// Answered as a bad request that names the field.
    #[error("bad request: {0}")]
    Malformed(#[from] MalformedBody),
}

impl CallError {
    /// The error whose code and status it has.
    #[must_use]
    pub const fn kind(&self) -> ServerApiError {
        match self {
            Self::Known(error) => *error,
            Self::Malformed(_) => ServerApiError::BadRequest,
        }
    }
}
