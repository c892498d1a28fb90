//! The shard's ends of what lies between it and the peers: its part of the broker, and its way to
//! other nodes.
//!
//! A broker of several servers has a peer for each. A channel belongs to one of them by its name
//! alone, so all that concerns it takes one road, and the others do not matter to it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use throng_broker::{
    Draft, LiveOptions, Moving, Receiver, Refusal, Remote, Reply, Request, Ticket,
};
use throng_types::ChannelName;

use crate::io::{NodeIo, RemoteOptions, WORD};
use crate::node::Node;
use crate::queues::{
    ForShard, NodeCaller, NodeEvent, REQUEST_BYTES_MAX, REQUESTS_MAX, ShardCommand, ShardQueues,
    ToNodes, WakePeer, WakeShard,
};
use crate::status::{Health, Status};

/// One shard's way to the other nodes: by any server that they all have.
#[derive(Clone)]
pub struct Nodes {
    pub(crate) ways: Vec<Way>,
}

#[derive(Clone)]
pub(crate) struct Way {
    queues: Arc<ShardQueues>,
    wake: WakePeer,
    status: Arc<Status>,
}

impl Way {
    fn tell(&self, wanted: ToNodes) {
        self.queues.tell_nodes(wanted);
        self.call();
    }

    /// Lets the peer look into its queues, unless it is about to.
    fn call(&self) {
        if self.status.call() {
            (self.wake)();
        }
    }
}

impl Nodes {
    /// Gives the peers this node's name, for [`Self::ask_one`] of others.
    pub fn name(&self, name: &str) {
        for way in &self.ways {
            way.tell(ToNodes::Named(name.into()));
        }
    }

    /// Asks every other node; [`NodeEvent::Answered`] follows for certain.
    pub fn ask(&self, ticket: u32, question: Vec<u8>) {
        self.tell(ToNodes::Ask(ticket, question));
    }

    /// Asks the node of a name for a client; [`NodeEvent::Answered`] follows for certain, without
    /// answers if there is no such node. These questions have few places of their own.
    pub fn ask_one(&self, ticket: u32, node: &str, question: Vec<u8>) {
        self.tell(ToNodes::AskOne(ticket, node.into(), question));
    }

    /// Lets every node hear a word, this one included: as [`NodeEvent::Told`], or not at all.
    pub fn tell_everybody(&self, word: &[u8]) {
        self.tell(ToNodes::Tell([&[WORD], word].concat()));
    }

    fn tell(&self, wanted: ToNodes) {
        let up = self.ways.iter().find(|way| way.status.is_up());
        if let Some(way) = up.or_else(|| self.ways.first()) {
            way.tell(wanted);
        }
    }

    pub fn answer(&self, asker: NodeCaller, answer: Vec<u8>) {
        if let Some(way) = self.ways.get(asker.way) {
            way.tell(ToNodes::Answer(asker, answer));
        }
    }

    /// The next of what other nodes want or say.
    #[must_use]
    pub fn next(&self) -> Option<NodeEvent> {
        let mut ways = self.ways.iter().enumerate();
        ways.find_map(|(number, way)| {
            let mut event = way.queues.next_from_nodes()?;
            if let NodeEvent::Asked(asker, _) = &mut event {
                asker.way = number;
            }
            Some(event)
        })
    }
}

/// One shard's part of a broker on the other side of a network.
pub struct RemoteBroker {
    /// One for each server. Never empty.
    ends: Vec<End>,
    /// Index of the end that is asked first.
    turn: usize,
}

/// One shard's end of what lies between it and one peer.
pub(crate) struct End {
    way: Way,
    /// Taken from the shard, and not by the hub yet. Bound: what was in the shard.
    taken: VecDeque<ForShard>,
    /// Place at which another process takes over, if one does.
    stop: Stop,
    /// The bytes of each request without an answer. Bound: [`REQUESTS_MAX`].
    unanswered: HashMap<Ticket, usize>,
    unanswered_bytes: usize,
}

/// End of what a shard takes of all that the peer leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// As far as there is something.
    No,
    /// Up to the cut of this number, which has not come.
    At(u64),
    /// The cut has come: what is behind it waits for the end of the hand-over.
    Here,
}

impl RemoteBroker {
    pub(crate) const fn new(ends: Vec<End>) -> Self {
        Self { ends, turn: 0 }
    }

    /// The shard's way to the other nodes.
    #[must_use]
    pub fn nodes(&self) -> Nodes {
        let ways = self.ends.iter().map(|end| end.way.clone());
        Nodes {
            ways: ways.collect(),
        }
    }

    fn push_all(&self, moving: impl Fn() -> Moving) {
        for end in &self.ends {
            end.push(ShardCommand::Move(moving()));
        }
    }

    fn end_of(&mut self, channel: &ChannelName) -> &mut End {
        let server = server_of(channel, self.ends.len());
        &mut self.ends[server]
    }
}

/// Finds which of so many servers has a channel: the one that, with its number, gives the highest
/// hash of the channel's name ("rendezvous hashing", Thaler and Ravishankar, 1998). One server more
/// takes its part of the channels from each of the others, and all the rest stay.
#[must_use]
pub fn server_of(channel: &ChannelName, servers: usize) -> usize {
    if servers < 2 {
        return 0;
    }
    let hash = channel.stable_hash();
    let rank = |server: &usize| {
        // SplitMix64's last steps spread the number over all bits.
        let mixed = hash ^ (*server as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    (0..servers).max_by_key(rank).unwrap_or_default()
}

impl End {
    pub(crate) fn new(queues: Arc<ShardQueues>, wake: WakePeer, status: Arc<Status>) -> Self {
        Self {
            way: Way {
                queues,
                wake,
                status,
            },
            taken: VecDeque::new(),
            stop: Stop::No,
            unanswered: HashMap::new(),
            unanswered_bytes: 0,
        }
    }

    fn push(&self, command: ShardCommand) {
        self.way.queues.push(command);
        self.way.call();
    }

    fn request(&mut self, request: Request) -> Option<Reply> {
        if let Some((ticket, bytes)) = ticket_of(&request) {
            if !self.has_room(bytes) {
                return request.refused(Refusal::Busy);
            }
            self.unanswered.insert(ticket, bytes);
            self.unanswered_bytes += bytes;
        }
        self.push(ShardCommand::Request(request));
        None
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.unanswered.len() < REQUESTS_MAX
            && (self.unanswered_bytes + bytes <= REQUEST_BYTES_MAX || self.unanswered_bytes == 0)
    }

    fn publish(&mut self, ticket: Ticket, draft: Draft) -> Result<(), (Refusal, Draft)> {
        if !self.way.status.is_up() {
            return Err((Refusal::Unavailable, draft));
        }
        if !self.has_room(draft.cost_bytes()) {
            return Err((Refusal::Busy, draft));
        }
        let refused = self.request(Request::Publish { ticket, draft });
        debug_assert!(refused.is_none(), "there is room");
        Ok(())
    }

    /// Hands the hub what the peer has left, up to a stop or a delivery without room; true in the
    /// latter case.
    fn poll(&mut self, hub: &mut dyn Receiver) -> bool {
        while self.stop != Stop::Here {
            if self.taken.is_empty() && self.way.queues.take(&mut self.taken) {
                self.way.call();
            }
            if let Some(ForShard::Delivery(publication)) = self.taken.front()
                && !hub.has_room(&publication.channel, publication.cost_bytes())
            {
                return true;
            }
            match self.taken.pop_front() {
                None => return false,
                Some(ForShard::Reply(reply)) => {
                    if let Some(bytes) = self.unanswered.remove(&reply.ticket) {
                        self.unanswered_bytes -= bytes;
                    }
                    hub.reply(reply);
                }
                Some(ForShard::Cut(cut)) if self.stop == Stop::At(cut) => self.stop = Stop::Here,
                // Of another node, or one that was called off.
                Some(ForShard::Cut(_)) => {}
                Some(ForShard::Delivery(publication)) => hub.deliver(publication),
                Some(ForShard::Broken(channel)) => hub.broken(&channel),
            }
        }
        false
    }

    /// Whether nothing more comes before the cut, or at all for want of a connection.
    fn has_stopped(&self) -> bool {
        let is_silent =
            || !self.way.status.is_up() && self.taken.is_empty() && self.way.queues.is_silent();
        self.way.queues.waiting() == 0 && (self.stop == Stop::Here || is_silent())
    }
}

/// The ticket of a request that is answered, and its bytes.
fn ticket_of(request: &Request) -> Option<(Ticket, usize)> {
    match request {
        Request::Leave { .. } | Request::Quit { .. } => None,
        Request::Publish { ticket, draft } => Some((*ticket, draft.cost_bytes())),
        Request::Subscribe { ticket, .. }
        | Request::Present { ticket, .. }
        | Request::Forget { ticket, .. }
        | Request::History { ticket, .. } => Some((*ticket, 0)),
    }
}

impl Remote for RemoteBroker {
    fn request(&mut self, request: Request) -> Option<Reply> {
        self.end_of(request.channel()).request(request)
    }

    fn publish(&mut self, ticket: Ticket, draft: Draft) -> Result<(), (Refusal, Draft)> {
        self.end_of(&draft.channel).publish(ticket, draft)
    }

    fn poll(&mut self, hub: &mut dyn Receiver) -> bool {
        for _ in 0..self.ends.len() {
            let turn = self.turn;
            // The others have their turn too, also where there is no room behind this one.
            self.turn = (turn + 1) % self.ends.len();
            if self.ends[turn].poll(hub) {
                return true;
            }
        }
        false
    }

    fn renew(&mut self, options: &LiveOptions) {
        for end in &self.ends {
            end.way.status.renew(options);
            end.way.call();
        }
    }

    fn hand_over(&mut self, moving: Moving) {
        let is_giving = self.ends.iter().any(|end| end.stop != Stop::No);
        match moving {
            // This shard takes back what it has given, and hears its channels as before. Whoever is
            // present may have been taken by the other process, and is taken back.
            Moving::Expect(_) | Moving::Resume(..) | Moving::Cut(_) | Moving::Resumed
                if is_giving => {}
            Moving::Cut(cut) => self.push_all(|| Moving::Cut(cut)),
            Moving::Resumed => self.push_all(|| Moving::Resumed),
            Moving::Expect(ref channel)
            | Moving::Resume(ref channel, _)
            | Moving::Take(ref channel, _)
            | Moving::Give(ref channel, _) => self.end_of(channel).push(ShardCommand::Move(moving)),
        }
    }

    fn stop_at(&mut self, cut: Option<u64>) {
        for end in &mut self.ends {
            end.stop = cut.map_or(Stop::No, Stop::At);
        }
    }

    fn has_stopped(&self) -> bool {
        self.ends.iter().all(End::has_stopped)
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.way.queues.close();
        self.way.call();
    }
}

/// Makes a node for each server, of which there is one at least, and queues to it for so many
/// shards as there are wakers. `host` serves a node's [`crate::BrokerPeer`]; all peers end when all
/// parts are dropped.
///
/// # Errors
/// Those of `host`.
pub fn start<N: Node, E>(
    servers: Vec<(RemoteOptions, impl FnOnce(NodeIo) -> N)>,
    rings: Vec<WakeShard>,
    mut host: impl FnMut(N) -> Result<WakePeer, E>,
) -> Result<(Vec<RemoteBroker>, Health), E> {
    let rings: Vec<Arc<dyn Fn() + Send + Sync>> = rings.into_iter().map(Arc::from).collect();
    let mut ends: Vec<Vec<End>> = rings.iter().map(|_| Vec::new()).collect();
    let mut health = Vec::new();
    for (options, node) in servers {
        let status = Arc::new(Status::default());
        let queues: Vec<Arc<ShardQueues>> = { rings.iter() }
            .map(|ring| Arc::new(ShardQueues::new(ring.clone())))
            .collect();
        let wake = host(node(NodeIo::new(options, queues.clone(), status.clone())))?;
        wake();
        for (ends, queues) in ends.iter_mut().zip(queues) {
            ends.push(End::new(queues, wake.clone(), status.clone()));
        }
        health.push(status);
    }
    let parts = ends.into_iter().map(RemoteBroker::new).collect();
    Ok((parts, Health(health)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::tests::publication;
    use crate::node::tests::{Played, channel};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use throng_broker::{Published, Request};
    use throng_types::{Epoch, Position, Publication};

    /// A hub with room for so many deliveries.
    #[derive(Default)]
    struct Hub {
        room: usize,
        heard: Vec<String>,
    }

    impl Receiver for Hub {
        fn has_room(&self, _: &ChannelName, _: usize) -> bool {
            self.room > 0
        }

        fn reply(&mut self, reply: Reply) {
            self.heard.push(format!("reply {}", reply.ticket.0));
        }

        fn deliver(&mut self, publication: Arc<Publication>) {
            self.room = self.room.saturating_sub(1);
            let offset = publication.position.map_or(0, |it| it.offset);
            let channel = &publication.channel;
            self.heard.push(format!("{channel} at {offset}"));
        }

        fn broken(&mut self, channel: &ChannelName) {
            self.heard.push(format!("{channel} is broken"));
        }
    }

    /// A delivery waits for room, and what is behind it keeps its place; other replies need none.
    /// Other servers have their turn meanwhile.
    #[test]
    fn what_was_left_is_taken_in_its_order_while_there_is_room() {
        let queues = [(); 2].map(|()| Arc::new(ShardQueues::new(Arc::new(|| {}))));
        let wake: WakePeer = Arc::new(|| {});
        let end =
            |queues: &Arc<ShardQueues>| End::new(queues.clone(), wake.clone(), Arc::default());
        let mut broker = RemoteBroker::new(queues.iter().map(end).collect());
        let reply = |ticket| {
            let (position, shards) = (None, None);
            let published = Published { position, shards };
            ForShard::Reply(Reply::published(Ticket(ticket), Ok(published)))
        };
        let delivery = |name: &str| {
            let publication = publication(None);
            let channel = ChannelName::new(name).expect("a name");
            ForShard::Delivery(
                Publication {
                    channel,
                    ..publication
                }
                .shared(),
            )
        };
        let broken = ForShard::Broken(ChannelName::new("b").expect("a name"));
        for item in [reply(1), delivery("a"), broken, delivery("b"), reply(2)] {
            queues[0].leave(item);
        }
        let mut hub = Hub::default();
        let mut polls = |room, more, expected: &[&str]| {
            hub.room = room;
            assert_eq!(broker.poll(&mut hub), more);
            assert_eq!(std::mem::take(&mut hub.heard), expected);
        };
        polls(0, true, &["reply 1"]);
        queues[1].leave(reply(3));
        polls(0, true, &["reply 3"]);
        polls(0, true, &[]);
        polls(1, true, &["a at 0", "b is broken"]);
        polls(2, false, &["b at 0", "reply 2"]);
        polls(0, false, &[]);
    }

    #[test]
    fn one_server_more_takes_its_part_and_moves_nothing_else() {
        let names = (0..3000).map(|n| ChannelName::new(&format!("chat:{n}")).expect("a name"));
        let names: Vec<ChannelName> = names.collect();
        for servers in 1..8_usize {
            let mut moved = 0;
            let mut counts = vec![0; servers];
            for name in &names {
                let (before, after) = (server_of(name, servers), server_of(name, servers + 1));
                counts[before] += 1;
                assert!(
                    after == before || after == servers,
                    "{name} moved among the old ones"
                );
                moved += usize::from(after != before);
            }
            let fair = names.len() / servers;
            let is_fair = |count: &usize| (fair * 8 / 10..=fair * 12 / 10).contains(count);
            assert!(counts.iter().all(is_fair), "{counts:?}");
            let part = names.len() / (servers + 1);
            assert!((part * 8 / 10..=part * 12 / 10).contains(&moved), "{moved}");
        }
    }

    /// Connections that stay with a process after its hand-over hear what comes behind the cut.
    #[test]
    fn what_is_left_behind_a_cut_comes_when_the_hand_over_has_ended() {
        let queues = Arc::new(ShardQueues::new(Arc::new(|| {})));
        let end = End::new(queues.clone(), Arc::new(|| {}), Arc::default());
        let mut part = RemoteBroker::new(vec![end]);
        let deliver = |offset| {
            let epoch = Epoch(1);
            let publication = publication(Some(Position { epoch, offset }));
            queues.leave(ForShard::Delivery(publication.shared()));
        };
        let mut hub = Hub::default();
        let mut hears = |cut: Option<u64>, expected: &[u64]| {
            (hub.room, hub.heard) = (9, Vec::new());
            part.stop_at(cut);
            assert!(!part.poll(&mut hub));
            let expected = expected
                .iter()
                .map(|offset| format!("{} at {offset}", channel()));
            assert!(hub.heard.iter().cloned().eq(expected), "{:?}", hub.heard);
        };
        deliver(1);
        // Another node's.
        queues.leave(ForShard::Cut(6));
        deliver(2);
        queues.leave(ForShard::Cut(7));
        deliver(3);
        hears(Some(7), &[1, 2]);
        deliver(4);
        hears(None, &[3, 4]);
    }

    #[test]
    fn a_shard_wakes_its_peer_once_until_it_looks_and_ends_it_at_last() {
        let calls = Arc::new(AtomicUsize::new(0));
        let mut peers = Vec::new();
        let host = |node: Played<true>| {
            peers.push(crate::BrokerPeer::new(node));
            let calls = calls.clone();
            let wake: WakePeer = Arc::new(move || {
                calls.fetch_add(1, Ordering::Relaxed);
            });
            Ok::<_, ()>(wake)
        };
        let servers = vec![(RemoteOptions::for_tests(), |_| Played::new(true))];
        let rings = [(); 2].map(|()| Box::new(|| {}) as WakeShard).into();
        let (mut parts, health) = start(servers, rings, host).expect("a peer");
        let called = || calls.load(Ordering::Relaxed);
        assert_eq!((called(), health.servers_up()), (1, (0, 1)));
        let mut leave = |part: usize| {
            let channel = channel();
            assert!(parts[part].request(Request::Leave { channel }).is_none());
        };
        leave(0);
        leave(1);
        assert_eq!(called(), 2, "it has not looked yet");
        health.0[0].has_heard();
        leave(1);
        assert_eq!(called(), 3);
        let nodes = parts[0].nodes();
        drop(parts);
        assert_eq!(
            Arc::strong_count(&calls),
            2,
            "the way to other nodes keeps it"
        );
        drop(nodes);
        assert_eq!(Arc::strong_count(&calls), 1);
    }
}
