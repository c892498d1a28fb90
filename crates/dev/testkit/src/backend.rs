//! Backends of stories: what all of them do, whatever they answer.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;

use throng_types::lock;

use crate::Response;

/// An HTTP server that listens until the test program ends, and remembers requests.
pub struct Backend<T> {
    address: SocketAddr,
    memory: Arc<BackendMemory<T>>,
}

/// Requests so far, and whether answers are held back.
pub struct BackendMemory<T> {
    asked: Mutex<Vec<T>>,
    is_released: Mutex<bool>,
    news: Condvar,
}

impl<T: Send + 'static> Backend<T> {
    /// Starts one. `serve` answers the next request of a connection; false at its end.
    pub fn start<S>(serve: S) -> Self
    where
        S: Fn(&mut BufReader<&TcpStream>, &BackendMemory<T>) -> bool + Send + Sync + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("its address");
        let memory = Arc::new(BackendMemory {
            asked: Mutex::default(),
            is_released: Mutex::default(),
            news: Condvar::new(),
        });
        let shared = (Arc::new(serve), memory.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (serve, memory) = shared.clone();
                thread::spawn(move || {
                    let mut reader = BufReader::new(&stream);
                    while serve(&mut reader, &memory) {}
                });
            }
        });
        Self { address, memory }
    }

    /// Address of the listener.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Requests so far, in their order.
    pub fn asked(&self) -> MutexGuard<'_, Vec<T>> {
        lock(&self.memory.asked)
    }

    /// Lets the answers go on that are held back, now and later.
    pub fn release(&self) {
        *lock(&self.memory.is_released) = true;
        self.memory.news.notify_all();
    }
}

impl<T> BackendMemory<T> {
    /// Remembers a request that came.
    pub fn note(&self, asked: T) {
        lock(&self.asked).push(asked);
    }

    /// Waits until the backend is released.
    pub fn hold(&self) {
        let is_open = lock(&self.is_released);
        drop(self.news.wait_while(is_open, |open| !*open));
    }
}

/// Reads a request: its line, and its fields and body as a response has them. None at the end of
/// the connection.
pub fn next_request(reader: &mut impl BufRead) -> Option<(String, Response)> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        let read = reader.read_line(&mut line).ok()?;
        match line.trim_end() {
            _ if read == 0 => return None,
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let fields = { lines.iter().skip(1) }.filter_map(|line| line.split_once(':'));
    let fields = fields.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()));
    let mut head = Response {
        status: 0,
        headers: fields.collect(),
        body: String::new(),
    };
    let length = { head.header("content-length") }.and_then(|length| length.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    head.body = String::from_utf8_lossy(&body).into_owned();
    Some((lines.swap_remove(0), head))
}
