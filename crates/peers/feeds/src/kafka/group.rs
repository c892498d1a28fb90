//! The feed's place in its group: joins, lives, commits, leaves, all by one connection to the
//! group's coordinator.
//!
//! While others are waited for the answer to a question may take long, so [`Group::step`] looks for
//! it and goes away again.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use throng_kafka_protocol::request::{self, Who};
use throng_kafka_protocol::{
    ErrorCode, Joined, Metadata, OffsetAnswer, ReadBody, Synced, TopicPartition, WAY, assignment,
    deal, subscription, topics_of,
};
use throng_types::Millis;

use super::link::{Client, Link, checked, said};
use crate::source::{Fault, LOOK_MS};

/// Times in milliseconds: how long a member is believed to live without a word, and how often it
/// says one.
const SESSION_MS: u64 = 10_000;
const BEAT_EVERY_MS: u64 = 3_000;
/// Time for which the group waits for its members when partitions are dealt anew.
const REBALANCE_MS: u64 = 20_000;
/// The longest wait for an answer that waits for other members.
const DEAL_MAX_MS: u64 = 40_000;
/// Bound of the wait for a coordinator to be there at all: Kafka makes the topic that it needs when
/// somebody asks for the first time.
const FOUND_MAX_MS: u64 = 5_000;
/// Bound of leaving the group.
const LEAVE_MAX_MS: u64 = 1_000;

#[derive(Clone, Copy)]
enum Phase {
    Out,
    Joining(ReadBody<Joined>),
    Syncing(ReadBody<Synced>),
    In,
}

pub(super) enum Step {
    Waits,
    /// Partitions that it has just got, in place of those that it had.
    New(Vec<TopicPartition>),
    In,
}

pub(super) struct Group {
    client: Rc<Client>,
    link: Link,
    phase: Phase,
    generation: i32,
    /// When the answer that is waited for must be there.
    until: Millis,
    beat_at: Millis,
}

impl Group {
    pub(super) async fn find(client: &Rc<Client>) -> Result<Self, Fault> {
        let net = &client.net;
        let mut any = any_broker(client).await?;
        let until = net.now().mono + FOUND_MAX_MS;
        let coordinator = loop {
            let find = request::find_coordinator(&client.options.reads.group);
            let found = any.ask(find).await?;
            let is_soon = matches!(
                found.error,
                ErrorCode::COORDINATOR_NOT_AVAILABLE | ErrorCode::COORDINATOR_LOADING
            );
            if !is_soon || net.now().mono > until {
                checked(found.error)?;
                break found.broker;
            }
            net.sleep(LOOK_MS).await;
        };
        Ok(Self {
            link: Link::connect(client, &coordinator.host, coordinator.port).await?,
            client: client.clone(),
            phase: Phase::Out,
            generation: -1,
            until: net.now().mono,
            beat_at: net.now().mono,
        })
    }

    fn now(&self) -> Millis {
        self.client.net.now().mono
    }

    /// Goes on with joining, for so long at most; lives, once it has joined.
    pub(super) async fn step(&mut self, wait_ms: u64) -> Result<Step, Fault> {
        let until = self.now() + wait_ms;
        loop {
            match self.phase {
                Phase::In => {
                    self.beat().await?;
                    if self.is_in() {
                        return Ok(Step::In);
                    }
                }
                Phase::Out => self.join(),
                Phase::Joining(read) => match self.receive(read, until).await? {
                    Some(joined) => self.joined(joined).await?,
                    None => return Ok(Step::Waits),
                },
                Phase::Syncing(read) => match self.receive(read, until).await? {
                    Some(synced) => {
                        if let Some(places) = self.synced(&synced).await? {
                            return Ok(Step::New(places));
                        }
                    }
                    None => return Ok(Step::Waits),
                },
            }
            if self.now() >= until {
                return Ok(Step::Waits);
            }
        }
    }

    async fn receive<T>(&mut self, read: ReadBody<T>, until: Millis) -> Result<Option<T>, Fault> {
        let answer = self.link.receive(read, until - self.now()).await?;
        if answer.is_none() && self.now() > self.until {
            return Err(Fault::new("the group's coordinator does not answer"));
        }
        Ok(answer)
    }

    fn join(&mut self) {
        let subscription = subscription(&self.client.options.reads.topics);
        let member = self.client.member.borrow().clone();
        let who = who(&self.client, &member, self.generation);
        let (session, rebalance) = (SESSION_MS as i32, REBALANCE_MS as i32);
        let join = request::join_group(who, session, rebalance, WAY, &subscription);
        self.link.send(&join);
        self.until = self.now() + DEAL_MAX_MS;
        self.phase = Phase::Joining(join.read);
    }

    async fn joined(&mut self, joined: Joined) -> Result<(), Fault> {
        self.phase = Phase::Out;
        match joined.error {
            ErrorCode::NONE => {}
            ErrorCode::MEMBER_ID_REQUIRED => {
                *self.client.member.borrow_mut() = joined.member;
                return Ok(());
            }
            error => return self.lost(error).await,
        }
        let is_leader = joined.leader == joined.member;
        *self.client.member.borrow_mut() = joined.member;
        self.generation = joined.generation;
        let dealt = match is_leader {
            true => self.deal(&joined.members).await?,
            false => Vec::new(),
        };
        let member = self.client.member.borrow().clone();
        let who = who(&self.client, &member, self.generation);
        let sync = request::sync_group(who, &dealt);
        self.link.send(&sync);
        self.until = self.now() + DEAL_MAX_MS;
        self.phase = Phase::Syncing(sync.read);
        Ok(())
    }

    /// Deals all partitions of what the members read.
    async fn deal(
        &mut self,
        members: &[(String, Vec<u8>)],
    ) -> Result<Vec<(String, Vec<u8>)>, Fault> {
        let topics =
            |(id, bytes): &(String, Vec<u8>)| (id.clone(), topics_of(bytes).unwrap_or_default());
        let members: BTreeMap<String, Vec<String>> = members.iter().map(topics).collect();
        let topics: BTreeSet<&String> = members.values().flatten().collect();
        let topics: Vec<&String> = topics.into_iter().collect();
        let metadata = self.link.ask(request::metadata(&topics)).await?;
        let places = metadata.topics.iter().flat_map(|topic| {
            topic.partitions.iter().map(|partition| TopicPartition {
                topic: topic.name.clone(),
                partition: partition.partition,
            })
        });
        Ok(deal(&members, places))
    }

    async fn synced(&mut self, synced: &Synced) -> Result<Option<Vec<TopicPartition>>, Fault> {
        self.phase = Phase::Out;
        if synced.error != ErrorCode::NONE {
            return self.lost(synced.error).await.map(|()| None);
        }
        self.phase = Phase::In;
        self.beat_at = self.now() + BEAT_EVERY_MS;
        let places = assignment(&synced.assignment);
        let places = places.ok_or_else(|| Fault::new("its group deals partitions in no way"))?;
        Ok(Some(places))
    }

    /// Says that it lives, if it is time.
    pub(super) async fn beat(&mut self) -> Result<(), Fault> {
        if !self.is_in() || self.now() < self.beat_at {
            return Ok(());
        }
        self.beat_at = self.now() + BEAT_EVERY_MS;
        let member = self.client.member.borrow().clone();
        let who = who(&self.client, &member, self.generation);
        match self.link.ask(request::heartbeat(who)).await? {
            ErrorCode::NONE => Ok(()),
            error => self.lost(error).await,
        }
    }

    /// Whether the coordinator has the offsets now.
    pub(super) async fn commit(
        &mut self,
        offsets: &[(TopicPartition, i64)],
    ) -> Result<bool, Fault> {
        if offsets.is_empty() {
            return Ok(true);
        }
        if matches!(self.phase, Phase::Joining(_) | Phase::Syncing(_)) {
            return Ok(false);
        }
        let member = self.client.member.borrow().clone();
        let who = who(&self.client, &member, self.generation);
        match self.link.ask(request::offset_commit(who, offsets)).await? {
            ErrorCode::NONE => Ok(true),
            error => self.lost(error).await.map(|()| false),
        }
    }

    /// Up to where the group has done these partitions.
    pub(super) async fn offsets(
        &mut self,
        places: &[(TopicPartition, ())],
    ) -> Result<Vec<OffsetAnswer>, Fault> {
        let fetch = request::offset_fetch(&self.client.options.reads.group, places);
        let (error, offsets) = self.link.ask(fetch).await?;
        checked(error)?;
        Ok(offsets)
    }

    /// Brokers, and the feed's topics.
    pub(super) async fn metadata(&mut self) -> Result<Metadata, Fault> {
        let metadata = request::metadata(&self.client.options.reads.topics);
        let metadata = self.link.ask(metadata).await?;
        for topic in &metadata.topics {
            let name = &topic.name;
            match topic.error {
                ErrorCode::NONE | ErrorCode::LEADER_NOT_AVAILABLE => {}
                error => return Err(Fault(format!("the topic {name:?}: {error}"))),
            }
        }
        Ok(metadata)
    }

    /// Has the partitions dealt anew, since there are others.
    pub(super) fn join_again(&mut self) {
        if self.is_in() {
            self.phase = Phase::Out;
        }
    }

    pub(super) fn is_in(&self) -> bool {
        matches!(self.phase, Phase::In)
    }

    /// Acts on an error: joins anew, waits, or gives up.
    async fn lost(&mut self, error: ErrorCode) -> Result<(), Fault> {
        match error {
            ErrorCode::UNKNOWN_MEMBER => self.client.member.borrow_mut().clear(),
            ErrorCode::COORDINATOR_LOADING => {
                self.client.net.sleep(LOOK_MS).await;
                return Ok(());
            }
            error if error.is_about_members() => {}
            error => return Err(said(error)),
        }
        self.phase = Phase::Out;
        Ok(())
    }

    /// Gives the partitions to others at once. A member that cannot is waited for until its session
    /// ends.
    pub(super) async fn leave(mut self) {
        if !self.is_in() {
            return;
        }
        let member = self.client.member.take();
        let who = who(&self.client, &member, self.generation);
        let left = self
            .link
            .ask_within(LEAVE_MAX_MS, request::leave_group(who));
        if left.await.is_err() {
            *self.client.member.borrow_mut() = member;
        }
    }
}

fn who<'a>(client: &'a Client, member: &'a str, generation: i32) -> Who<'a> {
    Who {
        group: &client.options.reads.group,
        member,
        generation,
    }
}

/// A connection to the first broker that answers.
async fn any_broker(client: &Rc<Client>) -> Result<Link, Fault> {
    let mut failed = Fault::new("no broker is named");
    for (host, port) in &client.options.hosts {
        match Link::connect(client, host, *port).await {
            Ok(link) => return Ok(link),
            Err(fault) => failed = fault,
        }
    }
    Err(failed)
}
