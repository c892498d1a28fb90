//! A Redis Cluster of a test's own, whose slots can be moved and whose servers can go away.

use crate::free_port;
use crate::{RedisServer, until};

/// Slots of a cluster, by its specification.
const SLOTS: usize = 16_384;
/// Primaries, which share the slots.
const PRIMARIES: usize = 3;

/// Three primaries, and a replica of each if wanted. They keep nothing over their end.
pub struct RedisCluster {
    servers: Vec<RedisServer>,
}

impl RedisCluster {
    /// Starts a cluster without replicas.
    #[track_caller]
    pub fn start() -> Self {
        Self::with(PRIMARIES)
    }

    /// Each primary has a replica, which takes over when it has been away for a second.
    #[track_caller]
    pub fn with_replicas() -> Self {
        let cluster = Self::with(2 * PRIMARIES);
        let (primaries, replicas) = cluster.servers.split_at(PRIMARIES);
        for (primary, replica) in primaries.iter().zip(replicas) {
            let id = primary.ask("CLUSTER MYID");
            replica.ask(&format!("CLUSTER REPLICATE {id}"));
        }
        for replica in replicas {
            until("a replica that follows", || {
                let info = replica.try_ask("INFO replication");
                info.is_ok_and(|info| info.contains("master_link_status:up"))
            });
        }
        cluster
    }

    #[track_caller]
    fn with(count: usize) -> Self {
        let started = (0..count).map(|_| {
            // Port for the traffic between servers.
            let bus = free_port().to_string();
            let options = "--appendonly no --repl-diskless-sync-delay 0 --cluster-enabled yes \
                           --cluster-node-timeout 1000 --cluster-replica-validity-factor 0";
            let options = ["--save", "", "--cluster-port", &bus]
                .into_iter()
                .chain(options.split(' '));
            let server = RedisServer::with(&options.collect::<Vec<_>>());
            (server, bus)
        });
        let (servers, buses): (Vec<_>, Vec<_>) = started.unzip();
        let cluster = Self { servers };
        for (at, server) in cluster.servers.iter().enumerate() {
            server.ask(&format!("CLUSTER SET-CONFIG-EPOCH {}", at + 1));
            if at < PRIMARIES {
                let (from, to) = (at * SLOTS / PRIMARIES, (at + 1) * SLOTS / PRIMARIES - 1);
                server.ask(&format!("CLUSTER ADDSLOTSRANGE {from} {to}"));
            }
        }
        for (server, bus) in cluster.servers.iter().zip(&buses).skip(1) {
            let port = server.address().port();
            cluster.servers[0].ask(&format!("CLUSTER MEET 127.0.0.1 {port} {bus}"));
        }
        let known = format!("cluster_known_nodes:{count}\r\n");
        let size = format!("cluster_size:{PRIMARIES}\r\n");
        for server in &cluster.servers {
            until("servers that know each other", || {
                let info = server.ask("CLUSTER INFO");
                let wanted = ["cluster_state:ok\r\n", &known, &size];
                wanted.iter().all(|line| info.contains(line))
            });
        }
        cluster
    }

    /// `redis+cluster://…` with the primaries that it began with.
    pub fn url(&self) -> String {
        let primaries = self.servers[..PRIMARIES].iter();
        let hosts: Vec<String> = primaries.map(|it| it.address().to_string()).collect();
        format!("redis+cluster://{}", hosts.join(","))
    }

    /// The first primaries, and after them their replicas in the same order.
    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }

    /// Kills a server without a graceful end.
    pub fn go_away(&mut self, server: usize) {
        self.servers[server].go_away();
    }

    /// The first primary that has a key of this pattern, and the key.
    #[track_caller]
    pub fn find(&self, pattern: &str) -> (usize, String) {
        let primaries = self.servers[..PRIMARIES].iter().enumerate();
        let mut keys = primaries.map(|(at, it)| (at, it.ask(&format!("KEYS {pattern}"))));
        keys.find(|(_, key)| !key.is_empty()).expect("a key")
    }

    /// Begins to move the slot of a key between two primaries.
    #[track_caller]
    pub fn open(&self, key: &str, from: usize, to: usize) -> Moving<'_> {
        let slot = self.servers[0].ask(&format!("CLUSTER KEYSLOT {key}"));
        let ids = [from, to].map(|at| self.servers[at].ask("CLUSTER MYID"));
        self.servers[to].ask(&format!("CLUSTER SETSLOT {slot} IMPORTING {}", ids[0]));
        self.servers[from].ask(&format!("CLUSTER SETSLOT {slot} MIGRATING {}", ids[1]));
        Moving {
            cluster: self,
            from,
            to,
            slot,
        }
    }
}

/// A slot on its way from one primary to another.
pub struct Moving<'a> {
    cluster: &'a RedisCluster,
    from: usize,
    to: usize,
    slot: String,
}

impl Moving<'_> {
    /// Moves one key; false if there is none any more.
    #[track_caller]
    pub fn step(&self) -> bool {
        let from = &self.cluster.servers[self.from];
        let port = self.cluster.servers[self.to].address().port();
        let key = from.ask(&format!("CLUSTER GETKEYSINSLOT {} 1", self.slot));
        if !key.is_empty() {
            // One that expires meanwhile is not there, which is no error.
            from.ask(&format!("MIGRATE 127.0.0.1 {port} \"{key}\" 0 5000"));
        }
        !key.is_empty()
    }

    /// Moves the rest of the keys; then all servers know the new owner of the slot.
    #[track_caller]
    pub fn close(self) {
        while self.step() {}
        let servers = &self.cluster.servers;
        let id = servers[self.to].ask("CLUSTER MYID");
        let told = format!("CLUSTER SETSLOT {} NODE {id}", self.slot);
        // The new owner comes first, so that the slot has an owner at each moment.
        servers[self.to].ask(&told);
        for (at, server) in servers.iter().enumerate().take(PRIMARIES) {
            if at != self.to {
                server.ask(&told);
            }
        }
    }
}
