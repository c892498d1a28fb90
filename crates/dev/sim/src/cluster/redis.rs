//! A played Redis: connections, publish and subscribe, scripts in a real Lua, and its faults.
//!
//! Commands of all connections take effect one after the other. What a connection is owed waits
//! here until the server writes; a fault may cut it at any byte.

pub(crate) mod resp;
pub(crate) mod scripts;
pub(crate) mod store;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use self::resp::{Reply, take_command};
use self::scripts::Scripts;
use self::store::{Call, Data, Refuses, number};
use super::broker::{Broker, Copies, Kept};
use crate::net::Net;

/// State that commands and scripts change.
struct Shared {
    net: Net,
    data: Data,
    /// Milliseconds by which the clock of Redis is ahead.
    ahead_ms: u64,
    /// Names this process, and its line of replication.
    process: String,
    line: String,
    subscribers: BTreeMap<Vec<u8>, BTreeSet<usize>>,
    /// Bytes owed to each connection.
    out: BTreeMap<usize, Vec<u8>>,
    refuses: Refuses,
    has_written: bool,
    /// Deliveries in a thousand that are lost.
    losses: usize,
    /// Deliveries in a hundred that come once more, and those that are to.
    repeats: usize,
    again: Vec<(usize, Reply)>,
    /// The connection whose command is carried out, and pushes of that command to itself, if they
    /// come behind the answer.
    current: usize,
    own_pushes: Vec<Reply>,
    pushes_first: bool,
}

/// Connection of a node.
struct Client {
    conn: usize,
    input: Vec<u8>,
    /// Has introduced itself, by all steps of the handshake.
    is_up: bool,
}

/// The played server: what is known, who is connected.
pub(super) struct Redis {
    net: Net,
    shared: Rc<RefCell<Shared>>,
    scripts: Scripts,
    clients: Vec<Client>,
    copies: Copies<Data>,
    /// Times that it still says much that nobody asked for.
    babbles: usize,
}

/// A message that no client of ours asks for, and so many of them.
const BABBLE: &[u8] = b">2\r\n$4\r\ntick\r\n$12\r\n0123456789\r\n\r\n";
const BABBLE_MAX: usize = 700;

impl Shared {
    fn call(&mut self, args: &[Vec<u8>]) -> Reply {
        let name = String::from_utf8_lossy(&args[0]).to_uppercase();
        let rest = &args[1..];
        let now_ms = self.net.now().unix_ms + self.ahead_ms;
        let mut call = Call {
            data: &mut self.data,
            now_ms,
            refuses: self.refuses,
            has_written: &mut self.has_written,
        };
        if let Some(reply) = call.run(&name, rest) {
            return reply;
        }
        match &*name {
            "PING" => Reply::Simple("PONG"),
            "SELECT" => Reply::Simple("OK"),
            "HELLO" => Reply::Map(vec![(Reply::text("server"), Reply::text("redis"))]),
            "INFO" => Reply::Verbatim(match &*rest[0] {
                b"server" => format!("# Server\r\nrun_id:{}\r\n", self.process),
                _ => {
                    let line = &self.line;
                    format!("# Replication\r\nrole:master\r\nmaster_replid:{line}\r\n")
                }
            }),
            "PUBLISH" => Reply::Int(self.publish(&rest[0], &rest[1])),
            "PUBSUB" => {
                let count = self.subscribers.get(&rest[1]).map_or(0, BTreeSet::len);
                Reply::Array(vec![Reply::Bulk(rest[1].clone()), Reply::Int(count as i64)])
            }
            _ => panic!("the played Redis has no {name}"),
        }
    }

    fn publish(&mut self, channel: &Vec<u8>, message: &[u8]) -> i64 {
        let to = self.subscribers.get(channel).cloned().unwrap_or_default();
        let push = Reply::Push(vec![
            Reply::text("message"),
            Reply::Bulk(channel.clone()),
            Reply::Bulk(message.to_vec()),
        ]);
        for (conn, push) in std::mem::take(&mut self.again) {
            self.owe(conn, &push);
        }
        let has_position = !message.starts_with(b"p  ") && message.starts_with(b"p ");
        for &conn in &to {
            if self.net.below(1000) < self.losses {
                note!(self.net, "Redis loses a delivery to {conn}");
                self.net.fault();
                continue;
            }
            if has_position && self.net.percent(self.repeats) {
                self.again.push((conn, push.clone()));
            }
            match conn == self.current && !self.pushes_first {
                true => self.own_pushes.push(push.clone()),
                false => self.owe(conn, &push),
            }
        }
        to.len() as i64
    }

    fn owe(&mut self, conn: usize, reply: &Reply) {
        reply.write(self.out.entry(conn).or_default());
    }

    fn subscribe(&mut self, conn: usize, channels: &[Vec<u8>], comes: bool) {
        for channel in channels {
            let theirs = self.subscribers.entry(channel.clone()).or_default();
            let word = match comes {
                true => {
                    theirs.insert(conn);
                    "subscribe"
                }
                false => {
                    theirs.remove(&conn);
                    "unsubscribe"
                }
            };
            let push = vec![
                Reply::text(word),
                Reply::Bulk(channel.clone()),
                Reply::Int(1),
            ];
            self.owe(conn, &Reply::Push(push));
        }
    }
}

impl Redis {
    pub(super) fn new(is_troubled: bool, net: &Net) -> Self {
        let shared = Rc::new(RefCell::new(Shared {
            net: net.clone(),
            data: Data::default(),
            ahead_ms: net.pick(&[0, 0, 400_000]),
            process: format!("{:040x}", net.next()),
            line: format!("{:040x}", net.next()),
            subscribers: BTreeMap::new(),
            out: BTreeMap::new(),
            refuses: Refuses::Nothing,
            has_written: false,
            losses: match is_troubled {
                true => net.pick(&[0, 10, 200]),
                false => 0,
            },
            repeats: net.pick(&[0, 5]),
            again: Vec::new(),
            current: usize::MAX,
            own_pushes: Vec::new(),
            pushes_first: net.percent(50),
        }));
        Self {
            net: net.clone(),
            scripts: no_scripts(&shared),
            shared,
            clients: Vec::new(),
            copies: Copies::default(),
            babbles: net.pick(&[0, 0, 20]),
        }
    }

    /// Tells those who have introduced themselves what nobody asked for.
    fn babble(&mut self) {
        let shared = &mut *self.shared.borrow_mut();
        for client in &mut self.clients {
            let heard = shared.subscribers.values();
            let heard = heard.filter(|those| those.contains(&client.conn)).count();
            // The last step of the handshake is the second subscription.
            let was_up = std::mem::replace(&mut client.is_up, heard >= 2);
            if client.is_up && (!was_up || self.net.below(1000) < 2) {
                self.babbles = self.babbles.saturating_sub(1);
                let count = self.net.pick(&[1, 5, BABBLE_MAX]);
                let out = shared.out.entry(client.conn).or_default();
                out.extend(BABBLE.repeat(count));
            }
        }
    }

    /// Writes what is owed, at most so many bytes to each.
    fn write(&mut self, bytes_max: usize) -> bool {
        let mut out = std::mem::take(&mut self.shared.borrow_mut().out);
        let mut busy = false;
        for (conn, bytes) in &mut out {
            let count = bytes.len().min(bytes_max);
            busy |= count > 0;
            self.net.client_send(*conn, &bytes[..count]);
            bytes.drain(..count);
        }
        out.retain(|_, bytes| !bytes.is_empty());
        self.shared.borrow_mut().out = out;
        busy
    }

    fn carry_out(&mut self, conn: usize, command: &[Vec<u8>]) {
        {
            let mut shared = self.shared.borrow_mut();
            (shared.current, shared.has_written) = (conn, false);
        }
        let name = String::from_utf8_lossy(&command[0]).to_uppercase();
        let reply = match &*name {
            "SUBSCRIBE" | "UNSUBSCRIBE" => {
                let comes = name == "SUBSCRIBE";
                return { self.shared.borrow_mut() }.subscribe(conn, &command[1..], comes);
            }
            "SCRIPT" => Reply::Bulk(self.scripts.load(&command[2])),
            "EVALSHA" => {
                let keys = number(Some(&command[2])) as usize;
                let (keys, args) = command[3..].split_at(keys);
                let ran = self.scripts.run(&command[1], keys, args);
                ran.unwrap_or_else(|| Reply::Error("NOSCRIPT No matching script.".to_owned()))
            }
            _ => self.shared.borrow_mut().call(command),
        };
        let mut shared = self.shared.borrow_mut();
        shared.owe(conn, &reply);
        for push in std::mem::take(&mut shared.own_pushes) {
            shared.owe(conn, &push);
        }
    }

    fn forget(&mut self, conn: usize) {
        self.clients.retain(|client| client.conn != conn);
        let mut shared = self.shared.borrow_mut();
        shared.out.remove(&conn);
        shared.again.retain(|(to, _)| *to != conn);
        shared.subscribers.retain(|_, theirs| {
            theirs.remove(&conn);
            !theirs.is_empty()
        });
    }
}

impl Broker for Redis {
    fn config(&self) -> String {
        "kind = \"redis\"\nurl = \"redis://10.0.0.1:6379\"\n".to_owned()
    }

    fn is_prompt(&self, _: bool) -> bool {
        self.shared.borrow().losses == 0
    }

    fn accept(&mut self, conn: usize) {
        self.clients.push(Client {
            conn,
            input: Vec::new(),
            is_up: false,
        });
    }

    fn clients(&self) -> Vec<usize> {
        self.clients.iter().map(|client| client.conn).collect()
    }

    fn act(&mut self, bytes_max: usize, left: &mut Vec<usize>) -> bool {
        let mut busy = false;
        for at in 0..self.clients.len() {
            let client = &mut self.clients[at];
            let conn = client.conn;
            match self.net.client_recv(conn, bytes_max) {
                Some(bytes) => {
                    busy |= !bytes.is_empty();
                    client.input.extend(bytes);
                }
                None => left.push(conn),
            }
            while let Some(command) = take_command(&mut self.clients[at].input) {
                self.carry_out(conn, &command);
            }
        }
        left.iter().for_each(|conn| self.forget(*conn));
        if self.babbles > 0 {
            self.babble();
        }
        busy | self.write(usize::MAX)
    }

    fn copy(&mut self) {
        self.copies.add(&self.shared.borrow().data);
    }

    fn cut(&mut self, conn: usize, bytes: usize) {
        self.write(bytes);
        self.net.client_leaves(conn, self.net.percent(50));
        self.forget(conn);
    }

    /// As another process or by another line of replication.
    fn start(&mut self, kept: Kept) -> bool {
        let mut shared = self.shared.borrow_mut();
        let is_promoted = self.net.percent(25);
        if !is_promoted {
            shared.process = format!("{:040x}", self.net.next());
        }
        shared.line = format!("{:040x}", self.net.next());
        let is_less = self.copies.restore(kept, &mut shared.data, &self.net);
        drop(shared);
        self.scripts = no_scripts(&self.shared);
        is_less
    }

    fn trouble(&mut self) -> Option<bool> {
        let shared = &mut *self.shared.borrow_mut();
        match self.net.below(5) {
            // A replica comes, so the line has another name.
            0 => {
                note!(self.net, "Redis goes on as another line");
                shared.line = format!("{:040x}", self.net.next());
                Some(false)
            }
            1 => {
                note!(self.net, "another program deletes something");
                shared.data.meddle(&self.net).then_some(true)
            }
            _ => {
                let refuses = [Refuses::Nothing, Refuses::Memory, Refuses::Replicas];
                shared.refuses = self.net.pick(&refuses);
                let refuses = shared.refuses;
                note!(self.net, "Redis refuses {refuses:?}");
                None
            }
        }
    }

    fn is_ill(&self) -> bool {
        self.shared.borrow().refuses != Refuses::Nothing
    }

    fn heal(&mut self) {
        self.shared.borrow_mut().refuses = Refuses::Nothing;
    }

    fn calm(&mut self) {
        self.shared.borrow_mut().losses = 0;
    }
}

/// A server begins without scripts.
fn no_scripts(shared: &Rc<RefCell<Shared>>) -> Scripts {
    let shared = shared.clone();
    Scripts::new(Rc::new(RefCell::new(move |args: Vec<Vec<u8>>| {
        shared.borrow_mut().call(&args)
    })))
}
