//! A Kafka of a test's own: one broker that is its own controller (KRaft), which can be killed and
//! come back; and Kafka's own Java client, which fills and reads it.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

use crate::daemon::Daemon;
use crate::install::{self, PROGRAMS};
use crate::{Issued, Process, free_port, until};

/// A small virtual machine that starts quickly.
const JAVA: [&str; 3] = [
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Xshare:auto",
];

/// Runs until it is dropped, on ports of its own, with its files in a temporary folder.
/// It keeps them when it is killed.
pub struct KafkaServer {
    daemon: Daemon,
    /// Where clients say who they are.
    secure_port: u16,
    client: Arc<KafkaClient>,
}

/// Kafka's Java client, one order at a time. It outlives the server, and waits for it.
pub struct KafkaClient {
    /// And how many of its answers were read.
    process: Mutex<(Process, usize)>,
}

impl KafkaClient {
    #[track_caller]
    fn start(address: SocketAddr) -> Self {
        let mut java = java("96m");
        // What it says on standard output are answers.
        java.arg("-Dlog4j2.level=OFF");
        let process = Process::start(java.arg("Kafka").arg(address.to_string()), PROGRAMS);
        Self {
            process: Mutex::new((process, 0)),
        }
    }

    /// Has the program in `tests/feeds/java` do something; gives what it answers.
    ///
    /// # Panics
    /// If it fails.
    #[track_caller]
    pub fn ask(&self, order: &str) -> String {
        let process = self.process.lock();
        let (process, read) = &mut *process.unwrap_or_else(PoisonError::into_inner);
        process.say(order);
        let answer = process.out(order, |lines| lines.get(*read).cloned());
        *read += 1;
        let done = answer.strip_prefix("ok");
        let done = done.unwrap_or_else(|| panic!("{order}: {answer}"));
        done.trim().to_owned()
    }
}

impl KafkaServer {
    /// With no topics.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    #[track_caller]
    pub fn start() -> Self {
        Self::begin(None)
    }

    /// The same; at another port it speaks TLS with this certificate, and wants to know who its
    /// clients are: by SCRAM for who was made by its client, and `plain` with the
    /// password `secret` by PLAIN.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    #[track_caller]
    pub fn start_secure(certificate: &Issued) -> Self {
        Self::begin(Some(certificate))
    }

    #[track_caller]
    fn begin(certificate: Option<&Issued>) -> Self {
        let daemon = Daemon::new();
        let (port, secure_port, controller) = (daemon.port(), free_port(), free_port());
        let folder = daemon.folder();
        let data = folder.join("data");
        let write = |name: &str, text: &str| fs::write(folder.join(name), text).expect("a file");
        fs::create_dir(&data).expect("a folder in it");
        // As Kafka's own tool would write it, which takes seconds to start.
        let cluster = "cluster.id=AAAAAAAAAAAAAAAAAAAAAA\nnode.id=1\nversion=1\n";
        write("data/meta.properties", cluster);
        let mut listeners = format!("PLAINTEXT://127.0.0.1:{port}");
        let mut secure = String::new();
        if let Some(issued) = certificate {
            listeners = format!("{listeners},SASL_SSL://127.0.0.1:{secure_port}");
            write(
                "server.pem",
                &format!("{}{}", issued.key, issued.certificate),
            );
            let jaas = "org.apache.kafka.common.security";
            secure = format!(
                "ssl.keystore.type=PEM\n\
                 ssl.keystore.location={}/server.pem\n\
                 sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512\n\
                 listener.name.sasl_ssl.plain.sasl.jaas.config=\
                 {jaas}.plain.PlainLoginModule required user_plain=\"secret\";\n\
                 listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config=\
                 {jaas}.scram.ScramLoginModule required;\n\
                 listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=\
                 {jaas}.scram.ScramLoginModule required;\n",
                folder.display()
            );
        }
        let options = format!(
            "process.roles=broker,controller\n\
             node.id=1\n\
             controller.quorum.voters=1@127.0.0.1:{controller}\n\
             listeners={listeners},CONTROLLER://127.0.0.1:{controller}\n\
             advertised.listeners={listeners}\n\
             controller.listener.names=CONTROLLER\n\
             listener.security.protocol.map=\
             PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT\n\
             log.dirs={}\n\
             offsets.topic.replication.factor=1\n\
             offsets.topic.num.partitions=1\n\
             transaction.state.log.replication.factor=1\n\
             transaction.state.log.min.isr=1\n\
             transaction.state.log.num.partitions=1\n\
             group.initial.rebalance.delay.ms=0\n\
             auto.create.topics.enable=false\n\
             log.cleaner.enable=false\n\
             num.network.threads=1\n\
             num.io.threads=2\n\
             background.threads=1\n\
             {secure}",
            data.display()
        );
        write("server.properties", &options);
        let client = KafkaClient::start(daemon.address());
        let mut server = Self {
            daemon,
            secure_port,
            client: Arc::new(client),
        };
        server.come_back();
        server
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.daemon.address()
    }

    /// `kafka://…`
    #[must_use]
    pub fn url(&self) -> String {
        format!("kafka://{}", self.address())
    }

    /// `kafkas://…`, with a user and a password.
    #[must_use]
    pub fn secure_url(&self, user: &str, password: &str) -> String {
        format!("kafkas://{user}:{password}@127.0.0.1:{}", self.secure_port)
    }

    /// Kills it, in the midst of whatever it does.
    pub fn go_away(&mut self) {
        self.daemon.go_away();
    }

    /// Starts it again, and waits until it serves.
    ///
    /// # Panics
    /// If it does not.
    #[track_caller]
    pub fn come_back(&mut self) {
        let mut command = java("256m");
        command.arg("kafka.Kafka");
        command.arg(self.daemon.folder().join("server.properties"));
        self.daemon.start(&mut command, |_| {});
        until("a broker that serves", || {
            (self.ask("brokers") == "1").then_some(())
        });
    }

    /// Its client, for another thread.
    #[must_use]
    pub fn client(&self) -> Arc<KafkaClient> {
        self.client.clone()
    }

    /// Has its client do something; gives what it answers.
    ///
    /// # Panics
    /// If it fails.
    #[track_caller]
    pub fn ask(&self, order: &str) -> String {
        self.client.ask(order)
    }
}

fn java(memory: &str) -> Command {
    let mut java = Command::new("java");
    java.args(JAVA).arg(format!("-Xmx{memory}"));
    java.arg("-cp").arg(install::kafka());
    java
}
