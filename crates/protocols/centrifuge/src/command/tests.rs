//! Frames as SDKs send them, and frames as they should not be.

use proptest::prelude::*;
use throng_dialogue::unescaped;
use throng_types::cases;

use super::*;
use crate::Codec;

/// Describes the commands of a frame: `id` and the request's debug form, or the fault.
fn read(codec: Codec, frame: &[u8]) -> Vec<String> {
    let told = codec.commands(frame).map(|command| match command {
        Ok(command) => format!("{} {:?}", command.id, command.request),
        Err(fault) => format!("{fault:?}"),
    });
    told.collect()
}

fn read_json(frame: &str) -> Vec<String> {
    read(Codec::Json, frame.as_bytes())
}

/// Commands as JSON and as Protobuf.
fn both_forms() -> impl Iterator<Item = (&'static str, Vec<u8>)> {
    let all = cases(include_str!("both.txt"));
    all.map(|(json, protobuf)| (json, unescaped(protobuf)))
}

#[test]
fn every_command_is_read() {
    for (frame, expected) in cases(include_str!("read.txt")) {
        assert_eq!(read_json(frame), [expected], "{frame}");
    }
}

#[test]
fn both_forms_are_read_alike() {
    for (json, protobuf) in both_forms() {
        assert_eq!(read(Codec::Protobuf, &protobuf), read_json(json), "{json}");
    }
    // Several in one frame, with a fault as the last.
    let lines: Vec<&str> = both_forms().map(|(json, _)| json).collect();
    let frame: Vec<u8> = both_forms().flat_map(|(_, bytes)| bytes).collect();
    let expected = read_json(&lines.join("\n"));
    assert_eq!(expected.len(), lines.len());
    assert_eq!(expected.last().map(String::as_str), Some("NoRequest"));
    assert_eq!(read(Codec::Protobuf, &frame), expected);
}

#[test]
fn text_is_borrowed() {
    let frame = r#"{"subscribe":{"channel":"chat:42","flag":3},"id":2}"#;
    let command = Codec::Json.commands(frame.as_bytes()).next();
    let Some(Ok(ClientCommand {
        request: ClientRequest::Subscribe(subscribe),
        ..
    })) = command
    else {
        panic!("{command:?}")
    };
    assert!(matches!(subscribe.channel, Cow::Borrowed("chat:42")));
    assert!(subscribe.rejects_unrecovered());
}

#[test]
fn several_commands_share_a_frame() {
    let frame = "{\"connect\":{},\"id\":1}\n{\"ping\":{},\"id\":2}\n{}\r\n\n";
    let read = read_json(frame);
    assert!(read[0].starts_with("1 Connect"));
    assert_eq!(read[1..], ["2 Ping", "0 Pong"]);
}

#[test]
fn a_fault_ends_the_frame() {
    let frame = "{}\n{\"id\":1}\n{}";
    assert_eq!(read_json(frame), ["0 Pong", "NoRequest"]);
    let mut all = Codec::Json.commands(frame.as_bytes());
    assert_eq!(all.by_ref().count(), 2);
    assert!(all.next().is_none());
}

#[test]
fn broken_frames_are_refused() {
    for empty in ["", "\n", "\n\n", " ", "\r\n"] {
        assert_eq!(read_json(empty), ["Empty"], "{empty:?}");
    }
    let json = b"{\"connect\":{\"token\":\"\xff\"},\"id\":1}";
    assert_eq!(read(Codec::Json, json), ["NotUtf8"]);
    for (frame, fault) in cases(include_str!("broken.txt")) {
        let bytes = unescaped(frame);
        assert_eq!(read(Codec::Protobuf, &bytes), [fault], "{frame}");
    }
}

#[test]
fn unidirectional_transports_send_bare_connect_requests() {
    for empty in ["", " ", "null", "{}"] {
        let connect = Connect::parse(empty.as_bytes()).unwrap();
        assert!(
            connect.token.is_empty() && connect.subs.is_empty(),
            "{empty}"
        );
    }
    let json = br#"{"token":"t","subs":{"user#42":{"recover":true,"offset":12,"epoch":"xD5R"}}}"#;
    let connect = Connect::parse(json).unwrap();
    assert_eq!(
        (&*connect.token, &*connect.subs[0].channel),
        ("t", "user#42")
    );
    assert_eq!(Connect::parse(b"\xff").unwrap_err(), Malformed::NotUtf8);
    assert_eq!(
        Connect::parse(b"[").unwrap_err(),
        Malformed::NotACommand { at: 0 }
    );
}

/// A frame in Protobuf is read to the same command or not at all, wherever it is cut; one in JSON
/// without panic.
#[test]
fn every_cut_of_a_frame_is_read() {
    for (json, frame) in both_forms() {
        for cut in 0..frame.len() {
            let fault = if cut == 0 { "Empty" } else { "NotProtobuf" };
            let told = read(Codec::Protobuf, &frame[..cut]);
            assert_eq!(told, [fault], "{json} cut at {cut}");
        }
        for cut in 0..=json.len() {
            for part in [&json.as_bytes()[..cut], &json.as_bytes()[cut..]] {
                assert!(Codec::Json.commands(part).count() >= 1);
            }
        }
    }
}

/// Command number `id` that publishes, in Protobuf.
fn publish(id: u32, channel: &str, data: &[u8]) -> Vec<u8> {
    let varint = |mut number: usize| {
        let mut out = Vec::new();
        while number >= 0x80 {
            out.push(number as u8 | 0x80);
            number >>= 7;
        }
        out.push(number as u8);
        out
    };
    let field = |key: u8, bytes: &[u8]| [&[key][..], &varint(bytes.len()), bytes].concat();
    let body = [field(0x0a, channel.as_bytes()), field(0x12, data)].concat();
    let command = [vec![8], varint(id as usize), field(0x3a, &body)].concat();
    [varint(command.len()), command].concat()
}

proptest! {
    #[test]
    fn no_bytes_panic(frame: Vec<u8>) {
        for codec in [Codec::Json, Codec::Protobuf] {
            prop_assert!(codec.commands(&frame).count() >= 1);
        }
    }

    #[test]
    fn nothing_like_a_command_panics(frame in concat!(
        r#"(\{("(id|connect|subscribe|publish|rpc|send|subs|data)":"#,
        r#"[{\[]?["0-9a-z]{0,4}[,}\]]{0,2}){0,4}\}?\n?){1,3}"#,
    )) {
        let faults = Codec::Json.commands(frame.as_bytes()).filter(Result::is_err).count();
        prop_assert!(faults <= 1);
    }

    #[test]
    fn data_comes_through_untouched(channel: String, bytes: Vec<u8>, id in 1..u32::MAX) {
        prop_assume!(!bytes.is_empty());
        let json = serde_json::to_string(&channel).unwrap();
        let frame = format!(r#"{{"id":{id},"publish":{{"data":{json},"channel":{json}}}}}"#);
        for (codec, frame, expected) in [
            (Codec::Json, frame.into_bytes(), json.as_bytes()),
            (Codec::Protobuf, publish(id, &channel, &bytes), &bytes),
        ] {
            let command = codec.commands(&frame).next().unwrap().unwrap();
            prop_assert_eq!(command.id, id);
            let ClientRequest::Publish { channel: read, data } = command.request else { panic!() };
            prop_assert_eq!(&*read, channel.as_str());
            prop_assert_eq!(data.bytes(), expected);
            prop_assert_eq!(&*data.payload().bytes, expected);
        }
    }
}
