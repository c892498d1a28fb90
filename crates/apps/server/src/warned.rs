//! Warnings that are not repeated all the time.

use std::net::IpAddr;

use throng_types::Millis;

/// What was warned of, and when it may be again.
#[derive(Default)]
pub(crate) struct Warned {
    pub(crate) crowded: u64,
    pub(crate) crowded_again_at: Millis,
    pub(crate) unnamed: Option<IpAddr>,
    pub(crate) unnamed_again_at: Millis,
}
