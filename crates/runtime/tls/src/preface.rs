//! Bytes with which a connection begins before TLS does, such as the header of a proxy.
//!
//! Never: knows what it means; the owner of the port says where it ends, and gets the bytes as the
//! first ones that the peer said.

/// Says how long what stands at the beginning of these bytes is; `None` while it is not whole.
///
/// It must come to an end: bytes are kept until it has an answer.
///
/// # Errors
/// A sentence on why the connection does not begin as it must.
pub type PrefaceLength = fn(&[u8]) -> Result<Option<usize>, &'static str>;

/// The preface of one connection.
pub(crate) struct Preface {
    length: PrefaceLength,
    /// Bound: what [`PrefaceLength`] takes for a beginning, and one read.
    bytes: Vec<u8>,
    is_whole: bool,
}

impl Preface {
    pub(crate) const fn new(length: PrefaceLength) -> Self {
        Self {
            length,
            bytes: Vec::new(),
            is_whole: false,
        }
    }

    /// Takes bytes; gives those behind the preface once it is whole.
    pub(crate) fn take(&mut self, input: &[u8]) -> Result<Option<Vec<u8>>, &'static str> {
        if self.is_whole {
            return Ok(Some(input.to_vec()));
        }
        self.bytes.extend_from_slice(input);
        let Some(length) = (self.length)(&self.bytes)? else {
            return Ok(None);
        };
        let rest = self.bytes.split_off(length.min(self.bytes.len()));
        self.is_whole = true;
        Ok(Some(rest))
    }

    /// Returns the preface alone, without bytes behind it.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
