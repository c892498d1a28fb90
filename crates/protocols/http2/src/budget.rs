//! Budget for frames that cost us and serve nobody: resets from either side, pings, settings,
//! updates of windows, frames with little or no data, extensions.
//!
//! Each has a price in points. Time pays back, and so does data that flows, since that is what
//! updates of windows are for.

use throng_types::{Millis, Save};

use crate::H2Fault;

/// Points of a connection that has done nothing for long: a page with a thousand streams may go
/// and come back at once.
const POINTS: u32 = 10_000;
/// Points more for each stream that there may be.
const POINTS_A_STREAM: u32 = 20;
/// Points that each millisecond pays back.
const POINTS_A_MS: u64 = 1;

/// A stream that was opened and ends before its time, for whatever reason (CVE-2023-44487,
/// CVE-2025-8671).
pub(crate) const RESET: u32 = 10;
/// Bytes of a block that is no good head which cost a point more: each may name a field that is
/// decoded and refused (CVE-2026-49975).
pub(crate) const BYTES_A_POINT: usize = 64;
/// A frame that is answered, or is one more of a block (CVE-2019-9512, -9515, CVE-2024-27316).
pub(crate) const ANSWERED: u32 = 10;
/// DATA without data (CVE-2019-9518).
pub(crate) const EMPTY: u32 = 10;
/// DATA of so few bytes that no message of a WebSocket fits: its framing costs us more than it has.
pub(crate) const SMALL: u32 = 1;
/// Bytes of DATA that is not small: a masked frame of a WebSocket without a payload.
pub(crate) const SMALL_BYTES: u32 = 6;
/// A frame without meaning for us: priorities, extensions, late ones of a stream that is gone.
pub(crate) const IGNORED: u32 = 2;
/// An update of a window (CVE-2019-9517).
pub(crate) const WINDOW: u32 = 1;
/// Earned by a DATA frame: there may be an update for its stream and one for the connection.
pub(crate) const SENT: u32 = 2 * WINDOW;
/// Bytes of a frame that a window has cut and that earns all the same; for smaller ones, tiny
/// windows would pay for their updates.
pub(crate) const SENT_BYTES: usize = 512;

#[derive(Clone, Copy, Debug, Default, Save)]
pub(crate) struct Budget {
    at: Millis,
    owed: u32,
}

impl Budget {
    /// Takes points for something that came at a time; `streams` lift the bound.
    pub(crate) fn charge(&mut self, points: u32, now: Millis, streams: u32) -> Result<(), H2Fault> {
        let paid = (now - self.at).saturating_mul(POINTS_A_MS);
        self.at = self.at.max(now);
        self.earn(u32::try_from(paid).unwrap_or(u32::MAX));
        self.owed = self.owed.saturating_add(points);
        if self.owed > POINTS.saturating_add(streams.saturating_mul(POINTS_A_STREAM)) {
            return Err(H2Fault::Flood);
        }
        Ok(())
    }

    pub(crate) const fn earn(&mut self, points: u32) {
        self.owed = self.owed.saturating_sub(points);
    }
}
