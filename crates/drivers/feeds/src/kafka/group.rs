//! The feed's place in its group: joins, lives, commits, leaves, all by one connection to the
//! group's coordinator.
//!
//! While others are waited for the answer to a question may take long, so [`Group::step`] looks for
//! it and goes away again.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use throng_kafka_protocol::write::Who;
use throng_kafka_protocol::{
    ErrorCode, Joined, Metadata, OffsetAnswer, Place, Synced, WAY, assignment, deal, read,
    subscription, topics_of, write,
};

use super::link::{Link, answer, checked, said};
use super::options::KafkaOptions;
use crate::source::{Fault, LOOK};

/// How long a member is believed to live without a word, and how often it says one.
const SESSION: Duration = Duration::from_secs(10);
const BEAT_EVERY: Duration = Duration::from_secs(3);
/// How long the group waits for its members when partitions are dealt anew.
const REBALANCE: Duration = Duration::from_secs(20);
/// The longest wait for an answer that waits for other members.
const DEAL_MAX: Duration = Duration::from_secs(40);
/// How long a coordinator may take to be there at all: Kafka makes the topic that it needs when
/// somebody asks for the first time.
const FOUND_MAX: Duration = Duration::from_secs(5);
/// How long a good-bye may take.
const LEAVE_MAX: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Out,
    Joining,
    Syncing,
    In,
}

/// Where the feed stands in its group.
pub(super) enum Step {
    /// Others are waited for.
    Waits,
    /// It has just got these partitions, in place of those that it had.
    New(Vec<Place>),
    /// It has its partitions.
    In,
}

pub(super) struct Group {
    link: Link,
    options: KafkaOptions,
    phase: Phase,
    generation: i32,
    /// When the answer that is waited for must be there.
    until: Instant,
    beat_at: Instant,
}

impl Group {
    /// Finds the coordinator and connects to it.
    pub(super) fn find(options: &KafkaOptions) -> Result<Self, Fault> {
        let mut any = any_broker(options)?;
        let until = Instant::now() + FOUND_MAX;
        let coordinator = loop {
            let find = |number| write::find_coordinator(number, &options.group);
            let found = any.ask(find, read::find_coordinator)?;
            let is_soon = matches!(
                found.error,
                ErrorCode::COORDINATOR_NOT_AVAILABLE | ErrorCode::COORDINATOR_LOADING
            );
            if !is_soon || Instant::now() > until {
                checked(found.error)?;
                break found.broker;
            }
            thread::sleep(LOOK);
        };
        Ok(Self {
            link: Link::connect(&coordinator.host, coordinator.port, options)?,
            options: options.clone(),
            phase: Phase::Out,
            generation: -1,
            until: Instant::now(),
            beat_at: Instant::now(),
        })
    }

    /// Goes on with joining, for so long at most; lives, once it has joined.
    pub(super) fn step(&mut self, wait: Duration) -> Result<Step, Fault> {
        let until = Instant::now() + wait;
        loop {
            match self.phase {
                Phase::In => {
                    self.beat()?;
                    if self.phase == Phase::In {
                        return Ok(Step::In);
                    }
                }
                Phase::Out => self.join()?,
                Phase::Joining => {
                    let Some(body) = self.receive(until)? else {
                        return Ok(Step::Waits);
                    };
                    self.joined(answer(read::join_group, &body)?)?;
                }
                Phase::Syncing => {
                    let Some(body) = self.receive(until)? else {
                        return Ok(Step::Waits);
                    };
                    if let Some(places) = self.synced(&answer(read::sync_group, &body)?)? {
                        return Ok(Step::New(places));
                    }
                }
            }
            if Instant::now() >= until {
                return Ok(Step::Waits);
            }
        }
    }

    fn receive(&mut self, until: Instant) -> Result<Option<Vec<u8>>, Fault> {
        let wait = until.saturating_duration_since(Instant::now());
        let body = self.link.receive(wait)?;
        if body.is_none() && Instant::now() > self.until {
            return Err(Fault::new("the group's coordinator does not answer"));
        }
        Ok(body)
    }

    fn join(&mut self) -> Result<(), Fault> {
        let subscription = subscription(&self.options.topics);
        let member = self.options.member().clone();
        let who = who(&self.options, &member, self.generation);
        let (session, rebalance) = (SESSION.as_millis() as i32, REBALANCE.as_millis() as i32);
        let join = |number| write::join_group(number, who, session, rebalance, WAY, &subscription);
        self.link.send(join)?;
        self.until = Instant::now() + DEAL_MAX;
        self.phase = Phase::Joining;
        Ok(())
    }

    fn joined(&mut self, joined: Joined) -> Result<(), Fault> {
        self.phase = Phase::Out;
        match joined.error {
            ErrorCode::NONE => {}
            ErrorCode::MEMBER_ID_REQUIRED => {
                *self.options.member() = joined.member;
                return Ok(());
            }
            error => return self.lost(error),
        }
        let is_leader = joined.leader == joined.member;
        *self.options.member() = joined.member;
        self.generation = joined.generation;
        let dealt = match is_leader {
            true => self.deal(&joined.members)?,
            false => Vec::new(),
        };
        let member = self.options.member().clone();
        let who = who(&self.options, &member, self.generation);
        let sync = |number| write::sync_group(number, who, &dealt);
        self.link.send(sync)?;
        self.until = Instant::now() + DEAL_MAX;
        self.phase = Phase::Syncing;
        Ok(())
    }

    /// Deals all partitions of what the members read.
    fn deal(&mut self, members: &[(String, Vec<u8>)]) -> Result<Vec<(String, Vec<u8>)>, Fault> {
        let topics =
            |(id, bytes): &(String, Vec<u8>)| (id.clone(), topics_of(bytes).unwrap_or_default());
        let members: BTreeMap<String, Vec<String>> = members.iter().map(topics).collect();
        let topics: BTreeSet<&String> = members.values().flatten().collect();
        let topics: Vec<&String> = topics.into_iter().collect();
        let metadata = self
            .link
            .ask(|number| write::metadata(number, &topics), read::metadata)?;
        let places = metadata.topics.iter().flat_map(|topic| {
            topic.partitions.iter().map(|partition| Place {
                topic: topic.name.clone(),
                partition: partition.partition,
            })
        });
        Ok(deal(&members, places))
    }

    fn synced(&mut self, synced: &Synced) -> Result<Option<Vec<Place>>, Fault> {
        self.phase = Phase::Out;
        if synced.error != ErrorCode::NONE {
            return self.lost(synced.error).map(|()| None);
        }
        self.phase = Phase::In;
        self.beat_at = Instant::now() + BEAT_EVERY;
        let places = assignment(&synced.assignment);
        let places = places.ok_or_else(|| Fault::new("its group deals partitions in no way"))?;
        Ok(Some(places))
    }

    /// Says that it lives, if it is time.
    pub(super) fn beat(&mut self) -> Result<(), Fault> {
        if self.phase != Phase::In || Instant::now() < self.beat_at {
            return Ok(());
        }
        self.beat_at = Instant::now() + BEAT_EVERY;
        let member = self.options.member().clone();
        let who = who(&self.options, &member, self.generation);
        let error = self
            .link
            .ask(|number| write::heartbeat(number, who), read::heartbeat)?;
        match error {
            ErrorCode::NONE => Ok(()),
            error => self.lost(error),
        }
    }

    /// Whether the coordinator has the offsets now.
    pub(super) fn commit(&mut self, offsets: &[(Place, i64)]) -> Result<bool, Fault> {
        if offsets.is_empty() {
            return Ok(true);
        }
        if matches!(self.phase, Phase::Joining | Phase::Syncing) {
            return Ok(false);
        }
        let member = self.options.member().clone();
        let who = who(&self.options, &member, self.generation);
        let commit = |number| write::offset_commit(number, who, offsets);
        match self.link.ask(commit, read::offset_commit)? {
            ErrorCode::NONE => Ok(true),
            error => self.lost(error).map(|()| false),
        }
    }

    /// Up to where the group has done these partitions.
    pub(super) fn offsets(&mut self, places: &[(Place, ())]) -> Result<Vec<OffsetAnswer>, Fault> {
        let group = &self.options.group;
        let fetch = |number| write::offset_fetch(number, group, places);
        let (error, offsets) = self.link.ask(fetch, read::offset_fetch)?;
        checked(error)?;
        Ok(offsets)
    }

    /// Brokers, and the feed's topics.
    pub(super) fn metadata(&mut self) -> Result<Metadata, Fault> {
        let topics = &self.options.topics;
        let metadata = self
            .link
            .ask(|number| write::metadata(number, topics), read::metadata)?;
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
        if self.phase == Phase::In {
            self.phase = Phase::Out;
        }
    }

    pub(super) fn is_in(&self) -> bool {
        self.phase == Phase::In
    }

    /// What is to be done about an error: join anew, wait, or give up.
    fn lost(&mut self, error: ErrorCode) -> Result<(), Fault> {
        match error {
            ErrorCode::UNKNOWN_MEMBER => self.options.member().clear(),
            ErrorCode::COORDINATOR_LOADING => {
                thread::sleep(LOOK);
                return Ok(());
            }
            error if error.is_about_members() => {}
            error => return Err(said(error)),
        }
        self.phase = Phase::Out;
        Ok(())
    }
}

impl Drop for Group {
    /// Gives the partitions to others at once. Who cannot is waited for until its session ends.
    fn drop(&mut self) {
        if self.phase != Phase::In {
            return;
        }
        let member = std::mem::take(&mut *self.options.member());
        let who = who(&self.options, &member, self.generation);
        let leave = |number| write::leave_group(number, who);
        let left = self
            .link
            .send(leave)
            .and_then(|()| self.link.receive(LEAVE_MAX));
        if !matches!(left, Ok(Some(_))) {
            *self.options.member() = member;
        }
    }
}

fn who<'a>(options: &'a KafkaOptions, member: &'a str, generation: i32) -> Who<'a> {
    Who {
        group: &options.group,
        member,
        generation,
    }
}

/// A connection to the first broker that answers.
fn any_broker(options: &KafkaOptions) -> Result<Link, Fault> {
    let mut failed = Fault::new("no broker is named");
    for (host, port) in &options.hosts {
        match Link::connect(host, *port, options) {
            Ok(link) => return Ok(link),
            Err(fault) => failed = fault,
        }
    }
    Err(failed)
}
