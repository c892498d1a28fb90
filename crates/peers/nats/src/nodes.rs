//! The other nodes: who lives, whose members are to be removed, and questions to all of them.
//!
//! Each node renews a lease, a message that NATS forgets after [`LEASE_MS`]. A node that has none
//! is dead. The living node whose name comes first removes its members and announces each: they are
//! listed for at most [`LEASE_MS`] and five seconds, and the time that this takes.

use std::collections::BTreeSet;

use throng_nats_protocol::write;
use throng_remote::{LEASE_MS, Node as _, RENEW_MS, WORD};

use crate::api;
use crate::link::Message;
use crate::node::Nats;
use crate::node::{Flight, read_body};

/// Members that are removed at once.
const STEP: usize = 500;

impl Nats {
    /// Takes a new name if others may have taken this node for dead.
    pub(crate) fn rename_if_dead(&mut self) {
        if self.may_be_dead() {
            let name = format!("{:016x}", self.core.io.rng.next_u64());
            self.formerly = Some(std::mem::replace(&mut self.incarnation, name));
            self.renamed = true;
        }
    }

    /// Asks which nodes live, and so which of `rostered` do not.
    pub(crate) fn ask_leases(&mut self, rostered: Option<BTreeSet<String>>) {
        let stream = self.names.stream("leases");
        let body = format!("{{\"subjects_filter\":\"{}\"}}", self.names.lease("*"));
        self.api(Flight::Leases(rostered), "STREAM.INFO", &stream, &body);
    }

    /// The lease is renewed: a node that finds this one in the roster finds its lease too. It is
    /// written there until NATS says that it is, or nobody would look for its members.
    pub(crate) fn leased(&mut self, payload: &[u8]) {
        if !self.is_rostered && api::stored(payload).is_ok() {
            let roster = self.names.roster(&self.incarnation);
            self.ask(Flight::Rostered, &roster, &[], b"1");
        } else {
            self.list_unrostered();
        }
    }

    /// NATS has said whether this node is in the roster.
    pub(crate) fn rostered(&mut self, payload: &[u8]) {
        if !self.is_rostered && api::stored(payload).is_ok() {
            self.is_rostered = true;
            if std::mem::take(&mut self.renamed) {
                self.come_again();
            }
            self.store_all_taken();
        }
        self.list_unrostered();
    }

    /// Whether the lease may have been lost, so that others took this node for dead.
    pub(crate) const fn may_be_dead(&self) -> bool {
        self.leased_at_ms > 0
            && self.core.io.now_ms.saturating_sub(self.leased_at_ms) + RENEW_MS > LEASE_MS
    }

    /// Takes the list of live nodes; with `rostered`, of nodes that were known before this was
    /// asked.
    pub(crate) fn leases(&mut self, rostered: Option<&BTreeSet<String>>, payload: &[u8]) {
        let Some((subjects, _)) = api::subjects(payload) else {
            return;
        };
        let names = subjects
            .iter()
            .filter_map(|it| self.names.last("lease", it));
        let others = names.filter(|name| *name != self.incarnation);
        let live: BTreeSet<String> = others.map(str::to_owned).collect();
        // NATS may have lost all leases with its memory: the others have time to come back, too.
        let is_early = self
            .back_at_ms
            .is_some_and(|at_ms| self.core.io.now_ms < at_ms + LEASE_MS);
        if let Some(rostered) = rostered.filter(|_| !is_early) {
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

    /// Takes the list of nodes that may have members. One that has no lease when that is asked from
    /// now on is dead. NATS may answer out of order: an answer about leases that was asked for
    /// earlier knows nothing of a node that has come since.
    pub(crate) fn rosters(&mut self, payload: &[u8]) {
        if let Some((subjects, _)) = api::subjects(payload) {
            let names = subjects
                .iter()
                .filter_map(|it| self.names.last("roster", it));
            let rostered = names.map(str::to_owned).collect();
            self.ask_leases(Some(rostered));
        }
    }

    fn sweep(&mut self) {
        for incarnation in self.dead.clone() {
            let filter = self.names.member("*", &incarnation, ">");
            let body = format!("{{\"subjects_filter\":\"{filter}\"}}");
            let stream = self.names.stream("members");
            self.api(Flight::Orphans(incarnation), "STREAM.INFO", &stream, &body);
        }
    }

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
            self.api(Flight::Orphan(subject.clone()), "DIRECT.GET", &name, "");
        }
        // The rest with the next look.
        self.core.due.sweep_ms = { self.core.due.sweep_ms }.min(self.core.io.now_ms + 500);
    }

    /// Takes a member of a dead node, or a row of this node's own of a member who has left.
    pub(crate) fn orphan(&mut self, subject: String, message: &Message) {
        if message.status.is_some() {
            return;
        }
        let flight = match read_body(&message.payload) {
            // It has come again meanwhile.
            Some((channel, presence)) if self.lists(&channel, &presence, &subject) => return,
            Some((channel, presence)) => Flight::OrphanGone(presence, channel),
            None => Flight::Nothing,
        };
        self.remove_member(flight, &subject);
    }

    /// Whether this node has removed it, and so announces it.
    pub(crate) fn orphan_gone(
        &mut self,
        presence: &throng_broker::ChannelMember,
        channel: &throng_types::ChannelName,
        payload: &[u8],
    ) {
        if api::purged(payload).is_ok_and(|count| count > 0) {
            self.went(channel, presence);
        }
        self.heal(channel, presence);
    }

    // ---- questions ----

    /// NATS says at once if there is no receiver.
    pub(crate) fn send_question(
        &mut self,
        (shard, ticket): (u8, u32),
        there: &str,
        message: &[u8],
    ) {
        let number = self.next_flight;
        self.next_flight += 1;
        let reply = format!("{}.{number}", self.inbox);
        let message = [b"?", message].concat();
        write::publish(&mut self.core.io.out, there, Some(&reply), &[], &message);
        self.asks
            .insert(number, (shard, ticket, self.core.io.now_ms));
    }

    pub(crate) fn nobody_there(&mut self, number: u64) {
        if let Some((shard, ticket, _)) = self.asks.remove(&number) {
            self.core
                .questions
                .one_less((shard, ticket), &mut self.core.io);
        }
    }

    /// Takes what is for this node, or for every node.
    pub(crate) fn node_message(&mut self, message: &Message) {
        let Some((&kind, rest)) = message.payload.split_first() else {
            // To itself, as a proof.
            self.core.proved();
            return;
        };
        match kind {
            b'?' => self.hear_question(rest),
            b'!' => self.hear_answer(rest),
            b'c' | WORD => {
                self.core.io.hear_everybody(&message.payload);
            }
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

#[cfg(test)]
pub(crate) mod tests;
