//! What the server sends unasked.
//!
//! A bidirectional transport carries replies, so a push is wrapped: `{"push":{..}}`. A
//! unidirectional one (`uni_websocket`, `uni_sse`, `uni_http_stream`) carries bare pushes, begins
//! with `{"connect":{..}}` and has `{}` as its ping (page "Unidirectional protocol"). The parameter
//! `bidirectional` chooses.

use throng_types::{Payload, Publication};

use crate::json::{Object, append_payload, append_text};
use crate::reply::{
    ClientInfo, ConnectResult, Push, SubscribePush, append_connect, append_delta, append_info,
    append_publication,
};

/// Any push of those that bidirectional clients get, too.
pub fn encode_push(push: &Push<'_>, bidirectional: bool, out: &mut Vec<u8>) {
    match *push {
        Push::Publication(publication) => encode_publication_push(publication, bidirectional, out),
        Push::Delta { publication, patch } => wrap(bidirectional, out, |push| {
            push.text("channel", publication.channel.as_str());
            append_delta(publication, patch, push.value("pub"));
        }),
        Push::Join { channel, info } => {
            encode_presence_push("join", (channel, &info), bidirectional, out)
        }
        Push::Leave { channel, info } => {
            encode_presence_push("leave", (channel, &info), bidirectional, out)
        }
        Push::Unsubscribe {
            channel,
            code,
            reason,
        } => encode_unsubscribe_push(channel, code, reason, bidirectional, out),
        Push::Message(data) => encode_message_push(data, bidirectional, out),
        Push::Disconnect { code, reason } => {
            encode_disconnect_push(code, reason, bidirectional, out);
        }
        Push::Subscribe { channel, subscribe } => {
            encode_subscribe_push(channel, subscribe, bidirectional, out);
        }
        Push::Refresh { ttl_s } => encode_refresh_push(ttl_s, bidirectional, out),
    }
}

/// Somebody came to a channel, or left it.
fn encode_presence_push(
    key: &'static str,
    (channel, info): (&str, &ClientInfo<'_>),
    bidirectional: bool,
    out: &mut Vec<u8>,
) {
    wrap(bidirectional, out, |push| {
        push.text("channel", channel);
        let mut object = Object::open(push.value(key));
        append_info(info, object.value("info"));
        object.close();
    });
}

/// A publication for a subscriber.
pub fn encode_publication_push(publication: &Publication, bidirectional: bool, out: &mut Vec<u8>) {
    wrap(bidirectional, out, |push| {
        push.text("channel", publication.channel.as_str());
        append_publication(publication, push.value("pub"));
    });
}

/// The server ended a subscription; see `throng_types::Unsubscribe` for codes and reasons.
pub fn encode_unsubscribe_push(
    channel: &str,
    code: u16,
    reason: &str,
    bidirectional: bool,
    out: &mut Vec<u8>,
) {
    wrap(bidirectional, out, |push| {
        push.text("channel", channel);
        append_end(code, reason, push.value("unsubscribe"));
    });
}

/// The server is about to end the connection; see `throng_types::Disconnect` for codes and reasons.
///
/// A WebSocket says the same in its close frame and needs no push.
pub fn encode_disconnect_push(code: u16, reason: &str, bidirectional: bool, out: &mut Vec<u8>) {
    wrap(bidirectional, out, |push| {
        append_end(code, reason, push.value("disconnect"));
    });
}

/// The first push of a unidirectional connection, which has no command to reply to.
pub fn encode_connect_push(result: &ConnectResult<'_>, out: &mut Vec<u8>) {
    wrap(false, out, |push| {
        append_connect(result, push.value("connect"))
    });
}

/// The server subscribed the connection to a channel.
pub fn encode_subscribe_push(
    channel: &str,
    subscribe: &SubscribePush<'_>,
    bidirectional: bool,
    out: &mut Vec<u8>,
) {
    wrap(bidirectional, out, |push| {
        push.text("channel", channel);
        let mut object = Object::open(push.value("subscribe"));
        object.flag_if_set("recoverable", subscribe.recoverable);
        object.position_if_any(subscribe.position);
        object.flag_if_set("positioned", subscribe.positioned);
        object.json_if_any("data", subscribe.data);
        object.close();
    });
}

/// A message to this connection alone, outside of any channel.
pub fn encode_message_push(data: &Payload, bidirectional: bool, out: &mut Vec<u8>) {
    wrap(bidirectional, out, |push| {
        let mut message = Object::open(push.value("message"));
        append_payload(data, message.value("data"));
        message.close();
    });
}

/// The server refreshed the connection, which now expires in `ttl_s` seconds or (`None`) never.
pub fn encode_refresh_push(ttl_s: Option<u32>, bidirectional: bool, out: &mut Vec<u8>) {
    wrap(bidirectional, out, |push| {
        let mut refresh = Object::open(push.value("refresh"));
        refresh.flag_if_set("expires", ttl_s.is_some());
        refresh.number_if_any("ttl", ttl_s.unwrap_or_default().into());
        refresh.close();
    });
}

fn wrap(bidirectional: bool, out: &mut Vec<u8>, write: impl FnOnce(&mut Object<'_>)) {
    if bidirectional {
        out.extend_from_slice(b"{\"push\":");
    }
    let mut push = Object::open(out);
    write(&mut push);
    push.close();
    if bidirectional {
        out.push(b'}');
    }
}

fn append_end(code: u16, reason: &str, out: &mut Vec<u8>) {
    let mut end = Object::open(out);
    end.number("code", code.into());
    append_text(reason, end.value("reason"));
    end.close();
}

#[cfg(test)]
mod tests {
    use throng_types::{ChannelName, Disconnect, Epoch, PayloadKind, Position, Told, Unsubscribe};

    use super::*;

    fn publication(channel: &str, bytes: &[u8], kind: PayloadKind) -> Publication {
        Publication {
            channel: ChannelName::new(channel).unwrap(),
            told: Told::Data,
            position: None,
            payload: payload(bytes, kind),
            publisher: None,
            tags: None,
            time_unix_ms: 0,
        }
    }

    fn payload(bytes: &[u8], kind: PayloadKind) -> Payload {
        Payload {
            bytes: bytes.into(),
            kind,
        }
    }

    /// Both shapes carry the same push; only the wrapping differs.
    #[track_caller]
    fn check(encode: impl Fn(bool, &mut Vec<u8>), push: &str) {
        for (bidirectional, expected) in [
            (true, format!(r#"{{"push":{push}}}"#)),
            (false, push.into()),
        ] {
            let mut out = Vec::new();
            encode(bidirectional, &mut out);
            let text = String::from_utf8(out).unwrap();
            assert_eq!(text, expected);
            assert!(!text.contains(['\n', '\r']));
            assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
        }
    }

    #[test]
    fn publications_of_every_kind() {
        let check = |publication: Publication, push| {
            check(
                |both, out| encode_publication_push(&publication, both, out),
                push,
            );
        };
        check(
            publication("news", b"{\"a\":\n1}", PayloadKind::Json),
            r#"{"channel":"news","pub":{"data":{"a":1}}}"#,
        );
        check(
            publication("a\"\\é", "line\r\n".as_bytes(), PayloadKind::Text),
            r#"{"channel":"a\"\\é","pub":{"data":"line\r\n"}}"#,
        );
        check(
            publication("bin", &[0, 255], PayloadKind::Binary),
            r#"{"channel":"bin","pub":{"data":"AP8="}}"#,
        );
        let mut full = publication("chat:42", b"1", PayloadKind::Json);
        full.position = Some(Position {
            epoch: Epoch(1),
            offset: 10,
        });
        full.tags = Some("{\"k\":\n\"v\"}".into());
        full.time_unix_ms = 5;
        check(
            full,
            r#"{"channel":"chat:42","pub":{"data":1,"offset":10,"tags":{"k":"v"}}}"#,
        );
    }

    #[test]
    fn ends() {
        let why = Unsubscribe::InsufficientState;
        check(
            |both, out| encode_unsubscribe_push("c", why.code(), why.reason(), both, out),
            r#"{"channel":"c","unsubscribe":{"code":2500,"reason":"insufficient state"}}"#,
        );
        let why = Disconnect::Shutdown;
        check(
            |both, out| encode_disconnect_push(why.code(), why.reason(), both, out),
            r#"{"disconnect":{"code":3001,"reason":"shutdown"}}"#,
        );
        check(
            |both, out| encode_disconnect_push(4500, "go \"away\"", both, out),
            r#"{"disconnect":{"code":4500,"reason":"go \"away\""}}"#,
        );
    }

    #[test]
    fn subscriptions_messages_and_refreshes() {
        check(
            |both, out| encode_subscribe_push("c", &SubscribePush::default(), both, out),
            r#"{"channel":"c","subscribe":{}}"#,
        );
        let position = Some(Position {
            epoch: Epoch(0xab),
            offset: 3,
        });
        let subscribe = SubscribePush {
            recoverable: true,
            positioned: true,
            position,
            data: Some("[\n]"),
        };
        check(
            |both, out| encode_subscribe_push("c", &subscribe, both, out),
            concat!(
                r#"{"channel":"c","subscribe":{"recoverable":true,"epoch":"ab","offset":3,"#,
                r#""positioned":true,"data":[]}}"#,
            ),
        );
        let hello = payload(b"hello", PayloadKind::Text);
        check(
            |both, out| encode_message_push(&hello, both, out),
            r#"{"message":{"data":"hello"}}"#,
        );
        check(
            |both, out| encode_refresh_push(Some(60), both, out),
            r#"{"refresh":{"expires":true,"ttl":60}}"#,
        );
        check(
            |both, out| encode_refresh_push(None, both, out),
            r#"{"refresh":{}}"#,
        );
    }

    #[test]
    fn a_unidirectional_connection_begins_bare() {
        let result = ConnectResult {
            client: "c1",
            ping_s: 25,
            ..ConnectResult::default()
        };
        let mut out = Vec::new();
        encode_connect_push(&result, &mut out);
        assert_eq!(out, br#"{"connect":{"client":"c1","ping":25}}"#);
    }
}
