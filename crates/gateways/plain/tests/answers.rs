//! Requests to `POST /pub`: accepted forms, counters, and the answer to each result.

use throng_broker::Refusal;
use throng_gateway_plain::Plain;
use throng_hub::{Answer, Command};
use throng_metrics::Counter;
use throng_session::{Event, PublishResult};
use throng_solo::{Order, Solo};
use throng_types::{Epoch, Position};

/// Publishes by a query; the channels that are ordered.
fn post(publisher: &mut Solo<Plain>, query: &str) -> Vec<String> {
    let request = format!("POST /pub?{query} HTTP/1.1\r\nHost: t\r\nContent-Length: 1\r\n\r\n1");
    publisher.feed(request.as_bytes());
    let orders = std::mem::take(&mut publisher.orders).into_iter();
    let drafts = orders.flat_map(|order| match order {
        Order::Hub(Command::Publish { draft, .. }) => vec![draft],
        Order::Hub(Command::PublishAll { drafts, .. }) => drafts,
        other => panic!("{other:?}"),
    });
    drafts
        .map(|draft| draft.channel.as_str().to_owned())
        .collect()
}

/// The status and the body that were written.
fn written(publisher: &mut Solo<Plain>) -> String {
    let out = String::from_utf8(std::mem::take(&mut publisher.out)).expect("text");
    let (head, body) = out.split_once("\r\n\r\n").expect("an answer");
    format!("{} {body}", &head[9..12])
}

#[test]
fn each_result_has_its_answer() {
    let at = |offset| -> PublishResult {
        let epoch = Epoch(11);
        Ok(Some(Position { epoch, offset }))
    };
    let busy = "a queue is full, nothing was published; try again in a moment";
    let away = "the broker is unavailable, nothing was published; try again in a moment";
    let unknown = "the broker did not answer, it may have published or not; repeat it with the \
                   same idempotency key";
    let nowhere = "the channel's namespace is not configured";
    let other = "the channel refused the publication";
    for (results, expected) in [
        (vec![Ok(None)], "200 {}\n".to_owned()),
        (
            vec![at(4)],
            "200 {\"offset\":4,\"epoch\":\"b\"}\n".to_owned(),
        ),
        (vec![Err(Refusal::Busy)], format!("503 {busy}\n")),
        (vec![Err(Refusal::Unavailable)], format!("503 {away}\n")),
        (vec![Err(Refusal::Unknown)], format!("503 {unknown}\n")),
        (
            vec![Err(Refusal::UnknownChannel)],
            format!("404 {nowhere}\n"),
        ),
        (vec![Err(Refusal::TooLong)], format!("400 {other}\n")),
        (vec![Ok(None), Ok(None)], "200 [{},{}]\n".to_owned()),
        (
            vec![at(7), Err(Refusal::UnknownChannel), Err(Refusal::Busy)],
            format!(
                "404 [{{\"offset\":7,\"epoch\":\"b\"}},{{\"error\":\"{nowhere}\"}},\
                 {{\"error\":\"{busy}\"}}]\n"
            ),
        ),
    ] {
        let mut publisher = Solo::<Plain>::caller(throng_solo::shared());
        post(&mut publisher, &vec!["channel=a"; results.len()].join("&"));
        for (token, result) in (0..).zip(results) {
            assert!(publisher.out.is_empty(), "not all are answered");
            let answer = Answer::Published { result };
            publisher.event(Event::Answer { token, answer });
        }
        assert_eq!(written(&mut publisher), expected);
    }
}

#[test]
fn channels_are_named_in_the_query_as_often_as_one_likes() {
    for (query, channels) in [
        ("channel=a", &["a"][..]),
        ("channel=a+b", &["a b"]),
        ("channel=a%20b", &["a b"]),
        ("channel=a%26b", &["a&b"]),
        ("channel=a&channel=b&channel=a", &["a", "b", "a"]),
        ("other=x&channel=a&x=channel", &["a"]),
        ("channel=", &[]),
        ("channel=a&channel=", &[]),
        ("channel=a%0a", &[]),
        // No UTF-8: two of them once both became U+FFFD, and so the same channel.
        ("channel=%ff", &[]),
        ("channel=%fe", &[]),
        ("channel=%E2%82", &[]),
        ("channel=a%C0%80", &[]),
        ("channel=%ed%a0%80", &[]),
        ("channel=%e2%82%ac", &["\u{20ac}"]),
        ("channels=a", &[]),
        ("", &[]),
    ] {
        let mut publisher = Solo::<Plain>::caller(throng_solo::shared());
        assert_eq!(post(&mut publisher, query), channels, "{query}");
        let counted = publisher.shared.counters.counter(Counter::PublicationsApi);
        assert_eq!(counted, channels.len() as u64, "{query}");
        if channels.is_empty() {
            let told = written(&mut publisher);
            assert!(told.starts_with("400 "), "{query}: {told}");
        }
    }
}

#[test]
fn one_request_has_so_many_channels() {
    for (count, is_taken) in [(10_000, true), (10_001, false)] {
        let mut shared = throng_solo::shared();
        shared.limits.head_bytes_max = 1 << 20;
        let mut publisher = Solo::<Plain>::caller(shared);
        let ordered = post(&mut publisher, &vec!["channel=a"; count].join("&"));
        assert_eq!(ordered.len(), if is_taken { count } else { 0 });
        if !is_taken {
            let told = written(&mut publisher);
            assert_eq!(told, "400 more than 10000 channels in one request\n");
        }
    }
}
