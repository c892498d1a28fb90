//! Frames: a length, the number of the request that is answered, the answer.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameFault {
    /// A frame declares so many bytes, which is more than is taken.
    TooLong(u32),
    /// A frame is too short to answer anything.
    TooShort,
}

/// Takes bytes in any pieces, gives frames.
#[derive(Debug)]
pub struct FrameSplitter {
    bytes_max: u32,
    /// Bound: one frame, and what one read brought with it.
    bytes: Vec<u8>,
    taken: usize,
}

impl FrameSplitter {
    /// Refuses frames that are longer than this, in bytes.
    #[must_use]
    pub const fn new(bytes_max: u32) -> Self {
        Self {
            bytes_max,
            bytes: Vec::new(),
            taken: 0,
        }
    }

    pub fn feed(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next frame, once it is whole: the number of the request, and the body of its
    /// response, for [`crate::Request::read`].
    ///
    /// # Errors
    /// [`FrameFault`]; nothing that follows can be read.
    pub fn next_frame(&mut self) -> Result<Option<(i32, Vec<u8>)>, FrameFault> {
        let rest = &self.bytes[self.taken..];
        let Some((length, rest)) = rest.split_first_chunk::<4>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(*length);
        if length > self.bytes_max {
            return Err(FrameFault::TooLong(length));
        }
        let Some(frame) = rest.get(..length as usize) else {
            return Ok(None);
        };
        let (correlation, body) = frame.split_first_chunk::<4>().ok_or(FrameFault::TooShort)?;
        let frame = (i32::from_be_bytes(*correlation), body.to_vec());
        self.taken += 4 + length as usize;
        if self.taken == self.bytes.len() {
            // A long answer's memory is given back.
            self.bytes = Vec::new();
            self.taken = 0;
        }
        Ok(Some(frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_the_same_in_any_two_pieces() {
        let bytes = b"\0\0\0\x06\0\0\0\x01ab\0\0\0\x04\0\0\0\x02";
        let frame = |correlation, body: &[u8]| (correlation, body.to_vec());
        for cut in 0..=bytes.len() {
            let (head, tail) = bytes.split_at(cut);
            let mut frames = FrameSplitter::new(6);
            let mut found = Vec::new();
            for piece in [head, tail] {
                frames.feed(piece);
                found.extend(std::iter::from_fn(|| frames.next_frame().unwrap()));
            }
            assert_eq!(found, [frame(1, b"ab"), frame(2, b"")], "cut at {cut}");
        }
    }

    #[test]
    fn a_frame_is_refused_by_its_length() {
        for (bytes, fault) in [
            (&b"\0\0\0\x07"[..], FrameFault::TooLong(7)),
            (b"\xff\xff\xff\xff", FrameFault::TooLong(u32::MAX)),
            (b"\0\0\0\x03abc", FrameFault::TooShort),
        ] {
            let mut frames = FrameSplitter::new(6);
            frames.feed(bytes);
            assert_eq!(frames.next_frame(), Err(fault), "{bytes:?}");
        }
    }
}
