//! What a backend does to a client by the server API: subscribes it, gives it another end.

use serde_json::json;
use throng_testkit::Setup;

use crate::support::{SECRET, data, emulated, publish, sdks, token, url};

#[test]
fn a_backend_subscribes_a_client_and_sets_its_end() {
    let config = format!(
        "[auth]\nhmac_secret = \"{SECRET}\"\n[[namespace]]\nname = \"room\"\npresence = true\n\
         allow_presence_for_client = true\n"
    );
    let server = Setup::new(&config).shards(3).start();
    for (name, start) in sdks().into_iter().chain(emulated()) {
        let user = format!("user-{name}");
        let channel = format!("room:{name}");
        let mut client = start();
        let mut order = url(server.clients());
        order["tokens"] = json!([token(&user, 600), token(&user, 600), token(&user, 600)]);
        let id = client.connect(&order)["client"].clone();
        let subscribe = json!({ "user": user, "channel": channel, "info": { "by": "backend" } });
        assert_eq!(
            server.call("subscribe", &subscribe),
            json!({ "result": {} })
        );
        client.event("subscribed", &json!({ "channel": channel }));
        publish(&server, &channel, &data(name, 2));
        assert_eq!(client.publications(&channel, 2), data(name, 2), "{name}");
        let there = client.result("presence", &json!({ "channel": channel }));
        assert_eq!(there["clients"], json!([id]), "{name}");
        // Channels of others stay as they are.
        let other = json!({ "user": "nobody", "channel": "room:other" });
        assert_eq!(server.call("subscribe", &other), json!({ "result": {} }));
        // The client comes back with another token, and without the channel.
        client.forget("connecting");
        let expired = json!({ "user": user, "client": id, "expired": true });
        assert_eq!(server.call("refresh", &expired), json!({ "result": {} }));
        client.event("connecting", &json!({ "code": 3005 }));
        client.event("connected", &json!({}));
        assert_eq!(client.left("subscribed"), 0, "{name}");
    }
    server.stop();
}
