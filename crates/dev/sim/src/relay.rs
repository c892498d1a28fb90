//! The engine alone under the simulated kernel, with the smallest app that uses all of it.
//!
//! The app answers each line with `ok` (the connection's own bytes) and hands it to all
//! connections, on every shard (deliveries and mail). Clients check what they get against what was
//! sent: each answer once and in order, and of each other client an unbroken row of lines.

mod app;
mod secure;

use std::collections::{BTreeMap, VecDeque};

use throng_engine::ConnLimits;

use app::{Mail, Relay};
use secure::Secure;

use crate::net::Net;
use crate::stage::Stage;

/// Shards of the longest run.
const SHARDS_MAX: usize = 3;

/// Way in which clients reach the server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Plain,
    Tls,
    /// On streams of shared connections, by HTTP/2.
    Streams,
}

/// A client, and what it must get.
#[derive(Default)]
struct Client {
    number: usize,
    conn: Option<usize>,
    tls: Option<Secure>,
    input: Vec<u8>,
    /// Lines sent on this connection that are not answered.
    unanswered: VecDeque<String>,
    /// The last line that came of each connection.
    seen: BTreeMap<usize, u64>,
    said: u64,
    over: bool,
    /// Whether it has shut its sending side.
    shut: bool,
    reads_from_us: u64,
    /// Connections that the server ended and this client never closes.
    stays: Vec<usize>,
}

impl Client {
    fn say(&mut self, net: &Net, line: &str) {
        if let Some(conn) = self.conn {
            note!(net, "client {} on {conn} says {line:?}", self.number);
            match &mut self.tls {
                None => net.client_send(conn, line.as_bytes()),
                Some(tls) => tls.send(net, conn, line.as_bytes()),
            }
        }
    }

    fn act(&mut self, net: &Net) {
        let Some(conn) = self.conn.filter(|_| !self.over && !self.shut) else {
            return;
        };
        if self.tls.as_ref().is_some_and(Secure::is_shaking) {
            return;
        }
        match net.below(40) {
            0 => {
                self.over = true;
                self.say(net, "bye\n");
            }
            1 | 2 => self.say(net, "hold\n"),
            3 => {
                net.count("a client shuts its sending side");
                self.shut = true;
                if let Some(tls) = &mut self.tls
                    && net.percent(50)
                {
                    tls.close(net, conn);
                }
                net.client_fin(conn);
            }
            _ => {
                for _ in 0..net.pick(&[1, 1, 4, 12]) {
                    self.said += 1;
                    let size = net.pick(&[0, 3, 40, 900]);
                    let line = format!("{conn} {} {}\n", self.said, "x".repeat(size));
                    self.unanswered.push_back(line.clone());
                    self.say(net, &line);
                }
            }
        }
    }

    fn leave(&mut self, net: &Net) {
        if let Some(conn) = self.conn.take() {
            net.client_drops(conn);
            note!(net, "client {} leaves {conn}", self.number);
        }
    }

    fn read(&mut self, net: &Net, bytes_max: usize) -> bool {
        let Some(conn) = self.conn else { return false };
        let Some(bytes) = net.client_recv(conn, bytes_max) else {
            note!(net, "client {} sees the end of {conn}", self.number);
            let excused = self.over || self.shut || net.was_aborted(conn);
            assert!(excused, "the server ended {conn} unasked");
            if net.is_lane(conn) || net.percent(70) {
                net.client_leaves(conn, false);
            } else {
                // It never closes: the server must not wait for ever.
                self.stays.push(conn);
            }
            self.conn = None;
            return true;
        };
        let came = !bytes.is_empty();
        let bytes = match &mut self.tls {
            None => bytes,
            Some(tls) => tls.open(net, conn, bytes, self.shut),
        };
        self.input.extend(&bytes);
        while let Some(end) = self.input.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.input.drain(..=end).collect();
            self.line(std::str::from_utf8(&line).expect("lines are text"));
        }
        came
    }

    fn line(&mut self, line: &str) {
        // The head of its answer, if it is on a stream.
        let is_head = line.ends_with("\r\n");
        if is_head || matches!(line, "bye\n" | "free\n" | "idle\n") {
            return;
        }
        if let Some(answer) = line.strip_prefix("ok ") {
            let expected = self.unanswered.pop_front();
            assert_eq!(
                Some(answer),
                expected.as_deref(),
                "answers in order, each once"
            );
            return;
        }
        let mut words = line.split(' ');
        let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
        let (from, n) = number().zip(number()).expect("a line of a client");
        if let Some(before) = self.seen.insert(from as usize, n) {
            assert_eq!(n, before + 1, "an unbroken row of {from}'s lines");
        }
    }
}

/// One run of the engine alone: some thousand steps, then rest, and nothing may be owed.
struct Play {
    net: Net,
    stage: Stage<Relay>,
    clients: Vec<Client>,
    kernel_bytes: usize,
    way: Way,
}

/// Request that begins a stream of lines.
const ASK: &[u8] = b"GET / HTTP/1.1\r\nHost: sim\r\nUpgrade: websocket\r\n\r\n";

impl Play {
    fn new(net: Net, seed: u64, way: Way) -> Self {
        let shards = net.between(1, SHARDS_MAX);
        let limits = ConnLimits {
            // No client is too slow here.
            queue_bytes_max: 1 << 30,
            queued_bytes_max: usize::MAX,
            unread_above_bytes: net.pick(&[100, 3000, 1 << 20]),
            spare_descriptors: 0,
            // Longer than all leaps of the clock together.
            handshake_timeout_ms: 1_000_000_000,
            frame_timeout_ms: 1_000_000_000,
            ..ConnLimits::default()
        };
        let gather = net.percent(50);
        let tls = (way == Way::Tls).then(|| secure::server(seed));
        let stage = Stage::made(
            &net,
            (shards, 1),
            limits,
            tls.as_ref(),
            false,
            |shard, _| Relay::new(shard.index(), shards, gather, way == Way::Streams),
        );
        net.draw_faults(&[1, 2, 7, 4096]);
        net.has_lanes(if way == Way::Streams { 100 } else { 0 });
        let clients = (0..net.between(2, 7)).map(|number| Client {
            number,
            ..Client::default()
        });
        Self {
            kernel_bytes: net.pick(&[20, 300, 5000]),
            clients: clients.collect(),
            way,
            stage,
            net,
        }
    }

    fn step(&mut self) {
        let net = &self.net;
        net.pass_us(net.between(0, 400) as u64);
        match net.below(100) {
            0..45 => {
                let shard = net.below(self.stage.len());
                if self.stage.is_awake(shard) {
                    self.stage.turn(shard);
                }
            }
            45..65 => {
                let now_us = net.now_us();
                let at = net.below(self.clients.len());
                let client = &mut self.clients[at];
                if client.reads_from_us <= now_us {
                    client.read(net, net.pick(&[1, 30, 1000, 1 << 20]));
                    if net.percent(3) {
                        net.count("a client does not read for a while");
                        client.reads_from_us = now_us + 200_000;
                    }
                }
            }
            65..95 => {
                let at = net.below(self.clients.len());
                let client = &mut self.clients[at];
                match client.conn {
                    None => {
                        let conn = net.connect(0, self.kernel_bytes);
                        note!(net, "client {at} connects: {conn}");
                        if self.way == Way::Streams {
                            net.client_send(conn, ASK);
                        }
                        *client = Client {
                            number: at,
                            conn: Some(conn),
                            tls: (self.way == Way::Tls).then(|| Secure::connect(net, conn)),
                            stays: std::mem::take(&mut client.stays),
                            ..Client::default()
                        };
                    }
                    Some(conn) if net.percent(40) => {
                        net.arrive(conn, net.pick(&[1, 20, 9999]));
                    }
                    Some(_) if net.percent(2) => client.leave(net),
                    Some(_) => client.act(net),
                }
            }
            95..98 => {
                let shard = net.below(self.stage.len());
                let stray = net.below(20) as u32;
                net.count("readiness is reported for nothing");
                net.0.borrow_mut().shards[shard].strays.push(stray);
            }
            98 if net.percent(10) => {
                net.count("the clock leaps");
                net.pass_us(net.pick(&[50_000, 5_000_000, 40_000_000]));
            }
            _ => net.count("a turn begins late"),
        }
    }

    /// Lets everything come to rest. What only delays goes on: it must not delay for ever.
    fn rest(&mut self) {
        self.net.accepts_all();
        for _ in 0..3 {
            let (net, clients) = (&self.net, &mut self.clients);
            self.stage.rest(|| {
                let mut busy = net.pump_all();
                for client in &mut *clients {
                    if let Some(conn) = client.conn {
                        net.arrive(conn, usize::MAX);
                    }
                    busy |= client.read(net, 1 << 20);
                }
                busy
            });
            if !self.net.has_backlog() {
                return;
            }
            // Accepting had paused.
            self.net.pass_us(600_000);
        }
        panic!("connections wait to be accepted for ever");
    }

    /// Everything that was sent and could arrive has.
    fn settle(&mut self) {
        self.rest();
        let refused = |client: &Client| {
            client.conn.is_none_or(|conn| {
                let conn = self.net.socket(conn);
                self.net.0.borrow().conns[conn].server_gone
            })
        };
        for client in self.clients.iter().filter(|client| !refused(client)) {
            assert!(
                client.unanswered.is_empty() || client.shut || client.over,
                "client {}: never answered: {:?}",
                client.number,
                client.unanswered.front()
            );
            let number = client.number;
            assert!(!client.shut, "client {number}: its end was not seen");
            if client.over {
                continue;
            }
            for other in &self.clients {
                let seen = other.conn.and_then(|conn| client.seen.get(&conn));
                if let Some(&seen) = seen {
                    let said = other.said - other.unanswered.len() as u64;
                    let (number, at, of) = (client.number, client.conn, other.conn);
                    assert!(
                        seen >= said,
                        "client {number} on {at:?} has {seen} of {said} lines of {of:?}"
                    );
                }
            }
        }
    }

    fn end(&mut self) {
        self.net.pass_us(6_000_000);
        self.rest();
        for conn in self.clients.iter().flat_map(|client| &client.stays) {
            let gone = self.net.0.borrow().conns[*conn].server_gone;
            assert!(gone, "the server waits for {conn} to close for ever");
        }
        for client in &mut self.clients {
            client.leave(&self.net);
        }
        self.rest();
        self.net.pass_us(6_000_000);
        self.rest();
        for running in self.stage.running() {
            assert!(running.conns().is_empty(), "a connection stayed");
            assert_eq!(running.app().live, 0, "each was told closed");
            assert!(running.app().lines.is_empty(), "a line stayed");
            assert!(
                running.app().out.iter().all(VecDeque::is_empty),
                "mail stayed"
            );
        }
    }
}

/// Plays one seed of the engine alone.
pub(crate) fn run(net: Net, seed: u64, steps: usize, way: Way) {
    let mut play = Play::new(net, seed, way);
    for step in 0..steps {
        play.step();
        if step == steps / 2 {
            play.settle();
        }
    }
    if play.net.percent(30) {
        play.net.count("the server drains");
        for mailbox in &play.stage.mailboxes {
            assert!(mailbox.send(Mail::Shut).is_ok());
        }
    }
    play.settle();
    play.end();
}
