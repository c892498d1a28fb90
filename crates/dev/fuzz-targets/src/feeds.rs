//! Bytes of servers that we connect to.

use throng_kafka_protocol::request::{self, FetchLimits, Who};
use throng_kafka_protocol::{Aborted, FrameSplitter, Records, assignment, batches, topics_of};
use throng_nats_protocol::{
    Credentials, DecodeError, Decoder, Limits, MessageMetadata, Op, ServerInfo, introduce, targets,
};
use throng_postgres_protocol::{Decoder as PostgresDecoder, Message, MessageError};
use throng_redis_link::Answers;

use crate::pieces::{fed, halved};

/// The longest frame that is taken, in bytes.
const FRAME_MAX: u32 = 4096;

/// Answers of a Kafka broker: frames, each with an answer, and the metadata of group members.
///
/// Input: frames, cut into two pieces; also an answer to every request there is.
///
/// Checks that frames are the same in any pieces, and that no answer asks for more memory than it
/// has.
pub(crate) fn kafka_answers(input: &[u8]) {
    let cut = input
        .first()
        .map_or(0, |&byte| usize::from(byte) % input.len());
    let frames = |pieces: &[&[u8]]| {
        let mut splitter = FrameSplitter::new(FRAME_MAX);
        fed(
            pieces,
            &mut splitter,
            FrameSplitter::feed,
            FrameSplitter::next_frame,
        )
    };
    let whole = frames(&[input]);
    let (head, tail) = input.split_at(cut);
    assert_eq!(frames(&[head, tail]), whole);
    for (_, body) in &whole.0 {
        answer(body);
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

/// The longest record that is read, in bytes.
const RECORD_MAX: usize = 64;
/// Records that are read of one batch: what is packed may be much more than the input.
const COUNT_MAX: usize = 1000;

/// Batches of records, as a broker of Kafka hands them out.
///
/// Input: batches; the checksum of each is put right, so that mutations get past it.
///
/// Checks that what is read of a batch has its offsets and is within its bounds.
pub(crate) fn kafka_batches(input: &[u8]) {
    let mut bytes = input.to_vec();
    // As far as heads are whole, each gives the place of the next one.
    let mut at = 0;
    while let Some(length) = bytes.get(at + 8..at + 12) {
        let length = u32::from_be_bytes(length.try_into().expect("four bytes")) as usize;
        let Some(batch) = bytes.get_mut(at..at + 12 + length) else {
            break;
        };
        if batch.len() > 21 {
            let sum = crc32c(&batch[21..]);
            batch[17..21].copy_from_slice(&sum.to_be_bytes());
        }
        at += 12 + length;
    }
    let aborted = Aborted {
        producer: 5,
        first_offset: 7,
    };
    for aborted in [&[][..], &[aborted]] {
        for batch in batches(&bytes.clone().into(), aborted).unwrap_or_default() {
            assert!(batch.base_offset <= batch.last_offset && batch.bytes() <= input.len());
            let Ok(mut records) = Records::new(batch, RECORD_MAX) else {
                continue;
            };
            for _ in 0..COUNT_MAX {
                let Ok(Some(record)) = records.next_record() else {
                    break;
                };
                let bytes = [&record.key, &record.value];
                let bytes = bytes.into_iter().flatten().map(|it| it.len());
                assert!(bytes.sum::<usize>() <= RECORD_MAX);
            }
        }
    }
}

/// Castagnoli's, bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |sum, &byte| {
        (0..8).fold(sum ^ u32::from(byte), |sum, _| {
            sum >> 1 ^ if sum & 1 == 1 { 0x82f6_3b78 } else { 0 }
        })
    })
}

const LIMITS: Limits = Limits {
    line_bytes_max: 128,
    message_bytes_max: 128,
};

/// All words of a wire that comes in pieces, and what is wrong behind them.
fn words(pieces: &[&[u8]]) -> (Vec<Vec<String>>, Option<DecodeError>) {
    fed(
        pieces,
        &mut Decoder::new(LIMITS),
        Decoder::feed,
        |decoder| {
            let Some(op) = decoder.next_op()? else {
                return Ok(None);
            };
            let mut words = vec![format!("{op:?}")];
            match op {
                Op::Message(message) => {
                    assert!(message.payload.len() <= LIMITS.message_bytes_max);
                    let stands = message.reply.and_then(MessageMetadata::read);
                    let headers = message.headers;
                    let text = headers.status_text();
                    assert!(headers.status().is_none() || text.is_some());
                    words.push(format!("{stands:?} {text:?} {:?}", headers.get("channel")));
                }
                Op::Info(info) => words.push(format!("{:?}", ServerInfo::read(info))),
                _ => {}
            }
            Ok(Some(words))
        },
    )
}

/// Bytes of a NATS server: its operations are the same in any two pieces, no message exceeds the
/// limit, the position of a message is read from any reply, and the server's properties from any
/// `INFO`; addresses and credentials from any text.
///
/// Input: where the wire is cut, then the wire.
pub(crate) fn nats_words(input: &[u8]) {
    let Some((wire, halves)) = halved(input) else {
        return;
    };
    assert_eq!(words(&halves), words(&[wire]));
    if let Ok(text) = std::str::from_utf8(wire) {
        let _ = MessageMetadata::read(text);
        let info = ServerInfo::read(b"{\"headers\":true}").expect("a server");
        let credentials = Credentials::read(text);
        for target in targets(text).unwrap_or_default() {
            introduce(&mut Vec::new(), &info, &target, credentials.as_ref());
        }
    }
}

/// The longest message that is taken, in bytes.
const MESSAGE_MAX: usize = 256;

/// All messages of a wire that comes in pieces, and what is wrong behind them.
fn messages(pieces: &[&[u8]]) -> (Vec<Message>, Option<MessageError>) {
    let mut decoder = PostgresDecoder::new(MESSAGE_MAX);
    fed(
        pieces,
        &mut decoder,
        PostgresDecoder::feed,
        PostgresDecoder::next_message,
    )
}

/// Bytes of a PostgreSQL server: its messages are the same in any two pieces, and none keeps more
/// than its own length.
///
/// Input: where the wire is cut, then the wire.
pub(crate) fn postgres_messages(input: &[u8]) {
    let Some((wire, halves)) = halved(input) else {
        return;
    };
    let whole = messages(&[wire]);
    for message in &whole.0 {
        if let Message::Row(values) = message {
            let bytes: usize = values.iter().flatten().map(Vec::len).sum();
            assert!(bytes <= MESSAGE_MAX, "{bytes} bytes of a row");
        }
    }
    assert_eq!(messages(&halves), whole);
}

/// Bytes that one answer may keep; others are refused.
const ANSWER_MAX: usize = 4096;

/// All answers of a wire that comes in pieces, shown, and why there are no more.
fn answers(pieces: &[&[u8]]) -> (Vec<String>, Option<String>) {
    fed(
        pieces,
        &mut Answers::new(ANSWER_MAX),
        Answers::feed,
        |answers| {
            let answer = answers.take()?;
            Ok(answer.map(|value| format!("{value:?}")))
        },
    )
}

/// Bytes of a Redis server: its answers are the same in any two pieces.
///
/// Input: where the wire is cut, then the wire.
pub(crate) fn redis_answers(input: &[u8]) {
    let Some((wire, halves)) = halved(input) else {
        return;
    };
    assert_eq!(answers(&halves), answers(&[wire]));
}
