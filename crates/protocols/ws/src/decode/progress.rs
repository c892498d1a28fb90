//! What is kept of a message or control frame that has arrived in part.
//!
//! Owns the bytes. Never: reserves memory because a header declared a length.

use crate::frame::{Header, Kind};
use crate::mask::Mask;
use crate::{Fault, Opcode};

/// What is kept while something has arrived in part.
#[derive(Default)]
pub(super) struct Progress {
    /// The open message so far, then the control frame that stands within it so far.
    pub(super) bytes: Vec<u8>,
    /// What the open message holds; none if only a control frame is in progress.
    pub(super) message: Option<Opcode>,
    /// Whether the open message is compressed.
    pub(super) deflated: bool,
    /// The length of the part of `bytes` that is whole, valid characters of a text.
    pub(super) text_bytes: usize,
    /// The frame whose payload is arriving; none between the fragments of a message.
    pub(super) frame: Option<PartialFrame>,
}

/// A frame of whose payload more is to come.
#[derive(Clone, Copy)]
pub(super) struct PartialFrame {
    pub(super) kind: Kind,
    pub(super) fin: bool,
    /// The mask, turned to the next byte.
    pub(super) mask: Mask,
    /// Where the payload starts in [`Progress::bytes`].
    pub(super) start: usize,
    /// How much of the payload has not arrived.
    pub(super) bytes_left: usize,
}

impl PartialFrame {
    pub(super) const fn is_control(&self) -> bool {
        matches!(self.kind, Kind::Control(_))
    }
}

impl Progress {
    /// Opens a frame, and the message if it is the first one.
    pub(super) fn begin(&mut self, header: &Header) -> PartialFrame {
        if let Kind::Start(opcode) = header.kind {
            self.message = Some(opcode);
            self.deflated = header.deflated;
        }
        PartialFrame {
            kind: header.kind,
            fin: header.fin,
            mask: header.mask,
            start: self.bytes.len(),
            bytes_left: header.payload_bytes,
        }
    }

    /// Adds `chunk`, unmasked, to what has arrived of `frame`.
    pub(super) fn append(
        &mut self,
        chunk: &[u8],
        frame: &mut PartialFrame,
        message_bytes_max: usize,
    ) {
        frame.bytes_left -= chunk.len();
        let end = self.bytes.len() + chunk.len();
        // No larger than the frame can make it, if nothing can follow the frame.
        let end_max = if frame.fin {
            end.saturating_add(frame.bytes_left)
        } else {
            message_bytes_max
        };
        self.grow(end, end_max);
        let start = self.bytes.len();
        self.bytes.extend_from_slice(chunk);
        frame.mask.apply(&mut self.bytes[start..]);
    }

    /// Makes room for `end` bytes, and by doubling for as many again, but for no more than
    /// `end_max` without need: memory follows the bytes that came, not those declared.
    pub(super) fn grow(&mut self, end: usize, end_max: usize) {
        if end > self.bytes.capacity() {
            let target = (2 * self.bytes.capacity()).max(GROWTH_BYTES_MIN);
            let target = target.min(end_max).max(end);
            self.bytes.reserve_exact(target - self.bytes.len());
        }
    }

    /// Fails on the first byte that cannot belong to a text, however the text was cut
    /// (RFC 6455 section 8.1), and on a character that `message_ends` cuts short.
    pub(super) fn check_text(&mut self, message_ends: bool) -> Result<(), Fault> {
        if self.message != Some(Opcode::Text) || self.deflated {
            return Ok(());
        }
        let unchecked = &self.bytes[self.text_bytes..];
        match simdutf8::compat::from_utf8(unchecked) {
            Ok(_) => self.text_bytes = self.bytes.len(),
            // The end of the bytes, not a wrong one among them: the rest may still come.
            Err(error) if error.error_len().is_none() && !message_ends => {
                self.text_bytes += error.valid_up_to();
            }
            Err(_) => return Err(Fault::TextNotUtf8),
        }
        Ok(())
    }
}

/// The least room that is made at once.
pub(super) const GROWTH_BYTES_MIN: usize = 64;
