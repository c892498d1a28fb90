//! Answers of the server API.

use throng_types::Position;

use crate::api::{CallError, Method, ServerApiError};
use crate::form::Form;
use crate::json::Object;
use crate::protobuf::Protobuf;
use crate::reply::{write_history, write_presence, write_presence_stats};
use crate::{ClientInfo, HistoryResult};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PublishResult {
    /// The publication's place; none in channels that keep no history.
    pub position: Option<Position>,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct NodeInfo<'a> {
    /// Unique while the node lives.
    pub uid: &'a str,
    /// Name for people, from the configuration.
    pub name: &'a str,
    pub version: &'a str,
    pub num_clients: u32,
    /// Number of different users.
    pub num_users: u32,
    /// Number of channels with subscribers.
    pub num_channels: u32,
    /// Subscriptions of all clients together.
    pub num_subs: u32,
    /// Seconds since the node started.
    pub uptime_s: u32,
}

#[derive(Clone, Debug)]
pub struct ConnectionInfo<'a> {
    /// Public id of the connection.
    pub client: &'a str,
    pub user: &'a str,
    pub address: &'a str,
    /// `websocket`, `sse` or `stream`.
    pub transport: &'static str,
    pub node: &'a str,
    pub queued_bytes: u64,
    pub num_subs: u32,
    /// The first of them.
    pub channels: Vec<&'a str>,
}

/// Connections that fit a request.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionsResult<'a> {
    /// At most as many as were asked for.
    pub rows: &'a [ConnectionInfo<'a>],
    /// Number of connections that fit.
    pub num_found: u32,
    /// Some were not looked at.
    pub is_cut: bool,
}

#[derive(Clone, Copy, Debug)]
pub enum ApiResult<'a> {
    /// Result of [`Method::Publish`], which may have a position.
    Publish(PublishResult),
    /// Results of [`Method::Broadcast`]: one answer a channel, in the order of the channels.
    Broadcast(&'a [Result<PublishResult, ServerApiError>]),
    Done(Method),
    /// Result of [`Method::History`] with its position.
    History(HistoryResult<'a>),
    /// Result of [`Method::Presence`]: every client that is present.
    Presence(&'a [ClientInfo<'a>]),
    /// Result of [`Method::PresenceStats`] as two numbers.
    PresenceStats {
        /// Number of connections in the channel.
        clients: u32,
        /// Number of different users.
        users: u32,
    },
    /// Result of [`Method::Channels`]: names and numbers of subscribed connections.
    Channels(&'a [(&'a str, u32)]),
    /// Result of [`Method::Channels`] if not all were wanted, and the number of all.
    SomeChannels(&'a [(&'a str, u32)], u32),
    /// Result of [`Method::Connections`] with its count.
    Connections(ConnectionsResult<'a>),
    /// Result of [`Method::Info`], a row a node.
    Info(&'a [NodeInfo<'a>]),
}

impl ApiResult<'_> {
    #[must_use]
    pub const fn method(&self) -> Method {
        match self {
            Self::Publish(_) => Method::Publish,
            Self::Broadcast(_) => Method::Broadcast,
            Self::Done(method) => *method,
            Self::History(_) => Method::History,
            Self::Presence(_) => Method::Presence,
            Self::PresenceStats { .. } => Method::PresenceStats,
            Self::Channels(_) | Self::SomeChannels(..) => Method::Channels,
            Self::Connections(_) => Method::Connections,
            Self::Info(_) => Method::Info,
        }
    }

    fn write<F: Form>(&self, form: &mut F) {
        match self {
            Self::Publish(result) => form.position_if_any((2, 1), result.position),
            Self::Broadcast(responses) => {
                form.list(("responses", 1), responses, |response, form| {
                    let result = response.map(ApiResult::Publish).map_err(CallError::from);
                    write_answer(result.as_ref(), form);
                });
            }
            Self::Done(_) => {}
            Self::History(result) => write_history(result, PUBLICATIONS, form),
            Self::Presence(present) => write_presence(present, form),
            Self::PresenceStats { clients, users } => write_presence_stats(*clients, *users, form),
            Self::Channels(channels) => write_channels(channels, form),
            Self::SomeChannels(channels, found) => {
                write_channels(channels, form);
                form.number(("num_found", OWN), (*found).into());
            }
            Self::Connections(found) => write_connections(found, form),
            Self::Info(nodes) => form.list(("nodes", 1), nodes, write_node),
        }
    }
}

/// The number of a publication's first field in answers.
const PUBLICATIONS: u32 = 2;
/// The first number of fields in Protobuf that are Throng's own.
const OWN: u32 = 1000;

/// Answers `POST /api/METHOD`: `{"result":{..}}` or `{"error":{..}}`.
pub fn encode_response(answer: Result<&ApiResult<'_>, &CallError>, out: &mut Vec<u8>) {
    Object::append(out, |form| write_answer(answer, form));
}

/// Appends the message that answers a call.
pub fn encode_message(answer: Result<&ApiResult<'_>, &CallError>, out: &mut Vec<u8>) {
    write_answer(answer, &mut Protobuf::bare(out));
}

/// The body of an error in transport error mode: `{"code":..,"message":..}`.
pub fn encode_bare_error(error: &CallError, out: &mut Vec<u8>) {
    Object::append(out, |form| write_error(error, form));
}

/// Answers one command of `POST /api/batch`: `{"publish":{..}}` or `{"error":{..}}`. The caller
/// joins all with `,` in `{"replies":[..]}`.
pub fn encode_batch_reply(answer: Result<&ApiResult<'_>, &CallError>, out: &mut Vec<u8>) {
    Object::append(out, |form| write_reply(answer, form));
}

/// Appends the answer to one command of a batch as a field of the message that answers all.
pub fn encode_batch_field(answer: Result<&ApiResult<'_>, &CallError>, out: &mut Vec<u8>) {
    let mut batch = Protobuf::bare(out);
    batch.message(("replies", 1), |form| write_reply(answer, form));
}

/// Answers one command of `POST /api`; the caller joins several with `\n`.
pub fn encode_legacy(id: u32, answer: Result<&ApiResult<'_>, &CallError>, out: &mut Vec<u8>) {
    Object::append(out, |reply| {
        reply.number_if_any("id", id.into());
        write_answer(answer, reply);
    });
}

fn write_answer<F: Form>(answer: Result<&ApiResult<'_>, &CallError>, form: &mut F) {
    match answer {
        Ok(result) => form.message(("result", 2), |form| result.write(form)),
        Err(error) => form.message(("error", 1), |form| write_error(error, form)),
    }
}

fn write_reply<F: Form>(answer: Result<&ApiResult<'_>, &CallError>, form: &mut F) {
    match answer {
        Ok(result) => {
            let method = result.method();
            form.message((method.name(), method.number()), |form| result.write(form));
        }
        Err(error) => form.message(("error", 2), |form| write_error(error, form)),
    }
}

fn write_error<F: Form>(error: &CallError, form: &mut F) {
    form.number(("code", 1), error.kind().code().into());
    form.text(("message", 2), &error.to_string());
}

fn write_channels<F: Form>(channels: &[(&str, u32)], form: &mut F) {
    let by_name = channels.iter().map(|(name, clients)| (*name, *clients));
    form.map(("channels", 1), by_name, |clients, form| {
        form.number(("num_clients", 1), clients.into());
    });
}

fn write_connections<F: Form>(found: &ConnectionsResult<'_>, form: &mut F) {
    form.list(("connections", OWN), found.rows, |row, form| {
        for (number, (key, text)) in (1..).zip([
            ("client", row.client),
            ("user", row.user),
            ("address", row.address),
            ("transport", row.transport),
            ("node", row.node),
        ]) {
            form.text((key, number), text);
        }
        form.number(("queued_bytes", 6), row.queued_bytes);
        form.number(("num_subs", 7), row.num_subs.into());
        form.texts(("channels", 8), &row.channels);
    });
    form.number(("num_found", OWN + 1), found.num_found.into());
    form.flag(("cut", OWN + 2), found.is_cut);
}

fn write_node<F: Form>(node: &NodeInfo<'_>, form: &mut F) {
    form.text(("uid", 1), node.uid);
    form.text(("name", 2), node.name);
    form.text(("version", 3), node.version);
    form.number(("num_clients", 4), node.num_clients.into());
    form.number(("num_users", 5), node.num_users.into());
    form.number(("num_channels", 6), node.num_channels.into());
    form.number(("num_subs", 10), node.num_subs.into());
    form.number(("uptime", 7), node.uptime_s.into());
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use throng_types::{ChannelName, Epoch, Payload, PayloadKind, Publication, PublicationKind};

    use super::*;

    fn published(offset: u64) -> PublishResult {
        PublishResult {
            position: Some(Position {
                epoch: Epoch(0x2f),
                offset,
            }),
        }
    }

    #[track_caller]
    fn check(encode: impl FnOnce(&mut Vec<u8>), expected: &str) {
        let mut out = Vec::new();
        encode(&mut out);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        assert!(serde_json::from_str::<serde_json::Value>(expected).is_ok());
    }

    #[track_caller]
    fn check_result(result: ApiResult<'_>, expected: &str) {
        check(
            |out| encode_response(Ok(&result), out),
            &format!(r#"{{"result":{expected}}}"#),
        );
    }

    #[test]
    fn results() {
        check_result(ApiResult::Publish(PublishResult::default()), "{}");
        check_result(
            ApiResult::Publish(published(7)),
            r#"{"epoch":"2f","offset":7}"#,
        );
        check_result(ApiResult::Done(Method::Unsubscribe), "{}");
        check_result(ApiResult::Channels(&[]), r#"{"channels":{}}"#);
        check_result(
            ApiResult::SomeChannels(&[("a", 2)], 7),
            r#"{"channels":{"a":{"num_clients":2}},"num_found":7}"#,
        );
        check_result(
            ApiResult::Channels(&[("a\"", 1), ("b", 20)]),
            r#"{"channels":{"a\"":{"num_clients":1},"b":{"num_clients":20}}}"#,
        );
        check_result(
            ApiResult::Broadcast(&[
                Ok(published(1)),
                Err(ServerApiError::UnknownChannel),
                Ok(PublishResult::default()),
            ]),
            concat!(
                r#"{"responses":[{"result":{"epoch":"2f","offset":1}},"#,
                r#"{"error":{"code":102,"message":"unknown channel"}},{"result":{}}]}"#,
            ),
        );
        let row = ConnectionInfo {
            client: "id",
            user: "a\"",
            address: "::1",
            transport: "sse",
            node: "n",
            queued_bytes: 5,
            num_subs: 2,
            channels: vec!["c"],
        };
        let found = ConnectionsResult {
            rows: &[row],
            num_found: 3,
            is_cut: false,
        };
        check_result(
            ApiResult::Connections(found),
            concat!(
                r#"{"connections":[{"client":"id","user":"a\"","address":"::1","transport":"sse","#,
                r#""node":"n","queued_bytes":5,"num_subs":2,"channels":["c"]}],"#,
                r#""num_found":3,"cut":false}"#,
            ),
        );
        let node = NodeInfo {
            uid: "u",
            name: "host_8000",
            num_clients: 3,
            uptime_s: 9,
            ..NodeInfo::default()
        };
        check_result(
            ApiResult::Info(&[node]),
            concat!(
                r#"{"nodes":[{"uid":"u","name":"host_8000","version":"","num_clients":3,"#,
                r#""num_users":0,"#,
                r#""num_channels":0,"num_subs":0,"uptime":9}]}"#,
            ),
        );
    }

    #[test]
    fn answers_in_protobuf() {
        let node = NodeInfo {
            uid: "u",
            num_clients: 3,
            num_subs: 4,
            uptime_s: 9,
            ..NodeInfo::default()
        };
        let unknown = ServerApiError::UnknownChannel;
        let each = [Ok(published(7)), Err(unknown)];
        let unknown = CallError::from(unknown);
        let error = b"\x08\x66\x12\x0funknown channel";
        let responses = [
            &b"\x0a\x08\x12\x06\x12\x022f\x08\x07\x0a\x15\x0a\x13"[..],
            error,
        ];
        for (result, fields) in [
            (
                ApiResult::Publish(published(7)),
                b"\x12\x022f\x08\x07".to_vec(),
            ),
            (ApiResult::Done(Method::Refresh), Vec::new()),
            (ApiResult::Broadcast(&each), responses.concat()),
            (
                ApiResult::Channels(&[("a", 2)]),
                b"\x0a\x07\x0a\x01a\x12\x02\x08\x02".to_vec(),
            ),
            (
                ApiResult::Info(&[node]),
                b"\x0a\x09\x0a\x01u\x20\x03\x50\x04\x38\x09".to_vec(),
            ),
        ] {
            let mut message = Vec::new();
            encode_message(Ok(&result), &mut message);
            let expected = [&[0x12, fields.len() as u8][..], &fields].concat();
            assert_eq!(message, expected, "{result:?}");
        }
        let mut message = Vec::new();
        encode_message(Err(&unknown), &mut message);
        assert_eq!(message, [&b"\x0a\x13"[..], error].concat());
        let mut batch = Vec::new();
        encode_batch_field(Ok(&ApiResult::Done(Method::Refresh)), &mut batch);
        encode_batch_field(Err(&unknown), &mut batch);
        assert_eq!(
            batch,
            [&b"\x0a\x02\x7a\x00\x0a\x15\x12\x13"[..], error].concat()
        );
    }

    #[test]
    fn history_is_the_clients_history() {
        let publication = Arc::new(Publication {
            channel: ChannelName::new("c").unwrap(),
            told: PublicationKind::Data,
            position: published(2).position,
            payload: Payload {
                bytes: b"{\n}".as_slice().into(),
                kind: PayloadKind::Json,
            },
            publisher: None,
            tags: None,
            time_unix_ms: 1,
            trace: None,
        });
        let history = HistoryResult {
            publications: &[publication],
            position: published(4).position.unwrap(),
        };
        check_result(
            ApiResult::History(history),
            r#"{"publications":[{"data":{},"offset":2}],"epoch":"2f","offset":4}"#,
        );
    }

    #[test]
    fn errors_have_three_frames_and_a_status() {
        for (error, code, status) in [
            (ServerApiError::Busy, 100, 503),
            (ServerApiError::UnknownChannel, 102, 404),
            (ServerApiError::NotFound, 104, 404),
            (ServerApiError::BadRequest, 107, 400),
            (ServerApiError::NotAvailable, 108, 400),
            (ServerApiError::UnrecoverablePosition, 112, 416),
        ] {
            let bare = format!(r#"{{"code":{code},"message":"{}"}}"#, error.message());
            assert_eq!(error.http_status(), status);
            let error = &CallError::from(error);
            check(|out| encode_bare_error(error, out), &bare);
            check(
                |out| encode_response(Err(error), out),
                &format!(r#"{{"error":{bare}}}"#),
            );
            check(
                |out| encode_legacy(3, Err(error), out),
                &format!(r#"{{"id":3,"error":{bare}}}"#),
            );
        }
    }

    #[test]
    fn batches_and_the_older_endpoint() {
        for (answer, expected) in [
            (
                Ok(ApiResult::Publish(PublishResult::default())),
                r#"{"publish":{}}"#,
            ),
            (
                Err(CallError::from(ServerApiError::UnknownChannel)),
                r#"{"error":{"code":102,"message":"unknown channel"}}"#,
            ),
            (
                Ok(ApiResult::Done(Method::Disconnect)),
                r#"{"disconnect":{}}"#,
            ),
        ] {
            check(|out| encode_batch_reply(answer.as_ref(), out), expected);
        }
        let done = ApiResult::Done(Method::Unsubscribe);
        check(|out| encode_legacy(0, Ok(&done), out), r#"{"result":{}}"#);
    }
}
