//! The codes with which a server API call fails.

use std::fmt;

/// Why a call failed (Centrifugo, pages "Server API" and "Codes", server API error codes).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ApiError {
    /// A fault of ours.
    Internal,
    /// The broker is away; nothing happened. The number is that of `Internal`, since Centrifugo has
    /// no other.
    Unavailable,
    /// The broker did not answer: it may have happened.
    Unknown,
    /// Not every node has answered, so the call may have been carried out on some.
    Unanswered,
    /// History cannot be written to disk; nothing happened.
    NotWritten,
    /// Published, but refused by the disk.
    NotOnDisk,
    /// No such channel, or no such namespace.
    UnknownChannel,
    /// No such method.
    NotFound,
    /// The call makes no sense.
    BadRequest,
    /// The server or the channel does not offer that.
    NotAvailable,
    /// The stream no longer holds what was asked for, or has begun anew.
    UnrecoverablePosition,
    /// Something else happened in between.
    Conflict,
}

impl ApiError {
    /// The number on the wire.
    #[must_use]
    pub const fn code(self) -> u32 {
        match self {
            Self::Internal
            | Self::Unavailable
            | Self::Unknown
            | Self::Unanswered
            | Self::NotWritten
            | Self::NotOnDisk => 100,
            Self::UnknownChannel => 102,
            Self::NotFound => 104,
            Self::BadRequest => 107,
            Self::NotAvailable => 108,
            Self::UnrecoverablePosition => 112,
            Self::Conflict => 113,
        }
    }

    /// The text on the wire.
    #[must_use]
    pub const fn message(self) -> &'static str {
        match self {
            Self::Internal => "internal server error",
            Self::Unavailable => "broker unavailable: nothing was done, try again",
            Self::Unknown => {
                "broker did not answer: it may have published, repeat with the same idempotency_key"
            }
            Self::Unanswered => {
                "not every node has answered: what was called for may have been done, try again"
            }
            Self::NotWritten => {
                "history cannot be written to disk: nothing was done, try again later"
            }
            Self::NotOnDisk => {
                "published, but the disk refused it: repeat with the same idempotency_key"
            }
            Self::UnknownChannel => "unknown channel",
            Self::NotFound => "not found",
            Self::BadRequest => "bad request",
            Self::NotAvailable => "not available",
            Self::UnrecoverablePosition => "unrecoverable position",
            Self::Conflict => "conflict",
        }
    }

    /// The HTTP status in transport error mode; in the ordinary mode it is always 200.
    #[must_use]
    pub const fn http_status(self) -> u16 {
        match self {
            Self::Internal => 500,
            Self::Unavailable
            | Self::Unknown
            | Self::Unanswered
            | Self::NotWritten
            | Self::NotOnDisk => 503,
            Self::UnknownChannel | Self::NotFound => 404,
            Self::BadRequest | Self::NotAvailable => 400,
            Self::UnrecoverablePosition => 416,
            Self::Conflict => 409,
        }
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code(), self.message())
    }
}

impl std::error::Error for ApiError {}
