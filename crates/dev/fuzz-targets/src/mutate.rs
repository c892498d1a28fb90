//! The seeded generator of inputs: what a fuzzer does, without looking at what is reached.

use throng_types::{Rng, fnv1a};

/// Where every choice of one target comes from.
pub(crate) struct Chance(Rng);

impl Chance {
    /// For one target: each has numbers of its own.
    pub(crate) fn new(name: &str) -> Self {
        Self(Rng::new(fnv1a(name)))
    }

    /// A number below `bound`, or 0.
    fn below(&mut self, bound: usize) -> usize {
        self.0.next_u64().checked_rem(bound as u64).unwrap_or(0) as usize
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// Longer inputs find little more and take longer.
const BYTES_MAX: usize = 2048;

/// Bytes that parsers treat specially.
#[rustfmt::skip]
const INTERESTING: &[&[u8]] = &[
    b"\0", b"\x01", b"\x7e", b"\x7f", b"\x80", b"\xc3", b"\xf0\x9f", b"\xed\xa0\x80", b"\xff",
    b"\xff\xff\xff\xff", b"\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff\xff\xff\xff\xff", b"\xef\xbb\xbf", b"\xe2\x80\xa8",
    b"\n", b"\r", b"\r\n", b"\r\n\r\n", b"\n\n", b" ", b"\t", b",", b";", b":", b"=", b"\"", b"\\",
    b"'", b"#", b"%", b"%%", b"%00", b"%ff", b"%2", b"&", b"+", b"?", b"/", b"//", b"~", b"~1",
    b".", b"..", b"-", b"*", b"<", b">", b"(", b")", b"{", b"}", b"[", b"]", b"[]", b"{}",
    b"[[[[[[[[", b"]]]]]]]]", b"null", b"true", b"\"\"",
    b"0", b"-1", b"-0", b"00", b"1e9", b"1e400", b"1.5", b"255", b"256", b"999", b"1000",
    b"65535", b"65536",
    b"2147483648", b"4294967295", b"4294967296", b"9223372036854775808", b"18446744073709551615",
    b"18446744073709551616", b"0:~", b"0:,", b"1:", b"nan", b"inf", b"\\u0000", b"\\ud800", b"\\n",
];

/// One more input, made of the seeds.
pub(crate) fn mutate(seeds: &[Vec<u8>], chance: &mut Chance) -> Vec<u8> {
    let mut input = chance.pick(seeds).to_vec();
    for _ in 0..=chance.below(5) {
        change(&mut input, seeds, chance);
    }
    input.truncate(BYTES_MAX);
    input
}

fn change(input: &mut Vec<u8>, seeds: &[Vec<u8>], chance: &mut Chance) {
    let at = chance.below(input.len() + 1);
    let rest = input.len() - at;
    let few = chance.below(rest.min(16) + 1);
    match chance.below(9) {
        0 => {
            if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << chance.below(8);
            }
        }
        1 => {
            if let Some(byte) = input.get_mut(at) {
                *byte = chance.0.next_u64() as u8;
            }
        }
        2 => drop(input.drain(at..at + few)),
        3 => input.truncate(at),
        4 => {
            // A piece of it once more, maybe many times.
            let piece = input[at..at + few].to_vec();
            let times = *chance.pick(&[1, 1, 2, 5, 40]);
            let again = piece.repeat(times);
            input.splice(at..at, again);
        }
        5 | 6 => {
            let piece = *chance.pick(INTERESTING);
            let end = if chance.below(2) == 0 { at } else { at + few };
            input.splice(at..end, piece.iter().copied());
        }
        7 => {
            // The head of this one, the tail of another.
            let other = chance.pick(seeds);
            let from = chance.below(other.len() + 1);
            input.truncate(at);
            input.extend_from_slice(&other[from..]);
        }
        _ => {
            let other = chance.pick(seeds);
            let from = chance.below(other.len() + 1);
            let to = from + chance.below(other.len() - from + 1);
            input.splice(at..at, other[from..to].iter().copied());
        }
    }
}
