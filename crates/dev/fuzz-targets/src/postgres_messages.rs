//! Bytes of a PostgreSQL server: its messages are the same in any two pieces, and none keeps more
//! than its own length.
//!
//! Input: where the wire is cut, then the wire.

use throng_postgres_protocol::{Decoder, Fault, Message};

pub(crate) const SEEDS: &[&[u8]] = &[
    b"\x0aR\0\0\0\x17\0\0\0\x0aSCRAM-SHA-256\0\0R\0\0\0\x0c\0\0\0\x0bv=x=R\0\0\0\x08\0\0\0\0",
    b"\x20T\0\0\0\x1b\0\x01id\0\0\0\0\0\0\0\0\0\0\x14\0\x08\xff\xff\xff\xff\0\0\
        D\0\0\0\x10\0\x02\0\0\0\x02\x34\x32\xff\xff\xff\xffC\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I",
    b"\x05E\0\0\0\x16C42P01\0Mno table\0\0A\0\0\0\x0b\0\0\0\x01x\0\0",
];

/// The longest message that is taken, in bytes.
const MESSAGE_MAX: usize = 256;

/// All messages of a wire that comes in pieces, and what is wrong behind them.
fn messages(pieces: &[&[u8]]) -> (Vec<Message>, Option<Fault>) {
    let mut decoder = Decoder::new(MESSAGE_MAX);
    let mut found = Vec::new();
    for piece in pieces {
        decoder.feed(piece);
        loop {
            match decoder.next_message() {
                Ok(Some(message)) => found.push(message),
                Ok(None) => break,
                Err(fault) => return (found, Some(fault)),
            }
        }
    }
    (found, None)
}

/// Runs one input of this target; panics if the target finds a fault.
pub fn postgres_messages(input: &[u8]) {
    let [cut, wire @ ..] = input else {
        return;
    };
    let (head, tail) = wire.split_at(usize::from(*cut).min(wire.len()));
    let whole = messages(&[wire]);
    for message in &whole.0 {
        if let Message::Row(values) = message {
            let bytes: usize = values.iter().flatten().map(Vec::len).sum();
            assert!(bytes <= MESSAGE_MAX, "{bytes} bytes of a row");
        }
    }
    assert_eq!(messages(&[head, tail]), whole);
}
