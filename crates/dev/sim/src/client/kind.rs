//! What clients speak.

use super::wire::Shape;

/// Protocol that a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Sse,
    Lines,
    Plain,
    Centrifuge,
    /// Centrifugo's protocol in Protobuf.
    Protobuf,
    /// Sends commands as requests, and receives events or lines.
    Events,
    HttpStream,
    UniWs,
    UniSse,
    UniHttp,
    Grip,
    Appwrite,
}

impl Kind {
    pub(super) const ALL: [Self; 16] = [
        Self::Sse,
        Self::Lines,
        Self::Plain,
        Self::Centrifuge,
        Self::Centrifuge,
        Self::Centrifuge,
        Self::Protobuf,
        Self::Protobuf,
        Self::Events,
        Self::HttpStream,
        Self::UniWs,
        Self::UniSse,
        Self::UniHttp,
        Self::Grip,
        Self::Grip,
        Self::Appwrite,
    ];

    pub(super) const fn is_websocket(self) -> bool {
        matches!(
            self,
            Self::Plain | Self::Centrifuge | Self::Protobuf | Self::UniWs | Self::Appwrite
        )
    }

    pub(super) const fn shape(self) -> Shape {
        match self {
            Self::Sse | Self::UniSse | Self::Events => Shape::Events,
            _ if self.is_websocket() => Shape::Messages,
            _ => Shape::Lines,
        }
    }

    /// Whether it speaks Centrifugo's protocol and sends commands.
    pub(super) const fn has_commands(self) -> bool {
        matches!(self, Self::Centrifuge | Self::Protobuf) || self.is_emulated()
    }

    /// Whether its commands come by requests of their own.
    pub(super) const fn is_emulated(self) -> bool {
        matches!(self, Self::Events | Self::HttpStream)
    }

    /// Whether its subscribers are listed in presence.
    pub(super) const fn is_listed(self) -> bool {
        self.has_commands() || self.is_uni()
    }

    pub(super) const fn is_uni(self) -> bool {
        matches!(self, Self::UniWs | Self::UniSse | Self::UniHttp)
    }
}
