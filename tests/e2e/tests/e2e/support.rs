//! Common parts of these tests: a configuration, an SDK's address, publications, nginx.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;
use throng_testkit::{Process, Sdk, Server, Start, free_port, script, sign, unix_s, until};

/// Signs the tokens of tests.
pub(crate) const SECRET: &str = "a secret that is long enough for HS256";

/// A namespace that keeps enough for everything that a test misses.
pub(crate) const RECOVERY: &str = r#"
[[namespace]]
name = "chat"
history_size = 1000
history_ttl = "5m"
recovery = true
"#;

/// Where an SDK connects.
pub(crate) fn url(address: SocketAddr) -> Value {
    json!({ "url": format!("ws://{address}/connection/websocket") })
}

/// A client that has connected and subscribed there.
#[track_caller]
pub(crate) fn subscribed(start: Start, address: SocketAddr, channel: &str) -> Sdk {
    let mut client = start();
    client.connect(&url(address));
    client.subscribe(channel);
    client
}

/// The npm package `ws`, with an open connection.
#[track_caller]
pub(crate) fn ws(server: &Server, target: &str) -> Sdk {
    let client = script("ws.mjs", &[&format!("ws://{}{target}", server.clients())]);
    client.event("open", &json!({}));
    client
}

/// A connection token that is good for so many seconds from now.
pub(crate) fn token(user: &str, seconds: i64) -> String {
    sign(
        &json!({ "sub": user, "exp": unix_s().saturating_add_signed(seconds) }),
        SECRET,
    )
}

/// An nginx at an address of its own.
pub(crate) struct Nginx {
    pub(crate) address: SocketAddr,
    _process: Process,
    _folder: TempDir,
}

impl Nginx {
    /// Starts it with these lines in its section `http`: `PORT` stands for its port, `FOLDER` for
    /// its files.
    pub(crate) fn start(http: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
        let paths = paths.map(|name| format!("{name}_temp_path FOLDER/{name};\n"));
        let config = format!(
            "daemon off;\nworker_processes 1;\nerror_log FOLDER/error.log crit;\n\
             pid FOLDER/nginx.pid;\nevents {{ worker_connections 64; }}\n\
             http {{\naccess_log off;\n{}{http}}}\n",
            paths.concat()
        );
        let config = config.replace("FOLDER", &folder.path().display().to_string());
        let file = folder.path().join("nginx.conf");
        fs::write(&file, config.replace("PORT", &address.port().to_string())).expect("a file");
        // Debian puts it where only root's shell looks.
        let path = std::env::var("PATH").unwrap_or_default();
        let mut nginx = Command::new("nginx");
        nginx.env("PATH", format!("{path}:/usr/sbin"));
        nginx.arg("-p").arg(folder.path()).arg("-c").arg(&file);
        let process = Process::start(&mut nginx, "install nginx, see .ci/packages");
        until("nginx listens", || TcpStream::connect(address).ok());
        Self {
            address,
            _process: process,
            _folder: folder,
        }
    }
}
