//! Any bytes to a connection of each port: it never panics, and its output and orders do not depend
//! on how they were cut.
//!
//! Input: one byte that selects the port, three chunk lengths (used over and over), then the wire.
//! Lookups of a session get no answer, so a request that waits for one is the last.

mod outside;

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::mem;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, LazyLock};

use throng_appwrite::Platforms;
use throng_auth::{ApiKeys, KeyConfig, Origins, Verifier};
use throng_broker::{ChannelOptions, NamespaceOptions, PresenceOptions, ProxySwitches, Retention};
use throng_engine::Effects;
use throng_gateway_appwrite::{Appwrite, AppwriteProject, AppwriteShared, EventHubOptions};
use throng_gateway_centrifuge::Centrifuge;
use throng_gateway_grip::{
    Grip, GripOptions, GripShared, Order as GripOrder, PortKind, RouteBook, ZmqSocket,
};
use throng_gateway_plain::Plain;
use throng_gateway_pusher::{AppLimits, Pusher, PusherApp, PusherShared};
use throng_grip::routes::parse_routes;
use throng_http1::origin::RequestRest;
use throng_hub::{Answer, Command, ReplyTo};
use throng_pusher::AppKeys;
use throng_pusher::api::EventLimits;
use throng_server::Sessions;
use throng_server::gateways::{Gateways, Listed, Session, Slot};
use throng_session::{Admission, Event, Http, Order, Port, SessionLimits, Shared as SessionShared};
use throng_types::{ConnId, Millis, Now, Overflow, ShardId};

use outside::{NoBackends, NoNews, Nobody};

const NOW: Now = Now {
    mono: Millis(5_000),
    unix_ms: 1_790_000_000_000,
};

/// State that is built once and shared by all inputs.
struct Shared {
    namespaces: Arc<NamespaceOptions>,
    verifier: Arc<Verifier>,
    api_keys: Arc<ApiKeys>,
    grip: Arc<GripOptions>,
}

/// A shard's own, as it remembers the projects of its sessions.
fn appwrite() -> AppwriteShared {
    let project = AppwriteProject {
        id: "*".into(),
        platforms: Platforms::new(&["localhost"]),
    };
    AppwriteShared::new(vec![project], Arc::new(Nobody))
}

fn pusher() -> PusherShared {
    let app = PusherApp {
        id: "1".into(),
        keys: AppKeys::new("k", ["s"]),
        origins: Origins::new(["*"], false).expect("any origin"),
        client_events: true,
        activity_timeout_s: 120,
        limits: EventLimits {
            name_bytes_max: 20,
            data_bytes_max: 100,
        },
        is_enabled: true,
        presence_members_max: 10,
        watchlists: true,
        subscription_count: true,
        quota: AppLimits::default(),
        used: Arc::default(),
    };
    PusherShared::default().renewed(vec![app], "")
}

static SHARED: LazyLock<Shared> = LazyLock::new(|| {
    let open = ChannelOptions {
        retention: Retention {
            publications_max: 10,
            ttl_ms: 60_000,
        },
        acknowledge: throng_broker::Acknowledge::Memory,
        recovery: true,
        overflow: Overflow::Close,
        max_delay_ms: 0,
        compression: true,
        delta: true,
        cache: false,
        tags_filter: true,
        anonymous_subscribe: true,
        subscribe: true,
        user_channels: true,
        anonymous_publish: true,
        publish: true,
        history: true,
        presence: PresenceOptions {
            is_listed: true,
            is_announced: true,
            is_pushed: true,
            for_subscriber: true,
            for_client: true,
            for_anonymous: true,
        },
        proxies: ProxySwitches::default(),
        label: 0,
    };
    let keys = KeyConfig {
        hmac_secret: Some(b"a secret of the targets' own".as_slice().into()),
        ..KeyConfig::default()
    };
    Shared {
        namespaces: Arc::new(NamespaceOptions::new(open, Vec::new())),
        verifier: Arc::new(Verifier::new(keys).expect("a good key")),
        api_keys: Arc::new(ApiKeys::new(["k"]).expect("a good key")),
        grip: Arc::new(GripOptions {
            book: Arc::new(RouteBook {
                routes: parse_routes("grip 127.0.0.1:80,over_http\n*,path_beg=/g test\n").routes,
                keys: Vec::new(),
            }),
            sig_iss: "i".to_owned(),
            sig_key: Some(b"key".to_vec()),
            body_bytes_max: 1000,
            tells_topics: false,
            ports: vec![
                PortKind::Http,
                PortKind::Metrics,
                PortKind::Zmq(ZmqSocket::Pull),
                PortKind::Zmq(ZmqSocket::Sub),
                PortKind::Zmq(ZmqSocket::Rep),
            ],
            ..GripOptions::default()
        }),
    }
});

fn shared() -> SessionShared {
    let shared = &*SHARED;
    SessionShared {
        limits: SessionLimits {
            head_bytes_max: 1000,
            message_bytes_max: 500,
            publish_bytes_max: 1000,
            channels_max: 4,
            ..SessionLimits::default()
        },
        namespaces: Arc::clone(&shared.namespaces),
        verifier: Some(Arc::clone(&shared.verifier)),
        api_keys: Arc::clone(&shared.api_keys),
        ..throng_solo::shared()
    }
}

fn gateways() -> Gateways {
    let options = EventHubOptions {
        seed: 1,
        history_ms: 0,
        history_bytes_max: 0,
    };
    let (appwrite, grip) = (appwrite(), GripShared::new(Arc::clone(&SHARED.grip)));
    let appwrite = Appwrite::new(appwrite, options, Box::new(NoNews), 1 << 20);
    Gateways {
        plain: Some(Slot::new(Plain::default())),
        centrifuge: Some(Slot::new(Centrifuge::default())),
        appwrite: Some(Slot::new(appwrite)),
        grip: Some(Slot::new(Grip::new(grip, Box::new(NoBackends)))),
        pusher: Some(Slot::new(Pusher::new(pusher()))),
    }
}

fn session(list: &Gateways, port: u8) -> Session {
    let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let gateway = Grip::PLACE;
    let port = match port % 7 {
        0 => Port::Client,
        1 => Port::Api,
        own => Port::Own {
            gateway,
            port: own - 2,
        },
    };
    let own = match port {
        Port::Own { gateway, port } => list.accept(gateway, port, peer),
        Port::Client | Port::Api => None,
    };
    own.unwrap_or_else(|| Session::Http(Http::new(port, peer, Admission::Welcome)))
}

#[derive(Debug, PartialEq)]
struct Outcome {
    out: Vec<u8>,
    orders: String,
    ended: bool,
}

/// The orders as text. What a client sends to a backend may be in the order to ask it or in pieces
/// behind it; the text has it in one. A backend that was asked before the body turned out to be
/// broken, and then forgotten, is as one that was never asked.
fn told(orders: Vec<Order>, list: &mut Gateways) -> String {
    let (mut out, mut asked, mut uplink, mut is_whole) = (String::new(), None, Vec::new(), false);
    for order in orders {
        match order {
            Order::Gateway(Grip::PLACE) => match next_order::<Grip>(list) {
                GripOrder::Ask { mut request, .. } => {
                    uplink = mem::take(&mut request.body);
                    let rest = mem::replace(&mut request.rest, RequestRest::Nothing);
                    is_whole = rest == RequestRest::Nothing;
                    asked = Some(request);
                }
                GripOrder::Send { bytes, .. } => uplink.extend(bytes),
                GripOrder::Finish { .. } => is_whole = true,
                GripOrder::Forget { .. } => asked = None,
                other => _ = writeln!(out, "{other:?}"),
            },
            Order::Gateway(Plain::PLACE) => {
                _ = writeln!(out, "{:?}", next_order::<Plain>(list));
            }
            Order::Gateway(Centrifuge::PLACE) => {
                _ = writeln!(out, "{:?}", next_order::<Centrifuge>(list));
            }
            Order::Gateway(_) => _ = writeln!(out, "{:?}", next_order::<Appwrite>(list)),
            // What goes together depends on what came together.
            Order::Hub(Command::PublishAll { reply_to, drafts }) => {
                for (n, draft) in (0..).zip(drafts) {
                    let token = reply_to.token.wrapping_add(n);
                    let reply_to = ReplyTo { token, ..reply_to };
                    let order = Order::Hub(Command::Publish { reply_to, draft });
                    _ = writeln!(out, "{order:?}");
                }
            }
            other => _ = writeln!(out, "{other:?}"),
        }
    }
    if let Some(request) = asked {
        _ = write!(out, "{request:?} {is_whole} {}", uplink.escape_ascii());
    }
    out
}

/// Takes the next order of a gateway.
fn next_order<G: Listed>(list: &mut Gateways) -> G::Order {
    let slot = G::slot_mut(list).expect("it is configured");
    slot.next_order().expect("one for each that was noted")
}

/// The tokens of the next publications that were ordered.
fn next_publications(orders: &[Order], seen: &mut usize) -> Option<Vec<u32>> {
    orders.iter().skip(*seen).find_map(|order| {
        *seen += 1;
        let (first, count) = match order {
            Order::Hub(Command::Publish { reply_to, .. }) => (reply_to.token, 1),
            Order::Hub(Command::PublishAll { reply_to, drafts }) => (reply_to.token, drafts.len()),
            _ => return None,
        };
        Some((0..count as u32).map(|n| first.wrapping_add(n)).collect())
    })
}

/// None if the session pauses reading, which a chunk that has arrived cannot heed.
fn feed(port: u8, wire: &[u8], chunk_bytes: &[usize]) -> Option<Outcome> {
    let (shared, mut list) = (shared(), gateways());
    let mut session = session(&list, port);
    let id = ConnId::new(ShardId(0), 1, 1);
    let (mut out, mut orders) = (Vec::new(), Vec::new());
    let sessions = Sessions {
        gateways: &mut list,
        shared: &shared,
        orders: &mut orders,
    };
    sessions.count(&session);
    let (mut rest, mut ended, mut is_paused) = (wire, false, false);
    let mut answered = 0;
    let mut tokens = VecDeque::new();
    for &bytes in chunk_bytes.iter().cycle() {
        let (chunk, further) = rest.split_at(bytes.min(rest.len()));
        rest = further;
        let mut bytes = chunk.to_vec();
        let mut event = Event::Bytes(&mut bytes);
        loop {
            let mut effects = Effects::new(&mut out, NOW);
            let mut sessions = Sessions {
                gateways: &mut list,
                shared: &shared,
                orders: &mut orders,
            };
            sessions.event(id, &mut session, event, &mut effects);
            let actions = effects.actions;
            ended |= actions.end.is_some();
            is_paused = actions.pause.unwrap_or(is_paused);
            // The front door's publications are answered as they come; all others get no answer.
            if !matches!(session, Session::Http(_)) {
                break;
            }
            if tokens.is_empty() {
                tokens.extend(
                    next_publications(&orders, &mut answered)
                        .into_iter()
                        .flatten(),
                );
            }
            let Some(token) = tokens.pop_front() else {
                break;
            };
            let answer = Answer::Published { result: Ok(None) };
            event = Event::Answer { token, answer };
        }
        if is_paused {
            return None;
        }
        if rest.is_empty() || ended {
            break;
        }
    }
    let _ = session.class();
    let orders = told(orders, &mut list);
    Some(Outcome { out, orders, ended })
}

pub(crate) fn session_ports(input: &[u8]) {
    let Some((&[port, chunks @ ..], wire)) = input.split_first_chunk::<4>() else {
        return;
    };
    let chunk_bytes = chunks.map(|bytes| usize::from(bytes).max(1));
    let whole = feed(port, wire, &[wire.len()]);
    let cut = feed(port, wire, &chunk_bytes);
    let bytewise = feed(port, wire, &[1]);
    // A body that arrived with its head needs no `100 Continue`.
    let asks = |wire: &[u8]| {
        wire.to_ascii_lowercase()
            .windows(4)
            .any(|four| four == b"100-")
    };
    if asks(wire) {
        return;
    }
    if let (Some(whole), Some(cut)) = (&whole, &cut) {
        assert_eq!(cut, whole);
    }
    if let (Some(whole), Some(bytewise)) = (&whole, &bytewise) {
        assert_eq!(bytewise, whole);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Target;

    /// Each but the last is answered with success, or waits for an answer that never comes.
    #[test]
    fn seeds_are_what_they_seem() {
        let seeds = Target::named("session_ports").seeds();
        for seed in &seeds[..seeds.len() - 1] {
            let outcome = feed(seed[0], &seed[4..], &[7]).expect("not paused");
            let out = String::from_utf8_lossy(&outcome.out);
            let is_refused = [" 400 ", " 401 ", " 403 ", " 404 ", " 405 ", " 502 "]
                .iter()
                .any(|status| out.lines().next().is_some_and(|line| line.contains(status)));
            let says = !out.is_empty() || !outcome.orders.is_empty();
            assert!(says && !is_refused, "{}\n{outcome:?}", seed.escape_ascii());
        }
    }

    /// A refusal to a page that may connect carries CORS fields by what came before the fault.
    #[test]
    fn where_a_bad_head_is_cut_does_not_show() {
        let wire = b"G\nHost:h\r\nOrigin:http://h\r\n";
        let whole = feed(0, wire, &[wire.len()]).expect("not paused");
        for bytes in 1..wire.len() {
            let cut = feed(0, wire, &[bytes]).expect("not paused");
            assert_eq!(cut, whole, "{bytes}");
        }
    }
}
