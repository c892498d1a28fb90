//! Packages of others that call the server API, every method of each, with an SDK's client that
//! sees the effects.

use serde_json::{Value, json};
use throng_testkit::{Sdk, Setup, python_script, script, until};

use crate::support::{SECRET, signed_in};

const CONFIG: &str = r#"
[[namespace]]
name = "chat"
subscribe = true
presence = true
history_size = 10
history_ttl = "5m"
recovery = true
"#;

const KEY: &str = "a key of the server API for tests";

/// A package, with what it calls several commands in one request.
struct Package {
    name: &'static str,
    start: fn(&[&str]) -> Sdk,
    several: &'static str,
    /// The commands, each a name and its parameters, as that call takes them.
    commands: fn(&[(&str, Value)]) -> Value,
}

const PACKAGES: [Package; 2] = [
    Package {
        name: "cent.js",
        start: |arguments| script("api.mjs", arguments),
        several: "pipeline",
        commands: |each| {
            let each = each.iter();
            each.map(|(method, params)| json!({ "method": method, "params": params }))
                .collect()
        },
    },
    Package {
        name: "cent",
        start: |arguments| python_script("api.py", arguments),
        several: "batch",
        commands: |each| each.iter().map(|each| json!(each)).collect(),
    },
];

/// Calls a method that must succeed.
#[track_caller]
fn call(package: &mut Sdk, method: &str, params: &Value) -> Value {
    let told = package.result(method, &json!({ "params": params }));
    assert_eq!(told["event"], "done", "{method} {params}: {told}");
    told["result"].clone()
}

#[test]
fn packages_that_call_the_server_api() {
    let config = format!("[auth]\nhmac_secret = \"{SECRET}\"\n{CONFIG}");
    let server = Setup::new(&config).shards(3).api_key(KEY).start();
    let api = format!("http://{}/api", server.api_address());
    for Package {
        name,
        start,
        several,
        commands,
    } in PACKAGES
    {
        let user = format!("ann-{name}");
        let (mut client, id) = signed_in(Sdk::javascript, &server, &user);
        let mut package = start(&[&api, KEY]);
        let mut call = |method: &str, params: Value| call(&mut package, method, &params);
        let (one, two) = (format!("chat:{name}"), format!("chat:{name}-2"));
        let of = json!({ "channel": one });

        let subscribe = json!({ "user": user, "channel": one, "data": { "hello": 1 } });
        assert_eq!(call("subscribe", subscribe), json!({}), "{name}");
        client.event("subscribed", &of);
        client.subscribe(&two);

        let publish = json!({ "channel": one, "data": { "n": 1 }, "tags": { "kind": "a" } });
        let told = call("publish", publish);
        assert_eq!(told["offset"], 1, "{name} {told}");
        assert!(
            told["epoch"]
                .as_str()
                .is_some_and(|epoch| !epoch.is_empty()),
            "{name} {told}"
        );
        let broadcast = json!({ "channels": [one, two], "data": { "n": 2 } });
        let told = call("broadcast", broadcast);
        assert_eq!(told["responses"][0]["result"]["offset"], 2, "{name}");
        assert_eq!(
            client.publications(&one, 2),
            [json!({"n": 1}), json!({"n": 2})]
        );
        assert_eq!(client.publications(&two, 1), [json!({"n": 2})], "{name}");

        let there = call("presence", of.clone());
        let there = there["presence"].as_object().expect("a list");
        let ids: Vec<&str> = there.keys().map(String::as_str).collect();
        assert_eq!(ids, [id.as_str().expect("an id")], "{name}");
        let stats = call("presence_stats", of.clone());
        assert_eq!(stats, json!({ "num_clients": 1, "num_users": 1 }), "{name}");
        let history = call("history", json!({ "channel": one, "limit": 10 }));
        let told = &history["publications"];
        assert_eq!(told[0]["data"], json!({ "n": 1 }), "{name} {history}");
        assert_eq!(told[0]["tags"], json!({ "kind": "a" }), "{name} {history}");
        assert_eq!(told[1]["offset"], 2, "{name} {history}");
        let epoch = &history["epoch"];
        let since =
            json!({ "channel": one, "limit": 10, "since": { "offset": 1, "epoch": epoch } });
        let page = call("history", since);
        assert_eq!(page["publications"].as_array().map(Vec::len), Some(1));
        let newest = call(
            "history",
            json!({ "channel": one, "limit": 1, "reverse": true }),
        );
        assert_eq!(
            newest["publications"][0]["data"],
            json!({ "n": 2 }),
            "{name}"
        );
        assert_eq!(call("history_remove", of.clone()), json!({}), "{name}");
        let channels = call("channels", json!({ "pattern": format!("chat:{name}*") }));
        assert_eq!(channels["channels"][&one]["num_clients"], 1, "{name}");
        let info = call("info", json!({}));
        assert_eq!(info["nodes"][0]["num_clients"], 1, "{name} {info}");

        let publish = |n: u32| ("publish", json!({ "channel": one, "data": { "n": n } }));
        let pieces = [publish(3), ("info", json!({})), publish(4)];
        let told = call(several, commands(&pieces));
        let told = told.get("replies").unwrap_or(&told);
        assert_eq!(told.as_array().map(Vec::len), Some(3), "{name} {told}");
        let heard = [json!({"n": 3}), json!({"n": 4})];
        assert_eq!(client.publications(&one, 2), heard, "{name}");

        let other = json!({ "user": user, "client": "nobody's", "channel": one });
        assert_eq!(call("unsubscribe", other), json!({}), "{name}");
        let unsubscribe = json!({ "user": user, "client": id, "channel": one });
        assert_eq!(call("unsubscribe", unsubscribe), json!({}), "{name}");
        client.event("unsubscribed", &of);
        let refresh = json!({ "user": user, "expire_at": throng_testkit::unix_s() + 500 });
        assert_eq!(call("refresh", refresh), json!({}), "{name}");
        let disconnect = json!({ "user": user, "disconnect": { "code": 4999, "reason": "x" } });
        assert_eq!(call("disconnect", disconnect), json!({}), "{name}");
        client.event("disconnected", &json!({ "code": 4999, "reason": "x" }));
        until("it has gone", || {
            call("info", json!({}))["nodes"][0]["num_clients"] == 0
        });
        let unknown = json!({ "params": { "channel": "un:known", "data": 1 } });
        let told = package.result("publish", &unknown);
        assert_eq!(told["event"], "failed", "{name} {told}");
        let code = told["code"].as_u64().unwrap_or(102);
        assert_eq!(code, 102, "{name}");
    }
    server.stop();
}
