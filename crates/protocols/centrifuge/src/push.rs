//! Pushes: messages that a client gets unasked.
//!
//! A bidirectional transport carries replies, so a push is wrapped: `{"push":{..}}`. A
//! unidirectional one (`uni_websocket`, `uni_sse`, `uni_http_stream`) carries bare pushes, begins
//! with `{"connect":{..}}` and has `{}` as its ping (page "Unidirectional protocol"). The parameter
//! `bidirectional` chooses.

use crate::json::{Object, append_payload, append_text};
use crate::reply::{
    ClientInfo, ConnectResult, Push, append_connect, append_delta, append_info, append_publication,
};

/// Appends a push. A WebSocket says in its close frame what [`Push::Disconnect`] says, and needs no
/// such push.
pub fn encode_push(push: &Push<'_>, bidirectional: bool, out: &mut Vec<u8>) {
    wrap(bidirectional, out, |object| match *push {
        Push::Publication(publication) => {
            object.text("channel", publication.channel.as_str());
            append_publication(publication, object.value("pub"));
        }
        Push::Delta { publication, patch } => {
            object.text("channel", publication.channel.as_str());
            append_delta(publication, patch, object.value("pub"));
        }
        Push::Join { channel, info } => append_presence(channel, &info, "join", object),
        Push::Leave { channel, info } => append_presence(channel, &info, "leave", object),
        Push::Unsubscribe {
            channel,
            code,
            reason,
        } => {
            object.text("channel", channel);
            append_end(code, reason, object.value("unsubscribe"));
        }
        Push::Message(data) => {
            let mut message = Object::open(object.value("message"));
            append_payload(data, message.value("data"));
            message.close();
        }
        Push::Disconnect { code, reason } => append_end(code, reason, object.value("disconnect")),
        Push::Subscribe { channel, subscribe } => {
            object.text("channel", channel);
            let mut result = Object::open(object.value("subscribe"));
            result.flag_if_set("recoverable", subscribe.recoverable);
            result.position_if_any(subscribe.position);
            result.flag_if_set("positioned", subscribe.positioned);
            result.json_if_any("data", subscribe.data);
            result.close();
        }
        Push::Refresh { ttl_s } => {
            let mut refresh = Object::open(object.value("refresh"));
            refresh.flag_if_set("expires", ttl_s.is_some());
            refresh.number_if_any("ttl", ttl_s.unwrap_or_default().into());
            refresh.close();
        }
    });
}

/// Appends the first push of a unidirectional connection, which has no command to reply to.
pub fn encode_connect_push(result: &ConnectResult<'_>, out: &mut Vec<u8>) {
    wrap(false, out, |push| {
        append_connect(result, push.value("connect"));
    });
}

fn append_presence(channel: &str, info: &ClientInfo<'_>, key: &'static str, push: &mut Object<'_>) {
    push.text("channel", channel);
    let mut object = Object::open(push.value(key));
    append_info(info, object.value("info"));
    object.close();
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
    use throng_types::{
        ChannelName, Disconnect, Epoch, Payload, PayloadKind, Position, Publication,
        PublicationKind, Unsubscribe,
    };

    use super::*;
    use crate::SubscribePush;

    fn publication(channel: &str, bytes: &[u8], kind: PayloadKind) -> Publication {
        Publication {
            channel: ChannelName::new(channel).unwrap(),
            told: PublicationKind::Data,
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
    fn check(push: &Push<'_>, json: &str) {
        for (bidirectional, expected) in [
            (true, format!(r#"{{"push":{json}}}"#)),
            (false, json.into()),
        ] {
            let mut out = Vec::new();
            encode_push(push, bidirectional, &mut out);
            let text = String::from_utf8(out).unwrap();
            assert_eq!(text, expected);
            assert!(!text.contains(['\n', '\r']));
            assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
        }
    }

    #[test]
    fn publications_of_every_kind() {
        let check = |publication: Publication, json| check(&Push::Publication(&publication), json);
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
            &Push::Unsubscribe {
                channel: "c",
                code: why.code(),
                reason: why.reason(),
            },
            r#"{"channel":"c","unsubscribe":{"code":2500,"reason":"insufficient state"}}"#,
        );
        let why = Disconnect::Shutdown;
        check(
            &Push::Disconnect {
                code: why.code(),
                reason: why.reason(),
            },
            r#"{"disconnect":{"code":3001,"reason":"shutdown"}}"#,
        );
        check(
            &Push::Disconnect {
                code: 4500,
                reason: "go \"away\"",
            },
            r#"{"disconnect":{"code":4500,"reason":"go \"away\""}}"#,
        );
    }

    #[test]
    fn subscriptions_messages_and_refreshes() {
        check(
            &Push::Subscribe {
                channel: "c",
                subscribe: &SubscribePush::default(),
            },
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
            &Push::Subscribe {
                channel: "c",
                subscribe: &subscribe,
            },
            concat!(
                r#"{"channel":"c","subscribe":{"recoverable":true,"epoch":"ab","offset":3,"#,
                r#""positioned":true,"data":[]}}"#,
            ),
        );
        let hello = payload(b"hello", PayloadKind::Text);
        check(&Push::Message(&hello), r#"{"message":{"data":"hello"}}"#);
        check(
            &Push::Refresh { ttl_s: Some(60) },
            r#"{"refresh":{"expires":true,"ttl":60}}"#,
        );
        check(&Push::Refresh { ttl_s: None }, r#"{"refresh":{}}"#);
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
