//! Replies and deliveries of the broker, on their way to connections of this shard.

use throng_broker::{Published, Receiver, Refusal, Reply, Subscribed, Ticket};
use throng_types::ChannelName;

use crate::local::Local;
use crate::requests::Waiting;
use crate::subscriptions::Place;
use crate::{Answer, Format, ReplyTo, Sink};

/// A hub that takes replies, for the length of one call.
pub(crate) struct Replies<'a, S> {
    pub(crate) local: &'a mut Local,
    pub(crate) sink: &'a mut S,
}

impl<S: Sink> Receiver for Replies<'_, S> {
    fn has_room(&self, channel: &ChannelName, bytes: usize) -> bool {
        self.local.has_room_in(channel, bytes)
    }

    fn reply(&mut self, reply: Reply) {
        let (local, sink) = (&mut *self.local, &mut *self.sink);
        match reply {
            Reply::Delivery(publication) => local.enqueue(publication),
            Reply::Broken(channel) => local.broken(&channel, sink),
            Reply::Subscribed { ticket, result } => {
                if let Waiting::Subscribe {
                    reply_to,
                    channel,
                    format,
                } = local.waiting.remove(ticket)
                {
                    local.subscribed((reply_to, channel, format), ticket, result, sink);
                }
            }
            Reply::Published { ticket, result } => {
                let result = result.map(|Published { position, .. }| position);
                match local.waiting.remove(ticket) {
                    Waiting::Publish { reply_to } => {
                        sink.answer(reply_to, Answer::Published { result });
                    }
                    Waiting::Feed { round, number } => sink.fed(round, number, result),
                    _ => {}
                }
            }
            Reply::Present { ticket, result } => {
                if let Waiting::Present { reply_to } = local.waiting.remove(ticket) {
                    sink.answer(reply_to, Answer::Present { result });
                }
            }
            Reply::History { ticket, result } => {
                if let Waiting::History { reply_to } = local.waiting.remove(ticket) {
                    sink.answer(reply_to, Answer::History { result });
                }
            }
        }
    }
}

/// A hub that takes deliveries where no reply can come.
pub(crate) struct OnlyDeliveries<'a> {
    pub(crate) local: &'a mut Local,
}

impl Receiver for OnlyDeliveries<'_> {
    fn has_room(&self, channel: &ChannelName, bytes: usize) -> bool {
        self.local.has_room_in(channel, bytes)
    }

    fn reply(&mut self, reply: Reply) {
        match reply {
            Reply::Delivery(publication) => self.local.enqueue(publication),
            _ => debug_assert!(false, "a reply without a request"),
        }
    }
}

impl Local {
    /// Takes the reply to a subscribe.
    fn subscribed(
        &mut self,
        (reply_to, key, format): (ReplyTo, u32, Format),
        ticket: Ticket,
        result: Result<Subscribed, Refusal>,
        sink: &mut impl Sink,
    ) {
        let Some((name, channel)) = self.channels.entry_mut(key) else {
            return;
        };
        let name = name.clone();
        channel.asked.answered();
        if let Ok(subscribed) = &result {
            channel.asked.accepted();
            channel.position.set(subscribed.position);
        }
        let is_wanted = self.subscriptions.find(reply_to.conn, key) == Some(Place::Asked(ticket.0));
        let result = match result {
            // It unsubscribed meanwhile. It gets an answer if it is still there: every command has
            // one, and an opening waits for all of its channels.
            _ if !is_wanted => Err(Refusal::Cancelled),
            Ok(subscribed) => {
                let format = self.format_after(key, format, &subscribed);
                let place = self.join(reply_to.conn, key, format);
                self.subscriptions
                    .set_place(reply_to.conn.index(), key, place);
                Ok(subscribed)
            }
            Err(refusal) => {
                self.subscriptions.remove(reply_to.conn, key);
                // It was never listed.
                self.present.remove(&(reply_to.conn, key));
                Err(refusal)
            }
        };
        let is_member = result.is_ok();
        let channel = name;
        sink.answer(reply_to, Answer::Subscribed { channel, result });
        self.deferred.answered(reply_to.conn, key);
        if !is_member {
            self.release_if_unused(key);
        }
    }
}
