//! The end of a run: everything comes to rest, nothing may be owed, and all clients leave.

use throng_server::Assembly;

use super::Play;
use crate::client::{Around, Client};
use crate::node::{Node, turn_hosts};
use crate::publisher::Publisher;
use crate::setup::CHANNELS;
use crate::visitor::Visitor;

impl Play {
    /// Lets everything come to rest. What only delays goes on: it must not delay for ever.
    pub(super) fn rest(&mut self) {
        self.net.accepts_all();
        for _ in 0..3 {
            let Self {
                net,
                setup,
                witness,
                node,
                clients,
                publishers,
                visitors,
                zmq,
                retired,
                ..
            } = self;
            let Node {
                stage,
                hosts,
                requests,
                ..
            } = node;
            let mailboxes = stage.mailboxes.clone();
            stage.rest(|| {
                let mut around = Around {
                    net,
                    setup,
                    witness,
                    backend: requests,
                };
                let mut busy = turn_hosts(hosts) | net.pump_all();
                let conns = clients.iter().filter_map(Client::conn);
                let conns = conns.chain(publishers.iter().filter_map(Publisher::conn));
                let conns = conns.chain(visitors.iter().filter_map(Visitor::conn));
                conns.for_each(|conn| net.arrive(conn, usize::MAX));
                for client in &mut *clients {
                    busy |= client.read(&mut around);
                }
                for publisher in &mut *publishers {
                    busy |= publisher.read(&mut around);
                }
                for visitor in &mut *visitors {
                    busy |= visitor.read(&mut around);
                }
                for publisher in &mut *zmq {
                    busy |= publisher.read(&around);
                }
                while let Some((conn, token, event)) = requests.next(0, None) {
                    busy = true;
                    if Assembly::answer(&mailboxes, conn, token, event).is_err() {
                        break;
                    }
                    requests.done(conn, token);
                }
                // Behind all that arrives, as the turns of the node's own shards are.
                for old in &mut *retired {
                    busy |= old.stage.turn_all();
                }
                busy
            });
            let is_gathering = { self.node.stage.running() }.any(|one| one.app().is_gathering());
            if !self.net.has_backlog() && !is_gathering {
                return;
            }
            // Accepting had paused, or publications wait for others.
            self.net.pass_us(600_000);
        }
    }

    /// Nothing may be owed.
    pub(super) fn settle(&mut self) {
        self.clients.iter_mut().for_each(Client::calm_down);
        self.visitors.iter_mut().for_each(Visitor::calm_down);
        self.rest();
        if self.draining {
            self.net.pass_us(60_000_000);
            self.rest();
            let left: usize = self.node.stage.running().map(|one| one.conns().len()).sum();
            assert_eq!(left, 0, "everybody has gone after a drain");
            return;
        }
        self.end_logs();
        // A client that waits for the next line has it before a poll's time is up: what comes too
        // early waits for five seconds, and a link may have to be fetched.
        self.end_logs();
        self.net.pass_us(11_000_000);
        self.rest();
        for visitor in &self.visitors {
            visitor.settle(&around!(self));
        }
        for client in &self.clients {
            client.settle(&around!(self));
        }
        let waiting = self.publishers.iter().any(Publisher::is_waiting);
        assert!(!waiting, "every request was answered");
        assert!(
            self.node.requests.is_empty(),
            "a backend's answer was not taken"
        );
        self.witness.settle();
        for running in self.node.stage.running() {
            for (id, _) in running.conns().sessions() {
                let queued = running.conns().queued_bytes(id);
                assert_eq!(queued, 0, "{id:?}: what could leave has left");
            }
        }
        self.survey();
    }

    /// Publishes one more line to each log, so that clients notice lines they missed.
    fn end_logs(&mut self) {
        let mut around = around!(self);
        let all = self.publishers.iter_mut();
        for publisher in all.filter(|publisher| publisher.is_grip()) {
            if !publisher.is_connected() {
                publisher.connect(&mut around);
            }
            publisher.end_logs(&mut around);
        }
        self.rest();
    }

    /// Asks the servers what they count, and counts.
    fn survey(&mut self) {
        let mut around = around!(self);
        let publisher = &mut self.publishers[0];
        if !publisher.is_connected() {
            publisher.connect(&mut around);
        }
        publisher.survey(&mut around);
        publisher.count_present(&mut around);
        self.rest();
        let told = self.publishers[0].counts.as_ref();
        assert!(told.is_some(), "the survey was answered");
        assert!(self.publishers[0].clients.is_some());
        let mut present = vec![0; CHANNELS.len()];
        for client in &self.clients {
            for channel in client.listed_in(&around!(self)) {
                present[channel] += 1;
            }
        }
        for (&channel, &count) in &self.publishers[0].present {
            let name = CHANNELS[channel].name;
            assert_eq!(count, present[channel], "who is in {name}");
        }
    }

    /// Lets all clients leave; nothing of them may stay.
    pub(super) fn end(&mut self) {
        let mut around = around!(self);
        for client in &mut self.clients {
            client.leave(&mut around);
        }
        for publisher in &mut self.publishers {
            publisher.leave(&mut around);
        }
        for publisher in &mut self.zmq {
            publisher.leave(&around);
        }
        for visitor in &mut self.visitors {
            visitor.leave(&around);
        }
        self.rest();
        // Connections on their way out are given the time that they may take.
        self.net.pass_us(6_000_000);
        self.rest();
        for running in self.node.stage.running() {
            let crowded = running.conns().stats().crowded;
            self.net
                .add("a shard that is full closes a connection", crowded);
            let left: Vec<_> = running.conns().sessions().map(|(id, _)| id).collect();
            let of = |index: u32| self.net.watched_as(index);
            let left: Vec<_> = left.iter().map(|id| (id, of(id.index()))).collect();
            assert!(left.is_empty(), "connections stayed: {left:?}");
        }
        self.retire();
        if !self.draining {
            self.node.requests.with_site(|site| {
                let left = site.sockets.left();
                assert_eq!(left, None, "the backend hears of each end");
            });
        }
    }
}
