//! The options of the broker: where channels live.

use super::{HOUR, SECOND};
use crate::kind::{BrokerUrl, Choice, Count, Duration, Named, Opt, Rule, Text};
use crate::secret::Secret;
use crate::section::section;

/// Where channels live.
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
    /// Where channels live: their history, positions and members. With Redis or NATS several
    /// nodes serve the same channels; see docs/CLUSTER.md.
    "broker" Broker {
        /// `memory` for one node, `redis` or `nats` for several. All nodes of a cluster need the
        /// same options of channels.
        "kind" kind: BrokerKind, Choice<BrokerKind>, BrokerKind::Memory, Rule::ANY.restart();
        /// The Redis server, version 6.2 or later: `redis://user:password@host:port/db`, with
        /// `rediss://` by TLS. `redis+sentinel://user:password@sentinel:port,sentinel:port/master`
        /// is the server that Sentinels name (`rediss+sentinel://` where all speak TLS), and
        /// `redis+cluster://user:password@host:port,host:port` a Redis Cluster, version 7 or later
        /// (`rediss+cluster://`). Several of these, in the same order on all nodes, share the
        /// channels by their names. Or the
        /// NATS servers, version 2.9 or later with JetStream: `nats://user:password@host:port` or
        /// `nats://token@host:port`, several behind commas; `tls://` insists on TLS.
        "url" url: Option<Secret>, Opt<BrokerUrl>, None,
            Rule::ANY.restart().secret().example("\"redis://127.0.0.1:6379/0\"")
                .unset("needed for `redis` and `nats`");
        /// The PEM file with the authorities whose certificates are believed where TLS is spoken to
        /// the broker. It is read for each connection.
        "authorities" authorities: Option<String>, Opt<Text>, None,
            Rule::ANY.restart().example("\"/etc/throng/broker-ca.pem\"")
                .unset("those of this machine");
        /// Who we are in NATS: a credentials file as `nsc` writes it, or a file with the seed of a
        /// user. It is read for each connection.
        "credentials" credentials: Option<String>, Opt<Text>, None,
            Rule::ANY.restart().example("\"/etc/throng/nats.creds\"");
        /// On how many servers of a NATS cluster each message is kept. Three survive the loss of
        /// one of them.
        "replicas" replicas: u32, Count, 1, Rule::ANY.restart().range(1, 5);
        /// Begins every name in Redis or NATS. Nodes with the same one are one cluster.
        "prefix" prefix: String, Text, "throng".to_owned(), Rule::ANY.restart();
        /// How long the broker may take to answer. Then its connection is given up: publications
        /// are refused and subscribers stay. Who subscribes meanwhile waits as long.
        "timeout" timeout_ms: u64, Duration, 5 * SECOND,
            Rule::ANY.restart().range(200, 60 * SECOND);
        /// How long a channel without subscribers remembers its position in the broker after its
        /// last publication. A client that comes back later is told that it may have missed
        /// something.
        "position_ttl" position_ttl_ms: u64, Duration, 24 * HOUR,
            Rule::ANY.restart().range(HOUR, 24 * 365 * HOUR);
    }
}
