//! The broker on NATS: what a node knows, its requests to JetStream and what follows their answers.
//!
//! Never: rules about channels.
//!
//! Invariant: a [`Stream`] is known while something is asked of it, and for a while after.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use throng_broker::{Announced, ChannelMap, ChannelMember, Draft, Present};
use throng_nats_link::{CredentialsFile, ServerAddress};
use throng_nats_protocol::write;
use throng_remote::{
    Core, LEASE_MS, NodeChannels as _, NodeIo, PendingSubscribe, Purpose, Query, RemoteOptions,
    RequestId, blob,
};
use throng_types::{ChannelName, Publisher};

use crate::api::{self, ChannelMessage, StoredMessage, StreamSpec};
use crate::batch::{Known, PublishedAt};
use crate::link::{Message, NatsServer};
use crate::names::Names;
use crate::record::{Record, State};
use crate::seeds::Seeds;
use crate::walk::Walk;

/// Milliseconds until a request without a receiver is sent again.
const AGAIN_MS: u64 = 50;

/// Publications with keys that a channel without history keeps, so that it is known whether an
/// older one has happened.
const ONCE_MAX: u64 = 16;

#[derive(Clone)]
pub struct NatsOptions {
    /// `nats://user:password@host:port`, or `nats://token@host`; more servers of the same cluster
    /// behind commas. With `tls://` a server that does not speak TLS is not spoken to.
    pub url: String,
    /// Credentials in place of the URL's user.
    pub credentials: Option<CredentialsFile>,
    /// Number of servers that keep each message, from 1 to 5.
    pub replicas: u8,
    pub remote: RemoteOptions,
}

/// The broker on NATS, as one node asks it.
pub struct Nats {
    pub(crate) core: Core,
    pub(crate) targets: Vec<ServerAddress>,
    pub(crate) credentials: Option<CredentialsFile>,
    pub(crate) dials: usize,
    pub(crate) replicas: u8,
    /// Time for which positions are kept: at least twice as long as any history, since a message
    /// that only keeps the position takes a place in it.
    pub(crate) keep_ms: u64,
    pub(crate) names: Names,
    /// Names this node, as long as its lease was not lost: 16 characters.
    pub(crate) incarnation: String,
    pub(crate) inbox: String,
    pub(crate) link: Option<NatsServer>,
    /// Requests by their numbers, which rise. Queue: `to the broker`.
    pub(crate) flights: BTreeMap<u64, Pending>,
    pub(crate) next_flight: u64,
    pub(crate) flight_bytes: usize,
    /// Requests that had no receiver, and when they are sent again. Bound: as `flights`.
    pub(crate) untaken: VecDeque<(u64, u64)>,
    /// Steps behind the next ping's answer. Bound: what shards have asked.
    pub(crate) behind: Vec<Then>,
    /// Times of pings, and steps behind their answers. Bound: what shards have asked, and one
    /// probe after the other.
    pub(crate) pings: VecDeque<(u64, Vec<Then>)>,
    pub(crate) sids: HashMap<u64, ChannelName>,
    pub(crate) streams: ChannelMap<Stream>,
    /// Streams of which nothing was asked when they were put here, and when that was. Bound: one a
    /// stream.
    pub(crate) idle: VecDeque<(u64, ChannelName)>,
    /// Seeds by stream. Bound: one a stream of channels.
    pub(crate) seeds: HashMap<Box<str>, Seeds>,
    pub(crate) rows: Rows,
    /// Subjects of rows that are being removed. Bound: the requests without an answer.
    pub(crate) leaving: BTreeSet<String>,
    /// Time at which own rows are compared with what NATS lists.
    pub(crate) compare_at_ms: Option<u64>,
    /// The name before this one.
    pub(crate) formerly: Option<String>,
    /// Time at which a lost connection was replaced.
    pub(crate) back_at_ms: Option<u64>,
    pub(crate) was_up: bool,
    /// Questions on their way to a node, by the number of the request. Bound: those of `questions`,
    /// for each node.
    pub(crate) asks: BTreeMap<u64, (u8, u32, u64)>,
    /// Other nodes that live, once they are known.
    pub(crate) live: Option<BTreeSet<String>>,
    /// NATS has said on this connection that this node may have members.
    pub(crate) is_rostered: bool,
    /// Members who are not listed before that, since nobody would look for them if this node died.
    /// Bound: the requests of the shards.
    pub(crate) unrostered: Vec<PendingSubscribe>,
    /// Nodes that may have members and do not live.
    pub(crate) dead: BTreeSet<String>,
    /// Answers that are being put together. Bound: the requests of the shards.
    pub(crate) gathers: BTreeMap<u64, Gather>,
    /// Time of the lease's last renewal.
    pub(crate) leased_at_ms: u64,
    /// The node has a new name, and its rows do not have it yet.
    pub(crate) renamed: bool,
}

impl Nats {
    pub(crate) fn new(
        mut io: NodeIo,
        targets: Vec<ServerAddress>,
        credentials: Option<CredentialsFile>,
        replicas: u8,
    ) -> Self {
        let names = Names::new(&io.options.prefix);
        let incarnation = format!("{:016x}", io.rng.next_u64());
        let groups = Names::groups(&io.options.namespaces);
        Self {
            streams: ChannelMap::new(io.rng.next_u64()),
            dials: io.rng.below(targets.len() as u64) as usize,
            inbox: names.inbox(&incarnation),
            keep_ms: Names::keep_ms(&groups, &io.options),
            core: Core::new(io),
            targets,
            credentials,
            replicas,
            names,
            incarnation,
            link: None,
            flights: BTreeMap::new(),
            next_flight: 1,
            flight_bytes: 0,
            untaken: VecDeque::new(),
            behind: Vec::new(),
            pings: VecDeque::new(),
            sids: HashMap::new(),
            idle: VecDeque::new(),
            seeds: HashMap::new(),
            rows: Rows::default(),
            leaving: BTreeSet::new(),
            compare_at_ms: None,
            formerly: None,
            back_at_ms: None,
            was_up: false,
            asks: BTreeMap::new(),
            live: None,
            is_rostered: false,
            unrostered: Vec::new(),
            dead: BTreeSet::new(),
            gathers: BTreeMap::new(),
            leased_at_ms: 0,
            renamed: false,
        }
    }

    /// The time that publications are given, and that decides what is too old.
    pub(crate) fn time_ms(&self) -> u64 {
        match self.core.io.options.given_ms() {
            0 => self.core.io.unix_ms,
            given_ms => given_ms,
        }
    }

    pub(crate) fn specs(&self) -> Vec<StreamSpec> {
        let groups = Names::groups(&self.core.io.options.namespaces);
        let keep_ms = self.keep_ms;
        let kept = groups.into_iter().map(|(group, most, _)| {
            // Some messages may have no publication.
            (group, u64::from(most) + 8, keep_ms)
        });
        let once = ("once".to_owned(), ONCE_MAX, api::KEY_TTL_MS);
        let channels = kept.chain([once]).map(|(group, messages_max, age_ms)| {
            let (subjects, republish) = self.names.group_subjects(&group);
            StreamSpec {
                name: self.names.stream(&group),
                subjects,
                republish: Some(republish),
                messages_max,
                age_ms,
                in_memory: false,
                replicas: self.replicas,
            }
        });
        let nodes = [
            ("keys", self.names.keys(), api::KEY_TTL_MS, false),
            ("members", self.names.member("*", "*", ">"), 0, false),
            ("leases", self.names.lease("*"), LEASE_MS, true),
            ("rosters", self.names.roster("*"), 0, false),
        ];
        let nodes = nodes.map(|(name, subjects, age_ms, in_memory)| StreamSpec {
            name: self.names.stream(name),
            subjects,
            republish: None,
            messages_max: 1,
            age_ms,
            in_memory,
            replicas: self.replicas,
        });
        channels.chain(nodes).collect()
    }

    // ---- commands ----

    /// Publishes a request, and notes what its answer is for.
    pub(crate) fn ask(
        &mut self,
        flight: Flight,
        subject: &str,
        headers: &[(&str, &str)],
        payload: &[u8],
    ) {
        let number = self.next_flight;
        self.next_flight += 1;
        let reply = format!("{}.{number}", self.inbox);
        let before = self.core.io.out.len();
        write::publish(
            &mut self.core.io.out,
            subject,
            Some(&reply),
            headers,
            payload,
        );
        let command: Box<[u8]> = self.core.io.out.get(before..).unwrap_or_default().into();
        self.flight_bytes += command.len();
        let pending = Pending {
            flight,
            command,
            since_ms: self.core.io.now_ms,
        };
        self.flights.insert(number, pending);
    }

    /// A request to JetStream about a stream.
    pub(crate) fn api(&mut self, flight: Flight, verb: &str, stream: &str, body: &str) {
        let subject = format!("$JS.API.{verb}.{stream}");
        self.ask(flight, &subject, &[], body.as_bytes());
    }

    /// Publishes without an answer.
    pub(crate) fn say(&mut self, subject: &str, payload: &[u8]) {
        write::publish(&mut self.core.io.out, subject, None, &[], payload);
    }

    // ---- answers ----

    /// Asks for a pong, behind which something follows.
    pub(crate) fn ping(&mut self, then: Vec<Then>) {
        write::ping(&mut self.core.io.out);
        self.pings.push_back((self.core.io.now_ms, then));
    }

    /// NATS has taken all that was written before a ping.
    pub(crate) fn pong(&mut self) {
        let Some((_, then)) = self.pings.pop_front() else {
            return;
        };
        for then in then {
            match then {
                Then::Subscribed(subscribe) => self.settled(subscribe),
                Then::Published(id) => self.core.published(id, Ok(None)),
            }
        }
    }

    /// Sends requests again that had no receiver, until they have waited for too long.
    pub(crate) fn send_again(&mut self) {
        while let Some((at_ms, number)) = self.untaken.front()
            && *at_ms <= self.core.io.now_ms
        {
            if let Some(pending) = self.flights.get(number) {
                self.core.io.out.extend_from_slice(&pending.command);
            }
            self.untaken.pop_front();
        }
    }

    pub(crate) fn channel_message(&mut self, message: &Message) {
        let Some(name) = self.sids.get(&message.sid).cloned() else {
            return;
        };
        let mut record = Record::decode(&message.payload);
        if let (Some(record), Some(traces)) = (&mut record, &message.traces) {
            record.trace(traces);
        }
        let publications = record.as_ref().and_then(|it| it.publications(&name, None));
        let (Some(record), Some(publications)) = (record, publications) else {
            return self.gap(&name);
        };
        if let Some(state) = &record.state {
            self.heard(&name, message.seq, state);
            let top = self.core.top(&name);
            if record.kept() == 0 && top.is_some_and(|top| top != state.position()) {
                self.gap(&name);
            }
        }
        for publication in publications {
            self.delivered(publication);
        }
    }

    /// A message that was asked for with [`Self::ask_newest`]; nothing if the answer is an error.
    fn newest(
        &self,
        payload: &[u8],
        direct: Option<StoredMessage>,
    ) -> Option<Option<StoredMessage>> {
        match self.link.is_some_and(|link| link.is_clustered) {
            true => api::message(payload),
            false => Some(direct),
        }
    }

    pub(crate) fn answer(&mut self, message: &Message) {
        let number = message.subject.rsplit('.').next();
        let Some(number) = number.and_then(|number| number.parse().ok()) else {
            return;
        };
        if self.asks.contains_key(&number) {
            self.nobody_there(number);
            return;
        }
        if message.status == Some(503) {
            // Its stream is being made, or chooses a leader: nothing happened.
            self.untaken
                .push_back((self.core.io.now_ms + AGAIN_MS, number));
            return;
        }
        let Some(pending) = self.flights.remove(&number) else {
            return;
        };
        self.flight_bytes -= pending.command.len();
        let payload = &message.payload;
        let is_there = message.status.is_none();
        let direct = is_there.then(|| StoredMessage {
            seq: message.seq,
            key: message.key.clone(),
            payload: payload.clone(),
        });
        match pending.flight {
            Flight::Last(channel) => match self.newest(payload, direct) {
                Some(found) => self.last(&channel, ChannelMessage::new(found)),
                None => self.fail(&channel),
            },
            Flight::Seeds(stream) => match self.newest(payload, direct) {
                Some(found) => self.seeds_found(&stream, found),
                None => self.no_seeds(&stream),
            },
            Flight::SeedsStored(stream) => self.seeds_stored(&stream, payload),
            Flight::KeyRow(channel) => match self.newest(payload, direct) {
                Some(found) => self.key_row(&channel, found),
                None => self.fail(&channel),
            },
            Flight::After(channel) => match self.newest(payload, direct) {
                Some(found) => self.behind_claim(&channel, ChannelMessage::new(found)),
                None => self.fail(&channel),
            },
            Flight::Claim(channel) => self.claimed(&channel, payload),
            Flight::Message(channel, seq, true) => {
                let found = api::message(payload).flatten();
                self.message_found(&channel, seq, ChannelMessage::new(found));
            }
            Flight::Message(channel, seq, false) => {
                let is_clustered = self.link.is_some_and(|link| link.is_clustered);
                if !is_there && is_clustered {
                    self.ask_message(&channel, seq, true);
                } else {
                    self.message_found(&channel, seq, ChannelMessage::new(direct));
                }
            }
            Flight::Store(channel) => self.stored(&channel, payload),
            Flight::Row(subscribe) => self.listed(subscribe, payload),
            Flight::RowAgain(member, old) => self.listed_again(member, old, payload),
            Flight::Unlisted(channel, presence) => self.unlisted(&channel, &presence, payload),
            Flight::User(channel, presence, step) => {
                self.user_found(&channel, &presence, step, payload);
            }
            Flight::OwnRows(comparison) => self.own_rows(comparison, payload),
            Flight::RowMoved(channel, client) => self.moved(channel, client, payload),
            Flight::RowTaken(channel, presence, serial) => {
                self.taken(&channel, &presence, serial, payload);
            }
            Flight::Members(serial) => self.members(serial, payload),
            Flight::Member(serial) => self.member_found(serial, message),
            Flight::Leased => self.leased(payload),
            Flight::Rostered => self.rostered(payload),
            Flight::Leases(rostered) => self.leases(rostered.as_ref(), payload),
            Flight::Rosters => self.rosters(payload),
            Flight::Orphans(incarnation) => self.orphans(&incarnation, payload),
            Flight::Orphan(subject) => self.orphan(subject, message),
            Flight::OrphanGone(presence, channel) => {
                self.orphan_gone(&presence, &channel, payload);
            }
            Flight::Nothing => {}
        }
    }
}

#[derive(Debug)]
pub(crate) enum Flight {
    Last(ChannelName),
    Seeds(Box<str>),
    SeedsStored(Box<str>),
    /// A message of a channel by its sequence; from the leader, which has it if anybody does.
    Message(ChannelName, u64, bool),
    Store(ChannelName),
    /// The key of a channel's publication is claimed for this turn.
    Claim(ChannelName),
    KeyRow(ChannelName),
    /// The first message behind that.
    After(ChannelName),
    /// A member is to be listed.
    Row(PendingSubscribe),
    /// A member is to be listed again; and the subject under the name that this node had before.
    RowAgain(Member, Option<String>),
    /// A member who has left is to be removed from the list.
    Unlisted(ChannelName, ChannelMember),
    /// The oldest row of a member's user in a channel.
    User(ChannelName, Box<ChannelMember>, UserStep),
    /// The subjects of this node's own members.
    OwnRows(Comparison),
    /// Whether this node, and nobody else, has removed its own row from before.
    RowMoved(ChannelName, Box<str>),
    /// A member that came from another process is to be listed.
    RowTaken(ChannelName, Box<ChannelMember>, u64),
    /// The subjects of a channel's members.
    Members(u64),
    /// A member of a channel, by its subject.
    Member(u64),
    Leased,
    /// This node is written into the roster: it may have members.
    Rostered,
    /// Lists live nodes, to find those that do not live among these: nodes that may have members.
    Leases(Option<BTreeSet<String>>),
    Rosters,
    /// The subjects of the members of a node that has died.
    Orphans(String),
    /// A row by its subject, and then whether this node has removed it.
    Orphan(String),
    OrphanGone(ChannelMember, ChannelName),
    Nothing,
}

/// Reason to look for the oldest row of a user; see [`Nats::came`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum UserStep {
    /// A member has come, and its row was stored under this number.
    Came(u64),
    /// A row of the user was removed.
    Left,
    /// News that the user has left were told.
    Told,
}

/// A step that follows when NATS has taken all that was written before.
pub(crate) enum Then {
    Published(RequestId),
    Subscribed(PendingSubscribe),
}

/// A request without an answer.
pub(crate) struct Pending {
    pub(crate) flight: Flight,
    /// Bytes that were sent: where nobody takes them, they are sent again.
    pub(crate) command: Box<[u8]>,
    pub(crate) since_ms: u64,
}

// ---- channels ----

#[derive(Debug)]
pub(crate) enum Op {
    Publish(RequestId, Box<Draft>),
    Look(Purpose, Query),
    Forget(RequestId),
}

pub(crate) enum Stage {
    /// The newest message is on its way.
    Last,
    /// The seeds of its stream are on their way: the channel has no message.
    Seeds,
    /// A message that only says where the stream stands is being stored. What is already known of
    /// the stream's history comes with it.
    Open(State, Option<Record>),
    /// The key of the turn's publication is being claimed.
    Claim,
    /// The row of an earlier publication with that key is on its way.
    KeyRow,
    /// The first message behind this sequence is on its way.
    After(u64),
    Store(State, Vec<PublishedAt>),
    Walk(Box<Walk>),
}

pub(crate) struct Turn {
    pub(crate) ops: Vec<Op>,
    pub(crate) stage: Stage,
    pub(crate) tries: u32,
    /// The newest message was asked for, so that nothing is refused by what this node heard.
    pub(crate) has_read: bool,
    pub(crate) key: Claimed,
}

/// Progress of a publication with an idempotency key. See `writing.rs`.
#[derive(Default)]
pub(crate) struct Claimed {
    /// The newest row of the key that this turn has written or read; 0 without one.
    pub(crate) row: u64,
    /// The row says from where this turn's publication is to be stored.
    pub(crate) is_ours: bool,
    /// Another publisher had claimed it before, and may have published.
    pub(crate) is_second: bool,
    /// The sequence behind which they claimed it, where there was no message yet.
    pub(crate) awaited: Option<u64>,
}

#[derive(Default)]
pub(crate) struct Stream {
    /// Bound: the requests of the shards.
    pub(crate) queue: VecDeque<Op>,
    pub(crate) turn: Option<Turn>,
    pub(crate) known: Option<Known>,
    pub(crate) is_idle: bool,
    pub(crate) used_at_ms: u64,
}

// ---- members ----

/// A member who comes, is there, or leaves.
pub(crate) struct Row {
    pub(crate) presence: ChannelMember,
    /// Serial of the subscribe that it came with.
    pub(crate) serial: u64,
    /// Number under which NATS stored it first; 0 if it came from another process.
    pub(crate) seq: u64,
    /// NATS has said that it lists it, under this node's name of now.
    pub(crate) is_stored: bool,
    /// Set once its subscribe was answered.
    pub(crate) is_in: bool,
    /// Leaves as soon as its subscribe is answered.
    pub(crate) is_gone: bool,
}

/// A member of this node, by channel, client and the number of its subscribe.
pub(crate) type Member = (ChannelName, Box<str>, u64);

/// Members of this node as NATS lists them, while they are compared with those that are here.
#[derive(Debug)]
pub(crate) struct Comparison {
    /// Members that were stored before it was asked. Bound: the rows.
    pub(crate) stored: Vec<Member>,
    /// Subjects so far. Bound: what NATS lists.
    pub(crate) listed: BTreeSet<String>,
}

/// Rows by channel and client, in the order in which they came. Bound: the subscriptions.
pub(crate) type Rows = BTreeMap<(ChannelName, Box<str>), Vec<Row>>;

/// An answer about members that is being put together.
pub(crate) struct Gather {
    pub(crate) id: RequestId,
    pub(crate) with_members: bool,
    pub(crate) missing: usize,
    pub(crate) present: Present,
    pub(crate) members: Vec<Arc<Publisher>>,
}

/// A member as the bytes of its message: what is announced of it, the channel, and the
/// form of a publication without data.
pub(crate) fn body(channel: &ChannelName, presence: &ChannelMember) -> Vec<u8> {
    let name = channel.as_str().as_bytes();
    let mut out = vec![b'1', presence.announced as u8];
    out.extend_from_slice(&(name.len() as u32).to_be_bytes());
    out.extend_from_slice(name);
    out.extend_from_slice(&blob::of_somebody(&presence.who));
    out
}

/// Reads what [`body`] wrote; `None` for any other form.
pub(crate) fn read_body(bytes: &[u8]) -> Option<(ChannelName, ChannelMember)> {
    let (&[form, announced], rest) = bytes.split_first_chunk::<2>()?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let (name, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    let name = std::str::from_utf8(name).ok()?;
    let channel = ChannelName::with_bound(name, usize::MAX).ok()?;
    let who = Arc::new(*blob::decode(rest)?.publisher?);
    let presence = ChannelMember {
        who,
        is_listed: true,
        announced: match announced {
            1 => Announced::Connections,
            2 => Announced::Users,
            _ => Announced::Nothing,
        },
    };
    (form == b'1').then_some((channel, presence))
}
