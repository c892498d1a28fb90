//! The options of the broker: where channels live.

use super::{HOUR, SECOND};
use crate::kind::{BrokerUrl, Choice, Count, Duration, Named, Opt, Rule, Text};
use crate::secret::Secret;
use crate::section::section;

/// Server or process that keeps the channels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BrokerKind {
    /// In this process: one node, nothing to install.
    #[default]
    Memory,
    /// In Redis: several nodes.
    Redis,
    /// In NATS JetStream: several nodes.
    Nats,
}

impl Named for BrokerKind {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("memory", Self::Memory),
        ("redis", Self::Redis),
        ("nats", Self::Nats),
    ];
}

section! {
    /// The broker keeps channels: their history, positions and members. With Redis or NATS several
    /// nodes serve the same channels; see docs/CLUSTER.md.
    "broker" Broker {
        /// `memory` for one node, `redis` or `nats` for several. All nodes of a cluster need the
        /// same channel options.
        "kind" kind: BrokerKind, Choice<BrokerKind>, BrokerKind::Memory, Rule::ANY.restart();
        /// The Redis server, version 6.2 or later: `redis://user:password@host:port/db`, or
        /// `rediss://` for TLS. `redis+sentinel://user:password@sentinel:port,sentinel:port/master`
        /// is the server that the Sentinels name (`rediss+sentinel://` if all of them speak TLS).
        /// `redis+cluster://user:password@host:port,host:port` is a Redis Cluster, version 7 or
        /// later (`rediss+cluster://` for TLS). With several of these, each holds a part of the
        /// channels; list them in the same order on all nodes. Or the NATS servers, version 2.9 or
        /// later with JetStream: `nats://user:password@host:port` or `nats://token@host:port`,
        /// several separated by commas; `tls://` requires TLS.
        "url" url: Option<Secret>, Opt<BrokerUrl>, None,
            Rule::ANY.restart().secret().example("\"redis://127.0.0.1:6379/0\"")
                .unset("needed for `redis` and `nats`");
        /// The PEM file with the certificate authorities that Throng trusts when it speaks TLS to
        /// the broker. It is read for each connection.
        "authorities" authorities: Option<String>, Opt<Text>, None,
            Rule::ANY.restart().example("\"/etc/throng/broker-ca.pem\"")
                .unset("the certificate authorities of the system");
        /// The login to NATS: a credentials file as `nsc` writes it, or a file with the seed of a
        /// user. It is read for each connection.
        "credentials" credentials: Option<String>, Opt<Text>, None,
            Rule::ANY.restart().example("\"/etc/throng/nats.creds\"");
        /// The number of servers of a NATS cluster that keep each message. With three, the loss of
        /// one server loses no message.
        "replicas" replicas: u32, Count, 1, Rule::ANY.restart().range(1, 5);
        /// The first part of every name in Redis or NATS. Nodes with the same prefix form one
        /// cluster.
        "prefix" prefix: String, Text, "throng".to_owned(), Rule::ANY.restart();
        /// Time limit for the broker's answer. After that Throng gives up the connection: it
        /// refuses publications and keeps subscribers. A client that subscribes meanwhile waits at
        /// most this long.
        "timeout" timeout_ms: u64, Duration, 5 * SECOND,
            Rule::ANY.restart().range(200, 60 * SECOND);
        /// Time that the broker remembers the position of a channel without subscribers, from its
        /// last publication on. A client that comes back later is told that it may have missed
        /// something.
        "position_ttl" position_ttl_ms: u64, Duration, 24 * HOUR,
            Rule::ANY.restart().range(HOUR, 24 * 365 * HOUR);
    }
}
