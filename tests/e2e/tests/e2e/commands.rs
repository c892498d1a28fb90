//! What an SDK's user does besides listening: publish, look back, leave.

use serde_json::{Value, json};
use throng_testkit::{Sdk, Server, Setup, script, until};

use crate::support::{RECOVERY, Start, data, emulated, publish, sdks, url, ws};

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
        client.recovers("chat:a");
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
    let plain = ws(&server, "/ws?channel=news");
    let silent = script(
        "ws.mjs",
        &[
            &format!("ws://{}/ws?channel=news", server.clients()),
            "no-pong",
        ],
    );
    silent.event("close", &json!({ "code": 3012 }));
    let mut mute = ws(&server, "/connection/websocket");
    mute.say(r#"send {"id":1,"connect":{}}"#);
    mute.event("close", &json!({ "code": 3012 }));
    // Every client was pinged more than once and has answered.
    let pings = server.metric("throng_pings_total");
    until("more pings", || {
        server.metric("throng_pings_total") >= pings + 9
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
    server.counts("throng_connections_closed_total{reason=\"no_pong\"}", 2);
    server.stop();
}
