//! statsd lines over UDP, while a run goes on.
//!
//! Never: waits, or fails a run: a statsd server that is not there misses its figures.

use std::net::{ToSocketAddrs as _, UdpSocket};

use crate::Snapshot;
use crate::export::{Interval, datagrams, write_statsd, write_statsd_zeros};
use throng_bench_measure::Latency;
use throng_bench_plan::StatsdExport;

/// Sends each row; when it is dropped, every gauge falls to zero.
#[derive(Debug)]
pub struct Statsd {
    socket: UdpSocket,
    export: StatsdExport,
    delivery: Latency,
    connect: Latency,
    window_began_ms: u64,
}

impl Statsd {
    /// Resolves the server's name.
    ///
    /// # Errors
    /// If there is no such host, or no socket.
    pub fn new(export: &StatsdExport) -> std::io::Result<Self> {
        let no_address = || std::io::Error::other("the host has no address");
        let address = (export.host.as_str(), export.port)
            .to_socket_addrs()?
            .next()
            .ok_or_else(no_address)?;
        let any: std::net::SocketAddr = if address.is_ipv4() {
            ([0, 0, 0, 0], 0).into()
        } else {
            (std::net::Ipv6Addr::UNSPECIFIED, 0).into()
        };
        let socket = UdpSocket::bind(any)?;
        socket.connect(address)?;
        Ok(Self {
            socket,
            export: export.clone(),
            delivery: Latency::new(),
            connect: Latency::new(),
            window_began_ms: 0,
        })
    }

    /// Sends a row.
    pub fn on_row(&mut self, snapshot: &Snapshot<'_>) {
        let window_us = self.export.latency_window_us.unwrap_or(u64::MAX);
        let window_ms = snapshot.at_ms.saturating_sub(self.window_began_ms);
        if window_ms.saturating_mul(1000) > window_us {
            self.window_began_ms = snapshot.at_ms;
            self.delivery.clear();
            self.connect.clear();
        }
        self.delivery.merge(snapshot.row_delivery);
        self.connect.merge(snapshot.row_connect);
        let mut lines = String::new();
        let interval = Interval {
            now: snapshot.sample,
            before: snapshot.before,
            delivery: &self.delivery,
            connect: &self.connect,
        };
        write_statsd(&self.export.namespace, &interval, &mut lines);
        self.send(&lines);
    }

    fn send(&self, lines: &str) {
        for datagram in datagrams(lines) {
            // Nobody may be listening, and that is no reason to end a run.
            let _ = self.socket.send(datagram.as_bytes());
        }
    }
}

impl Drop for Statsd {
    fn drop(&mut self) {
        let mut zeros = String::new();
        write_statsd_zeros(&self.export.namespace, &mut zeros);
        self.send(&zeros);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_zeros() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let export = StatsdExport {
            host: "127.0.0.1".into(),
            port: server.local_addr().unwrap().port(),
            namespace: "b".into(),
            latency_window_us: None,
        };
        drop(Statsd::new(&export).unwrap());
        let mut datagram = [0; 2000];
        let length = server.recv(&mut datagram).unwrap();
        let text = str::from_utf8(&datagram[..length]).unwrap();
        assert!(text.contains("b.connections.total:0|g"), "{text}");
    }
}
