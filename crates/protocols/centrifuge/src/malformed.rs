//! How frames break the protocol.

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
