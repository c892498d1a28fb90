//! Any bytes to a ZMTP connection: what it reports and answers does not depend on how they were
//! cut, limits hold, and messages can be sent on.
//!
//! Input: one byte of options, four lengths of pieces (used over and over), then the wire.

use std::sync::LazyLock;

use throng_grip::zmtp::{PeerLimits, SocketRole, ZmtpError, ZmtpMessage, ZmtpPeer, encode_message};

use crate::Target;
use crate::pieces::chopped;

const ROLES: [SocketRole; 4] = [
    SocketRole::Pull,
    SocketRole::Push,
    SocketRole::Sub,
    SocketRole::Rep,
];

/// Greeting and handshake of a client that sends.
static OPENING: LazyLock<Vec<u8>> =
    LazyLock::new(|| Target::named("grip_zmtp").seeds()[0][5..5 + 92].to_vec());

#[derive(Debug, PartialEq)]
struct Outcome {
    messages: Vec<ZmtpMessage>,
    out: Vec<u8>,
    fault: Option<ZmtpError>,
    ready: bool,
}

fn feed(role: SocketRole, limits: PeerLimits, pieces: &[&[u8]]) -> Outcome {
    let (mut out, mut messages) = (Vec::new(), Vec::new());
    let mut peer = ZmtpPeer::new(role, limits, &mut out);
    let mut pieces = pieces.iter();
    let fault = pieces.find_map(|piece| peer.feed(piece, &mut out, &mut messages).err());
    Outcome {
        messages,
        out,
        fault,
        ready: peer.is_ready(),
    }
}

pub(crate) fn grip_zmtp(input: &[u8]) {
    let Some(([options], wire)) = chopped(input) else {
        return;
    };
    let role = ROLES[usize::from(options & 3)];
    let limits = PeerLimits {
        message_bytes_max: if options & 4 == 0 { 1000 } else { 40 },
        parts_max: if options & 8 == 0 { 16 } else { 2 },
    };
    let whole = wire.read(|pieces| feed(role, limits, pieces));
    for message in &whole.messages {
        assert!((1..=limits.parts_max).contains(&message.len()));
        let bytes: usize = message.iter().map(Vec::len).sum();
        assert!(bytes <= limits.message_bytes_max, "{bytes} bytes");
        if let Some((envelope, body)) = ZmtpPeer::split_request(message.clone()) {
            assert_eq!([envelope, body].concat(), *message);
        }
    }
    if !whole.messages.is_empty() {
        again(&whole.messages);
    }
}

/// Messages, written to a connection that has only just begun.
fn again(messages: &[ZmtpMessage]) {
    let mut wire = OPENING.clone();
    for message in messages {
        encode_message(message, &mut wire);
    }
    let outcome = feed(SocketRole::Pull, PeerLimits::default(), &[&wire]);
    assert_eq!((outcome.fault, outcome.ready), (None, true));
    assert_eq!(outcome.messages, messages);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_what_they_seem() {
        for seed in Target::named("grip_zmtp").seeds() {
            let ([options], wire) = chopped(&seed).expect("options");
            let role = ROLES[usize::from(options & 3)];
            let outcome = wire.read(|pieces| feed(role, PeerLimits::default(), pieces));
            assert!(
                outcome.ready
                    || outcome
                        .fault
                        .is_some_and(|fault| matches!(fault, ZmtpError::Refused(_)))
            );
            assert!(!outcome.messages.is_empty());
        }
    }
}
