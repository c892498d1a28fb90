//! The place of a message that a consumer of JetStream delivers, from the subject for its answer
//! (docs.nats.io, "JetStream wire API Reference", acknowledgements).

use crate::decode::number;

/// The place of a message in its stream and in what its consumer has delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Deliveries of this message, this one included.
    pub times: u64,
    /// The message's number in the stream; from 1 on.
    pub stream_seq: u64,
    /// The number of the delivery: one more than that of the consumer's delivery before.
    pub consumer_seq: u64,
    /// Time at which the message was stored, in nanoseconds since 1970.
    pub time_ns: u64,
    /// Messages behind it that the consumer had never delivered.
    pub undelivered: u64,
}

impl Delivery {
    /// Reads `$JS.ACK.stream.consumer.times.stream_seq.consumer_seq.time.undelivered`; newer
    /// servers may put a domain and the hash of an account before the stream, and add a word.
    /// `None` for another subject.
    #[must_use]
    pub fn read(reply: &str) -> Option<Self> {
        let rest = reply.strip_prefix("$JS.ACK.")?;
        let before = match rest.split('.').count() {
            7 => 2,
            // As soon as there is a domain, there may be more words behind it.
            9.. => 4,
            _ => return None,
        };
        let mut words = rest.split('.').skip(before);
        let mut number = || words.next().and_then(number);
        let (times, stream_seq, consumer_seq, time_ns) =
            (number()?, number()?, number()?, number()?);
        Some(Self {
            times,
            stream_seq,
            consumer_seq,
            time_ns,
            undelivered: number()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_says_where_a_message_stands() {
        let expected = Some(Delivery {
            times: 2,
            stream_seq: 70,
            consumer_seq: 90,
            time_ns: 1_795_422_307_536_849_012,
            undelivered: 5,
        });
        for good in [
            "$JS.ACK.S.C.2.70.90.1795422307536849012.5",
            "$JS.ACK._.ACCHASH.S.C.2.70.90.1795422307536849012.5",
            "$JS.ACK.hub.ACCHASH.S.C.2.70.90.1795422307536849012.5.a1b2",
        ] {
            assert_eq!(Delivery::read(good), expected, "{good}");
        }
        for wrong in [
            "",
            "_INBOX.1",
            "$JS.ACK.",
            "$JS.ACK.S.C.2.70.90.1795422307536849012",
            "$JS.ACK.S.C.2.70.90.1795422307536849012.5.6",
            "$JS.ACK.S.C.2.-70.90.1795422307536849012.5",
            "$JS.ACK.S.C.2.70.+90.1.5",
            "$JS.ACK.S.C.2.70.18446744073709551616.1.5",
        ] {
            assert_eq!(Delivery::read(wrong), None, "{wrong}");
        }
    }
}
