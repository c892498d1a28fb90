//! A played source: its connections and the faults that all kinds have. What it says and what it
//! has is one kind's ([`Source`]).

use std::collections::{BTreeMap, BTreeSet};

use throng_feeds::SourceOptions;

use super::witness::Witness;
use crate::cluster::broker::Kept;
use crate::net::Net;

/// Surroundings of a source while it acts.
pub(crate) struct Around<'a> {
    pub(super) net: &'a Net,
    pub(super) witness: &'a mut Witness,
    /// Bytes owed to each connection.
    pub(super) out: &'a mut BTreeMap<usize, Vec<u8>>,
    /// Connections that the source itself ends, behind what they are owed.
    pub(super) ended: &'a mut BTreeSet<usize>,
    pub(super) is_calm: bool,
}

impl Around<'_> {
    pub(super) fn now_ms(&self) -> u64 {
        self.net.now().unix_ms
    }

    pub(super) fn owe(&mut self, conn: usize, bytes: &[u8]) {
        self.out.entry(conn).or_default().extend(bytes);
    }

    /// Whether a fault comes that has this chance in a hundred.
    pub(super) fn befalls(&self, percent: usize) -> bool {
        !self.is_calm && self.net.percent(percent)
    }
}

/// One kind of source.
pub(crate) trait Source {
    /// Servers of it, at 10.0.0.1 and the addresses behind.
    fn hosts(&self) -> usize {
        1
    }

    /// Options of a feed that reads it.
    fn options(&self) -> SourceOptions;

    /// A connection has come to a server.
    fn came(&mut self, _conn: usize, _host: usize, _around: &mut Around<'_>) {}

    /// Takes and carries out whole requests from the front of the input.
    fn heard(&mut self, conn: usize, input: &mut Vec<u8>, around: &mut Around<'_>);

    /// A connection is gone.
    fn left(&mut self, _conn: usize, _around: &mut Around<'_>) {}

    /// Does what time brings; whether anything was done.
    fn works(&mut self, around: &mut Around<'_>) -> bool;

    /// Takes an event of a producer.
    fn add(&mut self, event: usize, around: &mut Around<'_>);

    /// Keeps a copy of the data, as a disk or a replica does now and then.
    fn copy(&mut self);

    /// Ends a server, whose connections are cut.
    fn stopped(&mut self, _host: usize, _around: &mut Around<'_>) {}

    /// A server starts, with this if it is the only one.
    fn started(&mut self, host: usize, kept: Kept, around: &mut Around<'_>);

    /// Begins or ends a fault that only this kind of source has.
    fn trouble(&mut self, around: &mut Around<'_>);

    /// Ends all such faults.
    fn calm(&mut self);

    /// Why not all is acknowledged, if it is not.
    fn owes(&self) -> Option<String>;
}

struct Client {
    conn: usize,
    host: usize,
    input: Vec<u8>,
    /// Nothing reaches the other side any more, and neither of the two is told; true if requests
    /// still take effect.
    frozen: Option<bool>,
}

pub(super) struct Server {
    net: Net,
    pub(super) source: Box<dyn Source>,
    clients: Vec<Client>,
    out: BTreeMap<usize, Vec<u8>>,
    ended: BTreeSet<usize>,
    is_paused: Vec<bool>,
    is_down: Vec<bool>,
    /// Times in a hundred that what is owed is written.
    haste: usize,
    is_calm: bool,
}

/// Lends everything but the source and its connections.
macro_rules! around {
    ($server:expr, $witness:expr) => {
        &mut Around {
            net: &$server.net,
            witness: $witness,
            out: &mut $server.out,
            ended: &mut $server.ended,
            is_calm: $server.is_calm,
        }
    };
}

impl Server {
    pub(super) fn new(net: &Net, source: Box<dyn Source>) -> Self {
        let hosts = source.hosts();
        Self {
            net: net.clone(),
            source,
            clients: Vec::new(),
            out: BTreeMap::new(),
            ended: BTreeSet::new(),
            is_paused: vec![false; hosts],
            is_down: vec![false; hosts],
            haste: net.pick(&[100, 70, 30]),
            is_calm: false,
        }
    }

    pub(super) fn add(&mut self, event: usize, witness: &mut Witness) {
        self.source.add(event, around!(self, witness));
    }

    pub(super) fn copy(&mut self) {
        self.source.copy();
    }

    fn accept(&mut self, witness: &mut Witness) -> bool {
        let mut busy = false;
        while let Some((conn, to)) = self.net.take_dialled() {
            busy = true;
            let host = match to.ip() {
                std::net::IpAddr::V4(ip) => usize::from(ip.octets()[3]) - 1,
                std::net::IpAddr::V6(_) => panic!("no address of it: {to}"),
            };
            let is_refused = self.is_down[host] || !self.is_calm && self.net.percent(3);
            self.net.answer_dial(conn, is_refused);
            if is_refused {
                self.net
                    .count("a connection to a source is cut, refused or frozen");
                continue;
            }
            self.clients.push(Client {
                conn,
                host,
                input: Vec::new(),
                frozen: None,
            });
            self.source.came(conn, host, around!(self, witness));
        }
        busy
    }

    /// Reads, carries out and answers; whether there was anything to do.
    pub(super) fn act(&mut self, bytes_max: usize, witness: &mut Witness) -> bool {
        let mut busy = self.accept(witness);
        let mut gone = Vec::new();
        for client in &mut self.clients {
            if self.is_paused[client.host] {
                continue;
            }
            match self.net.client_recv(client.conn, bytes_max) {
                Some(bytes) => {
                    busy |= !bytes.is_empty();
                    client.input.extend(bytes);
                }
                None => gone.push(client.conn),
            }
            match client.frozen {
                Some(false) => client.input.clear(),
                _ => {
                    let (conn, input) = (client.conn, &mut client.input);
                    self.source.heard(conn, input, around!(self, witness));
                }
            }
        }
        gone.into_iter().for_each(|conn| self.forget(conn, witness));
        if self.is_up() {
            busy |= self.source.works(around!(self, witness));
        }
        busy | self.write(witness)
    }

    fn write(&mut self, witness: &mut Witness) -> bool {
        let mut busy = false;
        for client in &self.clients {
            let is_late = !self.is_calm && !self.net.percent(self.haste);
            if is_late || self.is_paused[client.host] {
                continue;
            }
            let bytes = self.out.remove(&client.conn).unwrap_or_default();
            if client.frozen.is_none() && !bytes.is_empty() {
                busy = true;
                self.net.client_send(client.conn, &bytes);
            }
        }
        for conn in std::mem::take(&mut self.ended) {
            if self.out.contains_key(&conn) {
                self.ended.insert(conn);
                continue;
            }
            self.net.client_leaves(conn, false);
            self.forget(conn, witness);
        }
        busy
    }

    fn forget(&mut self, conn: usize, witness: &mut Witness) {
        self.clients.retain(|client| client.conn != conn);
        self.out.remove(&conn);
        self.ended.remove(&conn);
        self.source.left(conn, around!(self, witness));
    }

    /// Ends a connection, behind so many bytes of what it is owed.
    fn cut(&mut self, conn: usize, bytes: usize, witness: &mut Witness) {
        self.net
            .count("a connection to a source is cut, refused or frozen");
        let owed = self.out.remove(&conn).unwrap_or_default();
        let bytes = bytes.min(owed.len());
        note!(
            self.net,
            "the connection {conn} is cut behind {bytes} bytes of {}",
            owed.len()
        );
        self.net.client_send(conn, &owed[..bytes]);
        self.net.client_leaves(conn, self.net.percent(50));
        self.forget(conn, witness);
    }

    fn stop(&mut self, host: usize, witness: &mut Witness) {
        note!(self.net, "server {host} stops");
        self.net.count("a source stops");
        self.is_down[host] = true;
        self.is_paused[host] = false;
        let theirs = self.clients.iter().filter(|client| client.host == host);
        let theirs: Vec<usize> = theirs.map(|client| client.conn).collect();
        for conn in theirs {
            let bytes = self.net.pick(&[0, 0, 1, 40, 100_000]);
            self.cut(conn, bytes, witness);
        }
        self.source.stopped(host, around!(self, witness));
    }

    fn start(&mut self, host: usize, witness: &mut Witness) {
        let kept = [Kept::All, Kept::All, Kept::Older, Kept::Nothing];
        let kept = self.net.pick(&kept);
        note!(self.net, "server {host} starts with {kept:?}");
        self.is_down[host] = false;
        self.source.started(host, kept, around!(self, witness));
    }

    pub(super) fn trouble(&mut self, witness: &mut Witness) {
        let host = self.net.below(self.is_down.len());
        match self.net.below(12) {
            _ if self.is_down[host] && self.net.percent(70) => self.start(host, witness),
            0..4 if !self.clients.is_empty() => {
                let at = self.net.below(self.clients.len());
                let bytes = self.net.pick(&[0, 1, 30, 200, 1 << 20]);
                self.cut(self.clients[at].conn, bytes, witness);
            }
            4 if !self.clients.is_empty() => {
                self.net
                    .count("a connection to a source is cut, refused or frozen");
                let at = self.net.below(self.clients.len());
                let takes_effect = self.net.percent(50);
                self.clients[at].frozen.get_or_insert(takes_effect);
                let conn = self.clients[at].conn;
                note!(self.net, "the connection {conn} answers no more");
            }
            5 | 6 => self.is_paused[host] = !self.is_paused[host],
            7..10 => {
                self.net.count("a source has a trouble of its own");
                self.source.trouble(around!(self, witness));
            }
            _ if !self.is_down[host] => self.stop(host, witness),
            _ => {}
        }
    }

    /// Ends all faults, but those of connections that answer no more.
    pub(super) fn calm(&mut self, witness: &mut Witness) {
        self.is_calm = true;
        self.is_paused.fill(false);
        for host in 0..self.is_down.len() {
            if self.is_down[host] {
                self.start(host, witness);
            }
        }
        self.source.calm();
    }

    /// Whether a server of it is up.
    pub(super) fn is_up(&self) -> bool {
        !self.is_down.iter().all(|is_down| *is_down)
    }

    /// Number of connections that are open.
    pub(super) const fn clients(&self) -> usize {
        self.clients.len()
    }
}
