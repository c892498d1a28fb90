//! The group of consumers, as a coordinator has it (Kafka's `GroupCoordinator`).

use std::collections::{BTreeMap, BTreeSet};

use super::wire::{Out, Reader, framed};
use crate::feeds::server::Around;

pub(super) const NONE: i16 = 0;
const ILLEGAL_GENERATION: i16 = 22;
const UNKNOWN_MEMBER: i16 = 25;
const REBALANCE_IN_PROGRESS: i16 = 27;
const MEMBER_ID_REQUIRED: i16 = 79;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Stable,
    /// Members are to join until then.
    Joining(u64),
    /// The leader is to deal.
    Syncing,
}

struct Member {
    subscription: Vec<u8>,
    assignment: Vec<u8>,
    session_ms: u64,
    /// Believed to live until then, unless it waits for an answer.
    lives_until_ms: u64,
    /// The connection and the number of the question that it waits with.
    waits: Option<(usize, i32)>,
}

#[derive(Default)]
pub(super) struct Group {
    phase: Phase,
    generation: i32,
    leader: String,
    members: BTreeMap<String, Member>,
    /// Ids that were given to members to come.
    given: BTreeSet<String>,
    way: String,
}

impl Group {
    /// Answers a join, unless it has to wait.
    pub(super) fn join(
        &mut self,
        (conn, correlation): (usize, i32),
        body: &mut Reader<'_>,
        around: &mut Around<'_>,
    ) -> Option<Out> {
        let _group = body.text();
        let (session_ms, rebalance_ms) = (body.i32() as u64, body.i32() as u64);
        let id = body.text();
        let (_instance, _kind) = (body.text(), body.text());
        let (way, subscription) = body.list(|it| (it.text(), it.bytes())).swap_remove(0);
        self.way = way;
        if id.is_empty() {
            let id = format!("throng-{:x}", around.net.next());
            self.given.insert(id.clone());
            return Some(self.joined(MEMBER_ID_REQUIRED, &id));
        }
        let is_known = self.members.contains_key(&id);
        if !is_known && !self.given.remove(&id) {
            return Some(self.joined(UNKNOWN_MEMBER, &id));
        }
        let lives_until_ms = around.now_ms() + session_ms;
        if is_known
            && (self.phase == Phase::Syncing || self.phase == Phase::Stable && id != self.leader)
        {
            // Nothing has changed for it.
            return Some(self.joined(NONE, &id));
        }
        let member = Member {
            subscription,
            assignment: Vec::new(),
            session_ms,
            lives_until_ms,
            waits: Some((conn, correlation)),
        };
        self.begin(rebalance_ms, around);
        self.members.insert(id, member);
        None
    }

    /// The answer to a join.
    fn joined(&self, error: i16, id: &str) -> Out {
        let mut out = Out::begun();
        out.i16(error);
        out.i32(self.generation);
        out.text(&self.way);
        out.text(&self.leader);
        out.text(id);
        let all: Vec<(&String, &Member)> = match error == NONE && id == self.leader {
            true => self.members.iter().collect(),
            false => Vec::new(),
        };
        out.list(&all, |out, (id, member)| {
            out.text(id);
            out.no_text();
            out.bytes(&member.subscription);
        });
        out
    }

    /// Partitions are to be dealt anew.
    fn begin(&mut self, rebalance_ms: u64, around: &mut Around<'_>) {
        if matches!(self.phase, Phase::Joining(_)) {
            return;
        }
        note!(around.net, "the group rebalances");
        self.phase = Phase::Joining(around.now_ms() + rebalance_ms);
        // Those that wait for their partitions are told.
        for member in self.members.values_mut() {
            if let Some((conn, correlation)) = member.waits.take() {
                let answer = synced(REBALANCE_IN_PROGRESS, b"");
                around.owe(conn, &framed(correlation, &answer));
            }
        }
    }

    /// Answers a sync, unless it has to wait.
    pub(super) fn sync(
        &mut self,
        waits: (usize, i32),
        body: &mut Reader<'_>,
        around: &mut Around<'_>,
    ) -> Option<Out> {
        let (id, error) = self.of(body, around);
        let dealt = body.list(|it| (it.text(), it.bytes()));
        let error = match self.phase {
            Phase::Joining(_) if error == NONE => REBALANCE_IN_PROGRESS,
            _ => error,
        };
        if error != NONE {
            return Some(synced(error, b""));
        }
        let member = self.members.get_mut(&id).expect("a member");
        if self.phase == Phase::Stable {
            return Some(synced(NONE, &member.assignment));
        }
        member.waits = Some(waits);
        if id != self.leader {
            return None;
        }
        self.phase = Phase::Stable;
        for (id, assignment) in dealt {
            if let Some(member) = self.members.get_mut(&id) {
                member.assignment = assignment;
            }
        }
        for member in self.members.values_mut() {
            member.lives_until_ms = around.now_ms() + member.session_ms;
            if let Some((conn, correlation)) = member.waits.take() {
                around.owe(
                    conn,
                    &framed(correlation, &synced(NONE, &member.assignment)),
                );
            }
        }
        None
    }

    /// Reads who asks; whether it is a member of this generation.
    fn of(&mut self, body: &mut Reader<'_>, around: &Around<'_>) -> (String, i16) {
        let _group = body.text();
        let (generation, id) = (body.i32(), body.text());
        let _instance = body.text();
        let error = match self.members.get_mut(&id) {
            None => UNKNOWN_MEMBER,
            Some(_) if generation != self.generation => ILLEGAL_GENERATION,
            Some(member) => {
                member.lives_until_ms = around.now_ms() + member.session_ms;
                NONE
            }
        };
        (id, error)
    }

    pub(super) fn beat(&mut self, body: &mut Reader<'_>, around: &Around<'_>) -> i16 {
        let (_, error) = self.of(body, around);
        match self.phase {
            Phase::Joining(_) if error == NONE => REBALANCE_IN_PROGRESS,
            _ => error,
        }
    }

    /// Whether a commit is taken: also while members are to join.
    pub(super) fn may_commit(&mut self, body: &mut Reader<'_>, around: &Around<'_>) -> i16 {
        let (_, error) = self.of(body, around);
        match self.phase {
            Phase::Syncing if error == NONE => REBALANCE_IN_PROGRESS,
            _ => error,
        }
    }

    pub(super) fn leave(&mut self, body: &mut Reader<'_>, around: &mut Around<'_>) -> i16 {
        let (_group, id) = (body.text(), body.text());
        match self.members.remove(&id) {
            None => UNKNOWN_MEMBER,
            Some(_) => {
                self.begin(20_000, around);
                NONE
            }
        }
    }

    /// Does what time brings; whether anything was done.
    pub(super) fn works(&mut self, around: &mut Around<'_>) -> bool {
        let now_ms = around.now_ms();
        let dead = { self.members.iter() }
            .filter(|(_, it)| it.waits.is_none() && it.lives_until_ms <= now_ms);
        let dead: Vec<String> = dead.map(|(id, _)| id.clone()).collect();
        for id in &dead {
            note!(around.net, "the member {id} is dead");
            self.members.remove(id);
            self.begin(20_000, around);
        }
        let Phase::Joining(until) = self.phase else {
            return !dead.is_empty();
        };
        let is_whole = self.members.values().all(|it| it.waits.is_some());
        if !is_whole && now_ms < until {
            return !dead.is_empty();
        }
        self.members.retain(|_, it| it.waits.is_some());
        self.generation += 1;
        self.phase = Phase::Syncing;
        if !self.members.contains_key(&self.leader) {
            self.leader = self.members.keys().next().cloned().unwrap_or_default();
        }
        if self.members.is_empty() {
            self.phase = Phase::Stable;
        }
        let ids: Vec<String> = self.members.keys().cloned().collect();
        for id in ids {
            let answer = self.joined(NONE, &id);
            let member = self.members.get_mut(&id).expect("a member");
            member.lives_until_ms = now_ms + member.session_ms;
            let (conn, correlation) = member.waits.take().expect("it waits");
            around.owe(conn, &framed(correlation, &answer));
        }
        true
    }

    /// One member, if there is one, is taken for dead.
    pub(super) fn forget_one(&mut self, around: &mut Around<'_>) {
        let ids: Vec<&String> = self.members.keys().collect();
        if !ids.is_empty() {
            let id = ids[around.net.below(ids.len())].clone();
            note!(around.net, "the group forgets {id}");
            self.members.remove(&id);
            self.begin(20_000, around);
        }
    }
}

fn synced(error: i16, assignment: &[u8]) -> Out {
    let mut out = Out::begun();
    out.i16(error);
    out.bytes(assignment);
    out
}
