//! A Kafka of a test's own: brokers that are their own controllers (KRaft), which can be killed and
//! come back; and Kafka's own Java client, which fills and reads it.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::{Arc, Mutex};

use throng_types::lock;

use crate::daemon::{Daemon, is_daemon};
use crate::install::{self, PROGRAMS};
use crate::{Issued, Process, free_port, until};

/// A small virtual machine that starts quickly.
const JAVA: [&str; 3] = [
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Xshare:auto",
];

/// A broker. Runs until it is dropped, on ports of its own, with its files in a temporary folder.
/// It keeps them when it is killed.
pub struct KafkaServer {
    daemon: Daemon,
    /// Brokers of its Kafka, with this one.
    brokers: usize,
    /// Address of the listener at which clients authenticate.
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
    fn start(addresses: &str) -> Self {
        let mut java = java("96m");
        // Its standard output carries answers.
        java.arg("-Dlog4j2.level=OFF");
        let process = Process::start(java.arg("Kafka").arg(addresses), PROGRAMS);
        Self {
            process: Mutex::new((process, 0)),
        }
    }

    /// Has the program in `tests/feeds/java` do something; gives what it answers.
    #[track_caller]
    pub fn ask(&self, order: &str) -> String {
        let (process, read) = &mut *lock(&self.process);
        process.say(order);
        let answer = process.out(order, |lines| lines.get(*read).cloned());
        *read += 1;
        let done = answer.strip_prefix("ok");
        let done = done.unwrap_or_else(|| panic!("{order}: {answer}"));
        done.trim().to_owned()
    }
}

is_daemon!(KafkaServer);

impl KafkaServer {
    /// Starts one broker without topics.
    #[track_caller]
    pub fn start() -> Self {
        let [server] = Self::begin(None);
        server
    }

    /// Three brokers of one Kafka, which share a client. What the group's coordinator knows is on
    /// all of them, and a partition of a topic on one.
    #[track_caller]
    pub fn start_three() -> [Self; 3] {
        Self::begin(None)
    }

    /// Starts one broker with a second listener, which speaks TLS with this certificate and
    /// authenticates clients: by SCRAM for users made by its client, and `plain` with the password
    /// `secret` by PLAIN.
    #[track_caller]
    pub fn start_secure(certificate: &Issued) -> Self {
        let [server] = Self::begin(Some(certificate));
        server
    }

    #[track_caller]
    fn begin<const BROKERS: usize>(certificate: Option<&Issued>) -> [Self; BROKERS] {
        let daemons = std::array::from_fn::<_, BROKERS, _>(|_| (Daemon::new(), free_port()));
        let voter = |(n, (_, port)): (usize, &(Daemon, u16))| format!("{}@127.0.0.1:{port}", n + 1);
        let voters: Vec<String> = daemons.iter().enumerate().map(voter).collect();
        let addresses = daemons.each_ref().map(|it| it.0.address().to_string());
        let client = Arc::new(KafkaClient::start(&addresses.join(",")));
        let mut id = 0;
        let mut servers = daemons.map(|(daemon, controller)| {
            id += 1;
            let server = Self {
                daemon,
                brokers: BROKERS,
                secure_port: free_port(),
                client: client.clone(),
            };
            server.configure(id, controller, &voters.join(","), certificate);
            server
        });
        servers.iter_mut().for_each(Self::run);
        servers[0].serves();
        servers
    }

    fn configure(&self, id: usize, controller: u16, voters: &str, certificate: Option<&Issued>) {
        let (port, secure_port) = (self.daemon.port(), self.secure_port);
        let folder = self.daemon.folder();
        let data = folder.join("data");
        let write = |name: &str, text: &str| fs::write(folder.join(name), text).expect("a file");
        fs::create_dir(&data).expect("a folder in it");
        // As Kafka's own tool would write it, which takes seconds to start.
        let cluster = format!("cluster.id=AAAAAAAAAAAAAAAAAAAAAA\nnode.id={id}\nversion=1\n");
        write("data/meta.properties", &cluster);
        let mut listeners = format!("PLAINTEXT://127.0.0.1:{port}");
        let mut options = include_str!("kafka.properties").to_owned();
        if let Some(issued) = certificate {
            listeners = format!("{listeners},SASL_SSL://127.0.0.1:{secure_port}");
            write("server.pem", &[&*issued.key, &issued.certificate].concat());
            options += include_str!("kafka_secure.properties");
        }
        let options = options
            .replace("@ID@", &id.to_string())
            .replace("@VOTERS@", voters)
            .replace("@LISTENERS@", &listeners)
            .replace("@CONTROLLER@", &controller.to_string())
            .replace("@FOLDER@", &folder.display().to_string())
            .replace("@BROKERS@", &self.brokers.to_string());
        write("server.properties", &options);
    }

    /// URL of the broker, `kafka://…`.
    pub fn url(&self) -> String {
        format!("kafka://{}", self.address())
    }

    /// Address of the listener that speaks TLS.
    pub fn secure_address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.secure_port))
    }

    /// Starts it again, and waits until it serves.
    #[track_caller]
    pub fn come_back(&mut self) {
        self.run();
        self.serves();
    }

    fn run(&mut self) {
        let mut command = java("256m");
        command.arg("kafka.Kafka");
        command.arg(self.daemon.folder().join("server.properties"));
        self.daemon.start(&mut command, |_| {});
    }

    #[track_caller]
    fn serves(&self) {
        until("all brokers", || {
            self.ask("brokers") == self.brokers.to_string()
        });
    }

    /// Its client, for another thread.
    pub fn client(&self) -> Arc<KafkaClient> {
        self.client.clone()
    }

    /// Has its client do something; gives what it answers.
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
