//! The broker of a server: the one in memory, or one on the other side of a network.
//!
//! The server decides which at its start. With a [`Remote`] every channel goes to it, except those
//! of the server itself: what a node publishes about itself stays on that node, in memory.
//!
//! Never: links. A peer has them, and this is its end on a shard.

use throng_types::{ChannelName, Now, Parts, Saved, ShardId};

use crate::{
    Broker, BrokerStats, Draft, LiveOptions, Mail, MemoryBroker, Moving, Published, Receiver,
    Refusal, Reply, Request, Ticket,
};

/// The namespace of channels that stay on their node.
const OWN: &str = "throng";

/// One shard's end of a broker that a peer serves.
///
/// The rules of [`Broker`] hold. No call waits.
pub trait Remote: Send {
    /// Hands a request to the peer, or gives the reply that refuses it.
    fn request(&mut self, request: Request) -> Option<Reply>;

    /// Hands in a publication whose result is not needed.
    ///
    /// # Errors
    /// The reason, with the draft: after [`Refusal::Busy`] it may be offered again.
    fn publish(&mut self, draft: Draft) -> Result<(), (Refusal, Draft)>;

    /// Shows what the peer has left, oldest first.
    fn peek(&mut self) -> Option<&Reply>;

    /// Takes the reply that [`Self::peek`] shows.
    fn next(&mut self) -> Option<Reply>;

    /// Replaces the options; every shard's part is called.
    fn renew(&mut self, options: &LiveOptions);

    /// Passes a step of a hand-over to the peer; see [`Broker::hand_over`].
    fn hand_over(&mut self, moving: Moving);

    /// Stops deliveries behind a cut, or resumes them; see [`Broker::stop_at`].
    fn stop_at(&mut self, cut: Option<u64>);

    /// Whether nothing more comes before the cut; see [`Broker::has_stopped`].
    fn has_stopped(&self) -> bool;

    /// Drops the deliveries behind the cut; see [`Broker::leave_deliveries`].
    fn leave_deliveries(&mut self);
}

/// One shard's part of the broker that the server has.
pub struct AnyBroker {
    memory: MemoryBroker,
    remote: Option<Box<dyn Remote>>,
}

impl From<MemoryBroker> for AnyBroker {
    fn from(memory: MemoryBroker) -> Self {
        Self {
            memory,
            remote: None,
        }
    }
}

impl AnyBroker {
    /// Makes a broker across a network, with one in memory for the server's own channels.
    #[must_use]
    pub fn new(memory: MemoryBroker, remote: Option<Box<dyn Remote>>) -> Self {
        Self { memory, remote }
    }

    /// The remote broker, if there is one and it serves the channel.
    fn remote(&mut self, channel: &ChannelName) -> Option<&mut Box<dyn Remote>> {
        self.remote.as_mut().filter(|_| is_remote(channel))
    }
}

fn is_remote(channel: &ChannelName) -> bool {
    channel.namespace() != Some(OWN)
}

impl Broker for AnyBroker {
    type Mail = Mail;

    fn request(&mut self, request: Request, now: Now, hub: &mut impl Receiver) {
        match self.remote(request.channel()) {
            None => self.memory.request(request, now, hub),
            Some(remote) => {
                if let Some(refused) = remote.request(request) {
                    hub.reply(refused);
                }
            }
        }
    }

    fn publish_all(&mut self, drafts: Vec<(Ticket, Draft)>, now: Now, hub: &mut impl Receiver) {
        if self.remote.is_none() {
            return self.memory.publish_all(drafts, now, hub);
        }
        for (ticket, draft) in drafts {
            self.request(Request::Publish { ticket, draft }, now, hub);
        }
    }

    fn mail(&mut self, from: ShardId, mail: Mail, now: Now, hub: &mut impl Receiver) {
        self.memory.mail(from, mail, now, hub);
    }

    fn poll(&mut self, hub: &mut impl Receiver) -> bool {
        let Some(remote) = &mut self.remote else {
            return self.memory.poll(hub);
        };
        while let Some(reply) = remote.peek() {
            // Deliveries keep their order: those behind one without room wait, too.
            if let Reply::Delivery(publication) = reply
                && !hub.has_room(&publication.channel, publication.cost_bytes())
            {
                return true;
            }
            if let Some(reply) = remote.next() {
                hub.reply(reply);
            }
        }
        false
    }

    fn interest(&self, channel: &ChannelName) -> u64 {
        match self.remote {
            Some(_) if is_remote(channel) => u64::MAX,
            _ => self.memory.interest(channel),
        }
    }

    fn publish_here(
        &mut self,
        draft: Draft,
        now: Now,
        hub: &mut impl Receiver,
    ) -> Result<Published, (Refusal, Draft)> {
        match self.remote(&draft.channel) {
            None => self.memory.publish(draft, now, hub),
            Some(remote) => remote.publish(draft).map(|()| Published {
                position: None,
                shards: None,
            }),
        }
    }

    fn take_mail(&mut self, to: ShardId) -> Option<Mail> {
        self.memory.take_mail(to)
    }

    fn has_mail(&self, to: ShardId) -> bool {
        self.memory.has_mail(to)
    }

    fn tick(&mut self, now: Now, budget: usize, hub: &mut impl Receiver) -> bool {
        self.memory.tick(now, budget, hub)
    }

    fn is_elsewhere(&self, channel: &ChannelName) -> bool {
        self.remote.is_some() && is_remote(channel)
    }

    fn hand_over(&mut self, moving: Moving) {
        if let Some(remote) = &mut self.remote
            && moving.channel().is_none_or(is_remote)
        {
            remote.hand_over(moving);
        }
    }

    fn stop_at(&mut self, cut: Option<u64>) {
        if let Some(remote) = &mut self.remote {
            remote.stop_at(cut);
        }
    }

    fn has_stopped(&self) -> bool {
        self.remote.as_ref().is_none_or(|it| it.has_stopped())
    }

    fn leave_deliveries(&mut self) {
        if let Some(remote) = &mut self.remote {
            remote.leave_deliveries();
        }
    }

    fn give_up(&mut self, parts: &mut Parts<'_>) -> bool {
        self.memory.give_up(parts)
    }

    fn load(&mut self, kind: u8, from: &mut Saved<'_>) -> Option<()> {
        self.memory.load(kind, from)
    }

    fn write_down(&mut self, now: Now) -> bool {
        self.memory.write_down(now)
    }

    fn stats(&self) -> BrokerStats {
        self.memory.stats()
    }

    fn renew(&mut self, options: &LiveOptions, now: Now) {
        if let Some(remote) = &mut self.remote {
            remote.renew(options);
        }
        self.memory.renew(options, now);
    }
}
