//! A node: the real server with its shards, and the real host of its broker.

use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;

use throng_appwrite_api::Call;
use throng_config::Config;
use throng_engine::ConnLimits;
use throng_outward::{CallSender, Outward};
use throng_peer::Peer;
use throng_remote::{BrokerPeer, Node as RemoteNode, WakePeer};
use throng_server::{Assembly, BrokerHost, Mailbox, Options, ShardApp, Start};

use super::witness::{CHANNELS, TTL_MS};
use crate::backend::Requests;
use crate::net::Net;
use crate::setup::{self, API_KEY};
use crate::stage::Stage;

/// Shards of any kind on the stage.
trait Turns {
    fn turn_all(&mut self) -> bool;
}

impl<P: Peer> Turns for Stage<Outward<P>> {
    fn turn_all(&mut self) -> bool {
        Self::turn_all(self)
    }
}

/// One node of the cluster: a process.
pub(super) struct Node {
    pub(super) assembly: Assembly,
    pub(super) stage: Stage<ShardApp>,
    /// Those of its broker, and of Appwrite's peer.
    hosts: Vec<Box<dyn Turns>>,
    /// Calls of Appwrite's peer.
    appwrite: Option<CallSender<Call>>,
    pub(super) requests: Requests,
    made_of: MadeOf,
    /// The kernels of its shards and of its hosts.
    kernels: Range<usize>,
    /// Its shards hand over, or are about to begin: they take no turns by themselves.
    pub(super) is_still: bool,
    /// Has taken over from another process.
    pub(super) is_successor: bool,
    /// Number of the step until which nothing of it takes a turn.
    pub(super) sleeps_until: u64,
    /// Does not reach the broker.
    pub(super) is_cut_off: bool,
}

/// Parts from which a process is built.
#[derive(Clone)]
pub(super) struct MadeOf {
    pub(super) shards: usize,
    pub(super) start: Start,
    pub(super) config: Arc<Config>,
    /// Requests to GRIP's played backend.
    pub(super) requests: Requests,
}

/// Hosts peers on the stage.
struct Hosts<'a> {
    net: &'a Net,
    hosts: Vec<Box<dyn Turns>>,
}

impl BrokerHost for Hosts<'_> {
    fn host<N: RemoteNode>(&mut self, node: N) -> Result<WakePeer, String> {
        let deliver = Box::new(|reply| match reply {});
        let (stage, calls) = Stage::serve(self.net, BrokerPeer::new(node), deliver);
        self.hosts.push(Box::new(stage));
        Ok(Arc::new(move || {
            calls.send(());
        }))
    }
}

impl Node {
    /// A process; a successor gets its ports later.
    pub(super) fn new(made_of: MadeOf, is_successor: bool, net: &Net) -> Self {
        let first = net.0.borrow().shards.len();
        let options = Options {
            config: made_of.config.clone(),
            version: "sim",
            capacity: None,
            memory_bytes: None,
            ask_reload: None,
        };
        let shards = made_of.shards;
        let assembly = Assembly::new(&options, shards, made_of.start);
        let assembly = assembly.expect("a good configuration");
        let mut hosts = Hosts {
            net,
            hosts: Vec::new(),
        };
        let (requests, mut appwrite) = (made_of.requests.beside(), None);
        let limits = ConnLimits {
            queue_bytes_max: 200_000,
            queued_bytes_max: usize::MAX,
            unread_above_bytes: 256 << 10,
            spare_descriptors: 2,
            handshake_timeout_ms: 10_000,
        };
        let listeners = assembly.listeners();
        let mut parts = None;
        let app = |shard, mailboxes: &[Mailbox]| {
            let parts = parts.get_or_insert_with(|| {
                let started = assembly.start_appwrite(mailboxes, |peer, deliver| {
                    let (stage, calls) = Stage::serve(net, peer, deliver);
                    hosts.hosts.push(Box::new(stage));
                    appwrite = Some(calls.clone());
                    calls.into()
                });
                started.expect("addresses that are good");
                let parts = assembly.start_broker(mailboxes, &mut hosts);
                parts.expect("a broker that is good").into_iter()
            });
            let part = parts.next().flatten();
            assembly.app(shard, mailboxes, Box::new(requests.clone()), part)
        };
        let stage = match is_successor {
            true => Stage::new(net, shards, listeners, limits, app),
            false => Stage::beside(net, shards, listeners, limits, app),
        };
        Self {
            stage,
            hosts: hosts.hosts,
            appwrite,
            requests,
            assembly,
            made_of,
            kernels: first..net.0.borrow().shards.len(),
            is_still: is_successor,
            is_successor,
            sleeps_until: 0,
            is_cut_off: false,
        }
    }

    /// The process that takes over from it.
    pub(super) fn successor(&self, net: &Net) -> Self {
        Self::new(self.made_of.clone(), true, net)
    }

    /// The process that is started after it was killed.
    pub(super) fn anew(&self, net: &Net) -> Self {
        let mut made_of = self.made_of.clone();
        made_of.start.seed = net.next();
        Self::new(made_of, false, net)
    }

    /// The kernels of its shards and of its hosts.
    pub(super) fn kernels(&self) -> Range<usize> {
        self.kernels.clone()
    }

    /// Whether a connection that was made outward is one of its own.
    pub(super) fn has(&self, conn: usize, net: &Net) -> bool {
        let watched = net.0.borrow().conns[conn].watched;
        watched.is_some_and(|(kernel, ..)| self.kernels.contains(&kernel))
    }

    /// Has Appwrite's peer do something.
    pub(super) fn call_appwrite(&self, call: Call) {
        if let Some(appwrite) = &self.appwrite {
            assert!(appwrite.send(call), "a peer has ended");
        }
    }

    /// A turn of one shard, or of a host.
    pub(super) fn turn(&mut self, net: &Net) {
        let all = self.stage.len() + self.hosts.len();
        match net.below(all) {
            at if at < self.stage.len() => {
                if !self.is_still && self.stage.is_awake(at) {
                    self.stage.turn(at);
                }
            }
            at => drop(self.hosts[at - self.stage.len()].turn_all()),
        }
    }

    pub(super) fn turn_all(&mut self) -> bool {
        let mut busy = !self.is_still && self.stage.turn_all();
        for host in &mut self.hosts {
            busy |= host.turn_all();
        }
        busy
    }
}

/// The configuration of every node, given the table of its broker and that of Appwrite.
pub(super) fn config(broker: &str, appwrite: &str) -> Config {
    let mut text = format!(
        "[listen]\nclient = [\"127.0.0.1:1\"]\napi = \"127.0.0.1:2\"\n\
         [auth]\nanonymous = true\napi_keys = [{API_KEY:?}]\nallowed_hosts = [\"sim\"]\n\
         [limits]\nmessages_per_second_max = 0\n\
         [broker]\n{broker}{appwrite}\
         [grip]\nhttp_publish = \"127.0.0.1:3\"\n\
         [[grip.route]]\npath = \"/grip\"\norigin = [\"http://backend.test\"]\n",
    );
    text.push_str("[[namespace]]\nname = \"here\"\nanonymous_subscribe = true\npresence = true\n");
    for channel in CHANNELS {
        let Some((name, _)) = channel.name.split_once(':') else {
            continue;
        };
        if text.contains(&format!("name = \"{name}\"")) {
            continue;
        }
        let _ = write!(
            text,
            "[[namespace]]\nname = \"{name}\"\nanonymous_subscribe = true\n"
        );
        if channel.history > 0 {
            let size = channel.history;
            let _ = write!(
                text,
                "history_size = {size}\nhistory_ttl = \"{TTL_MS}ms\"\nrecovery = true\n"
            );
        }
    }
    setup::load(text)
}
