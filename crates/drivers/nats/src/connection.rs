//! Connections to NATS that begin and end, what is due while one stands, and its answers.

use std::time::Duration;

use throng_broker::{Moving, Namespaces, Refusal, Reply, Request};
use throng_metrics::Counter;
use throng_nats_protocol::write;
use throng_remote::{Desk, Fault, Machine};
use throng_types::ChannelName;

use crate::api::{self, Found, Given};
use crate::early::Early;
use crate::flight::{Flight, Then};
use crate::link::{ANSWERS, EVERYBODY, Established, Message, NAMED, NODE, NatsDial, Word};
use crate::names::Names;
use crate::node::{Due, FLIGHT_BYTES_MAX, FLIGHTS_MAX, Node};

/// Channels that are subscribed to again before others have their turn.
const BATCH: usize = 512;
/// Until a request that nobody took is sent again, in milliseconds.
const AGAIN_MS: u64 = 50;

impl Machine for Node {
    type Dial = NatsDial;

    const BROKER: &'static str = "NATS";

    fn desk(&mut self) -> &mut Desk {
        &mut self.desk
    }

    fn dial(&mut self) -> NatsDial {
        self.dials += 1;
        self.rename_if_dead();
        NatsDial {
            target: self.targets[self.dials % self.targets.len()].clone(),
            credentials: self.credentials.clone(),
            authorities: self.desk.options.authorities.clone(),
            timeout: Duration::from_millis(self.desk.options.timeout_ms),
            subjects: [
                format!("{}.*", self.inbox),
                self.names.node(&self.incarnation),
                self.names.everybody(),
            ],
            replicas: self.replicas,
            streams: self.specs(),
        }
    }

    /// Each namespace that keeps history has a stream of its own, which a new connection makes.
    fn renewed(&mut self, before: &Namespaces) -> Result<(), Fault> {
        let groups = Names::groups(&self.desk.options.namespaces);
        if Names::groups(before) == groups {
            return Ok(());
        }
        self.keep_ms = Names::keep_ms(&groups, &self.desk.options);
        Err(Fault("channels keep other histories".to_owned()))
    }

    fn up(&mut self, link: Established) {
        self.desk.set_up(true);
        self.proved_at_ms = self.desk.now_ms;
        self.due = Due::default();
        self.link = Some(link);
        if std::mem::replace(&mut self.was_up, true) {
            self.back_at_ms = Some(self.desk.now_ms);
            self.compare_at_ms = Some(self.desk.now_ms);
        }
        self.announce_node();
        self.hear_by_name();
        self.store_all_taken();
        self.again = self.channels.iter().map(|(name, _)| name.clone()).collect();
        for (_, lane, request) in std::mem::take(&mut self.waiting) {
            self.wish(lane, request);
        }
    }

    fn down(&mut self) {
        if self.link.take().is_none() {
            return;
        }
        self.desk.set_up(false);
        self.again.clear();
        self.desk.arrival.give_up_cut();
        self.flight_bytes = 0;
        self.asks.clear();
        self.untaken.clear();
        self.leaving.clear();
        self.seeds.clear();
        let mut wanted = self.streams_lost();
        for (_, pending) in std::mem::take(&mut self.flights) {
            match pending.flight {
                Flight::Row(it) => wanted.push(it),
                Flight::Members(serial) | Flight::Member(serial) => {
                    self.gathered(serial, Some(Refusal::Unavailable));
                }
                _ => {}
            }
        }
        let pings = std::mem::take(&mut self.pings).into_iter();
        let sent: Vec<Then> = pings.flat_map(|(_, then)| then).collect();
        for then in sent.into_iter().chain(std::mem::take(&mut self.behind)) {
            match then {
                Then::Published(lane, ticket) => {
                    self.count_refusal(Refusal::Unknown);
                    let result = Err(Refusal::Unknown);
                    self.desk.leave(lane, Reply::Published { ticket, result });
                }
                Then::Subscribed(it) => wanted.push(it),
            }
        }
        for wanted in wanted {
            self.wait(wanted);
        }
        self.all_deaf();
    }

    fn word(&mut self, word: Word) -> Result<(), Fault> {
        match word {
            Word::Ping => write::pong(&mut self.desk.out),
            Word::Pong => self.pong(),
            Word::Refused(why) => {
                if !why.contains("Permissions Violation") {
                    return Err(Fault(format!("NATS refuses: {why}")));
                }
                tracing::warn!(why, "NATS refuses");
            }
            Word::Message(message) => match message.sid {
                ANSWERS => return self.answer(&message),
                NODE | NAMED | EVERYBODY => self.node_message(&message),
                _ => self.channel_message(&message),
            },
        }
        Ok(())
    }

    fn request(&mut self, lane: u8, request: Request) {
        self.wish(lane, request);
    }

    fn moving(&mut self, lane: u8, moving: Moving) {
        self.move_over(lane, moving);
    }

    fn has_room(&self) -> bool {
        self.flights.len() + self.behind.len() < FLIGHTS_MAX && self.flight_bytes < FLIGHT_BYTES_MAX
    }

    /// A fault if NATS has not answered or delivered for too long.
    fn tick(&mut self) -> Result<(), Fault> {
        while let Some((until_ms, ..)) = self.waiting.front()
            && *until_ms <= self.desk.now_ms
            && let Some((_, lane, request)) = self.waiting.pop_front()
        {
            self.desk.count(Counter::BrokerUnavailable);
            self.desk.refuse(lane, request, Refusal::Unavailable);
        }
        self.take_peers();
        if self.link.is_none() {
            return Ok(());
        }
        let timeout_ms = self.desk.options.timeout_ms;
        let answer = self.flights.values().next().map(|pending| pending.since_ms);
        let pong = self.pings.front().map(|(since_ms, _)| *since_ms);
        let oldest = answer.into_iter().chain(pong).min();
        if oldest.is_some_and(|since_ms| self.desk.now_ms >= since_ms + timeout_ms) {
            return Err(Fault(format!("no answer for {timeout_ms} ms")));
        }
        if self.desk.now_ms >= self.proved_at_ms + 2 * timeout_ms {
            let fault = format!("nothing was delivered for {} ms", 2 * timeout_ms);
            return Err(Fault(fault));
        }
        if self.may_be_dead() {
            return Err(Fault(
                "this node slept for longer than its lease".to_owned(),
            ));
        }
        self.send_again();
        self.probe();
        self.keep_lease();
        self.compare_rows();
        self.subscribe_again();
        self.make_cut();
        self.audit();
        self.forget_idle();
        if !self.behind.is_empty() {
            write::ping(&mut self.desk.out);
            let then = std::mem::take(&mut self.behind);
            self.pings.push_back((self.desk.now_ms, then));
        }
        Ok(())
    }

    fn stalled(&mut self) {
        let now_ms = self.desk.now_ms;
        for pending in self.flights.values_mut() {
            pending.since_ms = now_ms;
        }
        for (since_ms, _) in &mut self.pings {
            *since_ms = now_ms;
        }
        self.proved_at_ms = now_ms;
    }
}

impl Node {
    /// The connection is lost: nothing comes any more, and nobody knows what is missed.
    pub(crate) fn all_deaf(&mut self) {
        self.sids.clear();
        let names: Vec<ChannelName> = self.channels.iter().map(|(name, _)| name.clone()).collect();
        for name in names {
            let keeps = self.keeps(&name);
            if let Some(agent) = self.channels.get_mut(&name) {
                agent.channel.lost_connection(keeps);
                agent.early = Early::default();
            }
            self.release(&name);
        }
    }

    /// Subscribes to channels again, as far as there is room.
    pub(crate) fn subscribe_again(&mut self) {
        let mut left = BATCH;
        while left > 0
            && self.flights.len() < FLIGHTS_MAX / 2
            && let Some(name) = self.again.pop_front()
        {
            left -= 1;
            let agent = self.channels.get(&name);
            if agent.is_some_and(|agent| !agent.channel.is_subscribed) {
                self.join(&name);
            }
            self.refill_if_deaf(&name);
        }
    }

    pub(crate) fn count_refusal(&self, refusal: Refusal) {
        self.desk.count(match refusal {
            Refusal::Unknown => Counter::BrokerUnknown,
            _ => Counter::BrokerUnavailable,
        });
    }

    /// Sends what nobody took, until it has waited for too long.
    fn send_again(&mut self) {
        while let Some((at_ms, number)) = self.untaken.front()
            && *at_ms <= self.desk.now_ms
        {
            if let Some(pending) = self.flights.get(number) {
                self.desk.out.extend_from_slice(&pending.command);
            }
            self.untaken.pop_front();
        }
    }

    /// Sends itself a message, by the way that publications take.
    fn probe(&mut self) {
        if self.desk.now_ms < self.due.probe_ms {
            return;
        }
        self.due.probe_ms = self.desk.now_ms + self.desk.options.timeout_ms / 3;
        let own = self.names.node(&self.incarnation);
        self.say(&own, b"");
        write::ping(&mut self.desk.out);
        self.pings.push_back((self.desk.now_ms, Vec::new()));
    }

    /// NATS has taken all that was written before a ping.
    fn pong(&mut self) {
        let Some((_, then)) = self.pings.pop_front() else {
            return;
        };
        for then in then {
            match then {
                Then::Subscribed(wanted) => self.subscribed(wanted, None),
                Then::Published(lane, ticket) => {
                    let result = Ok(throng_broker::Published {
                        position: None,
                        shards: None,
                    });
                    self.desk.leave(lane, Reply::Published { ticket, result });
                }
            }
        }
    }

    /// A message that was asked for with [`Self::ask_newest`]; nothing if the answer is an error.
    fn newest(&self, payload: &[u8], direct: Option<Given>) -> Option<Option<Given>> {
        match self.link.is_some_and(|link| link.is_clustered) {
            true => api::message(payload),
            false => Some(direct),
        }
    }

    /// Takes the answer to a request.
    fn answer(&mut self, message: &Message) -> Result<(), Fault> {
        let number = message.subject.rsplit('.').next();
        let Some(number) = number.and_then(|number| number.parse().ok()) else {
            return Ok(());
        };
        if self.asks.contains_key(&number) {
            self.nobody_there(number);
            return Ok(());
        }
        if message.status == Some(503) {
            // Its stream is being made, or chooses a leader: nothing happened.
            self.untaken
                .push_back((self.desk.now_ms + AGAIN_MS, number));
            return Ok(());
        }
        let Some(pending) = self.flights.remove(&number) else {
            return Ok(());
        };
        self.flight_bytes -= pending.command.len();
        let payload = &message.payload;
        let is_there = message.status.is_none();
        let direct = is_there.then(|| Given {
            seq: message.seq,
            key: message.key.clone(),
            payload: payload.clone(),
        });
        match pending.flight {
            Flight::Last(channel) => match self.newest(payload, direct) {
                Some(found) => self.last(&channel, Found::new(found)),
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
                Some(found) => self.behind_claim(&channel, Found::new(found)),
                None => self.fail(&channel),
            },
            Flight::Claim(channel) => self.claimed(&channel, payload),
            Flight::Message(channel, seq, true) => {
                let found = api::message(payload).flatten();
                self.message_found(&channel, seq, Found::new(found));
            }
            Flight::Message(channel, seq, false) => {
                let is_clustered = self.link.is_some_and(|link| link.is_clustered);
                if !is_there && is_clustered {
                    self.ask_message(&channel, seq, true);
                } else {
                    self.message_found(&channel, seq, Found::new(direct));
                }
            }
            Flight::Store(channel) => self.stored(&channel, payload),
            Flight::Row(wanted) => self.listed(wanted, payload),
            Flight::RowAgain(member, old) => self.listed_again(member, old, payload),
            Flight::Unlisted(channel, presence) => self.unlisted(&channel, &presence, payload),
            Flight::OwnRows(comparison) => self.own_rows(comparison, payload),
            Flight::RowMoved(channel, client) => self.moved(channel, client, payload),
            Flight::RowTaken(channel, presence, serial) => {
                self.taken(&channel, &presence, serial, payload);
            }
            Flight::Members(serial) => self.members(serial, payload),
            Flight::Member(serial) => self.member_found(serial, message),
            Flight::Leased => self.leased(payload),
            Flight::Rostered => self.is_rostered |= api::stored(payload).is_ok(),
            Flight::Leases(rostered) => self.leases(rostered.as_ref(), payload),
            Flight::Rosters => self.rosters(payload),
            Flight::Orphans(incarnation) => self.orphans(&incarnation, payload),
            Flight::Orphan(subject) => self.orphan(subject, message),
            Flight::OrphanGone(presence, channel) => {
                self.orphan_gone(&presence, &channel, payload);
            }
            Flight::Nothing => {}
        }
        Ok(())
    }
}
