//! A node is upgraded while the others serve: its clients move to the new process, and get
//! everything once.

use std::net::SocketAddr;
use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::{Value, json};
use throng_testkit::{Installed, Proxy, Sdk, Server, Setup, Wire, throng, until};

use crate::broker::{Broker, Kind};
use crate::nodes::{
    PATIENT, Publisher, config, event_source, lines, node, patient_node, subscriber, up, url,
};

/// Upgrades in a row.
const UPGRADES: usize = 4;

fn presence(node: &Server) -> Value {
    node.call("presence", &json!({ "channel": "room:a" }))["result"]["presence"].clone()
}

/// Clients of a node, each on one channel.
struct Crowd(Vec<(String, Sdk)>);

impl Crowd {
    #[track_caller]
    fn new(node: &Server, channels: &[&str]) -> Self {
        let starts = [
            Sdk::javascript,
            Sdk::javascript_protobuf,
            Sdk::javascript_stream,
        ];
        let mut clients = Vec::new();
        for (n, channel) in channels.iter().enumerate() {
            // Several on one channel, on different shards.
            for start in [starts[n % 3], starts[(n + 1) % 3]] {
                let mut client = start();
                client.connect(&url(node.clients()));
                client.subscribe(channel);
                client.forget("connecting");
                client.forget("subscribing");
                clients.push(((*channel).to_owned(), client));
            }
            let source = event_source(node.clients(), channel);
            clients.push(((*channel).to_owned(), source));
        }
        Self(clients)
    }

    /// Each has received all of its channel once, in order, and none had to come back.
    #[track_caller]
    fn heard(&self, publishers: &[Publisher]) {
        for (channel, client) in &self.0 {
            let publisher = publishers.iter().find(|it| it.channel() == channel);
            publisher.expect("a publisher").heard_by(client, 0);
            for event in ["connecting", "subscribing", "disconnected", "unsubscribed"] {
                assert_eq!(client.left(event), 0, "{channel}: {event}");
            }
        }
    }
}

pub(crate) fn nobody_notices_upgrades_of_a_node(kind: Kind) {
    let broker = Broker::start(kind);
    let nodes = [(); 2].map(|()| patient_node(kind, broker.address()));
    let [upgraded, other] = &nodes;
    // The first and the second are published by the node that is upgraded, or by both.
    let channels = ["kept:a", "plain-a", "kept:b", "plain-b"];
    let crowd = Crowd::new(upgraded, &channels);
    let watcher = subscriber(other.clients(), "room:a");
    let mut members = [(); 3].map(|()| subscriber(upgraded.clients(), "room:a"));
    for _ in 0..4 {
        watcher.event("join", &json!({}));
    }
    // Its commands come by the other node.
    let mut emulated = Sdk::javascript_stream();
    let mut order = url(upgraded.clients());
    order["emulation"] = url(other.clients())["url"].clone();
    emulated.connect(&order);
    emulated.subscribe("kept:c");
    emulated.forget("connecting");
    let before = presence(other);
    let stop = AtomicBool::new(false);
    let publishers = thread::scope(|scope| {
        let (stop, nodes) = (&stop, &nodes);
        let publish = move |n: usize| {
            move || {
                let mut publisher = Publisher::new(channels[n]);
                let mut wire = Wire::connect(nodes[n / 2].api_address());
                while !stop.load(Ordering::Relaxed) {
                    // Without history it is the speed that shows what is lost or double.
                    match channels[n].starts_with("kept") {
                        true => publisher.publish(&nodes.each_ref(), 2),
                        false => publisher.publish_by(&mut wire, 16),
                    }
                }
                publisher
            }
        };
        let publishers: Vec<_> = (0..channels.len())
            .map(|n| scope.spawn(publish(n)))
            .collect();
        let upgrades: Vec<Output> = (0..UPGRADES).map(|_| nodes[0].upgrade()).collect();
        stop.store(true, Ordering::Relaxed);
        for output in upgrades {
            let said = String::from_utf8_lossy(&output.stderr);
            let log = nodes[0].process().err_lines().join("\n");
            assert!(output.status.success(), "{said}\n{log}");
        }
        let publishers = publishers
            .into_iter()
            .map(|it| it.join().expect("no panic"));
        publishers.collect::<Vec<Publisher>>()
    });
    crowd.heard(&publishers);
    // The same members under the same ids, and no client has seen any join or leave.
    assert_eq!(presence(other), before);
    assert_eq!(presence(upgraded), before);
    for client in members.iter().chain([&watcher]) {
        client.forget("join");
        assert_eq!(client.left("leave"), 0);
    }
    assert_eq!(watcher.left("join"), 0);
    // A client's publication by another node finds it, and so do operators' commands there.
    for number in 0..3 {
        emulated.result("publish", &json!({ "channel": "kept:c", "data": number }));
    }
    assert_eq!(
        emulated.publications("kept:c", 3),
        [0, 1, 2].map(|it| json!(it))
    );
    assert_eq!(emulated.left("connecting"), 0);
    let [first, second, _] = &mut members;
    first.order("unsubscribe", &json!({ "channel": "room:a" }));
    watcher.event("leave", &json!({}));
    let order = json!({ "user": "", "client": second.told("connected")[0]["client"] });
    let answer = other.call("disconnect", &order);
    assert!(answer["error"].is_null(), "{answer}");
    second.event("disconnected", &json!({ "code": 3503 }));
    watcher.event("leave", &json!({}));
    until("two members", || {
        let here = presence(other).as_object().map(|all| all.len());
        here == Some(2)
    });
}

/// Moving does not wait for the broker: clients move, and get what they lack when it answers again.
pub(crate) fn a_node_is_upgraded_while_it_has_no_broker(kind: Kind) {
    let broker = Broker::start(kind);
    let proxy = Proxy::new(broker.address());
    let nodes = [proxy.address(), broker.address()].map(|address| node(kind, address));
    let [upgraded, other] = &nodes;
    let crowd = Crowd::new(upgraded, &["kept:a", "plain"]);
    let mut publishers = ["kept:a", "plain"].map(Publisher::new);
    for publisher in &mut publishers {
        publisher.publish(&nodes.each_ref(), 10);
    }
    until("that all is heard", || {
        { crowd.0.iter() }.all(|(_, client)| client.left("publication") == 10)
    });
    proxy.cut();
    up(upgraded, false);
    publishers[0].publish(&[other], 5);
    upgraded.upgrade_well();
    publishers[0].publish(&[other], 5);
    upgraded.upgrade_well();
    publishers[0].publish(&[other], 5);
    proxy.mend();
    up(upgraded, true);
    for publisher in &mut publishers {
        publisher.publish(&nodes.each_ref(), 10);
    }
    crowd.heard(&publishers);
}

/// The new process follows the channels, has taken members and fails then; or never follows
/// anything. The old one goes on, and no client has noticed.
pub(crate) fn an_upgrade_that_breaks_off_changes_nothing(kind: Kind) {
    let broker = Broker::start(kind);
    let installed = Installed::default();
    let told = |broker: SocketAddr| config(&lines(kind, broker), PATIENT);
    let broken = Setup::new(&told(broker.address())).shards(2);
    let broken = broken.binary(&installed.path()).start();
    let other = patient_node(kind, broker.address());
    let channels = ["kept:a", "plain"];
    let crowd = Crowd::new(&broken, &channels);
    let members = [(); 2].map(|()| subscriber(broken.clients(), "room:a"));
    let watcher = subscriber(other.clients(), "room:a");
    until("three members", || {
        let all = presence(&other).as_object().map(|all| all.len());
        all == Some(3)
    });
    let before = presence(&other);
    // Some hundred connections are handed over at once: members come with the first ones.
    let connect = || Wire::connect(broken.clients());
    let mut more: Vec<Wire> = (0..1000).map(|_| connect()).collect();
    more.iter_mut().for_each(|wire| wire.send("GET /sse?chan"));
    until("that they are read", || {
        let count = broken.metric("throng_connections{transport=\"http\"}");
        count >= more.len() as u64
    });
    let mut publishers = channels.map(Publisher::new);
    let mut publish = || {
        for publisher in &mut publishers {
            publisher.publish(&[&broken, &other], 10);
        }
    };
    publish();
    let fails = |why: &str| {
        let output = broken.upgrade();
        let said = String::from_utf8_lossy(&output.stderr);
        let log = broken.process().err_lines().join("\n");
        assert_eq!(output.status.code(), Some(6), "{said}\n{log}");
        assert!(said.contains(why), "{said}\n{log}");
    };
    // The same with too few descriptors for the clients.
    installed.install_script(&format!(
        "ulimit -n 700\nexec {} \"$@\"",
        throng().display()
    ));
    fails("nothing has changed");
    publish();
    installed.install(throng());
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 1));
    broken.configure(&told(nowhere));
    fails("the broker does not deliver to the new process");
    publish();
    assert_eq!(presence(&other), before);
    broken.configure(&told(broker.address()));
    broken.upgrade_well();
    publish();
    crowd.heard(&publishers);
    // Their rows are those of the process that lives.
    assert_eq!(presence(&other), before);
    for client in members.iter().chain([&watcher]) {
        assert_eq!(client.left("leave"), 0);
    }
}
