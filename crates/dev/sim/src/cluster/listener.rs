//! A client of Appwrite, on one node at a time, and what it must hear.
//!
//! It hears the events of its channels that it may hear, once and in order. Positions of one epoch
//! count events without a gap, whoever hears them: so what is lost in silence is seen. Where events
//! may have been lost, an epoch ends; where nothing fails, none does, and nothing is missing.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};
use throng_ws::{Masking, Opcode, encode_message, encode_pong, handshake};

use super::appwrite::{Appwrite, CHANNELS, Event, SECRET, USERS};
use crate::client::{Message, Shape, Wire};
use crate::net::Net;
use crate::node::Node;
use crate::setup::PORT_CLIENT;

/// Everything else in a run, for clients of Appwrite.
pub(super) struct Around<'a> {
    pub(super) net: &'a Net,
    pub(super) nodes: &'a [Node],
    pub(super) appwrite: &'a Appwrite,
    /// Number of the event at offset zero of each epoch.
    pub(super) epochs: &'a mut BTreeMap<u64, i64>,
    pub(super) kernel_bytes: usize,
}

#[derive(Default)]
struct Link {
    conn: usize,
    node: usize,
    /// The process that it connected to.
    process: usize,
    wire: Wire,
    is_open: bool,
    is_over: bool,
    /// The epoch that it asked for more of.
    asked: Option<u64>,
    epoch: Option<u64>,
    last: Option<usize>,
    /// The first event that must come unless it has.
    due_from: usize,
    /// Events before this one come as its present roles allow them.
    recovers_to: usize,
    has_presence: bool,
    /// Presences that were not answered.
    unanswered: usize,
}

pub(super) struct Listener {
    number: usize,
    /// Which of Appwrite's users it is.
    user: Option<usize>,
    /// Numbers of its channels.
    channels: Vec<usize>,
    /// Whether it asks for positions.
    has_positions: bool,
    /// Sets the presence of its user, as nobody else does.
    sets_presence: bool,
    position: Option<(u64, u64)>,
    link: Option<Link>,
}

impl Listener {
    /// `others` are those before it.
    pub(super) fn new(others: &[Self], net: &Net) -> Self {
        let user = net.percent(70).then(|| net.below(USERS));
        let mut channels = net.pick(&[&[0][..], &[1], &[0, 1]]).to_vec();
        channels.extend(user.map(|_| SECRET));
        Self {
            number: others.len(),
            sets_presence: user.is_some() && others.iter().all(|other| other.user != user),
            user,
            channels,
            has_positions: net.percent(70),
            position: None,
            link: None,
        }
    }

    fn who(&self) -> String {
        let conn = self.link.as_ref().map(|link| link.conn);
        format!("listener {} (u{:?}, {conn:?})", self.number, self.user)
    }

    pub(super) fn conn(&self) -> Option<usize> {
        self.link.as_ref().map(|link| link.conn)
    }

    /// Whether nothing is awaited on its connection.
    pub(super) fn is_settled(&self) -> bool {
        { self.link.as_ref() }.is_some_and(|link| link.is_open && link.unanswered == 0)
    }

    /// Whether its socket has set a presence.
    pub(super) fn has_presence(&self) -> bool {
        self.link.as_ref().is_some_and(|link| link.has_presence)
    }

    /// Returns the id of its presence.
    pub(super) fn presence(&self) -> String {
        format!("p{}", self.number)
    }

    pub(super) fn connect(&mut self, around: &Around<'_>) {
        let (net, node) = (around.net, around.net.below(around.nodes.len()));
        let kernels = around.nodes[node].kernels();
        let conn = net.connect_to(kernels.clone(), PORT_CLIENT, around.kernel_bytes);
        let mut target = "/v1/realtime?project=sim".to_owned();
        for &channel in &self.channels {
            target.push_str("&channels[]=");
            target.push_str(CHANNELS[channel]);
        }
        if self.has_positions {
            target.push_str("&recover=");
            if let Some((epoch, offset)) = self.position {
                let epoch = throng_types::Epoch(epoch);
                let _ = write!(target, "{epoch}-{offset}");
            }
        }
        note!(
            net,
            "{} connects to node {node} on {conn}: {target}",
            self.who()
        );
        let key = net.key();
        let cookie = self.user.map(|user| format!("a_session_sim=u{user}"));
        let cookie = cookie.as_ref().map(|cookie| ("Cookie", cookie.as_str()));
        let mut out = Vec::new();
        handshake::encode_request("sim", &target, key, &Vec::from_iter(cookie), &mut out);
        net.client_send(conn, &out);
        self.link = Some(Link {
            conn,
            node,
            process: kernels.start,
            wire: Wire::new(key),
            asked: self.position.map(|(epoch, _)| epoch),
            ..Link::default()
        });
    }

    pub(super) fn leave(&mut self, net: &Net) {
        if let Some(link) = self.link.take() {
            note!(net, "listener {} leaves", self.number);
            net.client_leaves(link.conn, net.percent(50));
        }
    }

    /// Sets the presence of its user.
    pub(super) fn act(&mut self, net: &Net) {
        let who = self.who();
        let Some(link) = self.link.as_mut().filter(|link| link.is_open) else {
            return;
        };
        if self.sets_presence && link.unanswered < 3 {
            link.unanswered += 1;
            link.has_presence = true;
            let id = format!("p{}", self.number);
            let words = json!({"type": "presence", "data": {"status": "here", "presenceId": id}});
            note!(net, "{who} says {words}");
            let words = words.to_string();
            say(net, link.conn, |masking, out| {
                encode_message(masking, Opcode::Text, words.as_bytes(), out);
            });
        }
    }

    /// Reads; whether anything came.
    pub(super) fn read(&mut self, bytes_max: usize, around: &mut Around<'_>) -> bool {
        let who = self.who();
        let Some(link) = &mut self.link else {
            return false;
        };
        let Some(mut bytes) = around.net.client_recv(link.conn, bytes_max) else {
            let is_excused = link.is_over || !around.appwrite.is_good || link.has_moved(around);
            let was_lost = around.net.was_aborted(link.conn);
            assert!(is_excused || was_lost, "{who} sees an end without a word");
            self.leave(around.net);
            return true;
        };
        for message in link.wire.take(&mut bytes, Shape::Messages, "") {
            note!(around.net, "{who} gets {}", message.shown());
            self.message(message, around);
        }
        !bytes.is_empty()
    }

    fn message(&mut self, message: Message, around: &mut Around<'_>) {
        let who = self.who();
        let Some(link) = &mut self.link else {
            return;
        };
        match message {
            Message::Begun => {}
            Message::Ping(payload) => say(around.net, link.conn, |masking, out| {
                encode_pong(masking, &payload, out);
            }),
            // The node drains, or the clock has leapt.
            Message::Refused(503 | 408) => link.is_over = true,
            Message::Close(_) => {
                let is_excused = !around.appwrite.is_good || link.has_moved(around);
                assert!(link.is_over || is_excused, "{who} is closed");
                self.leave(around.net);
            }
            Message::Data { data, .. } => {
                let words: Value = serde_json::from_slice(&data).expect("JSON");
                self.hears(&words, around);
            }
            other => panic!("{who} gets {other:?}"),
        }
    }

    fn hears(&mut self, words: &Value, around: &mut Around<'_>) {
        let who = self.who();
        let link = self.link.as_mut().expect("it reads");
        let data = &words["data"];
        match words["type"].as_str() {
            Some("connected") => {
                assert!(!link.is_open, "{who}: first words, and once");
                link.is_open = true;
                let user = self.user.map(|user| format!("u{user}"));
                let told = data["user"]["$id"].as_str();
                assert_eq!(told, user.as_deref(), "{who}: {words}");
                link.due_from = around.appwrite.events.len();
            }
            Some("recovery") => {
                let position = position(&data["position"]);
                let (epoch, _) = position.expect("a position");
                link.epoch = Some(epoch);
                if data["recovered"] == true {
                    let what = "a client of Appwrite comes back and misses nothing";
                    around.net.count(what);
                    link.recovers_to = around.appwrite.events.len();
                    let (asked, offset) = self.position.expect("it asked for one");
                    assert_eq!(asked, epoch, "{who}: {words}");
                    if let Some(base) = around.epochs.get(&epoch) {
                        let last = base + offset as i64;
                        link.due_from = link.due_from.min((last + 1) as usize);
                        link.last = usize::try_from(last).ok();
                    }
                } else {
                    if link.asked.is_some() {
                        around.net.count("a client of Appwrite is told of a gap");
                    }
                    let is_aged = !around.appwrite.is_good;
                    assert!(is_aged || link.asked != Some(epoch), "{who}: {words}");
                }
                self.position = position;
            }
            Some("event") => self.event(data, around),
            Some("response") => {
                assert_eq!(data["to"], "presence", "{who}: {words}");
                assert!(link.unanswered > 0, "{who}: {words}");
                link.unanswered -= 1;
                around.net.count("a presence is confirmed");
            }
            Some("error") => {
                // A user who changes again and again while it is asked about is not known.
                let is_unsure = !link.is_open && around.appwrite.changes(self.user) > 0;
                let is_excused = !around.appwrite.is_good || link.has_moved(around);
                assert!(is_excused || is_unsure, "{who}: {words}");
                link.unanswered = link.unanswered.saturating_sub(1);
                link.is_over = true;
            }
            _ => panic!("{who}: words that nobody knows: {words}"),
        }
    }

    fn event(&mut self, data: &Value, around: &mut Around<'_>) {
        let who = self.who();
        let link = self.link.as_mut().expect("it reads");
        assert!(link.is_open, "{who}: {data}");
        let n = data["payload"]["n"].as_u64().expect("a number") as usize;
        let Event::Told(channel, _) = &around.appwrite.events[n] else {
            panic!("{who} hears of a change: {data}");
        };
        assert_eq!(data["channels"], json!([CHANNELS[*channel]]), "{who}");
        assert!(self.channels.contains(channel), "{who} hears {data}");
        let (may_hear, _) = around.appwrite.concerns(n, self.user);
        let may_hear = may_hear || n < link.recovers_to;
        assert!(may_hear, "{who} hears the secret {n}");
        let last = link.last;
        assert!(
            last.is_none_or(|last| last < n),
            "{who}: {n} behind {last:?}"
        );
        let place = position(&data["position"]);
        assert_eq!(place.is_some(), self.has_positions, "{who}: {data}");
        let mut is_whole = around.appwrite.is_good;
        if let Some((epoch, offset)) = place {
            let base = n as i64 - offset as i64;
            let known = *around.epochs.entry(epoch).or_insert(base);
            assert_eq!(known, base, "{who}: {n} is at {offset}");
            is_whole |= link.epoch.replace(epoch) == Some(epoch);
            self.position = place;
        }
        around.net.count("an event of Appwrite comes");
        if *channel == SECRET {
            let what = "an event of Appwrite comes that not everybody may hear";
            around.net.count(what);
        }
        let due = link.due_from..n;
        (link.due_from, link.last) = (link.due_from.max(n + 1), Some(n));
        if is_whole {
            self.has_all(due, around);
        }
    }

    /// Checks that it has all that it must have of these events.
    fn has_all(&self, mut due: std::ops::Range<usize>, around: &Around<'_>) {
        let is_due = |n: &usize| {
            let Event::Told(channel, _) = &around.appwrite.events[*n] else {
                return false;
            };
            // Without a gap in events there may be one in what was known of users.
            let is_sure = *channel != SECRET || around.appwrite.is_good;
            let (_, must_hear) = around.appwrite.concerns(*n, self.user);
            is_sure && must_hear && self.channels.contains(channel)
        };
        let missing = due.find(is_due);
        assert_eq!(missing, None, "{} misses an event", self.who());
    }

    /// All has come to rest: it has what it must have.
    pub(super) fn settle(&self, around: &Around<'_>) {
        if let Some(link) = self.link.as_ref().filter(|link| link.is_open) {
            self.has_all(link.due_from..around.appwrite.events.len(), around);
            let who = self.who();
            assert_eq!(link.unanswered, 0, "{who}: presences are not answered");
        }
    }

    /// Allows for everything before now to be missing.
    pub(super) fn forgives(&mut self, around: &Around<'_>) {
        if let Some(link) = &mut self.link {
            link.due_from = around.appwrite.events.len();
        }
    }
}

impl Link {
    /// Whether its node is another process by now: what could not move had to end.
    fn has_moved(&self, around: &Around<'_>) -> bool {
        around.nodes[self.node].kernels().start != self.process
    }
}

fn say(net: &Net, conn: usize, encode: impl FnOnce(Masking, &mut Vec<u8>)) {
    let mut out = Vec::new();
    encode(net.masking(), &mut out);
    net.client_send(conn, &out);
}

/// Reads a position as `EPOCH-OFFSET`.
fn position(text: &Value) -> Option<(u64, u64)> {
    let (epoch, offset) = text.as_str()?.split_once('-')?;
    let epoch = throng_types::Epoch::parse(epoch)?;
    Some((epoch.0, offset.parse().ok()?))
}
