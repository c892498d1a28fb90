//! Publications as differences: SDKs put them together again, also after a cut; and publications
//! that a filter lets pass.

use serde_json::{Value, json};
use throng_testkit::{Proxy, Setup};

use crate::support::{emulated, sdks, url};

const CHANNELS: &str = r#"
[[namespace]]
name = "quotes"
history_size = 100
history_ttl = "5m"
recovery = true
allowed_delta_types = ["fossil"]
allow_tags_filter = true
"#;

/// A long text of which each number changes a little; some of it is no ASCII.
fn quote(number: usize) -> Value {
    let rows = (0..20).map(|row| {
        let price = if row == number % 20 { number } else { row };
        json!({ "name": format!("Wert {row} é日"), "price": price, "open": true })
    });
    json!({ "number": number, "rows": rows.collect::<Vec<_>>() })
}

#[test]
fn sdks_put_differences_together() {
    let server = Setup::new(CHANNELS).shards(3).start();
    for (name, start) in sdks().into_iter().chain(emulated()) {
        let proxy = Proxy::new(server.clients());
        let mut client = start();
        client.connect(&url(proxy.address()));
        let channel = format!("quotes:{name}");
        client.order(
            "subscribe",
            &json!({ "channel": channel, "delta": "fossil" }),
        );
        client.event("subscribed", &json!({ "channel": channel }));
        let all: Vec<Value> = (0..30).map(quote).collect();
        let publish = |some: &[Value]| {
            for data in some {
                server.publish(&channel, &data.to_string());
            }
        };
        let before = server.metric("throng_delivery_bytes_total");
        publish(&all[..10]);
        assert_eq!(client.publications(&channel, 10), all[..10], "{name}");
        let sent = server.metric("throng_delivery_bytes_total") - before;
        let whole: usize = all[..10].iter().map(|data| data.to_string().len()).sum();
        assert!(sent < whole as u64 / 2, "{name}: {sent} of {whole}");
        proxy.cut();
        client.event("connecting", &json!({}));
        publish(&all[10..20]);
        proxy.mend();
        client.recovers(&channel);
        publish(&all[20..]);
        assert_eq!(client.publications(&channel, 20), all[10..], "{name}");
        assert_eq!(client.left("publication"), 0, "{name}");
    }
    server.stop();
}

#[test]
fn a_filter_lets_some_pass() {
    let server = Setup::new(CHANNELS).shards(3).start();
    let javascript = sdks().into_iter().filter(|(name, _)| name.contains("js"));
    for (name, start) in javascript.chain(emulated()) {
        let proxy = Proxy::new(server.clients());
        let mut client = start();
        client.connect(&url(proxy.address()));
        let channel = format!("quotes:{name}");
        let filter = json!({ "op": "or", "nodes": [
            { "key": "kind", "cmp": "eq", "val": "a" },
            { "key": "size", "cmp": "gt", "val": "9.5" },
        ] });
        client.order(
            "subscribe",
            &json!({ "channel": channel, "filter": filter }),
        );
        client.event("subscribed", &json!({ "channel": channel }));
        let publish = |number: u32, tags: Value| {
            let call = json!({ "channel": channel, "data": number, "tags": tags });
            server.call("publish", &call);
        };
        publish(1, json!({ "kind": "a" }));
        publish(2, json!({ "kind": "b", "size": "9" }));
        publish(3, json!({ "kind": "b", "size": "10" }));
        assert_eq!(
            client.publications(&channel, 2),
            [json!(1), json!(3)],
            "{name}"
        );
        proxy.cut();
        client.event("connecting", &json!({}));
        publish(4, json!({ "kind": "b" }));
        publish(5, json!({ "kind": "a" }));
        proxy.mend();
        client.recovers(&channel);
        publish(6, json!({}));
        publish(7, json!({ "kind": "a" }));
        assert_eq!(
            client.publications(&channel, 2),
            [json!(5), json!(7)],
            "{name}"
        );
        assert_eq!(client.left("publication"), 0, "{name}");
    }
    server.stop();
}
