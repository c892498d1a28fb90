//! Bytes encoded once and queued on many connections of one shard.

use std::cell::OnceCell;
use std::ops::Deref;
use std::rc::Rc;

/// A delivery in its wire form, shared by reference inside one shard.
///
/// Cloning counts a reference without an atomic operation, which is why a frame
/// never leaves its shard; what crosses shards is the publication.
#[derive(Clone, Debug)]
pub struct Frame(Rc<[u8]>);

impl Frame {
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    /// Tells whether both are the same frame, not merely equal bytes.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    /// Number of references to it; at least one.
    #[must_use]
    pub fn holders(&self) -> usize {
        Rc::strong_count(&self.0)
    }
}

impl Deref for Frame {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// Deliveries in their wire form, one after the other. Frames are made of them only when somebody
/// has to keep one: whoever can write at once needs the bytes alone.
#[derive(Debug, Default)]
pub struct Frames {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    made: OnceCell<Vec<Frame>>,
}

impl Frames {
    /// Appends one more, as `write` appends it to a buffer.
    pub fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.made.take();
        write(&mut self.bytes);
        self.ends.push(self.bytes.len());
    }

    /// Number of frames, made or not.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.ends.len()
    }

    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Makes each frame by itself, once.
    #[must_use]
    pub fn each(&self) -> &[Frame] {
        self.made.get_or_init(|| {
            let starts = std::iter::once(0).chain(self.ends.iter().copied());
            let pieces = starts.zip(&self.ends);
            pieces
                .map(|(start, &end)| Frame::new(&self.bytes[start..end]))
                .collect()
        })
    }

    /// Forgets them, and keeps at most so many bytes of memory for the next ones.
    pub fn clear(&mut self, kept_bytes: usize) {
        self.made.take();
        self.bytes.clear();
        self.bytes.shrink_to(kept_bytes);
        self.ends.clear();
        self.ends.shrink_to(kept_bytes / size_of::<usize>());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_made_once_and_anew_after_a_change() {
        let mut frames = Frames::default();
        for piece in [&b"one"[..], b"", b"three"] {
            frames.push(|out| out.extend_from_slice(piece));
        }
        let texts = |frames: &Frames| -> Vec<Vec<u8>> {
            frames.each().iter().map(|frame| frame.to_vec()).collect()
        };
        assert_eq!(texts(&frames), [&b"one"[..], b"", b"three"]);
        assert!(frames.each()[0].same(&frames.each()[0]));
        assert_eq!((frames.bytes(), frames.len()), (&b"onethree"[..], 3));
        frames.push(|out| out.push(b'!'));
        assert_eq!(texts(&frames).len(), 4);
        frames.clear(0);
        assert!(frames.is_empty() && frames.bytes().is_empty() && frames.each().is_empty());
    }
}
