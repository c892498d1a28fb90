//! Bytes of a NATS server: its operations are the same in any two pieces, no message exceeds the
//! limit, the position of a message is read from any reply, and the server's properties from any
//! `INFO`; addresses and credentials from any text.
//!
//! Input: where the wire is cut, then the wire.

use throng_nats_protocol::{
    Credentials, DecodeError, Decoder, Delivery, Limits, Op, ServerInfo, introduce, targets,
};

pub(crate) const SEEDS: &[&[u8]] = &[
    b"\x05INFO {\"headers\":true}\r\nPING\r\n-ERR 'No'\r\nMSG a.b 7 2\r\nhi\r\n",
    b"\x20HMSG a 7 $JS.ACK.S.C.2.70.90.17.5 25 27\r\nNATS/1.0\r\nchannel: b\r\n\r\n{}\r\n",
    b"\x28HMSG _INBOX.x.2 2 40 40\r\nNATS/1.0 409 Message Size Exceeds Max\r\n\r\n\r\n",
    b"\x00eyJ.x\nSUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY",
    b"\x00nats://ann:p%40ss@nats.example:4333, tls://[::1]",
];

const LIMITS: Limits = Limits {
    line_bytes_max: 128,
    message_bytes_max: 128,
};

/// All words of a wire that comes in pieces, and what is wrong behind them.
fn words(pieces: &[&[u8]]) -> (Vec<String>, Option<DecodeError>) {
    let mut decoder = Decoder::new(LIMITS);
    let mut words = Vec::new();
    for piece in pieces {
        decoder.feed(piece);
        loop {
            let op = match decoder.next_op() {
                Ok(Some(op)) => op,
                Ok(None) => break,
                Err(error) => return (words, Some(error)),
            };
            match op {
                Op::Message(message) => {
                    assert!(message.payload.len() <= LIMITS.message_bytes_max);
                    let stands = message.reply.and_then(Delivery::read);
                    let headers = message.headers;
                    let text = headers.status_text();
                    assert!(headers.status().is_none() || text.is_some());
                    words.push(format!("{stands:?} {text:?} {:?}", headers.get("channel")));
                }
                Op::Info(info) => words.push(format!("{:?}", ServerInfo::read(info))),
                _ => {}
            }
            words.push(format!("{op:?}"));
        }
    }
    (words, None)
}

/// Runs one input of this target; panics if the target finds a fault.
pub fn nats_words(input: &[u8]) {
    let [cut, wire @ ..] = input else {
        return;
    };
    let (head, tail) = wire.split_at(usize::from(*cut).min(wire.len()));
    assert_eq!(words(&[head, tail]), words(&[wire]));
    if let Ok(text) = std::str::from_utf8(wire) {
        let _ = Delivery::read(text);
        let info = ServerInfo::read(b"{\"headers\":true}").expect("a server");
        let credentials = Credentials::read(text);
        for target in targets(text).unwrap_or_default() {
            introduce(&mut Vec::new(), &info, &target, credentials.as_ref());
        }
    }
}
