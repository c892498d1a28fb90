//! Codec of frames: four bytes of length (big-endian), then so many bytes of JSON.
//!
//! Not `throng_types::Save`, as other internal bytes: controller and agents may be of different
//! versions, and JSON's names let either say what it did not understand; the messages are made of
//! types that are JSON in scenarios and results already.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::PROTOCOL;

/// Bytes of the largest message. A scenario and three histograms are far below.
pub const MESSAGE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Fault of the other side.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// Declared length above [`MESSAGE_BYTES_MAX`].
    #[error("it declared a message of {0} bytes, {MESSAGE_BYTES_MAX} are allowed")]
    TooLong(usize),
    /// Bytes that are not the JSON of a message.
    #[error("it sent something that is not a message: {0}")]
    Malformed(String),
    /// Message at the wrong moment.
    #[error("it sent `{0}` at the wrong moment")]
    Unexpected(&'static str),
    /// Proof of another token.
    #[error("it does not know the token")]
    WrongToken,
    /// Another version of the protocol.
    #[error(
        "it speaks version {0} of the protocol, we speak {PROTOCOL}; use the same version of \
         throng on all machines"
    )]
    Version(u32),
    /// Refusal of this side, with its reason.
    #[error("it refused: {0}")]
    Refused(String),
}

/// Appends a message as a frame.
pub fn encode<T: Serialize>(message: &T, out: &mut Vec<u8>) -> Result<(), ProtocolError> {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    let written = serde_json::to_writer(&mut *out, message);
    let length = out.len() - start - 4;
    let outcome = match written {
        Err(error) => Err(ProtocolError::Malformed(error.to_string())),
        Ok(()) if length > MESSAGE_BYTES_MAX => Err(ProtocolError::TooLong(length)),
        Ok(()) => Ok(()),
    };
    match (&outcome, out.get_mut(start..start + 4)) {
        (Ok(()), Some(head)) => head.copy_from_slice(&(length as u32).to_be_bytes()),
        _ => out.truncate(start),
    }
    outcome
}

/// Reads the first message of `bytes`, with its length in bytes; `None` until it is whole.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<Option<(T, usize)>, ProtocolError> {
    let Some((head, rest)) = bytes.split_first_chunk::<4>() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes(*head) as usize;
    if length > MESSAGE_BYTES_MAX {
        return Err(ProtocolError::TooLong(length));
    }
    let Some(json) = rest.get(..length) else {
        return Ok(None);
    };
    serde_json::from_slice(json)
        .map(|message| Some((message, 4 + length)))
        .map_err(|error| ProtocolError::Malformed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::{ToAgent, ToController};

    #[test]
    fn messages_come_back_whole_from_every_split() {
        let messages = [
            ToAgent::Probe { sent_us: 5 },
            ToAgent::DropAll,
            ToAgent::Start {
                at_us: 9,
                offset_us: -3,
            },
        ];
        let mut wire = Vec::new();
        for message in &messages {
            encode(message, &mut wire).unwrap();
        }
        for cut in 0..=wire.len() {
            let mut buffer = Vec::new();
            let mut got = Vec::new();
            for part in [&wire[..cut], &wire[cut..]] {
                buffer.extend_from_slice(part);
                while let Some((message, used)) = decode::<ToAgent>(&buffer).unwrap() {
                    got.push(message);
                    buffer.drain(..used);
                }
            }
            assert_eq!(got, messages, "cut at {cut}");
            assert!(buffer.is_empty());
        }
    }

    #[test]
    fn wrong_frames_are_refused_early() {
        let declared = MESSAGE_BYTES_MAX + 1;
        let head = (declared as u32).to_be_bytes();
        assert_eq!(
            decode::<ToAgent>(&head),
            Err(ProtocolError::TooLong(declared))
        );
        for json in ["", "{}", "{\"type\":\"x\"}", "[]", "\u{0}"] {
            let mut wire = (json.len() as u32).to_be_bytes().to_vec();
            wire.extend_from_slice(json.as_bytes());
            assert!(matches!(
                decode::<ToController>(&wire),
                Err(ProtocolError::Malformed(_))
            ));
        }
        let mut out = b"kept".to_vec();
        let huge = "x".repeat(MESSAGE_BYTES_MAX);
        assert!(encode(&huge, &mut out).is_err());
        assert_eq!(out, b"kept");
    }
}
