//! Huffman's code of HPACK (RFC 7541 section 5.2 and appendix B).
//!
//! The code is canonical: codes of one length are consecutive numbers in the order of their bytes,
//! and follow those of the lengths before. So the lengths alone make all tables, at compile time.

/// Bits of each byte's code; the last one's is the end of the text, which is never written.
#[rustfmt::skip]
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
    28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7,
    7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21,
    23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24,
    21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];

const LENGTH_MAX: usize = 30;

struct Tables {
    codes: [u32; 257],
    /// Bytes in the order of their codes.
    order: [u8; 256],
    /// The first code that is longer than so many bits, as the front of 32 bits, for each length.
    ends: [u64; LENGTH_MAX + 1],
    /// The first code of each length, and its place in `order`.
    firsts: [(u32, u16); LENGTH_MAX + 1],
}

static TABLES: Tables = tables();

const fn tables() -> Tables {
    let mut tables = Tables {
        codes: [0; 257],
        order: [0; 256],
        ends: [0; LENGTH_MAX + 1],
        firsts: [(0, 0); LENGTH_MAX + 1],
    };
    let (mut code, mut place, mut length) = (0_u32, 0, 1);
    while length <= LENGTH_MAX {
        code <<= 1;
        tables.firsts[length] = (code, place as u16);
        let mut symbol = 0;
        while symbol < LENGTHS.len() {
            if LENGTHS[symbol] as usize == length {
                tables.codes[symbol] = code;
                if symbol < 256 {
                    tables.order[place] = symbol as u8;
                    place += 1;
                }
                code += 1;
            }
            symbol += 1;
        }
        tables.ends[length] = (code as u64) << (32 - length);
        length += 1;
    }
    tables
}

/// The shortest code; nearly all of a text's are in the four lengths from here.
const LENGTH_MIN: usize = 5;

/// Appends the bytes of a text; `None` if it is no text of this code, or has more than seven bits
/// of padding, or one of zeros.
pub(super) fn decode(text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let mut bytes = text.iter();
    // The bits that were not read, from the top.
    let (mut bits, mut count) = (0_u64, 0);
    loop {
        while count <= 32 {
            let Some(&byte) = bytes.next() else {
                break;
            };
            bits |= u64::from(byte) << (56 - count);
            count += 8;
        }
        // What is not there reads as ones, which no code but the end has for long.
        let padded = bits | u64::MAX >> count;
        let front = padded >> 32;
        let length = (LENGTH_MIN..LENGTH_MAX).find(|&length| front < TABLES.ends[length]);
        let length = length.unwrap_or(LENGTH_MAX);
        if length > count {
            let is_padding = count < 8 && padded == u64::MAX;
            return is_padding.then_some(());
        }
        let (first, place) = TABLES.firsts[length];
        let step = (front >> (32 - length)) as usize - first as usize;
        // The end of the text has no place: it must not be written.
        out.push(*TABLES.order.get(usize::from(place) + step)?);
        bits <<= length;
        count -= length;
    }
}

/// Length of a text in this code.
pub(super) fn encoded_bytes(text: &[u8]) -> usize {
    let bits = text
        .iter()
        .map(|&byte| usize::from(LENGTHS[usize::from(byte)]));
    bits.sum::<usize>().div_ceil(8)
}

pub(super) fn encode(text: &[u8], out: &mut Vec<u8>) {
    let (mut bits, mut count) = (0_u64, 0);
    for &byte in text {
        let length = LENGTHS[usize::from(byte)];
        bits = bits << length | u64::from(TABLES.codes[usize::from(byte)]);
        count += length;
        while count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    if count > 0 {
        out.push((bits << (8 - count)) as u8 | 0xff >> count);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decoded(text: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        decode(text, &mut out).map(|()| out)
    }

    #[test]
    fn codes_are_those_of_the_appendix() {
        for (symbol, code) in [
            (0, 0x1ff8),
            (b' ', 0x14),
            (b'0', 0),
            (b'Z', 0xfd),
            (b'a', 3),
            (b'~', 0x1ffd),
            (127, 0xfff_fffc),
            (249, 0xfff_fffe),
            (255, 0x3ff_ffee),
        ] {
            assert_eq!(TABLES.codes[usize::from(symbol)], code, "{symbol}");
        }
        assert_eq!(TABLES.codes[256], 0x3fff_ffff);
    }

    #[test]
    fn padding_is_the_beginning_of_the_end() {
        assert_eq!(decoded(b""), Some(Vec::new()));
        assert_eq!(decoded(&[0b0001_1111]), Some(b"a".to_vec()));
        for wrong in [
            // Zeros, eight bits of ones, the end itself, a code that is cut.
            &[0b0001_1000][..],
            &[0xff],
            &[0b0001_1111, 0xff],
            &[0xff, 0xff, 0xff, 0xff],
            &[0xff, 0xff, 0xff, 0xfc],
            &[0b1111_1110],
        ] {
            assert_eq!(decoded(wrong), None, "{wrong:x?}");
        }
    }

    proptest! {
        #[test]
        fn texts_come_back(text in prop::collection::vec(any::<u8>(), 0..60)) {
            let mut wire = Vec::new();
            encode(&text, &mut wire);
            prop_assert_eq!(wire.len(), encoded_bytes(&text));
            prop_assert_eq!(decoded(&wire), Some(text));
        }

        #[test]
        fn what_decodes_is_what_is_encoded(wire in prop::collection::vec(any::<u8>(), 0..12)) {
            if let Some(text) = decoded(&wire) {
                let mut again = Vec::new();
                encode(&text, &mut again);
                prop_assert_eq!(again, wire);
            }
        }
    }
}
