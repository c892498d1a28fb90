//! A backend whose every answer the test writes, and the server in front of it.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

use throng_testkit::{Process, Response, Server, Setup, Wire, python_of, request, until};

/// The key of all servers here.
pub(crate) const KEY: &str = "changeme";

/// A request as a backend got it.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// Method and target, separated by a space.
    pub(crate) line: String,
    /// Names in small letters.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// A backend on a port of its own. Each connection serves requests one after the other.
pub(crate) struct Backend {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Backend {
    /// `answer` writes the whole answer; a connection is closed if it returns `false`.
    pub(crate) fn start(
        answer: impl Fn(&Asked, &mut TcpStream) -> bool + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("its address");
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let (answer, log) = (Arc::new(answer), asked.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answer, log) = (answer.clone(), log.clone());
                thread::spawn(move || serve(stream, &*answer, &log));
            }
        });
        Self { address, asked }
    }

    /// Requests that it has received so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        let asked = self.asked.lock();
        asked.unwrap_or_else(|poison| poison.into_inner()).clone()
    }

    /// Waits until it was asked so often for a target that begins like this.
    #[track_caller]
    pub(crate) fn wait(&self, target: &str, times: usize) -> Vec<Asked> {
        until(&format!("{times} requests for {target}"), || {
            let asked = self.asked().into_iter();
            let asked: Vec<Asked> = asked.filter(|asked| asked.line.contains(target)).collect();
            (asked.len() >= times).then_some(asked)
        })
    }
}

fn serve(
    mut stream: TcpStream,
    answer: &(dyn Fn(&Asked, &mut TcpStream) -> bool + Send + Sync),
    log: &Mutex<Vec<Asked>>,
) {
    let mut bytes = Vec::new();
    loop {
        let head = loop {
            if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
                break at;
            }
            if !more(&mut stream, &mut bytes) {
                return;
            }
        };
        let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
        let mut lines = text.split("\r\n");
        let line = lines.next().unwrap_or_default().to_owned();
        let headers = lines.filter_map(|line| line.split_once(": "));
        let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()));
        let mut asked = Asked {
            line,
            headers: headers.collect(),
            body: String::new(),
        };
        let length = asked
            .header("content-length")
            .and_then(|text| text.parse().ok());
        let end = head + 4 + length.unwrap_or(0);
        while bytes.len() < end {
            if !more(&mut stream, &mut bytes) {
                return;
            }
        }
        asked.body = String::from_utf8_lossy(&bytes[head + 4..end]).into_owned();
        bytes.drain(..end);
        log.lock()
            .unwrap_or_else(|poison| poison.into_inner())
            .push(asked.clone());
        if !answer(&asked, &mut stream) {
            return;
        }
    }
}

fn more(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> bool {
    let mut piece = [0; 4096];
    match stream.read(&mut piece) {
        Ok(count @ 1..) => {
            bytes.extend_from_slice(&piece[..count]);
            true
        }
        _ => false,
    }
}

/// Writes an answer with a length. A client that closes early is no fault of the backend's.
pub(crate) fn reply(stream: &mut TcpStream, headers: &[(&str, &str)], body: &str) -> bool {
    let fields = headers.iter();
    let fields: String = fields
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let length = body.len();
    let answer = format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {length}\r\n\r\n{body}");
    stream.write_all(answer.as_bytes()).is_ok()
}

/// A server whose only route leads to these origins.
#[track_caller]
pub(crate) fn server(origins: &[SocketAddr], more: &str) -> Server {
    server_with(origins, "", more)
}

/// Starts a server with more lines of `[grip]`.
#[track_caller]
pub(crate) fn server_with(origins: &[SocketAddr], grip: &str, more: &str) -> Server {
    let origins: Vec<String> = origins
        .iter()
        .map(|at| format!("\"http://{at}\""))
        .collect();
    let config = format!(
        "[grip]\nhttp_publish = \"127.0.0.1:0\"\nzmq_pull = \"tcp://127.0.0.1:0\"\n\
         zmq_sub = \"tcp://127.0.0.1:0\"\nzmq_command = \"tcp://127.0.0.1:0\"\nsig_key = \
         \"{KEY}\"\n{grip}\n\
         [[grip.route]]\npath = \"/\"\norigin = [{}]\n{more}\n",
        origins.join(", ")
    );
    Setup::new(&config).shards(2).start()
}

/// Publishes items as JSON, and returns the answer.
#[track_caller]
pub(crate) fn publish(server: &Server, items: &str) -> Response {
    let body = format!("{{\"items\": [{items}]}}");
    request(server.grip("http_publish"), "POST", "/publish/", &[], &body)
}

/// An item with the same text for streams, responses and WebSockets.
pub(crate) fn item(channel: &str, text: &str, more: &str) -> String {
    format!(
        "{{\"channel\": \"{channel}\", {more} \"formats\": {{\
         \"http-stream\": {{\"content\": \"{text}\"}}, \
         \"http-response\": {{\"body\": \"{text}\"}}, \
         \"ws-message\": {{\"content\": \"{text}\"}}}}}}"
    )
}

/// A GET whose answer goes on.
#[track_caller]
pub(crate) fn get(server: &Server, target: &str) -> Wire {
    let mut wire = Wire::connect(server.clients());
    wire.send(&format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    wire
}

/// A server, and a client that its backend holds on a stream in the channel `a`.
#[track_caller]
pub(crate) fn listens() -> (Server, Wire) {
    let hold = [("Grip-Hold", "stream"), ("Grip-Channel", "a")];
    let backend = Backend::start(move |_, stream| reply(stream, &hold, ""));
    let server = server(&[backend.address], "");
    let mut wire = get(&server, "/");
    wire.head();
    subscribed(&server, 1);
    (server, wire)
}

/// A WebSocket's handshake, which is not answered yet.
#[track_caller]
pub(crate) fn open(server: &Server, target: &str) -> Wire {
    let mut wire = Wire::connect(server.clients());
    wire.send(&format!(
        "GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    ));
    wire
}

/// Waits until a channel has so many subscribers.
#[track_caller]
pub(crate) fn subscribed(server: &Server, count: u64) {
    until(&format!("{count} subscriptions"), || {
        (server.metric("throng_subscriptions") == count).then_some(())
    });
}

/// A script of `tests/grip/python`.
#[track_caller]
pub(crate) fn python(script: &str, arguments: &[&str]) -> Process {
    let mut python = Command::new(python_of("grip-python", "tests/grip/python"));
    python.arg(format!("{}/python/{script}", env!("CARGO_MANIFEST_DIR")));
    python.args(arguments);
    Process::start(&mut python, "python3 with venv makes the environment")
}

/// Port that a script prints.
#[track_caller]
pub(crate) fn port(process: &Process) -> SocketAddr {
    let port: u16 = process.out("its port", |lines| {
        let mut lines = lines.iter();
        lines.find_map(|line| line.strip_prefix("port ")?.parse().ok())
    });
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// Waits until the other side hangs up, without a word.
pub(crate) fn silent(stream: &mut TcpStream) -> bool {
    let mut piece = [0; 64];
    while matches!(stream.read(&mut piece), Ok(1..)) {}
    false
}
