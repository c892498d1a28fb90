//! One publication, every transport: eleven clients that speak in eleven ways listen to the same
//! channels of three shards, lose their connections together, and come back. Each hears everything
//! in order, once; but for the plain WebSocket, which has no place to come back to.

use std::process::Command;

use serde_json::{Value, json};
use throng_testkit::{Process, Proxy, Sdk, Server, Setup, Start, escaped, script, until};

use crate::support::{RECOVERY, url};

/// As many as make every shard the home of some.
const CHANNELS: usize = 6;
/// Publications sent while everybody is away.
const MISSED: usize = 20;
const LIVE: usize = 4;

fn channel(number: usize) -> String {
    format!("chat:{number}")
}

/// A client, and what it has received.
enum Listener {
    /// An SDK that reconnects by itself.
    Sdk(Sdk),
    /// An SDK on all channels over one event stream.
    EventSource(Sdk),
    /// A program that is started again from where it was.
    Raw(Raw),
}

/// Programs that know nothing of channels: one for each connection.
struct Raw {
    open: fn(&Proxy, &Place) -> Source,
    source: Source,
    place: Place,
    /// Whether it can name its place.
    recovers: bool,
}

/// Where a client has been.
#[derive(Clone, Default)]
struct Place {
    /// Position in each channel, by the unidirectional protocol.
    subs: serde_json::Map<String, Value>,
    /// The id of the last line of `/stream`.
    id: String,
}

impl Place {
    /// The connect request of the unidirectional protocol.
    fn connect(&self) -> Value {
        let subs = (0..CHANNELS).map(|number| {
            let name = channel(number);
            let place = self.subs.get(&name).cloned();
            (name, place.unwrap_or_else(|| json!({})))
        });
        json!({ "subs": subs.collect::<serde_json::Map<_, _>>() })
    }
}

/// A program whose output lines are what its connection received.
enum Source {
    Curl(Process),
    WebSocket(Sdk),
}

impl Source {
    fn curl(more: &[&str], url: &str) -> Self {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--no-buffer"]).args(more).arg(url);
        let install = "install curl: `.ci/install` on Debian";
        Self::Curl(Process::start(&mut curl, install))
    }

    /// Every JSON object received so far.
    fn objects(&self) -> Vec<Value> {
        let parse = |text: &str| serde_json::from_str::<Value>(text).ok();
        match self {
            Self::Curl(curl) => curl.out("lines", |lines| {
                let lines = lines.iter();
                let bare = lines.map(|line| line.strip_prefix("data: ").unwrap_or(line));
                Some(bare.filter_map(parse).collect())
            }),
            Self::WebSocket(ws) => {
                let texts = ws.told("message");
                let texts = texts.iter().filter_map(|event| event["data"].as_str());
                texts.filter_map(parse).collect()
            }
        }
    }
}

/// The channels as parameters of a URL.
fn parameters() -> String {
    let each = (0..CHANNELS).map(|number| format!("channel={}", channel(number)));
    each.collect::<Vec<_>>().join("&")
}

fn uni_websocket(proxy: &Proxy, place: &Place) -> Source {
    let url = format!("ws://{}/connection/uni_websocket", proxy.address());
    let mut ws = script("ws.mjs", &[&url]);
    ws.event("open", &json!({}));
    ws.say(&format!("send {}", place.connect()));
    Source::WebSocket(ws)
}

fn uni_sse(proxy: &Proxy, place: &Place) -> Source {
    let request = escaped(&place.connect().to_string());
    let to = proxy.address();
    Source::curl(
        &[],
        &format!("http://{to}/connection/uni_sse?cf_connect={request}"),
    )
}

fn uni_http_stream(proxy: &Proxy, place: &Place) -> Source {
    let url = format!("http://{}/connection/uni_http_stream", proxy.address());
    Source::curl(&["--data", &place.connect().to_string()], &url)
}

fn lines(proxy: &Proxy, place: &Place) -> Source {
    let resumed = match &*place.id {
        "" => String::new(),
        id => format!("&last_event_id={}", escaped(id)),
    };
    let (to, channels) = (proxy.address(), parameters());
    Source::curl(&[], &format!("http://{to}/stream?{channels}{resumed}"))
}

fn websocket(proxy: &Proxy, _: &Place) -> Source {
    let url = format!("ws://{}/ws?{}", proxy.address(), parameters());
    Source::WebSocket(script("ws.mjs", &[&url]))
}

impl Raw {
    fn new(open: fn(&Proxy, &Place) -> Source, recovers: bool, proxy: &Proxy) -> Self {
        let place = Place::default();
        Self {
            source: open(proxy, &place),
            open,
            place,
            recovers,
        }
    }

    /// Publications that came over this connection, in order; and the place after the last.
    fn heard(&self) -> (Vec<Value>, Place) {
        let mut place = self.place.clone();
        let mut heard = Vec::new();
        for object in self.source.objects() {
            if let Some(id) = object["id"].as_str() {
                id.clone_into(&mut place.id);
            }
            if let Some(recovered) = object["recovered"].as_bool() {
                assert_eq!(recovered, !self.place.id.is_empty(), "{object}");
            }
            let subs = object["connect"]["subs"].as_object();
            for (name, sub) in subs.into_iter().flatten() {
                // Only the first connection comes from nowhere.
                let comes_back = self.place.subs.contains_key(name);
                assert_eq!(sub["recovered"] == true, comes_back, "{sub}");
                let (epoch, offset) = (&sub["epoch"], sub["offset"].as_u64().unwrap_or(0));
                let at = json!({ "recover": true, "epoch": epoch, "offset": offset });
                place.subs.insert(name.clone(), at);
                let missed = sub["publications"].as_array().into_iter().flatten();
                heard.extend(missed.map(|publication| publication["data"].clone()));
            }
            if object["pub"].is_object() {
                let name = object["channel"].as_str().expect("a channel");
                place.subs[name]["offset"] = object["pub"]["offset"].clone();
                heard.push(object["pub"]["data"].clone());
            } else if object["data"].is_object() {
                heard.push(object["data"].clone());
            } else if object["n"].is_u64() {
                heard.push(object);
            }
        }
        (heard, place)
    }
}

impl Listener {
    fn raw(open: fn(&Proxy, &Place) -> Source, proxy: &Proxy) -> Self {
        Self::Raw(Raw::new(open, true, proxy))
    }

    fn sdk(start: Start, proxy: &Proxy) -> Self {
        let mut client = start();
        client.connect(&url(proxy.address()));
        for number in 0..CHANNELS {
            client.subscribe(&channel(number));
        }
        Self::Sdk(client)
    }

    fn event_source(proxy: &Proxy) -> Self {
        let url = format!("http://{}/sse?{}", proxy.address(), parameters());
        let client = script("events.mjs", &[&url]);
        client.event("subscribed", &json!({}));
        Self::EventSource(client)
    }

    /// Waits until it has received so many since the last call, channel by channel.
    #[track_caller]
    fn hears(&mut self, name: &str, all: &[Value], live: &[Value]) {
        let heard: Vec<Value> = match self {
            Self::Sdk(client) | Self::EventSource(client) => {
                let one = || client.event("publication", &json!({}))["data"].clone();
                let heard = all.iter().map(|_| one()).collect();
                assert_eq!(client.left("publication"), 0, "{name}");
                heard
            }
            Self::Raw(raw) => {
                let wanted = if raw.recovers { all } else { live };
                let enough = || {
                    let (heard, _) = raw.heard();
                    (heard.len() >= wanted.len()).then_some(heard)
                };
                until(&format!("{name} has heard everything"), enough)
            }
        };
        let of = |number: usize, some: &[Value]| -> Vec<Value> {
            let some = some.iter().filter(|data| data["channel"] == number);
            some.cloned().collect()
        };
        let wanted = match self {
            Self::Raw(raw) if !raw.recovers => live,
            _ => all,
        };
        for number in 0..CHANNELS {
            assert_eq!(of(number, &heard), of(number, wanted), "{name} {number}");
        }
        assert_eq!(heard.len(), wanted.len(), "{name}");
    }

    /// Its connection was cut.
    fn is_away(&mut self) {
        match self {
            Self::Sdk(client) => drop(client.event("connecting", &json!({}))),
            Self::EventSource(client) => drop(client.event("error", &json!({}))),
            Self::Raw(raw) => raw.place = raw.heard().1,
        }
    }

    /// The network is there again.
    fn comes_back(&mut self, proxy: &Proxy) {
        match self {
            Self::Sdk(client) => {
                for number in 0..CHANNELS {
                    let back = json!({ "channel": channel(number), "recovered": true });
                    client.event("subscribed", &back);
                }
                client.forget("connecting");
            }
            Self::EventSource(client) => {
                let back = client.event("subscribed", &json!({}));
                assert_eq!(back["told"]["recovered"], true, "{back}");
                client.forget("error");
            }
            Self::Raw(raw) => raw.source = (raw.open)(proxy, &raw.place),
        }
    }
}

/// Waits until every channel has so many subscribers.
fn all_are_there(server: &Server, count: usize) {
    until("everybody is there", || {
        let told = server.call("channels", &json!({}));
        let channels = told["result"]["channels"].as_object()?;
        let full = channels.values().filter(|one| one["num_clients"] == count);
        (full.count() == CHANNELS).then_some(())
    });
}

/// Waits until the server has seen all clients leave.
fn nobody_is_there(server: &Server) {
    until("nobody is there", || {
        let told = server.call("channels", &json!({}));
        let channels = told["result"]["channels"].as_object()?;
        channels.is_empty().then_some(())
    });
}

/// Publishes to every channel in turn, by the server API and by a client.
fn say(server: &Server, speaker: &mut Sdk, round: &str, count: usize) -> Vec<Value> {
    let all: Vec<Value> = (0..count * CHANNELS)
        .map(|n| json!({ "channel": n % CHANNELS, "round": round, "n": n / CHANNELS }))
        .collect();
    for (n, data) in all.iter().enumerate() {
        let name = channel(n % CHANNELS);
        if n % 7 == 0 {
            let order = json!({ "channel": name, "data": data });
            assert_eq!(speaker.result("publish", &order)["event"], "done");
        } else {
            server.publish(&name, &data.to_string());
        }
    }
    all
}

#[test]
fn every_transport_hears_the_same_and_recovers_it() {
    let server = Setup::new(RECOVERY).shards(3).start();
    let proxy = Proxy::new(server.clients());
    let mut speaker = Sdk::python_protobuf();
    speaker.connect(&url(server.clients()));
    let plain = Listener::Raw(Raw::new(websocket, false, &proxy));
    let mut listeners = [
        ("JSON", Listener::sdk(Sdk::javascript, &proxy)),
        ("Protobuf", Listener::sdk(Sdk::python_protobuf, &proxy)),
        ("http_stream", Listener::sdk(Sdk::javascript_stream, &proxy)),
        (
            "http_stream in Protobuf",
            Listener::sdk(Sdk::javascript_protobuf_stream, &proxy),
        ),
        ("sse", Listener::sdk(Sdk::javascript_events, &proxy)),
        ("uni_websocket", Listener::raw(uni_websocket, &proxy)),
        ("uni_sse", Listener::raw(uni_sse, &proxy)),
        ("uni_http_stream", Listener::raw(uni_http_stream, &proxy)),
        ("/sse", Listener::event_source(&proxy)),
        ("/stream", Listener::raw(lines, &proxy)),
        ("/ws", plain),
    ];
    let count = listeners.len();
    all_are_there(&server, count);
    let first = say(&server, &mut speaker, "first", LIVE);
    for (name, listener) in &mut listeners {
        listener.hears(name, &first, &first);
    }
    for round in ["second", "third"] {
        proxy.cut();
        for (_, listener) in &mut listeners {
            listener.is_away();
        }
        nobody_is_there(&server);
        let mut all = say(&server, &mut speaker, round, MISSED);
        proxy.mend();
        for (_, listener) in &mut listeners {
            listener.comes_back(&proxy);
        }
        all_are_there(&server, count);
        let live = say(&server, &mut speaker, "live", LIVE);
        all.extend_from_slice(&live);
        for (name, listener) in &mut listeners {
            listener.hears(name, &all, &live);
        }
    }
    let failed = server.metric("throng_recovered_total{result=\"failed\"}");
    assert_eq!(failed, 0);
    server.stop();
}
