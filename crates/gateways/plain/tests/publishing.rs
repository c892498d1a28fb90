//! Requests to `POST /pub`: accepted forms, counters, and the answer to each result; and those that
//! do not wait for each other: the order of commands and of answers.

use throng_broker::Refusal;
use throng_gateway_plain::Plain;
use throng_metrics::Counter;
use throng_session::{CloseReason, Event, PublishOutcome};
use throng_solo::Solo;
use throng_types::{End, Epoch, Position};

fn post(target: &str, more: &str) -> String {
    format!("POST {target} HTTP/1.1\r\nHost: t\r\nContent-Length: 1\r\n{more}\r\n1")
}

/// Takes the ordered publications: channels and tokens.
fn ordered(publisher: &mut Solo<Plain>) -> Vec<(String, u32)> {
    let orders = publisher.published().into_iter();
    let each = orders.flat_map(|(first, drafts)| {
        let names = drafts.into_iter().map(|draft| draft.channel.to_string());
        names.zip(first..)
    });
    each.collect()
}

fn names(ordered: &[(String, u32)]) -> Vec<&str> {
    ordered.iter().map(|(name, _)| name.as_str()).collect()
}

fn at(offset: u64) -> PublishOutcome {
    let epoch = Epoch(11);
    Ok(Some(Position { epoch, offset }))
}

#[test]
fn each_result_has_its_answer() {
    let busy = "a queue is full, nothing was published; try again in a moment";
    let away = "the broker is unavailable, nothing was published; try again in a moment";
    let unknown = "the broker did not answer, it may have published or not; repeat it with the \
                   same idempotency key";
    let nowhere = "the channel's namespace is not configured";
    let other = "the channel refused the publication";
    for (results, expected) in [
        (vec![Ok(None)], "200 {}".to_owned()),
        (vec![at(4)], "200 {\"offset\":4,\"epoch\":\"b\"}".to_owned()),
        (vec![Err(Refusal::Busy)], format!("503 {busy}")),
        (vec![Err(Refusal::Unavailable)], format!("503 {away}")),
        (vec![Err(Refusal::Unknown)], format!("503 {unknown}")),
        (vec![Err(Refusal::UnknownChannel)], format!("404 {nowhere}")),
        (vec![Err(Refusal::TooLong)], format!("400 {other}")),
        (vec![Ok(None), Ok(None)], "200 [{},{}]".to_owned()),
        (
            vec![at(7), Err(Refusal::UnknownChannel), Err(Refusal::Busy)],
            format!(
                "404 [{{\"offset\":7,\"epoch\":\"b\"}},{{\"error\":\"{nowhere}\"}},\
                 {{\"error\":\"{busy}\"}}]"
            ),
        ),
    ] {
        let mut publisher = Solo::<Plain>::caller(throng_solo::shared());
        let query = vec!["channel=a"; results.len()].join("&");
        publisher.feed(post(&format!("/pub?{query}"), "").as_bytes());
        publisher.orders.clear();
        for (token, result) in (0..).zip(results) {
            assert!(publisher.out.is_empty(), "not all are answered");
            publisher.answer(token, result);
        }
        assert!(publisher.out.ends_with(b"\n"));
        assert_eq!(publisher.answers(), [expected]);
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
        publisher.feed(post(&format!("/pub?{query}"), "").as_bytes());
        assert_eq!(names(&ordered(&mut publisher)), channels, "{query}");
        let counted = publisher.shared.counters.counter(Counter::PublicationsApi);
        assert_eq!(counted, channels.len() as u64, "{query}");
        if channels.is_empty() {
            let told = publisher.answers();
            assert!(told[0].starts_with("400 "), "{query}: {told:?}");
        }
    }
}

#[test]
fn one_request_has_so_many_channels() {
    for (count, is_taken) in [(10_000, true), (10_001, false)] {
        let mut shared = throng_solo::shared();
        shared.limits.head_bytes_max = 1 << 20;
        let mut publisher = Solo::<Plain>::caller(shared);
        let query = vec!["channel=a"; count].join("&");
        publisher.feed(post(&format!("/pub?{query}"), "").as_bytes());
        let ordered = ordered(&mut publisher);
        assert_eq!(ordered.len(), if is_taken { count } else { 0 });
        if !is_taken {
            let told = publisher.answers();
            assert_eq!(told, ["400 more than 10000 channels in one request"]);
        }
    }
}

#[test]
fn requests_are_carried_out_as_they_come_and_answered_in_their_order() {
    let mut publisher = Solo::<Plain>::caller(throng_solo::shared());
    let requests = [
        post("/pub?channel=a", ""),
        post("/pub?channel=b&channel=c", ""),
        post("/pub?channel=d", ""),
    ];
    publisher.feed(requests.concat().as_bytes());
    let numbered = ["a", "b", "c", "d"].map(str::to_owned).into_iter().zip(0..);
    assert_eq!(ordered(&mut publisher), Vec::from_iter(numbered));
    publisher.answer(3, at(4));
    publisher.answer(2, Err(Refusal::Busy));
    assert!(publisher.out.is_empty(), "the first is not answered");
    publisher.answer(0, Ok(None));
    assert_eq!(publisher.answers(), ["200 {}"]);
    publisher.answer(1, at(1));
    let answers = publisher.answers();
    assert_eq!(answers.len(), 2);
    assert!(answers[0].starts_with("503 [{\"offset\":1,"), "{answers:?}");
    assert!(answers[1].starts_with("200 {\"offset\":4,"), "{answers:?}");
    // And again: tokens go on, nothing is left of those before.
    publisher.feed(post("/pub?channel=e", "").as_bytes());
    assert_eq!(ordered(&mut publisher), [("e".to_owned(), 4)]);
    publisher.answer(4, Ok(None));
    assert_eq!(publisher.answers(), ["200 {}"]);
}

#[test]
fn a_request_of_another_kind_waits_for_those_before_it() {
    let mut publisher = Solo::<Plain>::caller(throng_solo::shared());
    let requests = [
        post("/pub?channel=a", ""),
        // Refused at once, but behind the first.
        post("/pub", ""),
        "GET /healthz HTTP/1.1\r\nHost: t\r\n\r\n".to_owned(),
        post("/pub?channel=b", ""),
    ];
    publisher.feed(requests.concat().as_bytes());
    assert_eq!(ordered(&mut publisher).len(), 1);
    assert_eq!(publisher.actions.pause, Some(true), "nothing more is read");
    assert!(publisher.answers().is_empty());
    publisher.answer(0, Ok(None));
    let answers = publisher.answers();
    assert_eq!(answers.len(), 3, "{answers:?}");
    assert!(answers[1].starts_with("400 no channel"), "{answers:?}");
    assert_eq!(answers[2], "200 ok");
    assert_eq!(publisher.actions.pause, Some(false));
    assert_eq!(ordered(&mut publisher), [("b".to_owned(), 1)]);
    publisher.answer(1, Ok(None));
    assert_eq!(publisher.answers(), ["200 {}"]);
}

#[test]
fn whoever_asks_for_the_end_or_breaks_a_rule_has_what_came_before_answered() {
    // (what comes, publications, answers in all)
    let close = post("/pub?channel=b", "Connection: close\r\n");
    let garbage = "SMTP\r\n\r\n".to_owned();
    for (second, publications, last) in [(close, 2, "200"), (garbage, 1, "400")] {
        let mut publisher = Solo::<Plain>::caller(throng_solo::shared());
        let requests = [
            post("/pub?channel=a", ""),
            second,
            post("/pub?channel=c", ""),
        ];
        publisher.feed(requests.concat().as_bytes());
        publisher.feed(post("/pub?channel=d", "").as_bytes());
        assert_eq!(ordered(&mut publisher).len(), publications);
        assert_eq!(publisher.actions.end, None);
        for token in 0..publications as u32 {
            publisher.answer(token, Ok(None));
        }
        let answers = publisher.answers();
        assert_eq!(answers.len(), 2, "{answers:?}");
        assert!(answers[1].starts_with(last), "{answers:?}");
        assert_eq!(publisher.actions.end, Some(End::Flush));
        assert!(ordered(&mut publisher).is_empty());
    }
}

#[test]
fn a_server_that_stops_answers_first() {
    let mut publisher = Solo::<Plain>::caller(throng_solo::shared());
    publisher.feed(post("/pub?channel=a", "").as_bytes());
    publisher.event(Event::Close(&CloseReason::Drain { reconnect_ms: 0 }));
    assert_eq!(publisher.actions.end, None);
    publisher.feed(post("/pub?channel=b", "").as_bytes());
    assert_eq!(ordered(&mut publisher).len(), 1);
    publisher.answer(0, Ok(None));
    assert_eq!(publisher.answers(), ["200 {}"]);
    assert_eq!(publisher.actions.end, Some(End::Flush));
}

#[test]
fn no_more_than_a_bound_are_without_an_answer() {
    let mut publisher = Solo::<Plain>::caller(throng_solo::shared());
    let many: String = (0..1500)
        .map(|n| post(&format!("/pub?channel=c{n}"), ""))
        .collect();
    let mut rest = many.as_bytes();
    // As reads bring them, in the middle of anything.
    while !rest.is_empty() && publisher.actions.pause.is_none() {
        let (now, later) = rest.split_at(rest.len().min(7001));
        publisher.feed(now);
        rest = later;
    }
    assert_eq!(ordered(&mut publisher).len(), 1024);
    assert_eq!(publisher.actions.pause, Some(true));
    for token in 0..1024 {
        publisher.answer(token, Ok(None));
    }
    assert_eq!(publisher.answers().len(), 1024);
    publisher.feed(rest);
    let tokens: Vec<u32> = { ordered(&mut publisher) }
        .into_iter()
        .map(|(_, token)| token)
        .collect();
    assert_eq!(tokens, Vec::from_iter(1024..1500));
}

#[test]
fn a_body_in_pieces_does_not_wait() {
    let both = post("/pub?channel=a", "") + &post("/pub?channel=b", "");
    for cut in 0..both.len() {
        let mut publisher = Solo::<Plain>::caller(throng_solo::shared());
        publisher.feed(&both.as_bytes()[..cut]);
        publisher.feed(&both.as_bytes()[cut..]);
        let numbered = ["a", "b"].map(str::to_owned).into_iter().zip(0..);
        assert_eq!(ordered(&mut publisher), Vec::from_iter(numbered), "{cut}");
        publisher.answer(1, at(2));
        publisher.answer(0, at(1));
        assert_eq!(publisher.answers().len(), 2, "{cut}");
    }
}

#[test]
fn a_fault_within_a_body_is_told_behind_the_answers_before_it() {
    let head = "POST /pub?channel=b HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n";
    for is_late in [false, true] {
        let mut publisher = Solo::<Plain>::caller(throng_solo::shared());
        publisher.feed((post("/pub?channel=a", "") + head).as_bytes());
        match is_late {
            false => publisher.feed(b"zz\r\n"),
            true => publisher.event(Event::Timeout),
        }
        assert!(publisher.out.is_empty(), "the first is not answered");
        assert_eq!(publisher.actions.end, None);
        publisher.feed(post("/pub?channel=c", "").as_bytes());
        assert_eq!(ordered(&mut publisher), [("a".to_owned(), 0)]);
        publisher.answer(0, Ok(None));
        let answers = publisher.answers();
        assert_eq!(answers.len(), 2, "{answers:?}");
        assert_eq!(answers[0], "200 {}");
        let status = if is_late { "408" } else { "400" };
        assert!(answers[1].starts_with(status), "{answers:?}");
        assert_eq!(publisher.actions.end, Some(End::Flush));
    }
}

#[test]
fn who_waits_for_answers_is_not_late() {
    let mut publisher = Solo::<Plain>::caller(throng_solo::shared());
    publisher.feed(post("/pub?channel=a", "").as_bytes());
    assert_eq!(publisher.actions.deadline, Some(None));
    publisher.event(Event::Timeout);
    assert_eq!(publisher.actions.end, None);
    // Half a head has a deadline, whether or not something is awaited; a whole one takes it away.
    let next = post("/pub?channel=b", "");
    publisher.feed(&next.as_bytes()[..9]);
    assert!(matches!(publisher.actions.deadline, Some(Some(_))));
    publisher.feed(&next.as_bytes()[9..]);
    assert_eq!(publisher.actions.deadline, Some(None));
    publisher.answer(0, Ok(None));
    publisher.answer(1, Ok(None));
    assert!(matches!(publisher.actions.deadline, Some(Some(_))));
}

#[test]
fn long_requests_without_an_answer_are_few() {
    let mut publisher = Solo::<Plain>::caller(throng_solo::shared());
    let bytes = publisher.shared.limits.publish_bytes_max;
    let body = "x".repeat(bytes);
    let long = |channel: u32| {
        let head = format!("POST /pub?channel={channel} HTTP/1.1\r\nHost: t\r\n");
        format!("{head}Content-Length: {bytes}\r\n\r\n{body}")
    };
    // Two of the longest, with heads as long as they may be, are more than two of these.
    let requests: String = (0..6).map(long).collect();
    publisher.feed(requests.as_bytes());
    assert_eq!(ordered(&mut publisher).len(), 3);
    assert_eq!(publisher.actions.pause, Some(true));
    for token in 0..3 {
        publisher.answer(token, Ok(None));
    }
    assert_eq!(ordered(&mut publisher).len(), 3);
    // Answered requests no longer count.
    publisher.answer(3, Ok(None));
    publisher.feed(long(6).as_bytes());
    assert_eq!(ordered(&mut publisher), [("6".to_owned(), 6)]);
}

#[test]
fn a_request_like_the_one_before_is_judged_by_what_differs() {
    let shared = throng_session::Shared {
        api_keys: std::sync::Arc::new(throng_auth::ApiKeys::new(["sesame"]).unwrap()),
        ..throng_solo::shared()
    };
    let mut publisher = Solo::<Plain>::caller(shared);
    let key = "X-API-Key: sesame\r\n";
    let long = post("/pub?channel=b", key).replace("Length: 1", "Length: 3") + "23";
    // (what comes, the channels that are published to, the answer)
    let asked = [
        (post("/pub?channel=a", key), "a", "200 {}"),
        (post("/pub?channel=b", key), "b", "200 {}"),
        (long, "b", "200 {}"),
        (post("/pub?channel=b&channel=c", key), "b c", "200 [{},{}]"),
        (
            post("/pub", key),
            "",
            "400 no channel given: add ?channel=NAME",
        ),
        (post("/pub?channel=%ff", key), "", "400 "),
        (post("/pub?channel=a", ""), "", "401 "),
        (post("/pub?channel=a&api_key=sesame", ""), "a", "200 {}"),
        (post("/pub?channel=a", ""), "", "401 "),
        (post("/pub?channel=a", "X-API-Key: no\r\n"), "", "401 "),
        (post("/pubs?channel=a", key), "", "405 "),
        (
            post("/pub?channel=a", "X-API-Key: sesame\r\nOrigin: x\r\n"),
            "",
            "403 ",
        ),
        (post("/pub?channel=d", key), "d", "200 {}"),
    ];
    // With what comes behind it in the same read, or alone; whole or in two pieces.
    for cut in [None, Some(7), Some(90)] {
        for (request, channels, expected) in &asked {
            let (now, later) = request.split_at(cut.unwrap_or(request.len()).min(request.len()));
            publisher.feed(now.as_bytes());
            if !later.is_empty() {
                publisher.feed(later.as_bytes());
            }
            let ordered = ordered(&mut publisher);
            assert_eq!(names(&ordered).join(" "), *channels, "{request}");
            for (_, token) in &ordered {
                publisher.answer(*token, Ok(None));
            }
            let answers = publisher.answers();
            let [one] = &answers[..] else {
                panic!("{answers:?} to {request}");
            };
            assert!(one.starts_with(expected), "{one} to {request}");
        }
    }
    // An end that is asked for is one.
    publisher.feed(post("/pub?channel=a", key).as_bytes());
    let close = post("/pub?channel=b", &format!("{key}Connection: close\r\n"));
    publisher.feed((close + &post("/pub?channel=c", key)).as_bytes());
    assert_eq!(ordered(&mut publisher).len(), 2);
}
