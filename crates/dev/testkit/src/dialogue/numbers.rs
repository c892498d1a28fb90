//! Publications of numbers that count up from 1 in a channel, by the server API of any node. Each
//! has an idempotency key, so that one without an acknowledgement is repeated.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use serde_json::{Value, json};
use throng_dialogue::{Outcome, word};

use super::{Story, Thing};
use crate::{Wire, post, request, until};

/// Publications that leave together where nobody waits for each.
const FLOOD: u64 = 16;

/// Publisher of a channel's numbers.
pub struct Numbers {
    channel: String,
    published: u64,
    flow: Option<Flow>,
}

/// Thread that publishes until it is told to end; it gives the last number.
struct Flow {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<u64>,
}

impl Numbers {
    /// Begins with 1.
    pub fn new(channel: &str) -> Self {
        Self {
            channel: channel.to_owned(),
            published: 0,
            flow: None,
        }
    }

    /// Number that was taken last.
    pub const fn published(&self) -> u64 {
        self.published
    }

    fn call(&self, api: SocketAddr, number: u64) -> Value {
        let key = format!("{} {number}", self.channel);
        let body = json!({ "channel": self.channel, "data": number, "idempotency_key": key });
        let answer = request(api, "POST", "/api/publish", &[], &body.to_string());
        serde_json::from_str(&answer.body).unwrap_or_else(|_| panic!("{answer:?}"))
    }

    /// Publishes the next number once; if it is refused, with a reason, it stays the next one.
    fn try_one(&mut self, api: SocketAddr) -> Outcome {
        let answer = self.call(api, self.published + 1);
        if let Some(message) = answer["error"]["message"].as_str() {
            return Err(message.to_owned());
        }
        self.published += 1;
        Ok(())
    }

    /// Publishes the next numbers by these APIs of nodes in turn, each until it is taken.
    pub fn publish(&mut self, nodes: &[SocketAddr], count: u64) {
        for (_, node) in (0..count).zip(nodes.iter().cycle()) {
            until("a publication that is taken", || self.try_one(*node).ok());
        }
    }

    /// Publishes the next numbers at once on one connection, without keys.
    fn flood(&mut self, wire: &mut Wire) {
        let target = format!("/pub?channel={}", self.channel);
        let request = |number: u64| post(&target, &number.to_string());
        let requests = self.published + 1..=self.published + FLOOD;
        wire.send(&requests.map(request).collect::<String>());
        for _ in 0..FLOOD {
            let response = wire.response("POST");
            assert_eq!(response.status, 200, "{response:?}");
            self.published += 1;
        }
    }

    /// Publishes in a thread of its own: by these nodes in turn, or as fast as the first takes it.
    fn flow(&mut self, nodes: Vec<SocketAddr>, is_flood: bool) {
        let is_over = Arc::new(AtomicBool::new(false));
        let mut numbers = Self::new(&self.channel);
        numbers.published = self.published;
        let over = is_over.clone();
        let thread = thread::spawn(move || {
            let mut wire = Wire::connect(nodes[0]);
            while !over.load(Ordering::Relaxed) {
                match is_flood {
                    true => numbers.flood(&mut wire),
                    false => numbers.publish(&nodes, nodes.len() as u64),
                }
            }
            numbers.published
        });
        self.flow = Some(Flow { is_over, thread });
    }
}

impl Story {
    /// Ports of the server API of these nodes, or of the server.
    fn apis(&self, names: &str) -> Vec<SocketAddr> {
        let api = |name: &str| match self.things.get(name) {
            Some(Thing::Node(node)) => node.api_address(),
            _ => panic!("no node: {name}"),
        };
        match names {
            "" => vec![self.server().api_address()],
            names => names.split(',').map(api).collect(),
        }
    }

    pub(super) fn numbers_step(
        &mut self,
        numbers: &mut Numbers,
        verb: &str,
        rest: &str,
    ) -> Outcome {
        let (first, second) = word(rest);
        match verb {
            "publish" => numbers.publish(&self.apis(second), first.parse().expect("a count")),
            // By a node, which says this.
            "refused" => {
                return match numbers.try_one(self.apis(first)[0]) {
                    Ok(()) => Err("it was taken".to_owned()),
                    Err(why) if why.contains(second) => Ok(()),
                    Err(why) => Err(why),
                };
            }
            // By nodes in turn, of which none refuses one.
            "taken" => {
                let count: usize = first.parse().expect("a count");
                let nodes = self.apis(second);
                let mut nodes = nodes.iter().cycle().take(count);
                return nodes.try_for_each(|node| numbers.try_one(*node));
            }
            // The last one again.
            "repeat" => {
                let answer = numbers.call(self.apis(rest)[0], numbers.published);
                return match answer["error"].is_null() {
                    true => Ok(()),
                    false => Err(answer.to_string()),
                };
            }
            "flows" | "floods" => numbers.flow(self.apis(rest), verb == "floods"),
            // The last number becomes a variable.
            "rests" => {
                let flow = numbers.flow.take().expect("a flow");
                flow.is_over.store(true, Ordering::Relaxed);
                numbers.published = flow.thread.join().expect("a thread that ends");
                self.set(rest, numbers.published.to_string());
            }
            other => panic!("no step of numbers: {other}"),
        }
        Ok(())
    }
}
