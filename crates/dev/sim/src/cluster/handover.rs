//! A node hands over to another process, by the code with which real ones do; or it tries to, and
//! goes on. Everybody else, the brokers' hosts of both processes among them, acts meanwhile.
//!
//! Played are the link between the two, and which process is in charge. Nobody's connection ends
//! by it.

use throng_appwrite_api::Call;
use throng_server::handover::{Unpacking, steps};

use super::{Node, Play};
use crate::node::{turn_hosts, unpack};

/// Rounds in which the shards may come to rest.
const ROUNDS: usize = 60;

impl Play {
    pub(super) fn hand_over(&mut self, at: usize) {
        let at_rest = match self.net.percent(50) {
            true => self.guests_at_rest(at),
            false => Vec::new(),
        };
        note!(self.net, "node {at} begins to hand over");
        let old = &mut self.nodes[at];
        if self.guests.is_some() {
            old.call_appwrite(Call::Share);
            turn_hosts(&mut old.hosts);
        }
        self.successor = Some(old.successor(&self.net));
        if let Some(guests) = &mut self.guests {
            guests.processes += 1;
        }
        self.nodes[at].sleeps_until = 0;
        // It connects to the broker, or is too late for that.
        for _ in 0..self.net.pick(&[0, 40, 40, 40]) {
            self.hosts_act(at);
        }
        let stands = self.guests_stand_still(at);
        self.nodes[at].is_still = true;
        { self.nodes[at].stage.running_mut() }.for_each(steps::be_still);
        let is_ready = stands && self.comes_to_rest(at, false) && self.stops_at_cut(at);
        let node = &mut self.nodes[at];
        let mut new = self.successor.take().expect("it was made");
        let parcels = if is_ready { node.pack() } else { Vec::new() };
        let is_taken = is_ready && self.net.percent(75);
        for (running, parcel) in new.stage.running_mut().zip(&parcels) {
            let has_all = unpack(running, parcel, |message| Ok(message.to_vec()));
            assert!(has_all, "it can be taken");
        }
        note!(self.net, "it has: {is_taken}");
        node.is_still = false;
        let has_taken_over = is_taken;
        node.call_appwrite(Call::GoOn { has_taken_over });
        if !is_taken {
            // It has ended for certain before the old one goes on.
            self.ends(&new);
            drop(new);
            self.nodes[at].go_on(parcels);
            return self.guests_have_moved(at, &at_rest);
        }
        new.is_cut_off = node.is_cut_off;
        let old = node.leave_to(new, parcels);
        self.witness.handed_over += 1;
        self.net.count("a node hands over");
        self.retired.push(old);
        self.guests_have_moved(at, &at_rest);
    }

    /// Takes what is delivered before the cut, and nothing behind it; whether that comes.
    fn stops_at_cut(&mut self, at: usize) -> bool {
        let cut = self.net.next();
        let (node, new) = (&mut self.nodes[at], &mut self.successor);
        let new = new.as_mut().expect("it is made").stage.running_mut();
        for (running, new) in node.stage.running_mut().zip(new) {
            let (app, conns) = new.parts_mut();
            let mut unpacking = Unpacking::default();
            steps::stop_at(running, cut, |message| {
                let taken = unpacking.take(message, &mut std::iter::empty(), app, conns);
                taken.expect("it can be taken");
            });
        }
        // The shards come to it one after the other, and then are packed.
        self.comes_to_rest(at, true) && {
            (0..self.net.pick(&[0, 20])).for_each(|_| self.hosts_act(at));
            self.comes_to_rest(at, true)
        }
    }

    fn comes_to_rest(&mut self, at: usize, has_cut: bool) -> bool {
        for _ in 0..ROUNDS {
            if self.nodes[at].still_turn(has_cut) {
                return true;
            }
            self.hosts_act(at);
        }
        false
    }

    /// Everybody acts, and publishers and the hosts of both processes more than others.
    pub(super) fn hosts_act(&mut self, at: usize) {
        self.step();
        self.publisher_acts();
        let new = &mut self.successor;
        for node in [&mut self.nodes[at]].into_iter().chain(new) {
            node.turn_all();
        }
        let conns = self.net.live();
        let new = self.successor.as_ref().expect("it is made");
        let conns = conns.into_iter().filter(|conn| new.has(*conn, &self.net));
        let bytes_max = self.net.pick(&[40, usize::MAX]);
        conns.for_each(|conn| self.net.arrive(conn, bytes_max));
        self.broker_acts(1 << 20);
    }

    /// Processes that have handed over end by themselves.
    pub(super) fn retire(&mut self) {
        let (ended, retired) = { self.retired.drain(..) }
            .partition::<Vec<Node>, _>(|node| node.stage.running().count() == 0);
        self.retired = retired;
        for node in &ended {
            self.ends(node);
            self.guests_lose();
        }
    }
}
