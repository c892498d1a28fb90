//! Ports for servers that are given their address in advance.

use std::net::TcpListener;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

/// First port that is given away, above those of installed services.
const FIRST: u32 = 10_000;
/// Number of ports: up to 32,767. The kernel gives out those above to any program that asks for a
/// free port, also between the choice of a port and the start of its server, and while a server is
/// away.
const COUNT: u32 = 22_768;
/// Ports that a test program uses before it reaches those of the next process number.
const EACH: u32 = 64;

/// Chooses a free port of loopback; never the same twice in a test program.
#[track_caller]
pub fn free_port() -> u16 {
    static CHOSEN: AtomicU32 = AtomicU32::new(0);
    let first = process::id().wrapping_mul(EACH);
    for _ in 0..COUNT {
        let next = first.wrapping_add(CHOSEN.fetch_add(1, Ordering::Relaxed));
        let port = u16::try_from(FIRST + next % COUNT).expect("below 32,768");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no free port");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A port stays its server's: neither a second choice nor the kernel gives it to another.
    #[test]
    fn a_port_is_given_away_once() {
        let any = TcpListener::bind("127.0.0.1:0").unwrap();
        let first = free_port();
        assert_ne!(first, free_port());
        assert!(any.local_addr().unwrap().port() > first);
    }
}
