//! Every right on every transport: a token, a subscription token, a name of a channel and a backend
//! open the same wherever a client comes in.

use std::net::SocketAddr;

use serde_json::{Value, json};
use throng_testkit::{Backend, HANDSHAKE, Server, Setup, Wire, escaped, sign, unix_s};

use crate::support::SECRET;

/// Transport by which a client comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Plain(&'static str),
    UniSse,
    UniLines,
    UniWs,
    Sdk,
}

pub(crate) const WAYS: [Way; 7] = [
    Way::Plain("ws"),
    Way::Plain("sse"),
    Way::Plain("stream"),
    Way::UniSse,
    Way::UniLines,
    Way::UniWs,
    Way::Sdk,
];

/// Credentials of a client; an empty text stands for none.
#[derive(Clone, Copy, Default)]
pub(crate) struct Brings<'a> {
    pub(crate) token: &'a str,
    /// The channel that it names.
    pub(crate) channel: &'a str,
    pub(crate) sub_token: &'a str,
    /// Fields of its request.
    pub(crate) fields: &'a str,
}

/// A client that may come in; otherwise the first words that refuse it.
pub(crate) fn enter(way: Way, to: SocketAddr, brings: Brings<'_>) -> Result<Wire, String> {
    let Brings {
        token,
        channel,
        sub_token,
        fields,
    } = brings;
    let mut wire = Wire::connect(to);
    let subs = match channel {
        "" => json!({}),
        _ => json!({ channel: { "token": sub_token } }),
    };
    let hello = json!({ "token": token, "subs": subs }).to_string();
    let socket = format!("{fields}{HANDSHAKE}");
    match way {
        Way::Plain(path) => {
            let mut query = Vec::new();
            for (name, value) in [
                ("channel", channel),
                ("token", token),
                ("sub_token", sub_token),
            ] {
                if !value.is_empty() {
                    query.push(format!("{name}={}", escaped(value)));
                }
            }
            let fields = if path == "ws" { &socket } else { fields };
            wire.ask(&format!("/{path}?{}", query.join("&")), fields);
        }
        Way::UniSse => {
            let target = format!("/connection/uni_sse?cf_connect={}", escaped(&hello));
            wire.ask(&target, fields);
        }
        Way::UniLines => wire.send(&format!(
            "POST /connection/uni_http_stream HTTP/1.1\r\nHost: localhost\r\n{fields}\
             Content-Length: {}\r\n\r\n{hello}",
            hello.len()
        )),
        Way::UniWs => wire.ask("/connection/uni_websocket", &socket),
        Way::Sdk => wire.ask("/connection/websocket", &socket),
    }
    let head = wire.head();
    if !matches!(head.status, 101 | 200) {
        return Err(head.status.to_string());
    }
    let refused = |told: &str| {
        ["\"disconnect\"", "\"error\""]
            .iter()
            .any(|it| told.contains(it))
    };
    match way {
        Way::UniWs => {
            wire.say(&hello);
            let told = told(&mut wire)?;
            assert!(told.contains("\"connect\""), "{told}");
        }
        Way::Sdk => {
            let connect = json!({ "id": 1, "connect": { "token": token } });
            wire.say(&connect.to_string());
            let connected = told(&mut wire)?;
            if refused(&connected) {
                return Err(connected);
            }
            if !channel.is_empty() && !connected.contains(&format!("{channel:?}")) {
                let subscribe = json!({ "channel": channel, "token": sub_token });
                let subscribe = json!({ "id": 2, "subscribe": subscribe });
                wire.say(&subscribe.to_string());
                let subscribed = told(&mut wire)?;
                if refused(&subscribed) {
                    return Err(subscribed);
                }
            }
        }
        Way::UniSse | Way::UniLines => {
            let told = wire.through("}\n");
            if refused(&told) {
                return Err(told);
            }
        }
        Way::Plain(_) => {}
    }
    Ok(wire)
}

/// The text of the next frame of a server; a close frame's reason is an error.
fn told(wire: &mut Wire) -> Result<String, String> {
    let (opcode, payload) = wire.frame();
    let told = String::from_utf8_lossy(&payload).into_owned();
    if opcode == 8 { Err(told) } else { Ok(told) }
}

/// Publishes in each channel, and waits until the client has it.
fn hears(server: &Server, wire: &mut Wire, channels: &[&str]) {
    for channel in channels {
        let said = format!("said-in-{channel}");
        let publish = json!({ "channel": channel, "data": said });
        let done = server.ask("POST", "/api/publish", &publish.to_string());
        assert_eq!(done.status, 200, "{done:?}");
        wire.through(&said);
    }
}

fn server() -> Server {
    let config = format!(
        "[auth]\nhmac_secret = \"{SECRET}\"\n\
         [[namespace]]\nname = \"open\"\nsubscribe = true\n\
         [[namespace]]\nname = \"closed\"\n\
         [[namespace]]\nname = \"users\"\nuser_channels = true\n"
    );
    Setup::new(&config).shards(2).api_key("key").start()
}

#[test]
fn every_right_is_the_same_on_every_transport() {
    let server = server();
    let signed = |claims: Value| sign(&claims, SECRET);
    let ann = signed(json!({ "sub": "ann" }));
    let only = |user: &str, channel: &str, exp: i64| {
        let exp = unix_s().saturating_add_signed(exp);
        signed(json!({ "sub": user, "channel": channel, "exp": exp }))
    };
    let named = signed(json!({ "sub": "ann", "channels": ["closed:1", "$closed:2"] }));
    let with_options = signed(json!({ "sub": "ann", "subs": { "$closed:1": { "info": {} } } }));
    let allowed = signed(json!({ "sub": "ann", "allow": { "subscribe": ["closed:*"] } }));
    let none = String::new();
    let secret = only("ann", "$closed:1", 600);
    for (line, (token, channel, sub_token, heard)) in [
        // No token, and a token for something else.
        (&none, "open:1", &none, None),
        (&secret, "$closed:1", &none, None),
        // The options of the namespace, and names.
        (&ann, "open:1", &none, Some(&["open:1"][..])),
        (&ann, "closed:1", &none, None),
        (&ann, "$open:1", &none, None),
        (&ann, "nowhere:1", &none, None),
        (&ann, "users:#ann", &none, Some(&["users:#ann"])),
        (&ann, "users:#bob", &none, None),
        // What the connection's token names, whether the client does too or not.
        (&named, "", &none, Some(&["closed:1", "$closed:2"])),
        (&named, "$closed:2", &none, Some(&["closed:1", "$closed:2"])),
        (&named, "open:1", &none, Some(&["open:1", "closed:1"])),
        (&named, "closed:3", &none, None),
        (&with_options, "$closed:1", &none, Some(&["$closed:1"])),
        (&allowed, "closed:1", &none, Some(&["closed:1"])),
        (&allowed, "open:1", &none, None),
        (&allowed, "$closed:1", &none, None),
        // A token for one channel.
        (&ann, "$closed:1", &secret, Some(&["$closed:1"])),
        (&ann, "$closed:2", &secret, None),
        (&ann, "$closed:1", &only("bob", "$closed:1", 600), None),
        (&ann, "$closed:1", &only("ann", "$closed:1", -60), None),
        (&none, "$closed:1", &secret, None),
    ]
    .into_iter()
    .enumerate()
    {
        for way in WAYS {
            let brings = Brings {
                token,
                channel,
                sub_token,
                fields: "",
            };
            let case = format!("case {line} by {way:?}");
            match (enter(way, server.clients(), brings), heard) {
                (Ok(mut wire), Some(channels)) => hears(&server, &mut wire, channels),
                (Err(_), None) => {}
                (Ok(_), None) => panic!("{case}: it was let in"),
                (Err(why), Some(_)) => panic!("{case}: it was refused: {why}"),
            }
        }
    }
    server.stop();
}

/// Seconds for which a token is good that ends while its client is there: a client may be slow to
/// come.
const SHORT_S: u64 = 8;

/// A subscription opened by a token ends with it, where the transport has no way to renew it. An
/// SDK has 25 seconds to bring another: see `dialogues/lifetimes.txt`.
#[test]
fn a_subscription_ends_with_its_token_on_every_transport() {
    let server = server();
    let ann = sign(&json!({ "sub": "ann" }), SECRET);
    let ways = WAYS.into_iter().filter(|way| *way != Way::Sdk);
    let open = ways.map(|way| {
        let exp = unix_s() + SHORT_S;
        let short = json!({ "sub": "ann", "channel": "$closed:1", "exp": exp });
        let brings = Brings {
            token: &ann,
            channel: "$closed:1",
            sub_token: &sign(&short, SECRET),
            fields: "",
        };
        let entered = enter(way, server.clients(), brings);
        (
            way,
            exp,
            entered.unwrap_or_else(|why| panic!("{way:?}: {why}")),
        )
    });
    // All wait at the same time.
    for (way, exp, mut wire) in open.collect::<Vec<_>>() {
        let end = match way {
            Way::Plain("ws") => "connection expired",
            Way::Plain(_) => "{\"unsubscribed\":\"$closed:1\"}",
            _ => "subscription expired",
        };
        wire.through(end);
        assert!(unix_s() >= exp, "{way:?}");
    }
    server.stop();
}

/// A backend that knows some clients by a field of their requests, and some channels.
const DECIDES: &str = include_str!("rights.txt");

fn server_with(to: SocketAddr) -> Server {
    let config = format!(
        "[auth]\nhmac_secret = \"{SECRET}\"\n\
         [proxy]\nconnect = \"http://{to}/connect\"\nsubscribe = \"http://{to}/subscribe\"\n\
         http_headers = [\"X-Said\"]\n\
         [[namespace]]\nname = \"open\"\nsubscribe = true\n\
         [[namespace]]\nname = \"closed\"\n\
         [[namespace]]\nname = \"asked\"\nsubscribe = true\nuser_channels = true\n\
         subscribe_proxy_enabled = true\n"
    );
    Setup::new(&config).shards(2).api_key("key").start()
}

/// The channels that a client receives, or the status that refuses it on plain transports.
type Heard<'a> = Result<&'a [&'a str], &'a str>;

#[test]
fn backends_decide_the_same_on_every_transport() {
    let backend = Backend::start(DECIDES);
    let server = server_with(backend.address());
    let ann = sign(&json!({ "sub": "ann" }), SECRET);
    let bob = sign(&json!({ "sub": "bob" }), SECRET);
    let cases: [(&str, &str, &str, Heard<'_>); 18] = [
        // Identity: no backend is asked about a token.
        ("ann", "", "", Ok(&["closed:own"])),
        ("ann", "", "open:1", Ok(&["closed:own", "open:1"])),
        ("ann", "", "closed:1", Err("403")),
        ("stranger", "", "open:1", Err("403")),
        ("out", "", "open:1", Err("403")),
        ("nobody", "", "open:1", Err("401")),
        ("broken", "", "open:1", Err("503")),
        ("stranger", &ann, "open:1", Ok(&["open:1"])),
        // Subscriptions: whatever the options say.
        ("ann", "", "asked:yes", Ok(&["closed:own", "asked:yes"])),
        ("ann", "", "asked:no", Err("403")),
        ("", &ann, "asked:yes", Ok(&["asked:yes"])),
        ("", &bob, "asked:yes", Err("503")),
        ("", &ann, "asked:no", Err("403")),
        ("", &ann, "asked:out", Err("403")),
        ("", &ann, "asked:broken", Err("503")),
        // Names decide before it is asked.
        ("", &ann, "asked:#ann", Ok(&["asked:#ann"])),
        ("", &ann, "asked:#bob", Err("403")),
        ("", &ann, "$asked:yes", Err("403")),
    ];
    for (line, (said, token, channel, expected)) in cases.into_iter().enumerate() {
        for way in WAYS {
            let fields = match said {
                "" => String::new(),
                said => format!("X-Said: {said}\r\nX-Other: no\r\n"),
            };
            let brings = Brings {
                token,
                channel,
                sub_token: "",
                fields: &fields,
            };
            let case = format!("case {line} by {way:?}");
            match (enter(way, server.clients(), brings), expected) {
                (Ok(mut wire), Ok(channels)) => hears(&server, &mut wire, channels),
                (Err(why), Err(status)) => {
                    let is_plain = matches!(way, Way::Plain(_));
                    assert!(!is_plain || why == status, "{case}: {why}");
                }
                (Ok(_), Err(_)) => panic!("{case}: it was let in"),
                (Err(why), Ok(_)) => panic!("{case}: it was refused: {why}"),
            }
        }
    }
    // One question about each, and the same for each transport but its name.
    let asked = backend.take();
    let names = [
        "plain_websocket",
        "plain_sse",
        "plain_stream",
        "uni_sse",
        "uni_http_stream",
        "uni_websocket",
        "websocket",
    ];
    let by = |name: &str| -> Vec<Value> {
        let own = asked.iter().filter(|(_, it)| it["transport"] == name);
        let told =
            |(path, it): &(String, Value)| json!([path, it["x-said"], it["user"], it["channel"]]);
        own.map(told).collect()
    };
    let expected = by("websocket");
    let subscribes = expected.iter().filter(|it| it[0] == "/subscribe");
    assert_eq!(
        (expected.len(), subscribes.count()),
        (16, 7),
        "{expected:?}"
    );
    for name in names {
        assert_eq!(by(name), expected, "{name}");
    }
    server.stop();
}

/// A subscription that a backend allowed for a while ends then, where the transport does not ask
/// again.
#[test]
fn what_a_backend_opens_ends_when_it_says_so_on_every_transport() {
    let backend = Backend::start(DECIDES);
    let server = server_with(backend.address());
    let ann = sign(&json!({ "sub": "ann" }), SECRET);
    let mut open = Vec::new();
    for way in WAYS {
        for (said, token, channel) in [("short", "", ""), ("", &*ann, "asked:short")] {
            let fields = format!("X-Said: {said}\r\n");
            let brings = Brings {
                token,
                channel,
                sub_token: "",
                fields: &fields,
            };
            let begun = unix_s();
            let entered = enter(way, server.clients(), brings);
            let wire = entered.unwrap_or_else(|why| panic!("{way:?}: {why}"));
            let end = match (way, channel) {
                (_, "") | (Way::Plain("ws"), _) => "connection expired",
                (Way::Plain(_), _) => "{\"unsubscribed\":\"asked:short\"}",
                // An SDK has time to bring a token.
                (Way::Sdk, _) => continue,
                _ => "subscription expired",
            };
            open.push((way, begun, wire, end));
        }
    }
    // All wait at the same time.
    for (way, begun, mut wire, end) in open {
        wire.through(end);
        assert!(unix_s() >= begun + SHORT_S, "{way:?}");
    }
    server.stop();
}
