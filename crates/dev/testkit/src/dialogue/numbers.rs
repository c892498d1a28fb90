//! Publications of numbers that count up from 1 in a channel, by the server API of any node. Each
//! has an idempotency key, so that one without an acknowledgement is repeated.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use serde_json::{Value, json};

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
    /// Begins with 1 in this channel.
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

    pub(super) fn call(&self, api: SocketAddr, number: u64) -> Value {
        let key = format!("{} {number}", self.channel);
        let body = json!({ "channel": self.channel, "data": number, "idempotency_key": key });
        let answer = request(api, "POST", "/api/publish", &[], &body.to_string());
        serde_json::from_str(&answer.body).unwrap_or_else(|_| panic!("{answer:?}"))
    }

    /// Publishes the next number once; if it is refused, with a reason, it stays the next one.
    pub(super) fn try_one(&mut self, api: SocketAddr) -> Result<(), String> {
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

    /// Ends the flow; its last number.
    pub(super) fn rest(&mut self) -> u64 {
        let flow = self.flow.take().expect("a flow");
        flow.is_over.store(true, Ordering::Relaxed);
        self.published = flow.thread.join().expect("a thread that ends");
        self.published
    }

    /// Publishes in a thread of its own: by these nodes in turn, or as fast as the first takes it.
    pub(super) fn flow(&mut self, nodes: Vec<SocketAddr>, is_flood: bool) {
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
