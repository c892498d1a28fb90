//! The peer for Appwrite: events of its Redis and of the server API in one order for all shards,
//! look-ups and presences by its HTTP API.
//!
//! Owns: the order of events, what waits for its turn. Never: connections of clients, or what an
//! event means.
//!
//! Rule for "full": with [`WAITING_MAX`] replies for each shard under way no event is taken.
//! Redis is not read then, and further offers are refused; nothing is lost unsaid.
//!
//! Invariants
//! - Every shard gets the same events in the same order.
//! - A change of a user is noted before the shards hear of it, and no event comes between the check
//!   of an answer and its telling.

use std::collections::VecDeque;
use std::sync::Arc;

use throng_appwrite::{FeedMessage, LookupReply, News, PresenceReply};
use throng_metrics::{Counter, Counters};
use throng_peer::task::{QueueReceiver, QueueSender, Task, Tasks, queue};
use throng_peer::{LinkEvent, LinkId, Peer, PeerContext, ReadFlow};
use throng_redis_link::RedisSource;

use crate::client::{ApiOptions, Client, asker_of, tell_found, tell_presence};
use crate::feed::{Call, EventFeed, Offers, Reply, Stood};
use crate::sampled::Sampled;
use crate::subscriber::{Heard, Standstill, Subscriber};

/// Replies for each shard that may wait when an event is taken. Queue: `news`.
const WAITING_MAX: usize = 256;
/// Words of the subscriber that the peer has not taken.
const HEARD_MAX: usize = 64;
/// Between two looks whether busy shards have room, in milliseconds.
const LOOK_MS: u64 = 1;

pub struct AppwriteOptions {
    pub shards: usize,
    /// The first epoch, which must differ from those of earlier processes.
    pub epoch: u64,
    /// Appwrite's Redis, and the bytes that an event of it may have.
    pub redis: Option<(RedisSource, usize)>,
    pub api: Option<ApiOptions>,
    /// Counts the events of [`Call::Offer`].
    pub offers: Offers,
    /// Counters with this one writer.
    pub counters: Arc<Counters>,
}

/// Receives Appwrite's events, and calls its HTTP API.
pub struct AppwritePeer {
    shards: usize,
    feed: EventFeed,
    counters: Arc<Counters>,
    client: Option<Client>,
    tasks: Tasks,
    redis: Option<(RedisSource, usize)>,
    subscriber: Option<Task>,
    say: QueueSender<Heard>,
    heard: QueueReceiver<Heard>,
    /// The subscriber's connection stands.
    hears: bool,
    offered: Offers,
    /// Offered messages that were not yet handed on. Bound: [`Offers::add`].
    offers: VecDeque<FeedMessage>,
    /// Shards had no room at the last look.
    is_full: bool,
    standstill: Standstill,
    change: Option<QueueSender<()>>,
    /// Told when everything is handed on.
    stood: Option<Stood>,
    /// The subscriber stands, or hears nothing.
    has_caught_up: bool,
}

impl AppwritePeer {
    /// A peer that waits for [`Call::Begin`].
    #[must_use]
    pub fn new(options: AppwriteOptions) -> Self {
        let (say, heard) = queue(HEARD_MAX);
        let counters = options.counters;
        let client = |api| Client::new(api, counters.clone());
        Self {
            shards: options.shards,
            feed: EventFeed::new(options.epoch),
            client: options.api.map(client),
            counters,
            tasks: Tasks::default(),
            redis: options.redis,
            subscriber: None,
            say,
            heard,
            hears: false,
            offered: options.offers,
            offers: VecDeque::new(),
            is_full: false,
            standstill: Standstill::default(),
            change: None,
            stood: None,
            has_caught_up: false,
        }
    }

    fn begin(&mut self, cx: &mut PeerContext<'_, Reply>) {
        self.tell_all(&self.feed.begun(), cx);
        if let Some((source, message_bytes_max)) = self.redis.take() {
            let (change, changes) = queue(1);
            self.change = Some(change);
            let subscriber = Subscriber {
                net: self.tasks.net().clone(),
                source,
                message_bytes_max,
                counters: self.counters.clone(),
                heard: self.say.clone(),
                standstill: self.standstill.clone(),
                changes,
                undelivered: Sampled::default(),
            };
            self.subscriber = Some(self.tasks.net().spawn(subscriber.run()));
        }
    }

    fn tell_all(&self, news: &News, cx: &mut PeerContext<'_, Reply>) {
        for shard in 0..self.shards {
            cx.reply(Reply::News(shard, news.clone()));
        }
    }

    fn publish(&mut self, event: FeedMessage, cx: &mut PeerContext<'_, Reply>) {
        if let Some(client) = &mut self.client
            && let Some(change) = event.identity_change()
        {
            client.known.changed(&event.project, &change.user_id);
        }
        self.counters.count(Counter::PublicationsAppwrite);
        let news = self.feed.event(event);
        self.tell_all(&news, cx);
    }

    /// Events may have been lost: positions from before mean nothing any more, and neither does
    /// what is known of users.
    fn begin_anew(&mut self, cx: &mut PeerContext<'_, Reply>) {
        if let Some(client) = &mut self.client {
            client.known.all_changed();
        }
        let news = self.feed.begin_anew();
        self.tell_all(&news, cx);
    }

    fn take(&mut self, heard: Heard, cx: &mut PeerContext<'_, Reply>) {
        match heard {
            Heard::Up => {
                self.hears = true;
                self.begin_anew(cx);
            }
            Heard::Down => {
                self.hears = false;
                self.has_caught_up = true;
            }
            Heard::Event(event) => self.publish(event, cx),
            Heard::Stands(number) => self.has_caught_up |= number == self.standstill.number(),
        }
    }

    fn stand_still(&mut self, stood: Option<Stood>) {
        self.standstill.set(stood.is_some());
        self.stood = stood;
        self.has_caught_up = !self.hears;
        if let Some(change) = &self.change {
            // One that waits already leads to the same look.
            let _ = change.send(());
        }
    }

    fn has_room(&self, cx: &PeerContext<'_, Reply>) -> bool {
        cx.replies_waiting() < WAITING_MAX * self.shards
    }

    /// Goes on with events, in the order in which they came.
    fn go_on(&mut self, cx: &mut PeerContext<'_, Reply>) {
        let mut has_taken = true;
        while std::mem::take(&mut has_taken) {
            self.tasks.run(cx);
            while self.has_room(cx) {
                let heard = self.heard.try_next();
                let offer = self.offers.pop_front();
                if heard.is_none() && offer.is_none() {
                    break;
                }
                has_taken = true;
                if let Some(heard) = heard {
                    self.take(heard, cx);
                }
                if let Some(event) = offer {
                    self.offered.taken();
                    self.counters.count(Counter::AppwriteEventsApi);
                    self.publish(event, cx);
                }
            }
        }
        let has_room = self.has_room(cx);
        self.is_full &= !has_room;
        let has_all = self.has_caught_up && self.offered.are_taken() && cx.replies_waiting() == 0;
        if let Some(stood) = self.stood.take_if(|_| has_all) {
            cx.reply(Reply::Stands(stood));
        }
        let looks = !has_room || self.stood.is_some() && self.has_caught_up;
        let look = looks.then(|| cx.now.mono + LOOK_MS);
        cx.wake_at(self.tasks.deadline().into_iter().chain(look).min());
    }
}

impl Peer for AppwritePeer {
    type Call = Call;
    type Reply = Reply;

    fn call(&mut self, call: Call, cx: &mut PeerContext<'_, Reply>) {
        match (call, &mut self.client) {
            (Call::Begin, _) => self.begin(cx),
            (Call::LookUp(lookup), Some(client)) => client.look_up(lookup, cx),
            (Call::LookUp(lookup), None) => {
                tell_found((lookup.conn, lookup.token), LookupReply::Failed, cx);
            }
            (Call::Presence(call), Some(client)) => client.presence(call, cx),
            (Call::Presence(call), None) => {
                tell_presence(asker_of(&call), PresenceReply::Failed, cx);
            }
            (Call::Offer(event), _) => self.offers.push_back(event),
            (Call::StandStill(stood), _) => {
                // Another process does not hear what is offered here.
                self.offered.close(true);
                self.stand_still(Some(stood));
            }
            (Call::Share, _) => self.standstill.share(true),
            (Call::GoOn { has_taken_over }, _) => {
                self.standstill.share(false);
                self.stand_still(None);
                self.offered.close(has_taken_over);
            }
        }
        self.go_on(cx);
    }

    fn event(
        &mut self,
        link: LinkId,
        event: LinkEvent<'_>,
        cx: &mut PeerContext<'_, Reply>,
    ) -> ReadFlow {
        let flow = match &mut self.client {
            Some(client) if !self.tasks.has(link) => client.event(link, event, cx),
            _ => self.tasks.event(link, event),
        };
        self.go_on(cx);
        flow
    }

    fn woken(&mut self, cx: &mut PeerContext<'_, Reply>) {
        if !self.has_room(cx) && !std::mem::replace(&mut self.is_full, true) {
            self.counters.count(Counter::AppwriteFeedWaits);
        }
        self.go_on(cx);
    }

    fn destination(reply: &Reply) -> Option<usize> {
        match reply {
            Reply::News(shard, _) => Some(*shard),
            Reply::Stands(_) => None,
        }
    }
}

#[cfg(test)]
mod tests;
