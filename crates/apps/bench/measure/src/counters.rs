//! Counts of connections and messages, by stage and by reason.
//!
//! Owns: the stages of a connection's life and the reasons for which it fails or ends, with the
//! names that reports, exports and checks use.
//!
//! Invariants
//! - `attempted >= tcp_connected >= upgraded >= subscribed` over a whole run.
//! - `alive = upgraded - lost (all reasons) - closed_by_plan`.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use throng_types::coded_enum;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunCounters {
    pub attempted: u64,
    /// TCP (and TLS) handshakes completed.
    pub tcp_connected: u64,
    /// Answers of 101 with the right Accept, or of 200 with the right content type.
    pub upgraded: u64,
    /// Subscriptions acknowledged, where the protocol acknowledges; otherwise equal to `upgraded`.
    pub subscribed: u64,
    /// Connections closed because the scenario says so.
    pub closed_by_plan: u64,
    /// Connects that came back after a loss.
    pub reconnected: u64,
    /// Reconnects that recovered everything they had missed.
    pub recovered: u64,
    pub published: u64,
    pub publish_acknowledged: u64,
    pub publish_failed: u64,
    /// Events that were due and not begun when the phase ended.
    pub missed_events: u64,
    pub sent_bytes: u64,
    pub received_bytes: u64,
    pub pings: u64,
    // Objects of names in JSON, so that a file outlives the order of the lists.
    connect_failures: BTreeMap<ConnectFailure, u64>,
    lost: BTreeMap<LostReason, u64>,
}

impl RunCounters {
    pub fn on_connect_failure(&mut self, reason: ConnectFailure) {
        add(&mut self.connect_failures, reason, 1);
    }

    pub fn on_lost(&mut self, reason: LostReason, count: u64) {
        add(&mut self.lost, reason, count);
    }

    pub fn failed(&self) -> u64 {
        self.connect_failures.values().sum()
    }

    pub fn lost(&self) -> u64 {
        self.lost.values().sum()
    }

    /// Usable connections that have neither been lost nor closed.
    pub fn alive(&self) -> u64 {
        self.upgraded
            .saturating_sub(self.lost() + self.closed_by_plan)
    }

    pub fn connect_failures(&self) -> Vec<(ConnectFailure, u64)> {
        most_frequent(&self.connect_failures)
    }

    /// Reasons for which connections were lost, most frequent first.
    pub fn lost_reasons(&self) -> Vec<(LostReason, u64)> {
        most_frequent(&self.lost)
    }

    pub fn merge(&mut self, other: &Self) {
        add_fields! { self, other:
            attempted tcp_connected upgraded subscribed closed_by_plan reconnected recovered
            published publish_acknowledged publish_failed missed_events sent_bytes received_bytes
            pings
        }
        for (&reason, &count) in &other.connect_failures {
            add(&mut self.connect_failures, reason, count);
        }
        for (&reason, &count) in &other.lost {
            add(&mut self.lost, reason, count);
        }
    }

    /// One sentence for each limit that connects ran into, most frequent first.
    pub fn limits_hit(&self) -> Vec<String> {
        let named = |(reason, count): (ConnectFailure, u64)| {
            let (limit, meaning) = reason.limit()?;
            Some(format!("{limit}: {count} connects failed; {meaning}"))
        };
        self.connect_failures()
            .into_iter()
            .filter_map(named)
            .collect()
    }
}

fn add<T: Ord>(counts: &mut BTreeMap<T, u64>, reason: T, count: u64) {
    if count > 0 {
        *counts.entry(reason).or_default() += count;
    }
}

fn most_frequent<T: Copy>(counts: &BTreeMap<T, u64>) -> Vec<(T, u64)> {
    let mut counts: Vec<_> = counts
        .iter()
        .map(|(&reason, &count)| (reason, count))
        .collect();
    counts.sort_by_key(|(_, count)| Reverse(*count));
    counts
}

coded_enum! {
    /// Reason for which a connection never became usable.
    #[derive(
        Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize
    )]
    #[serde(rename_all = "snake_case")]
    pub enum ConnectFailure {
        fn as_str;
        /// No source port is free for this source and target.
        AddressNotAvailable = "address_not_available";
        AddressInUse = "address_in_use";
        ProcessDescriptors = "process_descriptors";
        SystemDescriptors = "system_descriptors";
        KernelMemory = "kernel_memory";
        Refused = "refused";
        Unreachable = "unreachable";
        ConnectTimeout = "connect_timeout";
        /// Reset before the handshake was over.
        Reset = "reset";
        /// Closed before the handshake was over.
        ClosedEarly = "closed_early";
        Tls = "tls";
        HandshakeTimeout = "handshake_timeout";
        /// The answer is not HTTP, or its head is broken.
        BadResponse = "bad_response";
        Status = "status";
        /// Status 101 with a wrong or missing `Sec-WebSocket-Accept`.
        Accept = "accept";
        /// Status 200 with another content type than was asked for.
        ContentType = "content_type";
        SubscribeRefused = "subscribe_refused";
        SubscribeTimeout = "subscribe_timeout";
        Other = "other";
    }
}

coded_enum! {
    /// Reason for which a usable connection ended without being asked to.
    #[derive(
        Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize
    )]
    #[serde(rename_all = "snake_case")]
    pub enum LostReason {
        fn as_str;
        /// The server closed with a close frame, or ended its stream properly.
        ClosedByServer = "closed_by_server";
        /// The connection ended without a close frame.
        Eof = "eof";
        Reset = "reset";
        /// The kernel gave up on it (keep-alive, retransmissions).
        TimedOut = "timed_out";
        Protocol = "protocol";
        WriteFailed = "write_failed";
        /// The machine that held it has gone.
        AgentLost = "agent_lost";
    }
}

impl ConnectFailure {
    /// Translates a connect error of the kernel (a Linux errno).
    pub const fn from_errno(errno: i32) -> Self {
        match errno {
            99 => Self::AddressNotAvailable,
            98 => Self::AddressInUse,
            24 => Self::ProcessDescriptors,
            23 => Self::SystemDescriptors,
            12 | 105 => Self::KernelMemory,
            111 => Self::Refused,
            100 | 101 | 113 => Self::Unreachable,
            110 => Self::ConnectTimeout,
            104 => Self::Reset,
            _ => Self::Other,
        }
    }

    /// Names the limit behind the failure as its kernel does, and says what it means; none where
    /// no limit is.
    pub fn limit(self) -> Option<(&'static str, &'static str)> {
        let rows = include_str!("limits.txt").lines();
        let mut rows = rows.filter_map(|row| row.split_once(" | "));
        rows.find(|(reason, _)| *reason == self.as_str())?
            .1
            .split_once(" | ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> RunCounters {
        let mut counters = RunCounters {
            attempted: 10,
            tcp_connected: 8,
            upgraded: 7,
            subscribed: 7,
            closed_by_plan: 1,
            ..RunCounters::default()
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
        let limited = ConnectFailure::ALL
            .iter()
            .filter_map(|reason| reason.limit());
        let rows = include_str!("limits.txt").lines().count() - 1;
        assert_eq!(limited.count(), rows, "each row has its reason");
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
            serde_json::from_value::<RunCounters>(json.clone()).unwrap(),
            sample()
        );
        let mut wrong = json;
        wrong["lost"] = serde_json::json!({"bored": 1});
        assert!(serde_json::from_value::<RunCounters>(wrong).is_err());
    }

    #[test]
    fn every_reason_has_its_own_name() {
        let names: std::collections::BTreeSet<_> = ConnectFailure::ALL
            .iter()
            .map(|reason| reason.as_str())
            .collect();
        assert_eq!(names.len(), ConnectFailure::ALL.len());
        for reason in LostReason::ALL {
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
        }
    }
}
