//! A Redis server of a test's own, which can stop, go away and come back.

use std::fs;
use std::io::{self, BufRead, BufReader, Write as _};
use std::net::TcpStream;
use std::process::Command;

use crate::Deadline;
use crate::daemon::{Daemon, is_daemon};

/// Runs until it is dropped, on a port of its own, with its files in a temporary folder.
pub struct RedisServer {
    daemon: Daemon,
    arguments: Vec<String>,
    /// The lines of a Sentinel's configuration.
    sentinel: Option<String>,
    has_tls: bool,
}

is_daemon!(RedisServer);

impl RedisServer {
    /// Keeps nothing over its end.
    #[track_caller]
    pub fn start() -> Self {
        Self::with(&["--save", "", "--appendonly", "no"])
    }

    /// Has all its data again when it comes back.
    #[track_caller]
    pub fn durable() -> Self {
        let keeps = ["--appendonly", "yes", "--appendfsync", "always"];
        Self::with(&[&["--save", ""][..], &keeps].concat())
    }

    /// Starts a server with these options.
    #[track_caller]
    pub fn with(arguments: &[&str]) -> Self {
        Self::begin(arguments, None, false)
    }

    /// Speaks TLS alone, with a certificate and its key in these files.
    #[track_caller]
    pub fn with_tls([certificate, key]: &[String; 2], arguments: &[&str]) -> Self {
        let files = ["--tls-cert-file", certificate, "--tls-key-file", key];
        // Clients need no certificate, so its authorities do not matter.
        let clients = [
            "--tls-auth-clients",
            "no",
            "--tls-ca-cert-file",
            certificate,
        ];
        Self::begin(&[&files[..], &clients, arguments].concat(), None, true)
    }

    /// A Sentinel with these lines of configuration.
    #[track_caller]
    pub fn sentinel(lines: &str) -> Self {
        Self::begin(&[], Some(lines.to_owned()), false)
    }

    #[track_caller]
    fn begin(arguments: &[&str], sentinel: Option<String>, has_tls: bool) -> Self {
        let mut server = Self {
            daemon: Daemon::new(),
            arguments: arguments.iter().map(|&argument| argument.into()).collect(),
            sentinel,
            has_tls,
        };
        server.come_back();
        server
    }

    /// URL of database 0, `redis://…`.
    pub fn url(&self) -> String {
        format!("redis://{}/0", self.address())
    }

    /// Starts it again, and waits until it serves.
    #[track_caller]
    pub fn come_back(&mut self) {
        let mut command = Command::new("redis-server");
        if let Some(lines) = &self.sentinel {
            // It writes there what it finds out.
            let config = self.daemon.folder().join("sentinel.conf");
            if !config.exists() {
                fs::write(&config, lines).expect("a file");
            }
            command.arg(config).arg("--sentinel");
        }
        let port = self.daemon.port().to_string();
        if self.has_tls {
            command.args(["--port", "0", "--tls-port", &port]);
        } else {
            command.args(["--port", &port]);
        }
        command.args(["--bind", "127.0.0.1", "--dir"]);
        command.arg(self.daemon.folder()).args(&self.arguments);
        let ready = ["Ready to accept connections", "Sentinel ID is"];
        self.daemon.start(&mut command, |process| {
            process.out("readiness", |lines| {
                let is_ready = |line: &String| ready.iter().any(|ready| line.contains(ready));
                lines.iter().any(is_ready)
            });
        });
    }

    /// Writes a copy of all its data, which it begins with when it comes back.
    #[track_caller]
    pub fn save(&self) {
        assert_eq!(self.ask("SAVE"), "OK");
    }

    /// Sends a command whose parts have no blanks, and returns the answer: a text, or the lines of
    /// a list of texts.
    #[track_caller]
    pub fn ask(&self, command: &str) -> String {
        self.try_ask(command).expect("an answer")
    }

    /// As [`RedisServer::ask`]; the reason if Redis refuses, or ends the connection in place of an
    /// answer, as it does when its role changes.
    pub fn try_ask(&self, command: &str) -> io::Result<String> {
        let mut redis = TcpStream::connect(self.address())?;
        write!(redis, "{command}\r\n")?;
        answer(&mut BufReader::new(Deadline::default().over(&redis)))
    }
}

/// Reads one answer (RESP 2).
fn answer(from: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    from.read_line(&mut line)?;
    let line = line.trim_end();
    let Some((kind, rest)) = line.split_at_checked(1) else {
        return Err(io::ErrorKind::UnexpectedEof.into());
    };
    Ok(match kind {
        "$" => {
            let length: usize = rest.parse().unwrap_or_default();
            let mut text = vec![0; length + 2];
            if rest != "-1" {
                from.read_exact(&mut text)?;
            }
            text.truncate(length);
            String::from_utf8(text).map_err(io::Error::other)?
        }
        "*" => {
            let count: usize = rest.parse().unwrap_or_default();
            let texts: io::Result<Vec<String>> = (0..count).map(|_| answer(from)).collect();
            texts?.join("\n")
        }
        "-" => return Err(io::Error::other(format!("Redis refuses: {rest}"))),
        _ => rest.to_owned(),
    })
}
