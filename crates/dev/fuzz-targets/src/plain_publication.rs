//! Any bytes as a message of a publisher's WebSocket: it never panics, and what was understood is
//! what stands there.
//!
//! Input: the message.

use throng_gateway_plain::NewPublication;

pub(crate) const SEEDS: &[&[u8]] = &[b"a\nb", b"chat:1\tkey\n{\"a\":1}\n", b"\t\n", b"a\r\n"];

/// Runs one input of this target; panics if the target finds a fault.
pub fn plain_publication(input: &[u8]) {
    match NewPublication::parse(input) {
        Ok(wanted) => {
            let mut again = wanted.channel.as_str().to_owned();
            if let Some(key) = wanted.idempotency_key {
                again.push('\t');
                again.push_str(key);
            }
            again.push('\n');
            assert!(!again[..again.len() - 1].contains('\n'));
            assert_eq!([again.as_bytes(), wanted.data].concat(), input);
        }
        Err(fault) => assert!(!fault.sentence().is_empty()),
    }
}
