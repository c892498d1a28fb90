//! Statistics, as a SUB socket receives them.
//!
//! What is not compared: the order of fields, random names (`from`, `id`), and the numbers of a
//! report, which depend on when it is made.

use std::net::SocketAddr;

use throng_grip_tests::Peer;
use throng_testkit::Deadline;

use crate::http::{NOTHING, SILENCE};
use crate::normal::Names;

/// Fields whose value is another one each time.
const RANDOM: [&str; 2] = ["from", "id"];

/// A reader of everything.
pub(crate) struct Reader {
    peer: Peer,
    /// Packets that were not asked for yet.
    heard: Vec<Packet>,
}

struct Packet {
    kind: String,
    /// In the order of their names.
    fields: Vec<(String, String)>,
}

impl Reader {
    /// Connects, and publishes until packets come: a publisher is not told when a subscription
    /// stands. A publication without subscribers is reported. None if nothing comes.
    pub(crate) fn connect(to: SocketAddr, publish: SocketAddr, names: &Names) -> Option<Self> {
        let mut peer = Peer::connect(to, "SUB");
        peer.send(&[vec![1]]);
        let mut reader = Self {
            peer,
            heard: Vec::new(),
        };
        let deadline = Deadline::default();
        while !deadline.left().is_zero() {
            let item = r#"{"channel": "nobody", "http-stream": {"content": "x"}}"#;
            crate::client::publish(publish, &[item.to_owned()], names);
            if reader.peer.is_there() {
                return Some(reader);
            }
        }
        None
    }

    /// The first packet of a kind that has this among its values. Others, which come for ever, do
    /// not make the wait longer.
    pub(crate) fn gets(&mut self, kind: &str, value: &str, names: &Names) -> Vec<String> {
        let is_meant = |packet: &Packet| {
            packet.kind == kind && packet.fields.iter().any(|(_, known)| known == value)
        };
        let found = self.heard.iter().position(is_meant);
        let packet = match found {
            Some(at) => self.heard.remove(at),
            None => {
                let heard = &mut self.heard;
                let meant = self.peer.find(Deadline::after(SILENCE), |message| {
                    let packet = Packet::read(message);
                    let is_meant = is_meant(&packet);
                    heard.extend((!is_meant).then_some(packet));
                    is_meant
                });
                match meant {
                    Some(message) => Packet::read(&message),
                    None => return vec![NOTHING.to_owned()],
                }
            }
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

/// Parses a tnetstring. Returns its content and the rest.
fn element(text: &str) -> Option<(&str, &str)> {
    let (size, rest) = text.split_once(':')?;
    let size = size.parse().ok()?;
    let (data, rest) = rest.split_at_checked(size)?;
    Some((data, rest.get(1..)?))
}
