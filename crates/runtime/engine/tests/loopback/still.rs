//! Still turns, in which nothing comes from outside, and what follows them.

use std::io::Read as _;
use std::net::TcpStream;

use throng_engine::{Accepted, App, Closed, ConnLimits, Conns, Effects, ShardOptions};
use throng_types::{ConnId, Now, ShardId};

use crate::support::{accepted, listener};

/// Counts what it accepts.
struct Door(u32);

impl App for Door {
    type Session = ();
    type Mail = ();

    fn accept(&mut self, _: u8, _: std::net::SocketAddr, _: Now) -> Option<Accepted<()>> {
        self.0 += 1;
        Some(accepted(()))
    }

    fn bytes(&mut self, _: ConnId, (): &mut (), _: &mut [u8], _: &mut Effects<'_>) {}

    fn timeout(&mut self, _: ConnId, (): &mut (), _: &mut Effects<'_>) {}

    fn closed(&mut self, _: ConnId, (): (), _: u32, _: Closed, _: Now) {}

    fn mail(&mut self, _: Option<usize>, (): (), _: &mut Conns<()>, _: Now) {}

    fn take_mail(&mut self, _: usize) -> Option<()> {
        None
    }

    fn turn(&mut self, _: &mut Conns<()>, _: Now) -> bool {
        false
    }
}

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
        let mut running = builder.with(Door(0)).start();
        let mut client = TcpStream::connect(address).unwrap();
        // It has come, and is remembered.
        while running.still_turn().unwrap() {}
        assert_eq!(running.app().0, 0);
        let (_, conns) = running.parts_mut();
        if closes {
            conns.stop_listening(0);
        }
        running.resume();
        running.turn().unwrap();
        assert_eq!(running.app().0, u32::from(!closes));
        if closes {
            // With nobody else at the port the kernel refuses it.
            assert!(client.read(&mut [0]).is_err());
        }
    }
}
