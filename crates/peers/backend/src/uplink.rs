//! Bytes behind a request: the rest of a body, or all that a client says after an upgrade.
//!
//! Rule for "full": each piece is reported when the kernel has taken it, and the sender stops while
//! too much is on its way. An exchange whose sender does not stop fails.
//!
//! On a link that was kept, the beginning of a body stays here, so that it can be sent once more on
//! a new one.

use std::collections::VecDeque;

use throng_http1::{LAST_CHUNK, encode_chunk};

/// Pieces behind a request that the backend has not taken. The gateway stops at 64 KiB and the
/// bytes of one turn's reads, so that even pieces of one byte fit. Queue: `uplink`.
pub const UPLINK_PIECES_MAX: usize = 1 << 17;
/// Bytes of a body that are kept to be sent once more.
const AGAIN_MAX: usize = 64 << 10;

#[derive(Default)]
pub(crate) struct Uplink {
    /// Pieces that were not written yet. Bound: [`UPLINK_PIECES_MAX`].
    pieces: VecDeque<Vec<u8>>,
    is_chunked: bool,
    /// Nothing more comes behind `pieces`.
    is_finished: bool,
    is_closed: bool,
    /// All that was written, while it can be sent again. Bound: [`AGAIN_MAX`].
    sent: Vec<u8>,
    /// Pieces that are written now are kept in `sent`.
    keeps: bool,
    /// Something was written that cannot be had again.
    is_spent: bool,
    /// Bytes of the piece that the kernel has not taken.
    pub(crate) untold: usize,
}

pub(crate) enum Step {
    Write(Vec<u8>),
    Wait,
    /// Everything was written, the last chunk included.
    Done,
}

impl Uplink {
    pub(crate) fn new(is_chunked: bool) -> Self {
        Self {
            is_chunked,
            ..Self::default()
        }
    }

    /// Takes a piece; false if there are too many.
    pub(crate) fn push(&mut self, piece: Vec<u8>) -> bool {
        let has_room = self.pieces.len() < UPLINK_PIECES_MAX;
        if has_room {
            self.pieces.push_back(piece);
        }
        has_room
    }

    pub(crate) const fn finish(&mut self) {
        self.is_finished = true;
    }

    /// Begins on a link; gives the bytes that were written to the one before. They are kept once
    /// more if this one, too, may be closing.
    pub(crate) fn begin(&mut self, is_kept: bool) -> Vec<u8> {
        let again = match is_kept {
            true => self.sent.clone(),
            false => std::mem::take(&mut self.sent),
        };
        self.keeps = is_kept;
        self.is_closed = false;
        self.framed(&again)
    }

    /// Whether all that was written can be had again.
    pub(crate) const fn is_whole(&self) -> bool {
        !self.is_spent
    }

    /// Gives the next bytes to write, once the kernel has those before.
    pub(crate) fn next(&mut self) -> Step {
        let Some(piece) = self.pieces.pop_front() else {
            let is_last = self.is_finished && self.is_chunked && !self.is_closed;
            self.is_closed = self.is_finished;
            return match (is_last, self.is_finished) {
                (true, _) => Step::Write(LAST_CHUNK.to_vec()),
                (false, true) => Step::Done,
                (false, false) => Step::Wait,
            };
        };
        self.untold = piece.len();
        if self.keeps && self.sent.len() + piece.len() <= AGAIN_MAX {
            self.sent.extend_from_slice(&piece);
        } else {
            (self.keeps, self.is_spent) = (false, true);
            self.sent = Vec::new();
        }
        Step::Write(self.framed(&piece))
    }

    fn framed(&self, bytes: &[u8]) -> Vec<u8> {
        if !self.is_chunked {
            return bytes.to_vec();
        }
        let mut chunk = Vec::with_capacity(bytes.len() + 16);
        encode_chunk(bytes, &mut chunk);
        chunk
    }
}
