//! JetStream's answers to requests, and the place of a message that a consumer delivers, from the
//! subject for its answer (docs.nats.io, "JetStream wire API Reference").

use serde_json::Value;

use crate::decode::number;

/// JetStream's error in place of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// JetStream's number for it, or [`Self::IMPOSSIBLE`].
    pub code: u64,
    pub text: String,
}

impl ApiError {
    /// Not a number of NATS's: the answer cannot be read, or contradicts itself.
    pub const IMPOSSIBLE: u64 = 0;
}

/// Reads an answer.
///
/// # Errors
/// The error that it carries, or that it cannot be read.
pub fn answer(payload: &[u8]) -> Result<Value, ApiError> {
    let unread = |_| ApiError {
        code: ApiError::IMPOSSIBLE,
        text: "an answer that cannot be read".to_owned(),
    };
    let value: Value = serde_json::from_slice(payload).map_err(unread)?;
    match value.get("error") {
        None => Ok(value),
        Some(error) => Err(ApiError {
            code: error["err_code"].as_u64().unwrap_or_default(),
            text: error["description"].as_str().unwrap_or_default().to_owned(),
        }),
    }
}

/// The place of a message in its stream and in what its consumer has delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageMetadata {
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

impl MessageMetadata {
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
    fn an_answer_is_an_object_or_an_error() {
        assert_eq!(answer(b"{\"a\":1}").map(|it| it["a"] == 1), Ok(true));
        let refused = br#"{"error":{"code":404,"err_code":10014,"description":"no consumer"}}"#;
        let error = answer(refused).expect_err("an error");
        assert_eq!((error.code, &*error.text), (10_014, "no consumer"));
        let error = answer(b"{").expect_err("an error");
        assert_eq!(error.code, ApiError::IMPOSSIBLE);
    }

    #[test]
    fn a_reply_says_where_a_message_stands() {
        let expected = Some(MessageMetadata {
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
            assert_eq!(MessageMetadata::read(good), expected, "{good}");
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
            assert_eq!(MessageMetadata::read(wrong), None, "{wrong}");
        }
    }
}
