//! Centrifugo's client protocol v2 in its JSON form: the first commands, replies and pushes.
//!
//! Objects stand on lines of their own, in one frame or in several; `{}` is a ping. Never: keeps
//! state; ids and positions are the caller's.

use std::io::Write as _;

use serde::Deserialize;

/// Position in a channel's stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamPosition {
    /// Name of the stream; another one has other offsets.
    pub epoch: String,
    /// Number of the last publication.
    pub offset: u64,
}

/// Id of the connect command; those of subscriptions follow.
pub const CONNECT_ID: u32 = 1;

/// Ping of a server, and the answer to it.
pub const PING: &[u8] = b"{}";

/// Appends the connect command, with a token if there is one.
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
pub fn encode_subscribe(id: u32, channel: &str, from: Option<&StreamPosition>, out: &mut Vec<u8>) {
    let channel = serde_json::Value::from(channel);
    let _ = match from {
        Some(StreamPosition { epoch, offset }) => {
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

/// Line of a server: a reply or a push.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Line {
    /// Id of the command that this answers; 0 for a push.
    pub id: u32,
    pub error: Option<CommandError>,
    pub connect: Option<serde::de::IgnoredAny>,
    pub subscribe: Option<SubscribeReply>,
    /// Push, which answers no command.
    pub push: Option<ServerPush>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct CommandError {
    pub code: u32,
    /// Sentence on the error, by the server.
    pub message: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct SubscribeReply {
    /// Name of the stream that the offset is of.
    pub epoch: String,
    pub offset: u64,
    /// True if everything that was missed follows or has come.
    pub recovered: bool,
}

/// Push of the server, which answers no command.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ServerPush {
    pub channel: String,
    #[serde(rename = "pub")]
    pub publication: Option<ReceivedPublication>,
}

/// Publication, of which only the position is read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ReceivedPublication {
    pub offset: u64,
}

/// Reads the lines of a frame; none for a line that is not JSON.
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
        let position = StreamPosition {
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
