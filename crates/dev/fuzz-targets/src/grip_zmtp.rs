//! Any bytes to a ZMTP connection: what it reports and answers does not depend on how they were
//! cut, limits hold, and messages can be sent on.
//!
//! Input: one byte of options, four chunk lengths (used over and over), then the wire.

use throng_grip::zmtp::{PeerLimits, SocketRole, ZmtpError, ZmtpMessage, ZmtpPeer, encode_message};

pub(crate) const SEEDS: &[&[u8]] = &[
    b"\x00\x03\x07\x01 \
      \xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f\x03\x01NULL\x00\x00\x00\x00\x00\x00\x00\x00\x00\
      \x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\
      \x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x04\x1a\x05READY\
      \x0bSocket-Type\x00\x00\x00\x04PUSH\x00\x05hello\x01\x01a\x00\x01b\x04\x09\x04PING\x00\
      \x05ab",
    b"\x02\x01\x01@\x02\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f\x03\x00NULL\x00\x00\x00\x00\
      \x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\
      \x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\
      \x04'\x05READY\x08Identity\x00\x00\x00\x00\x0bSocket-Type\x00\x00\x00\x04XPUB\x01\x01t\
      \x02\x00\x00\x00\x00\x00\x00\x00\x03abc",
    b"\x0f\x05\x05\x05\x05\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f\x03\x01NULL\x00\x00\x00\x00\
      \x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\
      \x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\
      \x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03REQ\x01\x02id\x01\x00\x00\x025:",
    b"\x03\x09\x05\x05\x05\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f\x03\x01NULL\x00\x00\x00\x00\
      \x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\
      \x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\
      \x04\x1c\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER\x01\x00\x00\x04body\x04\x05\x03NE\
      Wx\x04\x09\x05ERROR\x02no",
];

#[derive(Debug, PartialEq)]
struct Outcome {
    messages: Vec<ZmtpMessage>,
    out: Vec<u8>,
    fault: Option<ZmtpError>,
    ready: bool,
}

fn feed(role: SocketRole, limits: PeerLimits, wire: &[u8], chunk_bytes: &[usize]) -> Outcome {
    let (mut out, mut messages) = (Vec::new(), Vec::new());
    let mut peer = ZmtpPeer::new(role, limits, &mut out);
    let (mut rest, mut fault) = (wire, None);
    for &bytes in chunk_bytes.iter().cycle() {
        let (chunk, further) = rest.split_at(bytes.min(rest.len()));
        rest = further;
        fault = peer.feed(chunk, &mut out, &mut messages).err();
        if rest.is_empty() || fault.is_some() {
            break;
        }
    }
    Outcome {
        messages,
        out,
        fault,
        ready: peer.is_ready(),
    }
}

/// Runs one input of this target; panics if the target finds a fault.
pub fn grip_zmtp(input: &[u8]) {
    let Some((&[options, chunks @ ..], wire)) = input.split_first_chunk::<5>() else {
        return;
    };
    let role = [
        SocketRole::Pull,
        SocketRole::Push,
        SocketRole::Sub,
        SocketRole::Rep,
    ][usize::from(options & 3)];
    let limits = PeerLimits {
        message_bytes_max: if options & 4 == 0 { 1000 } else { 40 },
        parts_max: if options & 8 == 0 { 16 } else { 2 },
    };
    let chunk_bytes = chunks.map(|bytes| usize::from(bytes).max(1));
    let whole = feed(role, limits, wire, &[wire.len()]);
    assert_eq!(feed(role, limits, wire, &chunk_bytes), whole);
    assert_eq!(feed(role, limits, wire, &[1]), whole);
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
    let opening = &SEEDS[0][5..5 + 92];
    let mut wire = opening.to_vec();
    for message in messages {
        encode_message(message, &mut wire);
    }
    let outcome = feed(SocketRole::Pull, PeerLimits::default(), &wire, &[7]);
    assert_eq!((outcome.fault, outcome.ready), (None, true));
    assert_eq!(outcome.messages, messages);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_what_they_seem() {
        for seed in SEEDS {
            let role = [
                SocketRole::Pull,
                SocketRole::Push,
                SocketRole::Sub,
                SocketRole::Rep,
            ][usize::from(seed[0] & 3)];
            let outcome = feed(role, PeerLimits::default(), &seed[5..], &[1]);
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
