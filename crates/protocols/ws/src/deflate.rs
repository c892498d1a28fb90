//! permessage-deflate (RFC 7692) without context takeover: each message is compressed by itself.
//!
//! So a message is compressed once for all who get it, and no connection has a window of its own:
//! what compresses and what inflates is there once for each thread, since its first use.
//!
//! Owns: the offer and the answer of the handshake, and a message's bytes in both directions.
//! Never: inflates more than it is allowed, or compresses what does not become smaller.

use std::cell::RefCell;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use crate::encode::{encode_message, encode_message_deflated};
use crate::{Masking, Opcode, WsError};

/// End of each message, which does not travel (section 7.2.1): an empty stored block, after which
/// the next one begins at a whole byte.
pub const TAIL: [u8; 4] = [0x00, 0x00, 0xff, 0xff];

/// A message that is shorter is sent as it is: it would hardly become smaller.
const DEFLATED_BYTES_MIN: usize = 96;

/// The window that everybody's bytes are made with, in bits.
const WINDOW_BITS: u8 = 15;

/// An offer of the client's that a server may agree to (section 7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeflateOffer {
    /// The largest window that the client has room for, in bits, if it says so.
    server_max_window_bits: Option<u8>,
}

impl DeflateOffer {
    /// The first of the offers that can be kept, of one value of `Sec-WebSocket-Extensions`.
    pub(crate) fn first_of(value: &str) -> Option<Self> {
        value.split(',').find_map(Self::parse)
    }

    /// An offer with each parameter at most once, and none that is unknown (section 7.1).
    fn parse(offer: &str) -> Option<Self> {
        let mut parts = offer.split(';').map(|part| part.trim_matches([' ', '\t']));
        if !parts.next()?.eq_ignore_ascii_case("permessage-deflate") {
            return None;
        }
        let mut seen = Vec::new();
        let mut server_max_window_bits = None;
        for part in parts {
            let (name, value) = match part.split_once('=') {
                Some((name, value)) => (name.trim_end(), Some(unquote(value.trim_start()))),
                None => (part, None),
            };
            match (name, value) {
                ("server_no_context_takeover" | "client_no_context_takeover", None) => {}
                ("client_max_window_bits", None) => {}
                ("client_max_window_bits", Some(bits)) => drop(window_bits(bits)?),
                ("server_max_window_bits", Some(bits)) => {
                    server_max_window_bits = Some(window_bits(bits)?);
                }
                _ => return None,
            }
            if seen.contains(&name) {
                return None;
            }
            seen.push(name);
        }
        Some(Self {
            server_max_window_bits,
        })
    }

    /// Tells whether the client has room for what we compress. If not, it gets everything as it is,
    /// and may compress what it sends.
    #[must_use]
    pub fn takes_ours(self) -> bool {
        self.server_max_window_bits
            .is_none_or(|bits| bits >= WINDOW_BITS)
    }

    /// Appends the value of the answer's `Sec-WebSocket-Extensions`.
    pub(crate) fn encode_answer(self, out: &mut Vec<u8>) {
        out.extend_from_slice(
            b"permessage-deflate; server_no_context_takeover; client_no_context_takeover",
        );
        if let Some(bits) = self.server_max_window_bits {
            out.extend_from_slice(format!("; server_max_window_bits={bits}").as_bytes());
        }
    }
}

/// 8 to 15, without a leading zero (section 7.1.2).
fn window_bits(value: &str) -> Option<u8> {
    let bits = value.parse().ok()?;
    ((8..=15).contains(&bits) && !value.starts_with(['0', '+'])).then_some(bits)
}

fn unquote(value: &str) -> &str {
    let inner = value.strip_prefix('"');
    inner
        .and_then(|inner| inner.strip_suffix('"'))
        .unwrap_or(value)
}

thread_local! {
    static DEFLATE: RefCell<Option<Compress>> = const { RefCell::new(None) };
    static INFLATE: RefCell<Option<Decompress>> = const { RefCell::new(None) };
}

/// Appends a server's message in one frame, compressed if that makes it shorter.
pub fn encode_deflated(opcode: Opcode, data: &[u8], out: &mut Vec<u8>) {
    match deflated(data) {
        Some(deflated) => encode_message_deflated(opcode, &deflated, out),
        None => encode_message(Masking::Server, opcode, data, out),
    }
}

/// The bytes of a message (section 7.2.1) without their [`TAIL`], if they are fewer than its own.
#[must_use]
pub fn deflated(data: &[u8]) -> Option<Vec<u8>> {
    if data.len() < DEFLATED_BYTES_MIN {
        return None;
    }
    let mut deflated = Vec::new();
    deflate(data, &mut deflated);
    (deflated.len() < data.len()).then_some(deflated)
}

/// Appends the bytes of a message (section 7.2.1), without their tail.
pub fn deflate(data: &[u8], out: &mut Vec<u8>) {
    DEFLATE.with_borrow_mut(|state| {
        let state = state.get_or_insert_with(|| Compress::new(Compression::default(), false));
        state.reset();
        let start = out.len();
        // Room for the answer in one go, mostly; a block that does not shrink is stored.
        out.reserve(data.len() / 2 + 64);
        loop {
            let rest = &data[state.total_in() as usize..];
            // In memory, and with room: it cannot fail.
            let done = state.compress_vec(rest, out, FlushCompress::Sync);
            debug_assert!(done.is_ok());
            if state.total_in() as usize == data.len() && out.len() < out.capacity() {
                break;
            }
            out.reserve(data.len() / 2 + 64);
        }
        if out[start..].ends_with(&TAIL) {
            out.truncate(out.len() - TAIL.len());
        }
    });
}

/// The message that a peer has compressed (section 7.2.2).
///
/// # Errors
///
/// [`WsError::NotDeflate`], or [`WsError::MessageTooBig`] as soon as there would be more than
/// `bytes_max` bytes.
pub(crate) fn inflate(data: &[u8], bytes_max: usize) -> Result<Vec<u8>, WsError> {
    INFLATE.with_borrow_mut(|state| {
        let state = state.get_or_insert_with(|| Decompress::new(false));
        state.reset(false);
        let mut message = Vec::new();
        for mut rest in [data, &TAIL] {
            while !rest.is_empty() {
                reserve(&mut message, rest.len(), bytes_max);
                let (taken, made) = (state.total_in(), message.len());
                let status = state
                    .decompress_vec(rest, &mut message, FlushDecompress::Sync)
                    .map_err(|_| WsError::NotDeflate)?;
                if message.len() > bytes_max {
                    return Err(WsError::MessageTooBig);
                }
                let taken = (state.total_in() - taken) as usize;
                rest = &rest[taken..];
                match status {
                    // A block that calls itself the last one (section 7.2.3.5): others may follow.
                    Status::StreamEnd => state.reset(false),
                    _ if taken == 0 && message.len() == made => return Err(WsError::NotDeflate),
                    _ => {}
                }
            }
        }
        Ok(message)
    })
}

/// Makes room for what the next bytes may become: some times as much, and never for much more than
/// is allowed.
fn reserve(message: &mut Vec<u8>, input_bytes: usize, bytes_max: usize) {
    if message.len() == message.capacity() {
        let wanted = (message.len() + 4 * input_bytes).max(256);
        let end = wanted
            .min(bytes_max.saturating_add(1))
            .max(message.len() + 1);
        message.reserve_exact(end - message.len());
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use proptest::prelude::*;

    use super::*;
    use crate::{WsDecoder, WsEvent, WsLimits, WsRole, encode_header};

    const MAX: usize = 4096;

    fn deflated(data: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        deflate(data, &mut out);
        out
    }

    /// A client's frame, whose mask of zeros leaves the payload as it is.
    fn frame(first_byte: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = Vec::new();
        encode_header(
            Masking::Client([0; 4]),
            Opcode::Text,
            payload.len(),
            &mut frame,
        );
        frame[0] = first_byte;
        frame.extend_from_slice(payload);
        frame
    }

    fn read(bytes: &[u8], cut: usize, deflates: bool) -> Result<Vec<(Opcode, Vec<u8>)>, WsError> {
        let limits = WsLimits {
            message_bytes_max: MAX,
            deflates,
        };
        let mut decoder = WsDecoder::new(WsRole::Server);
        let mut messages = Vec::new();
        for piece in bytes.to_vec().chunks_mut(cut) {
            decoder.feed(piece, &limits, |event| {
                if let WsEvent::Message { opcode, data } = event {
                    messages.push((opcode, data.to_vec()));
                }
                ControlFlow::Continue(())
            })?;
        }
        assert_eq!(decoder.held_bytes(), 0);
        Ok(messages)
    }

    #[test]
    fn the_example_of_the_standard_is_read() {
        // RFC 7692 sections 7.2.3.1, 7.2.3.3, 7.2.3.4 and 7.2.3.5.
        let hello = [
            &[0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00][..],
            &[
                0x00, 0x05, 0x00, 0xfa, 0xff, 0x48, 0x65, 0x6c, 0x6c, 0x6f, 0x00,
            ],
            &[0xf3, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00, 0x00],
            &[
                0xf2, 0x48, 0x05, 0x00, 0x00, 0x00, 0xff, 0xff, 0xca, 0xc9, 0xc9, 0x07, 0x00,
            ],
        ];
        for bytes in hello {
            assert_eq!(
                inflate(bytes, MAX).as_deref(),
                Ok(&b"Hello"[..]),
                "{bytes:x?}"
            );
            let whole = read(&frame(0xc1, bytes), 1024, true);
            assert_eq!(whole, Ok(vec![(Opcode::Text, b"Hello".to_vec())]));
        }
    }

    #[test]
    fn what_a_few_bytes_become_is_bounded() {
        let bomb = deflated(&vec![b'a'; 10_000_000]);
        assert!(bomb.len() < 20_000);
        assert_eq!(inflate(&bomb, MAX), Err(WsError::MessageTooBig));
        assert_eq!(
            inflate(&deflated(&[b'a'; MAX + 1]), MAX),
            Err(WsError::MessageTooBig)
        );
        assert_eq!(inflate(&deflated(&[b'a'; MAX]), MAX), Ok(vec![b'a'; MAX]));
        assert_eq!(inflate(&deflated(b""), 0), Ok(Vec::new()));
    }

    #[test]
    fn a_fault_leaves_nothing_behind() {
        assert_eq!(inflate(b"\xff\xff\xff", MAX), Err(WsError::NotDeflate));
        assert_eq!(inflate(&deflated(b"next"), MAX), Ok(b"next".to_vec()));
        let not_text = frame(0xc1, &deflated(b"\xff\xfe"));
        assert_eq!(read(&not_text, 3, true), Err(WsError::TextNotUtf8));
        assert_eq!(
            read(&frame(0xc2, b"\xff\xff\xff"), 9, true),
            Err(WsError::NotDeflate)
        );
    }

    #[test]
    fn the_bit_needs_an_agreement_and_the_first_frame() {
        let hello = deflated(b"Hello");
        assert_eq!(
            read(&frame(0xc1, &hello), 99, false),
            Err(WsError::ReservedBits)
        );
        for other in [0x20, 0x10] {
            assert_eq!(
                read(&frame(0xc1 | other, &hello), 99, true),
                Err(WsError::ReservedBits)
            );
        }
        assert_eq!(
            read(&frame(0xc9, b""), 99, true),
            Err(WsError::ReservedBits)
        );
        let mut second = frame(0x41, &hello[..2]);
        second.extend(frame(0xc0, &hello[2..]));
        assert_eq!(read(&second, 99, true), Err(WsError::ReservedBits));
        // What is not compressed may still come.
        let plain = read(&frame(0x81, b"plain"), 2, true);
        assert_eq!(plain, Ok(vec![(Opcode::Text, b"plain".to_vec())]));
    }

    #[test]
    fn what_does_not_shrink_is_sent_as_it_is() {
        let mut short = Vec::new();
        encode_deflated(Opcode::Text, &[b'a'; DEFLATED_BYTES_MIN - 1], &mut short);
        assert_eq!(short[0], 0x81);
        let mut repeated = Vec::new();
        encode_deflated(Opcode::Text, &[b'a'; DEFLATED_BYTES_MIN], &mut repeated);
        assert_eq!(repeated[0], 0xc1);
        assert!(repeated.len() < 16);
        let noise: Vec<u8> = (0..200_u32)
            .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect();
        let mut noisy = Vec::new();
        encode_deflated(Opcode::Binary, &noise, &mut noisy);
        assert_eq!(noisy[0], 0x82);
    }

    /// Keeps bytes that do not shrink: compressed, they would cost the client its time.
    #[test]
    fn what_only_stays_as_long_is_sent_as_it_is() {
        let mut state = 1_u32;
        let random = std::iter::from_fn(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            Some((state >> 24) as u8)
        });
        let mut data: Vec<u8> = random.take(200).collect();
        let mut is_as_long = false;
        // With each zero it shrinks better.
        for zeros in 0..40 {
            let bytes = deflated(&data).len();
            is_as_long |= bytes == data.len();
            let mut out = Vec::new();
            encode_deflated(Opcode::Binary, &data, &mut out);
            let is_compressed = out[0] & 0x40 != 0;
            assert_eq!(is_compressed, bytes < data.len(), "{zeros} zeros");
            data.push(0);
        }
        assert!(is_as_long);
    }

    #[test]
    fn the_first_offer_that_can_be_kept_is_answered() {
        const ANSWER: &str =
            "permessage-deflate; server_no_context_takeover; client_no_context_takeover";
        let lines = include_str!("offers.txt").lines();
        let lines: Vec<&str> = lines.filter(|line| !line.starts_with('#')).collect();
        for line in &lines {
            let (offers, expected) = line.split_once(" =>").expect("OFFERS => ANSWER");
            let answered = DeflateOffer::first_of(offers).map(|offer| {
                let mut answer = Vec::new();
                offer.encode_answer(&mut answer);
                let answer = String::from_utf8(answer).unwrap();
                let more = answer.strip_prefix(ANSWER).expect("the fixed part");
                format!("{}{more}", offer.takes_ours())
            });
            assert_eq!(
                answered.unwrap_or_default(),
                expected.trim_start(),
                "{offers}"
            );
        }
        assert_eq!(lines.len(), 14);
    }

    proptest! {
        #[test]
        fn what_was_compressed_is_read_however_it_was_cut(
            text in "[a-c]{0,600}|\\PC{0,200}",
            cut in 1_usize..50,
            fragment in 1_usize..700,
        ) {
            let data = deflated(text.as_bytes());
            prop_assert_eq!(inflate(&data, MAX), Ok(text.as_bytes().to_vec()));
            let pieces: Vec<&[u8]> = data.chunks(fragment).collect();
            let mut frames = Vec::new();
            for (at, piece) in pieces.iter().enumerate() {
                let first = if at == 0 { 0x41 } else { 0 };
                let fin = if at + 1 == pieces.len() { 0x80 } else { 0 };
                frames.extend(frame(fin | first, piece));
            }
            let read = read(&frames, cut, true);
            prop_assert_eq!(read, Ok(vec![(Opcode::Text, text.into_bytes())]));
        }

        #[test]
        fn any_bytes_end_and_stay_bounded(data in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(message) = inflate(&data, MAX) {
                prop_assert!(message.len() <= MAX);
            }
        }
    }
}
