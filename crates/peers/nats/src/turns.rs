//! Requests about one channel's stream, one turn after another.
//!
//! Requests take effect in the order in which they were made: a turn is a run of publications, a
//! run of looks, or one command to forget, and the next begins when it has ended. Publications of
//! one turn go in one message, and looks of one turn share what they read, so that turns get longer
//! where there is more to do.
//!
//! A turn of publications ends only with an answer to its message. If another node was first, the
//! newest message is read and the turn begins again from there.

use std::collections::hash_map::Entry;

use throng_broker::{Draft, Refusal, Reply};
use throng_remote::NodeChannels as _;
use throng_types::ChannelName;

use crate::api::{self, ChannelMessage, EXPECTED, StoredMessage, WRONG_SEQUENCE};
use crate::batch::{Batch, EmptyEpoch, Known, Opening};
use crate::node::Nats;
use crate::node::{Claimed, Flight, Op, Stage, Stream, Turn};
use crate::record::{Record, State};
use crate::seeds::{Seed, decode, encode, renewed};
use crate::walk::{Walk, answer, floor};

/// Streams that are remembered though nothing is asked of them, and how long, in milliseconds.
const IDLE_MAX: usize = 65_536;
const IDLE_MS: u64 = 30_000;

impl Nats {
    /// Asks something of a channel's stream, after all that was asked before.
    pub(crate) fn enqueue(&mut self, channel: &ChannelName, op: Op) {
        let stream = self.streams.get_or_insert(channel, Stream::default);
        stream.queue.push_back(op);
        if stream.turn.is_none() {
            self.begin(channel);
        }
    }

    /// Whether something is being done about a channel's stream.
    fn is_busy(&self, channel: &ChannelName) -> bool {
        let stream = self.streams.get(channel);
        stream.is_some_and(|stream| stream.turn.is_some())
    }

    pub(crate) fn begin(&mut self, channel: &ChannelName) {
        let keeps = self.core.keeps(channel);
        loop {
            let Some(stream) = self.streams.get_mut(channel) else {
                return;
            };
            let mut ops = Vec::new();
            let core = |draft: &Draft| {
                let is_kept = keeps && (!draft.skip_history || draft.version.is_some());
                !is_kept && draft.idempotency_key.is_none()
            };
            match stream.queue.front() {
                None => return self.idle(channel),
                Some(Op::Look(..)) => {
                    while matches!(stream.queue.front(), Some(Op::Look(..))) {
                        ops.extend(stream.queue.pop_front());
                    }
                }
                Some(Op::Forget(..)) => ops.extend(stream.queue.pop_front()),
                Some(Op::Publish(_, _, draft)) if core(draft) => {
                    if let Some(Op::Publish(shard, ticket, draft)) = stream.queue.pop_front() {
                        self.publish_core(channel, shard, ticket, &draft);
                    }
                    continue;
                }
                Some(Op::Publish(..)) => {
                    let mut batch = Batch::default();
                    while let Some(Op::Publish(_, _, draft)) = stream.queue.front()
                        && !core(draft)
                        && batch.takes(draft)
                    {
                        ops.extend(stream.queue.pop_front());
                    }
                }
            }
            let is_publishing = matches!(ops.first(), Some(Op::Publish(..)));
            stream.turn = Some(Turn {
                ops,
                stage: Stage::Last,
                tries: 0,
                has_read: false,
                key: Claimed::default(),
            });
            let known = self.streams.get(channel).and_then(|it| it.known.as_ref());
            if is_publishing && known.is_some_and(|known| self.is_alive(known)) {
                self.store(channel);
            } else {
                self.ask_last(channel);
            }
            return;
        }
    }

    /// A turn is over: its requests, if it is still there.
    pub(crate) fn end_turn(&mut self, channel: &ChannelName) -> Vec<Op> {
        let now_ms = self.core.io.now_ms;
        let stream = self.streams.get_mut(channel);
        stream.map_or(Vec::new(), |stream| {
            stream.used_at_ms = now_ms;
            stream.turn.take().map_or(Vec::new(), |turn| turn.ops)
        })
    }

    /// Notes that nothing more is asked of a stream.
    fn idle(&mut self, channel: &ChannelName) {
        let now_ms = self.core.io.now_ms;
        if let Some(stream) = self.streams.get_mut(channel)
            && !std::mem::replace(&mut stream.is_idle, true)
        {
            self.idle.push_back((now_ms, channel.clone()));
        }
    }

    /// Forgets streams of which nothing was asked for a while.
    pub(crate) fn forget_idle(&mut self) {
        while let Some((since_ms, _)) = self.idle.front() {
            let is_full = self.idle.len() > IDLE_MAX;
            if since_ms + IDLE_MS > self.core.io.now_ms && !is_full {
                return;
            }
            let Some((_, channel)) = self.idle.pop_front() else {
                return;
            };
            let Some(key) = self.streams.key(&channel) else {
                continue;
            };
            let Some(stream) = self.streams.at_mut(key) else {
                continue;
            };
            stream.is_idle = false;
            if stream.turn.is_some() {
                // It will come again.
            } else if stream.used_at_ms + IDLE_MS > self.core.io.now_ms && !is_full {
                self.idle(&channel);
            } else {
                self.streams.remove(key);
            }
        }
    }

    /// Takes from a delivery what it says of a stream.
    pub(crate) fn heard(&mut self, channel: &ChannelName, seq: u64, state: &State) {
        let is_writing = |turn: &Turn| matches!(turn.stage, Stage::Claim | Stage::Store(..));
        if let Some(stream) = self.streams.get_mut(channel)
            && stream.known.as_ref().is_some_and(|known| known.seq < seq)
            && !stream.turn.as_ref().is_some_and(is_writing)
        {
            let state = state.clone();
            stream.known = Some(Known { seq, state });
        }
    }

    /// This turn comes to nothing: nothing of it happened, unless another publisher may have
    /// published with the same key.
    pub(crate) fn fail(&mut self, channel: &ChannelName) {
        let is_in_doubt = { self.turn(channel) }.is_some_and(|turn| turn.key.is_second);
        let refusals = [Refusal::Unavailable, Refusal::Unknown];
        self.give_up(channel, refusals[usize::from(is_in_doubt)]);
    }

    pub(crate) fn give_up(&mut self, channel: &ChannelName, refusal: Refusal) {
        for op in self.end_turn(channel) {
            self.refuse_op(channel, op, refusal);
        }
        self.begin(channel);
    }

    fn refuse_op(&mut self, channel: &ChannelName, op: Op, refusal: Refusal) {
        match op {
            Op::Publish(shard, ticket, _) => self.core.published(shard, ticket, Err(refusal)),
            Op::Forget(shard, ticket) => {
                let result = Err(refusal);
                self.core.io.reply(shard, Reply::History { ticket, result });
            }
            Op::Look(purpose, _) => self.refuse_look(channel, purpose, refusal),
        }
    }

    /// The connection is lost: what was under way is in doubt, and what was not is refused.
    pub(crate) fn streams_lost(&mut self) {
        let names: Vec<ChannelName> = self.streams.iter().map(|(name, _)| name.clone()).collect();
        for name in names {
            let Some(stream) = self.streams.get_mut(&name) else {
                continue;
            };
            stream.known = None;
            let turn = stream.turn.take();
            let queue = std::mem::take(&mut stream.queue);
            let refusal = match &turn {
                Some(turn) if turn.key.is_second || matches!(turn.stage, Stage::Store(..)) => {
                    Refusal::Unknown
                }
                _ => Refusal::Unavailable,
            };
            let under_way = turn.map_or(Vec::new(), |turn| turn.ops).into_iter();
            let under_way = under_way.map(|op| (op, refusal));
            for (op, refusal) in
                under_way.chain(queue.into_iter().map(|op| (op, Refusal::Unavailable)))
            {
                match op {
                    Op::Look(purpose, _) => self.lose_look(&name, purpose),
                    op => {
                        if matches!(op, Op::Publish(..)) {
                            self.core.count_refusal(refusal);
                        }
                        self.refuse_op(&name, op, refusal);
                    }
                }
            }
            self.idle(&name);
        }
    }

    // ---- reading: the newest message, and what lies before it ----

    pub(crate) fn ask_last(&mut self, channel: &ChannelName) {
        let keeps = self.core.keeps(channel);
        let stream = self.names.stream_of(channel, keeps);
        let subject = self.names.store(channel, keeps);
        let body = format!("{{\"last_by_subj\":\"{subject}\"}}");
        self.ask_newest(Flight::Last(channel.clone()), &stream, &body);
    }

    /// Asks for a message that may be new: in a cluster of servers the leader, which has it if
    /// anybody does.
    pub(crate) fn ask_newest(&mut self, flight: Flight, stream: &str, body: &str) {
        let is_clustered = self.link.is_some_and(|link| link.is_clustered);
        let verb = if is_clustered {
            "STREAM.MSG.GET"
        } else {
            "DIRECT.GET"
        };
        self.api(flight, verb, stream, body);
    }

    pub(crate) fn last(&mut self, channel: &ChannelName, found: ChannelMessage) {
        let Some(stream) = self.streams.get_mut(channel) else {
            return;
        };
        let Some(turn) = &mut stream.turn else {
            return;
        };
        turn.has_read = true;
        let newest = match found {
            ChannelMessage::Nothing => None,
            ChannelMessage::Record(seq, record, _) => Some((seq, record)),
            ChannelMessage::Strange => {
                tracing::warn!(%channel, "the newest message has an unknown form");
                return self.fail(channel);
            }
        };
        stream.known = newest.as_ref().and_then(|(seq, record)| {
            let state = record.state.clone()?;
            Some(Known { seq: *seq, state })
        });
        let known = { self.streams.get(channel) }.and_then(|stream| stream.known.as_ref());
        let is_alive = known.is_some_and(|known| self.is_alive(known));
        if !is_alive && self.core.keeps(channel) {
            return self.ask_seeds(channel);
        }
        self.go_on_from(channel, newest.map(|(_, record)| record));
    }

    /// Whether a channel goes on from a message: none goes on from one that is too old.
    fn is_alive(&self, known: &Known) -> bool {
        self.time_ms() < known.state.time_ms + self.keep_ms
    }

    /// Goes on with a turn from the newest message, or without one.
    fn go_on_from(&mut self, channel: &ChannelName, newest: Option<Record>) {
        let Some(turn) = self.turn(channel) else {
            return;
        };
        let first = turn.ops.first();
        let is_publishing = matches!(first, Some(Op::Publish(..)));
        let forgets = matches!(first, Some(Op::Forget(..)));
        if is_publishing {
            return self.store(channel);
        }
        if forgets && newest.is_none() {
            return self.has_forgotten(channel);
        }
        let (mut state, is_new) = self.opened(channel);
        if forgets {
            state.forgotten = state.offset;
        }
        if !is_new && !forgets {
            return self.walk(channel, &state, newest.as_ref(), None);
        }
        let marker = Record {
            time_ms: state.time_ms,
            state: Some(state.clone()),
            items: Vec::new(),
        };
        if let Some(turn) = self.turn(channel) {
            turn.stage = Stage::Open(state, newest);
        }
        self.put(channel, &marker, None);
    }

    pub(crate) fn turn(&mut self, channel: &ChannelName) -> Option<&mut Turn> {
        self.streams.get_mut(channel)?.turn.as_mut()
    }

    /// State of a stream from now on, and whether that must be stored first.
    pub(crate) fn opened(&mut self, channel: &ChannelName) -> (State, bool) {
        let opening = Opening {
            server: self.link.map_or(0, |link| link.server),
            fresh: self.core.io.fresh_epoch(),
            now_ms: self.time_ms(),
            keep_ms: self.keep_ms,
            seen: self.core.top(channel),
            empty: self.empty_epochs(channel),
        };
        let known = self.streams.get(channel).and_then(|it| it.known.as_ref());
        opening.open(known.filter(|known| self.is_alive(known)))
    }

    /// Reads as much of the history as the looks of this turn want.
    pub(crate) fn walk(
        &mut self,
        channel: &ChannelName,
        state: &State,
        newest: Option<&Record>,
        marker: Option<&Record>,
    ) {
        let options = self.core.io.options.of(channel);
        let now_ms = self.time_ms();
        let Some(turn) = self.turn(channel) else {
            return;
        };
        let floors = turn.ops.iter().map(|op| match op {
            Op::Look(_, query) => floor(query, state),
            _ => state.offset,
        });
        let floor = floors.min().unwrap_or(state.offset);
        let mut walk = Walk::new(state, &options, floor, now_ms);
        for record in marker.into_iter().chain(newest) {
            walk.add(channel, record);
        }
        turn.stage = Stage::Walk(Box::new(walk));
        self.walk_on(channel);
    }

    fn walk_on(&mut self, channel: &ChannelName) {
        let Some(turn) = self.turn(channel) else {
            return;
        };
        let Stage::Walk(walk) = &mut turn.stage else {
            return;
        };
        let seqs = walk.ask();
        if seqs.is_empty() {
            return self.looked(channel);
        }
        for seq in seqs {
            self.ask_message(channel, seq, false);
        }
    }

    pub(crate) fn ask_message(&mut self, channel: &ChannelName, seq: u64, of_leader: bool) {
        let stream = self.names.stream_of(channel, self.core.keeps(channel));
        let verb = if of_leader {
            "STREAM.MSG.GET"
        } else {
            "DIRECT.GET"
        };
        let flight = Flight::Message(channel.clone(), seq, of_leader);
        self.api(flight, verb, &stream, &format!("{{\"seq\":{seq}}}"));
    }

    pub(crate) fn message_found(&mut self, channel: &ChannelName, seq: u64, found: ChannelMessage) {
        let Some(turn) = self.turn(channel) else {
            return;
        };
        if let Stage::Walk(walk) = &mut turn.stage {
            let has_all = walk.got(channel, seq, found);
            if has_all {
                self.walk_on(channel);
            }
        }
    }

    /// All that the looks of this turn want has been read.
    fn looked(&mut self, channel: &ChannelName) {
        let Some(stream) = self.streams.get_mut(channel) else {
            return;
        };
        let Some(turn) = stream.turn.take() else {
            return;
        };
        let Stage::Walk(walk) = turn.stage else {
            return;
        };
        let (state, found) = walk.publications();
        for op in turn.ops {
            if let Op::Look(purpose, query) = op {
                let looked = answer(&query, &state, &found);
                self.tell_looked(channel, purpose, looked);
            }
        }
        // The receiver may have asked for more.
        if !self.is_busy(channel) {
            self.begin(channel);
        }
    }

    // ---- seeds, for channels that have no message ----

    /// Epochs that a channel without a message may have, newest first.
    fn empty_epochs(&self, channel: &ChannelName) -> Vec<EmptyEpoch> {
        let stream = self.names.stream_of(channel, true);
        let server = self.link.map_or(0, |link| link.server);
        let list = self.seeds.get(&*stream).map_or(&[][..], |it| &it.list);
        let epoch = |seed: &Seed| EmptyEpoch {
            epoch: seed.epoch(channel),
            is_of_this_server: seed.server == server,
        };
        list.iter().map(epoch).collect()
    }

    /// Reads the seeds for a turn of a channel that has no message.
    fn ask_seeds(&mut self, channel: &ChannelName) {
        let Some(turn) = self.turn(channel) else {
            return;
        };
        turn.stage = Stage::Seeds;
        let stream = self.names.stream_of(channel, true);
        let seeds = self.seeds.entry(stream.as_str().into()).or_default();
        seeds.waiting.push(channel.clone());
        if seeds.waiting.len() == 1 {
            self.read_seeds(&stream);
        }
    }

    fn read_seeds(&mut self, stream: &str) {
        let subject = self.names.seeds(stream);
        let body = format!("{{\"last_by_subj\":\"{subject}\"}}");
        self.ask_newest(Flight::Seeds(stream.into()), stream, &body);
    }

    pub(crate) fn seeds_found(&mut self, stream: &str, given: Option<StoredMessage>) {
        let fresh = Seed {
            number: self.core.io.rng.next_u64(),
            server: self.link.map_or(0, |link| link.server),
            time_ms: self.time_ms(),
        };
        let seq = given.as_ref().map_or(0, |given| given.seq).to_string();
        let stored = given.map_or(Some(Vec::new()), |given| decode(&given.payload));
        let Some(stored) = stored else {
            tracing::warn!(stream, "the seeds of epochs have an unknown form");
            return self.no_seeds(stream);
        };
        let (list, is_new) = renewed(stored, fresh, self.keep_ms);
        if !is_new {
            return self.has_seeds(stream, list);
        }
        let text = encode(&list);
        if let Entry::Occupied(mut seeds) = self.seeds.entry(stream.into()) {
            seeds.get_mut().next = list;
            let subject = self.names.seeds(stream);
            let headers = [(EXPECTED, &*seq)];
            let flight = Flight::SeedsStored(stream.into());
            self.ask(flight, &subject, &headers, text.as_bytes());
        }
    }

    /// NATS has said whether the seeds of this node are stored.
    pub(crate) fn seeds_stored(&mut self, stream: &str, payload: &[u8]) {
        match api::stored(payload) {
            Ok(_) => {
                let next = { self.seeds.get_mut(stream) }.map(|it| std::mem::take(&mut it.next));
                self.has_seeds(stream, next.unwrap_or_default());
            }
            // Another node was first.
            Err(error) if error.code == WRONG_SEQUENCE => self.read_seeds(stream),
            Err(error) => {
                tracing::warn!(
                    stream,
                    error = error.text,
                    "NATS did not store the seeds of epochs"
                );
                self.no_seeds(stream);
            }
        }
    }

    fn has_seeds(&mut self, stream: &str, list: Vec<Seed>) {
        if let Some(seeds) = self.seeds.get_mut(stream) {
            seeds.list = list;
        }
        for channel in self.waiting_for_seeds(stream) {
            self.go_on_from(&channel, None);
        }
    }

    /// Fails the turns that need a stream's seeds.
    pub(crate) fn no_seeds(&mut self, stream: &str) {
        for channel in self.waiting_for_seeds(stream) {
            self.fail(&channel);
        }
    }

    fn waiting_for_seeds(&mut self, stream: &str) -> Vec<ChannelName> {
        let seeds = self.seeds.get_mut(stream);
        let mut waiting = seeds.map_or(Vec::new(), |it| std::mem::take(&mut it.waiting));
        waiting.retain(|channel| {
            { self.turn(channel) }.is_some_and(|turn| matches!(turn.stage, Stage::Seeds))
        });
        waiting
    }
}
