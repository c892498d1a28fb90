//! Stands between a client and a server, and cuts the line when the test asks for it.

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// Forwards connections as long as it is open.
pub(crate) struct Proxy {
    pub(crate) url: String,
    state: Arc<Mutex<State>>,
}

struct State {
    open: bool,
    links: Vec<TcpStream>,
}

impl Proxy {
    /// In front of `http://HOST:PORT`.
    pub(crate) fn new(server: &str) -> Self {
        let server = server.trim_start_matches("http://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let links = Vec::new();
        let state = Arc::new(Mutex::new(State { open: true, links }));
        let shared = state.clone();
        thread::spawn(move || {
            for client in listener.incoming() {
                let Ok(client) = client else { return };
                let mut state = shared.lock().unwrap();
                if state.open {
                    let server = TcpStream::connect(&server).unwrap();
                    state
                        .links
                        .extend([client.try_clone().unwrap(), server.try_clone().unwrap()]);
                    forward(client.try_clone().unwrap(), server.try_clone().unwrap());
                    forward(server, client);
                }
            }
        });
        Self { url, state }
    }

    /// Ends all connections, and takes no new ones.
    pub(crate) fn cut(&self) {
        let mut state = self.state.lock().unwrap();
        state.open = false;
        for link in state.links.drain(..) {
            // The other side may have closed it already.
            let _ = link.shutdown(Shutdown::Both);
        }
    }

    /// Takes connections again after a break.
    pub(crate) fn mend(&self) {
        self.state.lock().unwrap().open = true;
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream) {
    thread::spawn(move || {
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
}
