//! Presence over all nodes, and after a node has died.

use serde_json::json;
use throng_testkit::{Server, Signal, until};

use crate::broker::{Broker, Kind};
use crate::nodes::{members, node, subscriber, up};

fn clients(node: &Server) -> usize {
    let answer = node.call("presence", &json!({ "channel": "room:a" }));
    let clients = answer["result"]["presence"].as_object();
    clients.map_or(0, |clients| clients.len())
}

/// Waits until all nodes list and count so many.
#[track_caller]
fn list(nodes: &[&Server], count: usize) {
    for node in nodes {
        until("the members that are there", || {
            clients(node) == count && members(node, "room:a") == count as u64
        });
    }
}

pub(crate) fn members_of_all_nodes_are_listed_and_those_of_a_dead_node_are_not(kind: Kind) {
    let broker = Broker::start(kind);
    let nodes = [(); 3].map(|()| node(kind, broker.address()));
    let mut members = nodes
        .each_ref()
        .map(|node| subscriber(node.clients(), "room:a"));
    list(&nodes.each_ref(), 3);
    members[0].event("join", &json!({}));
    members[0].event("join", &json!({}));
    members[0].event("join", &json!({}));
    let [dies, second, lives] = nodes;
    members[1].order("unsubscribe", &json!({ "channel": "room:a" }));
    members[0].event("leave", &json!({}));
    list(&[&dies, &second, &lives], 2);
    dies.signal(Signal::KILL);
    // Within its lease and the time between two sweeps.
    members[2].event("leave", &json!({}));
    members[2].event("leave", &json!({}));
    list(&[&second, &lives], 1);
}

pub(crate) fn members_are_right_after_the_broker_was_away(kind: Kind) {
    let mut broker = Broker::durable(kind);
    let nodes = [(); 2].map(|()| node(kind, broker.address()));
    members_are_right_after(&nodes, |is_there| {
        if is_there {
            broker.come_back();
            nodes.iter().for_each(|node| up(node, true));
        } else {
            broker.go_away();
            nodes.iter().for_each(|node| up(node, false));
        }
    });
}

/// Members that leave while the broker is away are not listed when it is there again.
#[track_caller]
pub(crate) fn members_are_right_after(nodes: &[Server; 2], mut broker: impl FnMut(bool)) {
    let mut members = [(); 3].map(|()| subscriber(nodes[0].clients(), "room:a"));
    let stays = subscriber(nodes[1].clients(), "room:a");
    list(&nodes.each_ref(), 4);
    broker(false);
    for member in &mut members[1..] {
        member.order("unsubscribe", &json!({ "channel": "room:a" }));
        member.event("unsubscribed", &json!({}));
    }
    broker(true);
    list(&nodes.each_ref(), 2);
    drop(stays);
    list(&nodes.each_ref(), 1);
    drop(members);
    list(&nodes.each_ref(), 0);
}

/// The broker comes back with an older copy, which lists members that have left, and lacks those
/// that have come.
pub(crate) fn members_are_right_after_an_older_copy(kind: Kind) {
    let mut broker = Broker::durable(kind);
    let nodes = [(); 2].map(|()| node(kind, broker.address()));
    let mut before = [(); 3].map(|()| subscriber(nodes[0].clients(), "room:a"));
    list(&nodes.each_ref(), 3);
    broker.save();
    let mut after = [(); 3].map(|()| subscriber(nodes[0].clients(), "room:a"));
    for member in &mut before[1..] {
        member.order("unsubscribe", &json!({ "channel": "room:a" }));
    }
    list(&nodes.each_ref(), 4);
    broker.go_away();
    nodes.iter().for_each(|node| up(node, false));
    broker.come_back();
    nodes.iter().for_each(|node| up(node, true));
    list(&nodes.each_ref(), 4);
    after[0].order("unsubscribe", &json!({ "channel": "room:a" }));
    list(&nodes.each_ref(), 3);
}
