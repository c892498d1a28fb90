//! Any bytes as a frame of commands in Protobuf: the same promises as for JSON, and where a frame
//! is cut, what stands before the cut is read alike.

use throng_centrifuge::Codec;

use crate::centrifuge_commands::read;

pub(crate) const SEEDS: &[&[u8]] = &[
    // Connect with a token and a subscription to recover, a pong, subscribe.
    b"\x18\x08\x01\x22\x14\x0a\x01t\x1a\x0f\x0a\x01a\x12\x0a\x18\x01\x32\x01x\x38\x03\x42\x01{\x00\
      \x07\x08\x02\x2a\x03\x0a\x01a",
    // Publish, history since a position, rpc, send.
    b"\x0e\x08\x03\x3a\x0a\x0a\x01a\x12\x05[1,2]\x11\x08\x04\x52\x0d\x0a\x01a\x38\xff\x01\x42\
      \x04\x08\x01\x12\x00H\x01\
      \x0a\x08\x05\x6a\x06\x0a\x011\x12\x01m\x05\x62\x03\x0a\x01x",
    // Unknown fields of every wire type, a length that is too long.
    b"\x0f\x08\x07\x5a\x00\xf8\x01\x01\xfd\x01\x01\x02\x03\x04\xc0\x01\xff\xff\xff\xff\x0f",
];

/// Panics if a Protobuf frame is not read as the module's head promises.
pub fn centrifuge_protobuf(input: &[u8]) {
    read(Codec::Protobuf.commands(input));
    let whole: Vec<String> = told(input);
    for cut in [
        input.len() / 3,
        input.len() / 2,
        input.len().saturating_sub(1),
    ] {
        let part = told(&input[..cut]);
        // The last one may be the fault of the cut.
        let sound = &part[..part.len() - 1];
        assert_eq!(sound, &whole[..sound.len()]);
    }
}

fn told(frame: &[u8]) -> Vec<String> {
    let commands = Codec::Protobuf.commands(frame);
    commands.map(|command| format!("{command:?}")).collect()
}
