//! A node: the real server with its shards, and the real host of its broker.

use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;

use throng_config::{Config, ConfigFile, Sources};
use throng_engine::ConnLimits;
use throng_outward::{CallSender, Outward};
use throng_remote::{BrokerPeer, Node as RemoteNode, Wake};
use throng_server::{Assembly, BrokerHost, Options, ShardApp, Start};

use super::witness::{CHANNELS, TTL_MS};
use crate::backend::Requests;
use crate::net::Net;
use crate::setup::API_KEY;
use crate::stage::Stage;

/// Shards of any kind on the stage.
trait Turns {
    fn turn_all(&mut self) -> bool;
}

impl<N: RemoteNode> Turns for Stage<Outward<BrokerPeer<N>>> {
    fn turn_all(&mut self) -> bool {
        Self::turn_all(self)
    }
}

/// One node of the cluster.
pub(super) struct Node {
    _assembly: Assembly,
    stage: Stage<ShardApp>,
    brokers: Vec<Box<dyn Turns>>,
}

/// Hosts brokers on the stage.
struct Hosts<'a> {
    net: &'a Net,
    brokers: Vec<Box<dyn Turns>>,
}

impl BrokerHost for Hosts<'_> {
    fn host<N: RemoteNode>(&mut self, node: N) -> Result<Wake, String> {
        let mut node = Some(node);
        let mut sender = None;
        let limits = throng_outward::limits();
        let stage = Stage::beside(self.net, 1, 0, limits, |_, mailboxes| {
            let waker = mailboxes[0].clone();
            let calls = CallSender::new(Arc::new(move || waker.ring()));
            sender = Some(calls.clone());
            let peer = BrokerPeer::new(node.take().expect("one shard"));
            let deliver = Box::new(|reply| match reply {});
            let ask_name = Box::new(|_: &str| Err("addresses need no look-up".to_owned()));
            Outward::new(peer, calls, deliver, ask_name)
        });
        self.brokers.push(Box::new(stage));
        let calls = sender.expect("the app was made");
        Ok(Arc::new(move || {
            calls.send(());
        }))
    }
}

impl Node {
    pub(super) fn new(number: usize, shards: usize, seed: u64, broker: &str, net: &Net) -> Self {
        let options = Options {
            config: Arc::new(config(broker)),
            version: "sim",
            capacity: None,
            memory_bytes: None,
            ask_reload: None,
        };
        let mut secret = [number as u8; 32];
        secret[..8].copy_from_slice(&seed.to_be_bytes());
        let start = Start {
            unix_ms: 0,
            seed: seed ^ (number as u64 + 1) << 40,
            secret,
        };
        let assembly = Assembly::new(&options, shards, start).expect("a good configuration");
        let mut hosts = Hosts {
            net,
            brokers: Vec::new(),
        };
        let limits = ConnLimits {
            queue_bytes_max: 200_000,
            queued_bytes_max: usize::MAX,
            unread_above_bytes: 256 << 10,
            spare_descriptors: 2,
            handshake_timeout_ms: 10_000,
        };
        let listeners = assembly.listeners();
        let mut parts = None;
        let stage = Stage::beside(net, shards, listeners, limits, |shard, mailboxes| {
            let parts = parts.get_or_insert_with(|| {
                let parts = assembly.start_broker(mailboxes, &mut hosts);
                parts.expect("a broker that is good").into_iter()
            });
            let part = parts.next().flatten();
            assembly.app(shard, mailboxes, Box::new(Requests::default()), part)
        });
        Self {
            _assembly: assembly,
            stage,
            brokers: hosts.brokers,
        }
    }

    /// The kernels of its shards.
    pub(super) fn kernels(&self) -> Range<usize> {
        self.stage.kernel(0)..self.stage.kernel(self.stage.len())
    }

    /// A turn of one shard, or of the broker's host.
    pub(super) fn turn(&mut self, net: &Net) {
        let all = self.stage.len() + self.brokers.len();
        match net.below(all) {
            at if at < self.stage.len() => {
                if self.stage.is_awake(at) {
                    self.stage.turn(at);
                }
            }
            at => drop(self.brokers[at - self.stage.len()].turn_all()),
        }
    }

    pub(super) fn turn_all(&mut self) -> bool {
        let mut busy = self.stage.turn_all();
        for broker in &mut self.brokers {
            busy |= broker.turn_all();
        }
        busy
    }
}

fn config(broker: &str) -> Config {
    let mut text = format!(
        "[listen]\nclient = [\"127.0.0.1:1\"]\napi = \"127.0.0.1:2\"\n\
         [auth]\nanonymous = true\napi_keys = [{API_KEY:?}]\nallowed_hosts = [\"sim\"]\n\
         [limits]\nmessages_per_second_max = 0\n\
         [broker]\n{broker}",
    );
    text.push_str("[[namespace]]\nname = \"here\"\nanonymous_subscribe = true\npresence = true\n");
    for channel in CHANNELS {
        let (name, _) = channel.name.split_once(':').expect("a namespace");
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
    let file = ConfigFile {
        name: "sim.toml".to_owned(),
        text,
    };
    let sources = Sources {
        file: Some(file),
        ..Sources::default()
    };
    match Config::load(&sources) {
        Ok(loaded) => loaded.config,
        Err(problems) => panic!("the configuration: {problems:?}"),
    }
}
