//! Bounds: of what waits, of what is answered, and of what a client may ask for.

use throng_gateway_centrifuge::Centrifuge;
use throng_session::{Event, Port};
use throng_solo::Solo;
use throng_types::{ConnId, ShardId};

use crate::stage::Story;

/// A batch of calls whose orders are not carried out.
fn held(calls: &[String]) -> Story {
    let calls = calls.join(",");
    let mut story = Story::default();
    story.take(&format!(
        "at API\nholds\nposts /api/batch\n  {{\"commands\":[{calls}]}}\n"
    ));
    story
}

#[test]
fn so_many_are_without_an_answer() {
    let publish = |n| format!(r#"{{"publish":{{"channel":"c{n}","data":1}}}}"#);
    let mut story = held(&(0..3000).map(publish).collect::<Vec<_>>());
    let (mut ordered, mut answered) = (0, 0);
    while answered < 3000 {
        for order in story.server.held.replace(Vec::new()).expect("orders") {
            let (first, names) = order.split_once(": ").expect("a token");
            assert_eq!(first, ordered.to_string());
            ordered += names.split(' ').count();
        }
        assert_eq!(ordered, 3000.min(answered + 1024));
        assert!(story.told().is_empty());
        story.take(&format!("hub {answered} done\n"));
        answered += 1;
    }
    let told = story.told().pop_front().expect("an answer");
    assert_eq!(told.matches(r#"{"publish":{}}"#).count(), 3000);
    // Pages of history are longer.
    let ask = r#"{"history":{"channel":"a"}}"#.to_owned();
    let mut story = held(&vec![ask; 20]);
    assert_eq!(story.server.held.as_ref().map(Vec::len), Some(8));
    for token in 0..20 {
        story.take(&format!("hub {token} history\n"));
    }
    let told = story.told().pop_front().expect("an answer");
    assert_eq!(told.matches(r#"{"history":"#).count(), 20);
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
