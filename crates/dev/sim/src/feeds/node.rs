//! A node: the real feeds in their real host; played shards take what they publish.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::sync::{Arc, Mutex};

use throng_broker::{Refusal, home_of};
use throng_feeds::{Call, Feed, FeedOptions, FeedOrder, FeedsPeer, Reply, Round, SourceOptions};
use throng_outward::{CallSender, Outward};
use throng_types::lock;

use super::witness::{DATA_BYTES_MAX, Witness};
use crate::net::Net;
use crate::stage::Stage;

/// Refusals behind which a publication is offered again.
const REFUSALS: [Refusal; 5] = [
    Refusal::Busy,
    Refusal::Unavailable,
    Refusal::Unknown,
    Refusal::NotWritten,
    Refusal::NotOnDisk,
];

/// The mailboxes of a node's shards.
#[derive(Default)]
struct Shards {
    rounds: Vec<VecDeque<Round>>,
    /// Rounds that a mailbox still takes.
    room: usize,
}

pub(super) struct Node {
    stage: Stage<Outward<FeedsPeer>>,
    calls: CallSender<Call>,
    shards: Arc<Mutex<Shards>>,
    batch_max: usize,
    /// Ends once the feed has given its source back.
    idle: Option<Receiver<()>>,
    /// Takes no turn until then.
    pub(super) asleep_until_us: u64,
    /// Publications in a hundred that are refused, to be offered again.
    pub(super) refuses: usize,
    /// Times in a hundred that a shard answers when it could.
    pub(super) haste: usize,
}

impl Node {
    /// `batch_max` events are under way at once; the feed is to begin.
    pub(super) fn new(net: &Net, source: SourceOptions, batch_max: usize, on_disk: bool) -> Self {
        let count = net.between(1, 3);
        let shards = Arc::new(Mutex::new(Shards {
            rounds: (0..count).map(|_| VecDeque::new()).collect(),
            room: usize::MAX,
        }));
        let feed = Feed::new(FeedOptions {
            name: "feed".to_owned(),
            source,
            channel: None,
            data_bytes_max: DATA_BYTES_MAX,
            batch_max,
            is_on_disk: on_disk,
            is_traced: false,
        });
        let seed = net.next();
        let to = shards.clone();
        let deliver = Box::new(move |reply| take(&mut lock(&to), reply));
        let read_file = |_: &std::path::Path| Err("there are no files".to_owned());
        let peer = FeedsPeer::new(vec![feed], count as u8, seed, read_file);
        let (stage, calls) = Stage::serve(net, peer, deliver);
        let node = Self {
            stage,
            calls,
            shards,
            batch_max,
            idle: None,
            asleep_until_us: 0,
            refuses: net.pick(&[0, 0, 10, 50, 100]),
            haste: net.pick(&[100, 100, 10]),
        };
        node.order(FeedOrder::Go);
        node
    }

    fn order(&self, order: FeedOrder) {
        assert!(self.calls.send(Call::Order(order)));
    }

    /// Tells the feed to go on.
    pub(super) fn go(&mut self) {
        self.idle = None;
        self.order(FeedOrder::Go);
    }

    /// Tells the feed to give its source back, or to end.
    pub(super) fn give_back(&mut self, order: FeedOrder) {
        self.order(order);
        let (who, idle) = channel();
        assert!(self.calls.send(Call::WhenIdle(who)));
        self.idle = Some(idle);
    }

    /// Whether the feed was told to give its source back, and has not yet.
    pub(super) fn is_giving_back(&self) -> bool {
        { &self.idle }
            .as_ref()
            .is_some_and(|idle| idle.try_recv() != Err(TryRecvError::Disconnected))
    }

    pub(super) const fn is_paused(&self) -> bool {
        self.idle.is_some()
    }

    /// Whether nothing is left of the feed's work.
    pub(super) fn is_over(&self) -> bool {
        self.stage.running().all(|shard| shard.app().is_idle())
    }

    pub(super) fn turn(&mut self, net: &Net) -> bool {
        net.now_us() >= self.asleep_until_us && self.stage.turn_all()
    }

    /// Mailboxes take so many rounds more.
    pub(super) fn set_room(&self, rounds: usize) {
        lock(&self.shards).room = rounds;
    }

    /// One shard answers its oldest round; whether there was one.
    pub(super) fn answer(&mut self, net: &Net, witness: &mut Witness) -> bool {
        let round = {
            let mut shards = lock(&self.shards);
            let waiting: usize = shards.rounds.iter().map(VecDeque::len).sum();
            if waiting == 0 || !net.percent(self.haste) {
                return false;
            }
            let filled = { shards.rounds.iter() }.enumerate();
            let filled = filled.filter(|(_, rounds)| !rounds.is_empty());
            let filled: Vec<usize> = filled.map(|(at, _)| at).collect();
            shards.rounds[net.pick(&filled)].pop_front()
        };
        let round = round.expect("one of them");
        assert!(round.drafts.len() <= self.batch_max, "{round:?}");
        let shards = lock(&self.shards).rounds.len() as u8;
        let mut channels: Vec<&str> = Vec::new();
        let mut results = Vec::new();
        for draft in &round.drafts {
            assert_eq!(home_of(&draft.channel, shards).0, round.id.shard);
            let channel = draft.channel.as_str();
            assert!(!channels.contains(&channel), "two of one channel");
            channels.push(channel);
            let refusal = net.percent(self.refuses).then(|| net.pick(&REFUSALS));
            let result = witness.publish(draft, refusal);
            let key = draft.idempotency_key.as_deref().unwrap_or_default();
            note!(net, "{key} on {channel}: {result:?}");
            results.push(result);
        }
        assert!(self.calls.send(Call::Answer(round.id, results)));
        true
    }
}

fn take(shards: &mut Shards, reply: Reply) -> Result<(), Reply> {
    let Reply::Round(round) = reply else {
        return Ok(());
    };
    if shards.room == 0 {
        return Err(Reply::Round(round));
    }
    shards.room = shards
        .room
        .saturating_sub(usize::from(shards.room != usize::MAX));
    let rounds = &mut shards.rounds[usize::from(round.id.shard)];
    rounds.push_back(round);
    // What was offered before is answered, or the source was given back since.
    assert!(rounds.len() < 50, "a feed offers without an answer");
    Ok(())
}
