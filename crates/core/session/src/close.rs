//! Port and transport of a session's peer, and why the server ends a connection.

use throng_metrics::Counter;
use throng_types::{Disconnect, Save, coded_enum};

coded_enum! {
    /// Kind of connection between client and session, for gauges.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Save)]
    pub enum Transport {
        /// Its name in the server API and on the dashboard.
        fn as_str;
        /// HTTP requests and answers, or no bytes yet.
        Http = "http";
        WebSocket = "websocket";
        Sse = "sse";
        /// A stream of lines.
        Stream = "stream";
    }
}

/// Whether there is room for a client. If not, its first request is answered with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Save)]
pub enum Admission {
    Welcome,
    /// Its address has as many connections as it may.
    AddressFull,
    /// Its address has asked for more than it may.
    AddressBusy,
    /// The server has as many connections as it may.
    ServerFull,
    /// The connection of HTTP/2 that it is a stream of has asked for more than it may.
    ConnectionBusy,
}

/// Why the server ends a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloseReason {
    Because(Disconnect),
    /// With a code and reason that the server API named.
    Custom {
        /// A WebSocket close code, 3000 to 4999.
        code: u16,
        /// At most 123 bytes.
        reason: Box<str>,
    },
    /// The server shuts down, with the code of [`Disconnect::Shutdown`] (3001); reconnect after so
    /// many milliseconds.
    Drain {
        reconnect_ms: u64,
    },
}

impl CloseReason {
    pub fn counter(&self) -> Counter {
        Counter::closed(match self {
            Self::Because(reason) => *reason,
            Self::Custom { .. } => Disconnect::ForceNoReconnect,
            Self::Drain { .. } => Disconnect::Shutdown,
        })
    }

    pub fn reconnect_ms(&self) -> Option<u64> {
        match self {
            Self::Drain { reconnect_ms } => Some(*reconnect_ms),
            _ => None,
        }
    }

    /// Whether the server API ends it and names no code: its client is to stay away.
    pub fn is_forced(&self) -> bool {
        self.code() == Disconnect::ForceNoReconnect.code()
    }

    /// The code that Centrifugo's clients know it by.
    pub fn code(&self) -> u16 {
        match self {
            Self::Because(reason) => reason.code(),
            Self::Custom { code, .. } => *code,
            Self::Drain { .. } => Disconnect::Shutdown.code(),
        }
    }

    pub fn reason(&self) -> &str {
        match self {
            Self::Because(reason) => reason.reason(),
            Self::Custom { reason, .. } => reason,
            Self::Drain { .. } => Disconnect::Shutdown.reason(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Save)]
pub enum Port {
    Client,
    Api,
    /// One of a gateway's own, by the gateway's place in the list and its own number.
    Own {
        gateway: u8,
        port: u8,
    },
}
