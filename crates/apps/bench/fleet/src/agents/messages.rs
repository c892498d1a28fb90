//! Messages of the protocol, and their frames: four bytes of length (big-endian), then so many
//! bytes of JSON, so that an older side can say what it did not understand. For that reason they
//! are not `throng_types::Save`, as other internal bytes are.

use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign, verify as verify_mac};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use throng_bench_measure::{DeliveryCounts, Histograms, RunCounters, Sample, Sums};
use throng_bench_plan::Scenario;
use throng_bench_report::MachineInfo;

/// Version of the protocol; both sides must have the same.
pub(crate) const PROTOCOL: u32 = 2;

/// Bytes of the largest message. A scenario and three histograms are far below.
pub(crate) const MESSAGE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Random 128 bits, written as hexadecimal digits.
pub(crate) type Nonce = u128;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum ToAgent {
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
    /// Ends the run early; the agent still reports.
    Stop,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum ToController {
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
pub(crate) struct Assignment {
    pub(crate) scenario: Scenario,
    /// Number of the part: every event whose number modulo `agents` is this.
    pub(crate) index: u32,
    pub(crate) agents: u32,
}

/// Rate of a search to try. Its times are those of the controller's clock, which an agent reads
/// from its own once it is started.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RateStep {
    /// Publications a second of all agents together.
    pub(crate) per_s: f64,
    pub(crate) begin_us: u64,
    /// Time from which none is due, µs.
    pub(crate) end_us: u64,
}

/// Report of an agent on an interval. Counts are totals so far, histograms are of the
/// interval, so that a lost agent's figures stay right up to its last report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Progress {
    pub(crate) sample: Sample,
    pub(crate) counters: RunCounters,
    pub(crate) deliveries: DeliveryCounts,
    #[serde(flatten)]
    pub(crate) interval: Histograms,
    pub(crate) sums: Sums,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProtocolError {
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

pub(crate) fn encode<T: Serialize>(message: &T, out: &mut Vec<u8>) -> Result<(), ProtocolError> {
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
pub(crate) fn decode<T: DeserializeOwned>(
    bytes: &[u8],
) -> Result<Option<(T, usize)>, ProtocolError> {
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Controller,
    Agent,
}

fn message(role: Side, agent: Nonce, controller: Nonce) -> Vec<u8> {
    let role: &[u8] = match role {
        Side::Controller => b"throng-bench 1 controller",
        Side::Agent => b"throng-bench 1 agent",
    };
    [role, &agent.to_be_bytes(), &controller.to_be_bytes()].concat()
}

fn key(token: &str) -> Key {
    Key::new(HMAC_SHA256, token.as_bytes())
}

pub(crate) fn proof(token: &str, role: Side, agent: Nonce, controller: Nonce) -> String {
    let tag = sign(&key(token), &message(role, agent, controller));
    let digits = tag.as_ref().iter().map(|byte| format!("{byte:02x}"));
    digits.collect()
}

/// Checks a proof, in a time that does not depend on how wrong it is.
pub(crate) fn verify(
    token: &str,
    role: Side,
    agent: Nonce,
    controller: Nonce,
    proof: &str,
) -> bool {
    let pairs = proof.as_bytes().chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return false;
    }
    let digits = pairs.map(|pair| {
        let digit = |byte: u8| char::from(byte).to_digit(16);
        Some((digit(pair[0])? << 4 | digit(pair[1])?) as u8)
    });
    let message = message(role, agent, controller);
    digits
        .collect::<Option<Vec<u8>>>()
        .is_some_and(|bytes| verify_mac(&key(token), &message, &bytes).is_ok())
}

pub(super) fn write_nonce(nonce: Nonce) -> String {
    format!("{nonce:032x}")
}

pub(super) fn read_nonce(text: &str) -> Option<Nonce> {
    let plain = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    plain.then(|| Nonce::from_str_radix(text, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_whole_from_every_split() {
        let messages = [
            ToAgent::Probe { sent_us: 5 },
            ToAgent::SearchOver,
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

    #[test]
    fn a_proof_is_right_for_its_token_role_and_nonces_alone() {
        let right = proof("secret", Side::Agent, 1, 2);
        assert_eq!(right.len(), 64);
        assert!(verify("secret", Side::Agent, 1, 2, &right));
        for (token, role, a, c) in [
            ("other", Side::Agent, 1, 2),
            ("secret", Side::Controller, 1, 2),
            ("secret", Side::Agent, 2, 1),
            ("", Side::Agent, 1, 2),
        ] {
            assert!(!verify(token, role, a, c, &right));
        }
        for wrong in ["", "0", &right[2..], "zz", &format!("{right}00"), "é"] {
            assert!(!verify("secret", Side::Agent, 1, 2, wrong), "{wrong}");
        }
    }

    #[test]
    fn nonces_have_one_form() {
        assert_eq!(read_nonce(&write_nonce(u128::MAX)), Some(u128::MAX));
        for wrong in [
            "",
            "1",
            &"g".repeat(32),
            &format!("+{}", "0".repeat(31)),
            &"0".repeat(33),
        ] {
            assert_eq!(read_nonce(wrong), None, "{wrong}");
        }
    }
}
