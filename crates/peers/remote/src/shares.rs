//! A channel whose subscribers come from another process: what each shard of this one lacks.
//!
//! The shards of the other process may have stood at different positions of one stream. What is
//! missing is looked for once, behind the lowest of them, and each shard gets its own part.

use throng_types::{Epoch, Position};

use crate::agent::{Channel, State};

impl Channel {
    /// A shard has subscribers that another process hands over.
    pub fn expect(&mut self, shard: u8, keeps: bool) {
        self.interest |= 1 << shard;
        if self.state == State::Joining {
            self.state = match keeps {
                true => State::Arriving,
                false => State::Live,
            };
        }
    }

    /// A shard's subscribers have everything up to a position.
    pub fn resume(&mut self, shard: u8, from: Option<Position>) {
        if self.state == State::Arriving {
            // No stream has been where this is: what kept no history before cannot be continued.
            let from = from.unwrap_or(Position {
                epoch: Epoch(0),
                offset: 0,
            });
            self.floors.get_or_insert_default().push((shard, from));
        }
    }

    /// All shards have said where they are: what is missing behind the first of them is to be
    /// looked for. False if nothing is.
    pub fn arrive(&mut self) -> bool {
        if self.state != State::Arriving {
            return false;
        }
        let floors = self.floors.iter().flat_map(|floors| floors.iter());
        let mut floors = floors.map(|(_, at)| *at);
        let first = floors.next();
        let lowest = |first: Position| {
            let same = floors.filter(|at| at.epoch == first.epoch);
            same.fold(
                first,
                |low, at| if at.offset < low.offset { at } else { low },
            )
        };
        // Without a floor no subscriber has come that could miss anything.
        self.state = if first.is_some() {
            State::Deaf
        } else {
            State::Joining
        };
        self.top = first.map(lowest);
        true
    }

    /// The shards that get what was found behind `top`, and from where on: all from there, but for
    /// those that came with a position of their own. Those in the second set have another epoch.
    pub fn take_shares(&mut self) -> Shares {
        let mut shares = Shares {
            all: self.interest,
            late: Vec::new(),
            strange: 0,
        };
        for (shard, at) in self.floors.take().map_or(Vec::new(), |floors| *floors) {
            let bit = 1 << shard & self.interest;
            match self.top {
                Some(top) if top.epoch == at.epoch && top.offset == at.offset => {}
                Some(top) if top.epoch == at.epoch => {
                    shares.all &= !bit;
                    shares.late.push((bit, at.offset));
                }
                _ => {
                    shares.all &= !bit;
                    shares.strange |= bit;
                }
            }
        }
        shares
    }
}

/// Receivers of what a channel missed, each a set of shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shares {
    /// Shards that get all of it.
    pub all: u64,
    /// Offsets, and shards that get what is behind each. Bound: the shards.
    late: Vec<(u64, u64)>,
    /// Shards in another epoch: nothing continues what they have.
    pub strange: u64,
}

impl Shares {
    /// The shards that get what is at this position.
    #[must_use]
    pub fn of(&self, position: Option<Position>) -> u64 {
        let offset = position.map_or(u64::MAX, |position| position.offset);
        let late = self.late.iter().filter(|(_, after)| offset > *after);
        late.fold(self.all, |shards, (bit, _)| shards | bit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::Took;
    use crate::agent::tests::publication;

    const fn at(epoch: u64, offset: u64) -> Option<Position> {
        Some(Position {
            epoch: Epoch(epoch),
            offset,
        })
    }

    /// A channel whose shards come with these positions, and who gets each offset from 4 to 8.
    fn arrived(from: &[(u8, Option<Position>)]) -> (Channel, [u64; 5]) {
        let mut channel = Channel::new(1);
        from.iter()
            .for_each(|(shard, _)| channel.expect(*shard, true));
        assert_eq!(
            channel.took(&publication(at(1, 6))),
            Took::Known,
            "nobody knows who has it"
        );
        from.iter()
            .for_each(|(shard, at)| channel.resume(*shard, *at));
        assert!(channel.arrive() && !channel.arrive());
        let shares = channel.take_shares();
        let got = [4, 5, 6, 7, 8].map(|offset| shares.of(at(1, offset)));
        (channel, got)
    }

    #[test]
    fn each_shard_gets_what_its_own_subscribers_lack() {
        let (channel, got) = arrived(&[(0, at(1, 5)), (1, at(1, 3)), (2, at(1, 7))]);
        assert_eq!((channel.state, channel.top), (State::Deaf, at(1, 3)));
        assert_eq!(got, [0b010, 0b010, 0b011, 0b011, 0b111]);
        let (mut channel, got) = arrived(&[(0, at(1, 3)), (3, at(1, 3))]);
        assert_eq!(got, [0b1001; 5]);
        // The next time all of them are at one.
        channel.top = at(1, 8);
        assert_eq!(channel.take_shares().of(at(1, 9)), 0b1001);
    }

    #[test]
    fn a_shard_of_another_epoch_gets_nothing_and_is_known() {
        for theirs in [at(2, 3), None] {
            let mut channel = Channel::new(1);
            for (shard, from) in [(0, at(1, 5)), (1, theirs)] {
                channel.expect(shard, true);
                channel.resume(shard, from);
            }
            assert!(channel.arrive());
            let shares = channel.take_shares();
            assert_eq!((shares.of(at(1, 6)), shares.strange), (0b01, 0b10));
        }
    }

    #[test]
    fn a_shard_that_has_left_gets_nothing() {
        let mut channel = Channel::new(1);
        channel.expect(0, true);
        channel.resume(0, at(1, 5));
        channel.interest = 0;
        assert!(channel.arrive());
        assert_eq!(channel.take_shares().of(at(1, 6)), 0);
        // Nobody has come with a position: it begins as any channel does.
        let mut channel = Channel::new(1);
        channel.expect(0, true);
        assert!(channel.arrive());
        assert_eq!((channel.state, channel.top), (State::Joining, None));
    }

    #[test]
    fn a_channel_without_history_is_live_at_once() {
        let mut channel = Channel::new(1);
        channel.expect(1, false);
        channel.resume(1, None);
        assert_eq!((channel.state, channel.interest), (State::Live, 0b10));
        assert!(!channel.arrive());
        assert_eq!(channel.took(&publication(None)), Took::Next);
    }
}
