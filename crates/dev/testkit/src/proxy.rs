//! A network between a client and a server, which a test can cut, make slow, lose words on, or let
//! a server's words be changed on.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use throng_types::lock;

/// Bytes that a slow network passes at once, and the time between two such pieces.
const SLOW: (usize, Duration) = (256, Duration::from_millis(20));

/// Forwards TCP connections as long as it is whole.
pub struct Proxy {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

struct State {
    server: SocketAddr,
    whole: bool,
    is_slow: bool,
    ends: bool,
    links: Vec<TcpStream>,
    taken: usize,
    /// Writes of a client that contain this text are lost, so many more times.
    loses: (String, usize),
    /// Writes of a client that contain this text are held back; `true` once one is.
    holds: (String, bool),
    /// Edits the bytes that a server sends.
    edit: Option<Edit>,
}

/// Is given what a server has written at once.
type Edit = Box<dyn FnMut(&mut [u8]) + Send>;

impl Proxy {
    /// In front of a server.
    pub fn new(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("the port's address");
        let state = State {
            server,
            whole: true,
            is_slow: false,
            ends: false,
            links: Vec::new(),
            taken: 0,
            loses: (String::new(), 0),
            holds: (String::new(), false),
            edit: None,
        };
        let state = Arc::new(Mutex::new(state));
        let shared = state.clone();
        thread::spawn(move || {
            for client in listener.incoming() {
                let mut state = lock(&shared);
                if state.ends {
                    return;
                }
                if let Ok(client) = client {
                    state.taken += 1;
                    // A connection that comes while the network is cut is closed at once.
                    if state.whole {
                        let _ = state.link(&client, &shared);
                    }
                }
            }
        });
        Self { address, state }
    }

    /// Address for clients to connect to.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Cuts all connections, and takes no new ones.
    pub fn cut(&self) {
        let mut state = lock(&self.state);
        state.whole = false;
        for link in state.links.drain(..) {
            // One of the sides may have gone already.
            let _ = link.shutdown(Shutdown::Both);
        }
    }

    /// Accepts connections again after a cut.
    pub fn mend(&self) {
        lock(&self.state).whole = true;
    }

    /// Lets some 12 kB a second through in each direction, or everything again.
    pub fn slow(&self, is_slow: bool) {
        lock(&self.state).is_slow = is_slow;
    }

    /// Loses the next `times` writes of clients that have this in them.
    pub fn lose(&self, word: &str, times: usize) {
        lock(&self.state).loses = (word.to_owned(), times);
    }

    /// Keeps back the next write of a client that has this in it, and all that comes behind it on
    /// its connection, also when the client has gone.
    pub fn hold(&self, word: &str) {
        lock(&self.state).holds = (word.to_owned(), false);
    }

    /// Whether something is kept back.
    pub fn is_holding(&self) -> bool {
        lock(&self.state).holds.1
    }

    /// Lets through what is kept back.
    pub fn release(&self) {
        lock(&self.state).holds = (String::new(), false);
    }

    /// Edits the bytes that servers send from now on.
    pub fn edit(&self, edit: impl FnMut(&mut [u8]) + Send + 'static) {
        lock(&self.state).edit = Some(Box::new(edit));
    }

    /// Number of writes still to be lost.
    pub fn to_lose(&self) -> usize {
        lock(&self.state).loses.1
    }

    /// Leads new connections to another server.
    pub fn lead_to(&self, server: SocketAddr) {
        lock(&self.state).server = server;
    }

    /// Number of connections accepted so far, including those made during a cut.
    pub fn connections(&self) -> usize {
        lock(&self.state).taken
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.cut();
        lock(&self.state).ends = true;
        // Wakes the thread that accepts, so that it sees that it is over.
        let _ = TcpStream::connect(self.address);
    }
}

impl State {
    fn link(&mut self, client: &TcpStream, shared: &Arc<Mutex<Self>>) -> io::Result<()> {
        let server = TcpStream::connect(self.server)?;
        for stream in [client, &server] {
            stream.set_nodelay(true)?;
            self.links.push(stream.try_clone()?);
        }
        forward(
            client.try_clone()?,
            server.try_clone()?,
            shared.clone(),
            true,
        );
        forward(server, client.try_clone()?, shared.clone(), false);
        Ok(())
    }

    fn loses(&mut self, bytes: &[u8]) -> bool {
        let (word, times) = &mut self.loses;
        let is_lost =
            *times > 0 && { bytes.windows(word.len()) }.any(|window| window == word.as_bytes());
        *times -= usize::from(is_lost);
        is_lost
    }

    fn holds(&mut self, bytes: &[u8]) -> bool {
        let (word, is_held) = &mut self.holds;
        let is_it = |window: &[u8]| window == word.as_bytes();
        let holds = !word.is_empty() && bytes.windows(word.len()).any(is_it);
        *is_held |= holds;
        holds
    }
}

/// Copies one direction until it ends, without what is to be lost; then closes the other side.
fn forward(mut from: TcpStream, mut to: TcpStream, shared: Arc<Mutex<State>>, is_clients: bool) {
    thread::spawn(move || {
        let mut bytes = vec![0; 16 * 1024];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            let bytes = &mut bytes[..count];
            if is_clients && lock(&shared).loses(bytes) {
                continue;
            }
            while is_clients && lock(&shared).holds(bytes) {
                thread::sleep(SLOW.1);
            }
            if !is_clients && let Some(edit) = &mut lock(&shared).edit {
                edit(bytes);
            }
            if pass(bytes, &mut to, &shared).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
    });
}

fn pass(mut bytes: &[u8], to: &mut TcpStream, shared: &Mutex<State>) -> io::Result<()> {
    let (piece, pause) = SLOW;
    while lock(shared).is_slow && !bytes.is_empty() {
        let (now, later) = bytes.split_at(bytes.len().min(piece));
        thread::sleep(pause);
        to.write_all(now)?;
        bytes = later;
    }
    to.write_all(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_ends_connections_until_it_is_mended() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Proxy::new(server.local_addr().unwrap());
        let mut client = TcpStream::connect(proxy.address()).unwrap();
        let (mut other, _) = server.accept().unwrap();
        let mut two = [0; 2];
        client.write_all(b"hi").unwrap();
        other.read_exact(&mut two).unwrap();
        other.write_all(b"ho").unwrap();
        client.read_exact(&mut two).unwrap();
        assert_eq!(&two, b"ho");
        proxy.cut();
        assert!(matches!(client.read(&mut two), Ok(0) | Err(_)));
        assert!(matches!(other.read(&mut two), Ok(0) | Err(_)));
        let mut refused = TcpStream::connect(proxy.address()).unwrap();
        assert!(matches!(refused.read(&mut two), Ok(0) | Err(_)));
        proxy.mend();
        let mut client = TcpStream::connect(proxy.address()).unwrap();
        let (mut other, _) = server.accept().unwrap();
        client.write_all(b"hi").unwrap();
        other.read_exact(&mut two).unwrap();
        assert_eq!((&two, proxy.connections()), (b"hi", 3));
    }
}
