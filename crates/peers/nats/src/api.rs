//! JetStream's requests and answers in JSON (docs.nats.io, "JetStream API Reference").

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use throng_nats_protocol::{ApiError, Headers, answer};

use crate::record::Record;

/// The sequence is not the one that was expected: another publisher was first.
pub(crate) const WRONG_SEQUENCE: u64 = 10_071;
/// A stream of that name has another configuration.
pub(crate) const OTHER_CONFIG: u64 = 10_058;
pub(crate) const IMPOSSIBLE: u64 = ApiError::IMPOSSIBLE;
/// The header with the sequence that a message is stored behind, or not at all.
pub(crate) const EXPECTED: &str = "Nats-Expected-Last-Subject-Sequence";
/// The header with the token of a publication's idempotency key.
pub(crate) const KEY: &str = "Throng-Key";
/// The header with the traces of a message's items.
pub(crate) const TRACES: &str = "Throng-Traces";
/// Time for which an idempotency key is remembered, in milliseconds (Centrifugo: five minutes).
pub(crate) const KEY_TTL_MS: u64 = 300_000;

pub(crate) struct StreamSpec {
    pub(crate) name: String,
    pub(crate) subjects: String,
    /// Subject on which stored messages are sent on.
    pub(crate) republish: Option<String>,
    pub(crate) messages_max: u64,
    pub(crate) age_ms: u64,
    pub(crate) in_memory: bool,
    pub(crate) replicas: u8,
}

impl StreamSpec {
    /// Whether a stream is there as it is wanted, by the answer to `$JS.API.STREAM.INFO`.
    pub(crate) fn is_as_wanted(&self, payload: &[u8]) -> bool {
        let wanted: Value = serde_json::from_str(&self.config()).unwrap_or_default();
        let is_same = |config: &Value| {
            let mut wanted = wanted.as_object().into_iter().flatten();
            wanted.all(|(name, value)| match &config[name] {
                // NATS says no limit in this way.
                Value::Number(number) if value == 0 => number.as_i64().unwrap_or(1) <= 0,
                theirs => theirs == value,
            })
        };
        answer(payload).is_ok_and(|info| is_same(&info["config"]))
    }

    /// Returns the stream's configuration. `$JS.API.STREAM.CREATE` and `UPDATE` take it.
    pub(crate) fn config(&self) -> String {
        let mut config = json!({
            "name": self.name,
            "subjects": [self.subjects],
            "retention": "limits",
            "discard": "old",
            "storage": if self.in_memory { "memory" } else { "file" },
            "num_replicas": self.replicas,
            "max_msgs_per_subject": self.messages_max,
            "max_age": self.age_ms * 1_000_000,
            // No longer than messages may live.
            "duplicate_window": match self.age_ms {
                0 => KEY_TTL_MS,
                age_ms => age_ms.min(KEY_TTL_MS),
            } * 1_000_000,
            "allow_direct": true,
        });
        if let Some(dest) = &self.republish {
            config["republish"] = json!({ "src": self.subjects, "dest": dest });
        }
        config.to_string()
    }
}

/// An answer of which nothing but success matters.
pub(crate) fn done(payload: &[u8]) -> Result<(), ApiError> {
    answer(payload).map(|_| ())
}

pub(crate) fn purged(payload: &[u8]) -> Result<u64, ApiError> {
    answer(payload).map(|value| value["purged"].as_u64().unwrap_or_default())
}

/// Whether NATS tells of a stream that it still makes: what it says of when that was is the zero of
/// its clock.
pub(crate) fn is_being_made(payload: &[u8]) -> bool {
    answer(payload).is_ok_and(|info| info["created"] == "0001-01-01T00:00:00Z")
}

/// The sequence under which a message was stored. No message has an id for NATS to compare, so one
/// that NATS calls a duplicate, or stored without a sequence, was not stored: nats-server 2.10
/// answers so about a message of which it only remembers that it was refused.
pub(crate) fn stored(payload: &[u8]) -> Result<u64, ApiError> {
    let value = answer(payload)?;
    let is_duplicate = value["duplicate"] == true;
    let seq = value["seq"]
        .as_u64()
        .filter(|seq| *seq > 0 && !is_duplicate);
    seq.ok_or_else(|| ApiError {
        code: IMPOSSIBLE,
        text: String::from_utf8_lossy(payload).into_owned(),
    })
}

/// A message that the stream's leader gave, its sequence and its key; `None` if there is none.
pub(crate) fn message(payload: &[u8]) -> Option<Option<StoredMessage>> {
    let value = match answer(payload) {
        Ok(value) => value,
        Err(error) if error.code == 10_037 => return Some(None),
        Err(_) => return None,
    };
    let message = &value["message"];
    let bytes = |name: &str| STANDARD.decode(message[name].as_str().unwrap_or_default());
    let headers = bytes("hdrs").ok()?;
    Some(Some(StoredMessage {
        seq: message["seq"].as_u64()?,
        key: Headers::new(&headers).get(KEY).map(Into::into),
        payload: bytes("data").ok()?.into(),
    }))
}

/// A message as a stream keeps it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StoredMessage {
    pub(crate) seq: u64,
    /// The token of its idempotency key.
    pub(crate) key: Option<Box<str>>,
    pub(crate) payload: Box<[u8]>,
}

/// The subjects of a stream with a filter, and how many there are in all.
pub(crate) fn subjects(payload: &[u8]) -> Option<(Vec<String>, usize)> {
    let value = answer(payload).ok()?;
    let subjects = value["state"]["subjects"].as_object();
    let subjects: Vec<String> = subjects
        .into_iter()
        .flatten()
        .map(|(name, _)| name.clone())
        .collect();
    let total = value["total"].as_u64().unwrap_or_default() as usize;
    let total = total.max(subjects.len());
    Some((subjects, total))
}

#[derive(Debug)]
pub(crate) enum ChannelMessage {
    Nothing,
    /// Sequence, record, token of the idempotency key.
    Record(u64, Record, Option<Box<str>>),
    Strange,
}

impl ChannelMessage {
    pub(crate) fn new(given: Option<StoredMessage>) -> Self {
        let Some(StoredMessage { seq, key, payload }) = given else {
            return Self::Nothing;
        };
        match Record::decode(&payload).filter(|record| record.state.is_some()) {
            Some(record) => Self::Record(seq, record, key),
            None => Self::Strange,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read() {
        assert_eq!(stored(br#"{"stream":"S", "seq":2}"#).unwrap(), 2);
        for impossible in [
            &br#"{"stream":"S", "seq":0,"duplicate": true}"#[..],
            br#"{"stream":"S", "seq":2,"duplicate": true}"#,
            br#"{"stream":"S", "seq":0}"#,
            br#"{"stream":"S"}"#,
            b"+OK",
        ] {
            assert_eq!(stored(impossible).unwrap_err().code, IMPOSSIBLE);
        }
        let wrong = stored(br#"{"error":{"code":400,"err_code":10071,"description":"x"}}"#);
        assert_eq!(wrong.unwrap_err().code, WRONG_SEQUENCE);
        assert!(is_being_made(br#"{"created":"0001-01-01T00:00:00Z"}"#));
        assert!(!is_being_made(br#"{"created":"2026-11-23T11:55:40.1Z"}"#));
        let headers = STANDARD.encode("NATS/1.0\r\nThrong-Key: k\r\n\r\n");
        for (headers, key) in [(String::new(), None), (headers, Some("k".into()))] {
            let answer = format!(r#"{{"message":{{"seq":2,"hdrs":"{headers}","data":"aGk="}}}}"#);
            let payload = (*b"hi").into();
            let given = StoredMessage {
                seq: 2,
                key,
                payload,
            };
            assert_eq!(message(answer.as_bytes()), Some(Some(given)));
        }
        let none = message(br#"{"error":{"code":404,"err_code":10037}}"#);
        assert_eq!(none, Some(None));
        assert_eq!(message(b"{"), None);
        assert_eq!(purged(br#"{"success":true,"purged":2}"#).unwrap(), 2);
        assert!(purged(br#"{"error":{"code":503,"err_code":10008}}"#).is_err());
        let listed = subjects(br#"{"total":2,"state":{"subjects":{"a":1,"b":1}}}"#);
        assert_eq!(listed, Some((vec!["a".to_owned(), "b".to_owned()], 2)));
    }
}
