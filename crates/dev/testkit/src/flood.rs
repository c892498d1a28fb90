//! A server that does not stop talking, whatever it is asked.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::thread::{self, JoinHandle};

/// Bytes that are said at once, and at most.
const CHUNK: usize = 64 << 10;
const ALL: usize = 32 << 20;

/// Server for one client that keeps sending.
pub struct Flood {
    address: SocketAddr,
    said: JoinHandle<usize>,
}

impl Flood {
    /// Sends `first`, and then `again` repeatedly, until the client closes or 32 MiB are sent.
    ///
    /// # Panics
    /// If loopback has no free port.
    #[must_use]
    pub fn start(first: &str, again: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("the port's address");
        let (first, again) = (first.to_owned(), again.repeat(CHUNK / again.len()));
        let said = thread::spawn(move || {
            let (mut client, _) = listener.accept().expect("a client");
            // It has asked for something.
            let _ = client.read(&mut [0; 256]);
            let mut said = 0;
            let mut is_heard = client.write_all(first.as_bytes()).is_ok();
            while is_heard && said < ALL {
                said += again.len();
                is_heard = client.write_all(again.as_bytes()).is_ok();
            }
            said
        });
        Self { address, said }
    }

    /// Address of the listener.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether the client closed before everything was sent. Waits for either.
    ///
    /// # Panics
    /// If no client came.
    #[must_use]
    pub fn was_cut_short(self) -> bool {
        self.said.join().expect("no client") < ALL
    }
}
