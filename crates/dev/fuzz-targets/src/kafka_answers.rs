//! Answers of a Kafka broker: frames, each with an answer, and the metadata of group members.
//!
//! Input: frames, cut into two pieces; also an answer to every request there is.

use throng_kafka_protocol::{Frames, assignment, read, topics_of};

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
    drop(read::api_versions(body));
    drop(read::sasl_handshake(body));
    drop(read::sasl_authenticate(body));
    drop(read::metadata(body));
    drop(read::find_coordinator(body));
    drop(read::join_group(body));
    drop(read::sync_group(body));
    let _ = read::heartbeat(body);
    let _ = read::offset_commit(body);
    drop(read::offset_fetch(body));
    drop(read::list_offsets(body));
    if let Some((_, fetched)) = read::fetch(body) {
        let bytes: usize = fetched.iter().map(|it| it.records.len()).sum();
        assert!(bytes <= body.len());
    }
    drop(assignment(body));
    drop(topics_of(body));
}
