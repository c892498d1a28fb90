//! Centrifugo's client protocol v2 in its JSON form: the first commands, and what replies and
//! pushes say.
//!
//! Objects stand on lines of their own, in one frame or in several; `{}` is a ping. Never: keeps
//! state; ids and positions are the caller's.

use std::io::Write as _;

use serde::Deserialize;

/// A place in a channel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Which stream; another one has other offsets.
    pub epoch: String,
    /// The number of the last publication.
    pub offset: u64,
}

/// The id of the connect command; subscriptions follow from the next one on.
pub const CONNECT_ID: u32 = 1;

/// A server's ping, and the answer to it.
pub const PING: &[u8] = b"{}";

/// Appends the connect command.
pub fn encode_connect(token: Option<&str>, out: &mut Vec<u8>) {
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
pub fn encode_subscribe(id: u32, channel: &str, from: Option<&Position>, out: &mut Vec<u8>) {
    let channel = serde_json::Value::from(channel);
    let _ = match from {
        Some(Position { epoch, offset }) => {
            let epoch = serde_json::Value::from(epoch.as_str());
            write!(
                out,
                concat!(
                    r#"{{"id":{},"subscribe":{{"channel":{},"#,
                    r#""recover":true,"epoch":{},"offset":{}}}}}"#
                ),
                id, channel, epoch, offset
            )
        }
        None => write!(out, r#"{{"id":{id},"subscribe":{{"channel":{channel}}}}}"#),
    };
}

/// What a line says, as far as we listen.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Line {
    /// The command that this answers; 0 for a push.
    pub id: u32,
    /// The command failed.
    pub error: Option<Refusal>,
    /// The connect command succeeded.
    pub connect: Option<serde::de::IgnoredAny>,
    /// The subscribe command succeeded.
    pub subscribe: Option<Subscribed>,
    /// What the server sends of its own accord.
    pub push: Option<Push>,
}

/// An error in a reply.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Refusal {
    /// The kind of error.
    pub code: u32,
    /// In words.
    pub message: String,
}

/// The result of a subscribe command.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Subscribed {
    /// The stream that the offset is of.
    pub epoch: String,
    /// The number of the newest publication.
    pub offset: u64,
    /// Whether everything that was missed follows or has come.
    pub recovered: bool,
}

/// What the server sends by itself.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Push {
    /// The channel.
    pub channel: String,
    /// A publication.
    #[serde(rename = "pub")]
    pub publication: Option<Publication>,
}

/// A publication, as far as its place matters.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Publication {
    /// Its number in the stream.
    pub offset: u64,
}

/// The lines of a frame; none for one that is not JSON.
pub fn lines(frame: &[u8]) -> impl Iterator<Item = Option<Line>> {
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
