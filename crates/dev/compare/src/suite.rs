//! What is compared: servers of the same kind, and what is measured of them.

use crate::client::Dialect;

/// One comparison: a set of servers and what is measured of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Suite {
    /// Servers that know channels themselves, by WebSocket.
    Channels,
    /// Proxies that hold what a backend tells them to hold, by event streams.
    Grip,
    /// Servers of Pusher's protocol.
    Pusher,
    /// Servers that know channels themselves, by WebSocket over TLS.
    Tls,
    /// Throng with different numbers of shards.
    Shards,
}

/// One measurement; their order is that of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Scenario {
    /// Memory of idle connections, many on a channel
    Idle,
    /// Memory of idle connections with a channel each
    Own,
    /// CPU time of connecting
    Burst,
    /// Deliveries on one channel
    FanOut,
    /// Deliveries on one channel with more subscribers
    FanOutLarge,
    /// Deliveries on many channels
    Wide,
    /// Deliveries and latency on many channels, pipelined on one connection
    Pipelined,
    /// Deliveries and latency on many channels, by Throng's WebSocket for publishers
    Socket,
    /// Deliveries and latency on some channels with some subscribers
    Rooms,
    /// Streams that follow links of their own
    Links,
    /// Costs between shards: a channel each, pipelined
    CostsOne,
    /// Costs between shards if all channels have one home
    CostsSkew,
    /// Some channels with some subscribers each, as fast as it goes
    CostsRooms,
    /// One channel with all subscribers, 4 in flight
    CostsFanOut,
}

impl Scenario {
    /// Whether only Throng offers what is measured.
    pub(crate) fn is_throngs_own(self) -> bool {
        self == Self::Socket
    }
}

impl Suite {
    pub(crate) fn dialect(self) -> Dialect {
        match self {
            Self::Channels | Self::Shards => Dialect::WebSocket,
            Self::Tls => Dialect::Secure,
            Self::Grip => Dialect::Grip,
            Self::Pusher => Dialect::Pusher,
        }
    }

    /// In the order of the table.
    pub(crate) fn scenarios(self) -> &'static [Scenario] {
        use Scenario::{
            Burst, CostsFanOut, CostsOne, CostsRooms, CostsSkew, FanOut, FanOutLarge, Idle, Links,
            Own, Pipelined, Rooms, Socket, Wide,
        };
        match self {
            Self::Channels => &[
                Idle,
                Own,
                Burst,
                FanOut,
                FanOutLarge,
                Wide,
                Pipelined,
                Socket,
                Rooms,
            ],
            Self::Pusher => &[Idle, Own, Burst, FanOut, Rooms],
            Self::Tls => &[Idle, Burst, FanOut, FanOutLarge, Rooms],
            Self::Shards => &[CostsOne, CostsSkew, CostsRooms, CostsFanOut],
            Self::Grip => &[Idle, Burst, FanOut, FanOutLarge, Rooms, Links],
        }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Channels => "Throng and its peers, side by side",
            Self::Grip => "Throng and Pushpin, side by side",
            Self::Pusher => "Throng and soketi, side by side",
            Self::Tls => "Throng and its peers over TLS, side by side",
            Self::Shards => "What shards cost each other",
        }
    }

    /// Names the kind of its connections.
    pub(crate) fn connections(self) -> &'static str {
        match self {
            Self::Channels | Self::Shards | Self::Pusher => "WebSockets",
            Self::Tls => "WebSockets over TLS",
            Self::Grip => "event streams",
        }
    }

    /// Describes the method of its figures beyond what all suites share.
    pub(crate) fn method(self) -> &'static str {
        match self {
            Self::Channels => "",
            Self::Pusher => {
                " Each connection subscribes to one public channel by a frame of protocol 7, and \
                 publications are signed requests to `/apps/ID/events`, each with the MD5 of its \
                 body."
            }
            Self::Tls => {
                " All servers have the same certificate (ECDSA, P-256), and each connection makes \
                 a full handshake of TLS 1.3. Publishers use a port of their own, without TLS."
            }
            Self::Shards => {
                " Counted for each delivery: context switches of the server, messages between its \
                 shards, shards that slept and were woken, and write calls. Unlike times, these \
                 counts hold for machines with more cores too."
            }
            Self::Grip => {
                " Each stream is requested from a backend, which answers with GRIP headers that \
                 hold it, with a keep-alive of 55 s. The backend runs in the client's process, so \
                 no figure has its CPU time. Publications are items posted to `/publish/`. \
                 Pushpin's message limits are off."
            }
        }
    }
}
