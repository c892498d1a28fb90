//! How many connections took an item, added up over the shards for publishers that ask.
//!
//! The item's home reports the shards that the publication goes to; each of them reports its count
//! after its last delivery. The publisher is answered after the last report.

use std::collections::BTreeMap;

use throng_broker::Refusal;
use throng_hub::ReplyTo;

/// Progress of an item on its way to the receivers.
#[derive(Clone, Copy, Debug)]
pub enum Heard {
    /// The item was not taken.
    Refused(Refusal),
    /// The item waits for the one before it; it goes out after the publisher was answered.
    Later,
    /// The item is on its way to this many shards.
    Shards(u32),
    /// Count of one shard, after its last delivery.
    Count(u64),
}

struct Open {
    reply_to: ReplyTo,
    shards: Option<u32>,
    heard: u32,
    sum: u64,
}

/// The receipts of this shard's publishers.
#[derive(Default)]
pub(crate) struct Receipts {
    open: BTreeMap<u64, Open>,
    next: u64,
}

impl Receipts {
    pub(crate) fn begin(&mut self, reply_to: ReplyTo) -> u64 {
        self.next += 1;
        let open = Open {
            reply_to,
            shards: None,
            heard: 0,
            sum: 0,
        };
        self.open.insert(self.next, open);
        self.next
    }

    /// Returns the publisher to answer, and the count, once that is certain.
    pub(crate) fn hear(
        &mut self,
        number: u64,
        news: Heard,
    ) -> Option<(ReplyTo, Result<Option<u64>, Refusal>)> {
        let open = self.open.get_mut(&number)?;
        let result = match news {
            Heard::Refused(refusal) => Err(refusal),
            Heard::Later => Ok(None),
            Heard::Shards(shards) => {
                open.shards = Some(shards);
                Ok(Some(open.sum))
            }
            Heard::Count(count) => {
                open.heard += 1;
                open.sum += count;
                Ok(Some(open.sum))
            }
        };
        if matches!(result, Ok(Some(_))) && open.shards != Some(open.heard) {
            return None;
        }
        let open = self.open.remove(&number)?;
        Some((open.reply_to, result))
    }
}

#[cfg(test)]
mod tests {
    use throng_types::ConnId;

    use super::*;

    #[track_caller]
    fn check(news: &[Heard], expected: Option<Result<Option<u64>, Refusal>>) {
        let mut receipts = Receipts::default();
        let reply_to = ReplyTo {
            conn: ConnId::from_bits(7),
            token: 3,
        };
        let number = receipts.begin(reply_to);
        let mut heard = None;
        for &news in news {
            assert_eq!(heard, None, "answered early");
            assert_eq!(receipts.hear(number + 1, news), None, "a stranger");
            heard = receipts.hear(number, news);
        }
        assert_eq!(heard, expected.map(|result| (reply_to, result)));
        assert_eq!(receipts.open.is_empty(), expected.is_some());
    }

    #[test]
    fn only_what_all_have_said_is_told() {
        use Heard::{Count, Later, Refused, Shards};
        check(&[Shards(0)], Some(Ok(Some(0))));
        check(&[Shards(2), Count(3)], None);
        check(&[Shards(2), Count(3), Count(0)], Some(Ok(Some(3))));
        // A shard may be faster than the home.
        check(&[Count(3), Count(4)], None);
        check(&[Count(3), Count(4), Shards(2)], Some(Ok(Some(7))));
        check(&[Later], Some(Ok(None)));
        check(&[Refused(Refusal::Busy)], Some(Err(Refusal::Busy)));
    }
}
