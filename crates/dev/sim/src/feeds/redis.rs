//! A played Redis with one stream and its consumer group; scripts run in a real Lua.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use throng_feeds::{RedisFeedOptions, SourceOptions};

use super::server::{Around, Source};
use crate::cluster::broker::{Copies, Kept};
use crate::cluster::redis::resp::{Reply, take_command};
use crate::cluster::redis::scripts::Scripts;
use crate::cluster::redis::store::{id, number};
use crate::net::Net;

/// An entry's id: its two numbers.
type Id = (u64, u64);

#[derive(Clone, Default)]
struct Group {
    last: Id,
    /// Entries that were read and not acknowledged.
    pending: BTreeMap<Id, usize>,
}

#[derive(Clone, Default)]
struct Stream {
    entries: BTreeMap<Id, usize>,
    last: Id,
    group: Option<Group>,
}

#[derive(Clone, Default)]
struct Data {
    stream: Option<Stream>,
    /// The lease of the reader, and its end.
    lease: Option<(Vec<u8>, u64)>,
}

/// State that scripts change.
struct Shared {
    net: Net,
    data: Data,
    /// Refuses writes, with this error.
    refuses: Option<&'static str>,
    /// Refuses the next acknowledgement alone.
    refuses_next: bool,
    /// Fields of events by their numbers.
    fields: Vec<Vec<Vec<u8>>>,
}

/// A connection that waits for an entry.
struct Blocked {
    conn: usize,
    behind: Id,
    until_ms: u64,
}

pub(crate) struct Redis {
    shared: Rc<RefCell<Shared>>,
    scripts: Scripts,
    /// Digests of scripts by their texts.
    known: BTreeMap<Vec<u8>, Vec<u8>>,
    copies: Copies<Data>,
    blocked: Vec<Blocked>,
}

const STREAM: &str = "s";
const GROUP: &str = "g";
const REPLICAS: &str = "NOREPLICAS Not enough good replicas to write.";

fn shown((ms, number): Id) -> Reply {
    Reply::text(format!("{ms}-{number}"))
}

impl Shared {
    /// A command of a script.
    fn call(&mut self, args: &[Vec<u8>]) -> Reply {
        let now_ms = self.net.now().unix_ms;
        self.data.lease.take_if(|(_, until)| *until <= now_ms);
        let name = std::str::from_utf8(&args[0]).expect("a name");
        if let Some(why) = self.refuses.filter(|_| name != "GET") {
            return Reply::Error(why.to_owned());
        }
        match name {
            "GET" => Reply::bulk(self.data.lease.as_ref().map(|(token, _)| token)),
            "SET" => {
                let until = now_ms + number(args.get(4));
                self.data.lease = Some((args[2].clone(), until));
                Reply::Simple("OK")
            }
            "DEL" => Reply::Int(i64::from(self.data.lease.take().is_some())),
            "XREADGROUP" => self.read(number(args.get(5)) as usize, &args[8]),
            _ => panic!("the played Redis has no {name}"),
        }
    }

    fn read(&mut self, count: usize, from: &[u8]) -> Reply {
        let stream = self.data.stream.as_mut();
        let Some((group, entries)) = stream.and_then(|it| Some((it.group.as_mut()?, &it.entries)))
        else {
            let why = "NOGROUP No such key 's' or consumer group 'g'";
            return Reply::Error(why.to_owned());
        };
        let found: Vec<(Id, usize)> = if from == b">" {
            let new = entries.iter().filter(|(id, _)| **id > group.last);
            let new = new.take(count).map(|(id, event)| (*id, *event));
            let new: Vec<_> = new.collect();
            group.pending.extend(new.iter().copied());
            group.last = new.last().map_or(group.last, |(id, _)| *id);
            new
        } else {
            let old = group.pending.iter().take(count);
            old.map(|(id, event)| (*id, *event)).collect()
        };
        if found.is_empty() && from == b">" {
            return Reply::Nil;
        }
        let entry = |(id, event): &(Id, usize)| {
            let fields = match entries.contains_key(id) {
                true => Reply::bulks(self.fields[*event].iter()),
                false => Reply::Nil,
            };
            Reply::Array(vec![shown(*id), fields])
        };
        let entries = Reply::Array(found.iter().map(entry).collect());
        Reply::Array(vec![Reply::Array(vec![Reply::text(STREAM), entries])])
    }
}

fn events(data: &Data) -> BTreeSet<usize> {
    let stream = data.stream.iter();
    stream.flat_map(|it| it.entries.values().copied()).collect()
}

impl Redis {
    pub(crate) fn new(net: &Net) -> Self {
        let shared = Rc::new(RefCell::new(Shared {
            net: net.clone(),
            data: Data::default(),
            refuses: None,
            refuses_next: false,
            fields: Vec::new(),
        }));
        let of_scripts = shared.clone();
        Self {
            shared,
            scripts: Scripts::new(Rc::new(RefCell::new(move |args: Vec<Vec<u8>>| {
                of_scripts.borrow_mut().call(&args)
            }))),
            known: BTreeMap::new(),
            copies: Copies::default(),
            blocked: Vec::new(),
        }
    }

    /// Carries a command out; `None` if its answer comes later.
    fn carry_out(
        &mut self,
        conn: usize,
        command: &[Vec<u8>],
        around: &mut Around<'_>,
    ) -> Option<Reply> {
        let name = std::str::from_utf8(&command[0]).expect("a name");
        if name == "EVAL" {
            let known = self.known.get(&command[1]).cloned();
            let digest = known.unwrap_or_else(|| {
                let digest = self.scripts.load(&command[1]);
                self.known.insert(command[1].clone(), digest.clone());
                digest
            });
            let keys = number(command.get(2)) as usize;
            let (keys, args) = command[3..].split_at(keys);
            return self.scripts.run(&digest, keys, args);
        }
        let shared = &mut *self.shared.borrow_mut();
        // Memory is wanted by none of these but the first.
        let is_write = name == "XGROUP" || name == "XACK";
        let is_refused = |why: &&str| is_write && (name == "XGROUP" || !why.starts_with("OOM"));
        if let Some(why) = shared.refuses.filter(is_refused) {
            return Some(Reply::Error(why.to_owned()));
        }
        if name == "XACK" && std::mem::take(&mut shared.refuses_next) {
            return Some(Reply::Error(REPLICAS.to_owned()));
        }
        let stream = &mut shared.data.stream;
        Some(match name {
            "XGROUP" => {
                let group = &mut stream.get_or_insert_default().group;
                match group {
                    Some(_) => Reply::Error("BUSYGROUP Consumer Group name exists".to_owned()),
                    None => {
                        *group = Some(Group::default());
                        Reply::Simple("OK")
                    }
                }
            }
            "XACK" => {
                let group = stream.as_mut().and_then(|stream| stream.group.as_mut());
                let mut count = 0;
                for id in command[3..].iter().map(|text| id(text, 0)) {
                    let pending = group.as_ref().and_then(|it| it.pending.get(&id));
                    if let Some(event) = pending {
                        around.witness.acknowledged(*event);
                        count += 1;
                    }
                }
                if let Some(group) = group {
                    let ids: BTreeSet<Id> = command[3..].iter().map(|text| id(text, 0)).collect();
                    group.pending.retain(|id, _| !ids.contains(id));
                }
                Reply::Int(count)
            }
            "XINFO" => match stream {
                None => Reply::Error("ERR no such key".to_owned()),
                Some(stream) => {
                    let group = stream.group.iter().map(|group| {
                        let lag = stream.entries.range(group.last..).count();
                        let known = stream.entries.contains_key(&group.last);
                        Reply::Array(vec![
                            Reply::text("name"),
                            Reply::text(GROUP),
                            Reply::text("pending"),
                            Reply::Int(group.pending.len() as i64),
                            Reply::text("lag"),
                            Reply::Int(lag as i64 - i64::from(known)),
                        ])
                    });
                    Reply::Array(group.collect())
                }
            },
            "XREAD" => {
                let newest = stream.as_ref().map_or((0, 0), |stream| stream.last);
                let behind = match &command[7][..] {
                    b"$" => newest,
                    text => id(text, 0),
                };
                self.blocked.push(Blocked {
                    conn,
                    behind,
                    until_ms: around.now_ms() + number(command.get(4)),
                });
                return None;
            }
            _ => panic!("the played Redis has no {name}"),
        })
    }
}

impl Source for Redis {
    fn options(&self) -> SourceOptions {
        let options = RedisFeedOptions::new("redis://10.0.0.1:6379", "feed", STREAM, GROUP);
        SourceOptions::Redis(options.expect("an address"))
    }

    fn heard(&mut self, conn: usize, input: &mut Vec<u8>, around: &mut Around<'_>) {
        while let Some(command) = take_command(input) {
            if let Some(reply) = self.carry_out(conn, &command, around) {
                let mut out = Vec::new();
                reply.write(&mut out);
                around.owe(conn, &out);
            }
        }
    }

    fn left(&mut self, conn: usize, _: &mut Around<'_>) {
        self.blocked.retain(|blocked| blocked.conn != conn);
    }

    fn works(&mut self, around: &mut Around<'_>) -> bool {
        let now_ms = around.now_ms();
        let before = self.blocked.len();
        let shared = self.shared.borrow();
        self.blocked.retain(|blocked| {
            let stream = shared.data.stream.iter();
            let mut newer = stream.flat_map(|it| it.entries.keys());
            let newer = newer.find(|id| **id > blocked.behind);
            let reply = match newer {
                None if now_ms < blocked.until_ms => return true,
                None => Reply::Nil,
                // What it says is not looked at.
                Some(id) => Reply::Array(vec![shown(*id)]),
            };
            let mut out = Vec::new();
            reply.write(&mut out);
            around.owe(blocked.conn, &out);
            false
        });
        self.blocked.len() < before
    }

    fn add(&mut self, event: usize, around: &mut Around<'_>) {
        let shared = &mut *self.shared.borrow_mut();
        let mut fields = vec![b"channel".to_vec(), around.witness.channel(event).into()];
        fields.extend([b"other".to_vec(), b"x".to_vec()]);
        if let Some(data) = around.witness.data(event) {
            fields.extend([b"data".to_vec(), data]);
        }
        shared.fields.resize(event + 1, Vec::new());
        shared.fields[event] = fields;
        let stream = shared.data.stream.get_or_insert_default();
        let new = (around.now_ms(), 0);
        stream.last = new.max((stream.last.0, stream.last.1 + 1));
        stream.entries.insert(stream.last, event);
    }

    fn copy(&mut self) {
        self.copies.add(&self.shared.borrow().data);
    }

    fn started(&mut self, _: usize, kept: Kept, around: &mut Around<'_>) {
        let data = &mut self.shared.borrow_mut().data;
        let before = events(data);
        self.copies.restore(kept, data, around.net);
        around.witness.restored(before, &events(data));
    }

    fn trouble(&mut self, around: &mut Around<'_>) {
        let mut shared = self.shared.borrow_mut();
        match around.net.below(4) {
            0 => {
                let most = around.net.below(30);
                if let Some(stream) = &mut shared.data.stream {
                    note!(around.net, "Redis keeps {most} entries");
                    while stream.entries.len() > most {
                        let oldest = stream.entries.pop_first().expect("one of them");
                        around.witness.lost(oldest.1);
                    }
                }
            }
            1 => {
                note!(around.net, "another has the lease");
                let until = around.now_ms() + around.net.between(100, 4_000) as u64;
                shared.data.lease = Some((b"another".to_vec(), until));
            }
            _ => {
                let memory = "OOM command not allowed when used memory > 'maxmemory'.";
                let refuses = [None, None, Some(memory), Some(REPLICAS)];
                shared.refuses = around.net.pick(&refuses);
                shared.refuses_next = shared.refuses.is_none();
                let refuses = shared.refuses;
                note!(around.net, "Redis refuses: {refuses:?}");
            }
        }
    }

    fn calm(&mut self) {
        let shared = &mut *self.shared.borrow_mut();
        (shared.refuses, shared.refuses_next) = (None, false);
    }

    fn owes(&self) -> Option<String> {
        let shared = self.shared.borrow();
        let stream = shared.data.stream.as_ref()?;
        let group = stream.group.clone().unwrap_or_default();
        let unread = { stream.entries.keys() }.filter(|id| **id > group.last);
        let (unread, pending) = (unread.count(), group.pending.len());
        (unread + pending > 0).then(|| format!("{unread} are unread, {pending} pending"))
    }
}
