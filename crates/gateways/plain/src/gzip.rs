//! gzip for a stream with many subscribers (RFC 1951, RFC 1952): each piece is whole blocks without
//! references to earlier data.
//!
//! So a publication is compressed once for all its receivers, in any order and after any other
//! data. The stream ends without a last block and without the trailer, whose checksum would differ
//! for each connection: a client gets all data, and then sees the stream cut off, as with every
//! stream of events.
//!
//! Owns: nothing; the compressor is there once for each thread. Never: compresses data that does
//! not become smaller.

use throng_ws::{DEFLATE_TAIL, deflated};

/// Header of each gzip stream: no name, no time, an unknown system.
pub(crate) const HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];

/// The most bytes of a stored block (RFC 1951, section 3.2.4).
const STORED_BYTES_MAX: usize = 0xffff;

/// Appends bytes in blocks, compressed if that makes them shorter.
pub(crate) fn compressed(data: &[u8], out: &mut Vec<u8>) {
    match deflated(data) {
        Some(blocks) => {
            out.extend_from_slice(&blocks);
            out.extend_from_slice(&DEFLATE_TAIL);
        }
        None => stored(data, out),
    }
}

/// Appends bytes in stored blocks: for data of one connection alone.
pub(crate) fn stored(data: &[u8], out: &mut Vec<u8>) {
    for block in data.chunks(STORED_BYTES_MAX) {
        let length = u16::try_from(block.len()).unwrap_or(u16::MAX);
        out.push(0);
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&(!length).to_le_bytes());
        out.extend_from_slice(block);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Pieces in any order, each compressed or stored, are the bytes that went in, as soon as
        /// the piece is there.
        #[test]
        fn every_piece_stands_for_itself(
            pieces in prop::collection::vec(
                (prop::collection::vec(0_u8..4, 0..3000), any::<bool>()), 1..8
            ),
        ) {
            let (mut wire, mut plain) = (HEAD.to_vec(), Vec::new());
            for (piece, is_shared) in pieces {
                match is_shared {
                    true => compressed(&piece, &mut wire),
                    false => stored(&piece, &mut wire),
                }
                plain.extend_from_slice(&piece);
                let mut heard = Vec::new();
                let end = flate2::read::GzDecoder::new(&wire[..]).read_to_end(&mut heard);
                prop_assert!(end.is_err(), "such a stream has no end of its own");
                prop_assert_eq!(&heard, &plain);
            }
        }
    }

    #[test]
    fn what_does_not_shrink_is_stored() {
        let noise: Vec<u8> = (0..200_000_u32)
            .map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8)
            .collect();
        for data in [&b"short"[..], &noise] {
            let mut wire = Vec::new();
            compressed(data, &mut wire);
            assert!(wire.len() <= data.len() + 5 * (data.len() / STORED_BYTES_MAX + 1));
        }
        let mut wire = Vec::new();
        compressed(&[b'a'; 1000], &mut wire);
        assert!(wire.len() < 30, "{} bytes", wire.len());
    }
}
