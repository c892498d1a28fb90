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
use crate::{Fault, Masking, Opcode};

/// What ends each message and does not travel (section 7.2.1): an empty stored block, after which
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

    /// Whether the client has room for what we compress. If not, it gets everything as it is, and
    /// may compress what it sends.
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
/// [`Fault::NotDeflate`], or [`Fault::MessageTooBig`] as soon as there would be more than
/// `bytes_max` bytes.
pub(crate) fn inflate(data: &[u8], bytes_max: usize) -> Result<Vec<u8>, Fault> {
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
                    .map_err(|_| Fault::NotDeflate)?;
                if message.len() > bytes_max {
                    return Err(Fault::MessageTooBig);
                }
                let taken = (state.total_in() - taken) as usize;
                rest = &rest[taken..];
                match status {
                    // A block that calls itself the last one (section 7.2.3.5): others may follow.
                    Status::StreamEnd => state.reset(false),
                    _ if taken == 0 && message.len() == made => return Err(Fault::NotDeflate),
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
mod tests;
