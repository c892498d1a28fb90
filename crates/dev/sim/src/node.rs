//! A process of the server: the real shards, the real hosts of its peers, and its side of a
//! hand-over.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use throng_appwrite_api::Call;
use throng_config::Config;
use throng_engine::{ConnLimits, Running};
use throng_outward::CallSender;
use throng_remote::{BrokerPeer, Node as RemoteNode, WakePeer};
use throng_server::handover::{Parcel, Unpacking, steps};
use throng_server::{Assembly, BrokerHost, Mailbox, Options, ShardApp, Start};

use crate::backend::Requests;
use crate::disk::Disk;
use crate::kernel::{SimKernel, SimSocket};
use crate::net::Net;
use crate::stage::Stage;

/// Bounds of connections where a run draws none.
pub(crate) const LIMITS: ConnLimits = ConnLimits {
    queue_bytes_max: 200_000,
    spare_descriptors: 2,
    ..ConnLimits::USUAL
};

/// Hosts of a process's peers: each takes a turn, and says whether there was anything to do.
pub(crate) type Hosted = Vec<Box<dyn FnMut() -> bool>>;

/// One node: a process.
pub(crate) struct Node {
    pub(crate) assembly: Assembly,
    pub(crate) stage: Stage<ShardApp>,
    /// Those of its broker, and of Appwrite's peer.
    pub(crate) hosts: Hosted,
    /// Calls of Appwrite's peer.
    appwrite: Option<CallSender<Call>>,
    pub(crate) requests: Requests,
    made_of: MadeOf,
    /// The kernels of its shards and of its hosts.
    kernels: Range<usize>,
    /// Its shards hand over, or are about to begin: they take no turns by themselves.
    pub(crate) is_still: bool,
    /// Has taken over from another process.
    pub(crate) is_successor: bool,
    /// Number of the step until which nothing of it takes a turn.
    pub(crate) sleeps_until: u64,
    /// Does not reach the broker.
    pub(crate) is_cut_off: bool,
}

/// Parts from which a process is built.
#[derive(Clone)]
pub(crate) struct MadeOf {
    pub(crate) shards: usize,
    pub(crate) start: Start,
    pub(crate) limits: ConnLimits,
    pub(crate) config: Arc<Config>,
    /// Requests to GRIP's played backend.
    pub(crate) requests: Requests,
    /// Journal of webhooks, if the process tells them. They begin when the run says so.
    pub(crate) journal: Option<Disk>,
}

/// Hosts peers on the stage.
struct Hosts<'a> {
    net: &'a Net,
    hosts: Hosted,
}

impl BrokerHost for Hosts<'_> {
    fn host<N: RemoteNode>(&mut self, node: N) -> Result<WakePeer, String> {
        let deliver = Box::new(|reply| match reply {});
        let (mut stage, calls) = Stage::serve(self.net, BrokerPeer::new(node), deliver);
        self.hosts.push(Box::new(move || stage.turn_all()));
        Ok(Arc::new(move || {
            calls.send(());
        }))
    }
}

impl Node {
    /// A process; a successor gets its ports later.
    pub(crate) fn new(made_of: MadeOf, is_successor: bool, net: &Net) -> Self {
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
        let mut assembly = assembly.expect("a good configuration");
        let mut hosts = Hosts {
            net,
            hosts: Vec::new(),
        };
        if let Some(disk) = &made_of.journal {
            let kept = (Box::new(disk.clone()) as _, disk.records());
            let unix_ms = net.now().unix_ms;
            let started =
                assembly.start_webhooks(&made_of.config, kept, unix_ms, |peer, deliver| {
                    let (mut stage, calls) = Stage::serve(net, peer, deliver);
                    hosts.hosts.push(Box::new(move || stage.turn_all()));
                    calls.into()
                });
            started.expect("good webhooks");
        }
        let (requests, mut appwrite) = (made_of.requests.beside(), None);
        let (limits, listeners) = (made_of.limits, assembly.listeners());
        let mut parts = None;
        let app = |shard, mailboxes: &[Mailbox]| {
            let parts = parts.get_or_insert_with(|| {
                let started = assembly.start_appwrite(mailboxes, |peer, deliver| {
                    let (mut stage, calls) = Stage::serve(net, peer, deliver);
                    hosts.hosts.push(Box::new(move || stage.turn_all()));
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
        let stage = Stage::made(net, (shards, listeners), limits, None, is_successor, app);
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
    pub(crate) fn successor(&self, net: &Net) -> Self {
        Self::new(self.made_of.clone(), true, net)
    }

    /// The process that is started after it was killed.
    pub(crate) fn anew(&self, net: &Net) -> Self {
        let mut made_of = self.made_of.clone();
        made_of.start.seed = net.next();
        // A process that begins has a name of its own.
        let name = made_of.start.seed.to_be_bytes();
        made_of.start.secret[16..24].copy_from_slice(&name);
        Self::new(made_of, false, net)
    }

    /// Its name, as others know it.
    pub(crate) fn name(&self) -> String {
        let name = &self.made_of.start.secret[16..24];
        name.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The kernels of its shards and of its hosts.
    pub(crate) fn kernels(&self) -> Range<usize> {
        self.kernels.clone()
    }

    /// Whether a connection that was made outward is one of its own.
    pub(crate) fn has(&self, conn: usize, net: &Net) -> bool {
        let conn = net.socket(conn);
        let watched = net.0.borrow().conns[conn].watched;
        watched.is_some_and(|(kernel, ..)| self.kernels.contains(&kernel))
    }

    /// Has Appwrite's peer do something.
    pub(crate) fn call_appwrite(&self, call: Call) {
        if let Some(appwrite) = &self.appwrite {
            assert!(appwrite.send(call), "a peer has ended");
        }
    }

    /// A turn of one shard, or of a host.
    pub(crate) fn turn(&mut self, net: &Net) {
        let all = self.stage.len() + self.hosts.len();
        match net.below(all) {
            at if at < self.stage.len() => {
                if !self.is_still && self.stage.is_awake(at) {
                    self.stage.turn(at);
                }
            }
            at => drop((self.hosts[at - self.stage.len()])()),
        }
    }

    pub(crate) fn turn_all(&mut self) -> bool {
        let busy = !self.is_still && self.stage.turn_all();
        turn_hosts(&mut self.hosts) | busy
    }

    // ---- hand-overs ----

    /// Takes a turn of each shard that is to be still; whether all are at rest. With a cut they
    /// must have come to it, too.
    pub(crate) fn still_turn(&mut self, has_cut: bool) -> bool {
        let turn = |it| steps::still_turn(it).expect("a simulated wait does not fail");
        let is_busy = { self.stage.running_mut() }.fold(false, |busy, it| turn(it) | busy);
        let is_open = |it: &_| steps::is_busy(it) || has_cut && !steps::has_stopped(it);
        !is_busy && !self.stage.running().any(is_open)
    }

    /// Packs all that its shards can give, a parcel each.
    pub(crate) fn pack(&mut self) -> Vec<Parcel<SimKernel>> {
        let running = self.stage.running_mut();
        running.map(|it| Parcel::pack(it, &mut || ())).collect()
    }

    /// Goes on, with what it has packed, if anything; its successor has ended for certain.
    pub(crate) fn go_on(&mut self, parcels: Vec<Parcel<SimKernel>>) {
        let mut parcels = parcels.into_iter();
        for running in self.stage.running_mut() {
            steps::go_on(running, parcels.next());
        }
    }

    /// Leaves everything to a process that has taken it, which stands in its place then; gives
    /// what is left of it.
    pub(crate) fn leave_to(&mut self, mut new: Self, parcels: Vec<Parcel<SimKernel>>) -> Self {
        // Both have the listeners until the old one closes its own.
        new.stage.take_ports(&self.stage);
        new.is_still = false;
        for (running, parcel) in self.stage.running_mut().zip(parcels) {
            self.assembly.leave(running, parcel);
        }
        new.stage.running_mut().for_each(Running::begin);
        std::mem::replace(self, new)
    }
}

/// Gives a shard of a successor what one has packed, as each message comes through; whether it has
/// taken all of it.
pub(crate) fn unpack(
    running: &mut Running<ShardApp, SimKernel>,
    parcel: &Parcel<SimKernel>,
    mut through: impl FnMut(&[u8]) -> io::Result<Vec<u8>>,
) -> bool {
    let (app, conns) = running.parts_mut();
    let mut unpacking = Unpacking::default();
    let sent = parcel.each(|message, sockets| {
        let message = through(message)?;
        let mut sockets = sockets.iter().map(SimSocket::shared);
        let taken = unpacking.take(&message, &mut sockets, app, conns);
        taken.ok_or_else(|| io::ErrorKind::InvalidData.into())
    });
    sent.is_ok() && unpacking.is_whole()
}

/// Takes a turn of each host; whether there was anything to do.
pub(crate) fn turn_hosts(hosts: &mut Hosted) -> bool {
    hosts.iter_mut().fold(false, |busy, turn| turn() | busy)
}
