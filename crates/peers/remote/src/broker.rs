//! The peer between the shards and a broker.
//!
//! Owns the [`Node`], its clocks, the task that connects, and the link that the task hands over.
//! Whatever happens leads to one [`BrokerPeer::act`]: messages of the broker, requests of shards,
//! what is due, and one write of all its commands.
//!
//! Invariants
//! - A task connects or watches, or `connect_at_ms` says when the next one begins.
//! - A link that is held has messages that were not taken; it is read again when they are.
//! - The end of a link counts behind its messages.

use std::convert::Infallible;
use std::mem;

use throng_peer::task::{Link, QueueReceiver, Task, Tasks, queue};
use throng_peer::{Ended, LinkEvent, LinkId, Peer, PeerContext, ReadFlow};
use throng_types::Millis;

use crate::node::Node;
use crate::queues::ShardCommand;
use crate::verbs::{BrokerFault, Connector, Messages as _};

/// Requests taken from one shard, and messages of the broker, before others have their turn.
const AT_ONCE: usize = 256;
/// Between two looks at what is due, in milliseconds.
const TICK_MS: u64 = 100;
/// The first pause before connecting again, and the longest, in milliseconds.
const PAUSES_MS: (u64, u64) = (100, 5000);

type Cx<'a> = PeerContext<'a, Infallible>;

/// News of the task that connects.
enum News<D: Connector> {
    Up(D::Handshake, Link, D::Messages),
    Down(String),
}

struct Line<W> {
    link: LinkId,
    messages: W,
    is_held: bool,
    ended: Option<Ended>,
}

/// A node at work. Its call means that a shard has left something in its queues.
pub struct BrokerPeer<N: Node> {
    node: N,
    tasks: Tasks,
    /// The task that connects and watches, and its news.
    connecting: Option<(Task, QueueReceiver<News<N::Connector>>)>,
    line: Option<Line<<N::Connector as Connector>::Messages>>,
    /// When to connect next, unless a connection is being made.
    connect_at_ms: Option<u64>,
    pause_ms: u64,
    is_told_down: bool,
    down_since_ms: u64,
    /// Requests of one shard. Bound: [`AT_ONCE`].
    commands: Vec<ShardCommand>,
    /// More was there than one turn takes.
    is_behind: bool,
}

impl<N: Node> BrokerPeer<N> {
    /// Serves a node, which connects at the first call.
    #[must_use]
    pub fn new(node: N) -> Self {
        Self {
            node,
            tasks: Tasks::default(),
            connecting: None,
            line: None,
            connect_at_ms: Some(0),
            pause_ms: PAUSES_MS.0,
            is_told_down: false,
            down_since_ms: 0,
            commands: Vec::new(),
            is_behind: false,
        }
    }

    fn act(&mut self, cx: &mut Cx<'_>) {
        self.is_behind = false;
        let io = &mut self.node.core().io;
        // Before all that shards leave is looked at.
        io.status.has_heard();
        io.now_ms = cx.now.mono.0;
        io.unix_ms = cx.now.unix_ms;
        io.settle_doubt();
        self.renew(cx);
        self.take_messages(cx);
        self.take_requests();
        if let Err(BrokerFault(why)) = self.node.tick() {
            self.end(&why, cx);
        }
        self.connect();
        self.tasks.run(cx);
        self.take_news(cx);
        self.write(cx);
        self.node.core().io.ring();
        self.set_wake(cx);
    }

    fn set_wake(&self, cx: &mut Cx<'_>) {
        let now = cx.now.mono;
        let tick = now + if self.is_behind { 0 } else { TICK_MS };
        let connect = self.connect_at_ms.map(Millis);
        let times = connect.into_iter().chain(self.tasks.deadline());
        cx.wake_at(Some(times.fold(tick, Millis::min)));
    }

    fn renew(&mut self, cx: &mut Cx<'_>) {
        let io = &mut self.node.core().io;
        let Some(live) = io.status.take_renewed() else {
            return;
        };
        let before = mem::replace(&mut io.options.namespaces, live.namespaces);
        io.options.reply = live.reply;
        if let Err(BrokerFault(why)) = self.node.renewed(&before) {
            self.end(&why, cx);
        }
    }

    fn take_messages(&mut self, cx: &mut Cx<'_>) {
        if !self.node.core().io.shards_have_room() {
            self.node.stalled();
            if let Some(line) = &mut self.line {
                line.is_held = true;
            }
            return;
        }
        for _ in 0..AT_ONCE {
            let Some(line) = &mut self.line else { return };
            let taken = match line.messages.next() {
                Ok(Some(message)) => self.node.message(message).map_err(|BrokerFault(why)| why),
                Ok(None) => {
                    if let Some(why) = line.ended.take() {
                        self.end(&why.to_string(), cx);
                    } else if mem::take(&mut line.is_held) {
                        cx.resume(line.link);
                    }
                    return;
                }
                Err(why) => Err(why),
            };
            if let Err(why) = taken {
                return self.end(&why, cx);
            }
        }
        if let Some(line) = &mut self.line {
            (line.is_held, self.is_behind) = (true, true);
        }
    }

    fn take_requests(&mut self) {
        for shard in 0..self.node.core().io.shards() {
            if !self.node.has_room() {
                break;
            }
            let mut commands = mem::take(&mut self.commands);
            self.node.core().io.shards[usize::from(shard)].take_requests(AT_ONCE, &mut commands);
            self.is_behind |= commands.len() == AT_ONCE;
            for command in commands.drain(..) {
                match command {
                    ShardCommand::Request(request) => self.node.request(shard, request),
                    ShardCommand::Move(moving) => self.node.moving(shard, moving),
                }
            }
            self.commands = commands;
        }
    }

    /// Writes what was said in this turn, or drops it without a connection.
    fn write(&mut self, cx: &mut Cx<'_>) {
        let out = mem::take(&mut self.node.core().io.out);
        if let Some(line) = self.line.as_ref().filter(|_| !out.is_empty()) {
            cx.write(line.link, out);
        }
    }

    // ---- the connection ----

    fn connect(&mut self) {
        let now_ms = self.node.core().io.now_ms;
        if self.connect_at_ms.is_none_or(|at_ms| at_ms > now_ms) {
            return;
        }
        self.connect_at_ms = None;
        let (mut dial, net) = (self.node.connector(), self.tasks.net().clone());
        let (news, receiver) = queue(2);
        let task = self.tasks.net().spawn(async move {
            let why = match dial.connect(&net).await {
                Ok((handshake, link, messages)) => {
                    let _ = news.send(News::Up(handshake, link, messages));
                    dial.watch(&net).await
                }
                Err(why) => why,
            };
            let _ = news.send(News::Down(why));
        });
        self.connecting = Some((task, receiver));
    }

    fn take_news(&mut self, cx: &mut Cx<'_>) {
        while let Some((_, receiver)) = &mut self.connecting
            && let Some(news) = receiver.try_next()
        {
            match news {
                News::Up(handshake, link, messages) => {
                    self.connected(handshake, link, messages, cx)
                }
                News::Down(why) => self.end(&why, cx),
            }
        }
    }

    fn connected(
        &mut self,
        handshake: <N::Connector as Connector>::Handshake,
        link: Link,
        mut messages: <N::Connector as Connector>::Messages,
        cx: &mut Cx<'_>,
    ) {
        let Some((link, input)) = link.release() else {
            return self.end(&Ended::ByPeer.to_string(), cx);
        };
        let now_ms = self.node.core().io.now_ms;
        if mem::take(&mut self.is_told_down) {
            let down_ms = now_ms - self.down_since_ms;
            tracing::info!(down_ms, "the broker on {} is back", N::BROKER);
        } else {
            tracing::info!("the broker is on {}", N::BROKER);
        }
        self.pause_ms = PAUSES_MS.0;
        messages.feed(&input);
        self.line = Some(Line {
            link,
            messages,
            is_held: false,
            ended: None,
        });
        // The next turn takes the messages that came with the answers.
        self.is_behind = true;
        self.node.connected(handshake);
    }

    /// Notes that the connection is over, or was not made.
    fn end(&mut self, why: &str, cx: &mut Cx<'_>) {
        self.connecting = None;
        let line = self.line.take();
        if let Some(line) = &line {
            cx.end(line.link);
        }
        self.node.disconnected();
        let io = &mut self.node.core().io;
        if line.is_some() || !self.is_told_down {
            self.is_told_down = true;
            self.down_since_ms = io.now_ms;
            tracing::warn!(
                why,
                "no connection to the broker on {}: publications are refused until it is back, \
                 subscribers stay",
                N::BROKER
            );
        }
        let jitter_ms = io.rng.below(self.pause_ms / 2 + 1);
        self.connect_at_ms = Some(io.now_ms + self.pause_ms / 2 + jitter_ms);
        self.pause_ms = (self.pause_ms * 2).min(PAUSES_MS.1);
    }
}

impl<N: Node> Peer for BrokerPeer<N> {
    type Call = ();
    type Reply = Infallible;

    fn call(&mut self, (): (), cx: &mut Cx<'_>) {
        self.act(cx);
    }

    fn event(&mut self, link: LinkId, event: LinkEvent<'_>, cx: &mut Cx<'_>) -> ReadFlow {
        let mut flow = ReadFlow::More;
        match (&mut self.line, event) {
            (Some(line), event) if line.link == link => match event {
                LinkEvent::Bytes(input) => line.messages.feed(input),
                LinkEvent::Ended(why) => line.ended = Some(why),
                // Nothing waits for what was written.
                _ => return ReadFlow::More,
            },
            (_, event) => {
                debug_assert!(self.tasks.has(link), "an event of a link that was ended");
                flow = self.tasks.event(link, event);
            }
        }
        self.act(cx);
        match &self.line {
            Some(line) if line.link == link && line.is_held => ReadFlow::Hold,
            _ => flow,
        }
    }

    fn woken(&mut self, cx: &mut Cx<'_>) {
        self.act(cx);
    }

    fn destination(reply: &Infallible) -> Option<usize> {
        match *reply {}
    }
}

#[cfg(test)]
mod tests;
