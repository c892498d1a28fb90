//! Warnings that are not repeated all the time.

use std::net::IpAddr;

use throng_types::Millis;

/// Values that were warned of, and the times from which they may be again.
#[derive(Default)]
pub(crate) struct Warned {
    pub(crate) crowded: u64,
    pub(crate) crowded_again_at: Millis,
    pub(crate) unnamed: Option<IpAddr>,
    pub(crate) unnamed_again_at: Millis,
}
