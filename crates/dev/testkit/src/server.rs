//! `throng serve`, started with a configuration and found by what it logs.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output};

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::exposition::{self, Exposition};
use crate::{Process, Response, Wire, binary, request};

/// Options with which a server is started.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    config: String,
    shards: Option<u32>,
    nofile: Option<u32>,
    api_key: Option<String>,
    tls_clients: bool,
    tls_api: bool,
    variables: Vec<(String, String)>,
    binary: Option<PathBuf>,
}

impl Setup {
    /// A configuration file with this text; addresses are chosen for it.
    pub fn new(config: &str) -> Self {
        Self {
            config: config.to_owned(),
            ..Self::default()
        }
    }

    /// With so many shards; without, one per core.
    pub const fn shards(mut self, shards: u32) -> Self {
        self.shards = Some(shards);
        self
    }

    /// With no more than so many descriptors.
    pub const fn nofile(mut self, most: u32) -> Self {
        self.nofile = Some(most);
        self
    }

    /// With this key on its server API, and on what [`Server`] asks there.
    pub fn api_key(mut self, key: &str) -> Self {
        self.api_key = Some(key.to_owned());
        self
    }

    /// With TLS on its client port; the configuration has a certificate.
    pub const fn tls_clients(mut self) -> Self {
        self.tls_clients = true;
        self
    }

    /// With TLS on its API port. [`Server`] then asks nothing there by itself.
    pub const fn tls_api(mut self) -> Self {
        self.tls_api = true;
        self
    }

    /// With the binary at this path, such as a link that a test changes.
    pub fn binary(mut self, path: &Path) -> Self {
        self.binary = Some(path.to_owned());
        self
    }

    /// With this variable in its environment.
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With a clock that is so many seconds ahead of ours, by Debian's `faketime`. Time goes by as
    /// fast as it does.
    #[track_caller]
    pub fn clock(self, ahead_s: i32) -> Self {
        let folders = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
        let library = { folders }
            .map(|folder| folder.path().join("faketime/libfaketimeMT.so.1"))
            .find(|library| library.exists());
        let library = library.expect("install faketime, see .ci/packages");
        self.variable("LD_PRELOAD", &library.to_string_lossy())
            .variable("FAKETIME", &format!("{ahead_s:+}"))
            .variable("FAKETIME_DONT_FAKE_MONOTONIC", "1")
    }

    /// Starts it, and waits until it serves.
    #[track_caller]
    pub fn start(&self) -> Server {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("throng.toml");
        fs::write(&file, &self.config).expect("a file in it");
        let mut command = match self.nofile {
            Some(most) => limited(most),
            None => Command::new(self.binary.as_deref().unwrap_or_else(|| binary::throng())),
        };
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("THRONG_") {
                command.env_remove(name);
            }
        }
        command.envs(self.variables.iter().cloned());
        command.arg("serve").arg("--config").arg(&file);
        command.args([
            "--listen",
            any(self.tls_clients),
            "--api",
            any(self.tls_api),
            "--log-format",
            "json",
        ]);
        if let Some(shards) = self.shards {
            command.args(["--shards", &shards.to_string()]);
        }
        if let Some(key) = &self.api_key {
            command.arg("--set").arg(format!("auth.api_keys={key}"));
        }
        let process = Process::start(&mut command, "cargo has just built it");
        let serving = process.err("the line that says where it serves", |lines| {
            let mut lines = lines
                .iter()
                .filter_map(|line| serde_json::from_str::<Value>(line).ok());
            lines.find(|line| line["message"] == "serving")
        });
        let address = |name: &str| -> SocketAddr {
            let text = serving[name].as_str().expect("an address");
            text.parse()
                .unwrap_or_else(|_| panic!("not one address: {text}"))
        };
        Server {
            clients: address("clients"),
            api: address("api"),
            grip: grip(&serving),
            api_key: self.api_key.clone(),
            process,
            folder,
        }
    }
}

/// Address of a listener on any free port.
const fn any(is_tls: bool) -> &'static str {
    if is_tls {
        "tls://127.0.0.1:0"
    } else {
        "127.0.0.1:0"
    }
}

/// `option=address`, with commas between.
fn grip(serving: &Value) -> Vec<(String, SocketAddr)> {
    let text = serving["grip"].as_str().unwrap_or_default();
    let parts = text.split(',').filter_map(|part| part.split_once('='));
    parts
        .filter_map(|(option, address)| Some((option.to_owned(), address.parse().ok()?)))
        .collect()
}

/// Both limits, since a server raises the soft one to the hard one.
fn limited(most: u32) -> Command {
    let mut command = Command::new("sh");
    let script = format!("ulimit -n {most} && exec \"$0\" \"$@\"");
    command.args(["-c", &script]).arg(binary::throng());
    command
}

/// A server that runs until it is dropped.
pub struct Server {
    clients: SocketAddr,
    api: SocketAddr,
    grip: Vec<(String, SocketAddr)>,
    api_key: Option<String>,
    process: Process,
    folder: TempDir,
}

impl Server {
    /// Address for clients to connect to.
    pub const fn clients(&self) -> SocketAddr {
        self.clients
    }

    /// Where the server API is.
    pub const fn api_address(&self) -> SocketAddr {
        self.api
    }

    /// Where a port of `[grip]` is, by its option.
    #[track_caller]
    pub fn grip(&self, option: &str) -> SocketAddr {
        let found = self.grip.iter().find(|(known, _)| known == option);
        found
            .unwrap_or_else(|| panic!("grip.{option} is not configured"))
            .1
    }

    /// A request to the API port, with the key if there is one.
    #[track_caller]
    pub fn ask(&self, method: &str, target: &str, body: &str) -> Response {
        let key = self.api_key.as_deref().map(|key| ("X-API-Key", key));
        let headers: Vec<_> = key.into_iter().collect();
        request(self.api, method, target, &headers, body)
    }

    /// Asks for a target at the client port; the answer is not read.
    #[track_caller]
    pub fn get(&self, target: &str) -> Wire {
        Wire::get(self.clients, target)
    }

    /// Asks for a target at the client port; reads the head of the answer, which is a good one.
    #[track_caller]
    pub fn stream(&self, target: &str) -> Wire {
        let mut wire = self.get(target);
        assert_eq!(wire.head().status, 200, "{target}");
        wire
    }

    /// Opens a WebSocket at the client port.
    #[track_caller]
    pub fn websocket(&self, target: &str) -> Wire {
        Wire::websocket(self.clients, target)
    }

    /// Status of the answer at the client port.
    #[track_caller]
    pub fn status(&self, target: &str) -> u16 {
        self.get(target).head().status
    }

    /// Publishes a body as it is.
    #[track_caller]
    pub fn publish(&self, channel: &str, data: &str) {
        let response = self.ask("POST", &format!("/pub?channel={channel}"), data);
        assert_eq!(response.status, 200, "{response:?}");
    }

    /// Calls a method of the server API.
    #[track_caller]
    pub fn call(&self, method: &str, body: &Value) -> Value {
        let response = self.ask("POST", &format!("/api/{method}"), &body.to_string());
        serde_json::from_str(&response.body).unwrap_or_else(|_| panic!("{response:?}"))
    }

    /// All metrics, checked against the rules of the format.
    #[track_caller]
    pub fn metrics(&self) -> Exposition {
        let response = self.ask("GET", "/metrics", "");
        exposition::parse(&response.body)
            .unwrap_or_else(|fault| panic!("{fault}\n{}", response.body))
    }

    /// One series, such as `throng_dropped_total{policy="close"}`.
    #[track_caller]
    pub fn metric(&self, series: &str) -> u64 {
        let metrics = self.metrics();
        let value = metrics
            .value(series)
            .unwrap_or_else(|| panic!("{series} is missing"));
        value as u64
    }

    /// Checks the value of one series.
    #[track_caller]
    pub fn counts(&self, series: &str, value: u64) {
        assert_eq!(self.metric(series), value, "{series}");
    }

    /// Returns the log so far, one object for each line.
    #[track_caller]
    pub fn log(&self) -> Vec<Value> {
        let lines = self.process.err_lines();
        let parse = |line: &String| {
            serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}"))
        };
        lines.iter().map(parse).collect()
    }

    /// Number of log lines that have this text in them.
    #[track_caller]
    pub fn logged(&self, text: &str) -> usize {
        let lines = self.process.err_lines();
        lines.iter().filter(|line| line.contains(text)).count()
    }

    /// Writes another configuration, and asks for a reload: the status, and the answer.
    #[track_caller]
    pub fn reload(&self, config: &str) -> (u16, Value) {
        self.configure(config);
        let answer = self.ask("POST", "/api/reload", "");
        let told = serde_json::from_str(&answer.body);
        (answer.status, told.unwrap_or_else(|_| panic!("{answer:?}")))
    }

    /// Writes another configuration where it reads it again.
    #[track_caller]
    pub fn configure(&self, config: &str) {
        // In one step, as an editor does it: the server may be reading it.
        let [new, file] = ["new.toml", "throng.toml"].map(|name| self.folder.path().join(name));
        fs::write(&new, config).expect("a file in its folder");
        fs::rename(new, file).expect("the same folder");
    }

    /// Sends it a signal.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Waits for its end.
    #[track_caller]
    pub fn wait(&mut self) -> ExitStatus {
        self.process.wait()
    }

    /// Whether it still runs.
    pub fn runs(&mut self) -> bool {
        self.process.runs()
    }

    /// Process of the server.
    pub const fn process(&self) -> &Process {
        &self.process
    }

    /// `throng upgrade`: lets it hand over to the program that is installed.
    #[track_caller]
    pub fn upgrade(&self) -> Output {
        let port = self.api_address().port().to_string();
        let mut command = Command::new(binary::throng());
        command.args(["upgrade", "--api-port", &port, "--patience", "180"]);
        command.output().expect("the binary runs")
    }

    /// Upgrades and checks that it succeeded.
    #[track_caller]
    pub fn upgrade_well(&self) {
        let output = self.upgrade();
        let said = String::from_utf8_lossy(&output.stderr);
        let log = self.process.err_lines().join("\n");
        assert!(output.status.success(), "{said}\n{log}");
    }

    /// Lets its clients leave, and checks that it ended well.
    #[track_caller]
    pub fn stop(mut self) {
        self.signal(Signal::TERM);
        let status = self.wait();
        assert_eq!(
            status.code(),
            Some(0),
            "{}",
            self.process.err_lines().join("\n")
        );
    }
}
