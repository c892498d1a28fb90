//! Bounds: of what waits, of what is answered, and of what a client may ask for; and the calls of
//! one request that wait for others, by a connection whose orders are not carried out.

use throng_broker::{HistoryPage, Refusal};
use throng_gateway_centrifuge::Centrifuge;
use throng_hub::{Answer, Command};
use throng_session::{CloseReason, Event, NodeCount, Port, SurveyReply};
use throng_solo::{Order, Solo};
use throng_types::{ConnId, Disconnect, End, ShardId};

use crate::stage::Story;

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

/// Replies that grow too long for one answer end in errors, and the rest is there.
#[test]
fn a_batch_of_long_replies_is_cut() {
    let long = "x".repeat(300_000);
    let history = r#"{"history":{"channel":"kept:a","limit":10}}"#;
    let body = format!("{{\"commands\":[{}]}}", vec![history; 40].join(","));
    let mut story = Story::default();
    story.take(&format!(
        "publish kept:a {long:?}\nat API\nposts /api/batch\n  {body}\n"
    ));
    let told = story.told().pop_front().expect("an answer");
    let told = told.strip_prefix("200 ").expect("a good one");
    let told: serde_json::Value = serde_json::from_str(told).expect("JSON");
    let replies = told["replies"].as_array().expect("a list");
    let is_whole =
        |reply: &&serde_json::Value| reply["history"]["publications"][0]["data"] == *long;
    let whole = replies.iter().take_while(is_whole).count();
    // 8 MiB, the reply that went beyond them, and those that were asked for already.
    assert!((28..37).contains(&whole), "{whole}");
    let cut = |reply: &serde_json::Value| reply["error"]["code"] == 100;
    assert!(replies[whole..].iter().all(cut));
    assert_eq!(replies.len(), 40);
}

/// Answers cost by their contents: of long ones a client gets fewer.
#[test]
fn long_answers_are_charged() {
    let answered = |data: &str| {
        let mut story = Story::default();
        story.take("with messages 10\n");
        for _ in 0..3 {
            story.take(&format!("publish kept:a {data}\n"));
        }
        story.take("ann\n< {\"id\":2,\"subscribe\":{\"channel\":\"kept:a\"}}\nskips\n");
        let ask = "< {\"id\":3,\"history\":{\"channel\":\"kept:a\",\"limit\":-1}}\n";
        let mut is_answered = || {
            story.take(ask);
            !story.told().drain(..).any(|told| told == "close 3013")
        };
        (0..100).take_while(|_| is_answered()).count()
    };
    let short = answered("1");
    assert!((15..=20).contains(&short), "{short}");
    let long = answered(&format!("\"{}\"", "x".repeat(120_000)));
    assert!((4..=9).contains(&long), "{long}");
}

/// Input behind a waiting request is kept up to a bound; beyond it the connection is closed.
#[test]
fn what_comes_behind_commands_is_bounded() {
    for more in [0, 1] {
        let mut solo = Solo::<Centrifuge>::at(Port::Client, throng_solo::shared());
        let node = &solo.shared.node;
        let there = ConnId::new(ShardId(1), 5, 1);
        let body = serde_json::json!({
            "session": node.session_id(there).as_str(), "node": node.name(), "data": "{}",
        });
        let body = body.to_string();
        let length = body.len();
        // The order is not carried out, so it waits.
        solo.feed(
            format!(
                "POST /emulation HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}"
            )
            .as_bytes(),
        );
        let limits = &solo.shared.limits;
        let bytes_max = 2 * (limits.head_bytes_max + limits.message_bytes_max);
        solo.feed(&vec![b'x'; bytes_max + more]);
        assert_eq!(solo.actions.end.is_some(), more == 1);
        // The wait is bounded.
        solo.event(Event::Timeout);
        assert!(solo.actions.end.is_some());
    }
}
