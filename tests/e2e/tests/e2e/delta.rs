//! Publications as differences: SDKs put them together again, also after a cut.

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
