//! Statistics, as a SUB socket hears them.
//!
//! What is not compared: the order of fields, random names (`from`, `id`), and the numbers of a
//! report, which depend on when it is made.

use std::net::SocketAddr;

use throng_grip_tests::Peer;

use crate::http::NOTHING;
use crate::normal::Names;

/// Fields whose value is another one each time.
const RANDOM: [&str; 2] = ["from", "id"];
/// Items that are published until a reader hears anything at all.
const TRIES: usize = 100;

/// A reader of everything.
pub(crate) struct Reader {
    peer: Peer,
    /// Packets that nobody has asked for yet.
    heard: Vec<Packet>,
}

struct Packet {
    kind: String,
    /// In the order of their names.
    fields: Vec<(String, String)>,
}

impl Reader {
    /// Connects, and waits until packets come. A publication without subscribers is reported.
    pub(crate) fn connect(to: SocketAddr, publish: SocketAddr, names: &Names) -> Self {
        let mut peer = Peer::connect(to, "SUB");
        peer.send(&[vec![1]]);
        let mut reader = Self {
            peer,
            heard: Vec::new(),
        };
        for _ in 0..TRIES {
            let item = r#"{"channel": "nobody", "http-stream": {"content": "x"}}"#;
            crate::publisher::publish(publish, &[item.to_owned()], names);
            if reader.peer.is_there() {
                return reader;
            }
        }
        reader
    }

    /// The first packet of a kind that has this among its values.
    pub(crate) fn gets(&mut self, kind: &str, value: &str, names: &Names) -> Vec<String> {
        let is_meant = |packet: &Packet| {
            packet.kind == kind && packet.fields.iter().any(|(_, known)| known == value)
        };
        let found = self.heard.iter().position(is_meant);
        let packet = match found {
            Some(at) => self.heard.remove(at),
            None => loop {
                let Some(message) = self.peer.message() else {
                    return vec![NOTHING.to_owned()];
                };
                let packet = Packet::read(&message);
                if is_meant(&packet) {
                    break packet;
                }
                self.heard.push(packet);
            },
        };
        packet.lines(names)
    }
}

impl Packet {
    fn read(message: &[u8]) -> Self {
        let message = String::from_utf8_lossy(message);
        let (kind, rest) = message.split_once(" T").expect("KIND T");
        let (mut inside, _) = element(rest).expect("an object");
        let mut fields = Vec::new();
        while let Some((name, after)) = element(inside) {
            let (value, after) = element(after).expect("a value");
            fields.push((name.to_owned(), value.to_owned()));
            inside = after;
        }
        fields.sort();
        Self {
            kind: kind.to_owned(),
            fields,
        }
    }

    fn lines(&self, names: &Names) -> Vec<String> {
        let mut out = vec![format!("{}\\", self.kind)];
        for (name, value) in &self.fields {
            let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
            let hidden = RANDOM.contains(&name.as_str()) || self.kind == "report" && is_number;
            let value = if hidden { "*" } else { value.as_str() };
            let line = format!("{name}: {value}");
            out.push(names.body(line.as_bytes()).concat());
        }
        out
    }
}

/// What a tnetstring holds, and what follows it.
fn element(text: &str) -> Option<(&str, &str)> {
    let (size, rest) = text.split_once(':')?;
    let size = size.parse().ok()?;
    let (data, rest) = rest.split_at_checked(size)?;
    Some((data, rest.get(1..)?))
}
