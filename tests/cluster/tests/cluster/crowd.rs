//! Many clients: members who come and go, and the clients of a node that dies, who all come back at
//! once. `THRONG_CROWD` is how many there are; without it, few enough for every run of the tests,
//! and a balancer that leads nobody to the dead node.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use serde_json::{Value, json};
use throng_testkit::{Numbers, Sdk, Server, Signal, script, until};

use crate::nodes::{Broker, PATIENT, members, url};

/// Clients that come in one go, so that none waits for an answer for too long.
const GO: usize = 500;

/// Looks at clients that come back, each of ten seconds: SDKs wait for up to 20 s between attempts.
const LOOKS: usize = 30;

fn wanted() -> Option<usize> {
    let wanted = std::env::var("THRONG_CROWD").ok();
    wanted.map(|wanted| wanted.parse().expect("a number"))
}

/// Kills the first of three nodes.
fn kill(crowd: &mut Sdk, nodes: &[Server; 3]) {
    if wanted().is_none() {
        lead(crowd, &[&nodes[1], &nodes[2]]);
    } else {
        lead(crowd, &nodes.each_ref());
    }
    crowd.result("mark", &json!({}));
    nodes[0].signal(Signal::KILL);
}

/// Waits until as many clients as had their node killed have subscribed again, and none is away.
#[track_caller]
fn are_back(crowd: &mut Sdk, count: usize) -> Value {
    let looks = (0..LOOKS).map(|_| crowd.result("settle", &json!({ "count": count })));
    let is_over = |it: &Value| {
        it["away"] == 0
            && it["subscribed"]
                .as_u64()
                .is_some_and(|back| back >= count as u64)
    };
    let found = looks.into_iter().find(is_over);
    found.expect("clients that come back to the others")
}

/// Clients whose connections go to these nodes in turn.
fn crowd(nodes: &[&Server]) -> Sdk {
    let mut crowd = script("crowd.mjs", &[]);
    lead(&mut crowd, nodes);
    crowd
}

fn lead(crowd: &mut Sdk, nodes: &[&Server]) {
    let urls = nodes.iter().map(|it| url(it.clients())["url"].clone());
    crowd.result("nodes", &json!({ "urls": urls.collect::<Vec<_>>() }));
}

/// Clients with these numbers come to these channels, and have subscribed.
fn come(crowd: &mut Sdk, from: usize, to: usize, channels: &[String]) {
    for from in (from..to).step_by(GO) {
        let count = GO.min(to - from);
        let order = json!({ "from": from, "count": count, "channels": channels });
        crowd.result("come", &order);
    }
}

// ---- presence ----

/// Waits until these nodes report the right members of each room.
#[track_caller]
fn agree(crowd: &mut Sdk, nodes: &[&Server], rooms: &[String]) {
    for room in rooms {
        let there = crowd.result("members", &json!({ "channel": room }));
        let clients = there["clients"].as_array().expect("names");
        for node in nodes {
            until("the same number everywhere", || {
                members(node, room) == clients.len() as u64
            });
            let answer = node.call("presence", &json!({ "channel": room }));
            let listed = answer["result"]["presence"].as_object().expect("members");
            let mut listed: Vec<&str> = listed.keys().map(String::as_str).collect();
            listed.sort_unstable();
            let is_same = clients
                .iter()
                .map(Value::as_str)
                .eq(listed.into_iter().map(Some));
            assert!(is_same, "{room}: {answer}, in truth {there}");
        }
    }
}

/// Members come, go and come again, and a node dies with a third of them.
pub(crate) fn members_come_and_go_and_a_node_dies(broker: Broker) {
    let all = wanted().unwrap_or(600);
    let rooms: Vec<String> = (0..6).map(|number| format!("crowd:{number}")).collect();
    let nodes = [(); 3].map(|()| broker.node(broker.address(), PATIENT));
    let mut crowd = crowd(&nodes.each_ref());
    come(&mut crowd, 0, all, &rooms);
    agree(&mut crowd, &nodes.each_ref(), &rooms);
    crowd.result("go", &json!({ "from": 0, "count": all / 2 }));
    come(&mut crowd, all, all + all / 2, &rooms);
    agree(&mut crowd, &nodes.each_ref(), &rooms);
    let killed = Instant::now();
    kill(&mut crowd, &nodes);
    // Those of the dead node come back to the others, by another name.
    are_back(&mut crowd, all / 3);
    let back = killed.elapsed();
    agree(&mut crowd, &[&nodes[1], &nodes[2]], &rooms);
    let agreed = killed.elapsed();
    eprintln!(
        "{}: {all} members; after the kill all were back in {back:.1?}, and all answers agreed in \
         {agreed:.1?}",
        broker.name()
    );
}

// ---- the clients of a node that dies ----

/// Commands carried out by the broker that clients cause: reads of streams, and subscriptions.
fn carried_out(broker: &Broker) -> Option<[u64; 2]> {
    let Broker::Redis(redis) = broker else {
        return None;
    };
    let info = redis.ask("INFO commandstats");
    let of = |name: &str| {
        let begins = format!("cmdstat_{name}:calls=");
        let mut lines = info.lines().filter_map(|line| line.strip_prefix(&*begins));
        let calls = lines.next().and_then(|rest| rest.split(',').next());
        calls.map_or(0, |calls| calls.parse().expect("a number"))
    };
    Some([of("evalsha"), of("subscribe")])
}

/// All of them are whole on the others, and the broker has little to do with each.
pub(crate) fn all_clients_of_a_dead_node_come_back_at_once(broker: Broker) {
    let all = wanted().unwrap_or(500);
    let channels: Vec<String> = (0..20).map(|number| format!("kept:{number}")).collect();
    let nodes = [(); 3].map(|()| broker.node(broker.address(), PATIENT));
    let mut crowd = crowd(&[&nodes[0]]);
    come(&mut crowd, 0, all, &channels);
    let lives = [&nodes[1], &nodes[2]].map(Server::api_address);
    let mut publishers: Vec<Numbers> = channels.iter().map(|it| Numbers::new(it)).collect();
    for publisher in &mut publishers {
        publisher.publish(&lives, 5);
    }
    crowd.result("heard", &json!({ "number": 5 }));
    let before = carried_out(&broker);
    let is_over = AtomicBool::new(false);
    let counted = thread::scope(|scope| {
        kill(&mut crowd, &nodes);
        scope.spawn(|| {
            // Within what one answer brings.
            while !is_over.load(Ordering::Relaxed) && publishers[0].published() < 100 {
                for publisher in &mut publishers {
                    publisher.publish(&lives, 1);
                }
            }
        });
        let counted = are_back(&mut crowd, all);
        is_over.store(true, Ordering::Relaxed);
        counted
    });
    let after = carried_out(&broker);
    let published: u64 = publishers.iter().map(|it| it.published() - 5).sum();
    for publisher in &mut publishers {
        publisher.publish(&lives, 1);
    }
    let number = publishers[0].published();
    let heard = crowd.result("heard", &json!({ "number": number }));
    let own = |field: &str| heard[field].as_u64().expect("a number");
    assert_eq!(
        [own("lost"), own("doubled"), own("refused")],
        [0; 3],
        "{heard}"
    );
    assert_eq!(own("recovered"), all as u64, "{heard}");
    eprintln!(
        "{}: {all} clients of a node that was killed: {counted}",
        broker.name()
    );
    if let (Some(before), Some(after)) = (before, after) {
        let looks = after[0] - before[0] - published;
        let subscriptions = after[1] - before[1];
        eprintln!(
            "Redis: {looks} scripts and {subscriptions} subscriptions, {published} published"
        );
        // At most one look for each attempt, and those by which quiet channels are compared now and
        // then. On a machine that is too slow for them clients give up after five seconds, and try
        // again.
        let tries = counted["tries"].as_u64().expect("a number");
        let audits = 2 * channels.len() as u64 * 10;
        assert!(
            looks <= tries + audits,
            "{looks} looks for {tries} attempts"
        );
    }
}
