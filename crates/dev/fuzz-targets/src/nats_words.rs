//! What a NATS server says: its words are the same in any pieces, no message is longer than it may
//! be, and where a message stands is read of any reply.
//!
//! Input: where the wire is cut, then the wire.

use throng_nats_protocol::{Delivery, Limits, Op, decode};

/// Where mutations begin.
pub(crate) const SEEDS: &[&[u8]] = &[
    b"\x05INFO {\"headers\":true}\r\nPING\r\n-ERR 'No'\r\nMSG a.b 7 2\r\nhi\r\n",
    b"\x20HMSG a 7 $JS.ACK.S.C.2.70.90.17.5 25 27\r\nNATS/1.0\r\nchannel: b\r\n\r\n{}\r\n",
    b"\x28HMSG _INBOX.x.2 2 40 40\r\nNATS/1.0 409 Message Size Exceeds Max\r\n\r\n\r\n",
];

const LIMITS: Limits = Limits {
    line_bytes_max: 128,
    message_bytes_max: 128,
};

/// All words of a wire, and whether what follows is none.
fn words(wire: &[u8]) -> (Vec<String>, usize, bool) {
    let (mut words, mut at) = (Vec::new(), 0);
    loop {
        match decode(&wire[at..], LIMITS) {
            Ok(Some((op, taken))) => {
                assert!(taken > 0 && at + taken <= wire.len());
                at += taken;
                if let Op::Message {
                    reply,
                    headers,
                    payload,
                    ..
                } = op
                {
                    assert!(payload.len() <= LIMITS.message_bytes_max);
                    let stands = reply.and_then(Delivery::read);
                    let text = headers.status_text();
                    assert!(headers.status().is_none() || text.is_some());
                    words.push(format!("{stands:?} {text:?} {:?}", headers.get("channel")));
                }
                words.push(format!("{op:?}"));
            }
            Ok(None) => return (words, at, true),
            Err(_) => return (words, at, false),
        }
    }
}

/// Runs one input of this target; panics if the target finds a fault.
pub fn nats_words(input: &[u8]) {
    let [cut, wire @ ..] = input else {
        return;
    };
    let (all, end, is_good) = words(wire);
    let cut = usize::from(*cut).min(wire.len());
    let (mut early, taken, was_good) = words(&wire[..cut]);
    assert!(!is_good || was_good, "a part is no better than the whole");
    if was_good {
        let (late, rest, is_still_good) = words(&wire[taken..]);
        early.extend(late);
        assert_eq!((early, taken + rest, is_still_good), (all, end, is_good));
    }
    if let Ok(text) = std::str::from_utf8(wire) {
        let _ = Delivery::read(text);
    }
}
