//! Connections to Redis that begin and end, and what is due while one stands.

use std::time::Duration;

use redis::Value;
use throng_broker::{Moving, Refusal, Reply, Request};
use throng_metrics::Counter;
use throng_redis_link::ANSWER_BYTES_MAX;
use throng_remote::{Desk, Fault, Machine, NOBODY};

use crate::answer;
use crate::flight::Flight;
use crate::link::{RedisDial, field};
use crate::node::{Due, Established, FLIGHT_BYTES_MAX, FLIGHTS_MAX, Node};

/// Bytes that a member of a list may have.
const MEMBER_BYTES: usize = 4 << 10;
/// How long a slot may be on its way before the connection is made anew, in milliseconds.
const MOVE_MS: u64 = 10_000;

impl Machine for Node {
    type Dial = RedisDial;

    const BROKER: &'static str = "Redis";

    fn desk(&mut self) -> &mut Desk {
        &mut self.desk
    }

    fn dial(&mut self) -> RedisDial {
        RedisDial {
            target: self.target.clone(),
            authorities: self.desk.options.authorities.clone(),
            prefix: self.target.prefix(&self.desk.options.prefix),
            incarnation: format!("{:016x}", self.desk.rng.next_u64()),
            timeout: Duration::from_millis(self.desk.options.timeout_ms),
            answer_bytes_max: self.answer_bytes_max(),
        }
    }

    fn up(&mut self, link: Established) {
        self.desk.set_up(true);
        self.proved_at_ms = self.desk.now_ms;
        self.due = Due::default();
        self.anew_at_ms = None;
        (self.rows_missed, self.leased_at_ms) = (false, None);
        self.link = Some(link);
        self.announce_node();
        self.hear_by_name();
        self.again = self.channels.iter().map(|(name, _)| name.clone()).collect();
        self.rows_again = self.rows.keys().cloned().collect();
        for (_, lane, request) in std::mem::take(&mut self.waiting) {
            self.request(lane, request);
        }
    }

    fn down(&mut self) {
        let Some(link) = self.link.take() else {
            return;
        };
        self.incarnation_before = Some(link.incarnation);
        self.desk.set_up(false);
        self.again.clear();
        self.desk.arrival.give_up_cut();
        self.rows_again.clear();
        self.flight_bytes = 0;
        for pending in std::mem::take(&mut self.flights) {
            self.lost(pending.flight);
        }
        self.all_deaf();
    }

    /// A fault if Redis has not answered or delivered for too long.
    fn tick(&mut self) -> Result<(), Fault> {
        while let Some((until_ms, ..)) = self.waiting.front()
            && *until_ms <= self.desk.now_ms
            && let Some((_, lane, request)) = self.waiting.pop_front()
        {
            self.desk.count(Counter::BrokerUnavailable);
            self.desk.refuse(lane, request, Refusal::Unavailable);
        }
        self.take_peers();
        self.questions.give_up(self.link.is_some(), &mut self.desk);
        if self.link.is_none() {
            return Ok(());
        }
        let timeout_ms = self.desk.options.timeout_ms;
        let oldest = self.flights.front().map(|pending| pending.since_ms);
        if oldest.is_some_and(|since_ms| self.desk.now_ms >= since_ms + timeout_ms) {
            return Err(Fault(format!("no answer for {timeout_ms} ms")));
        }
        if self.desk.now_ms >= self.proved_at_ms + 2 * timeout_ms {
            let fault = format!("nothing was delivered for {} ms", 2 * timeout_ms);
            return Err(Fault(fault));
        }
        if self
            .anew_at_ms
            .is_some_and(|at_ms| self.desk.now_ms >= at_ms)
        {
            let fault = "its slot was on two servers, and not all was written";
            return Err(Fault(fault.to_owned()));
        }
        self.probe();
        self.keep_lease();
        self.subscribe_again();
        self.make_cut();
        self.come_again();
        self.audit();
        Ok(())
    }

    fn stalled(&mut self) {
        for pending in &mut self.flights {
            pending.since_ms = self.desk.now_ms;
        }
        self.proved_at_ms = self.desk.now_ms;
    }

    fn word(&mut self, value: Value) -> Result<(), Fault> {
        match value {
            Value::Push { kind, data } => {
                match kind {
                    redis::PushKind::Message | redis::PushKind::SMessage => self.message(&data),
                    redis::PushKind::SUnsubscribe if self.is_own(&data) => {
                        let fault = "its slot is on another server now";
                        return Err(Fault(fault.to_owned()));
                    }
                    _ => {}
                }
                Ok(())
            }
            value => {
                let Some(pending) = self.flights.pop_front() else {
                    return Err(Fault(format!("an answer that nobody asked for: {value:?}")));
                };
                self.flight_bytes -= pending.bytes;
                self.landed(pending.flight, value)
            }
        }
    }

    fn request(&mut self, lane: u8, request: Request) {
        self.wish(lane, request);
    }

    fn moving(&mut self, lane: u8, moving: Moving) {
        self.move_over(lane, moving);
    }

    /// What waits for a connection needs no room.
    fn has_room(&self) -> bool {
        self.flights.len() < FLIGHTS_MAX && self.flight_bytes < FLIGHT_BYTES_MAX
    }
}

impl Node {
    /// What one answer may keep: a page of history, or a list of members, with the values that
    /// each is made of.
    const fn answer_bytes_max(&self) -> usize {
        let reply = &self.desk.options.reply;
        let pages = reply.bytes_max.saturating_mul(4);
        let members = reply.members_max.saturating_mul(MEMBER_BYTES);
        ANSWER_BYTES_MAX
            .saturating_add(pages)
            .saturating_add(members)
    }

    /// Whether this is of the channel by which the node speaks to itself, which it never leaves.
    fn is_own(&self, data: &[Value]) -> bool {
        let name = data.first().and_then(answer::text);
        { self.link.as_ref() }.is_some_and(|link| {
            let own = self.keys.probe(&link.incarnation);
            name == Some(&*own)
        })
    }

    /// Redis refused something because its slot is on its way to another server. Most of this is
    /// made good by the connection to that one; should the slot stay, by another one to this.
    pub(crate) fn slot_moves(&mut self) {
        if self.anew_at_ms.is_none() {
            tracing::warn!("a slot of the cluster moves: publications to it are refused");
            self.anew_at_ms = Some(self.desk.now_ms + MOVE_MS);
        }
    }

    /// Answers for Redis, which will not.
    pub(crate) fn lost(&mut self, flight: Flight) {
        match flight {
            Flight::Publish { lane, ticket } => {
                self.desk.count(Counter::BrokerUnknown);
                let result = Err(Refusal::Unknown);
                if ticket != NOBODY {
                    self.desk.leave(lane, Reply::Published { ticket, result });
                }
            }
            Flight::Subscribe(wanted) => {
                let until_ms = self.desk.now_ms + self.desk.options.timeout_ms;
                if let Some(channel) = self.channels.get_mut(&wanted.channel) {
                    channel.pending -= 1;
                }
                if let Some(presence) = &wanted.presence {
                    self.forget_row(&wanted.channel, &presence.who.client);
                }
                let request = Request::Subscribe {
                    ticket: wanted.ticket,
                    channel: wanted.channel,
                    since: wanted.since,
                    presence: wanted.presence,
                };
                self.waiting.push_back((until_ms, wanted.lane, request));
            }
            Flight::Forget { lane, ticket } => {
                let result = Err(Refusal::Unknown);
                self.desk.leave(lane, Reply::History { ticket, result });
            }
            Flight::History { lane, ticket, .. } => {
                let result = Err(Refusal::Unavailable);
                self.desk.leave(lane, Reply::History { ticket, result });
            }
            Flight::Present { lane, ticket, .. } => {
                let result = Err(Refusal::Unavailable);
                self.desk.leave(lane, Reply::Present { ticket, result });
            }
            _ => {}
        }
    }

    /// Sends itself a message, by the way that publications take.
    fn probe(&mut self) {
        if self.desk.now_ms < self.due.probe_ms {
            return;
        }
        self.due.probe_ms = self.desk.now_ms + self.desk.options.timeout_ms / 3;
        let Some(link) = &self.link else { return };
        let name = self.keys.probe(&link.incarnation);
        let publish = self.target.verbs().publish.as_bytes();
        self.send(Flight::Nothing, &[publish, name.as_bytes(), b""]);
        self.send(Flight::Line, &[b"INFO", b"replication"]);
    }

    /// Redis has said which line of replication its data is of. It is another one if the server was
    /// promoted, and also where its first replica comes.
    pub(crate) fn line(&mut self, value: &Value) -> Result<(), Fault> {
        if field(value, "role").is_some_and(|role| role != "master") {
            return Err(Fault("Redis has become a replica".to_owned()));
        }
        if let (Some(link), Some(line)) = (&mut self.link, field(value, "master_replid")) {
            link.line = line;
        }
        Ok(())
    }
}
