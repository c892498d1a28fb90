//! Answers as backends' libraries read them.

use std::sync::Arc;

use throng_types::{ChannelName, Epoch, Payload, PayloadKind, Publication, Told};

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
            Err(ApiError::UnknownChannel),
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
    let found = Connections {
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
        told: Told::Data,
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
        (ApiError::Internal, 100, 500),
        (ApiError::UnknownChannel, 102, 404),
        (ApiError::NotFound, 104, 404),
        (ApiError::BadRequest, 107, 400),
        (ApiError::NotAvailable, 108, 400),
        (ApiError::UnrecoverablePosition, 112, 416),
        (ApiError::Conflict, 113, 409),
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
            Err(ApiError::UnknownChannel),
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
