//! Errors of a single command, while the connection lives on, and faults of a frame, which end it.
//!
//! Codes for the end of a subscription or a connection are in `throng_types`
//! ([`throng_types::Unsubscribe`],
//! [`throng_types::Disconnect`]).

use throng_types::{coded_enum, error_text};

coded_enum! {
    /// Reason for which a command failed (Centrifugo, page "Codes", client error codes).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum ErrorCode {
        fn code -> u32;
        /// Text on the wire.
        fn message;
        /// A fault of ours; the client may try again.
        Internal = 100, "internal server error";
        /// The client has not said who it is.
        Unauthorized = 101, "unauthorized";
        /// No such channel, or no such namespace.
        UnknownChannel = 102, "unknown channel";
        /// The client may not do that.
        PermissionDenied = 103, "permission denied";
        /// No such remote procedure.
        MethodNotFound = 104, "method not found";
        AlreadySubscribed = 105, "already subscribed";
        /// The connection has as many of these as it may.
        LimitExceeded = 106, "limit exceeded";
        /// The command makes no sense.
        BadRequest = 107, "bad request";
        /// The server or the channel does not offer that.
        NotAvailable = 108, "not available";
        /// The token was valid once; the client should fetch another.
        TokenExpired = 109, "token expired";
        /// The connection or subscription has expired.
        Expired = 110, "expired";
        /// Too many commands in too little time; the client may try again later.
        TooManyRequests = 111, "too many requests";
        /// The stream no longer holds what was asked for, or has begun anew.
        UnrecoverablePosition = 112, "unrecoverable position";
        /// The stream changed while the client paged through it; the client may try
        /// again.
        ConcurrentPagination = 113, "concurrent pagination";
    }
}

impl ErrorCode {
    /// Tells whether the same command may succeed later; SDKs then try again by themselves.
    #[must_use]
    pub const fn temporary(self) -> bool {
        matches!(
            self,
            Self::Internal | Self::TooManyRequests | Self::ConcurrentPagination
        )
    }
}

error_text!(ErrorCode.message[code]);

/// Fault of a frame. The connection is closed with code 3501.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("frame without a command")]
    Empty,
    /// JSON is UTF-8 (RFC 8259 section 8.1).
    #[error("command is not UTF-8")]
    NotUtf8,
    #[error("command is not what the protocol says, at byte {at}")]
    NotACommand {
        /// Bytes from the start of the command.
        at: usize,
    },
    #[error("command is not what the protocol says")]
    NotProtobuf,
    #[error("command without a request")]
    NoRequest,
}

pub(crate) fn utf8(bytes: &[u8]) -> Result<&str, Malformed> {
    std::str::from_utf8(bytes).map_err(|_| Malformed::NotUtf8)
}

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
