//! The suite of brokers for peers: shards are spread over up to three nodes, each with a peer of
//! its own, on one real server, or on several that share the channels and a peer for each.
//!
//! Never: starts a server; the test of a broker does. Time passes faster than on the server's
//! clock: nodes are given the time.

mod nodes;

pub use nodes::{On, nodes};
/// Everything else that a test of a broker needs.
pub use throng_broker_suite::{Cluster, Setup, tests};
