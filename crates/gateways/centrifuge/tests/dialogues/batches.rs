//! Many calls in one request: order of commands, and calls that wait for others.

use throng_broker::{HistoryPage, Refusal};
use throng_gateway_centrifuge::Centrifuge;
use throng_hub::{Answer, Command};
use throng_session::{CloseReason, Event, NodeCount, Port, SurveyReply};
use throng_solo::{Order, Solo};
use throng_types::{Disconnect, End};

use crate::scene::{Scene, channel_on};

fn batch(commands: &[String]) -> String {
    let body = format!("{{\"commands\":[{}]}}", commands.join(","));
    let length = body.len();
    format!("POST /api/batch HTTP/1.1\r\nHost: t\r\nContent-Length: {length}\r\n\r\n{body}")
}

fn publish(channel: &str) -> String {
    format!(r#"{{"publish":{{"channel":"{channel}","data":1}}}}"#)
}

/// Takes the orders, as text.
fn ordered(publisher: &mut Solo<Centrifuge>) -> Vec<String> {
    let orders = std::mem::take(&mut publisher.orders);
    let of = |order| match order {
        Order::Hub(Command::Publish { reply_to, draft }) => {
            format!("{}: {}", reply_to.token, draft.channel.as_str())
        }
        Order::Hub(Command::PublishAll { reply_to, drafts }) => {
            let names: Vec<&str> = drafts.iter().map(|draft| draft.channel.as_str()).collect();
            format!("{}: {}", reply_to.token, names.join(" "))
        }
        Order::Hub(Command::History {
            reply_to, channel, ..
        }) => format!("{}: history {}", reply_to.token, channel.as_str()),
        Order::Survey { survey, .. } => format!("{survey:?}"),
        other => panic!("{other:?}"),
    };
    orders.into_iter().map(of).collect()
}

fn answer(publisher: &mut Solo<Centrifuge>, token: u32, answer: Answer) {
    publisher.event(Event::Answer { token, answer });
}

const DONE: Answer = Answer::Published { result: Ok(None) };

fn body(publisher: &mut Solo<Centrifuge>) -> Option<String> {
    let out = String::from_utf8(std::mem::take(&mut publisher.out)).unwrap();
    Some(out.split_once("\r\n\r\n")?.1.to_owned())
}

#[test]
fn calls_do_not_wait_and_are_answered_in_their_order() {
    let mut publisher = Solo::<Centrifuge>::caller(throng_solo::shared());
    let commands = [
        publish("a"),
        r#"{"nothing":{}}"#.to_owned(),
        r#"{"broadcast":{"channels":["b","c"],"data":2}}"#.to_owned(),
        r#"{"history":{"channel":"a"}}"#.to_owned(),
        publish("d"),
        r#"{"info":{}}"#.to_owned(),
        publish("e"),
        r#"{"nothing":{}}"#.to_owned(),
    ];
    publisher.feed(batch(&commands).as_bytes());
    // One command for a batch; history is asked behind the publications that it must show.
    assert_eq!(
        ordered(&mut publisher),
        ["0: a b c", "3: history a", "4: d"]
    );
    answer(&mut publisher, 4, DONE);
    let result = Ok(HistoryPage::default());
    answer(&mut publisher, 3, Answer::History { result });
    let result = Err(Refusal::Busy);
    answer(&mut publisher, 2, Answer::Published { result });
    answer(&mut publisher, 1, DONE);
    assert_eq!(
        ordered(&mut publisher),
        [""; 0],
        "the first is not answered"
    );
    answer(&mut publisher, 0, DONE);
    // A survey waits for the calls before it, and those behind it wait for it.
    assert_eq!(ordered(&mut publisher), ["Count"]);
    publisher.event(Event::Surveyed(vec![SurveyReply::Count(
        NodeCount::default(),
    )]));
    assert_eq!(ordered(&mut publisher), ["5: e"]);
    assert_eq!(body(&mut publisher), None);
    answer(&mut publisher, 5, DONE);
    let told = body(&mut publisher).unwrap();
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    let replies = told["replies"].as_array().unwrap();
    let kinds: Vec<String> = { replies.iter() }
        .map(|reply| reply.as_object().unwrap().keys().next().unwrap().clone())
        .collect();
    assert_eq!(
        kinds,
        [
            "publish",
            "error",
            "broadcast",
            "history",
            "publish",
            "info",
            "publish",
            "error"
        ]
    );
    let responses = &told["replies"][2]["broadcast"]["responses"];
    assert_eq!(responses[0], serde_json::json!({"result": {}}));
    assert_eq!(responses[1]["error"]["code"], 100);
}

#[test]
fn so_many_are_without_an_answer() {
    let mut publisher = Solo::<Centrifuge>::caller(throng_solo::shared());
    let commands: Vec<String> = (0..3000).map(|n| publish(&format!("c{n}"))).collect();
    publisher.feed(batch(&commands).as_bytes());
    let mut waiting = 0..0;
    let mut answered = 0;
    while answered < 3000 {
        for order in ordered(&mut publisher) {
            let (first, names) = order.split_once(": ").unwrap();
            assert_eq!(first, waiting.end.to_string());
            waiting.end += names.split(' ').count() as u32;
        }
        assert!(waiting.len() <= 1024, "{waiting:?}");
        assert_eq!(waiting.end, 3000.min(answered + 1024));
        assert_eq!(body(&mut publisher), None);
        answer(&mut publisher, answered, DONE);
        answered += 1;
        waiting.start = answered;
    }
    let told = body(&mut publisher).unwrap();
    assert_eq!(told.matches(r#"{"publish":{}}"#).count(), 3000);
    // Pages of history are longer.
    let ask = r#"{"history":{"channel":"a"}}"#.to_owned();
    publisher.feed(batch(&vec![ask; 20]).as_bytes());
    assert_eq!(ordered(&mut publisher).len(), 8);
    for token in 0..20 {
        let result = Ok(HistoryPage::default());
        answer(&mut publisher, token, Answer::History { result });
    }
    let told = body(&mut publisher).unwrap();
    assert_eq!(told.matches(r#"{"history":"#).count(), 20);
}

#[test]
fn requests_behind_a_batch_wait_and_nothing_more_is_read() {
    let mut publisher = Solo::<Centrifuge>::caller(throng_solo::shared());
    let two = batch(&[publish("a")]).repeat(2);
    publisher.feed(two.as_bytes());
    assert_eq!(ordered(&mut publisher), ["0: a"]);
    assert_eq!(publisher.actions.pause, Some(true));
    answer(&mut publisher, 0, DONE);
    assert_eq!(publisher.actions.pause, Some(false));
    assert_eq!(ordered(&mut publisher), ["0: a"], "of the second");
    answer(&mut publisher, 0, DONE);
    assert_eq!(publisher.actions.pause, None, "nothing waits");
    assert_eq!(publisher.actions.end, None);
}

#[test]
fn a_server_that_stops_answers_a_batch_first() {
    let mut publisher = Solo::<Centrifuge>::caller(throng_solo::shared());
    publisher.feed(batch(&[publish("a"), publish("b")]).as_bytes());
    let why = CloseReason::Because(Disconnect::Shutdown);
    publisher.event(Event::Close(&why));
    assert_eq!(publisher.actions.end, None);
    answer(&mut publisher, 0, DONE);
    answer(&mut publisher, 1, DONE);
    let told = String::from_utf8(std::mem::take(&mut publisher.out)).unwrap();
    assert!(told.contains("Connection: close\r\n"), "{told}");
    assert!(told.ends_with(r#"{"replies":[{"publish":{}},{"publish":{}}]}"#));
    assert_eq!(publisher.actions.end, Some(End::Flush));
}

#[test]
fn a_batch_over_three_shards_reads_what_it_wrote() {
    let channels = [0, 1, 2].map(|shard| channel_on(shard, "kept:"));
    let commands: Vec<String> = (0..6)
        .flat_map(|n| {
            let channel = &channels[n % 3];
            let history = format!(r#"{{"history":{{"channel":"{channel}","limit":10}}}}"#);
            [publish(channel), history]
        })
        .collect();
    let body = format!("{{\"commands\":[{}]}}", commands.join(","));
    let (status, told) = Scene::new(Port::Api).post("/api/batch", "", &body);
    assert_eq!(status, 200);
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    for (n, pair) in told["replies"].as_array().unwrap().chunks(2).enumerate() {
        let offset = n / 3 + 1;
        assert_eq!(pair[0]["publish"]["offset"], offset, "{told}");
        let shown = pair[1]["history"]["publications"].as_array().unwrap();
        assert_eq!(shown.len(), offset, "{told}");
    }
}
