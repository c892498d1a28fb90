//! Answers of the server API.

use throng_types::Position;

use crate::api::{Method, ServerApiError};
use crate::form::Form as _;
use crate::json::{Object, append_list, append_text};
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

    fn append(&self, out: &mut Vec<u8>) {
        match self {
            Self::Publish(result) => Object::append(out, |object| {
                object.position_if_any((0, 0), result.position);
            }),
            Self::Broadcast(responses) => append_broadcast(responses, out),
            Self::Done(_) => out.extend_from_slice(b"{}"),
            Self::History(result) => Object::append(out, |object| write_history(result, object)),
            Self::Presence(present) => {
                Object::append(out, |object| write_presence(present, object));
            }
            Self::PresenceStats { clients, users } => Object::append(out, |object| {
                write_presence_stats(*clients, *users, object);
            }),
            Self::Channels(channels) => append_channels(channels, None, out),
            Self::SomeChannels(channels, found) => append_channels(channels, Some(*found), out),
            Self::Connections(found) => append_connections(found, out),
            Self::Info(nodes) => append_nodes(nodes, out),
        }
    }
}

/// Answers `POST /api/METHOD`: `{"result":{..}}` or `{"error":{..}}`.
pub fn encode_response(answer: Result<&ApiResult<'_>, ServerApiError>, out: &mut Vec<u8>) {
    let mut response = Object::open(out);
    append_answer(&mut response, answer);
    response.close();
}

/// The body of an error in transport error mode: `{"code":..,"message":..}`.
pub fn encode_bare_error(error: ServerApiError, out: &mut Vec<u8>) {
    let mut object = Object::open(out);
    object.number("code", error.code().into());
    object.text("message", error.message());
    object.close();
}

/// Answers one command of `POST /api/batch`: `{"publish":{..}}` or `{"error":{..}}`. The caller
/// joins all with `,` in `{"replies":[..]}`.
pub fn encode_batch_reply(answer: Result<&ApiResult<'_>, ServerApiError>, out: &mut Vec<u8>) {
    let mut reply = Object::open(out);
    match answer {
        Ok(result) => result.append(reply.value(result.method().name())),
        Err(error) => encode_bare_error(error, reply.value("error")),
    }
    reply.close();
}

/// Answers one command of `POST /api`; the caller joins several with `\n`.
pub fn encode_legacy(id: u32, answer: Result<&ApiResult<'_>, ServerApiError>, out: &mut Vec<u8>) {
    let mut reply = Object::open(out);
    reply.number_if_any("id", id.into());
    append_answer(&mut reply, answer);
    reply.close();
}

fn append_answer(response: &mut Object<'_>, answer: Result<&ApiResult<'_>, ServerApiError>) {
    match answer {
        Ok(result) => result.append(response.value("result")),
        Err(error) => encode_bare_error(error, response.value("error")),
    }
}

fn append_broadcast(responses: &[Result<PublishResult, ServerApiError>], out: &mut Vec<u8>) {
    let mut broadcast = Object::open(out);
    append_list(responses, broadcast.value("responses"), |response, out| {
        encode_response(
            response
                .map(ApiResult::Publish)
                .as_ref()
                .map_err(|error| *error),
            out,
        );
    });
    broadcast.close();
}

fn append_channels(channels: &[(&str, u32)], found: Option<u32>, out: &mut Vec<u8>) {
    let mut result = Object::open(out);
    let mut by_name = Object::open(result.value("channels"));
    for (channel, clients) in channels {
        let mut info = Object::open(by_name.value_of(channel));
        info.number("num_clients", (*clients).into());
        info.close();
    }
    by_name.close();
    if let Some(found) = found {
        result.number("num_found", found.into());
    }
    result.close();
}

fn append_connections(found: &ConnectionsResult<'_>, out: &mut Vec<u8>) {
    let mut result = Object::open(out);
    append_list(found.rows, result.value("connections"), |row, out| {
        let mut object = Object::open(out);
        for (key, text) in [
            ("client", row.client),
            ("user", row.user),
            ("address", row.address),
            ("transport", row.transport),
            ("node", row.node),
        ] {
            append_text(text, object.value(key));
        }
        object.number("queued_bytes", row.queued_bytes);
        object.number("num_subs", row.num_subs.into());
        object.texts("channels", &row.channels);
        object.close();
    });
    result.number("num_found", found.num_found.into());
    result
        .value("cut")
        .extend_from_slice(if found.is_cut { b"true" } else { b"false" });
    result.close();
}

fn append_nodes(nodes: &[NodeInfo<'_>], out: &mut Vec<u8>) {
    let mut result = Object::open(out);
    append_list(nodes, result.value("nodes"), |node, out| {
        let mut object = Object::open(out);
        for (key, text) in [
            ("uid", node.uid),
            ("name", node.name),
            ("version", node.version),
        ] {
            append_text(text, object.value(key));
        }
        for (key, number) in [
            ("num_clients", node.num_clients),
            ("num_users", node.num_users),
            ("num_channels", node.num_channels),
            ("num_subs", node.num_subs),
            ("uptime", node.uptime_s),
        ] {
            object.number(key, number.into());
        }
        object.close();
    });
    result.close();
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
            (ServerApiError::Internal, 100, 500),
            (ServerApiError::UnknownChannel, 102, 404),
            (ServerApiError::NotFound, 104, 404),
            (ServerApiError::BadRequest, 107, 400),
            (ServerApiError::NotAvailable, 108, 400),
            (ServerApiError::UnrecoverablePosition, 112, 416),
            (ServerApiError::Conflict, 113, 409),
        ] {
            let bare = format!(r#"{{"code":{code},"message":"{}"}}"#, error.message());
            assert_eq!(error.http_status(), status);
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
                Err(ServerApiError::UnknownChannel),
                r#"{"error":{"code":102,"message":"unknown channel"}}"#,
            ),
            (
                Ok(ApiResult::Done(Method::Disconnect)),
                r#"{"disconnect":{}}"#,
            ),
        ] {
            let answer = answer.as_ref().map_err(|error| *error);
            check(|out| encode_batch_reply(answer, out), expected);
        }
        let done = ApiResult::Done(Method::Unsubscribe);
        check(|out| encode_legacy(0, Ok(&done), out), r#"{"result":{}}"#);
    }
}
