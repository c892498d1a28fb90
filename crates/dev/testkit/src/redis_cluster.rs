//! A Redis Cluster of a test's own.

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
    pub fn into_servers(self) -> Vec<RedisServer> {
        self.servers
    }
}
