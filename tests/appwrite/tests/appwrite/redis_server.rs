//! A Redis server of our own, which can go away and come back.

use std::fs;
use std::process::Command;

use tempfile::TempDir;
use throng_testkit::{Process, free_port, until};

/// Runs until it is dropped.
pub(crate) struct RedisServer {
    port: u16,
    process: Option<Process>,
    folder: TempDir,
    /// More lines of its configuration.
    more: String,
    is_sentinel: bool,
}

impl RedisServer {
    #[track_caller]
    pub(crate) fn start() -> Self {
        Self::with(&[])
    }

    /// Starts a server with more lines of configuration.
    #[track_caller]
    pub(crate) fn with(more: &[&str]) -> Self {
        Self::begin(more.join("\n"), false)
    }

    #[track_caller]
    fn begin(more: String, is_sentinel: bool) -> Self {
        let mut server = Self {
            port: free_port(),
            process: None,
            folder: tempfile::tempdir().unwrap(),
            more,
            is_sentinel,
        };
        server.come_back();
        server
    }

    /// A Sentinel, whose configuration names what it watches.
    #[track_caller]
    pub(crate) fn sentinel(monitor: &str) -> Self {
        Self::begin(monitor.to_owned(), true)
    }

    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }

    /// Ends it, with every connection to it.
    pub(crate) fn go_away(&mut self) {
        self.process = None;
    }

    #[track_caller]
    pub(crate) fn come_back(&mut self) {
        let config = self.folder.path().join("redis.conf");
        fs::write(&config, &self.more).unwrap();
        let mut command = Command::new("redis-server");
        command.arg(config);
        command.args(["--port", &self.port.to_string(), "--bind", "127.0.0.1"]);
        command.args(["--save", "", "--appendonly", "no", "--dir"]);
        command.arg(self.folder.path());
        if self.is_sentinel {
            command.arg("--sentinel");
        }
        let process = Process::start(&mut command, "install redis-server, see .ci/packages");
        process.out("readiness", |lines| {
            let ready = |line: &String| {
                line.contains("Ready to accept connections") || line.contains("Sentinel ID is")
            };
            lines.iter().any(ready).then_some(())
        });
        self.process = Some(process);
    }

    /// Publishes as Appwrite does; gives the number of subscribers.
    #[track_caller]
    pub(crate) fn publish(&self, message: &str) -> u64 {
        let client = redis::Client::open(self.url()).unwrap();
        let mut connection = client.get_connection().unwrap();
        let mut publish = redis::cmd("PUBLISH");
        publish.arg("realtime").arg(message);
        publish.query(&mut connection).unwrap()
    }

    /// Waits until connections are accepted.
    #[track_caller]
    pub(crate) fn wait_for_subscriber(&self) {
        let client = redis::Client::open(self.url()).unwrap();
        let mut connection = client.get_connection().unwrap();
        until("a subscriber", || {
            let mut count = redis::cmd("PUBSUB");
            count.arg("NUMSUB").arg("realtime");
            let (_, count): (String, u64) = count.query(&mut connection).unwrap();
            (count > 0).then_some(())
        });
    }
}
