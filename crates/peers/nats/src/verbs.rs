//! Verbs of NATS.

use throng_broker::{ChannelMember, Draft, NamespaceOptions, Present, Refusal};
use throng_nats_protocol::write;
use throng_remote::{
    BrokerFault, Core, Node as _, NodeChannels as _, PendingSubscribe, Purpose, Query, RequestId,
    Verbs,
};
use throng_types::ChannelName;

use crate::link::{
    ANSWERS, CHANNELS, EVERYBODY, NAMED, NODE, NatsConnector, NatsMessage, NatsServer,
};
use crate::names::{Names, token};
use crate::node::Nats;
use crate::node::{Flight, Gather, Op, Row, Then};

/// Time for which a question waits for a node to be there, in milliseconds.
const ASK_MS: u64 = 5000;

impl Verbs for Nats {
    type Connector = NatsConnector;

    const BROKER: &'static str = "NATS";
    const IS_ONE_ROAD: bool = false;
    const BATCHES: usize = 1;

    fn core(&mut self) -> &mut Core {
        &mut self.core
    }

    // ---- the connection ----

    fn connector(&mut self) -> NatsConnector {
        self.dials += 1;
        self.rename_if_dead();
        let options = &self.core.io.options;
        NatsConnector {
            target: self.targets[self.dials % self.targets.len()].clone(),
            credentials: self.credentials.clone(),
            authorities: options.authorities.clone(),
            timeout_ms: options.timeout_ms,
            subjects: [
                format!("{}.*", self.inbox),
                self.names.node(&self.incarnation),
                self.names.everybody(),
            ],
            replicas: self.replicas,
            streams: self.specs(),
        }
    }

    fn begin_connection(&mut self, link: NatsServer) {
        self.link = Some(link);
        if std::mem::replace(&mut self.was_up, true) {
            self.back_at_ms = Some(self.core.io.now_ms);
            self.compare_at_ms = Some(self.core.io.now_ms);
        }
        self.live = None;
    }

    fn announce(&mut self) {
        let hello = format!("+{}", self.incarnation);
        self.tell_everybody(hello.as_bytes());
    }

    fn end_connection(&mut self) {
        self.link = None;
        self.is_rostered = false;
        self.flight_bytes = 0;
        self.asks.clear();
        self.untaken.clear();
        self.leaving.clear();
        self.seeds.clear();
        self.sids.clear();
        self.streams_lost();
        for subscribe in std::mem::take(&mut self.unrostered) {
            self.wait_again(subscribe);
        }
        for (_, pending) in std::mem::take(&mut self.flights) {
            match pending.flight {
                Flight::Row(subscribe) => self.wait_again(subscribe),
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
                Then::Published(id) => {
                    self.core.count_refusal(Refusal::Unknown);
                    self.core.published(id, Err(Refusal::Unknown));
                }
                Then::Subscribed(subscribe) => self.wait_again(subscribe),
            }
        }
    }

    fn message(&mut self, incoming: NatsMessage) -> Result<(), BrokerFault> {
        match incoming {
            NatsMessage::Ping => write::pong(&mut self.core.io.out),
            NatsMessage::Pong => self.pong(),
            NatsMessage::Refused(why) => {
                if !why.contains("Permissions Violation") {
                    return Err(BrokerFault(format!("NATS refuses: {why}")));
                }
                tracing::warn!(why, "NATS refuses");
            }
            NatsMessage::Message(message) => match message.sid {
                ANSWERS => self.answer(&message),
                NODE | NAMED | EVERYBODY => self.node_message(&message),
                _ => self.channel_message(&message),
            },
        }
        Ok(())
    }

    /// Each namespace that keeps history has a stream of its own, which a new connection makes.
    fn renewed(&mut self, before: &NamespaceOptions) -> Result<(), BrokerFault> {
        let options = &self.core.io.options;
        let groups = Names::groups(&options.namespaces);
        if Names::groups(before) == groups {
            return Ok(());
        }
        self.keep_ms = Names::keep_ms(&groups, options);
        Err(BrokerFault("channels keep other histories".to_owned()))
    }

    fn in_flight(&mut self) -> (usize, usize) {
        (self.flights.len() + self.behind.len(), self.flight_bytes)
    }

    fn oldest_ms(&mut self) -> Option<u64> {
        let answer = self.flights.values().next().map(|pending| pending.since_ms);
        let pong = self.pings.front().map(|(since_ms, _)| *since_ms);
        answer.into_iter().chain(pong).min()
    }

    fn forgive(&mut self) {
        let now_ms = self.core.io.now_ms;
        for pending in self.flights.values_mut() {
            pending.since_ms = now_ms;
        }
        for (since_ms, _) in &mut self.pings {
            *since_ms = now_ms;
        }
    }

    /// Servers of a cluster learn of a subscription one after the other.
    fn is_late(&mut self) -> bool {
        self.link.is_some_and(|link| link.is_clustered)
    }

    fn begin_tick(&mut self) -> Result<(), BrokerFault> {
        if self.may_be_dead() {
            let fault = "this node slept for longer than its lease";
            return Err(BrokerFault(fault.to_owned()));
        }
        let now_ms = self.core.io.now_ms;
        self.asks
            .retain(|_, (_, _, since_ms)| *since_ms + ASK_MS > now_ms);
        self.send_again();
        self.compare_rows();
        Ok(())
    }

    fn end_tick(&mut self) {
        self.forget_idle();
        if !self.behind.is_empty() {
            let then = std::mem::take(&mut self.behind);
            self.ping(then);
        }
    }

    fn probe(&mut self) {
        let own = self.names.node(&self.incarnation);
        self.say(&own, b"");
        self.ping(Vec::new());
    }

    // ---- channels ----

    fn subscribe(&mut self, channels: &[(ChannelName, u64)]) {
        for (name, serial) in channels {
            let subject = self.names.channel(name, self.core.keeps(name));
            let sid = CHANNELS + serial;
            self.sids.insert(sid, name.clone());
            write::subscribe(&mut self.core.io.out, &subject, sid);
        }
    }

    fn unsubscribe(&mut self, _: &ChannelName, serial: u64, _: bool) {
        let sid = CHANNELS + serial;
        self.sids.remove(&sid);
        write::unsubscribe(&mut self.core.io.out, sid);
    }

    fn look(&mut self, channel: &ChannelName, purpose: Purpose, query: Query) {
        self.enqueue(channel, Op::Look(purpose, query));
    }

    fn settle(&mut self, subscribe: PendingSubscribe) {
        self.behind.push(Then::Subscribed(subscribe));
    }

    fn publish(&mut self, id: RequestId, draft: Draft) {
        let channel = draft.channel.clone();
        self.enqueue(&channel, Op::Publish(id, Box::new(draft)));
    }

    fn forget(&mut self, id: RequestId, channel: &ChannelName) {
        self.enqueue(channel, Op::Forget(id));
    }

    // ---- members ----

    fn come(&mut self, subscribe: PendingSubscribe) {
        self.list(subscribe);
    }

    fn has_come(&mut self, subscribe: &PendingSubscribe) {
        let Some(row) = self.row(subscribe) else {
            return;
        };
        row.is_in = true;
        let (presence, seq, is_gone) = (row.presence.clone(), row.seq, row.is_gone);
        self.came(&subscribe.channel, &presence, seq);
        if is_gone && let Some(row) = self.take_row(subscribe) {
            self.leave_row(&subscribe.channel, &row);
        }
    }

    fn has_not_come(&mut self, subscribe: &PendingSubscribe) {
        if let Some(row) = self.take_row(subscribe).filter(|row| row.is_stored) {
            self.unlist(&subscribe.channel, &row.presence);
        }
    }

    fn come_later(&mut self, subscribe: &PendingSubscribe) -> Option<ChannelMember> {
        let row = self.take_row(subscribe)?;
        (!row.is_gone).then_some(row.presence)
    }

    fn quit(&mut self, channel: &ChannelName, presence: &ChannelMember) {
        let client = &presence.who.client;
        if !self.leave(channel, client) {
            self.core.leaves_waiting(channel, client);
        }
    }

    fn present(&mut self, id: RequestId, channel: &ChannelName, with_members: bool) {
        let serial = self.core.next_serial();
        let gather = Gather {
            id,
            with_members,
            missing: 0,
            present: Present::default(),
            members: Vec::new(),
        };
        self.gathers.insert(serial, gather);
        let filter = self.names.member(&token(channel.as_str()), "*", ">");
        let body = format!("{{\"subjects_filter\":\"{filter}\"}}");
        let stream = self.names.stream("members");
        self.api(Flight::Members(serial), "STREAM.INFO", &stream, &body);
    }

    fn take_somebody(&mut self, channel: ChannelName, presence: ChannelMember) {
        let row = Row {
            serial: self.core.next_serial(),
            seq: 0,
            is_stored: false,
            is_in: true,
            is_gone: false,
            presence,
        };
        let key = (channel, row.presence.who.client.clone());
        self.rows.entry(key.clone()).or_default().push(row);
        self.store_taken(&key.0, &key.1);
    }

    fn give_somebody(&mut self, channel: ChannelName, presence: &ChannelMember) {
        let key = (channel, presence.who.client.clone());
        self.remove_row(key, |row| !row.is_gone);
    }

    // ---- other nodes ----

    fn own(&self) -> &str {
        &self.incarnation
    }

    fn renew_lease(&mut self) {
        self.leased_at_ms = self.core.io.now_ms.max(1);
        let lease = self.names.lease(&self.incarnation);
        self.ask(Flight::Leased, &lease, &[], b"1");
        self.ask_leases(None);
    }

    fn look_for_dead(&mut self) {
        let stream = self.names.stream("rosters");
        let body = format!("{{\"subjects_filter\":\"{}\"}}", self.names.roster("*"));
        self.api(Flight::Rosters, "STREAM.INFO", &stream, &body);
    }

    fn hear_by_name(&mut self, name: &str) {
        write::subscribe(&mut self.core.io.out, &self.names.named(name), NAMED);
    }

    fn may_ask(&self) -> bool {
        self.live.is_some()
    }

    fn ask_all(&mut self, who: (u8, u32), message: Vec<u8>) {
        let live = self.live.clone().unwrap_or_default();
        for node in &live {
            self.send_question(who, &self.names.node(node), &message);
        }
        self.asked_of(who, live.len());
    }

    /// While a node is upgraded, two processes have its name; one answer is enough.
    fn ask_one(&mut self, who: (u8, u32), node: &str, message: Vec<u8>) {
        self.send_question(who, &self.names.named(node), &message);
        self.asked_of(who, 1);
    }

    fn answer_to(&mut self, node: &str, message: Vec<u8>) {
        let there = self.names.node(node);
        self.say(&there, &[b"!", &*message].concat());
    }

    fn tell_everybody(&mut self, message: &[u8]) {
        let everybody = self.names.everybody();
        self.say(&everybody, message);
    }
}
