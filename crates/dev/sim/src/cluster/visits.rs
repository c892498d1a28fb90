//! Turns of the guests of a cluster, and what each must have had in the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use throng_appwrite_api::Call;
use throng_http1::encode_request;

use super::Play;
use super::appwrite::CHANNELS;
use super::listener::{self, Listener};
use crate::backend::LOGS;
use crate::http::Exchange;
use crate::publisher::next_line;
use crate::setup::PORT_GRIP;
use crate::visitor::Visitor;

/// Rounds in which a process that hands over may take what was published before.
const STANDS_MAX: usize = 400;

/// Lends the listeners, and everything else to them.
macro_rules! listeners {
    ($play:expr) => {{
        let guests = $play.guests.as_mut().expect("there are some");
        let around = listener::Around {
            net: &$play.net,
            nodes: &$play.nodes,
            appwrite: &guests.appwrite,
            epochs: &mut guests.epochs,
            kernel_bytes: $play.kernel_bytes,
        };
        (&mut guests.listeners, around)
    }};
}

impl Play {
    /// One of the guests, or somebody behind them, does something.
    pub(super) fn guests_act(&mut self) {
        let net = self.net.clone();
        let guests = self.guests.as_mut().expect("there are some");
        match net.below(100) {
            0..25 => drop(guests.appwrite.act(net.pick(&[1, 100, 1 << 20]), false)),
            25..40 => guests.appwrite.happens(guests.is_quiet),
            40..65 => {
                let is_quiet = guests.is_quiet;
                let (listeners, mut around) = listeners!(self);
                let at = net.below(listeners.len());
                let listener = &mut listeners[at];
                if listener.conn().is_none() {
                    return listener.connect(&around);
                }
                listener.read(net.pick(&[7, 1 << 20]), &mut around);
                match net.below(100) {
                    0..4 => listener.leave(&net),
                    4..8 if !is_quiet => listener.act(&net),
                    _ => {}
                }
            }
            65..80 => {
                let (visitors, mut around) = guests.visitors(&net);
                let at = net.below(visitors.len());
                let visitor = &mut visitors[at];
                match visitor.conn() {
                    None => visitor.connect(&mut around),
                    Some(_) if net.percent(4) => visitor.leave(&around),
                    Some(_) => drop(visitor.read(&mut around)),
                }
            }
            80..85 => self.publish_line(None),
            85..99 => drop(self.backends_act()),
            _ if self.trouble > 0 => guests.appwrite.trouble(),
            _ => {}
        }
    }

    /// GRIP's backend answers a little of what each process has asked.
    pub(super) fn backends_act(&mut self) -> bool {
        let fails = if self.trouble > 0 && !self.is_calm {
            8
        } else {
            0
        };
        let all = self
            .nodes
            .iter()
            .chain(&self.successor)
            .chain(&self.retired);
        all.fold(false, |busy, node| {
            let mailboxes = &node.stage.mailboxes;
            node.requests.act(fails, mailboxes, &self.net) | busy
        })
    }

    /// Publishes a new line of a log at some node; now and then that is lost.
    fn publish_line(&mut self, log: Option<usize>) {
        let net = &self.net;
        let guests = self.guests.as_mut().expect("there are some");
        guests.hear_publisher(net);
        if guests.publisher.is_some() {
            return;
        }
        let (_, around) = guests.visitors(net);
        let item = next_line(log.unwrap_or_else(|| net.below(LOGS)), &around);
        if log.is_none() && self.trouble > 0 && net.percent(10) {
            return;
        }
        let node = net.below(self.nodes.len());
        note!(net, "node {node} is told {item}");
        let body = json!({ "items": [item] }).to_string();
        let mut request = Vec::new();
        let body = Some(body.as_bytes());
        encode_request("POST", "/publish/", "sim", &[], body, &mut request);
        let conn = net.connect_to(self.nodes[node].kernels(), PORT_GRIP, self.kernel_bytes);
        guests.publisher = Some(Exchange::begin(net, conn, &request));
    }

    /// A process has ended, and did not wait for the end of presences whose sockets have ended.
    pub(super) fn guests_lose(&mut self) {
        if let Some(guests) = &mut self.guests {
            let gone = guests.listeners.iter().filter(|it| !it.has_presence());
            guests.unsure.extend(gone.map(Listener::presence));
        }
    }

    /// Takes a dialled connection, if it goes to Appwrite.
    pub(super) fn accepts_guest(&mut self, conn: usize, to: std::net::SocketAddr) -> bool {
        { self.guests.as_mut() }.is_some_and(|guests| guests.appwrite.accept(conn, to))
    }

    /// Lets all of them act; whether anything was done.
    pub(super) fn guests_rest(&mut self) -> bool {
        let net = self.net.clone();
        let Some(guests) = &mut self.guests else {
            return false;
        };
        let mut busy = guests.appwrite.act(1 << 20, true);
        let (visitors, mut around) = guests.visitors(&net);
        for visitor in visitors {
            busy |= visitor.read(&mut around);
        }
        busy |= guests.hear_publisher(&net);
        let (listeners, mut around) = listeners!(self);
        for listener in listeners {
            busy |= listener.read(usize::MAX, &mut around);
        }
        busy
    }

    /// Lets everybody act until no answer of Appwrite's is awaited, nor room in a mailbox.
    fn rest_well(&mut self) {
        for _ in 0..4 {
            self.rest();
            while let Some(guests) = &self.guests
                && let Some(us) = guests.appwrite.owes_for_us()
            {
                self.net.pass_us(us);
                self.rest();
            }
            self.net.pass_us(3_000);
        }
    }

    /// All have come to rest, and nothing has ever failed: clients of Appwrite have everything. A
    /// follower may wait for the next line, or the time of its link, where one came as it began.
    pub(super) fn guests_have_all(&mut self) {
        self.rest_well();
        let Some(guests) = &self.guests else {
            return;
        };
        assert!(guests.epochs.len() <= guests.processes, "an epoch ended");
        let (listeners, around) = listeners!(self);
        listeners.iter().for_each(|it| it.settle(&around));
    }

    /// Ends the faults of guests' servers.
    pub(super) fn guests_calm(&mut self) {
        if let Some(guests) = &mut self.guests {
            guests.appwrite.calm();
        }
    }

    /// All who are not connected connect.
    pub(super) fn guests_come(&mut self) {
        let net = self.net.clone();
        let Some(guests) = &mut self.guests else {
            return;
        };
        let (visitors, mut around) = guests.visitors(&net);
        for visitor in visitors.iter_mut().filter(|it| it.conn().is_none()) {
            visitor.connect(&mut around);
        }
        let (listeners, around) = listeners!(self);
        for listener in listeners.iter_mut().filter(|it| it.conn().is_none()) {
            listener.connect(&around);
        }
    }

    /// Long after the faults: all have what happens now, and nothing of them is left behind.
    pub(super) fn guests_settle(&mut self) {
        if self.guests.is_none() {
            return;
        }
        let (listeners, around) = listeners!(self);
        if !around.appwrite.is_good {
            listeners.iter_mut().for_each(|it| it.forgives(&around));
        }
        let guests = self.guests.as_mut().expect("there are some");
        guests.appwrite.all_known();
        (0..CHANNELS.len()).for_each(|channel| guests.appwrite.tell(channel));
        for log in 0..LOGS {
            self.publish_line(Some(log));
            self.rest();
        }
        // A line behind one that was lost waits for it.
        for _ in 0..20 {
            self.rest_well();
            self.net.pass_us(1_000_000);
        }
        let net = self.net.clone();
        let guests = self.guests.as_mut().expect("there are some");
        let (visitors, around) = guests.visitors(&net);
        visitors.iter().for_each(|visitor| visitor.settle(&around));
        let (listeners, around) = listeners!(self);
        assert!(listeners.iter().all(Listener::is_settled), "not let in");
        listeners.iter().for_each(|it| it.settle(&around));
        listeners.iter_mut().for_each(|it| it.leave(&net));
        self.rest_well();
        let guests = self.guests.as_mut().expect("there are some");
        let left = &mut guests.appwrite.presences;
        left.retain(|_, id| !guests.unsure.contains(id));
        let is_clean = left.is_empty() || !guests.appwrite.is_good;
        assert!(is_clean, "presences are left: {left:?}");
        for node in &self.nodes {
            let heard = guests.appwrite.heard_by(&node.kernels());
            assert_eq!(heard, 1, "connections to Appwrite's Redis");
        }
    }

    // ---- hand-overs ----

    /// Connections of guests that wait for nothing, after a rest: all of them can move. Each has
    /// the newest of those that share its socket.
    pub(super) fn guests_at_rest(&mut self, at: usize) -> Vec<(usize, usize)> {
        if self.guests.is_none() || self.trouble > 0 {
            return Vec::new();
        }
        self.rest_well();
        let guests = self.guests.as_mut().expect("there are some");
        guests.is_quiet = true;
        let visitors = guests.visitors.iter().filter(|it| it.is_held());
        let listeners = guests.listeners.iter().filter(|it| it.is_settled());
        let conns = visitors.filter_map(Visitor::conn);
        let conns = conns.chain(listeners.filter_map(Listener::conn));
        let conns = conns.filter(|conn| self.nodes[at].has(*conn, &self.net));
        let rests: Vec<usize> = conns.collect();
        let can_move = |conn: &usize| {
            let (all, newest) = self.net.fellows(*conn);
            let all_rest = all.iter().all(|it| rests.contains(it));
            all_rest.then_some((*conn, newest))
        };
        rests.iter().filter_map(can_move).collect()
    }

    /// Once the successor hears Appwrite's events, or cannot, a process takes what came before, and
    /// no event behind it; whether that comes.
    pub(super) fn guests_stand_still(&mut self, at: usize) -> bool {
        let Some(guests) = &self.guests else {
            return true;
        };
        let is_good = guests.appwrite.is_good;
        let new = self.successor.as_ref().expect("it is made").kernels();
        let hears = |play: &Self| { play.guests.as_ref() }.map(|it| it.appwrite.heard_by(&new));
        for _ in 0..STANDS_MAX {
            if hears(self) == Some(1) {
                break;
            }
            self.hosts_act(at);
        }
        if is_good && hears(self) != Some(1) {
            return false;
        }
        let stands = Arc::new(AtomicBool::new(false));
        let told = stands.clone();
        let stood = Box::new(move || told.store(true, Ordering::Relaxed));
        self.nodes[at].call_appwrite(Call::StandStill(stood));
        for _ in 0..STANDS_MAX {
            if stands.load(Ordering::Relaxed) {
                return true;
            }
            self.hosts_act(at);
        }
        false
    }

    /// These connections are the node's, which is another process by now.
    pub(super) fn guests_have_moved(&mut self, at: usize, conns: &[(usize, usize)]) {
        let Some(guests) = &mut self.guests else {
            return;
        };
        guests.is_quiet = false;
        // Nobody else has come to it, or ended it.
        let is_as_before =
            |conn: usize, newest| self.net.fellows(conn).1 == newest && !self.net.was_aborted(conn);
        for (conn, _) in conns.iter().filter(|it| is_as_before(it.0, it.1)) {
            let visitors = guests.visitors.iter().map(Visitor::conn);
            let mut own = visitors.chain(guests.listeners.iter().map(Listener::conn));
            if own.any(|own| own == Some(*conn)) {
                let is_its = self.nodes[at].has(*conn, &self.net);
                assert!(is_its, "the connection {conn} did not move");
                self.net.count("a connection that waits for nothing moves");
            }
        }
    }
}
