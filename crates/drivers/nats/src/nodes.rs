//! The other nodes: who lives, whose members are to be removed, and questions to all of them.
//!
//! Each node renews a lease, a message that NATS forgets after [`LEASE_MS`]. A node that has none
//! is dead. The living node whose name comes first removes its members and tells of each: they are
//! listed for at most [`LEASE_MS`] and [`SWEEP_MS`], and the time that this takes.

use std::collections::BTreeSet;

use throng_remote::{PeerEvent, Questions, ToPeers};

use crate::api;
use crate::flight::Flight;
use crate::link::Message;
use crate::node::{LEASE_MS, Node};
use crate::record::Kind;
use crate::rows::read_body;

/// Between two words of a node, in milliseconds.
const RENEW_MS: u64 = 3000;
/// Between two looks for nodes that died, in milliseconds.
const SWEEP_MS: u64 = 5000;
/// Members that are removed at once.
const STEP: usize = 500;
/// How long a question waits for a node to be there, in milliseconds.
const ASK_MS: u64 = 5000;

impl Node {
    /// Takes a new name if others may have taken this node for dead.
    pub(crate) fn rename_if_dead(&mut self) {
        if self.may_be_dead() {
            self.incarnation = format!("{:016x}", self.desk.rng.next_u64());
            self.renamed = true;
        }
    }

    /// This node lives from now on.
    pub(crate) fn announce_node(&mut self) {
        self.live = None;
        self.rostered = None;
        self.keep_lease();
        let hello = format!("+{}", self.incarnation);
        let everybody = self.names.everybody();
        self.say(&everybody, hello.as_bytes());
        if std::mem::take(&mut self.renamed) {
            self.come_again();
        }
    }

    /// Renews the lease, and looks who else has one.
    pub(crate) fn keep_lease(&mut self) {
        let now_ms = self.desk.now_ms;
        if now_ms >= self.due.lease_ms {
            self.due.lease_ms = now_ms + RENEW_MS;
            self.leased_at_ms = now_ms.max(1);
            let lease = self.names.lease(&self.incarnation);
            self.ask(Flight::Leased, &lease, &[], b"1");
            self.ask_leases();
        }
        if now_ms >= self.due.sweep_ms {
            self.due.sweep_ms = now_ms + SWEEP_MS;
            let stream = self.names.stream("rosters");
            let body = format!("{{\"subjects_filter\":\"{}\"}}", self.names.roster("*"));
            self.api(Flight::Rosters, "STREAM.INFO", &stream, &body);
        }
    }

    fn ask_leases(&mut self) {
        let stream = self.names.stream("leases");
        let body = format!("{{\"subjects_filter\":\"{}\"}}", self.names.lease("*"));
        self.api(Flight::Leases, "STREAM.INFO", &stream, &body);
    }

    /// The lease is renewed: whoever finds this node in the roster finds its lease too.
    pub(crate) fn leased(&mut self) {
        if self.live.is_none() {
            let roster = self.names.roster(&self.incarnation);
            self.ask(Flight::Nothing, &roster, &[], b"1");
        }
    }

    /// Whether the lease may have been lost, so that others took this node for dead.
    pub(crate) const fn may_be_dead(&self) -> bool {
        self.leased_at_ms > 0
            && self.desk.now_ms.saturating_sub(self.leased_at_ms) + RENEW_MS > LEASE_MS
    }

    /// Which nodes live.
    pub(crate) fn leases(&mut self, payload: &[u8]) {
        let Some((subjects, _)) = api::subjects(payload) else {
            return;
        };
        let names = subjects
            .iter()
            .filter_map(|it| self.names.last("lease", it));
        let others = names.filter(|name| *name != self.incarnation);
        let live: BTreeSet<String> = others.map(str::to_owned).collect();
        let rostered = self.rostered.take();
        if let Some(rostered) = rostered {
            let dead = rostered.difference(&live);
            self.dead = dead
                .filter(|it| **it != self.incarnation)
                .cloned()
                .collect();
            let is_first = live.first().is_none_or(|first| self.incarnation < *first);
            if is_first {
                self.sweep();
            }
        }
        self.live = Some(live);
    }

    /// Which nodes may have members. Who has no lease then, is dead.
    pub(crate) fn rosters(&mut self, payload: &[u8]) {
        if let Some((subjects, _)) = api::subjects(payload) {
            let names = subjects
                .iter()
                .filter_map(|it| self.names.last("roster", it));
            self.rostered = Some(names.map(str::to_owned).collect());
            self.ask_leases();
        }
    }

    /// Looks for the members of nodes that have died.
    fn sweep(&mut self) {
        for incarnation in self.dead.clone() {
            let filter = self.names.member("*", &incarnation, ">");
            let body = format!("{{\"subjects_filter\":\"{filter}\"}}");
            let stream = self.names.stream("members");
            self.api(Flight::Orphans(incarnation), "STREAM.INFO", &stream, &body);
        }
    }

    /// The members of a node that has died.
    pub(crate) fn orphans(&mut self, incarnation: &str, payload: &[u8]) {
        let Some((subjects, _)) = api::subjects(payload) else {
            return;
        };
        if subjects.is_empty() {
            tracing::info!(incarnation, "the members of a node that died are removed");
            let stream = self.names.stream("rosters");
            let body = format!("{{\"filter\":\"{}\"}}", self.names.roster(incarnation));
            return self.api(Flight::Nothing, "STREAM.PURGE", &stream, &body);
        }
        let stream = self.names.stream("members");
        for subject in subjects.iter().take(STEP) {
            let name = format!("{stream}.{subject}");
            self.api(Flight::Orphan, "DIRECT.GET", &name, "");
        }
        // The rest with the next look.
        self.due.sweep_ms = self.due.sweep_ms.min(self.desk.now_ms + 500);
    }

    /// One of them.
    pub(crate) fn orphan(&mut self, message: &Message) {
        if message.status.is_some() {
            return;
        }
        let Some((channel, presence)) = read_body(&message.payload) else {
            return self.delete_member(Flight::Nothing, message.seq);
        };
        self.delete_member(Flight::OrphanGone(presence, channel), message.seq);
    }

    /// Whether this node has removed it, and so tells of it.
    pub(crate) fn orphan_gone(
        &mut self,
        presence: &throng_broker::Presence,
        channel: &throng_types::ChannelName,
        payload: &[u8],
    ) {
        if api::done(payload).is_ok() && presence.is_announced {
            self.tell(channel, presence, Kind::Left);
        }
    }

    // ---- questions ----

    /// Takes what shards want of other nodes.
    pub(crate) fn take_peers(&mut self) {
        while let Some((lane, wanted)) = self.desk.next_to_peers() {
            match wanted {
                ToPeers::Ask(ticket, question) => self.ask_peers(lane, ticket, &question),
                ToPeers::Answer(to, answer) => {
                    let answer = Questions::answer(&to, &answer).filter(|_| self.link.is_some());
                    if let Some((node, mut message)) = answer {
                        message.insert(0, b'!');
                        let there = self.names.node(node);
                        self.say(&there, &message);
                    }
                }
            }
        }
        self.questions.give_up(self.link.is_some(), &mut self.desk);
        let now_ms = self.desk.now_ms;
        self.asks
            .retain(|_, (_, _, since_ms)| *since_ms + ASK_MS > now_ms);
    }

    fn ask_peers(&mut self, lane: u8, ticket: u32, question: &[u8]) {
        let live = self.live.clone().filter(|_| self.link.is_some());
        let Some(live) = live else {
            let event = PeerEvent::Answered(ticket, None);
            return self.desk.tell_shard(lane, event);
        };
        let who = (lane, ticket);
        let message = { &mut self.questions }.ask(who, &self.incarnation, question, &mut self.desk);
        let Some(mut message) = message else { return };
        message.insert(0, b'?');
        for node in &live {
            let number = self.next_flight;
            self.next_flight += 1;
            let reply = format!("{}.{number}", self.inbox);
            let there = self.names.node(node);
            let out = &mut self.desk.out;
            throng_nats_protocol::write::publish(out, &there, Some(&reply), &[], &message);
            self.asks.insert(number, (lane, ticket, self.desk.now_ms));
        }
        self.questions.expect(who, live.len(), &mut self.desk);
    }

    /// Nobody is there to hear a question.
    pub(crate) fn nobody_there(&mut self, number: u64) {
        if let Some((lane, ticket, _)) = self.asks.remove(&number) {
            self.questions.one_less((lane, ticket), &mut self.desk);
        }
    }

    /// Takes what is for this node, or for every node.
    pub(crate) fn node_message(&mut self, message: &Message) {
        let Some((&kind, rest)) = message.payload.split_first() else {
            // To itself, as a proof.
            self.proved_at_ms = self.desk.now_ms;
            return;
        };
        match kind {
            b'?' => Questions::hear_question(&self.incarnation, rest, &mut self.desk),
            b'!' => self.questions.hear_answer(rest, &mut self.desk),
            b'+' => {
                if let (Some(live), Ok(name)) = (&mut self.live, std::str::from_utf8(rest))
                    && name != self.incarnation
                {
                    live.insert(name.to_owned());
                }
            }
            _ => {}
        }
    }
}
