//! Running figures for other people's graphs: statsd lines and the Prometheus text format.
//!
//! Owns: names and encoding. Never: a socket.

mod prometheus;
mod statsd;

pub use prometheus::{Live, write_prometheus};
pub use statsd::{Interval, datagrams, write_statsd, write_statsd_zeros};
