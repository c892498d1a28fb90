//! What is asked of one channel's stream, one turn after another.
//!
//! Requests take effect in the order in which they were made: a turn is a run of publications, a
//! run of looks, or one wish to forget, and the next begins when it has ended. Publications of one
//! turn go in one message, and looks of one turn share what they read, so that turns get longer
//! where there is more to do.
//!
//! A turn of publications ends only with an answer to its message. If another node was first, the
//! newest message is read and the turn begins again from there.

use throng_broker::{Draft, Refusal, Reply};
use throng_remote::Channels as _;
use throng_types::ChannelName;

use crate::batch::{Batch, Known};
use crate::node::Nats;
use crate::record::State;
use crate::stream::{Claimed, Op, Stage, Stream, Turn};

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
    pub(crate) fn is_busy(&self, channel: &ChannelName) -> bool {
        let stream = self.streams.get(channel);
        stream.is_some_and(|stream| stream.turn.is_some())
    }

    /// Begins the next turn.
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
                    if let Some(Op::Publish(lane, ticket, draft)) = stream.queue.pop_front() {
                        self.publish_core(channel, lane, ticket, &draft);
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
        let now_ms = self.core.desk.now_ms;
        let stream = self.streams.get_mut(channel);
        stream.map_or(Vec::new(), |stream| {
            stream.used_at_ms = now_ms;
            stream.turn.take().map_or(Vec::new(), |turn| turn.ops)
        })
    }

    /// Nothing more is asked of a stream.
    fn idle(&mut self, channel: &ChannelName) {
        let now_ms = self.core.desk.now_ms;
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
            if since_ms + IDLE_MS > self.core.desk.now_ms && !is_full {
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
            } else if stream.used_at_ms + IDLE_MS > self.core.desk.now_ms && !is_full {
                self.idle(&channel);
            } else {
                self.streams.remove(key);
            }
        }
    }

    /// Takes what a delivery tells of a stream.
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

    /// This turn comes to nothing: nothing of it happened, unless somebody else may have published
    /// with the same key.
    pub(crate) fn fail(&mut self, channel: &ChannelName) {
        let is_in_doubt = { self.turn(channel) }.is_some_and(|turn| turn.key.is_second);
        let refusals = [Refusal::Unavailable, Refusal::Unknown];
        self.give_up(channel, refusals[usize::from(is_in_doubt)]);
    }

    /// This turn is refused.
    pub(crate) fn give_up(&mut self, channel: &ChannelName, refusal: Refusal) {
        for op in self.end_turn(channel) {
            self.refuse_op(channel, op, refusal);
        }
        self.begin(channel);
    }

    fn refuse_op(&mut self, channel: &ChannelName, op: Op, refusal: Refusal) {
        match op {
            Op::Publish(lane, ticket, _) => self.core.published(lane, ticket, Err(refusal)),
            Op::Forget(lane, ticket) => {
                let result = Err(refusal);
                self.core
                    .desk
                    .leave(lane, Reply::History { ticket, result });
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
}
