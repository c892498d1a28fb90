//! Memory of a connection's last request, so that an equal one need not be judged again.
//!
//! Owns: the head of a request that was carried out, and the judgement on it. Never: reads a
//! request or carries one out.

use std::net::IpAddr;
use std::sync::Arc;

use throng_auth::ApiKeys;
use throng_http1::KnownHead;

use crate::route::Claim;

/// Number of requests that may differ from the known head before no more heads are learned. Each
/// request that matches it pays for one that did not.
pub(super) const PATIENCE: u8 = 4;

/// A request that was carried out.
pub(super) struct Repeat {
    pub(super) head: KnownHead,
    pub(super) gateway: u8,
    pub(super) claim: Claim,
    pub(super) client: IpAddr,
    /// The keys by which it was judged. A reload brings others, and with them other rules.
    pub(super) keys: Arc<ApiKeys>,
}

/// Last judged request of a connection, and the number of misses left.
pub(super) struct Habit {
    pub(super) known: Option<Repeat>,
    pub(super) patience: u8,
}

impl Default for Habit {
    fn default() -> Self {
        Self {
            known: None,
            patience: PATIENCE,
        }
    }
}
