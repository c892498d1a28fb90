//! Many clients of a node that is killed.
//!
//! One loop reads all their sockets, so that a test can have as many as it has descriptors.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use throng_testkit::{Server, Signal, until};

use crate::broker::{Broker, Kind};
use crate::nodes::{Publisher, node};

/// In all, on three nodes.
const CLIENTS: usize = 5000;

/// Follows one channel by server-sent events, and comes back with the last id that it has.
struct Follower {
    stream: Option<TcpStream>,
    /// On which node it is.
    at: usize,
    /// What was read of a line that is not whole.
    held: Vec<u8>,
    id: String,
    event: String,
    /// The number that it hears next.
    next: u64,
    /// What must not happen.
    problems: Vec<String>,
    /// How often it was told that it missed nothing.
    recovered: u32,
}

impl Follower {
    fn new(at: usize) -> Self {
        Self {
            stream: None,
            at,
            held: Vec::new(),
            id: String::new(),
            event: String::new(),
            next: 1,
            problems: Vec::new(),
            recovered: 0,
        }
    }

    /// Connects to its node, or to the next one if there is nobody.
    fn connect(&mut self, nodes: &[SocketAddr]) {
        self.held.clear();
        self.event.clear();
        let Ok(mut stream) = TcpStream::connect(nodes[self.at]) else {
            self.at = (self.at + 1) % nodes.len();
            return;
        };
        let last = match &*self.id {
            "" => String::new(),
            id => format!("Last-Event-ID: {id}\r\n"),
        };
        let request = format!("GET /sse?channel=kept:a HTTP/1.1\r\nHost: a\r\n{last}\r\n");
        let asked = stream.write_all(request.as_bytes());
        if asked.and_then(|()| stream.set_nonblocking(true)).is_ok() {
            self.stream = Some(stream);
        }
    }

    /// Reads what is there. True if something was.
    fn read(&mut self, nodes: &[SocketAddr]) -> bool {
        let Some(stream) = &mut self.stream else {
            self.connect(nodes);
            return true;
        };
        let mut bytes = [0; 4096];
        match stream.read(&mut bytes) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            Ok(count @ 1..) => self.held.extend_from_slice(&bytes[..count]),
            _ => self.stream = None,
        }
        while let Some(end) = self.held.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.held.drain(..=end).collect();
            self.line(String::from_utf8_lossy(&line).trim_end());
        }
        true
    }

    fn line(&mut self, line: &str) {
        match line.split_once(": ") {
            _ if line.is_empty() => self.event.clear(),
            Some(("id", id)) => id.clone_into(&mut self.id),
            Some(("event", event)) => event.clone_into(&mut self.event),
            Some(("data", data)) if self.event.is_empty() => match data.parse::<u64>() {
                Ok(number) if number == self.next => self.next += 1,
                _ => self
                    .problems
                    .push(format!("{data} in place of {}", self.next)),
            },
            Some(("data", data)) if data.contains("\"recovered\":true") => self.recovered += 1,
            Some(("data", data)) if data.contains("\"recovered\":false") && self.next > 1 => {
                self.problems.push(data.to_owned());
            }
            _ => {}
        }
    }
}

/// Reads until every follower has heard all numbers up to this one.
#[track_caller]
fn all_have(followers: &mut [Follower], nodes: &[SocketAddr], newest: u64) {
    until("everything, with everybody", || {
        while followers
            .iter_mut()
            .fold(false, |some, it| it.read(nodes) || some)
        {}
        let done = |it: &Follower| it.stream.is_some() && it.next > newest;
        followers.iter().all(done).then_some(())
    });
    let problems: Vec<&String> = followers.iter().flat_map(|it| &it.problems).collect();
    assert!(problems.is_empty(), "{problems:?}");
}

/// Each of five thousand clients hears each number once, in order, and those of the node that was
/// killed are told that they are whole.
pub(crate) fn thousands_of_clients_of_a_killed_node_are_whole_on_the_others(kind: Kind) {
    let broker = Broker::start(kind);
    let nodes: [Server; 3] = [(); 3].map(|()| node(kind, broker.address()));
    let addresses = nodes.each_ref().map(Server::clients);
    let mut followers: Vec<Follower> = (0..CLIENTS).map(|n| Follower::new(n % 3)).collect();
    let mut publisher = Publisher::new("kept:a");
    for follower in &mut followers {
        follower.connect(&addresses);
    }
    until("their subscriptions", || {
        for follower in &mut followers {
            follower.read(&addresses);
        }
        let count = |node: &Server| node.metric("throng_subscriptions") as usize;
        (nodes.iter().map(count).sum::<usize>() == CLIENTS).then_some(())
    });
    publisher.publish(&nodes.each_ref(), 20);
    all_have(&mut followers, &addresses, 20);
    // While it is killed, others publish.
    nodes[0].signal(Signal::KILL);
    publisher.publish(&[&nodes[1], &nodes[2]], 20);
    all_have(&mut followers, &addresses, 40);
    publisher.publish(&[&nodes[1], &nodes[2]], 5);
    all_have(&mut followers, &addresses, 45);
    let back: Vec<u32> = followers.iter().map(|it| it.recovered).collect();
    let moved = back.iter().filter(|count| **count == 1).count();
    assert_eq!(
        moved,
        CLIENTS.div_ceil(3),
        "those of the node that was killed"
    );
    assert!(followers.iter().all(|it| it.at != 0));
}
