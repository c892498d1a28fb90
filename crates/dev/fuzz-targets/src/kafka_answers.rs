//! Answers of a Kafka broker: frames, each with an answer, and the metadata of group members.
//!
//! Input: frames, cut into two pieces; also an answer to every request there is.

use throng_kafka_protocol::request::{self, FetchLimits, Who};
use throng_kafka_protocol::{Frames, assignment, topics_of};

pub(crate) const SEEDS: &[&[u8]] = &[
    // A frame with records that were fetched, and that answer alone.
    b"\0\0\0Q\0\0\0\x07\0\0\0\0\0\0\0\0\0\x05\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\x02\0\0\0\0\
        \0\0\0\0\0\x09\0\0\0\0\0\0\0\x08\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x03\0\0\0\0\
        \0\0\0\x04\0\0\0\x02ab",
    b"\0\0\0\0\0\0\0\0\0\x05\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\x02\0\0\0\0\0\0\0\0\0\x09\0\
        \0\0\0\0\0\0\x08\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x04\0\0\0\
        \x02ab",
    // A member's assignment, and its subscription.
    b"\0\0\0\0\0\x01\0\x01t\0\0\0\x02\0\0\0\0\0\0\0\x01\0\0\0\0",
    b"\0\0\0\0\0\x01\0\x01t\0\0\0\0",
];

/// The longest frame that is taken, in bytes.
const FRAME_MAX: u32 = 4096;

/// Checks that frames are the same in any pieces, and that no answer asks for more memory than it
/// has.
pub fn kafka_answers(input: &[u8]) {
    let mut whole = Frames::new(FRAME_MAX);
    whole.feed(input);
    let cut = input
        .first()
        .map_or(0, |&byte| usize::from(byte) % input.len());
    let mut pieces = Frames::new(FRAME_MAX);
    pieces.feed(&input[..cut]);
    let mut early = Vec::new();
    while let Ok(Some(frame)) = pieces.next_frame() {
        early.push(frame);
    }
    pieces.feed(&input[cut..]);
    let mut early = early.into_iter();
    loop {
        let frame = whole.next_frame();
        match early.next() {
            Some(piece) => assert_eq!(frame, Ok(Some(piece))),
            None => assert_eq!(frame, pieces.next_frame()),
        }
        let Ok(Some((_, body))) = frame else {
            break;
        };
        answer(&body);
    }
    answer(input);
}

fn answer(body: &[u8]) {
    const WHO: Who<'_> = Who {
        group: "g",
        member: "m",
        generation: 1,
    };
    const LIMITS: FetchLimits = FetchLimits {
        wait_ms: 1,
        bytes_max: 1,
        partition_bytes_max: 1,
    };
    drop((request::api_versions().read)(body));
    drop((request::sasl_handshake("").read)(body));
    drop((request::sasl_authenticate(b"").read)(body));
    drop((request::metadata(&["t"]).read)(body));
    drop((request::find_coordinator("g").read)(body));
    drop((request::join_group(WHO, 1, 1, "", b"").read)(body));
    drop((request::sync_group(WHO, &[]).read)(body));
    let _ = (request::heartbeat(WHO).read)(body);
    let _ = (request::offset_commit(WHO, &[]).read)(body);
    drop((request::offset_fetch("g", &[]).read)(body));
    drop((request::list_offsets(true, &[]).read)(body));
    if let Some((_, fetched)) = (request::fetch(LIMITS, &[]).read)(body) {
        let bytes: usize = fetched.iter().map(|it| it.records.len()).sum();
        assert!(bytes <= body.len());
    }
    drop(assignment(body));
    drop(topics_of(body));
}
