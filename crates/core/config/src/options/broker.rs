//! The options of the broker, where channels live, and of the history on disk.

use super::{HOUR, SECOND};
use crate::kind::{BrokerUrl, Choice, Count, Duration, Opt, Text, choice};
use crate::secret::Secret;
use crate::section::section;

choice! {
    /// Server or process that keeps the channels.
    BrokerKind {
        /// In this process: one node, nothing to install.
        #[default]
        Memory = "memory",
        /// In Redis: several nodes.
        Redis = "redis",
        /// In NATS JetStream: several nodes.
        Nats = "nats",
    }
}

section! {
    /// The broker keeps channels: their history, positions and members. With Redis or NATS several
    /// nodes serve the same channels; see docs/CLUSTER.md.
    "broker" Broker {
        /// `memory` for one node, `redis` or `nats` for several. All nodes of a cluster need the
        /// same channel options.
        kind: BrokerKind, Choice<BrokerKind>, restart;
        /// The Redis server, version 6.2 or later: `redis://user:password@host:port/db`, or
        /// `rediss://` for TLS. `redis+sentinel://user:password@sentinel:port,sentinel:port/master`
        /// is the server that the Sentinels name (`rediss+sentinel://` if all of them speak TLS).
        /// `redis+cluster://user:password@host:port,host:port` is a Redis Cluster, version 7 or
        /// later (`rediss+cluster://` for TLS). With several of these, each holds a part of the
        /// channels; list them in the same order on all nodes. Or the NATS servers, version 2.9 or
        /// later with JetStream: `nats://user:password@host:port` or `nats://token@host:port`,
        /// several separated by commas; `tls://` requires TLS.
        url: Option<Secret>, Opt<BrokerUrl>, restart, secret,
            example("\"redis://127.0.0.1:6379/0\""), unset("needed for `redis` and `nats`");
        /// The PEM file with the certificate authorities that Throng trusts when it speaks TLS to
        /// the broker. It is read for each connection.
        authorities: Option<String>, Opt<Text>, restart, example("\"/etc/throng/broker-ca.pem\""),
            unset("the certificate authorities of the system");
        /// The login to NATS: a credentials file as `nsc` writes it, or a file with the seed of a
        /// user. It is read for each connection.
        credentials: Option<String>, Opt<Text>, restart, example("\"/etc/throng/nats.creds\"");
        /// The number of servers of a NATS cluster that keep each message. With three, the loss of
        /// one server loses no message.
        replicas: u32, Count = 1, restart, range(1, 5);
        /// The first part of every name in Redis or NATS. Nodes with the same prefix form one
        /// cluster.
        prefix: String, Text = "throng".to_owned(), restart;
        /// Time limit for the broker's answer. After that Throng gives up the connection: it
        /// refuses publications and keeps subscribers. A client that subscribes meanwhile waits at
        /// most this long.
        timeout_ms as "timeout": u64, Duration = 5 * SECOND, restart, range(200, 60 * SECOND);
        /// Time that the broker remembers the position of a channel without subscribers, from its
        /// last publication on. A client that comes back later is told that it may have missed
        /// something.
        position_ttl_ms as "position_ttl": u64, Duration = 24 * HOUR, restart,
            range(HOUR, 24 * 365 * HOUR);
    }
}

choice! {
    /// Rule for publications while they cannot be written.
    OnDiskFailure {
        /// Delivers them and keeps them in memory.
        #[default]
        Continue = "continue",
        /// Refuses them until they can be written.
        Refuse = "refuse",
    }
}

choice! {
    /// Storage that a publication must have reached before it is acknowledged.
    Acknowledge {
        /// Kept in memory only; a crash may lose it.
        #[default]
        Memory = "memory",
        /// Written: survives the process.
        Written = "written",
        /// Synced: survives a loss of power.
        Synced = "synced",
    }
}

section! {
    /// History on disk: channels keep their publications, positions and epochs over a crash and a
    /// restart. The channels' options limit it by number and time, as they do in memory. Only for
    /// `broker.kind = "memory"`. See docs/guides/history.md.
    "history" History {
        /// The folder for this server's history. No other server may use it. Throng creates it if
        /// it is missing.
        path: Option<String>, Opt<Text>, file, restart, example("\"/var/lib/throng/history\""),
            unset("history ends with the process");
        /// Maximum time until a publication is safe on the disk, in case the machine loses power.
        /// If only the process dies, at most some milliseconds are lost, with any value. "0s" syncs
        /// after each write.
        sync_ms as "sync": u64, Duration = 1000, restart, range(1, HOUR), zero("each write");
        /// The stage at which a publication in a channel that keeps history is acknowledged:
        /// `memory` at once, `written` when it survives the death of the process, `synced` when it
        /// survives that of the machine. Subscribers get it at once in any case. A channel may set
        /// another stage.
        acknowledge: Acknowledge, Choice<Acknowledge>;
        /// Rule while the disk is full or fails: `continue` delivers publications, keeps them in
        /// memory, and acknowledges them at every stage of `acknowledge`; `refuse` refuses
        /// publications to channels that keep history.
        on_failure: OnDiskFailure, Choice<OnDiskFailure>, restart;
    }
}
