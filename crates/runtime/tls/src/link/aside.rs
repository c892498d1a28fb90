//! What a link keeps beside its keys, mostly while hands are shaken.

use crate::opening::Opening;
use crate::preface::Preface;

/// What is kept beside a connection as long as it is needed.
#[derive(Default)]
pub(super) struct Aside {
    /// Bound: [`super::PARTIAL_BYTES_MAX`].
    pub(super) partial: Vec<u8>,
    /// How much of `partial` is whole records that rustls has seen, if records shall be ours.
    pub(super) whole_bytes: u32,
    /// [`crate::lean::Lean`] shall go on after the handshake.
    pub(super) is_for_lean: bool,
    /// What has to come before TLS, until hands are shaken.
    pub(super) preface: Option<Preface>,
    /// How a client begins, until hands are shaken.
    pub(super) opening: Option<Opening>,
}

impl Aside {
    /// Whether it has to be kept.
    pub(super) const fn is_of_use(&self) -> bool {
        let is_shaking = self.preface.is_some() || self.opening.is_some();
        is_shaking || self.is_for_lean || !self.partial.is_empty()
    }
}
