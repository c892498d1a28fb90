//! Plays a script against a server.

use std::collections::BTreeMap;
use std::net::TcpListener;

use throng_grip_tests::Peer;

use crate::client::{Client, publish};
use crate::http::NOTHING;
use crate::normal::Names;
use crate::origin::{Asked, Origin};
use crate::script::{Dialogue, Step};
use crate::sites::Addresses;
use crate::stats::Reader;
use crate::text;
use crate::verdict::Outcome;

struct Stage<'s> {
    to: &'s Addresses,
    names: Names,
    origin: Origin,
    clients: BTreeMap<String, Client>,
    publisher: Option<Client>,
    peers: BTreeMap<&'static str, Peer>,
    reader: Option<Reader>,
}

pub(crate) fn play(dialogue: &Dialogue, to: &Addresses, origin: TcpListener) -> Outcome {
    let address = origin.local_addr().expect("its address");
    let mut stage = Stage {
        to,
        names: Names {
            all: vec![
                ("{origin}", address.to_string()),
                ("{server}", to.clients.to_string()),
                ("{pull}", to.pull.to_string()),
                ("{sub}", to.sub.to_string()),
                ("{command}", to.command.to_string()),
            ],
        },
        origin: Origin::start(origin),
        clients: BTreeMap::new(),
        publisher: None,
        peers: BTreeMap::new(),
        reader: None,
    };
    let mut out = Outcome::new();
    for step in &dialogue.steps {
        let lines = stage.step(step);
        out.push(lines);
    }
    // Whatever came and was not looked at belongs to the last step.
    let unread = stage.unread();
    if let Some(last) = out.last_mut() {
        last.extend(unread);
    }
    out
}

impl Stage<'_> {
    fn step(&mut self, step: &Step) -> Vec<String> {
        let words: Vec<&str> = step.verb.splitn(2, ' ').collect();
        let (who, what) = (words[0], words.get(1).copied().unwrap_or_default());
        match who {
            "client" => {
                let (name, what) = what.split_once(' ').expect("client NAME VERB");
                self.client(name, what, step)
            }
            "origin" => self.of_origin(what, step),
            "publish" => publish(self.to.publish, &step.sent, &self.names),
            "publisher" => self.of_publisher(what, step),
            "pull" => {
                let bytes = self.bytes(step);
                self.peer("PUSH").send(&[bytes]);
                Vec::new()
            }
            "sub" => self.of_sub(what, step),
            "command" => self.of_command(what, step),
            "stats" => self.of_stats(what),
            _ => panic!("no such step: {}", step.verb),
        }
    }

    /// Bytes that a step sends.
    fn bytes(&self, step: &Step) -> Vec<u8> {
        let mut lines: Vec<String> = step.sent.iter().map(|line| self.names.fill(line)).collect();
        let is_length = |line: &String| line.eq_ignore_ascii_case("Content-Length: *");
        let Some(at) = lines.iter().position(is_length) else {
            return text::bytes(&lines);
        };
        let body_at = lines.iter().position(String::is_empty);
        let body_at = body_at.map_or(lines.len(), |at| at + 1);
        let length = text::bytes(&lines[body_at..]).len();
        lines[at] = format!("Content-Length: {length}");
        text::bytes(&lines)
    }

    fn client(&mut self, name: &str, what: &str, step: &Step) -> Vec<String> {
        let bytes = self.bytes(step);
        let (to, names) = (self.to.clients, &self.names);
        if what == "leaves" {
            self.clients.remove(name);
            return Vec::new();
        }
        let client = self.clients.entry(name.to_owned());
        let client = client.or_insert_with(|| Client::connect(to, names));
        match what.split_once(' ').unwrap_or((what, "")) {
            ("sends", "") => client.send(&bytes),
            ("gets", "head") => return client.head(),
            ("gets", "response") => return client.response(),
            ("gets", "end") => return client.end(),
            ("gets", mark) => {
                let mark = mark.strip_prefix("through ").expect("through TEXT");
                return client.through(mark);
            }
            ("says", frame) => client.say(frame),
            ("hears", "") => return client.hear(),
            _ => panic!("no such step: {}", step.verb),
        }
        Vec::new()
    }

    fn of_origin(&mut self, what: &str, step: &Step) -> Vec<String> {
        let bytes = self.bytes(step);
        match what {
            "gets" => {
                let Some(asked) = self.origin.next() else {
                    return vec![NOTHING.to_owned()];
                };
                return self.asked(&asked);
            }
            "sends" => self.origin.send(&bytes),
            "always" => self.origin.always(bytes),
            "closes" => self.origin.close(),
            _ => panic!("no such step: {}", step.verb),
        }
        Vec::new()
    }

    fn asked(&self, asked: &Asked) -> Vec<String> {
        let mut lines = self.names.head(&asked.head);
        lines.extend(self.names.body(&asked.body));
        lines
    }

    fn of_publisher(&mut self, what: &str, step: &Step) -> Vec<String> {
        if what == "sends" {
            let mut client = Client::connect(self.to.publish, &self.names);
            client.send(&self.bytes(step));
            self.publisher = Some(client);
            return Vec::new();
        }
        let client = self.publisher.as_mut().expect("publisher sends, then gets");
        client.response()
    }

    fn of_sub(&mut self, what: &str, step: &Step) -> Vec<String> {
        if let Some(channel) = what.strip_prefix("waits ") {
            return something(Peer::connect(self.to.sub, "XPUB").wait(channel));
        }
        let parts: Vec<Vec<u8>> = step
            .sent
            .iter()
            .map(|line| text::bytes(&[format!("{line}\\")]))
            .collect();
        let channel = String::from_utf8_lossy(&parts[0]).into_owned();
        let peer = self.peer("XPUB");
        let waited = peer.wait(&channel);
        peer.send(&parts);
        something(waited)
    }

    fn of_command(&mut self, what: &str, step: &Step) -> Vec<String> {
        if what == "sends" {
            let bytes = self.bytes(step);
            self.peer("REQ").send(&[Vec::new(), bytes]);
            return Vec::new();
        }
        let answer = self.peer("REQ").message();
        self.names.body(&answer.unwrap_or_else(|| NOTHING.into()))
    }

    fn of_stats(&mut self, what: &str) -> Vec<String> {
        if what == "listens" {
            let reader = Reader::connect(self.to.stats, self.to.publish, &self.names);
            self.reader = reader;
            return something(self.reader.is_some());
        }
        let words = what
            .strip_prefix("gets ")
            .and_then(|what| what.split_once(' '));
        let (kind, value) = words.expect("gets KIND VALUE");
        match &mut self.reader {
            Some(reader) => reader.gets(kind, value, &self.names),
            None => something(false),
        }
    }

    fn peer(&mut self, kind: &'static str) -> &mut Peer {
        let to = match kind {
            "PUSH" => self.to.pull,
            "XPUB" => self.to.sub,
            _ => self.to.command,
        };
        let peer = self.peers.entry(kind);
        peer.or_insert_with(|| Peer::connect(to, kind))
    }

    fn unread(&mut self) -> Vec<String> {
        let mut out = Vec::new();
        for (name, client) in &mut self.clients {
            let lines = client.unread();
            if !lines.is_empty() {
                out.push(format!("(client {name} has got more)"));
                out.extend(lines);
            }
        }
        while let Some(asked) = self.origin.unread() {
            out.push("(the origin is asked more)".to_owned());
            out.extend(self.asked(&asked));
        }
        out
    }
}

/// Output of a step that waits: nothing, or the line for silence.
fn something(comes: bool) -> Vec<String> {
    match comes {
        true => Vec::new(),
        false => vec![NOTHING.to_owned()],
    }
}
