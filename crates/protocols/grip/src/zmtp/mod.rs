//! ZMTP 3, the protocol under ZeroMQ sockets (RFC 23 and 37 of ZeroMQ), as far as publishers
//! of GRIP and collectors of statistics need it: the NULL mechanism and the socket types PULL, SUB,
//! REP and PUB.
//!
//! `frame` cuts bytes into frames; `peer` is one connection.

mod fault;
mod frame;
mod peer;
#[cfg(test)]
mod tests;

pub use fault::ZmtpFault;
pub use frame::{Frame, FrameHead, encode_frame_head};
pub use peer::{Message, Peer, PeerLimits, Role};

/// Appends a message as frames, all but the last with the flag MORE.
pub fn encode_message<P: AsRef<[u8]>>(parts: &[P], out: &mut Vec<u8>) {
    for (index, part) in parts.iter().enumerate() {
        let part = part.as_ref();
        let has_more = index + 1 < parts.len();
        encode_frame_head(
            FrameHead {
                is_command: false,
                has_more,
                bytes: part.len() as u64,
            },
            out,
        );
        out.extend_from_slice(part);
    }
}
