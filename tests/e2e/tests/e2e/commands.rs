//! What an SDK's user does besides listening: publish, look back, leave; and what an operator does
//! to them.

use serde_json::{Value, json};
use throng_testkit::{Sdk, Server, Setup, script, until};

use crate::support::{RECOVERY, Start, data, emulated, publish, sdks, url};

fn connected(server: &Server, start: Start) -> (Sdk, Value) {
    let mut client = start();
    let told = client.connect(&url(server.clients()));
    (client, told["client"].clone())
}

#[test]
fn what_one_client_publishes_another_one_hears() {
    let server = Setup::new(RECOVERY).shards(2).start();
    for (name, start) in sdks().into_iter().chain(emulated()) {
        let (mut speaker, _) = connected(&server, start);
        let (mut listener, _) = connected(&server, start);
        for channel in ["news", "chat:room"] {
            listener.subscribe(channel);
            for data in data(name, 5) {
                let done = speaker.result("publish", &json!({ "channel": channel, "data": data }));
                assert_eq!(done["event"], "done", "{name} {done}");
            }
            assert_eq!(listener.publications(channel, 5), data(name, 5), "{name}");
        }
        // Text that JSON has to escape, and that is longer than one network packet.
        let long = json!({ "text": "\u{1F980} \"quoted\" \\ \n é ".repeat(500) });
        speaker.result("publish", &json!({ "channel": "news", "data": long }));
        assert_eq!(listener.publications("news", 1), [long], "{name}");
    }
    server.stop();
}

#[test]
fn history_is_read_in_pages_and_backwards() {
    let server = Setup::new(RECOVERY).shards(2).start();
    for (name, start) in sdks() {
        let channel = format!("chat:{name}");
        let (mut client, _) = connected(&server, start);
        let all = data("all", 10);
        publish(&server, &channel, &all);
        let mut page = |fields: Value| {
            let mut order = fields;
            order["channel"] = json!(channel);
            client.result("history", &order)
        };
        let whole = page(json!({ "limit": 100 }));
        assert_eq!(
            (&whole["data"], &whole["offset"]),
            (&json!(all), &json!(10)),
            "{name}"
        );
        let none = page(json!({ "limit": 0 }));
        assert_eq!(
            (&none["data"], &none["offset"]),
            (&json!([]), &json!(10)),
            "{name}"
        );
        let since = json!({ "offset": 4, "epoch": whole["epoch"] });
        let next = page(json!({ "limit": 3, "since": since }));
        assert_eq!(next["data"], json!(all[4..7]), "{name}");
        let back = page(json!({ "limit": 2, "reverse": true }));
        assert_eq!(back["data"], json!([all[9], all[8]]), "{name}");
        let lost = page(json!({ "limit": 2, "since": { "offset": 4, "epoch": "elsewhere" } }));
        assert_eq!(
            (&lost["event"], &lost["code"]),
            (&json!("failed"), &json!(112)),
            "{name}"
        );
    }
    server.stop();
}

#[test]
fn what_is_not_there_is_refused_by_code() {
    let server = Setup::new(RECOVERY).start();
    for (name, start) in sdks() {
        let (mut client, _) = connected(&server, start);
        for (order, fields, code) in [
            ("rpc", json!({ "method": "add", "data": {} }), 108),
            ("publish", json!({ "channel": "un:known", "data": {} }), 102),
            ("history", json!({ "channel": "un:known", "limit": 1 }), 102),
            ("history", json!({ "channel": "news", "limit": 1 }), 108),
            ("presence", json!({ "channel": "news" }), 108),
            (
                "publish",
                json!({ "channel": "throng:stats", "data": {} }),
                103,
            ),
        ] {
            assert_eq!(
                client.failure(order, &fields),
                code,
                "{name} {order} {fields}"
            );
        }
        client.order("subscribe", &json!({ "channel": "un:known" }));
        client.event(
            "unsubscribed",
            &json!({ "channel": "un:known", "code": 102 }),
        );
        client.order("subscribe", &json!({ "channel": "throng:stats" }));
        client.event(
            "unsubscribed",
            &json!({ "channel": "throng:stats", "code": 103 }),
        );
        // None of that has cost the connection.
        client.subscribe("news");
        assert_eq!(
            (client.left("connecting"), client.left("disconnected")),
            (1, 0),
            "{name}"
        );
    }
    server.stop();
}

#[test]
fn many_channels_on_one_connection_stay_apart() {
    let server = Setup::new(RECOVERY).shards(3).start();
    for (name, start) in sdks() {
        let (mut client, _) = connected(&server, start);
        let channels: Vec<String> = (0..60).map(|n| format!("chat:{name}.{n}")).collect();
        for channel in &channels {
            client.order("subscribe", &json!({ "channel": channel }));
        }
        for channel in &channels {
            client.event("subscribed", &json!({ "channel": channel }));
            server.publish(channel, &json!({ "to": channel }).to_string());
        }
        for channel in &channels {
            assert_eq!(
                client.publications(channel, 1),
                [json!({ "to": channel })],
                "{name}"
            );
        }
        client.order("unsubscribe", &json!({ "channel": channels[0] }));
        client.event(
            "unsubscribed",
            &json!({ "channel": channels[0], "code": 0 }),
        );
        // The reply to the next command comes after that of the unsubscribe.
        client.result("history", &json!({ "channel": channels[0], "limit": 0 }));
        server.publish(&channels[0], "1");
        server.publish(&channels[1], "2");
        assert_eq!(client.publications(&channels[1], 1), [json!(2)], "{name}");
        assert_eq!(client.left("publication"), 0, "{name}");
        // Whether it asks for what it missed by its own will is the SDK's choice.
        client.subscribe(&channels[0]);
        server.publish(&channels[0], "3");
        client.event("publication", &json!({ "channel": channels[0], "data": 3 }));
    }
    server.stop();
}

#[test]
fn the_api_ends_subscriptions_and_connections() {
    let server = Setup::new(RECOVERY).shards(2).start();
    for (name, start) in sdks() {
        let (mut client, id) = connected(&server, start);
        let (mut other, _) = connected(&server, start);
        for client in [&mut client, &mut other] {
            client.subscribe("chat:a");
            client.subscribe("chat:b");
        }
        let done = server.call(
            "unsubscribe",
            &json!({ "user": "", "client": id, "channel": "chat:a" }),
        );
        assert_eq!(done, json!({ "result": {} }), "{name}");
        client.event(
            "unsubscribed",
            &json!({ "channel": "chat:a", "code": 2000 }),
        );
        publish(&server, "chat:a", &data("a", 1));
        publish(&server, "chat:b", &data("b", 1));
        client.publications("chat:b", 1);
        assert_eq!(client.left("publication"), 0, "{name}");
        assert_eq!(other.publications("chat:a", 1), data("a", 1), "{name}");

        let done = server.call("disconnect", &json!({ "user": "", "client": id }));
        assert_eq!(done, json!({ "result": {} }), "{name}");
        client.event("disconnected", &json!({ "code": 3503 }));
        publish(&server, "chat:a", &data("again", 1));
        assert_eq!(other.publications("chat:a", 1), data("again", 1), "{name}");
        assert_eq!(other.left("connecting"), 1, "{name}: the other one stays");
    }
    server.stop();
}

/// A code below 3500 or from 4000 to 4499 asks the client to come back.
#[test]
fn the_api_may_ask_clients_to_come_back() {
    let server = Setup::new(RECOVERY).shards(2).start();
    for (name, start) in sdks() {
        let (mut client, id) = connected(&server, start);
        client.subscribe("chat:a");
        client.forget("connecting");
        let why = json!({ "code": 4001, "reason": "say \"when\"" });
        server.call(
            "disconnect",
            &json!({ "user": "", "client": id, "disconnect": why }),
        );
        let told = client.event("connecting", &json!({ "code": 4001 }));
        assert_eq!(told["reason"], "say \"when\"", "{name}");
        client.event(
            "subscribed",
            &json!({ "channel": "chat:a", "recovered": true }),
        );
    }
    server.stop();
}

#[test]
fn pings_are_answered_and_silence_is_noticed() {
    let config = "[websocket]\nping_interval = \"1s\"\npong_timeout = \"500ms\"\n";
    let server = Setup::new(config).shards(1).start();
    let clients = sdks().map(|(_, start)| {
        let (mut client, _) = connected(&server, start);
        client.subscribe("news");
        client
    });
    let plain = script(
        "ws.mjs",
        &[&format!("ws://{}/ws?channel=news", server.clients())],
    );
    plain.event("open", &json!({}));
    let silent = script(
        "ws.mjs",
        &[
            &format!("ws://{}/ws?channel=news", server.clients()),
            "no-pong",
        ],
    );
    silent.event("close", &json!({ "code": 3012 }));
    let mut mute = script(
        "ws.mjs",
        &[&format!("ws://{}/connection/websocket", server.clients())],
    );
    mute.event("open", &json!({}));
    mute.say(r#"send {"id":1,"connect":{}}"#);
    mute.event("close", &json!({ "code": 3012 }));
    // Every client was pinged more than once and has answered.
    let pings = server.metric("throng_pings_total");
    until("more pings", || {
        (server.metric("throng_pings_total") >= pings + 9).then_some(())
    });
    server.publish("news", "1");
    for client in &clients {
        assert_eq!(client.publications("news", 1), [json!(1)]);
        assert_eq!(
            (client.left("connecting"), client.left("disconnected")),
            (1, 0)
        );
    }
    plain.event("message", &json!({ "data": "1" }));
    assert_eq!(
        server.metric("throng_connections_closed_total{reason=\"no_pong\"}"),
        2
    );
    server.stop();
}

/// Sends by hand the frames that SDKs would never send.
#[test]
fn the_protocol_is_held_to_its_rules() {
    let server = Setup::new(RECOVERY).shards(1).start();
    let url = format!("ws://{}/connection/websocket", server.clients());
    let open = || {
        let client = script("ws.mjs", &[&url]);
        client.event("open", &json!({}));
        client
    };
    let mut client = open();
    // Several commands in a frame; an answer for each.
    client.say(r#"send {"id":1,"connect":{}}"#);
    client.event("message", &json!({}));
    for (order, answer) in [
        (
            r#"{"id":2,"subscribe":{"channel":"chat:a"}}"#,
            "\"subscribe\"",
        ),
        (
            r#"{"id":3,"subscribe":{"channel":"chat:a"}}"#,
            "\"code\":105",
        ),
        (
            r#"{"id":4,"subscribe":{"channel":"\u0007"}}"#,
            "\"code\":107",
        ),
        (
            r#"{"id":5,"unsubscribe":{"channel":"chat:a"}}"#,
            "\"unsubscribe\":{}",
        ),
        (r#"{"id":6,"ping":{}}"#, "\"id\":6"),
        (
            r#"{"id":7,"presence":{"channel":"chat:a"}}"#,
            "\"code\":108",
        ),
        (
            r#"{"id":8,"sub_refresh":{"channel":"chat:a","token":"x"}}"#,
            "\"code\":103",
        ),
    ] {
        client.say(&format!("send {order}"));
        let told = client.event("message", &json!({}));
        assert!(
            told["data"].as_str().unwrap_or_default().contains(answer),
            "{order}: {told}"
        );
    }
    for (orders, code) in [
        (
            &[r#"send {"id":1,"subscribe":{"channel":"news"}}"#][..],
            3501,
        ),
        (&["send nonsense"], 3501),
        (
            &[
                r#"send {"id":1,"connect":{}}"#,
                r#"send {"id":2,"connect":{}}"#,
            ],
            3501,
        ),
        (
            &[r#"send {"id":1,"connect":{}}"#, r#"binary ["id",1]"#],
            3501,
        ),
        (
            &[
                r#"binary {"id":1,"connect":{}}"#,
                r#"binary {"send":{"data":1}}"#,
            ],
            3508,
        ),
    ] {
        let mut client = open();
        for order in orders {
            client.say(order);
        }
        client.event("close", &json!({ "code": code }));
    }
    server.stop();
}
