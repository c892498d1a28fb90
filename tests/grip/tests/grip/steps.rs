//! Steps of the stories of GRIP, beside those that all dialogues have: origins, publishers and
//! ZeroMQ. `docs/TESTING.md` lists them.

use std::collections::HashMap;
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use throng_grip_tests::Peer;
use throng_testkit::{
    Outcome, Steps, Story, free_port, javascript_of, python_of, request, unescaped,
};

use crate::origin::{self, Origin, accept};

/// Things of a story of GRIP beside those of others.
#[derive(Default)]
struct Grip {
    origins: HashMap<String, Origin>,
    listeners: HashMap<String, TcpListener>,
    peers: HashMap<String, Peer>,
    /// A publisher of numbers, with what stops it.
    numbers: Option<(Arc<AtomicBool>, JoinHandle<u32>)>,
    /// Last number that it published.
    last: u32,
}

/// Steps of a story, whose variables are set.
pub(crate) fn steps(story: &mut Story) -> Option<Box<dyn Steps>> {
    let python = python_of("grip-python", "tests/grip/python");
    story.set("PYTHON", python.display().to_string());
    let scripts = concat!(env!("CARGO_MANIFEST_DIR"), "/python");
    story.set("SCRIPTS", scripts.to_owned());
    story.set("GRIP", section());
    Some(Box::new(Grip::default()))
}

/// Section `[grip]` with ports for publishers.
pub(crate) fn section() -> String {
    let zeromq = ["pull", "sub", "command"].map(|it| format!("zmq_{it} = \"tcp://127.0.0.1:0\"\n"));
    let ports = zeromq.concat();
    format!("[grip]\nhttp_publish = \"127.0.0.1:0\"\n{ports}sig_key = \"changeme\"")
}

/// Publishes items by HTTP.
fn publish(to: SocketAddr, items: &str) -> Outcome {
    let body = format!("{{\"items\": [{items}]}}");
    let answer = request(to, "POST", "/publish/", &[], &body);
    if answer.status == 200 {
        Ok(())
    } else {
        Err(format!("{answer:?}"))
    }
}

/// An item with the same text for streams, responses and WebSockets.
fn item(channel: &str, text: &str, more: &str) -> String {
    format!(
        r#"{{"channel": "{channel}", {more} "formats": {{"http-stream": {{"content": "{text}"}},
        "http-response": {{"body": "{text}"}}, "ws-message": {{"content": "{text}"}}}}}}"#
    )
}

/// Splits off the first word.
fn word(text: &str) -> (&str, &str) {
    text.split_once(' ').unwrap_or((text, ""))
}

impl Steps for Grip {
    fn step(&mut self, story: &mut Story, verb: &str, rest: &str, block: &str) -> Option<Outcome> {
        let (first, more) = word(rest);
        match verb {
            "origin" => {
                let origin = origin::start(block);
                story.set(rest, origin.address().to_string());
                self.origins.insert(rest.to_owned(), origin);
            }
            "listener" => {
                let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
                let address = listener.local_addr().expect("its address");
                story.set(rest, address.to_string());
                self.listeners.insert(rest.to_owned(), listener);
            }
            "accept" => {
                let listener = self.listeners.remove(more).expect("a step `listener`");
                story.keep_wire(first, accept(&listener));
            }
            "item" => {
                let (text, fields) = more.split_once(" | ").unwrap_or((more, ""));
                let to = story.port("http_publish");
                return Some(publish(to, &item(first, text, fields)));
            }
            "items" => return Some(publish(story.port("http_publish"), rest)),
            "numbers" => self.numbers = Some(numbers(story.port("http_publish"))),
            "numbers-end" => {
                let (stop, publisher) = self.numbers.take().expect("a step `numbers`");
                stop.store(true, Ordering::Relaxed);
                self.last = publisher.join().expect("it was answered all the time");
                assert!(self.last > 1, "nothing was published meanwhile");
                story.set("LAST", self.last.to_string());
            }
            "all-numbers" => {
                let got = story.wire(first).through(&format!("<{}>", self.last));
                let wanted: Vec<u32> = (2..=self.last).collect();
                if numbers_in(&got) != wanted {
                    return Some(Err(got));
                }
            }
            "date-of" => {
                let head = story.wire(first).head();
                let dates = head.headers.iter().filter(|(name, _)| name == "date");
                let dates: Vec<&str> = dates.map(|(_, date)| date.as_str()).collect();
                if dates.len() != 1 || !story.field_fits(Some(dates[0]), more) {
                    return Some(Err(format!("{dates:?}")));
                }
            }
            "forge" => {
                let (message, _) = more.rsplit_once('.').expect("three parts");
                story.set(first, format!("{message}.AAAA"));
            }
            "free-port" => story.set(rest, format!("127.0.0.1:{}", free_port())),
            "javascript" => {
                let folder = javascript_of("grip-js", "tests/grip/js");
                // Node looks for packages beside the script.
                let script = concat!(env!("CARGO_MANIFEST_DIR"), "/js/publish.mjs");
                fs::copy(script, folder.join("publish.mjs")).expect("a copy below target");
                story.set("JAVASCRIPT", folder.display().to_string());
            }
            "zeromq" => {
                let (kind, option) = word(more);
                let peer = Peer::connect(story.port(option), kind);
                self.peers.insert(first.to_owned(), peer);
            }
            name => {
                if let Some(origin) = self.origins.get(name) {
                    return Some(origin_step(origin, story, rest));
                }
                return Some(peer_step(self.peers.get_mut(name)?, first, more));
            }
        }
        Some(Ok(()))
    }
}

impl Drop for Grip {
    /// Ends the publisher of a story that failed.
    fn drop(&mut self) {
        if let Some((stop, _)) = &self.numbers {
            stop.store(true, Ordering::Relaxed);
        }
    }
}

fn origin_step(origin: &Origin, story: &mut Story, step: &str) -> Outcome {
    let (verb, rest) = word(step);
    match verb {
        "asked" => {
            let (count, part) = word(rest);
            let found = origin::asked(origin, part).len();
            if found >= count.parse().expect("a count") {
                Ok(())
            } else {
                Err(format!("{found} requests"))
            }
        }
        "got" => {
            let mut checks = rest.split(" && ");
            let part = checks.next().unwrap_or_default();
            let (_, head) = origin::asked(origin, part).pop().ok_or("no such request")?;
            for check in checks {
                let (name, wanted) = check.split_once(": ").expect("a field");
                if !story.field_fits(head.header(name), wanted) {
                    return Err(format!("not {check}: {head:?}"));
                }
            }
            Ok(())
        }
        "release" => {
            origin.release();
            Ok(())
        }
        other => panic!("no step of an origin: {other}"),
    }
}

fn peer_step(peer: &mut Peer, verb: &str, rest: &str) -> Outcome {
    match verb {
        "send" => {
            peer.send(&[unescaped(rest)]);
            Ok(())
        }
        "gets" => {
            let message = peer.message().ok_or("nothing comes")?;
            let message = String::from_utf8_lossy(&message).into_owned();
            if message.contains(rest) {
                Ok(())
            } else {
                Err(message)
            }
        }
        other => panic!("no step of a ZeroMQ socket: {other}"),
    }
}

/// Publishes `<2>`, `<3>` and so on to the channel `a` until it is told to stop, each with an id
/// and that of the one before; gives the last number.
fn numbers(to: SocketAddr) -> (Arc<AtomicBool>, JoinHandle<u32>) {
    let stop = Arc::new(AtomicBool::new(false));
    let told = stop.clone();
    let publisher = thread::spawn(move || {
        let mut last = 1;
        while !told.load(Ordering::Relaxed) {
            last += 1;
            let before = last - 1;
            let ids = format!("\"id\": \"{last}\", \"prev-id\": \"{before}\",");
            publish(to, &item("a", &format!("<{last}>"), &ids)).expect("an answer");
        }
        last
    });
    (stop, publisher)
}

/// The numbers in angle brackets.
fn numbers_in(text: &str) -> Vec<u32> {
    let pieces = text.split('<').skip(1);
    let pieces = pieces.filter_map(|piece| piece.split_once('>')?.0.parse().ok());
    pieces.collect()
}
