//! Kinds of requests, and the numbers by which a broker says what is wrong.

use std::fmt;

/// A kind of request, in the version that is spoken here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Api {
    pub key: i16,
    /// Version in which requests are written and responses read.
    pub version: i16,
}

impl Api {
    pub const FETCH: Self = Self::new(1, 10);
    /// Fetches first and last offsets of partitions.
    pub const LIST_OFFSETS: Self = Self::new(2, 2);
    pub const METADATA: Self = Self::new(3, 4);
    pub const OFFSET_COMMIT: Self = Self::new(8, 7);
    pub const OFFSET_FETCH: Self = Self::new(9, 5);
    pub const FIND_COORDINATOR: Self = Self::new(10, 1);
    /// Joins a group, or joins again when partitions are assigned anew.
    pub const JOIN_GROUP: Self = Self::new(11, 5);
    /// Tells the coordinator that a member is alive.
    pub const HEARTBEAT: Self = Self::new(12, 3);
    pub const LEAVE_GROUP: Self = Self::new(13, 1);
    /// Fetches the partitions assigned to a member.
    pub const SYNC_GROUP: Self = Self::new(14, 3);
    pub const SASL_HANDSHAKE: Self = Self::new(17, 1);
    pub const API_VERSIONS: Self = Self::new(18, 0);
    pub const SASL_AUTHENTICATE: Self = Self::new(36, 0);

    /// All that are asked.
    pub const ALL: [Self; 13] = [
        Self::FETCH,
        Self::LIST_OFFSETS,
        Self::METADATA,
        Self::OFFSET_COMMIT,
        Self::OFFSET_FETCH,
        Self::FIND_COORDINATOR,
        Self::JOIN_GROUP,
        Self::HEARTBEAT,
        Self::LEAVE_GROUP,
        Self::SYNC_GROUP,
        Self::SASL_HANDSHAKE,
        Self::API_VERSIONS,
        Self::SASL_AUTHENTICATE,
    ];

    const fn new(key: i16, version: i16) -> Self {
        Self { key, version }
    }
}

/// The versions of a kind that a broker answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApiRange {
    pub key: i16,
    pub first: i16,
    pub last: i16,
}

/// Returns the first of [`Api::ALL`] that the broker does not support. The SASL kinds may be
/// missing: only clients with credentials need them.
#[must_use]
pub fn unsupported(ranges: &[ApiRange]) -> Option<Api> {
    let optional = [Api::SASL_HANDSHAKE, Api::SASL_AUTHENTICATE];
    let is_missing = |api: &&Api| match ranges.iter().find(|range| range.key == api.key) {
        Some(range) => !(range.first..=range.last).contains(&api.version),
        None => !optional.contains(api),
    };
    Api::ALL.iter().find(is_missing).copied()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ErrorCode(pub i16);

impl ErrorCode {
    pub const NONE: Self = Self(0);
    pub const OFFSET_OUT_OF_RANGE: Self = Self(1);
    pub const LEADER_NOT_AVAILABLE: Self = Self(5);
    /// The coordinator is about to read what it knows.
    pub const COORDINATOR_LOADING: Self = Self(14);
    /// There is no coordinator yet.
    pub const COORDINATOR_NOT_AVAILABLE: Self = Self(15);
    pub const UNKNOWN_MEMBER: Self = Self(25);
    /// The group's partitions are about to be dealt anew.
    pub const REBALANCE_IN_PROGRESS: Self = Self(27);
    pub const UNSUPPORTED_MECHANISM: Self = Self(33);
    /// The member takes the id that came with this, and asks again.
    pub const MEMBER_ID_REQUIRED: Self = Self(79);

    /// Whether it passes when another broker is asked, or the same one a little later.
    #[must_use]
    pub const fn is_about_leaders(self) -> bool {
        // Leader not available, not leader, timed out, replica not available, storage error,
        // fenced and unknown leader epoch, offset not available.
        matches!(self.0, 3 | 5 | 6 | 7 | 9 | 13 | 56 | 74 | 75 | 78)
    }

    /// Whether the member must join anew.
    #[must_use]
    pub const fn is_about_members(self) -> bool {
        matches!(self.0, 22 | 25 | 27)
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self.0 {
            1 => "there are no records at that offset",
            2 => "records are damaged on its disk",
            3 => "there is no such topic or partition",
            5 => "the partition has no leader",
            6 => "another broker leads the partition",
            7 => "it took too long",
            14 => "the group's coordinator loads",
            15 => "there is no coordinator",
            16 => "another broker coordinates the group",
            22 => "the group has another generation",
            23 => "the group is used by consumers of another kind",
            24 => "the group's name is not allowed",
            25 => "the group does not know this member",
            26 => "the session's timeout is not allowed",
            27 => "the group rebalances",
            29 => "the user may not read the topic",
            30 => "the user may not use the group",
            31 => "the user may not do this",
            33 => "it does not offer the SASL mechanism",
            34 => "SASL is not expected now",
            35 => "it does not support the version",
            58 => "the user or the password is wrong",
            81 => "the group is full",
            _ => return write!(f, "error {}", self.0),
        };
        write!(f, "{words} (error {})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_broker_does_not_answer_is_found() {
        let range = |api: &Api| ApiRange {
            key: api.key,
            first: 0,
            last: api.version,
        };
        let mut ranges: Vec<ApiRange> = Api::ALL.iter().map(range).collect();
        assert_eq!(unsupported(&ranges), None);
        ranges.retain(|range| range.key != Api::SASL_HANDSHAKE.key);
        assert_eq!(unsupported(&ranges), None);
        ranges[0].last -= 1;
        assert_eq!(unsupported(&ranges), Some(Api::FETCH));
        assert_eq!(unsupported(&[]), Some(Api::FETCH));
    }
}
