//! Where a publication stands in its channel's stream.

use std::fmt;

/// The life of a stream. Offsets of different epochs cannot be compared.
///
/// The high half names the process that made the stream, the low half counts the
/// streams that this process has forgotten, so a stream that began anew never
/// carries an epoch that a client may still hold.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Epoch(pub u64);

impl Epoch {
    /// Reads the text form: 1 to 16 hexadecimal digits in lower case.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let canonical = !text.is_empty()
            && text.len() <= 16
            && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if !canonical {
            return None;
        }
        u64::from_str_radix(text, 16).ok().map(Self)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

impl fmt::Debug for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "epoch {self}")
    }
}

/// A place in a channel's stream: after the publication with this offset.
///
/// The first publication of an epoch has offset 1, so offset 0 is the place before all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Position {
    /// The life of the stream that `offset` counts in.
    pub epoch: Epoch,
    /// Rises by one with each publication.
    pub offset: u64,
}

impl Position {
    /// The place before everything, in whatever epoch the stream has: for who was never there.
    /// No stream has this epoch.
    pub const START: Self = Self {
        epoch: Epoch(u64::MAX),
        offset: 0,
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_have_one_text_form() {
        let epoch = Epoch(0xdead_beef_0000_0001);
        assert_eq!(Epoch::parse(&epoch.to_string()), Some(epoch));
        for wrong in ["", "DEAD", "+1", "1_0", "11112222333344445", "xyz"] {
            assert_eq!(Epoch::parse(wrong), None, "{wrong}");
        }
    }
}
