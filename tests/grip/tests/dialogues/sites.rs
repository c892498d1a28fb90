//! The two servers, with the same routes and settings as far as both have them.
//!
//! Pushpin runs as its package configures it, but for ports, folders, and no limit of messages a
//! second. Its configuration, its processes and its sockets are made for the test, and end with it;
//! no other Pushpin is touched.

use std::fmt::Write as _;
use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::thread;
use std::time::Duration;

use tempfile::TempDir;
use throng_testkit::{Process, Server, Setup, Signal};

use crate::origin;

/// Signs what origins get.
const KEY: &str = "changeme";
/// The configuration that the package comes with.
pub(crate) const PACKAGED: &str = "/usr/share/pushpin/pushpin.conf.condure";
const INSTALL: &str = "the package pushpin has it: run .ci/install, or apt-get install pushpin";
/// A first question is asked anew after so long.
const IMPATIENCE: Duration = Duration::from_millis(500);
/// Attempts to start a Pushpin: one of its ports may be taken meanwhile, or its processes may not
/// find each other.
const ATTEMPTS: usize = 5;
/// First deliveries that are tried with each.
const DELIVERIES: usize = 40;

/// Addresses of all listeners of a server.
pub(crate) struct Addresses {
    pub(crate) clients: SocketAddr,
    pub(crate) publish: SocketAddr,
    pub(crate) pull: SocketAddr,
    pub(crate) sub: SocketAddr,
    pub(crate) command: SocketAddr,
    pub(crate) stats: SocketAddr,
}

/// A server that runs until it is dropped.
pub(crate) struct Site<T> {
    pub(crate) addresses: Addresses,
    pub(crate) server: T,
}

pub(crate) fn throng(routes: &str) -> Site<(Server, TempDir)> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("routes");
    fs::write(&file, routes).expect("a file in it");
    let config = format!(
        "[grip]\nhttp_publish = \"127.0.0.1:0\"\nzmq_pull = \"tcp://127.0.0.1:0\"\n\
         zmq_sub = \"tcp://127.0.0.1:0\"\nzmq_command = \"tcp://127.0.0.1:0\"\n\
         zmq_stats = \"tcp://127.0.0.1:0\"\nstats_report_interval = \"2s\"\n\
         subscription_linger = \"2s\"\nsig_key = \"{KEY}\"\n\
         routes_file = \"{}\"\n",
        file.display()
    );
    // With one shard a client subscribes in the turn that writes its head, so that a script may
    // publish as soon as the head is there. Other tests have two.
    let server = Setup::new(&config).shards(2).start();
    let addresses = Addresses {
        clients: server.clients(),
        publish: server.grip("http_publish"),
        pull: server.grip("zmq_pull"),
        sub: server.grip("zmq_sub"),
        command: server.grip("zmq_command"),
        stats: server.grip("zmq_stats"),
    };
    Site {
        addresses,
        server: (server, folder),
    }
}

/// Pushpin's processes. The first ends its children when it is asked to end.
pub(crate) struct Pushpin {
    process: Process,
    _folder: TempDir,
}

impl Pushpin {
    /// Lines of the log above level `INFO`.
    pub(crate) fn complaints(&self) -> Vec<String> {
        self.process.out("its log", |lines| {
            let lines = lines.iter().filter(|line| !line.starts_with("[INFO]"));
            Some(lines.cloned().collect())
        })
    }
}

impl Drop for Pushpin {
    fn drop(&mut self) {
        if self.process.runs() {
            self.process.signal(Signal::TERM);
            let _ = self.process.wait();
        }
    }
}

pub(crate) fn pushpin(routes: &str) -> Site<Pushpin> {
    for _ in 1..ATTEMPTS {
        if let Some(site) = try_pushpin(routes) {
            return site;
        }
    }
    try_pushpin(routes).expect("ports that are free")
}

/// A configuration with other values. What it does not have goes into the section of proxies, where
/// the package keeps the sockets of its own processes in a file that this one includes.
fn changed(config: &str, values: &[(&str, String)]) -> String {
    let mut left: Vec<&(&str, String)> = values.iter().collect();
    let mut out = String::new();
    for line in config.lines() {
        let name = line.split('=').next().unwrap_or_default();
        let found = left.iter().position(|(known, _)| *known == name);
        match found.map(|at| left.remove(at)) {
            Some((name, value)) => writeln!(out, "{name}={value}").expect("text"),
            None => writeln!(out, "{line}").expect("text"),
        }
    }
    let own: String = left
        .iter()
        .map(|(name, value)| format!("{name}={value}\n"))
        .collect();
    out.replace("[proxy]\n", &format!("[proxy]\n{own}"))
}

/// None if one of the ports was taken, or if nothing takes its whole way.
fn try_pushpin(routes: &str) -> Option<Site<Pushpin>> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let warm = origin::bind();
    let path = folder.path().display();
    let warm_route = format!("warm.test {}\n", warm.local_addr().expect("its address"));
    let sockets: Vec<TcpListener> = (0..6).map(|_| origin::bind()).collect();
    let [clients, publish, pull, sub, command, stats] =
        [0, 1, 2, 3, 4, 5].map(|at| sockets[at].local_addr().expect("its address"));
    drop(sockets);
    let packaged = fs::read_to_string(PACKAGED);
    let packaged = packaged.unwrap_or_else(|error| panic!("{PACKAGED}: {error}; {INSTALL}"));
    let zurl = "ipc://{rundir}/{ipc_prefix}zurl";
    let config = changed(
        &packaged,
        &[
            ("rundir", format!("{path}/run")),
            ("logdir", format!("{path}/log")),
            (
                "services",
                "condure,zurl,pushpin-proxy,pushpin-handler".into(),
            ),
            ("http_port", clients.to_string()),
            ("client_maxconn", "1000".into()),
            ("sig_key", KEY.into()),
            ("zurl_out_specs", format!("{zurl}-in")),
            ("zurl_out_stream_specs", format!("{zurl}-in-stream")),
            ("zurl_in_specs", format!("{zurl}-out")),
            ("push_in_spec", format!("tcp://{pull}")),
            ("push_in_sub_specs", format!("tcp://{sub}")),
            ("push_in_http_port", publish.port().to_string()),
            ("command_spec", format!("tcp://{command}")),
            ("stats_spec", format!("tcp://{stats}")),
            ("stats_report_interval", "2".into()),
            ("subscription_linger", "2".into()),
            ("message_rate", "0".into()),
            ("message_hwm", "0".into()),
        ],
    );
    for name in ["run", "log"] {
        fs::create_dir(folder.path().join(name)).expect("a folder in it");
    }
    let file = folder.path().join("pushpin.conf");
    fs::write(&file, config).expect("a file in it");
    fs::write(
        folder.path().join("routes"),
        format!("{routes}{warm_route}"),
    )
    .expect("a file in it");
    let mut command_line = Command::new("pushpin");
    command_line
        .arg("--config")
        .arg(&file)
        .arg("--merge-output");
    // Else the members of the objects that it writes stand in another order each time.
    command_line.env("QT_HASH_SEED", "0");
    let process = Process::start(&mut command_line, INSTALL);
    let mut pushpin = Pushpin {
        process,
        _folder: folder,
    };
    let addresses = Addresses {
        clients,
        publish,
        pull,
        sub,
        command,
        stats,
    };
    // On a busy machine its processes may miss each other for good; then another one is started.
    let is_up = (0..DELIVERIES).any(|_| {
        let is_over = !pushpin.process.runs() || deliver(&addresses, &warm);
        if !is_over {
            thread::sleep(IMPATIENCE);
        }
        is_over
    });
    (is_up && pushpin.process.runs()).then_some(Site {
        addresses,
        server: pushpin,
    })
}

/// Whether an item takes its whole way. Its processes find each other bit by bit, and messages
/// before that are lost, so only this shows that all is up.
fn deliver(addresses: &Addresses, origin: &TcpListener) -> bool {
    origin.set_nonblocking(true).expect("a mode");
    let Some(mut client) = ask(
        addresses.clients,
        "GET / HTTP/1.1\r\nHost: warm.test\r\n\r\n",
    ) else {
        return false;
    };
    let Some(mut backend) = soon(|| origin.accept().map(|(stream, _)| stream)) else {
        return false;
    };
    backend.set_nonblocking(false).expect("a mode");
    let _ = backend.write_all(
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nGrip-Hold: stream\r\nGrip-Channel: \
          warm\r\n\r\nup",
    );
    if !read_through(&mut client, b"up") {
        return false;
    }
    let item = r#"{"items": [{"channel": "warm", "http-stream": {"content": "warm"}}]}"#;
    let request = format!(
        "POST /publish/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{item}",
        item.len()
    );
    let publisher = ask(addresses.publish, &request);
    publisher.is_some() && read_through(&mut client, b"warm")
}

fn ask(to: SocketAddr, request: &str) -> Option<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&to, IMPATIENCE).ok()?;
    stream.set_read_timeout(Some(IMPATIENCE)).ok()?;
    stream.write_all(request.as_bytes()).ok()?;
    Some(stream)
}

fn soon<T>(mut what: impl FnMut() -> std::io::Result<T>) -> Option<T> {
    for _ in 0..50 {
        match what() {
            Ok(done) => return Some(done),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                thread::sleep(Duration::from_millis(10));
            }
            Err(_) => return None,
        }
    }
    None
}

fn read_through(stream: &mut TcpStream, mark: &[u8]) -> bool {
    let mut all = Vec::new();
    let mut piece = [0; 1024];
    while crate::http::find(&all, mark).is_none() {
        match stream.read(&mut piece) {
            Ok(count @ 1..) => all.extend_from_slice(&piece[..count]),
            _ => return false,
        }
    }
    true
}
