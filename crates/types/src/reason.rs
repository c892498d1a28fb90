//! Why the server ends a subscription or a connection.
//!
//! The numbers are Centrifugo's (client protocol v2, page "Codes"), because its SDKs
//! decide by them whether to come back; other protocols translate from here.

/// Why a connection is ended. Each variant has one code and one text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Disconnect {
    /// Closed in the normal course of things.
    Closed,
    /// The server is going away: come back, elsewhere or later.
    Shutdown,
    /// A fault of ours.
    ServerError,
    /// The connection's token has expired.
    Expired,
    /// A subscription's token has expired.
    SubscriptionExpired,
    /// The outbound queue reached its bound.
    Slow,
    /// A write failed.
    WriteError,
    /// A gap was found that only a new connection can mend.
    InsufficientState,
    /// An operator asked for it, and the client should come back.
    ForceReconnect,
    /// The client did not answer a ping.
    NoPong,
    /// Too many commands in too little time.
    TooManyRequests,
    /// The token is not valid.
    InvalidToken,
    /// The client broke the protocol.
    BadRequest,
    /// The client opened a connection and never said who it is.
    Stale,
    /// An operator asked for it, and the client should stay away.
    ForceNoReconnect,
    /// This address or user has as many connections as it may.
    ConnectionLimit,
    /// The connection has as many channels as it may.
    ChannelLimit,
    /// A binary frame reached a text protocol.
    InappropriateProtocol,
    /// The client may not connect.
    PermissionDenied,
    /// The server is not able to do that at all.
    NotAvailable,
    /// Too many errors in a row.
    TooManyErrors,
}

impl Disconnect {
    /// The code, also used as the WebSocket close code. 3000 to 3499 mean "come back", 3500 to 3999
    /// "stay away".
    #[must_use]
    pub const fn code(self) -> u16 {
        match self {
            Self::Closed => 3000,
            Self::Shutdown => 3001,
            Self::ServerError => 3004,
            Self::Expired => 3005,
            Self::SubscriptionExpired => 3006,
            Self::Slow => 3008,
            Self::WriteError => 3009,
            Self::InsufficientState => 3010,
            Self::ForceReconnect => 3011,
            Self::NoPong => 3012,
            Self::TooManyRequests => 3013,
            Self::InvalidToken => 3500,
            Self::BadRequest => 3501,
            Self::Stale => 3502,
            Self::ForceNoReconnect => 3503,
            Self::ConnectionLimit => 3504,
            Self::ChannelLimit => 3505,
            Self::InappropriateProtocol => 3506,
            Self::PermissionDenied => 3507,
            Self::NotAvailable => 3508,
            Self::TooManyErrors => 3509,
        }
    }

    /// The text that goes with the code, fit for a WebSocket close reason (RFC 6455 section 5.5.1).
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Closed => "connection closed",
            Self::Shutdown => "shutdown",
            Self::ServerError => "internal server error",
            Self::Expired => "connection expired",
            Self::SubscriptionExpired => "subscription expired",
            Self::Slow => "slow",
            Self::WriteError => "write error",
            Self::InsufficientState => "insufficient state",
            Self::ForceReconnect => "force reconnect",
            Self::NoPong => "no pong",
            Self::TooManyRequests => "too many requests",
            Self::InvalidToken => "invalid token",
            Self::BadRequest => "bad request",
            Self::Stale => "stale",
            Self::ForceNoReconnect => "force disconnect",
            Self::ConnectionLimit => "connection limit",
            Self::ChannelLimit => "channel limit",
            Self::InappropriateProtocol => "inappropriate protocol",
            Self::PermissionDenied => "permission denied",
            Self::NotAvailable => "not available",
            Self::TooManyErrors => "too many errors",
        }
    }

    /// Whether the client should come back by itself.
    #[must_use]
    pub const fn reconnect(self) -> bool {
        self.code() < 3500
    }
}

/// Why the server ends one subscription and leaves the connection alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unsubscribe {
    /// An operator asked for it: do not come back.
    Server,
    /// Deliveries were lost: subscribe again and recover.
    InsufficientState,
    /// The subscription's token has expired.
    Expired,
}

impl Unsubscribe {
    /// The code; from 2500 on the client subscribes again.
    #[must_use]
    pub const fn code(self) -> u16 {
        match self {
            Self::Server => 2000,
            Self::InsufficientState => 2500,
            Self::Expired => 2501,
        }
    }

    /// The text that goes with the code.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Server => "server unsubscribe",
            Self::InsufficientState => "insufficient state",
            Self::Expired => "subscription expired",
        }
    }
}
