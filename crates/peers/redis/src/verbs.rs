//! Verbs of Redis: each is a command or a script.

use redis::{PushKind, Value};
use throng_broker::{ChannelMember, Draft, Refusal};
use throng_redis_link::{ANSWER_BYTES_MAX, command, value};
use throng_remote::agent::Mode;
use throng_remote::{
    BrokerFault, Core, NodeChannels as _, PendingSubscribe, Purpose, Query, RequestId, Verbs, blob,
};
use throng_types::{ChannelName, Position};

use crate::command::Script;
use crate::link::{RedisConnector, field};
use crate::node::Flight;
use crate::node::{Redis, RedisServer};

/// Bytes that a member of a list may have.
const MEMBER_BYTES: usize = 4 << 10;
/// Time for which a slot may be on its way before the connection is made anew, in milliseconds.
const MOVE_MS: u64 = 10_000;
/// Time for which an idempotency key is remembered, in milliseconds (Centrifugo: five minutes).
const KEY_TTL_MS: u64 = 300_000;

impl Verbs for Redis {
    type Connector = RedisConnector;

    const BROKER: &'static str = "Redis";
    const IS_ONE_ROAD: bool = true;
    const BATCHES: usize = usize::MAX;

    fn core(&mut self) -> &mut Core {
        &mut self.core
    }

    // ---- the connection ----

    fn connector(&mut self) -> RedisConnector {
        let incarnation = format!("{:016x}", self.core.io.rng.next_u64());
        let options = &self.core.io.options;
        // A page of history, or a list of members, with the values that each is made of.
        let pages = options.reply.bytes_max.saturating_mul(4);
        let members = options.reply.members_max.saturating_mul(MEMBER_BYTES);
        RedisConnector {
            target: self.target.clone(),
            authorities: options.authorities.clone(),
            prefix: self.target.prefix(&options.prefix),
            incarnation,
            timeout_ms: options.timeout_ms,
            is_traced: options.is_traced,
            answer_bytes_max: { ANSWER_BYTES_MAX }
                .saturating_add(pages)
                .saturating_add(members),
            place: None,
        }
    }

    fn begin_connection(&mut self, link: RedisServer) {
        self.anew_at_ms = None;
        (self.rows_missed, self.leased_at_ms) = (false, None);
        self.link = Some(link);
    }

    fn announce(&mut self) {
        self.rows_again = self.rows.keys().cloned().collect();
    }

    fn end_connection(&mut self) {
        self.incarnation_before = self.link.take().map(|link| link.incarnation);
        self.rows_again.clear();
        self.flight_bytes = 0;
        self.trace = None;
        for pending in std::mem::take(&mut self.flights) {
            self.lost(pending.flight);
        }
    }

    fn message(&mut self, value: Value) -> Result<(), BrokerFault> {
        // Nothing comes between a trace and its publication, if that comes here at all.
        let trace = self.trace.take();
        let Value::Push { kind, data } = value else {
            let Some(pending) = self.flights.pop_front() else {
                return Err(BrokerFault(format!("an unexpected reply: {value:?}")));
            };
            self.flight_bytes -= pending.bytes;
            return self.landed(pending.flight, value);
        };
        match kind {
            PushKind::Message | PushKind::SMessage => self.delivery(&data, trace),
            PushKind::SUnsubscribe if self.is_own(&data) => {
                let fault = "its slot is on another server now";
                return Err(BrokerFault(fault.to_owned()));
            }
            _ => {}
        }
        Ok(())
    }

    fn in_flight(&mut self) -> (usize, usize) {
        (self.flights.len(), self.flight_bytes)
    }

    fn oldest_ms(&mut self) -> Option<u64> {
        self.flights.front().map(|pending| pending.since_ms)
    }

    fn forgive(&mut self) {
        for pending in &mut self.flights {
            pending.since_ms = self.core.io.now_ms;
        }
    }

    fn begin_tick(&mut self) -> Result<(), BrokerFault> {
        let now_ms = self.core.io.now_ms;
        if self.anew_at_ms.is_some_and(|at_ms| now_ms >= at_ms) {
            let fault = "its slot was on two servers, and not all was written";
            return Err(BrokerFault(fault.to_owned()));
        }
        Ok(())
    }

    fn end_tick(&mut self) {
        self.come_again();
    }

    fn probe(&mut self) {
        let name = self.keys.probe(self.incarnation());
        self.tell(&name, b"");
        self.send(Flight::Line, &[b"INFO", b"replication"]);
    }

    // ---- channels ----

    fn subscribe(&mut self, channels: &[(ChannelName, u64)]) {
        let there: Vec<String> = { channels.iter() }
            .map(|(name, _)| self.keys.channel(name))
            .collect();
        let subscribe = self.target.verbs().subscribe;
        let names = there.iter().map(String::as_bytes);
        let parts: Vec<&[u8]> = [subscribe.as_bytes()].into_iter().chain(names).collect();
        command(&mut self.core.io.out, &parts);
    }

    fn unsubscribe(&mut self, channel: &ChannelName, _: u64, is_empty: bool) {
        let there = self.keys.channel(channel);
        let unsubscribe = self.target.verbs().unsubscribe.as_bytes();
        command(&mut self.core.io.out, &[unsubscribe, there.as_bytes()]);
        if is_empty {
            let [_, _, clock, keep] = self.stream_args();
            let (meta, empty) = (self.keys.meta(channel), self.empty_ms());
            let args = [&*clock, &keep, &empty].map(str::as_bytes);
            self.call(Flight::Nothing, Script::Release, &[&meta, &there], &args);
        }
    }

    fn look(&mut self, channel: &ChannelName, purpose: Purpose, query: Query) {
        let ttl_ms = self.core.io.options.of(channel).retention.ttl_ms;
        let mode = match query.mode {
            Mode::Top => "top",
            Mode::Since => "since",
            Mode::Newest => "newest",
            Mode::Oldest => "oldest",
        };
        let [server, fresh, clock, keep] = self.stream_args();
        let (meta, stream) = (self.keys.meta(channel), self.keys.stream(channel));
        let (epoch, offset) = query.since.map_or((String::new(), 0), |since| {
            (since.epoch.to_string(), since.offset)
        });
        let numbers = [ttl_ms, query.limit as u64, query.bytes as u64, offset];
        let [ttl_ms, limit, bytes, offset] = numbers.map(|number| number.to_string());
        let start = Position::START.epoch.to_string();
        // Who asks for history alone keeps no name alive.
        let empty = match purpose {
            Purpose::History(..) => self.empty_ms(),
            _ => keep.clone(),
        };
        let args = [
            &*server, &fresh, &clock, &keep, &ttl_ms, mode, &limit, &bytes, &epoch, &offset,
            &start, &empty,
        ];
        let args = args.map(str::as_bytes);
        let flight = Flight::Look(purpose, channel.clone());
        self.call(flight, Script::Look, &[&meta, &stream], &args);
    }

    fn settle(&mut self, subscribe: PendingSubscribe) {
        self.send(Flight::Settle(subscribe), &[b"PING"]);
    }

    fn publish(&mut self, id: RequestId, draft: Draft) {
        let channel = &draft.channel;
        let retention = self.core.io.options.of(channel).retention;
        let size = if retention.keeps() {
            retention.publications_max
        } else {
            0
        };
        let key = draft.idempotency_key.as_deref();
        let result = self.keys.result(channel, key.unwrap_or_default());
        let (meta, stream) = (self.keys.meta(channel), self.keys.stream(channel));
        let name = self.keys.channel(channel);
        let [server, fresh, clock, keep] = self.stream_args();
        let (size, ttl_ms) = (size.to_string(), retention.ttl_ms.to_string());
        let skip = if draft.skip_history { "1" } else { "0" };
        let remember_ms = if key.is_some() { KEY_TTL_MS } else { 0 }.to_string();
        let version = draft.version.as_deref();
        // Of one length, so that texts compare as numbers do.
        let number = version.map_or(String::new(), |version| format!("{:020}", version.number));
        let versions = version.map_or("", |version| &version.epoch);
        let mut body = Vec::with_capacity(draft.payload.bytes.len() + 64);
        let (who, tags) = (draft.publisher.as_deref(), draft.tags.as_deref());
        blob::encode(&draft.payload, who, tags, &mut body);
        let args = [
            &*server,
            &fresh,
            &clock,
            &keep,
            &size,
            &ttl_ms,
            skip,
            &remember_ms,
            &number,
            versions,
        ];
        let mut args: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
        args.push(&body);
        let mut keys = vec![&*meta, &stream, &result, &name];
        let trace = { draft.trace.as_ref() }.map(|trace| (self.keys.traces(), trace.to_string()));
        if let Some((traces, trace)) = &trace {
            keys.push(traces);
            args.push(trace.as_bytes());
        }
        self.call(Flight::Publish(id), Script::Publish, &keys, &args);
    }

    fn forget(&mut self, id: RequestId, channel: &ChannelName) {
        let stream = self.keys.stream(channel);
        self.send(Flight::Forget(id), &[b"DEL", stream.as_bytes()]);
    }

    // ---- members ----

    /// On one road the news of a member comes behind the answer to its own subscribe.
    fn come(&mut self, subscribe: PendingSubscribe) {
        let Some(presence) = subscribe.presence.clone() else {
            return self.look_for(subscribe);
        };
        let channel = subscribe.channel.clone();
        self.list(&channel, &presence);
        self.look_for(subscribe);
        self.tell_joined(&channel, &presence);
    }

    fn has_come(&mut self, _: &PendingSubscribe) {}

    fn has_not_come(&mut self, subscribe: &PendingSubscribe) {
        if let Some(presence) = &subscribe.presence {
            self.quit(&subscribe.channel, presence);
        }
    }

    fn come_later(&mut self, subscribe: &PendingSubscribe) -> Option<ChannelMember> {
        let presence = subscribe.presence.clone()?;
        let is_here = self.forget_row(&subscribe.channel, &presence.who.client);
        (is_here || !presence.is_listed).then_some(presence)
    }

    fn quit(&mut self, channel: &ChannelName, presence: &ChannelMember) {
        let client = &presence.who.client;
        self.core.leaves_waiting(channel, client);
        self.forget_row(channel, client);
        if self.link.is_some() {
            self.unlist(channel, presence);
        }
    }

    fn present(&mut self, id: RequestId, channel: &ChannelName, with_members: bool) {
        let most = match with_members {
            true => self.core.io.options.reply.members_max.to_string(),
            false => "-1".to_owned(),
        };
        let (members, users) = (self.keys.members(channel), self.keys.users(channel));
        let leases = self.keys.leases();
        let flight = Flight::Present(id, with_members);
        let args = [most.as_bytes(), leases.as_bytes()];
        self.call(flight, Script::Present, &[&members, &users], &args);
    }

    fn take_somebody(&mut self, channel: ChannelName, presence: ChannelMember) {
        if presence.is_listed {
            let key = (channel, presence.who.client.clone());
            self.rows.insert(key.clone(), presence);
            if self.link.is_some() {
                self.rows_again.push_back(key);
            }
        }
    }

    fn give_somebody(&mut self, channel: ChannelName, presence: &ChannelMember) {
        self.forget_row(&channel, &presence.who.client);
    }

    // ---- other nodes ----

    fn own(&self) -> &str {
        self.incarnation()
    }

    fn renew_lease(&mut self) {
        self.set_lease();
    }

    fn look_for_dead(&mut self) {
        let nodes = self.keys.nodes();
        self.send(Flight::Nodes, &[b"SMEMBERS", nodes.as_bytes()]);
    }

    fn hear_by_name(&mut self, name: &str) {
        let there = self.keys.named(name);
        let subscribe = self.target.verbs().subscribe.as_bytes();
        command(&mut self.core.io.out, &[subscribe, there.as_bytes()]);
    }

    fn ask_all(&mut self, who: (u8, u32), message: Vec<u8>) {
        let everybody = self.keys.everybody();
        let flight = Flight::Asked(who.0, who.1);
        self.call(flight, Script::Ask, &[&everybody], &[&message]);
    }

    fn ask_one(&mut self, who: (u8, u32), node: &str, message: Vec<u8>) {
        match self.known.iter().any(|known| **known == *node) {
            true => self.ask_known(who, node.into(), &message),
            false => self.find(who, node.into(), message),
        }
    }

    fn answer_to(&mut self, node: &str, message: Vec<u8>) {
        let there = self.keys.probe(node);
        self.tell(&there, &message);
    }

    fn tell_everybody(&mut self, message: &[u8]) {
        let everybody = self.keys.everybody();
        self.tell(&everybody, message);
    }
}

impl Redis {
    /// Publishes what is not kept, of which no answer matters.
    pub(crate) fn tell(&mut self, there: &str, message: &[u8]) {
        let publish = self.target.verbs().publish.as_bytes();
        let parts = [publish, there.as_bytes(), message];
        self.send(Flight::Nothing, &parts);
    }

    /// Whether this is of the channel by which the node speaks to itself, which it never leaves.
    fn is_own(&self, data: &[Value]) -> bool {
        let name = data.first().and_then(value::text);
        self.link.is_some() && name == Some(&*self.keys.probe(self.incarnation()))
    }

    /// Redis refused something because its slot is on its way to another server. Most of this is
    /// made good by the connection to that one; should the slot stay, by another one to this.
    pub(crate) fn slot_moves(&mut self) {
        if self.anew_at_ms.is_none() {
            tracing::warn!("a slot of the cluster moves: publications to it are refused");
            self.anew_at_ms = Some(self.core.io.now_ms + MOVE_MS);
        }
    }

    /// Answers for Redis, which will not.
    pub(crate) fn lost(&mut self, flight: Flight) {
        match flight {
            Flight::Look(purpose, channel) => self.lose_look(&channel, purpose),
            Flight::Settle(subscribe) => self.wait_again(subscribe),
            Flight::Publish { .. } | Flight::Forget { .. } => self.failed(flight, Refusal::Unknown),
            flight => self.failed(flight, Refusal::Unavailable),
        }
    }

    /// Redis has said which line of replication its data is of. It is another one if the server was
    /// promoted, and also where its first replica comes.
    pub(crate) fn line(&mut self, value: &Value) -> Result<(), BrokerFault> {
        if field(value, "role").is_some_and(|role| role != "master") {
            return Err(BrokerFault("Redis has become a replica".to_owned()));
        }
        if let (Some(link), Some(line)) = (&mut self.link, field(value, "master_replid")) {
            link.line = line;
        }
        Ok(())
    }
}
