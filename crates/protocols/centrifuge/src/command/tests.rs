//! Frames as SDKs send them, and frames as they should not be.

use proptest::prelude::*;

use super::*;
use crate::cases;
use crate::{Codec, Commands};

fn commands(frame: &[u8]) -> Commands<'_> {
    Codec::Json.commands(frame)
}

/// Describes the commands of a frame: `id` and the request's debug form, or the fault.
fn read(frame: &[u8]) -> Vec<String> {
    commands(frame)
        .map(|command| match command {
            Ok(command) => format!("{} {:?}", command.id, command.request),
            Err(fault) => format!("{fault:?}"),
        })
        .collect()
}

#[track_caller]
fn one(frame: &str) -> Command<'_> {
    let mut all = commands(frame.as_bytes());
    let command = all.next().unwrap().unwrap();
    assert!(all.next().is_none());
    command
}

#[track_caller]
fn fault(frame: impl AsRef<[u8]>, expected: Malformed) {
    let last = commands(frame.as_ref()).last().unwrap();
    assert_eq!(last.map(|command| format!("{command:?}")), Err(expected));
}

#[test]
fn centrifuge_js_connects() {
    // The first frame, with no options and with all of them.
    let command = one(r#"{"connect":{"name":"js"},"id":1}"#);
    let ClientRequest::Connect(connect) = command.request else {
        panic!()
    };
    assert_eq!((command.id, &*connect.name, &*connect.token), (1, "js", ""));

    let command = one(concat!(
        r#"{"connect":{"token":"h.p.s","data":{"user":1},"name":"js","version":"1.0","#,
        r#""headers":{"x":"y"},"flag":1,"subs":{"$42":{"recover":true,"offset":7,"#,
        r#""epoch":"ab"},"news":{"recover":true}}},"id":1}"#,
    ));
    let ClientRequest::Connect(connect) = command.request else {
        panic!()
    };
    assert_eq!(
        (&*connect.token, &*connect.version, connect.flag),
        ("h.p.s", "1.0", 1)
    );
    assert_eq!(connect.data.unwrap().bytes(), br#"{"user":1}"#);
    let subs: Vec<_> = connect
        .subs
        .iter()
        .map(|sub| (&*sub.channel, sub.recover, sub.offset, &*sub.epoch))
        .collect();
    assert_eq!(subs, [("$42", true, 7, "ab"), ("news", true, 0, "")]);
}

#[test]
fn centrifuge_js_subscribes() {
    let command = one(concat!(
        r#"{"subscribe":{"channel":"chat:42","token":"t","data":[1],"#,
        r#""positioned":true,"recoverable":true,"join_leave":true,"flag":3,"#,
        r#""recover":true,"offset":9,"epoch":"2f","delta":"fossil","tf":{"key":"a","#,
        r#""cmp":"eq","val":"b"}},"id":2}"#,
    ));
    let ClientRequest::Subscribe(subscribe) = command.request else {
        panic!()
    };
    assert_eq!(
        (command.id, &*subscribe.channel, &*subscribe.token),
        (2, "chat:42", "t")
    );
    assert!(
        subscribe.recover && subscribe.positioned && subscribe.recoverable && subscribe.join_leave
    );
    assert_eq!(
        (subscribe.offset, &*subscribe.epoch, subscribe.flag),
        (9, "2f", 3)
    );
    assert_eq!(&*subscribe.delta, "fossil");
    assert!(subscribe.filter.is_some() && subscribe.rejects_unrecovered());
    assert!(matches!(subscribe.channel, Cow::Borrowed(_)));
}

#[test]
fn a_session_of_centrifuge_js() {
    // What version 5.8 wrote to a WebSocket, frame by frame, when every method was called in turn.
    let frames = [
        r#"{"connect":{"token":"t","data":{"user":1},"name":"js"},"id":1}"#,
        concat!(
            r#"{"subscribe":{"channel":"chat:42","positioned":true,"recoverable":true,"#,
            r#""flag":1,"recover":true,"offset":7,"epoch":"2f"},"id":2}"#,
        ),
        r#"{"history":{"channel":"chat:42","limit":-1},"id":3}"#,
        r#"{"presence":{"channel":"chat:42"},"id":4}"#,
        r#"{"presence_stats":{"channel":"chat:42"},"id":5}"#,
        r#"{"publish":{"channel":"chat:42","data":{"a":1}},"id":6}"#,
        r#"{"rpc":{"method":"x","data":{}},"id":7}"#,
        r#"{"send":{"data":"hi"}}"#,
        "{}",
    ];
    let kinds = frames.map(|frame| {
        let command = one(frame);
        let kind = match command.request {
            ClientRequest::Connect(_) => "connect",
            ClientRequest::Subscribe(_) => "subscribe",
            ClientRequest::History(_) => "history",
            ClientRequest::Presence { .. } => "presence",
            ClientRequest::PresenceStats { .. } => "presence_stats",
            ClientRequest::Publish { .. } => "publish",
            ClientRequest::Rpc { .. } => "rpc",
            ClientRequest::Send { .. } => "send",
            ClientRequest::Pong => "pong",
            other => panic!("{other:?}"),
        };
        (command.id, kind)
    });
    assert_eq!(
        kinds,
        [
            (1, "connect"),
            (2, "subscribe"),
            (3, "history"),
            (4, "presence"),
            (5, "presence_stats"),
            (6, "publish"),
            (7, "rpc"),
            (0, "send"),
            (0, "pong"),
        ]
    );
    // An SDK that batches joins the same commands in one frame.
    assert_eq!(commands(frames.join("\n").as_bytes()).count(), frames.len());
}

#[test]
fn every_command_is_read() {
    for (frame, expected) in cases(include_str!("read.txt")) {
        assert_eq!(read(frame.as_bytes()), [expected], "{frame}");
    }
}

#[test]
fn data_is_left_as_it_stands() {
    let command = one(r#"{"publish":{"channel":"c","data": {"a" : [1,"\u00e9"]} },"id":5}"#);
    let ClientRequest::Publish { channel, data } = command.request else {
        panic!()
    };
    assert_eq!(
        (&*channel, data.bytes()),
        ("c", &br#"{"a" : [1,"\u00e9"]}"#[..])
    );

    let command = one(r#"{"rpc":{"method":"sum","data":null},"id":6}"#);
    let ClientRequest::Rpc { method, data } = command.request else {
        panic!()
    };
    assert_eq!((&*method, data.bytes()), ("sum", &b"null"[..]));

    for frame in [
        r#"{"send":{"data":"x"}}"#,
        r#"{"send":{"data":"x"},"id":9}"#,
    ] {
        let ClientRequest::Send { data } = one(frame).request else {
            panic!()
        };
        assert_eq!(data.bytes(), br#""x""#);
    }
    let ClientRequest::Send { data } = one(r#"{"send":{}}"#).request else {
        panic!()
    };
    assert_eq!(data.bytes(), b"null");
}

#[test]
fn several_commands_share_a_frame() {
    let frame =
        b"{\"connect\":{},\"id\":1}\n{\"subscribe\":{\"channel\":\"a\"},\"id\":2}\n{}\r\n\n";
    let read = read(frame);
    assert_eq!(read.len(), 3);
    assert!(read[0].starts_with("1 Connect"));
    assert!(read[1].starts_with("2 Subscribe"));
    assert_eq!(read[2], "0 Pong");
}

#[test]
fn a_fault_ends_the_frame() {
    let frame = b"{}\n{\"id\":1}\n{}";
    assert_eq!(read(frame), ["0 Pong", "NoRequest"]);
    let mut all = commands(frame);
    assert_eq!(all.by_ref().count(), 2);
    assert!(all.next().is_none());
}

#[test]
fn broken_frames_are_refused() {
    for empty in ["", "\n", "\n\n", " ", "\r\n"] {
        fault(empty, Malformed::Empty);
    }
    fault(
        b"{\"connect\":{\"token\":\"\xff\"},\"id\":1}",
        Malformed::NotUtf8,
    );
    // Arrays where objects belong, which serde's derived readers would take.
    for array in [
        r#"[1]"#,
        r#"{"id":1,"connect":[]}"#,
        r#"{"id":1,"subscribe":["a"]}"#,
        r#"{"id":1,"presence":["a"]}"#,
        r#"{"id":1,"history":{"channel":"a","since":[1]}}"#,
        r#"{"id":1,"connect":{"subs":{"a":[]}}}"#,
        r#"{"id":1,"ping":[]}"#,
        // A ping has no fields, but it is an object.
        r#"{"id":1,"ping":5}"#,
        r#"{"id":1,"ping":"x"}"#,
        r#"{"id":1,"ping":false}"#,
    ] {
        let told = read(array.as_bytes());
        assert!(told[0].starts_with("NotACommand"), "{array}: {told:?}");
    }
}

#[test]
fn unknown_fields_and_null_are_ignored() {
    let command = one(concat!(
        r#"{"id":1,"method":1,"subscribe":{"channel":"\u0441","token":null,"#,
        r#""offset":null,"recover":null,"data":null,"tf":null,"cursor":"x","#,
        r#""new":{"deep":[[]]}}}"#,
    ));
    let ClientRequest::Subscribe(subscribe) = command.request else {
        panic!()
    };
    // An escaped name cannot be borrowed.
    assert_eq!(
        (&*subscribe.channel, &*subscribe.token, subscribe.offset),
        ("с", "", 0)
    );
    assert!(subscribe.data.is_none() && !subscribe.recover);
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

#[test]
fn every_cut_of_a_frame_is_read_without_panic() {
    let frame = r#"{"connect":{"token":"é","subs":{"a":{"recover":true}}},"id":1}
{"publish":{"channel":"c","data":{"a":"\n"}},"id":2}"#
        .as_bytes();
    for cut in 0..=frame.len() {
        for part in [&frame[..cut], &frame[cut..]] {
            assert!(commands(part).count() >= 1);
        }
    }
}

proptest! {
    #[test]
    fn no_bytes_panic(frame: Vec<u8>) {
        prop_assert!(commands(&frame).count() >= 1);
    }

    #[test]
    fn nothing_like_a_command_panics(frame in concat!(
        r#"(\{("(id|connect|subscribe|publish|rpc|send|subs|data)":"#,
        r#"[{\[]?["0-9a-z]{0,4}[,}\]]{0,2}){0,4}\}?\n?){1,3}"#,
    )) {
        let faults = commands(frame.as_bytes()).filter(Result::is_err).count();
        prop_assert!(faults <= 1);
    }

    #[test]
    fn data_comes_through_untouched(text: String, id in 1..u32::MAX) {
        let data = serde_json::to_string(&text).unwrap();
        let frame = format!(r#"{{"id":{id},"publish":{{"data":{data},"channel":{data}}}}}"#);
        let command = one(&frame);
        prop_assert_eq!(command.id, id);
        let ClientRequest::Publish { channel, data: read } = command.request else { panic!() };
        prop_assert_eq!(read.bytes(), data.as_bytes());
        prop_assert_eq!(&*channel, text.as_str());
    }
}
