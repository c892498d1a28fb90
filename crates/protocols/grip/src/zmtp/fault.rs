//! How a peer breaks the protocol.

/// Why a connection ends. All of them are the peer's fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ZmtpFault {
    /// The first bytes are not ZMTP's.
    #[error("the peer does not speak ZMTP")]
    NotZmtp,
    /// An older version than 3.0.
    #[error("the peer speaks ZMTP {0}, and 3.0 is the least")]
    OldVersion(u8),
    /// Another mechanism than NULL.
    #[error("the peer wants the mechanism '{0}' instead of NULL")]
    Mechanism(String),
    /// Flags that do not exist, or do not go together.
    #[error("a frame has impossible flags")]
    BadFlags,
    /// A declared length beyond the limit.
    #[error("a message is larger than the limit")]
    TooLarge,
    /// More parts than the limit.
    #[error("a message has too many parts")]
    TooManyParts,
    /// The handshake does not begin with READY, or READY cannot be read.
    #[error("the handshake is broken")]
    Handshake,
    /// The peer's socket type and ours do not go together.
    #[error("a {0} socket does not go with ours")]
    SocketType(String),
    /// The peer refused the connection.
    #[error("the peer refused: {0}")]
    Refused(String),
    /// A command that cannot be read.
    #[error("a command is broken")]
    Command,
}
