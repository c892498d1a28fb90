//! What clients speak.

use super::wire::Shape;

/// What a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Sse,
    Lines,
    Plain,
    Centrifuge,
    UniWs,
    UniSse,
    UniHttp,
    Grip,
    Appwrite,
}

impl Kind {
    pub(super) const ALL: [Self; 12] = [
        Self::Sse,
        Self::Lines,
        Self::Plain,
        Self::Centrifuge,
        Self::Centrifuge,
        Self::Centrifuge,
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
            Self::Plain | Self::Centrifuge | Self::UniWs | Self::Appwrite
        )
    }

    pub(super) const fn shape(self) -> Shape {
        match self {
            Self::Sse | Self::UniSse => Shape::Events,
            _ if self.is_websocket() => Shape::Messages,
            _ => Shape::Lines,
        }
    }

    pub(super) const fn is_uni(self) -> bool {
        matches!(self, Self::UniWs | Self::UniSse | Self::UniHttp)
    }
}
