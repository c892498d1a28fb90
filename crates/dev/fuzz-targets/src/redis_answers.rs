//! Bytes of a Redis server: its answers are the same in any two pieces.
//!
//! Input: where the wire is cut, then the wire.

use throng_redis_link::Answers;

pub(crate) const SEEDS: &[&[u8]] = &[
    b"\x03+OK\r\n:-12\r\n$6\r\na\r\nb\r\n\r\n*2\r\n*1\r\n$1\r\na\r\n*-1\r\n",
    b"\x09-OOM no\r\n_\r\n#t\r\n,1.5\r\n!9\r\nERR wrong\r\n=7\r\ntxt:a\r\n\r\n",
    b"\x10|1\r\n+ttl\r\n:3\r\n>3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n%1\r\n+a\r\n~0\r\n",
    b"\x01$2147483648\r\nx",
];

/// Bytes that one answer may keep; others are refused.
const ANSWER_MAX: usize = 4096;

/// All answers of a wire that comes in pieces, shown, and why there are no more.
fn answers(wire: &[&[u8]]) -> (Vec<String>, Option<String>) {
    let mut answers = Answers::new(ANSWER_MAX);
    let mut found = Vec::new();
    for piece in wire {
        answers.feed(piece);
        loop {
            match answers.take() {
                Ok(Some(value)) => found.push(format!("{value:?}")),
                Ok(None) => break,
                Err(error) => return (found, Some(error)),
            }
        }
    }
    (found, None)
}

/// Runs one input of this target; panics if the target finds a fault.
pub fn redis_answers(input: &[u8]) {
    let [cut, wire @ ..] = input else {
        return;
    };
    let (head, tail) = wire.split_at(usize::from(*cut).min(wire.len()));
    assert_eq!(answers(&[head, tail]), answers(&[wire]));
}
