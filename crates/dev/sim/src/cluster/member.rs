//! A member: `uni_http_stream` of a channel with presence on some node, and who is listed there.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::around::Around;
use crate::http::{Exchange, Progress};
use crate::net::Net;
use crate::setup::{PORT_API, PORT_CLIENT};

/// The channel with presence.
pub(super) const CHANNEL: &str = "here:a";

/// A client that is listed while it is connected.
#[derive(Default)]
pub(super) struct Member {
    link: Option<Exchange>,
    /// Its name, once it is let in.
    client: Option<String>,
}

impl Member {
    pub(super) const fn is_connected(&self) -> bool {
        self.link.is_some()
    }

    /// Its name, if it is let in.
    pub(super) fn client(&self) -> Option<&str> {
        self.client.as_deref()
    }

    pub(super) fn connect(&mut self, around: &Around<'_>) {
        let node = around.net.below(around.nodes.len());
        let body = json!({"subs": {CHANNEL: {}}}).to_string();
        let target = "/connection/uni_http_stream";
        let exchange = around.ask(node, PORT_CLIENT, "POST", target, Some(body.as_bytes()));
        let conn = exchange.conn;
        note!(around.net, "a member connects to node {node} on {conn}");
        self.link = Some(exchange);
    }

    pub(super) fn leave(&mut self, net: &Net) {
        if let Some(exchange) = self.link.take() {
            let client = self.client.take();
            note!(net, "member {client:?} leaves");
            net.client_leaves(exchange.conn, net.percent(50));
        }
    }

    /// Reads; whether anything came.
    pub(super) fn read(&mut self, net: &Net) -> bool {
        let Some(exchange) = &mut self.link else {
            return false;
        };
        let progress = exchange.read(net, usize::MAX);
        let is_let_in = exchange.status() == Some(200);
        let mut busy = progress != Progress::Open;
        while let Some(line) = exchange.line().filter(|_| is_let_in) {
            busy = true;
            let line: Value = serde_json::from_slice(&line).expect("a line of JSON");
            let connect = &line["connect"];
            if connect["subs"][CHANNEL].is_object() {
                self.client = connect["client"].as_str().map(str::to_owned);
                note!(net, "member {:?} is let in", self.client);
            }
        }
        if progress != Progress::Open {
            self.leave(net);
        }
        busy
    }
}

/// A question to a node for the members of the channel: `presence`, or `presence_stats` for their
/// number.
pub(super) fn ask(node: usize, method: &str, around: &Around<'_>) -> Exchange {
    let body = json!({"channel": CHANNEL}).to_string();
    let target = format!("/api/{method}");
    around.ask(node, PORT_API, "POST", &target, Some(body.as_bytes()))
}

/// The members that a node has told.
pub(super) fn listed(answer: &Exchange) -> BTreeSet<String> {
    let answer: Value = serde_json::from_slice(answer.body()).expect("JSON");
    let members = answer["result"]["presence"].as_object();
    let members = members.unwrap_or_else(|| panic!("no list of members: {answer}"));
    members.keys().cloned().collect()
}

/// The number of members that a node has told. Rows of dead nodes count until they are removed.
pub(super) fn counted(answer: &Exchange) -> Option<u64> {
    let answer: Value = serde_json::from_slice(answer.body()).expect("JSON");
    answer["result"]["num_clients"].as_u64()
}
