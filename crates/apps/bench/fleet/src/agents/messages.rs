//! Messages of the protocol, and their frames: four bytes of length (big-endian), then so many
//! bytes of JSON, so that an older side can say what it did not understand. For that reason they
//! are not `throng_types::Save`, as other internal bytes are.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use throng_bench_measure::{Counters, DeliveryCounts, Histograms, Sample, Sums};
use throng_bench_plan::Scenario;
use throng_bench_report::MachineInfo;

/// Version of the protocol; both sides must have the same.
pub const PROTOCOL: u32 = 2;

/// Bytes of the largest message. A scenario and three histograms are far below.
pub const MESSAGE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Random 128 bits, written as hexadecimal digits.
pub type Nonce = u128;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToAgent {
    Hello {
        protocol: u32,
        nonce: String,
        proof: String,
    },
    Probe {
        /// Controller's clock when it was sent, µs.
        sent_us: u64,
    },
    Assign(Box<Assignment>),
    Start {
        /// Agent's clock at the run's zero, µs.
        at_us: u64,
        /// Agent's clock minus the controller's, to subtract from every stamp, µs.
        offset_us: i64,
    },
    Step(RateStep),
    SearchOver,
    /// Drops all connections: a storm begins.
    DropAll,
    /// Ends the run early; the agent still reports.
    Stop,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToController {
    Challenge {
        protocol: u32,
        nonce: String,
    },
    Welcome {
        proof: String,
        machine: MachineInfo,
    },
    Refused {
        /// Sentence that says what to change.
        reason: String,
    },
    ProbeReply {
        sent_us: u64,
        /// Agent's clock when the probe came, µs.
        received_us: u64,
        /// Agent's clock when this left, µs.
        replied_us: u64,
    },
    Ready,
    Cannot {
        /// Limit that binds, in a sentence.
        reason: String,
    },
    Progress(Box<Progress>),
    /// Ends a step; the progress before this has all of its deliveries.
    StepDone,
    Done,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Assignment {
    pub scenario: Scenario,
    /// Number of the part: every event whose number modulo `agents` is this.
    pub index: u32,
    pub agents: u32,
}

/// Rate of a search to try. Its times are those of the controller's clock, which an agent reads
/// from its own once it is started.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RateStep {
    /// Publications a second of all agents together.
    pub per_s: f64,
    pub begin_us: u64,
    /// Time from which none is due, µs.
    pub end_us: u64,
}

/// Report of an agent on an interval. Counts are totals so far, histograms are of the
/// interval, so that a lost agent's figures stay right up to its last report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    pub sample: Sample,
    pub counters: Counters,
    pub deliveries: DeliveryCounts,
    #[serde(flatten)]
    pub interval: Histograms,
    pub sums: Sums,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    #[error("it declared a message of {0} bytes, {MESSAGE_BYTES_MAX} are allowed")]
    TooLong(usize),
    #[error("it sent something that is not a message: {0}")]
    Malformed(String),
    #[error("it sent `{0}` at the wrong moment")]
    Unexpected(&'static str),
    #[error("it does not know the token")]
    WrongToken,
    #[error(
        "it speaks version {0} of the protocol, we speak {PROTOCOL}; use the same version of \
         throng on all machines"
    )]
    Version(u32),
    #[error("it refused: {0}")]
    Refused(String),
}

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
