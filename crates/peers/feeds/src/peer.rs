//! All feeds of a server, as a peer: each is a task.
//!
//! Bounds: a feed has one round for each shard under way, and of its source what the source says.

use std::rc::Rc;

use throng_peer::task::{Receiver, Task, Tasks, queue};
use throng_peer::{Context, Ended, Flow, LinkId, Peer};
use throng_types::{Millis, Rng};

use crate::feed::{Feed, Runner};
use crate::inlet::{Control, Inlet, Order, Results, Round, RoundId};
use crate::source::{ReadFile, Setup};

/// What feeds are told.
#[derive(Debug)]
pub enum Call {
    /// Read.
    GoOn,
    /// Give the sources back, and wait.
    Pause,
    /// Give the sources back, and end.
    End,
    /// Reply with [`Reply::Idle`] and this number once no feed has a source.
    WhenIdle(u64),
    /// What became of a round.
    Answer(RoundId, Results),
}

/// What feeds say.
#[derive(Debug)]
pub enum Reply {
    /// To be published by the shard of its id, and answered with [`Call::Answer`].
    Round(Round),
    /// No feed has a source.
    Idle(u64),
}

/// All feeds of a server. They wait for [`Call::GoOn`].
pub struct FeedsPeer {
    tasks: Tasks,
    feeds: Vec<(Rc<Control>, Task)>,
    /// Bound: a round of each feed for each shard, since it is emptied when all of them wait.
    replies: Receiver<Reply>,
    /// Numbers of those who wait until all are idle. Bound: callers that wait.
    waiting: Vec<u64>,
    wake_at: Option<Millis>,
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
            wake_at: None,
        }
    }

    fn run(&mut self, cx: &mut Context<'_, Reply>) {
        self.tasks.run(cx);
        while let Some(reply) = self.replies.try_next() {
            cx.reply(reply);
        }
        if self.feeds.iter().all(|(control, _)| control.is_idle()) {
            for number in self.waiting.drain(..) {
                cx.reply(Reply::Idle(number));
            }
        }
        let deadline = self.tasks.deadline();
        if self.wake_at != deadline {
            self.wake_at = deadline;
            cx.wake_at(deadline);
        }
    }

    fn order(&self, order: Order) {
        for (control, _) in &self.feeds {
            control.order(order);
        }
    }
}

impl Peer for FeedsPeer {
    type Call = Call;
    type Reply = Reply;

    fn call(&mut self, call: Call, cx: &mut Context<'_, Reply>) {
        match call {
            Call::GoOn => self.order(Order::Go),
            Call::Pause => self.order(Order::Pause),
            Call::End => self.order(Order::End),
            Call::WhenIdle(number) => self.waiting.push(number),
            Call::Answer(id, results) => {
                if let Some((control, _)) = self.feeds.get(id.feed as usize) {
                    control.answer(id, results);
                }
            }
        }
        self.run(cx);
    }

    fn connected(&mut self, link: LinkId, cx: &mut Context<'_, Reply>) {
        self.tasks.connected(link);
        self.run(cx);
    }

    fn bytes(&mut self, link: LinkId, input: &[u8], cx: &mut Context<'_, Reply>) -> Flow {
        let flow = self.tasks.bytes(link, input);
        self.run(cx);
        flow
    }

    fn written(&mut self, link: LinkId, cx: &mut Context<'_, Reply>) {
        self.tasks.written(link);
        self.run(cx);
    }

    fn ended(&mut self, link: LinkId, why: Ended, cx: &mut Context<'_, Reply>) {
        self.tasks.ended(link, why);
        self.run(cx);
    }

    fn timeout(&mut self, _: LinkId, _: Option<Millis>, cx: &mut Context<'_, Reply>) {
        self.run(cx);
    }

    fn woken(&mut self, cx: &mut Context<'_, Reply>) {
        self.wake_at = None;
        self.run(cx);
    }

    fn destination(reply: &Reply) -> Option<usize> {
        match reply {
            Reply::Round(round) => Some(usize::from(round.id.shard)),
            Reply::Idle(_) => None,
        }
    }
}
