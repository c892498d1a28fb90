//! The story that everything exists for: a client loses its connection, misses what is said
//! meanwhile, comes back, and hears exactly that, in order, and then what is new.

use serde_json::{Value, json};
use throng_testkit::{Proxy, Server, Setup};

use crate::support::{RECOVERY, Start, data, emulated, publish, sdks, subscribed, url};

/// Publications sent while the client is away.
const MISSED: usize = 50;

/// Tells the story on several channels of one connection, several times over.
#[track_caller]
pub(crate) fn tell(name: &str, start: Start, server: &Server, channels: &[String]) {
    let proxy = Proxy::new(server.clients());
    let mut client = start();
    client.connect(&url(proxy.address()));
    for channel in channels {
        let subscribed = client.subscribe(channel);
        assert_eq!(subscribed["recovered"], false, "{name} {subscribed}");
        let first = data("first", 3);
        publish(server, channel, &first);
        assert_eq!(client.publications(channel, 3), first, "{name} {channel}");
    }
    for round in ["second", "third"] {
        proxy.cut();
        client.event("connecting", &json!({}));
        let missed = data(round, MISSED);
        for channel in channels {
            publish(server, channel, &missed);
        }
        proxy.mend();
        for channel in channels {
            let back = client.event("subscribed", &json!({ "channel": channel }));
            assert_eq!(
                (&back["was_recovering"], &back["recovered"]),
                (&json!(true), &json!(true)),
                "{name} {back}"
            );
        }
        let live = data("live", 3);
        for channel in channels {
            publish(server, channel, &live);
            // The live ones fence what was missed: one too many, and they would not be where they
            // are.
            let heard = client.publications(channel, MISSED + 3);
            assert_eq!(
                heard,
                [&missed[..], &live].concat(),
                "{name} {channel} {round}"
            );
        }
        client.forget("connecting");
    }
    assert_eq!(client.left("publication"), 0, "{name}");
}

/// Tells the story to each client, with so many channels each.
fn come_back(shards: u32, clients: &[(&str, Start)], channels: usize) {
    let server = Setup::new(RECOVERY).shards(shards).start();
    for (name, start) in clients {
        let channels: Vec<String> = (0..channels).map(|n| format!("chat:{name}-{n}")).collect();
        tell(name, *start, &server, &channels);
    }
    let recovered =
        |result| server.metric(&format!("throng_recovered_total{{result=\"{result}\"}}"));
    assert_eq!(recovered("complete"), (2 * clients.len() * channels) as u64);
    assert_eq!(recovered("failed"), 0);
    server.stop();
}

#[test]
fn fifty_missed_messages_come_back_with_one_shard() {
    come_back(1, &sdks(), 1);
}

/// Twelve names over four shards: most of them live on another shard than the connection does.
#[test]
fn fifty_missed_messages_come_back_from_other_shards() {
    come_back(4, &sdks(), 12);
}

/// Recovers without WebSockets: commands come on other connections than the stream's, and mostly on
/// another shard's.
#[test]
fn fifty_missed_messages_come_back_without_a_websocket() {
    come_back(3, &emulated(), 4);
}

/// The publisher does not stop for the client's sake: some of it is missed, some recovered, some
/// live.
#[test]
fn nothing_is_lost_or_doubled_while_the_publisher_goes_on() {
    let server = Setup::new(RECOVERY).shards(2).start();
    let proxy = Proxy::new(server.clients());
    for (name, start) in sdks() {
        let channel = format!("chat:on-{name}");
        let client = subscribed(start, proxy.address(), &channel);
        let all = data("all", 300);
        for (n, data) in all.iter().enumerate() {
            match n % 100 {
                20 => proxy.cut(),
                40 => proxy.mend(),
                _ => {}
            }
            server.publish(&channel, &data.to_string());
        }
        assert_eq!(client.publications(&channel, all.len()), all, "{name}");
        assert_eq!(client.left("publication"), 0, "{name}");
    }
    server.stop();
}

/// Another process has another history, even where the offsets would fit.
#[test]
fn a_restarted_server_does_not_pretend_to_have_the_history() {
    for (name, start) in sdks() {
        let first = Setup::new(RECOVERY).shards(2).start();
        let proxy = Proxy::new(first.clients());
        let client = subscribed(start, proxy.address(), "chat:news");
        publish(&first, "chat:news", &data("first", 2));
        client.publications("chat:news", 2);
        proxy.cut();
        client.event("connecting", &json!({}));
        drop(first);
        let second = Setup::new(RECOVERY).shards(2).start();
        publish(&second, "chat:news", &data("second", 7));
        proxy.lead_to(second.clients());
        proxy.mend();
        let back = client.event("subscribed", &json!({ "channel": "chat:news" }));
        assert_eq!(
            (&back["was_recovering"], &back["recovered"]),
            (&json!(true), &json!(false)),
            "{name} {back}"
        );
        let live = data("live", 2);
        publish(&second, "chat:news", &live);
        assert_eq!(client.publications("chat:news", 2), live, "{name}");
        second.stop();
    }
}

/// Channels without recovery bring nothing back, and do not claim that they did.
#[test]
fn without_recovery_a_cut_loses_what_was_said() {
    let server = Setup::default().shards(1).start();
    for (name, start) in sdks() {
        let proxy = Proxy::new(server.clients());
        let mut client = start();
        client.connect(&url(proxy.address()));
        let subscribed = client.subscribe(name);
        assert_eq!(subscribed["recoverable"], false, "{name}");
        proxy.cut();
        client.event("connecting", &json!({}));
        server.publish(name, "{\"n\":0}");
        proxy.mend();
        let back = client.event("subscribed", &json!({ "channel": name }));
        assert_eq!(back["recovered"], false, "{name}");
        server.publish(name, "{\"n\":1}");
        assert_eq!(
            client.publications(name, 1),
            [json!({ "n": 1 })] as [Value; 1]
        );
    }
    server.stop();
}
