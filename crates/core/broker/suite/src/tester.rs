//! Sends requests to a cluster, waits for replies, and keeps what each hub got.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use throng_broker::{
    BrokerStats, Draft, HistoryPage, HistoryQuery, Outcome, Published, Recovery, Refusal, Reply,
    Request, Subscribed, Ticket,
};
use throng_types::json::payload_of;
use throng_types::{ChannelName, Millis, Now, Position, Publication, Rng, ShardId};

use crate::cluster::{Cluster, HubMessage, Make, Setup};

/// A cluster, its clock, and everything it has delivered.
pub struct Tester {
    cluster: Box<dyn Cluster>,
    pub(crate) setup: Setup,
    pub(crate) rng: Rng,
    now: Now,
    next_ticket: u32,
    answered: HashSet<u32>,
    /// By hub, in order. Bound: what the properties ask.
    heard: Vec<VecDeque<HubMessage>>,
}

impl Tester {
    pub(crate) fn new(make: Make, shards: u8, seed: u64) -> Self {
        let setup = Setup::new(shards);
        Self {
            cluster: make(setup.clone()),
            setup,
            rng: Rng::new(seed),
            now: Now {
                mono: Millis(1000),
                unix_ms: 1_700_000_000_000,
            },
            next_ticket: 0,
            answered: HashSet::new(),
            heard: (0..shards).map(|_| VecDeque::new()).collect(),
        }
    }

    pub(crate) fn shards(&self) -> impl Iterator<Item = ShardId> + use<> {
        (0..self.setup.shards).map(ShardId)
    }

    /// Picks a random shard.
    pub(crate) fn shard(&mut self) -> ShardId {
        ShardId(self.rng.below(self.setup.shards.into()) as u8)
    }

    /// Makes a request, and waits for nothing; gives its ticket.
    pub(crate) fn ask(&mut self, shard: ShardId, make: impl FnOnce(Ticket) -> Request) -> u32 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let request = make(Ticket(ticket));
        self.cluster.request(shard, request, self.now);
        ticket
    }

    /// Publishes, and waits for nothing; gives the ticket.
    pub(crate) fn send(&mut self, shard: ShardId, draft: Draft) -> u32 {
        self.ask(shard, |ticket| Request::Publish { ticket, draft })
    }

    /// Makes publications together, and waits for nothing; gives their tickets.
    pub(crate) fn publish_all(&mut self, shard: ShardId, drafts: Vec<Draft>) -> Vec<u32> {
        let first = self.next_ticket;
        self.next_ticket += drafts.len() as u32;
        let tickets = (first..).map(Ticket);
        let drafts = tickets.zip(drafts).collect();
        self.cluster.publish_all(shard, drafts, self.now);
        (first..self.next_ticket).collect()
    }

    /// Lets one thing happen, and collects what has arrived.
    pub(crate) fn step(&mut self) -> bool {
        let more = self.cluster.step(self.now, &mut self.rng);
        for shard in self.shards() {
            while let Some(heard) = self.cluster.take(shard) {
                self.hear(shard, heard);
            }
        }
        more
    }

    fn hear(&mut self, shard: ShardId, heard: HubMessage) {
        if let HubMessage::Reply(Reply { ticket, .. }) = &heard {
            assert!(ticket.0 < self.next_ticket, "a reply to a request");
            assert!(self.answered.insert(ticket.0), "one reply to a request");
        }
        self.heard[shard.index()].push_back(heard);
    }

    /// Next of what a shard's hub heard.
    pub(crate) fn next(&mut self, shard: ShardId) -> Option<HubMessage> {
        self.heard[shard.index()].pop_front()
    }

    /// Steps until nothing is under way.
    pub(crate) fn settle(&mut self) {
        while self.step() {}
    }

    /// Takes the outcome of a request of a shard, if it has arrived.
    pub(crate) fn reply(&mut self, shard: ShardId, ticket: u32) -> Option<Outcome> {
        let heard = &mut self.heard[shard.index()];
        let is_it =
            |heard: &HubMessage| matches!(heard, HubMessage::Reply(it) if it.ticket.0 == ticket);
        let at = heard.iter().position(is_it)?;
        match heard.remove(at)? {
            HubMessage::Reply(reply) => Some(reply.outcome),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn set_room(&mut self, has_room: bool) {
        self.cluster.set_room(has_room);
    }

    pub(crate) fn pass(&mut self, ms: u64) {
        self.settle();
        self.now.mono = self.now.mono + ms;
        self.now.unix_ms += ms;
        self.cluster.tick(self.now);
        self.settle();
    }

    pub(crate) fn orders_all(&self) -> bool {
        self.cluster.orders_all()
    }

    pub(crate) fn stats(&self) -> Option<BrokerStats> {
        self.cluster.stats()
    }

    // ---- requests, with everything that follows ----

    pub(crate) fn subscribe(
        &mut self,
        shard: ShardId,
        channel: &str,
        since: Option<Position>,
    ) -> Subscribed {
        let ticket = self.ask(shard, |ticket| subscribe(ticket, channel, since));
        self.settle();
        match self.reply(shard, ticket) {
            Some(Outcome::Subscribed(result)) => result.expect("room for a subscribe"),
            other => panic!("{other:?} to a subscribe"),
        }
    }

    pub(crate) fn recover(&mut self, channel: &str, since: Position) -> Recovery {
        let shard = self.shard();
        self.subscribe(shard, channel, Some(since)).recovery
    }

    pub(crate) fn leave(&mut self, shard: ShardId, channel: &str) {
        self.ask(shard, |_| leave(channel));
        self.settle();
    }

    pub(crate) fn offer(&mut self, shard: ShardId, draft: Draft) -> Result<Published, Refusal> {
        let ticket = self.send(shard, draft);
        self.settle();
        match self.reply(shard, ticket) {
            Some(Outcome::Published(result)) => result,
            other => panic!("{other:?} to a publication"),
        }
    }

    /// Publishes from some shard; gives its position.
    pub(crate) fn publish(&mut self, channel: &str, text: &str) -> Option<Position> {
        let shard = self.shard();
        let published = self.offer(shard, draft(channel, text));
        published.expect("room for a publication").position
    }

    pub(crate) fn history(
        &mut self,
        channel: &str,
        query: HistoryQuery,
    ) -> Result<HistoryPage, Refusal> {
        let shard = self.shard();
        let channel = name(channel);
        let ticket = self.ask(shard, |ticket| Request::History {
            ticket,
            channel,
            query,
        });
        self.settle();
        match self.reply(shard, ticket) {
            Some(Outcome::History(result)) => result,
            other => panic!("{other:?} to a question for history"),
        }
    }

    /// The texts of a channel's history, as far as one reply has them.
    pub(crate) fn kept(&mut self, channel: &str) -> Vec<String> {
        let page = self.history(channel, ALL).expect("a channel with history");
        texts(&page.publications)
    }

    /// The texts of what has reached a shard.
    pub(crate) fn delivered(&mut self, shard: ShardId) -> Vec<String> {
        let heard = self.delivered_where(shard).into_iter();
        heard.map(|(_, text)| text).collect()
    }

    /// Texts with channels of what has reached a shard.
    pub(crate) fn delivered_where(&mut self, shard: ShardId) -> Vec<(String, String)> {
        let publications = self.publications(shard).into_iter();
        publications
            .map(|it| (it.channel.as_str().to_owned(), text(&it)))
            .collect()
    }

    /// Publications that have reached a shard.
    pub(crate) fn publications(&mut self, shard: ShardId) -> Vec<Arc<Publication>> {
        let mut found = Vec::new();
        self.heard[shard.index()].retain(|heard| {
            if let HubMessage::Delivery(publication) = heard {
                found.push(publication.clone());
                return false;
            }
            true
        });
        found
    }
}

/// All history, oldest first.
pub(crate) const ALL: HistoryQuery = HistoryQuery {
    limit: None,
    since: None,
    reverse: false,
};

pub(crate) fn name(name: &str) -> ChannelName {
    ChannelName::new(name).expect("a good name")
}

pub(crate) fn draft(channel: &str, text: &str) -> Draft {
    Draft::new(name(channel), payload_of(text.as_bytes()))
}

pub(crate) fn subscribe(ticket: Ticket, channel: &str, since: Option<Position>) -> Request {
    Request::Subscribe {
        ticket,
        channel: name(channel),
        since,
        presence: None,
    }
}

pub(crate) fn leave(channel: &str) -> Request {
    Request::Leave {
        channel: name(channel),
    }
}

pub(crate) fn text(publication: &Publication) -> String {
    String::from_utf8_lossy(&publication.payload.bytes).into_owned()
}

pub(crate) fn texts(publications: &[Arc<Publication>]) -> Vec<String> {
    publications
        .iter()
        .map(|publication| text(publication))
        .collect()
}

/// Asserts that these texts were recovered, or that recovery was refused.
#[track_caller]
pub(crate) fn expect_recovery(found: &Recovery, expected: Option<&[String]>) {
    match (found, expected) {
        (Recovery::Whole(found), Some(expected)) => assert_eq!(texts(found), expected),
        (Recovery::Lost, None) => {}
        _ => panic!("found {found:?}, expected {expected:?}"),
    }
}
