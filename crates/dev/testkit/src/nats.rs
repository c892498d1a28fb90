//! A NATS server of a test's own, with JetStream, which can stop, go away and come back.

use std::fmt::Write as _;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::daemon::{Daemon, is_daemon, new_folder};
use crate::install;
use crate::{Deadline, free_port, until};

/// Refusals of a stream after which a server of a new cluster is started again.
const REFUSED_MAX: usize = 200;
/// Deadline for an answer, and what each further one of many adds to it.
const ANSWER: Duration = Duration::from_secs(5);
const EACH_ANSWER: Duration = Duration::from_millis(50);

/// Runs until it is dropped, on a port of its own, with its files in a temporary folder.
pub struct NatsServer {
    daemon: Daemon,
    program: PathBuf,
    arguments: Vec<String>,
    /// A copy of the folder, with which it begins when it comes back.
    saved: Option<TempDir>,
    is_durable: bool,
}

is_daemon!(NatsServer);

impl NatsServer {
    /// Keeps nothing over its end.
    #[track_caller]
    pub fn start() -> Self {
        Self::begin(Daemon::new(), program(None), &[], false)
    }

    /// Has all its data again when it comes back.
    #[track_caller]
    pub fn durable() -> Self {
        Self::with(&[])
    }

    /// Starts a server with these further arguments.
    #[track_caller]
    pub fn with(arguments: &[&str]) -> Self {
        Self::begin(Daemon::new(), program(None), arguments, true)
    }

    /// Three servers that are one cluster, named `n0` to `n2`; of Debian's version or of this one,
    /// which is built once below `target/`.
    #[track_caller]
    pub fn cluster(version: Option<&str>) -> [Self; 3] {
        let program = program(version);
        let daemons = [(); 3].map(|()| Daemon::new());
        let routes = [(); 3].map(|()| format!("nats://127.0.0.1:{}", free_port()));
        let all = routes.join(",");
        let mut number = 0;
        let mut servers = daemons.map(|daemon| {
            let (name, route) = (format!("n{number}"), &routes[number]);
            number += 1;
            let who = ["--server_name", &name, "--cluster_name", "c"];
            let ways = ["--cluster", route, "--routes", &all];
            Self::begin(daemon, program.clone(), &[&who[..], &ways].concat(), true)
        });
        // Ready servers have not chosen a leader yet; without one no stream can be made.
        until("a leader of the cluster", || {
            let names = servers[0].ask("$JS.API.STREAM.NAMES")?;
            (!names.contains("\"error\"")).then_some(())
        });
        // At times a leader that was chosen while the others came never counts one of them in
        // ("no suitable peers for placement"; nats-server 2.10.29, one start in ten on a busy
        // machine), until it ends.
        let mut refused = 0;
        until("a stream on all three servers", || {
            let probe = r#"{"name":"probe","subjects":["probe"],"num_replicas":3}"#;
            let made = servers[0].tell("$JS.API.STREAM.CREATE.probe", &[], &[probe]);
            if made.first().is_some_and(|made| !made.contains("\"error\"")) {
                return Some(());
            }
            refused += 1;
            if refused % REFUSED_MAX == 0 {
                let server = &mut servers[refused / REFUSED_MAX % 3];
                server.go_away();
                server.come_back();
            }
            None
        });
        let _ = servers[0].ask("$JS.API.STREAM.DELETE.probe");
        servers
    }

    #[track_caller]
    fn begin(daemon: Daemon, program: PathBuf, arguments: &[&str], is_durable: bool) -> Self {
        let mut server = Self {
            daemon,
            program,
            arguments: arguments.iter().map(|&argument| argument.into()).collect(),
            saved: None,
            is_durable,
        };
        server.come_back();
        server
    }

    /// URL of the server, `nats://…`.
    pub fn url(&self) -> String {
        format!("nats://{}", self.address())
    }

    /// Makes a copy of all its data, with which it begins when it comes back. Nobody may publish
    /// meanwhile.
    #[track_caller]
    pub fn save(&mut self) {
        let copy = new_folder();
        copy_folder(self.daemon.folder(), copy.path()).expect("a copy of its files");
        self.saved = Some(copy);
    }

    /// Starts it again, and waits until it serves.
    #[track_caller]
    pub fn come_back(&mut self) {
        if let Some(saved) = self.saved.take() {
            self.daemon.set_folder(saved);
        } else if !self.is_durable {
            self.daemon.set_folder(new_folder());
        }
        let mut command = Command::new(&self.program);
        command.args(["-js", "-a", "127.0.0.1", "-p"]);
        command.arg(self.daemon.port().to_string()).arg("-sd");
        command.arg(self.daemon.folder()).args(&self.arguments);
        self.daemon.start(&mut command, |process| {
            process.err("readiness", |lines| {
                let is_ready = |line: &String| line.contains("Server is ready");
                lines.iter().any(is_ready)
            });
        });
    }

    /// Sends a request and returns the answer; none if nothing answers.
    #[track_caller]
    pub fn ask(&self, subject: &str) -> Option<String> {
        self.tell(subject, &[], &[""]).pop()
    }

    /// Sends messages with these headers to one subject, and returns the answers to them; fewer if
    /// some are not answered.
    #[track_caller]
    pub fn tell(&self, subject: &str, headers: &[(&str, &str)], bodies: &[&str]) -> Vec<String> {
        let nats = TcpStream::connect(self.address()).expect("it listens");
        let mut text = "CONNECT {\"verbose\":false,\"headers\":true,\"no_responders\":true}\r\n\
                        SUB answer 1\r\n"
            .to_owned();
        let lines = headers.iter();
        let lines = lines.map(|(name, value)| format!("{name}: {value}\r\n"));
        let head = match headers {
            [] => String::new(),
            _ => format!("NATS/1.0\r\n{}\r\n", lines.collect::<String>()),
        };
        for body in bodies {
            let (verb, of_head) = match headers {
                [] => ("PUB", String::new()),
                _ => ("HPUB", format!("{} ", head.len())),
            };
            let all = head.len() + body.len();
            let _ = write!(
                text,
                "{verb} {subject} answer {of_head}{all}\r\n{head}{body}\r\n"
            );
        }
        (&nats).write_all(text.as_bytes()).expect("it reads");
        let all = ANSWER + EACH_ANSWER * bodies.len() as u32;
        let nats = Deadline::after(all).over(&nats);
        let mut lines = BufReader::new(nats).lines().map_while(Result::ok);
        let mut answers = Vec::new();
        while answers.len() < bodies.len() {
            match lines.next() {
                Some(line) if line.starts_with("MSG ") => answers.extend(lines.next()),
                Some(line) if line.starts_with("HMSG ") => {
                    // With a status it is no answer.
                    if lines.next().is_none_or(|first| first != "NATS/1.0") {
                        break;
                    }
                    lines.by_ref().find(String::is_empty);
                    answers.extend(lines.next());
                }
                Some(_) => {}
                None => break,
            }
        }
        answers
    }
}

/// The server of a version; Debian's without one.
fn program(version: Option<&str>) -> PathBuf {
    version.map_or_else(|| PathBuf::from("nats-server"), install::nats_server)
}

fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let there = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &there)?;
        } else {
            std::fs::copy(entry.path(), there)?;
        }
    }
    Ok(())
}
