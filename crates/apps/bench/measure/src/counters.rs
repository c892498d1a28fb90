//! Connections and messages, counted by stage and by reason.
//!
//! Owns: the stages of a connection's life and the reasons for which it fails or ends, with the
//! names that reports, exports and checks use.
//!
//! Invariants
//! - `attempted >= tcp_connected >= upgraded >= subscribed` over a whole run.
//! - `alive = upgraded - lost (all reasons) - closed_by_plan`.

mod reasons;

use serde::{Deserialize, Serialize};

use reasons::Reasons;

pub use reasons::{ConnectFailure, LostReason};

/// All counts of a worker, a machine or a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Connects begun.
    pub attempted: u64,
    /// TCP (and TLS) handshakes completed.
    pub tcp_connected: u64,
    /// 101 with the right Accept, or 200 with the right content type.
    pub upgraded: u64,
    /// Subscriptions acknowledged, where the protocol acknowledges; otherwise the same as
    /// `upgraded`.
    pub subscribed: u64,
    /// Closed because the scenario says so.
    pub closed_by_plan: u64,
    /// Connects that came back after a loss.
    pub reconnected: u64,
    /// Of these, how many recovered everything they had missed.
    pub recovered: u64,
    /// Publications begun.
    pub published: u64,
    /// Publications that the server acknowledged.
    pub publish_acknowledged: u64,
    /// Publications that failed.
    pub publish_failed: u64,
    /// Events that were due and not begun when the phase ended.
    pub missed_events: u64,
    /// Bytes sent, before TLS.
    pub sent_bytes: u64,
    /// Bytes received, before TLS.
    pub received_bytes: u64,
    /// Pings answered and pings sent.
    pub pings: u64,
    #[serde(with = "reasons::by_name")]
    connect_failures: Reasons<ConnectFailure>,
    #[serde(with = "reasons::by_name")]
    lost: Reasons<LostReason>,
}

impl Counters {
    /// Counts a connection that never became usable.
    pub fn on_connect_failure(&mut self, reason: ConnectFailure) {
        self.connect_failures.add(reason.index(), 1);
    }

    /// Counts a connection that was lost.
    pub fn on_lost(&mut self, reason: LostReason, count: u64) {
        self.lost.add(reason.index(), count);
    }

    /// Connections that never became usable.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.connect_failures.sum()
    }

    /// Connections that were lost.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.sum()
    }

    /// Usable connections that have neither been lost nor closed.
    #[must_use]
    pub fn alive(&self) -> u64 {
        self.upgraded
            .saturating_sub(self.lost())
            .saturating_sub(self.closed_by_plan)
    }

    /// The reasons for which connects failed, those that happened, most frequent first.
    #[must_use]
    pub fn connect_failures(&self) -> Vec<(ConnectFailure, u64)> {
        self.connect_failures.happened(&ConnectFailure::ALL)
    }

    /// The reasons for which connections were lost, those that happened, most frequent first.
    #[must_use]
    pub fn lost_reasons(&self) -> Vec<(LostReason, u64)> {
        self.lost.happened(&LostReason::ALL)
    }

    /// Adds another worker's counts.
    pub fn merge(&mut self, other: &Self) {
        self.attempted += other.attempted;
        self.tcp_connected += other.tcp_connected;
        self.upgraded += other.upgraded;
        self.subscribed += other.subscribed;
        self.closed_by_plan += other.closed_by_plan;
        self.reconnected += other.reconnected;
        self.recovered += other.recovered;
        self.published += other.published;
        self.publish_acknowledged += other.publish_acknowledged;
        self.publish_failed += other.publish_failed;
        self.missed_events += other.missed_events;
        self.sent_bytes += other.sent_bytes;
        self.received_bytes += other.received_bytes;
        self.pings += other.pings;
        self.connect_failures.merge(&other.connect_failures);
        self.lost.merge(&other.lost);
    }

    /// One sentence for each limit that connects ran into, most frequent first.
    #[must_use]
    pub fn limits_hit(&self) -> Vec<String> {
        self.connect_failures()
            .into_iter()
            .filter_map(|(reason, count)| {
                let (limit, meaning) = reason.limit()?;
                Some(format!("{limit}: {count} connects failed; {meaning}"))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Counters {
        let mut counters = Counters {
            attempted: 10,
            tcp_connected: 8,
            upgraded: 7,
            subscribed: 7,
            closed_by_plan: 1,
            ..Counters::default()
        };
        counters.on_connect_failure(ConnectFailure::Status);
        counters.on_connect_failure(ConnectFailure::AddressNotAvailable);
        counters.on_connect_failure(ConnectFailure::AddressNotAvailable);
        counters.on_lost(LostReason::Reset, 2);
        counters
    }

    #[test]
    fn alive_is_what_is_left() {
        let counters = sample();
        assert_eq!(
            (counters.failed(), counters.lost(), counters.alive()),
            (3, 2, 4)
        );
        let mut twice = counters.clone();
        twice.merge(&counters);
        assert_eq!((twice.failed(), twice.lost(), twice.alive()), (6, 4, 8));
    }

    #[test]
    fn a_limit_that_was_hit_is_named() {
        let lines = sample().limits_hit();
        assert_eq!(lines.len(), 1);
        assert!(
            lines[0].starts_with("ip_local_port_range: 2 connects failed"),
            "{lines:?}"
        );
        assert_eq!(ConnectFailure::from_errno(24).limit().unwrap().0, "nofile");
        assert_eq!(ConnectFailure::from_errno(0), ConnectFailure::Other);
    }

    #[test]
    fn reasons_are_written_by_name_and_unknown_ones_refused() {
        let json = serde_json::to_value(sample()).unwrap();
        assert_eq!(
            json["connect_failures"],
            serde_json::json!({"status": 1, "address_not_available": 2})
        );
        assert_eq!(
            serde_json::from_value::<Counters>(json.clone()).unwrap(),
            sample()
        );
        let mut wrong = json;
        wrong["lost"] = serde_json::json!({"bored": 1});
        assert!(serde_json::from_value::<Counters>(wrong).is_err());
    }

    #[test]
    fn every_reason_has_its_own_name() {
        let names: std::collections::BTreeSet<_> = ConnectFailure::ALL
            .iter()
            .map(|reason| reason.as_str())
            .collect();
        assert_eq!(names.len(), ConnectFailure::ALL.len());
    }
}
