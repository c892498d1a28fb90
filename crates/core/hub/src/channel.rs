//! A channel as one shard sees it: its members here, and where its stream was last seen.
//!
//! Invariants
//! - A channel exists while it has a member, a joining connection, or a subscribe
//!   without a reply.
//! - `position` is that of the last delivery taken, so a member who joins now without
//!   asking the broker misses nothing that came before and gets all that comes after.

use throng_types::{Epoch, Position};

use crate::Format;

/// A member of a channel: its slot and wire form in four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Member(u32);

impl Member {
    const INDEX_BITS: u32 = u32::BITS - Format::BITS;
    /// The highest slot that a member can name.
    pub(crate) const INDEX_MAX: u32 = (1 << Self::INDEX_BITS) - 1;

    pub(crate) const fn new(index: u32, format: Format) -> Self {
        Self((format.to_bits() as u32) << Self::INDEX_BITS | index)
    }

    pub(crate) const fn index(self) -> u32 {
        self.0 & Self::INDEX_MAX
    }

    /// The member, with the newest publication as its base.
    pub(crate) const fn with_base(self) -> Self {
        Self::new(self.index(), self.format().with_base())
    }

    pub(crate) const fn format(self) -> Format {
        Format::from_bits((self.0 >> Self::INDEX_BITS) as u16)
    }
}

/// Members in one word while there is at most one, which is what a million channels
/// with an owner each have.
#[derive(Debug, Default)]
pub(crate) enum Members {
    #[default]
    None,
    One(Member),
    #[expect(
        clippy::box_collection,
        reason = "8 bytes instead of 24 in every channel"
    )]
    Many(Box<Vec<Member>>),
}

impl Members {
    pub(crate) fn as_slice(&self) -> &[Member] {
        match self {
            Self::None => &[],
            Self::One(member) => std::slice::from_ref(member),
            Self::Many(members) => members,
        }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [Member] {
        match self {
            Self::None => &mut [],
            Self::One(member) => std::slice::from_mut(member),
            Self::Many(members) => members,
        }
    }

    pub(crate) fn len(&self) -> u32 {
        self.as_slice().len() as u32
    }

    pub(crate) fn push(&mut self, member: Member) {
        match self {
            Self::None => *self = Self::One(member),
            Self::One(first) => *self = Self::Many(Box::new(vec![*first, member])),
            Self::Many(members) => members.push(member),
        }
    }

    /// Removes the last member, and gives memory back when most of it stands empty.
    pub(crate) fn pop(&mut self) {
        match self {
            Self::None => {}
            Self::One(_) => *self = Self::None,
            Self::Many(members) => {
                members.pop();
                if members.is_empty() {
                    *self = Self::None;
                } else if members.len() * 4 < members.capacity() {
                    members.shrink_to(members.len() * 2);
                }
            }
        }
    }
}

/// Fan-out number of a channel that has none.
pub(crate) const NO_FANOUT: u32 = u32::MAX;

/// A position or none, in the bytes of a position: no stream ever reaches the last offset.
#[derive(Clone, Copy)]
pub(crate) struct LastSeen(Position);

impl LastSeen {
    const NOTHING: Self = Self(Position {
        epoch: Epoch(0),
        offset: u64::MAX,
    });

    pub(crate) const fn get(self) -> Option<Position> {
        if self.0.offset == u64::MAX {
            None
        } else {
            Some(self.0)
        }
    }

    pub(crate) const fn set(&mut self, position: Option<Position>) {
        *self = match position {
            Some(position) => Self(position),
            None => Self::NOTHING,
        };
    }
}

pub(crate) struct Channel {
    pub(crate) members: Members,
    pub(crate) position: LastSeen,
    /// Its place among the fan-outs, or [`NO_FANOUT`].
    pub(crate) fanout: u32,
    pub(crate) requests: Subscribes,
}

/// State of a channel's subscribes at the broker, in four bytes.
#[derive(Clone, Copy)]
pub(crate) struct Subscribes(u32);

impl Subscribes {
    /// Above any number of subscribes that wait for the broker.
    const LIVE: u32 = 1 << 31;

    /// Whether a subscribe has no reply yet.
    pub(crate) const fn is_waiting(self) -> bool {
        self.0 & !Self::LIVE != 0
    }

    /// Notes one more subscribe without a reply.
    pub(crate) const fn begin(&mut self) {
        self.0 += 1;
    }

    /// Notes that one of them has its reply.
    pub(crate) const fn answered(&mut self) {
        debug_assert!(self.is_waiting(), "a reply has a request");
        self.0 -= 1;
    }

    /// Whether the broker has accepted one, so that deliveries reach this shard.
    pub(crate) const fn is_live(self) -> bool {
        self.0 & Self::LIVE != 0
    }

    /// Notes that the broker has accepted a subscribe.
    pub(crate) const fn accepted(&mut self) {
        self.0 |= Self::LIVE;
    }
}

impl Channel {
    pub(crate) const NEW: Self = Self {
        members: Members::None,
        position: LastSeen::NOTHING,
        fanout: NO_FANOUT,
        requests: Subscribes(0),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_stays_small() {
        assert!(size_of::<Channel>() <= 40, "{}", size_of::<Channel>());
        assert_eq!(size_of::<Members>(), 16);
    }

    #[test]
    fn what_waits_and_what_is_accepted_do_not_meet() {
        let mut requests = Channel::NEW.requests;
        assert!(!requests.is_waiting() && !requests.is_live());
        requests.begin();
        requests.begin();
        requests.accepted();
        requests.accepted();
        requests.answered();
        assert!(requests.is_waiting() && requests.is_live());
        requests.answered();
        assert!(!requests.is_waiting() && requests.is_live());
    }

    #[test]
    fn members_give_memory_back_when_most_have_left() {
        let format = Format::new(0, crate::FormKind::Shared);
        let mut members = Members::default();
        for index in 0..1000 {
            members.push(Member::new(index, format));
        }
        let capacity = |members: &Members| match members {
            Members::Many(members) => members.capacity(),
            _ => 0,
        };
        let full = capacity(&members);
        for left in (0..1000_u32).rev() {
            members.pop();
            assert_eq!(members.len(), left);
            let last = members.as_slice().last().map(|member| member.index());
            assert_eq!(last, left.checked_sub(1));
            let now = capacity(&members);
            if left as usize * 4 >= full {
                assert_eq!(now, full, "{left}");
            } else {
                let room = left as usize * 2..=left as usize * 4;
                assert!(room.contains(&now), "{left} of {now}");
            }
        }
        assert!(matches!(members, Members::None));
    }

    #[test]
    fn a_member_keeps_slot_and_form() {
        let format = Format::new(15, crate::FormKind::Shown);
        let member = Member::new(Member::INDEX_MAX, format);
        assert_eq!(
            (member.index(), member.format()),
            (Member::INDEX_MAX, format)
        );
    }
}
