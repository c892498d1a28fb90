//! Publications on their way: to their home, through it, and to this shard's members.

use std::sync::Arc;

use throng_broker::{Draft, Published, Refusal, Reply, Request, Ticket};
use throng_types::{Now, Position, Publication, ShardId};

use crate::channel::NO_SWEEP;
use crate::hub::Pending;
use crate::sweep::Sweep;
use crate::{Answer, Asker, Hub, Mail, Sink};

impl Hub {
    pub(crate) fn publish(&mut self, asker: Asker, draft: Draft, now: Now, sink: &mut impl Sink) {
        let home = self.home_of(&draft.channel);
        if home == self.options.shard {
            let result = self
                .publish_here(draft, now)
                .map_err(|(refusal, _)| refusal);
            sink.answer(asker, Answer::Published { result });
        } else if self.links[home.index()].may_ask() {
            let ticket = self.pend(Pending::Publish { asker });
            self.ask(home, Request::Publish { ticket, draft });
        } else {
            sink.answer(
                asker,
                Answer::Published {
                    result: Err(Refusal::Busy),
                },
            );
        }
    }

    /// Publishes in a channel that is at home here.
    ///
    /// # Errors
    /// Why not, and the draft: of [`Refusal::Busy`] it may be offered again.
    pub fn publish_here(
        &mut self,
        draft: Draft,
        now: Now,
    ) -> Result<Option<Position>, (Refusal, Draft)> {
        if self.namespaces.find(&draft.channel).is_none() {
            return Err((Refusal::UnknownChannel, draft));
        }
        let bytes = draft.payload.bytes.len() + size_of::<Publication>();
        let interest = self.home.interest(&draft.channel);
        let others = interest & !(1 << self.options.shard.0);
        let roads_open = bits(others).all(|shard| self.links[shard.index()].may_deliver(bytes));
        if !roads_open || !self.wants_mail() {
            return Err((Refusal::Busy, draft));
        }
        let Published {
            publication,
            position,
            interest,
        } = self.home.publish(draft, now);
        if let Some(publication) = publication {
            for shard in bits(interest) {
                if shard == self.options.shard {
                    self.enqueue(publication.clone());
                } else {
                    let delivery = Reply::Delivery(publication.clone());
                    self.links[shard.index()].push(Mail::Reply(delivery));
                }
            }
        }
        Ok(position)
    }

    /// Puts a publication on its way to this shard's members.
    fn enqueue(&mut self, publication: Arc<Publication>) {
        let key = self.channels.key(&publication.channel);
        let Some((key, channel)) = key.and_then(|key| Some((key, self.channels.at_mut(key)?)))
        else {
            return self.nobody_gets(publication);
        };
        if publication.position.is_some() {
            channel.position.set(publication.position);
        }
        if channel.members.len() == 0 && channel.sweep == NO_SWEEP {
            return self.nobody_gets(publication);
        }
        if channel.sweep == NO_SWEEP {
            let options = self.namespaces.find(&publication.channel);
            let overflow = options.map(|options| options.overflow).unwrap_or_default();
            channel.sweep = self
                .sweeps
                .insert(Sweep::new(key, overflow, channel.members.len()));
            self.turn_order.push_back(channel.sweep);
        }
        if let Some(sweep) = self.sweeps.get_mut(channel.sweep) {
            sweep.push(publication);
            self.waiting += 1;
        }
    }

    fn nobody_gets(&mut self, publication: Arc<Publication>) {
        if publication.tags.is_some() {
            self.carried.push(publication);
        }
    }

    pub(crate) fn pend(&mut self, pending: Pending) -> Ticket {
        Ticket(self.pending.insert(pending))
    }

    pub(crate) fn ask(&mut self, home: ShardId, request: Request) {
        self.links[home.index()].push(Mail::Request(request));
    }

    /// Carries out another shard's question about a channel that is at home here.
    pub(crate) fn request(&mut self, from: ShardId, request: Request, now: Now) {
        let reply = match request {
            Request::Subscribe {
                ticket,
                channel,
                since,
            } => Reply::Subscribed {
                ticket,
                result: self.home.subscribe(from, &channel, since, now),
            },
            Request::Leave { channel } => return self.home.leave(from, &channel, now),
            Request::Publish { ticket, draft } => Reply::Published {
                ticket,
                result: self
                    .publish_here(draft, now)
                    .map_err(|(refusal, _)| refusal),
            },
            Request::History {
                ticket,
                channel,
                query,
            } => Reply::History {
                ticket,
                result: self.home.history(&channel, query, now),
            },
        };
        self.links[from.index()].push(Mail::Reply(reply));
    }

    pub(crate) fn reply(&mut self, reply: Reply, now: Now, sink: &mut impl Sink) {
        match reply {
            Reply::Delivery(publication) => self.enqueue(publication),
            Reply::Subscribed { ticket, result } => {
                if let Some(Pending::Subscribe {
                    asker,
                    channel,
                    format,
                }) = self.pending.remove(ticket.0)
                {
                    self.subscribed((asker, channel, format), ticket, result, now, sink);
                }
            }
            Reply::Published { ticket, result } => {
                if let Some(Pending::Publish { asker }) = self.pending.remove(ticket.0) {
                    sink.answer(asker, Answer::Published { result });
                }
            }
            Reply::History { ticket, result } => {
                if let Some(Pending::History { asker }) = self.pending.remove(ticket.0) {
                    sink.answer(asker, Answer::History { result });
                }
            }
        }
    }
}

/// The shards whose bits are set.
fn bits(mut set: u64) -> impl Iterator<Item = ShardId> {
    std::iter::from_fn(move || {
        let shard = (set != 0).then(|| ShardId(set.trailing_zeros() as u8))?;
        set &= set - 1;
        Some(shard)
    })
}
