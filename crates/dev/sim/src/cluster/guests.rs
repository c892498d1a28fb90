//! Guests of a cluster: clients of Appwrite, and clients of GRIP that follow a log of a backend.
//!
//! A follower has each line of its log once and in order, whatever fails: what a node misses it
//! asks the backend for (`visitor.rs`). What a client of Appwrite hears is in `listener.rs`.

use std::collections::{BTreeMap, BTreeSet};

use super::appwrite::Appwrite;
use super::listener::Listener;
use crate::backend::Requests;
use crate::client;
use crate::http::{Exchange, Progress};
use crate::net::Net;
use crate::setup::Setup;
use crate::visitor::Visitor;
use crate::witness;

/// Clients of GRIP and of Appwrite, and who is behind them.
pub(super) struct Guests {
    pub(super) appwrite: Appwrite,
    pub(super) listeners: Vec<Listener>,
    pub(super) epochs: BTreeMap<u64, i64>,
    /// Processes that were started.
    pub(super) processes: usize,
    /// Presences that may be left by a process that has ended.
    pub(super) unsure: BTreeSet<String>,
    /// Nothing happens that nodes ask about.
    pub(super) is_quiet: bool,
    pub(super) visitors: Vec<Visitor>,
    /// Exchange that publishes a line.
    pub(super) publisher: Option<Exchange>,
    pub(super) setup: Setup,
    pub(super) witness: witness::Witness,
    pub(super) requests: Requests,
}

impl Guests {
    /// `requests` are those of any process.
    pub(super) fn new(is_good: bool, kernel_bytes: usize, requests: Requests, net: &Net) -> Self {
        let mut listeners = Vec::new();
        for _ in 0..net.between(2, 5) {
            listeners.push(Listener::new(&listeners, net));
        }
        let mut setup = Setup::draw(net, 1);
        setup.kernel_bytes = kernel_bytes;
        let mut guests = Self {
            appwrite: Appwrite::new(is_good, net),
            listeners,
            epochs: BTreeMap::new(),
            processes: 0,
            unsure: BTreeSet::new(),
            is_quiet: false,
            visitors: Vec::new(),
            publisher: None,
            setup,
            witness: witness::Witness::new(net, false, false),
            requests,
        };
        for number in 0..net.between(1, 4) {
            let (_, around) = guests.visitors(net);
            let visitor = Visitor::follower(number, &around);
            guests.visitors.push(visitor);
        }
        guests
    }

    pub(super) fn visitors<'a>(
        &'a mut self,
        net: &'a Net,
    ) -> (&'a mut Vec<Visitor>, client::Around<'a>) {
        let around = client::Around {
            net,
            setup: &self.setup,
            witness: &mut self.witness,
            backend: &self.requests,
        };
        (&mut self.visitors, around)
    }
}

impl Guests {
    /// Reads what a node says to a line that was published; whether that is all.
    pub(super) fn hear_publisher(&mut self, net: &Net) -> bool {
        let is_over = |it: &mut Exchange| it.read(net, usize::MAX) != Progress::Open;
        let Some(exchange) = self.publisher.take_if(is_over) else {
            return false;
        };
        let body = String::from_utf8_lossy(exchange.body());
        note!(net, "the line: {:?} {body}", exchange.status());
        net.client_leaves(exchange.conn, false);
        true
    }
}
