//! The codes with which a single command fails while the connection lives on.
//!
//! Codes for the end of a subscription or a connection are in `throng_types`
//! ([`throng_types::Unsubscribe`],
//! [`throng_types::Disconnect`]).

use std::fmt;

/// Why a command failed (Centrifugo, page "Codes", client error codes 100 to 113).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// A fault of ours; the client may try again.
    Internal,
    /// The client has not said who it is.
    Unauthorized,
    /// No such channel, or no such namespace.
    UnknownChannel,
    /// The client may not do that.
    PermissionDenied,
    /// No such remote procedure.
    MethodNotFound,
    /// The connection has that subscription already.
    AlreadySubscribed,
    /// The connection has as many of these as it may.
    LimitExceeded,
    /// The command makes no sense.
    BadRequest,
    /// The server or the channel does not offer that.
    NotAvailable,
    /// The token was valid once; the client should fetch another.
    TokenExpired,
    /// The connection or subscription has expired.
    Expired,
    /// Too many commands in too little time; the client may try again later.
    TooManyRequests,
    /// The stream no longer holds what was asked for, or has begun anew.
    UnrecoverablePosition,
    /// The stream changed while the client paged through it; the client may try again.
    ConcurrentPagination,
}

impl ErrorCode {
    /// Every code, in ascending order.
    pub const ALL: [Self; 14] = [
        Self::Internal,
        Self::Unauthorized,
        Self::UnknownChannel,
        Self::PermissionDenied,
        Self::MethodNotFound,
        Self::AlreadySubscribed,
        Self::LimitExceeded,
        Self::BadRequest,
        Self::NotAvailable,
        Self::TokenExpired,
        Self::Expired,
        Self::TooManyRequests,
        Self::UnrecoverablePosition,
        Self::ConcurrentPagination,
    ];

    /// The number on the wire.
    #[must_use]
    pub const fn code(self) -> u32 {
        100 + self as u32
    }

    /// The text on the wire.
    #[must_use]
    pub const fn message(self) -> &'static str {
        match self {
            Self::Internal => "internal server error",
            Self::Unauthorized => "unauthorized",
            Self::UnknownChannel => "unknown channel",
            Self::PermissionDenied => "permission denied",
            Self::MethodNotFound => "method not found",
            Self::AlreadySubscribed => "already subscribed",
            Self::LimitExceeded => "limit exceeded",
            Self::BadRequest => "bad request",
            Self::NotAvailable => "not available",
            Self::TokenExpired => "token expired",
            Self::Expired => "expired",
            Self::TooManyRequests => "too many requests",
            Self::UnrecoverablePosition => "unrecoverable position",
            Self::ConcurrentPagination => "concurrent pagination",
        }
    }

    /// Whether the same command may succeed later; SDKs then try again by themselves.
    #[must_use]
    pub const fn temporary(self) -> bool {
        matches!(
            self,
            Self::Internal | Self::TooManyRequests | Self::ConcurrentPagination
        )
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code(), self.message())
    }
}

/// How a frame broke the protocol. The connection is closed with code 3501.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The frame holds no command at all.
    #[error("frame without a command")]
    Empty,
    /// JSON is UTF-8 (RFC 8259 section 8.1).
    #[error("command is not UTF-8")]
    NotUtf8,
    /// Not JSON, or a field of the wrong type.
    #[error("command is not what the protocol says, at byte {at}")]
    NotACommand {
        /// Bytes from the start of the command.
        at: usize,
    },
    /// Not the Protobuf encoding of a command, or a field of the wrong type.
    #[error("command is not what the protocol says")]
    NotProtobuf,
    /// An id and nothing to do.
    #[error("command without a request")]
    NoRequest,
}

/// Bytes as text.
pub(crate) fn utf8(bytes: &[u8]) -> Result<&str, Malformed> {
    std::str::from_utf8(bytes).map_err(|_| Malformed::NotUtf8)
}

/// What serde found, as the place in the command.
pub(crate) fn not_a_command(error: &serde_json::Error) -> Malformed {
    Malformed::NotACommand { at: error.column() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_run_from_100_to_113() {
        let codes: Vec<_> = ErrorCode::ALL.iter().map(|code| code.code()).collect();
        assert_eq!(codes, (100..=113).collect::<Vec<_>>());
        let temporary: Vec<_> = ErrorCode::ALL
            .into_iter()
            .filter(|code| code.temporary())
            .map(ErrorCode::code)
            .collect();
        assert_eq!(temporary, [100, 111, 113]);
        assert_eq!(
            ErrorCode::PermissionDenied.to_string(),
            "103: permission denied"
        );
    }
}
