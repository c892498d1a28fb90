//! State of a hand-over from another process to this one, as a peer knows it; see
//! [`throng_broker::Moving`].
//!
//! A cut is a message to every node of the cluster. It is made when this process hears every
//! channel that it expects, and each of the two processes hears it among what else is delivered to
//! it. Where the broker delivers everything to everybody in one order, as one Redis does, it is the
//! same place for both.

/// Beginning of a cut; its number follows, in hexadecimal digits.
const WORD: &str = "cut ";

#[derive(Debug, Default)]
pub struct Arrival {
    /// Bit `n` is set when shard `n` has said all channels that it expects.
    expected: u64,
    /// Bit `n` is set when shard `n` has said up to where its subscribers have everything.
    resumed: u64,
    /// Deliveries without a position are still for the other process.
    is_early: bool,
    /// The cut that is to be made.
    due: Option<u64>,
    /// The cut that was made, until it is heard here.
    made: Option<u64>,
}

impl Arrival {
    pub const fn expect(&mut self) {
        self.is_early = true;
    }

    /// All channels of a shard are expected.
    pub const fn expected(&mut self, shard: u8, cut: u64) {
        self.is_early = true;
        self.expected |= 1 << shard;
        self.due = Some(cut);
    }

    /// The message that makes the cut, if all of so many shards have said what they expect. To be
    /// asked when everything is heard.
    #[must_use]
    pub fn make_cut(&mut self, shards: u8) -> Option<String> {
        if !has_all(self.expected, shards) {
            return None;
        }
        let cut = self.due.take()?;
        self.made = Some(cut);
        Some(format!("{WORD}{cut:x}"))
    }

    #[must_use]
    pub const fn is_cut_due(&self) -> bool {
        self.due.is_some()
    }

    /// Whether what has no position is still for the other process.
    #[must_use]
    pub const fn is_before_cut(&self) -> bool {
        self.is_early
    }

    pub(crate) fn heard(&mut self, cut: u64) {
        if self.made.take_if(|made| *made == cut).is_some() {
            self.is_early = false;
        }
    }

    /// There is no connection, or it is lost: no cut can be made in it.
    pub const fn give_up_cut(&mut self) {
        (self.is_early, self.due, self.made) = (false, None, None);
    }

    /// All channels of a shard are resumed; true if those of so many shards are.
    pub const fn resumed(&mut self, shard: u8, shards: u8) -> bool {
        self.resumed |= 1 << shard;
        if self.due.is_some() {
            // The other process has not waited for it.
            self.give_up_cut();
        }
        has_all(self.resumed, shards)
    }
}

const fn has_all(bits: u64, shards: u8) -> bool {
    bits.count_ones() as u8 >= shards
}

pub(crate) fn cut_of(message: &[u8]) -> Option<u64> {
    let message = std::str::from_utf8(message).ok()?;
    u64::from_str_radix(message.strip_prefix(WORD)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_is_made_once_and_ends_what_is_early() {
        let mut arrival = Arrival::default();
        assert!(!arrival.is_before_cut());
        arrival.expect();
        arrival.expected(0, 0xab);
        assert_eq!(arrival.make_cut(2), None, "another shard has not said all");
        arrival.expected(1, 0xab);
        let message = arrival.make_cut(2).expect("a cut");
        assert_eq!((message.as_str(), arrival.make_cut(2)), ("cut ab", None));
        assert_eq!(cut_of(message.as_bytes()), Some(0xab));
        arrival.heard(0xac);
        assert!(arrival.is_before_cut(), "it was another one");
        assert!(!arrival.resumed(1, 2) && arrival.resumed(0, 2));
        assert!(arrival.is_before_cut(), "it was made, so it comes");
        arrival.heard(0xab);
        assert!(!arrival.is_before_cut());
    }

    #[test]
    fn a_cut_that_cannot_be_made_holds_nothing_back() {
        let resumes: fn(&mut Arrival) = |it| assert!(it.resumed(0, 1));
        for ends in [Arrival::give_up_cut, resumes] {
            let mut arrival = Arrival::default();
            arrival.expected(0, 1);
            ends(&mut arrival);
            assert!(!arrival.is_before_cut() && arrival.make_cut(1).is_none());
        }
        for other in [
            "",
            "cut",
            "cut ",
            "cut x",
            "?cut 1",
            "cut 11112222333344445",
        ] {
            assert_eq!(cut_of(other.as_bytes()), None, "{other}");
        }
    }
}
