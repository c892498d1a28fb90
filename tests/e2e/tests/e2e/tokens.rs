//! Tokens: connecting, channels, and lifetimes.

use serde_json::{Value, json};
use throng_testkit::{Proxy, Server, Setup, script, sign, unix_s, until};

use crate::support::{SECRET, channel_token, data, publish, sdks, signed_in, token, url, ws};

fn guarded() -> Setup {
    let config = format!(
        "[auth]\nhmac_secret = \"{SECRET}\"\n[websocket]\nping_interval = \"0s\"\n\
         [channel]\nsubscribe = true\n\
         [[namespace]]\nname = \"private\"\n\
         [[namespace]]\nname = \"kept\"\nhistory_size = 100\nhistory_ttl = \"5m\"\nrecovery = \
         true\n"
    );
    Setup::new(&config).shards(2).api_key("key")
}

fn with(server: &Server, fields: &Value) -> Value {
    let mut order = url(server.clients());
    for (name, value) in fields.as_object().into_iter().flatten() {
        order[name] = value.clone();
    }
    order
}

#[test]
fn a_connection_needs_a_good_token() {
    let server = guarded().start();
    let other = sign(
        &json!({ "sub": "ann" }),
        "another secret that is as long as the first",
    );
    let early = sign(&json!({ "sub": "ann", "nbf": unix_s() + 1000 }), SECRET);
    for (name, start) in sdks() {
        let (mut client, _) = signed_in(start, &server, "ann");
        client.subscribe("news");
        server.publish("news", "1");
        assert_eq!(client.publications("news", 1), [json!(1)], "{name}");
        let no_token = "no.token.atall";
        for (wrong, code) in [
            ("", 3501),
            (&*other, 3500),
            (&early, 3500),
            (no_token, 3500),
        ] {
            let mut client = start();
            client.order("connect", &with(&server, &json!({ "token": wrong })));
            client.event("disconnected", &json!({ "code": code }));
        }
    }
    server.counts("throng_auth_failures_total{reason=\"signature\"}", 4);
    server.stop();
}

#[test]
fn an_expired_token_is_fetched_anew() {
    let server = guarded().start();
    for (name, start) in sdks() {
        let mut client = start();
        let order = json!({ "token": token("ann", -10), "tokens": [token("ann", 600)] });
        client.order("connect", &with(&server, &order));
        client.event("token wanted", &json!({}));
        client.event("connected", &json!({}));
        assert_eq!(client.left("disconnected"), 0, "{name}");
    }
    server.stop();
}

#[test]
fn a_connection_lives_on_with_a_refreshed_token() {
    let server = guarded().start();
    for (name, start) in sdks() {
        let mut client = start();
        let ends_at = unix_s() + 2;
        let order = json!({ "token": token("ann", 2), "tokens": [token("ann", 600)] });
        client.connect(&with(&server, &order));
        client.subscribe("news");
        client.event("token wanted", &json!({}));
        until("the old token's end", || unix_s() > ends_at + 1);
        server.publish("news", "1");
        assert_eq!(client.publications("news", 1), [json!(1)], "{name}");
        assert_eq!(
            (client.left("connecting"), client.left("disconnected")),
            (1, 0),
            "{name}"
        );
    }
    server.counts(
        "throng_connections_closed_total{reason=\"connection_expired\"}",
        0,
    );
    server.stop();
}

/// Clients that cannot refresh leave when their token ends. Those that can have 25 seconds for it,
/// by the protocol's custom, and leave then; so this test takes as long.
#[test]
fn what_nobody_refreshes_ends() {
    let server = guarded().start();
    let open = |token: String| {
        let mut client = ws(&server, "/connection/websocket");
        let connect = json!({ "id": 1, "connect": { "token": token } });
        client.say(&format!("send {connect}"));
        client.event("message", &json!({}));
        client
    };
    let mut subscriber = open(token("ann", 600));
    let short = channel_token("ann", "private:a", 2);
    let subscribe = json!({ "id": 2, "subscribe": { "channel": "private:a", "token": short } });
    subscriber.say(&format!("send {subscribe}"));
    let told = subscriber.event("message", &json!({}))["data"].to_string();
    assert!(told.contains("expires"), "{told}");
    let client = open(token("ann", 2));
    let bearer = format!("?channel=news&token={}", token("ann", 2));
    let mut stream = server.get(&format!("/sse{bearer}"));
    let plain = script(
        "ws.mjs",
        &[&format!("ws://{}/ws{bearer}", server.clients())],
    );
    assert!(stream.rest().contains("3005"));
    plain.event("close", &json!({ "code": 3005 }));

    client.event("close", &json!({ "code": 3005 }));
    subscriber.event("message", &json!({ "data": UNSUBSCRIBED }));
    server.stop();
}

const UNSUBSCRIBED: &str = concat!(
    r#"{"push":{"channel":"private:a","unsubscribe":{"code":2501,"#,
    r#""reason":"subscription expired"}}}"#,
);

#[test]
fn a_private_channel_wants_a_token_of_its_own() {
    let server = guarded().start();
    for (name, start) in sdks() {
        let (mut client, _) = signed_in(start, &server, "ann");
        let mut subscribe = |channel: &str, token: &str, tokens: Value| {
            let mut order = json!({ "channel": channel, "token": token });
            if !tokens.is_null() {
                order["tokens"] = tokens;
            }
            client.order("subscribe", &order);
        };
        let good = |channel: &str| channel_token("ann", channel, 600);
        subscribe("private:none", "", Value::Null);
        subscribe("private:odd", "no.token.atall", Value::Null);
        subscribe("private:good", &good("private:good"), Value::Null);
        subscribe(
            "private:old",
            &channel_token("ann", "private:old", -10),
            json!([good("private:old")]),
        );
        for refused in ["private:none", "private:odd"] {
            client.event("unsubscribed", &json!({ "channel": refused, "code": 103 }));
        }
        for channel in ["private:good", "private:old"] {
            client.event("subscribed", &json!({ "channel": channel }));
            publish(&server, channel, &data(name, 2));
            assert_eq!(client.publications(channel, 2), data(name, 2), "{name}");
        }
        client.event("subscription token wanted", &json!({}));
        let past = client.failure("history", &json!({ "channel": "private:good", "limit": 1 }));
        assert_eq!(past, 108, "{name}: nothing is kept");
        // A token of another user, or for another channel, is no transient mistake.
        for (channel, token) in [
            ("private:bob", channel_token("bob", "private:bob", 600)),
            ("private:else", good("private:other")),
        ] {
            let (mut client, _) = signed_in(start, &server, "ann");
            client.order("subscribe", &json!({ "channel": channel, "token": token }));
            client.event("disconnected", &json!({ "code": 3500 }));
        }
    }
    server.stop();
}

#[test]
fn a_subscription_ends_with_its_token_unless_that_is_refreshed() {
    let server = guarded().start();
    for (name, start) in sdks() {
        let (mut client, _) = signed_in(start, &server, "ann");
        let ends_at = unix_s() + 2;
        let short = channel_token("ann", "private:a", 2);
        let long = channel_token("ann", "private:a", 600);
        client.order(
            "subscribe",
            &json!({ "channel": "private:a", "token": short, "tokens": [long] }),
        );
        client.event("subscribed", &json!({ "channel": "private:a" }));
        client.event("subscription token wanted", &json!({}));
        until("the old token's end", || unix_s() > ends_at + 1);
        server.publish("private:a", "1");
        assert_eq!(client.publications("private:a", 1), [json!(1)], "{name}");
        assert_eq!(client.left("subscribing"), 1, "{name}: never away");
    }
    server.stop();
}

/// The token names the channels; the client asks for none, and recovers all the same.
#[test]
fn channels_of_the_token_recover_too() {
    let server = guarded().start();
    for (name, start) in sdks() {
        let channel = format!("kept:{name}");
        let claims = json!({ "sub": "ann", "channels": [channel, "news"], "exp": unix_s() + 600 });
        let proxy = Proxy::new(server.clients());
        let mut order = url(proxy.address());
        order["token"] = json!(sign(&claims, SECRET));
        let mut client = start();
        client.order("connect", &order);
        for channel in [&*channel, "news"] {
            client.event("subscribed", &json!({ "channel": channel }));
        }
        server.publish(&channel, "0");
        assert_eq!(client.publications(&channel, 1), [json!(0)], "{name}");
        client.forget("connecting");
        proxy.cut();
        client.event("connecting", &json!({}));
        let missed = data("missed", 50);
        publish(&server, &channel, &missed);
        proxy.mend();
        client.recovers(&channel);
        server.publish(&channel, "1");
        let heard = client.publications(&channel, 51);
        assert_eq!(heard, [&missed[..], &[json!(1)]].concat(), "{name}");
    }
    server.stop();
}

/// Checks that the port honours the options for tokens.
#[test]
fn options_say_which_tokens_are_good() {
    const BEFORE: &str = "the secret before, which is long enough too";
    let config = format!(
        "[auth]\nhmac_secret = \"{SECRET}\"\nhmac_previous_secret = \"{BEFORE}\"\n\
         require_exp = true\nleeway = \"10m\"\naudience = \"app\"\nissuer = \"us\"\n\
         [channel]\nsubscribe = true\n"
    );
    let server = Setup::new(&config).shards(1).api_key("key").start();
    let opens = |claims: &Value, secret: &str| {
        let token = sign(claims, secret);
        let mut wire = server.get(&format!("/sse?channel=a&token={token}"));
        wire.head().status
    };
    let now = unix_s();
    let good = json!({ "sub": "ann", "exp": now + 600, "aud": "app", "iss": "us" });
    for secret in [SECRET, BEFORE] {
        assert_eq!(opens(&good, secret), 200);
    }
    assert_eq!(
        opens(&good, "a secret that this server has never known"),
        401
    );
    for (claim, value, status) in [
        ("exp", json!(now - 300), 200),
        ("exp", json!(now - 900), 401),
        ("exp", Value::Null, 401),
        ("nbf", json!(now + 300), 200),
        ("nbf", json!(now + 900), 401),
        ("aud", json!("other"), 401),
        ("aud", Value::Null, 401),
        ("iss", json!("others"), 401),
        ("iss", Value::Null, 401),
    ] {
        let mut claims = good.clone();
        claims[claim] = value;
        assert_eq!(opens(&claims, SECRET), status, "{claims}");
    }
    server.stop();
}
