//! A feed's way to the rest of the server: rounds to the shards, and their answers.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::mpsc;
use std::task::{Poll, Waker};

use throng_broker::{Draft, Refusal};
use throng_peer::task::{Either, Net, QueueSender, first};
use throng_types::Millis;

/// Results of publications, in their order.
pub type PublishResults = Vec<Result<(), Refusal>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundId {
    pub(crate) feed: u32,
    /// Counts what the feed offers to all shards at once.
    pub(crate) number: u64,
    /// The shard that is to answer.
    pub shard: u8,
}

/// Publications for one shard, all of different channels. They are answered together, once.
#[derive(Debug)]
pub struct Round {
    pub id: RoundId,
    pub drafts: Vec<Draft>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedOrder {
    /// Give the source back, and wait.
    Pause,
    /// Begin to read, or go on.
    Go,
    /// Give the source back, and end: no order counts after it.
    End,
}

#[derive(Debug)]
pub enum Call {
    Order(FeedOrder),
    /// Let the sender go once no feed has a source.
    WhenIdle(mpsc::Sender<()>),
    Answer(RoundId, PublishResults),
}

#[derive(Debug)]
pub enum Reply {
    /// Round to be published by the shard of its id, and answered with [`Call::Answer`].
    Round(Round),
    /// Behind all that was said to sources: they are given back. To be dropped.
    Idle(mpsc::Sender<()>),
}

/// A feed is to give its source back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Over;

pub(crate) struct Control {
    order: Cell<FeedOrder>,
    /// The feed has no source, and nothing of it is under way.
    is_idle: Cell<bool>,
    /// Number of the present offer.
    number: Cell<u64>,
    /// Bound: one of each shard, to what is offered now.
    answers: RefCell<Vec<(RoundId, PublishResults)>>,
    waker: Cell<Option<Waker>>,
}

impl Control {
    pub(crate) fn new() -> Self {
        Self {
            order: Cell::new(FeedOrder::Pause),
            is_idle: Cell::new(true),
            number: Cell::new(0),
            answers: RefCell::default(),
            waker: Cell::new(None),
        }
    }

    pub(crate) fn order(&self, order: FeedOrder) {
        // There is no way back from the end.
        if self.order.get() != FeedOrder::End {
            self.order.set(order);
        }
        self.wake();
    }

    /// Takes an answer; one to what is no longer of interest is forgotten.
    pub(crate) fn answer(&self, id: RoundId, results: PublishResults) {
        if id.number == self.number.get() {
            self.answers.borrow_mut().push((id, results));
            self.wake();
        }
    }

    pub(crate) const fn is_idle(&self) -> bool {
        self.is_idle.get()
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Waits for what `look` finds.
    async fn wait<T>(&self, mut look: impl FnMut(&Self) -> Option<T>) -> T {
        poll_fn(|cx| match look(self) {
            Some(found) => Poll::Ready(found),
            None => {
                self.waker.set(Some(cx.waker().clone()));
                Poll::Pending
            }
        })
        .await
    }
}

pub(crate) struct Inlet {
    pub(crate) net: Net,
    pub(crate) feed: u32,
    pub(crate) shards: u8,
    pub(crate) control: Rc<Control>,
    /// Emptied whenever the feed waits.
    pub(crate) replies: QueueSender<Reply>,
}

impl Inlet {
    pub(crate) fn now(&self) -> Millis {
        self.net.now().mono
    }

    /// Waits until the feed is to read; false if it is to end.
    pub(crate) async fn may_begin(&self) -> bool {
        self.control.is_idle.set(true);
        let order = |control: &Control| match control.order.get() {
            FeedOrder::Pause => None,
            order => Some(order == FeedOrder::Go),
        };
        let may_begin = self.control.wait(order).await;
        self.control.is_idle.set(!may_begin);
        may_begin
    }

    pub(crate) fn go_on(&self) -> Result<(), Over> {
        match self.control.order.get() {
            FeedOrder::Go => Ok(()),
            FeedOrder::Pause | FeedOrder::End => Err(Over),
        }
    }

    /// Waits until the source is to be given back.
    pub(crate) async fn over(&self) {
        self.control.wait(|_| self.go_on().err()).await;
    }

    /// Hands each shard its part; gives how many have one. Answers to what was offered before are
    /// forgotten.
    pub(crate) fn offer(&self, parts: impl Iterator<Item = Vec<Draft>>) -> usize {
        let number = self.control.number.get() + 1;
        self.control.number.set(number);
        self.control.answers.borrow_mut().clear();
        let parts = (0..).zip(parts).filter(|(_, drafts)| !drafts.is_empty());
        let send = |(shard, drafts)| {
            let feed = self.feed;
            let id = RoundId {
                feed,
                number,
                shard,
            };
            // There is room for a round of each feed for each shard.
            let _ = self.replies.send(Reply::Round(Round { id, drafts }));
        };
        parts.map(send).count()
    }

    /// Lets time pass; answers are forgotten.
    pub(crate) async fn rest(&self, until: Millis) -> Result<(), Over> {
        while self.now() < until {
            self.next(until).await?;
        }
        Ok(())
    }

    /// The next answer; none until then.
    pub(crate) async fn next(&self, until: Millis) -> Result<Option<(u8, PublishResults)>, Over> {
        let word = self.control.wait(|control| {
            let answer = || control.answers.borrow_mut().pop().map(Ok);
            self.go_on().err().map(Err).or_else(answer)
        });
        match first(word, self.net.sleep_until(until)).await {
            Either::Left(Ok((id, results))) => Ok(Some((id.shard, results))),
            Either::Left(Err(over)) => Err(over),
            Either::Right(()) => Ok(None),
        }
    }
}
