//! Centrifugo's client protocol as a generator needs it: the first commands, and what their replies
//! say.
//!
//! Pure. Source: Centrifugo's client protocol v2 in its JSON form: objects apart by line ends, `{}`
//! is a ping.

use std::io::Write as _;

use serde::Deserialize;

use crate::session::Position;

/// The id of the connect command; subscriptions follow from the next one on.
pub(crate) const CONNECT_ID: u32 = 1;

/// A server's ping, and the answer to it.
pub(crate) const PING: &[u8] = b"{}";

/// Appends the connect command.
pub(crate) fn encode_connect(token: Option<&str>, out: &mut Vec<u8>) {
    // Writing to a Vec does not fail.
    let _ = match token {
        Some(token) => {
            let token = serde_json::Value::from(token);
            write!(
                out,
                r#"{{"id":{CONNECT_ID},"connect":{{"token":{token}}}}}"#
            )
        }
        None => write!(out, r#"{{"id":{CONNECT_ID},"connect":{{}}}}"#),
    };
}

/// Appends a subscribe command, which recovers from a position if there is one.
pub(crate) fn encode_subscribe(id: u32, channel: &str, from: Option<&Position>, out: &mut Vec<u8>) {
    let channel = serde_json::Value::from(channel);
    let _ = match from {
        Some(Position { epoch, offset }) => {
            let epoch = serde_json::Value::from(epoch.as_str());
            write!(
                out,
                r#"{{"id":{id},"subscribe":{{"channel":{channel},"recover":true,"epoch":{epoch},"offset":{offset}}}}}"#
            )
        }
        None => write!(out, r#"{{"id":{id},"subscribe":{{"channel":{channel}}}}}"#),
    };
}

/// What a line says, as far as a generator listens.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Line {
    pub(crate) id: u32,
    pub(crate) error: Option<Refusal>,
    pub(crate) connect: Option<serde::de::IgnoredAny>,
    pub(crate) subscribe: Option<Subscribed>,
    pub(crate) push: Option<Push>,
}

/// An error in a reply.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Refusal {
    pub(crate) code: u32,
    pub(crate) message: String,
}

/// The result of a subscribe command.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Subscribed {
    pub(crate) epoch: String,
    pub(crate) offset: u64,
    pub(crate) recovered: bool,
}

/// What the server sends by itself.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Push {
    pub(crate) channel: String,
    #[serde(rename = "pub")]
    pub(crate) publication: Option<Publication>,
}

/// A publication, as far as its place matters.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Publication {
    pub(crate) offset: u64,
}

/// The lines of a frame; none for one that is not JSON.
pub(crate) fn lines(frame: &[u8]) -> impl Iterator<Item = Option<Line>> {
    frame
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_what_the_protocol_says() {
        let mut out = Vec::new();
        encode_connect(None, &mut out);
        assert_eq!(out, br#"{"id":1,"connect":{}}"#);
        out.clear();
        encode_connect(Some("a\"b"), &mut out);
        assert_eq!(out, br#"{"id":1,"connect":{"token":"a\"b"}}"#);
        out.clear();
        encode_subscribe(2, "news", None, &mut out);
        assert_eq!(out, br#"{"id":2,"subscribe":{"channel":"news"}}"#);
        out.clear();
        let position = Position {
            epoch: "xyz".into(),
            offset: 7,
        };
        encode_subscribe(3, "news", Some(&position), &mut out);
        assert_eq!(
            out,
            br#"{"id":3,"subscribe":{"channel":"news","recover":true,"epoch":"xyz","offset":7}}"#
        );
    }

    #[test]
    fn replies_and_pushes_are_read_from_one_frame() {
        let frame = concat!(
            r#"{"id":1,"connect":{"client":"c","ping":25,"pong":true}}"#,
            "\n",
            r#"{"id":2,"subscribe":{"recoverable":true,"epoch":"e","offset":4,"recovered":true}}"#,
            "\n",
            r#"{"id":3,"error":{"code":103,"message":"permission denied"}}"#,
            "\n",
            r#"{"push":{"channel":"news","pub":{"data":"x","offset":5}}}"#,
            "\n{}\nnonsense\n"
        );
        let read: Vec<Option<Line>> = lines(frame.as_bytes()).collect();
        assert_eq!(read.len(), 6);
        let line = |at: usize| read[at].as_ref().unwrap();
        assert!(line(0).connect.is_some() && line(0).id == 1);
        let subscribed = line(1).subscribe.as_ref().unwrap();
        assert!(subscribed.recovered && subscribed.offset == 4 && subscribed.epoch == "e");
        assert_eq!(line(2).error.as_ref().unwrap().code, 103);
        let push = line(3).push.as_ref().unwrap();
        assert_eq!(push.publication.as_ref().unwrap().offset, 5);
        assert_eq!(push.channel, "news");
        assert_eq!(line(4).id, 0);
        assert!(read[5].is_none());
    }
}
