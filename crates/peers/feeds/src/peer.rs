//! All feeds of a server, as a peer: each is a task.
//!
//! Bounds: a feed has one round for each shard under way, and of its source what the source says.

use std::rc::Rc;
use std::sync::mpsc;

use throng_peer::task::{QueueReceiver, Task, Tasks, queue};
use throng_peer::{LinkEvent, LinkId, Peer, PeerContext, ReadFlow};
use throng_types::Rng;

use crate::feed::{Feed, Runner};
use crate::inlet::{Call, Control, Inlet, Reply};
use crate::source::{ReadFile, Setup};

/// All feeds of a server. They read once they get the order to begin.
pub struct FeedsPeer {
    tasks: Tasks,
    feeds: Vec<(Rc<Control>, Task)>,
    /// Bound: a round of each feed for each shard, since it is emptied when all of them wait.
    replies: QueueReceiver<Reply>,
    /// Callers who wait until all are idle. Bound: one entry a caller.
    waiting: Vec<mpsc::Sender<()>>,
}

impl FeedsPeer {
    /// These feeds, on a server of so many shards. `seed` is random.
    #[must_use]
    pub fn new(feeds: Vec<Feed>, shards: u8, seed: u64, read_file: ReadFile) -> Self {
        let (sender, replies) = queue(feeds.len() * usize::from(shards));
        let tasks = Tasks::default();
        let net = tasks.net();
        let start = |(number, feed): (usize, Feed)| {
            let control = Rc::new(Control::new());
            let inlet = Inlet {
                net: net.clone(),
                feed: number as u32,
                shards,
                control: control.clone(),
                replies: sender.clone(),
            };
            let setup = Setup {
                net: net.clone(),
                rng: Rng::for_member(seed, number as u64),
                batch_max: feed.options.batch_max,
                read_file,
                member: Rc::default(),
                progress: Rc::default(),
            };
            (control, net.spawn(Runner::new(feed, inlet, setup).run()))
        };
        let feeds = feeds.into_iter().enumerate().map(start).collect();
        Self {
            tasks,
            feeds,
            replies,
            waiting: Vec::new(),
        }
    }

    fn run(&mut self, cx: &mut PeerContext<'_, Reply>) {
        self.tasks.run(cx);
        while let Some(reply) = self.replies.try_next() {
            cx.reply(reply);
        }
        if self.feeds.iter().all(|(control, _)| control.is_idle()) {
            self.waiting
                .drain(..)
                .for_each(|who| cx.reply(Reply::Idle(who)));
        }
        cx.wake_at(self.tasks.deadline());
    }
}

impl Peer for FeedsPeer {
    type Call = Call;
    type Reply = Reply;

    fn call(&mut self, call: Call, cx: &mut PeerContext<'_, Reply>) {
        match call {
            Call::Order(order) => self.feeds.iter().for_each(|(it, _)| it.order(order)),
            Call::WhenIdle(who) => self.waiting.push(who),
            Call::Answer(id, results) => {
                if let Some((control, _)) = self.feeds.get(id.feed as usize) {
                    control.answer(id, results);
                }
            }
        }
        self.run(cx);
    }

    fn event(
        &mut self,
        link: LinkId,
        event: LinkEvent<'_>,
        cx: &mut PeerContext<'_, Reply>,
    ) -> ReadFlow {
        let flow = self.tasks.event(link, event);
        self.run(cx);
        flow
    }

    fn woken(&mut self, cx: &mut PeerContext<'_, Reply>) {
        self.run(cx);
    }

    fn destination(reply: &Reply) -> Option<usize> {
        match reply {
            Reply::Round(round) => Some(usize::from(round.id.shard)),
            Reply::Idle(_) => None,
        }
    }
}
