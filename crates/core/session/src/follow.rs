//! Operators who follow one user or one channel live, and what a shard has to tell them.
//!
//! Owns who follows what, on all shards, and the lines that the current turn of this one has for
//! them. Never: sends a line; the server publishes them when the turn is over, those of each
//! follower in a channel of its own. Most of the time nobody follows, and then a call costs one
//! look at a number.
//!
//! Rule for "full": one follower more than [`FOLLOWERS_MAX`] is refused; a line beyond
//! [`LINES_PER_S_MAX`] is left out and counted, and the follower is told how many were. Queue:
//! `followed`.

#![expect(
    clippy::disallowed_types,
    reason = "followers are locked when one comes or goes, and by a shard that learns of it"
)]

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use throng_types::json::{Object, append_number, append_payload};
use throng_types::{ChannelName, ConnId, Payload, ShardId, lock};

use crate::NodeKey;

/// Followers of a server at once. Queue: `followed`.
pub const FOLLOWERS_MAX: usize = 8;
/// Lines that one shard has for a follower between two calls of [`Follow::next_second`].
/// Queue: `followed`.
const LINES_PER_S_MAX: u32 = 100;
/// Bytes of the data that a line shows; of longer data it tells the length alone.
const DATA_BYTES_MAX: usize = 4096;
/// Beginning of the channels in which followers get their lines.
pub(crate) const FEED: &str = "throng:follow:";

const USERS: u64 = 1;
const CHANNELS: u64 = 2;

/// Target of a follower: a user or a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FollowTarget {
    /// A user by its name, which is not empty.
    User(Box<str>),
    Channel(ChannelName),
}

/// Connection of an operator who follows something.
struct FollowerEntry {
    conn: ConnId,
    /// Channel in which its lines are published.
    feed: ChannelName,
    target: FollowTarget,
    with_data: bool,
}

/// Followers of all shards.
#[derive(Default)]
pub struct Followers {
    /// Zero while nobody follows. Otherwise it rises with each change, above two bits that say what
    /// is followed.
    state: AtomicU64,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    changes: u64,
    begun: u64,
    /// Followers, the oldest first. Bound: [`FOLLOWERS_MAX`].
    entries: Vec<Arc<FollowerEntry>>,
}

impl Followers {
    fn change<R>(&self, change: impl FnOnce(&mut Known) -> R) -> R {
        let mut known = lock(&self.known);
        let result = change(&mut known);
        known.changes += 1;
        let kinds = known.entries.iter().map(|entry| match entry.target {
            FollowTarget::User(_) => USERS,
            FollowTarget::Channel(_) => CHANNELS,
        });
        let kinds = kinds.fold(0, |all, kind| all | kind);
        let state = if kinds == 0 {
            0
        } else {
            known.changes << 2 | kinds
        };
        self.state.store(state, Relaxed);
        result
    }
}

/// Event of a user, in a channel, or both.
#[derive(Clone, Copy, Debug, Default)]
pub struct FollowEvent<'a> {
    pub name: &'static str,
    pub conn: Option<ConnId>,
    /// User of the connection, empty if it has none.
    pub user: &'a str,
    /// Channel that it is about, empty if it is about none.
    pub channel: &'a str,
    /// Whether it is left out for those who follow the channel: one of many deliveries.
    pub is_for_user: bool,
}

/// A line for the follower who listens in a channel.
pub struct FollowLine {
    pub feed: ChannelName,
    /// Text of a JSON object without the time.
    pub text: Vec<u8>,
}

/// Count of one follower's lines on this shard.
struct Tally {
    entry: Arc<FollowerEntry>,
    /// Lines since the start: a gap in the numbers of a shard is a line that got lost on its way.
    number: u64,
    lines_this_second: u32,
    left_out: u64,
}

/// Followers, as one shard sees them, and its lines for them. Owned by its thread.
pub struct Follow {
    all: Arc<Followers>,
    shard: ShardId,
    /// State of all followers that `tallies` are of.
    state: Cell<u64>,
    /// Counts of their lines on this shard. Bound: [`FOLLOWERS_MAX`].
    tallies: RefCell<Vec<Tally>>,
    /// Lines of this turn. Queue: `followed`.
    lines: RefCell<Vec<FollowLine>>,
    has_lines: Cell<bool>,
}

impl Follow {
    #[must_use]
    pub fn new(all: Arc<Followers>, shard: ShardId) -> Self {
        Self {
            all,
            shard,
            state: Cell::default(),
            tallies: RefCell::default(),
            lines: RefCell::default(),
            has_lines: Cell::default(),
        }
    }

    /// Whether anybody follows anything.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.all.state.load(Relaxed) != 0
    }

    /// Whether anybody follows a user.
    #[inline]
    pub fn has_users(&self) -> bool {
        self.all.state.load(Relaxed) & USERS != 0
    }

    /// Whether anybody follows a channel.
    #[inline]
    pub fn has_channels(&self) -> bool {
        self.all.state.load(Relaxed) & CHANNELS != 0
    }

    /// Begins to follow something for a connection of this shard; returns the channel to listen in.
    /// `None` if there are as many followers as there may be.
    pub fn begin(
        &self,
        conn: ConnId,
        target: FollowTarget,
        with_data: bool,
    ) -> Option<ChannelName> {
        self.all.change(|known| {
            if known.entries.len() >= FOLLOWERS_MAX {
                return None;
            }
            known.begun += 1;
            let feed = ChannelName::new(&format!("{FEED}{}", known.begun)).ok()?;
            known.entries.push(Arc::new(FollowerEntry {
                conn,
                feed: feed.clone(),
                target,
                with_data,
            }));
            Some(feed)
        })
    }

    /// Notes that a connection has gone, which may have followed something.
    pub fn gone(&self, conn: ConnId) {
        // Others that go must not make every shard look again.
        if self.is_on() && self.connections().contains(&conn) {
            self.all
                .change(|known| known.entries.retain(|entry| entry.conn != conn));
        }
    }

    /// Connections of this shard that follow something.
    pub fn connections(&self) -> Vec<ConnId> {
        let known = lock(&self.all.known);
        let conns = known.entries.iter().map(|entry| entry.conn);
        conns.filter(|conn| conn.shard() == self.shard).collect()
    }

    /// Channels that are followed.
    pub fn channels(&self) -> Vec<ChannelName> {
        let known = lock(&self.all.known);
        let channels = known
            .entries
            .iter()
            .filter_map(|entry| match &entry.target {
                FollowTarget::Channel(channel) => Some(channel.clone()),
                FollowTarget::User(_) => None,
            });
        channels.collect()
    }

    /// Writes a line for each follower whom an event concerns. `more` appends what is told beside
    /// the event itself, and learns whether the follower may see data.
    #[cold]
    pub fn tell(
        &self,
        event: &FollowEvent<'_>,
        node: &NodeKey,
        more: impl Fn(&mut Object<'_>, bool),
    ) {
        self.learn();
        for tally in &mut *self.tallies.borrow_mut() {
            let concerns = match &tally.entry.target {
                FollowTarget::User(user) => **user == *event.user,
                FollowTarget::Channel(channel) => {
                    !event.is_for_user && channel.as_str() == event.channel
                }
            };
            if !concerns {
                continue;
            }
            if tally.lines_this_second >= LINES_PER_S_MAX {
                tally.left_out += 1;
                continue;
            }
            tally.lines_this_second += 1;
            let with_data = tally.entry.with_data;
            self.push(tally, event.name, |line| {
                line.text_if_any("user", event.user);
                if let Some(conn) = event.conn {
                    line.text("client", node.client_id(conn).as_str());
                    line.text("connection", &conn.to_string());
                }
                line.text_if_any("channel", event.channel);
                more(line, with_data);
            });
        }
    }

    /// Tells every follower how many refusals nobody has noted.
    pub fn tell_suppressed(&self, refusals: u64) {
        if self.is_on() {
            self.learn();
            for tally in &mut *self.tallies.borrow_mut() {
                self.push(tally, "refusals_left_out", |line| {
                    line.number("lines", refusals);
                });
            }
        }
    }

    /// Makes room for the lines of another second, and tells followers what the last one left out.
    #[inline]
    pub fn next_second(&self) {
        if self.all.state.load(Relaxed) | self.state.get() != 0 {
            self.end_second();
        }
    }

    #[cold]
    fn end_second(&self) {
        self.learn();
        for tally in &mut *self.tallies.borrow_mut() {
            tally.lines_this_second = 0;
            let left_out = std::mem::take(&mut tally.left_out);
            if left_out > 0 {
                self.push(tally, "left_out", |line| line.number("lines", left_out));
            }
        }
    }

    /// Whether there are lines to be published.
    #[inline]
    pub fn has_lines(&self) -> bool {
        self.has_lines.get()
    }

    /// Takes the lines since the last call.
    pub fn take(&self) -> Vec<FollowLine> {
        self.has_lines.set(false);
        self.lines.take()
    }

    /// Looks whether others follow now.
    fn learn(&self) {
        let state = self.all.state.load(Relaxed);
        if self.state.replace(state) == state {
            return;
        }
        let known = lock(&self.all.known);
        let mut tallies = self.tallies.borrow_mut();
        let is_known = |tallies: &[Tally], entry| {
            let mut known = tallies.iter();
            known.any(|tally| Arc::ptr_eq(&tally.entry, entry))
        };
        tallies.retain(|tally| { known.entries.iter() }.any(|it| Arc::ptr_eq(it, &tally.entry)));
        for entry in &known.entries {
            if !is_known(&tallies, entry) {
                tallies.push(Tally {
                    entry: entry.clone(),
                    number: 0,
                    lines_this_second: 0,
                    left_out: 0,
                });
            }
        }
    }

    fn push(&self, tally: &mut Tally, name: &str, write: impl FnOnce(&mut Object<'_>)) {
        tally.number += 1;
        let mut text = Vec::new();
        Object::append(&mut text, |line| {
            line.text("event", name);
            line.number("shard", self.shard.0);
            line.number("number", tally.number);
            write(line);
        });
        let feed = tally.entry.feed.clone();
        self.lines.borrow_mut().push(FollowLine { feed, text });
        self.has_lines.set(true);
    }
}

impl FollowLine {
    /// Puts the time in front, in Unix milliseconds.
    #[must_use]
    pub fn at(self, unix_ms: u64) -> Vec<u8> {
        let mut text = b"{\"time_unix_ms\":".to_vec();
        append_number(unix_ms, &mut text);
        text.push(b',');
        text.extend_from_slice(self.text.get(1..).unwrap_or_default());
        text
    }
}

/// Appends the length of data, and the data itself for those who may see it.
pub fn write_followed_data(line: &mut Object<'_>, payload: &Payload, with_data: bool) {
    line.number("bytes", payload.bytes.len());
    if with_data && payload.bytes.len() <= DATA_BYTES_MAX {
        append_payload(payload, line.value("data"));
    }
}

#[cfg(test)]
mod tests {
    use throng_types::PayloadKind;

    use super::*;

    const OTHER: ShardId = ShardId(1);

    fn shards() -> [Follow; 2] {
        let all = Arc::<Followers>::default();
        [ShardId(0), OTHER].map(|shard| Follow::new(all.clone(), shard))
    }

    fn conn(index: u32) -> ConnId {
        ConnId::new(ShardId(0), index, 1)
    }

    fn user(name: &str) -> FollowTarget {
        FollowTarget::User(name.into())
    }

    fn channel(name: &str) -> FollowTarget {
        FollowTarget::Channel(ChannelName::new(name).expect("a good name"))
    }

    fn tell(follow: &Follow, user: &str, channel: &str, is_for_user: bool) {
        let event = FollowEvent {
            name: "got",
            conn: Some(ConnId::new(OTHER, 5, 1)),
            user,
            channel,
            is_for_user,
        };
        let payload = Payload {
            bytes: b"[1]".to_vec().into(),
            kind: PayloadKind::Json,
        };
        follow.tell(&event, &NodeKey::new([7; 32]), |line, with_data| {
            write_followed_data(line, &payload, with_data);
        });
    }

    fn taken(follow: &Follow) -> Vec<String> {
        let lines = follow.take().into_iter();
        let texts = lines.map(|line| String::from_utf8(line.at(9)).expect("UTF-8"));
        texts.collect()
    }

    #[test]
    fn a_follower_on_any_shard_is_told_what_concerns_it_and_nothing_else() {
        let [here, there] = shards();
        assert!(!there.is_on());
        let feed = here.begin(conn(1), user("ann"), true).expect("room");
        here.begin(conn(2), channel("news"), false).expect("room");
        assert!(there.has_users() && there.has_channels());
        for (user, channel, is_for_user, lines) in [
            ("ann", "chat", false, 1),
            ("ann", "news", false, 2),
            ("ann", "news", true, 1),
            ("bob", "news", true, 0),
            ("bob", "news", false, 1),
            ("", "", false, 0),
        ] {
            tell(&there, user, channel, is_for_user);
            let case = format!("{user} {channel} {is_for_user}");
            assert_eq!(there.take().len(), lines, "{case}");
        }
        tell(&there, "ann", "", false);
        let line = there.take().pop().expect("a line");
        assert_eq!(line.feed, feed);
        let client = NodeKey::new([7; 32]).client_id(ConnId::new(OTHER, 5, 1));
        assert_eq!(
            String::from_utf8(line.at(9)).expect("UTF-8"),
            format!(
                "{{\"time_unix_ms\":9,\"event\":\"got\",\"shard\":1,\"number\":4,\
                 \"user\":\"ann\",\"client\":\"{}\",\"connection\":\"1/5#1\",\"bytes\":3,\
                 \"data\":[1]}}",
                client.as_str()
            )
        );
        tell(&there, "bob", "news", false);
        let line = taken(&there).pop().expect("a line");
        assert!(!line.contains("data"), "{line}");
        for (gone, users, channels) in [(1, false, true), (7, false, true), (2, false, false)] {
            here.gone(conn(gone));
            assert_eq!(
                (there.has_users(), there.has_channels()),
                (users, channels),
                "{gone}"
            );
        }
        tell(&there, "ann", "news", false);
        assert!(!there.has_lines());
    }

    #[test]
    fn so_many_follow_and_each_gets_so_many_lines_a_second() {
        let [here, there] = shards();
        for index in 0..FOLLOWERS_MAX as u32 {
            let feed = here.begin(conn(index), user("ann"), false);
            assert!(feed.is_some(), "{index}");
        }
        assert!(here.begin(conn(99), user("ann"), false).is_none());
        assert_eq!(here.connections().len(), FOLLOWERS_MAX);
        assert!(there.connections().is_empty());
        here.gone(conn(0));
        let feed = here.begin(conn(99), user("bob"), false).expect("room");
        // Whoever comes next does not listen where another has.
        assert_eq!(feed.as_str(), format!("{FEED}{}", FOLLOWERS_MAX + 1));
        for _ in 0..LINES_PER_S_MAX + 7 {
            tell(&there, "bob", "", false);
        }
        assert_eq!(there.take().len(), LINES_PER_S_MAX as usize);
        there.next_second();
        let told = taken(&there);
        assert_eq!(told.len(), 1);
        assert!(
            told[0].contains("\"event\":\"left_out\"") && told[0].contains("\"lines\":7"),
            "{told:?}"
        );
        tell(&there, "bob", "", false);
        assert_eq!(there.take().len(), 1);
        there.next_second();
        assert!(!there.has_lines());
        there.tell_suppressed(3);
        assert_eq!(there.take().len(), FOLLOWERS_MAX);
    }
}
