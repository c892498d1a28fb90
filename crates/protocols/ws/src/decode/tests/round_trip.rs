//! Random conversations, cut at random, arrive as they were meant.

use std::ops::ControlFlow;

use super::Seen;
use crate::{
    CloseFrame, Masking, Opcode, WsDecoder, WsError, WsLimits, WsRole, encode_close, encode_header,
    encode_message, encode_ping, encode_pong,
};
use proptest::collection::vec;
use proptest::prelude::*;

const LIMITS: WsLimits = WsLimits::new(1 << 20);

impl Seen {
    fn encode(&self, masking: Masking, out: &mut Vec<u8>) {
        match self {
            Self::Text(text) => encode_message(masking, Opcode::Text, text.as_bytes(), out),
            Self::Binary(data) => encode_message(masking, Opcode::Binary, data, out),
            Self::Ping(data) => encode_ping(masking, data, out),
            Self::Pong(data) => encode_pong(masking, data, out),
            Self::Close(frame) => {
                let frame = frame.as_ref().map(|(code, reason)| CloseFrame {
                    code: *code,
                    reason,
                });
                encode_close(masking, frame, out);
            }
        }
    }
}

/// A message in fragments, with control frames after some of them.
#[derive(Clone, Debug)]
struct Fragmented {
    message: Seen,
    cuts: Vec<prop::sample::Index>,
    between: Vec<Option<Seen>>,
}

impl Fragmented {
    /// Appends the frames, and to `said` what they say in the order of their ends.
    fn encode(&self, masking: Masking, out: &mut Vec<u8>, said: &mut Vec<Seen>) {
        let (opcode, data) = match &self.message {
            Seen::Text(text) => (Opcode::Text, text.as_bytes()),
            Seen::Binary(data) => (Opcode::Binary, &data[..]),
            control => unreachable!("{control:?} is not a message"),
        };
        let mut cuts: Vec<usize> = self
            .cuts
            .iter()
            .map(|cut| cut.index(data.len() + 1))
            .collect();
        cuts.sort_unstable();
        cuts.push(data.len());
        let mut start = 0;
        for (number, &end) in cuts.iter().enumerate() {
            let fragment_start = out.len();
            encode_message(masking, opcode, &data[start..end], out);
            if number + 1 < cuts.len() {
                out[fragment_start] &= 0x7f;
            }
            if number > 0 {
                out[fragment_start] &= 0xf0;
            }
            start = end;
            if let Some(Some(control)) =
                self.between.get(number).filter(|_| number + 1 < cuts.len())
            {
                control.encode(masking, out);
                said.push(control.clone());
            }
        }
        said.push(self.message.clone());
    }
}

fn control() -> impl Strategy<Value = Seen> {
    prop_oneof![
        vec(any::<u8>(), 0..=125).prop_map(Seen::Ping),
        vec(any::<u8>(), 0..=125).prop_map(Seen::Pong),
    ]
}

fn message() -> impl Strategy<Value = Seen> {
    prop_oneof![
        "\\PC{0,200}".prop_map(Seen::Text),
        vec(any::<u8>(), 0..400).prop_map(Seen::Binary),
        // Lengths around the borders of the encodings.
        (65_500_usize..65_600, any::<u8>()).prop_map(|(n, byte)| Seen::Binary(vec![byte; n])),
    ]
}

fn fragmented() -> impl Strategy<Value = Fragmented> {
    (
        message(),
        vec(any::<prop::sample::Index>(), 0..5),
        vec(proptest::option::of(control()), 5),
    )
        .prop_map(|(message, cuts, between)| Fragmented {
            message,
            cuts,
            between,
        })
}

fn close() -> impl Strategy<Value = Seen> {
    prop_oneof![
        Just(Seen::Close(None)),
        (3000_u16..5000, "\\PC{0,30}").prop_map(|(code, reason)| Seen::Close(Some((code, reason)))),
    ]
}

fn roles() -> impl Strategy<Value = (WsRole, Masking)> {
    prop_oneof![
        any::<[u8; 4]>().prop_map(|key| (WsRole::Server, Masking::Client(key))),
        Just((WsRole::Client, Masking::Server)),
    ]
}

/// Feeds `wire` in chunks whose lengths are those in `chunk_bytes`, over and over.
fn decode(role: WsRole, wire: &[u8], chunk_bytes: &[usize]) -> (Vec<Seen>, Option<WsError>, usize) {
    let mut decoder = WsDecoder::new(role);
    let mut said = Vec::new();
    let mut rest = wire;
    for &bytes in chunk_bytes.iter().cycle() {
        let (chunk, further) = rest.split_at(bytes.min(rest.len()));
        let fed = decoder.feed(&mut chunk.to_vec(), &LIMITS, |event| {
            said.push(event.into());
            ControlFlow::Continue(())
        });
        if let Err(fault) = fed {
            return (said, Some(fault), decoder.held_bytes());
        }
        rest = further;
        if rest.is_empty() {
            break;
        }
    }
    (said, None, decoder.held_bytes())
}

proptest! {
    #[test]
    fn conversations_arrive(
        (role, masking) in roles(),
        messages in vec(fragmented(), 0..6),
        end in proptest::option::of(close()),
        chunk_bytes in vec(1_usize..300, 1..20),
    ) {
        let mut wire = Vec::new();
        let mut said = Vec::new();
        for message in &messages {
            message.encode(masking, &mut wire, &mut said);
        }
        if let Some(end) = end {
            end.encode(masking, &mut wire);
            said.push(end);
        }
        prop_assert_eq!(decode(role, &wire, &chunk_bytes), (said, None, 0));
    }

    #[test]
    fn a_header_and_its_payload_are_a_message(
        data in vec(any::<u8>(), 0..70_000),
        opcode in prop_oneof![Just(Opcode::Text), Just(Opcode::Binary)],
    ) {
        let (mut whole, mut parts) = (Vec::new(), Vec::new());
        encode_message(Masking::Server, opcode, &data, &mut whole);
        encode_header(Masking::Server, opcode, data.len(), &mut parts);
        parts.extend_from_slice(&data);
        prop_assert_eq!(whole, parts);
    }

    #[test]
    fn bytes_are_text_exactly_if_std_says_so(
        // Bytes that make characters of all lengths, right and wrong, likely.
        data in vec(prop_oneof![
            Just(0x41_u8), Just(0x80), Just(0x90), Just(0xbf), Just(0xc3), Just(0xe0),
            Just(0xe2), Just(0xed), Just(0xf0), Just(0xf4), any::<u8>(),
        ], 0..12),
        padding in 0_usize..100,
        (role, masking) in roles(),
        chunk_bytes in vec(1_usize..50, 1..8),
        cuts in vec(any::<prop::sample::Index>(), 0..4),
    ) {
        let data = [&vec![b'x'; padding][..], &data].concat();
        let valid = String::from_utf8(data.clone());
        let mut wire = Vec::new();
        let as_binary = Fragmented { message: Seen::Binary(data), cuts, between: Vec::new() };
        as_binary.encode(masking, &mut wire, &mut Vec::new());
        // The first frame says binary (2): make it text (1).
        wire[0] ^= 0x3;
        let expected = match valid {
            Ok(text) => (vec![Seen::Text(text)], None, 0),
            Err(_) => (Vec::new(), Some(WsError::TextNotUtf8), 0),
        };
        prop_assert_eq!(decode(role, &wire, &chunk_bytes), expected);
    }

    #[test]
    fn noise_never_panics_and_cuts_do_not_matter(
        (role, _) in roles(),
        noise in vec(any::<u8>(), 0..200),
        first in prop_oneof![Just(0x81_u8), Just(0x01), Just(0x82), Just(0x89), Just(0x88)],
        chunk_bytes in vec(1_usize..20, 1..8),
    ) {
        let wire = [&[first][..], &noise].concat();
        let (said, fault, _) = decode(role, &wire, &[wire.len()]);
        let (said_in_chunks, fault_in_chunks, _) = decode(role, &wire, &chunk_bytes);
        prop_assert_eq!(said, said_in_chunks);
        prop_assert_eq!(fault, fault_in_chunks);
    }
}
