//! State that a link keeps beside its keys, mostly during the handshake.

use crate::opening::Opening;
use crate::preface::Preface;

/// State beside a connection's keys, kept as long as it is needed.
#[derive(Default)]
pub(super) struct Aside {
    /// Bytes of an incomplete record or handshake message. Bound: [`super::PARTIAL_BYTES_MAX`].
    pub(super) partial: Vec<u8>,
    /// Bytes at the start of `partial` that are whole records rustls has seen, if
    /// [`crate::lean::Lean`] goes on after the handshake.
    pub(super) whole_bytes: u32,
    /// [`crate::lean::Lean`] shall go on after the handshake.
    pub(super) is_for_lean: bool,
    /// Bytes that must come before TLS, until the handshake is done.
    pub(super) preface: Option<Preface>,
    /// First bytes of a client, until the handshake is done.
    pub(super) opening: Option<Opening>,
}

impl Aside {
    /// Whether it has to be kept.
    pub(super) const fn is_of_use(&self) -> bool {
        let is_shaking = self.preface.is_some() || self.opening.is_some();
        is_shaking || self.is_for_lean || !self.partial.is_empty()
    }
}
