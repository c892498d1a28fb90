//! The suite of brokers for drivers: shards are spread over up to three nodes, each with a driver
//! of its own, on one real server, or on several that share the channels and a driver for each.
//!
//! Never: starts a server; the test of a driver does. Time passes faster than on the server's
//! clock: drivers are told what it is.

mod nodes;

pub use nodes::{On, nodes};
/// What a test of a driver needs besides.
pub use throng_broker_suite::{Cluster, Setup, tests};
