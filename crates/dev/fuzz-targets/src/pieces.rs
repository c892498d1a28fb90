//! How targets with several inputs get them out of one row of bytes, and checks that several share.

use std::fmt::Debug;

use serde::de::IgnoredAny;

/// Cuts at NUL bytes, which texts do not need, so that mutations of one part leave the others
/// alone. The last part takes what is left; missing parts are empty.
pub(crate) fn parts<const N: usize>(input: &[u8]) -> [&[u8]; N] {
    let mut all = input.splitn(N, |&byte| byte == 0);
    std::array::from_fn(|_| all.next().unwrap_or_default())
}

/// Splits the input into texts at NUL; none if it is not UTF-8.
pub(crate) fn texts<const N: usize>(input: &[u8]) -> Option<[&str; N]> {
    let whole = std::str::from_utf8(input).ok()?;
    let mut all = whole.splitn(N, '\0');
    Some(std::array::from_fn(|_| all.next().unwrap_or_default()))
}

/// Wire and its two pieces, behind a byte that says where it is cut.
pub(crate) fn halved(input: &[u8]) -> Option<(&[u8], [&[u8]; 2])> {
    let [cut, wire @ ..] = input else {
        return None;
    };
    let halves = wire.split_at(usize::from(*cut).min(wire.len()));
    Some((wire, halves.into()))
}

/// All that a decoder finds in a wire that comes in pieces, and what is wrong behind it.
pub(crate) fn fed<D, T, E>(
    pieces: &[&[u8]],
    decoder: &mut D,
    feed: impl Fn(&mut D, &[u8]),
    next: impl Fn(&mut D) -> Result<Option<T>, E>,
) -> (Vec<T>, Option<E>) {
    let mut found = Vec::new();
    for piece in pieces {
        feed(decoder, piece);
        loop {
            match next(decoder) {
                Ok(Some(item)) => found.push(item),
                Ok(None) => break,
                Err(error) => return (found, Some(error)),
            }
        }
    }
    (found, None)
}

/// Some bytes of options, and a wire behind four lengths of pieces.
pub(crate) fn chopped<const OPTIONS: usize>(input: &[u8]) -> Option<([u8; OPTIONS], Wire<'_>)> {
    let (options, rest) = input.split_first_chunk()?;
    let (lengths, bytes) = rest.split_first_chunk::<4>()?;
    let lengths = lengths.map(|length| usize::from(length).max(1));
    Some((*options, Wire { bytes, lengths }))
}

/// Bytes that come in pieces of these lengths, used over and over.
#[derive(Clone, Copy)]
pub(crate) struct Wire<'i> {
    pub(crate) bytes: &'i [u8],
    pub(crate) lengths: [usize; 4],
}

impl<'i> Wire<'i> {
    fn pieces(&self, lengths: &[usize]) -> Vec<&'i [u8]> {
        let mut rest = self.bytes;
        let mut pieces = Vec::new();
        for &length in lengths.iter().cycle() {
            let (piece, behind) = rest.split_at(length.min(rest.len()));
            pieces.push(piece);
            rest = behind;
            if rest.is_empty() {
                return pieces;
            }
        }
        pieces
    }

    /// Checks that what is read does not depend on how the wire was cut; returns it.
    pub(crate) fn read<T: PartialEq + Debug>(&self, read: impl Fn(&[&'i [u8]]) -> T) -> T {
        let whole = read(&[self.bytes]);
        for lengths in [&self.lengths[..], &[1]] {
            assert_eq!(read(&self.pieces(lengths)), whole);
        }
        whole
    }
}

/// Whether this is exactly one JSON value, however deep.
pub(crate) fn is_json(text: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(text).is_ok()
}

/// `name=value` lines as pairs with unique names.
pub(crate) fn pairs(text: &str) -> Vec<(String, String)> {
    let mut out: Vec<(String, String)> = Vec::new();
    for (name, value) in text.lines().filter_map(|line| line.split_once('=')) {
        if out.iter().all(|(known, _)| known != name) {
            out.push((name.to_owned(), value.to_owned()));
        }
    }
    out
}
