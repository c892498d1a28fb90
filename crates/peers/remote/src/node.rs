//! A node: connections that begin and end, requests of shards, hand-overs, questions to other
//! nodes, and what is due. Written once, over the verbs of any broker.
//!
//! A connection counts as alive while messages that the node publishes to itself come back to it,
//! and while the broker answers. When it breaks, subscribes wait for the next one, and everything
//! else is refused; all channels are subscribed to again, and what they missed is looked for.
//!
//! Never: sockets, threads, clocks. It is told what happens, appends commands to its io's output
//! and leaves replies in the shards' queues.

use std::mem;

use throng_broker::{Moving, Refusal, Request};
use throng_metrics::Counter;
use throng_types::ChannelName;

use crate::agent::{AUDIT_SOON_MS, Channel};
use crate::channels::NodeChannels;
use crate::core::{Due, FLIGHT_BYTES_MAX, FLIGHTS_MAX, RENEW_MS, SWEEP_MS};
use crate::questions::{For, PendingQueries};
use crate::queues::{NodeEvent, RequestId, ToNodes};
use crate::verbs::{BrokerFault, Connector};

/// Channels that are subscribed to again at once.
const BATCH: usize = 512;

/// A peer without its links: what it knows, and what it does about what happens.
pub trait Node: NodeChannels {
    /// A connection stands: everything that is wanted is asked for again.
    fn connected(&mut self, handshake: <Self::Connector as Connector>::Handshake) {
        let core = self.core();
        core.io.set_up(true);
        core.is_up = true;
        core.proved();
        core.due = Due::default();
        self.begin_connection(handshake);
        self.keep_lease();
        self.announce();
        if let Some(name) = self.core().name.clone() {
            self.hear_by_name(&name);
        }
        let core = self.core();
        core.again = core.channels.iter().map(|(name, _)| name.clone()).collect();
        for (_, shard, request) in mem::take(&mut core.waiting) {
            self.request(shard, request);
        }
    }

    /// The connection is lost, with every answer that was still to come. Also called where there
    /// was none.
    fn disconnected(&mut self) {
        let core = self.core();
        if !mem::take(&mut core.is_up) {
            return;
        }
        core.io.set_up(false);
        core.again.clear();
        core.io.arrival.give_up_cut();
        self.end_connection();
        // Nothing comes any more, and nobody knows what is missed.
        for name in all_names(self) {
            let core = self.core();
            let keeps = core.keeps(&name);
            if let Some(channel) = core.channels.get_mut(&name) {
                channel.lost_connection(keeps);
            }
            self.release(&name);
        }
    }

    /// Whether one more request may be sent. What waits for a connection needs no room.
    fn has_room(&mut self) -> bool {
        let (flights, bytes) = self.in_flight();
        flights < FLIGHTS_MAX && bytes < FLIGHT_BYTES_MAX
    }

    /// Time went by in which nothing was taken from the broker, because a shard had no room: that
    /// is not the fault of the broker.
    fn stalled(&mut self) {
        self.forgive();
        self.core().proved();
    }

    /// Does what is due.
    ///
    /// # Errors
    /// The connection is to be given up: the broker has not answered or delivered for too long, or
    /// its own reason.
    fn tick(&mut self) -> Result<(), BrokerFault> {
        self.refuse_late();
        self.take_to_nodes();
        let core = self.core();
        core.questions.give_up(core.is_up, &mut core.io);
        if !core.is_up {
            return Ok(());
        }
        let (now_ms, timeout_ms) = (core.io.now_ms, core.io.options.timeout_ms);
        let proved_at_ms = core.proved_at_ms;
        let oldest_ms = self.oldest_ms();
        if oldest_ms.is_some_and(|since_ms| now_ms >= since_ms + timeout_ms) {
            return Err(BrokerFault(format!("no answer for {timeout_ms} ms")));
        }
        if now_ms >= proved_at_ms + 2 * timeout_ms {
            let fault = format!("nothing was delivered for {} ms", 2 * timeout_ms);
            return Err(BrokerFault(fault));
        }
        self.begin_tick()?;
        let core = self.core();
        if now_ms >= core.due.probe_ms {
            core.due.probe_ms = now_ms + timeout_ms / 3;
            self.probe();
        }
        self.keep_lease();
        self.subscribe_again();
        self.make_cut();
        self.audit();
        self.end_tick();
        Ok(())
    }

    fn keep_lease(&mut self) {
        let core = self.core();
        let now_ms = core.io.now_ms;
        if now_ms >= core.due.lease_ms {
            core.due.lease_ms = now_ms + RENEW_MS;
            self.renew_lease();
        }
        let core = self.core();
        if now_ms >= core.due.sweep_ms {
            core.due.sweep_ms = now_ms + SWEEP_MS;
            self.look_for_dead();
        }
    }

    /// Subscribes to channels again, as far as there is room.
    fn subscribe_again(&mut self) {
        for _ in 0..Self::BATCHES {
            let has_room = self.in_flight().0 < FLIGHTS_MAX / 2;
            let core = self.core();
            if core.again.is_empty() || !has_room {
                return;
            }
            let most = core.again.len().min(BATCH);
            let batch: Vec<ChannelName> = core.again.drain(..most).collect();
            let mut new = Vec::new();
            for name in &batch {
                if let Some(channel) = core.channels.get_mut(name)
                    && !mem::replace(&mut channel.is_subscribed, true)
                {
                    new.push((name.clone(), channel.serial));
                }
            }
            if !new.is_empty() {
                self.subscribe(&new);
            }
            for name in &batch {
                self.refill_if_deaf(name);
            }
        }
    }

    // ---- shards ----

    fn request(&mut self, shard: u8, request: Request) {
        let core = self.core();
        let is_up = core.is_up;
        let Some(request) = core.io.admit(shard, request, is_up) else {
            return;
        };
        let id = |ticket| RequestId { shard, ticket };
        match request {
            Request::Subscribe { .. } if !is_up => core.wait(shard, request),
            Request::Subscribe {
                ticket,
                channel,
                since,
                presence,
            } => self.shard_comes(id(ticket), &channel, since, presence),
            Request::Leave { channel } => self.shard_leaves(shard, &channel),
            Request::Quit { channel, presence } => self.quit(&channel, &presence),
            Request::Publish { ticket, draft } => self.publish(id(ticket), draft),
            Request::History {
                ticket,
                channel,
                query,
            } => self.history(id(ticket), &channel, query),
            Request::Present {
                ticket,
                channel,
                with_members,
            } => self.present(id(ticket), &channel, with_members),
            Request::Forget { ticket, channel } => self.forget(id(ticket), &channel),
        }
    }

    /// Refuses subscribes that have waited for a connection for as long as they may.
    fn refuse_late(&mut self) {
        let core = self.core();
        while let Some((until_ms, ..)) = core.waiting.front()
            && *until_ms <= core.io.now_ms
            && let Some((_, shard, request)) = core.waiting.pop_front()
        {
            core.io.count(Counter::BrokerUnavailable);
            core.io.refuse(shard, &request, Refusal::Unavailable);
        }
    }

    // ---- hand-over ----

    /// Takes what a shard says where one process hands over to another.
    fn moving(&mut self, shard: u8, moving: Moving) {
        let core = self.core();
        match moving {
            Moving::Expect(name) => {
                core.io.arrival.expect();
                self.expect(shard, &name);
            }
            Moving::Cut(cut) => core.io.arrival.expected(shard, cut),
            Moving::Resume(name, from) => {
                self.expect(shard, &name);
                if let Some(channel) = self.core().channels.get_mut(&name) {
                    channel.resume(shard, from);
                }
            }
            Moving::Resumed => {
                let shards = core.io.shards();
                if core.io.arrival.resumed(shard, shards) {
                    self.all_arrived();
                }
            }
            Moving::Take(channel, presence) => self.take_somebody(channel, presence),
            Moving::Give(channel, presence) => self.give_somebody(channel, &presence),
        }
        let core = self.core();
        if !core.is_up {
            core.io.arrival.give_up_cut();
        }
    }

    /// A shard has subscribers of a channel that come from another process.
    fn expect(&mut self, shard: u8, name: &ChannelName) {
        let is_late = self.is_late();
        let core = self.core();
        let keeps = core.keeps(name);
        let (serial, channel) = core.open(name, is_late);
        channel.expect(shard, keeps);
        let is_new = channel.serial == serial;
        if is_new && core.is_up {
            core.again.push_back(name.clone());
            core.expected_at_ms = core.io.now_ms;
        }
    }

    /// All shards have said up to where their subscribers have everything.
    fn all_arrived(&mut self) {
        for name in all_names(self) {
            let core = self.core();
            let channel = core.channels.get_mut(&name);
            if channel.is_some_and(Channel::arrive) && core.is_up {
                core.again.push_back(name);
            }
        }
    }

    /// Makes the cut between the other process and this one, when this one hears all channels;
    /// where subscriptions take effect late, a little after that.
    fn make_cut(&mut self) {
        let is_late = self.is_late();
        let core = self.core();
        let is_ready = core.again.is_empty() && core.io.requests_are_taken();
        if !is_ready || !core.io.arrival.is_cut_due() {
            return;
        }
        if is_late && core.io.now_ms < core.expected_at_ms + AUDIT_SOON_MS {
            return;
        }
        let shards = core.io.shards();
        if let Some(cut) = core.io.arrival.make_cut(shards) {
            self.tell_everybody(cut.as_bytes());
        }
    }

    // ---- other nodes ----

    /// Takes what shards want of other nodes. A question that cannot be sent has failed at once.
    fn take_to_nodes(&mut self) {
        while let Some((shard, wanted)) = self.core().io.next_to_nodes() {
            let is_up = self.core().is_up;
            match wanted {
                ToNodes::Named(name) => {
                    let before = self.core().name.replace(name.clone());
                    if before.is_none() && is_up {
                        self.hear_by_name(&name);
                    }
                }
                ToNodes::Ask(ticket, question) => {
                    let may_ask = is_up && self.may_ask();
                    if let Some(message) =
                        self.question((shard, ticket), may_ask, For::Operator, &question)
                    {
                        self.ask_all((shard, ticket), message);
                    }
                }
                ToNodes::AskOne(ticket, node, question) => {
                    if let Some(message) =
                        self.question((shard, ticket), is_up, For::Client, &question)
                    {
                        self.ask_one((shard, ticket), &node, message);
                    }
                }
                ToNodes::Answer(to, answer) => {
                    let answer = PendingQueries::answer(&to, &answer).filter(|_| is_up);
                    if let Some((node, message)) = answer {
                        self.answer_to(node, message);
                    }
                }
                ToNodes::Tell(word) if is_up => self.tell_everybody(&word),
                ToNodes::Tell(_) => {}
            }
        }
    }

    /// The message with a question, if it may be sent and there is a place for one more.
    fn question(
        &mut self,
        who: (u8, u32),
        may_ask: bool,
        whose: For,
        question: &[u8],
    ) -> Option<Vec<u8>> {
        if !may_ask {
            let event = NodeEvent::Answered(who.1, None);
            self.core().io.tell_shard(who.0, event);
            return None;
        }
        let own = self.own().to_owned();
        let core = self.core();
        core.questions.ask(who, whose, &own, question, &mut core.io)
    }

    fn hear_question(&mut self, message: &[u8]) {
        let own = self.own().to_owned();
        PendingQueries::hear_question(&own, message, &mut self.core().io);
    }

    fn hear_answer(&mut self, message: &[u8]) {
        let core = self.core();
        core.questions.hear_answer(message, &mut core.io);
    }

    /// Notes how many other nodes have got a question.
    fn asked_of(&mut self, who: (u8, u32), others: usize) {
        let core = self.core();
        core.questions.expect(who, others, &mut core.io);
    }
}

impl<V: NodeChannels> Node for V {}

fn all_names(node: &mut impl NodeChannels) -> Vec<ChannelName> {
    let channels = node.core().channels.iter();
    channels.map(|(name, _)| name.clone()).collect()
}

#[cfg(test)]
pub(crate) mod tests;
