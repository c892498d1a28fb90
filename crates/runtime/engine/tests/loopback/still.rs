//! Still turns, in which nothing comes from outside, and what follows them.

use std::io::Read as _;
use std::net::TcpStream;

use throng_engine::{ConnLimits, ShardOptions};
use throng_types::ShardId;

use crate::support::{Manner, Probe, listener};

/// Another process has the same listener by then, and such a connection is for that one.
#[test]
fn a_listener_that_is_closed_while_still_accepts_nothing_more() {
    for closes in [false, true] {
        let (fd, address) = listener();
        let options = ShardOptions {
            shard: ShardId(0),
            listeners: vec![fd],
            limits: ConnLimits::default(),
            started: std::time::Instant::now(),
        };
        let (builders, _mailboxes) = throng_engine::builders(vec![options]).unwrap();
        let builder = builders.into_iter().next().unwrap();
        let mut running = builder.with(Probe::new(Manner::Echo, 1).0).start();
        let mut client = TcpStream::connect(address).unwrap();
        // It has come, and is remembered.
        while running.still_turn().unwrap() {}
        assert_eq!(running.app().came, 0);
        let (_, conns) = running.parts_mut();
        if closes {
            conns.stop_listening(0);
        }
        running.resume();
        running.turn().unwrap();
        assert_eq!(running.app().came, u64::from(!closes));
        if closes {
            // With nobody else at the port the kernel refuses it.
            assert!(client.read(&mut [0]).is_err());
        }
    }
}
