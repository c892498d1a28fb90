//! Orders of sessions and mail of other shards, carried out.

use throng_broker::home_of;
use throng_hub::ReplyTo;
use throng_metrics::{Counter, Gauge};
use throng_session::{Flow, Sender, Shard};
use throng_types::{ChannelName, ConnId, End};

use crate::following::leave_channel;
use crate::forms::hub_channel;
use crate::grip::Grip;
use crate::look::Found;
use crate::looking::{find, hear};
use crate::mail::Mail;
use crate::order::Order;
use crate::receipts::Heard;
use crate::sequencer::LastItem;

const MINUTE_MS: u64 = 60_000;

impl Grip {
    pub(crate) fn carry_out(&mut self, order: Order, shard: &mut impl Shard<Self>) {
        match order {
            Order::Ask {
                conn,
                token,
                request,
            } => self.ask(conn, token, *request, shard),
            Order::Tell { request } => self.tell(*request, shard),
            Order::Send { conn, bytes } => self.exchanges.send(conn, bytes),
            Order::Finish { conn } => self.exchanges.finish(conn),
            Order::Forget { conn } => self.exchanges.remove(conn),
            Order::Leave { conn } => leave(conn, shard),
            Order::Left { conn } => {
                shard.with(conn, |session, cx| session.left(cx));
            }
            Order::Publish {
                reply_to,
                item,
                patient,
                counts,
            } => self.publish_item((reply_to, counts), item, patient, shard),
            Order::Carried { receipt, count } => {
                self.tell_receipt(receipt, Heard::Count(count), shard);
            }
            Order::Listen { conn } => self.listen(conn, shard),
            Order::ReadStats { conn } => self.read_stats(conn, shard),
            Order::Subscribed { channel } => self.subscribed(&channel, shard),
            Order::Refresh { channel } => self.refresh(&channel, shard),
            Order::Look {
                asker,
                wanted,
                conns,
            } => self.look(asker, wanted, conns, shard),
            Order::LastId { conn, channel } => self.ask_last_item(conn, channel, shard),
            Order::Recover => {
                shard.mail_all(|| Mail::Recover);
                recover(shard);
            }
        }
    }

    pub(crate) fn take_mail(&mut self, from: Sender, mail: Mail, shard: &mut impl Shard<Self>) {
        match mail {
            Mail::Origin { conn, token, event } => self.backend_event(conn, token, event, shard),
            Mail::Publish {
                reply_to,
                item,
                patient,
                receipt,
            } => self.offer((reply_to, receipt), item, patient, shard),
            Mail::Receipt { number, heard } => self.hear_receipt(number, heard, shard),
            Mail::Topic { channel, is_wanted } => {
                if let Sender::Shard(from) = from {
                    self.topic(from, &channel, is_wanted, shard);
                }
            }
            Mail::Published { reply_to, result } => answer(reply_to, result, shard),
            Mail::LastId { conn, channel } => {
                let last = self.sequencer.last_item(&channel, shard.now().mono);
                if let Sender::Shard(from) = from {
                    let mail = Mail::LastIs {
                        conn,
                        channel,
                        last,
                    };
                    shard.mail(from, mail);
                }
            }
            Mail::LastIs {
                conn,
                channel,
                last,
            } => self.tell_last_item(conn, &channel, last, shard),
            Mail::Stats(mail) => self.stats_mail(from, mail, shard),
            Mail::Routes(book) => self.shared.replace(book),
            Mail::Recover => recover(shard),
            Mail::Refresh { channel } => refresh_here(&channel, shard),
            Mail::Look {
                asker,
                wanted,
                conns,
            } => {
                let found = Found::These(find(wanted, &conns, shard));
                shard.mail(asker.0.shard(), Mail::Found { asker, found });
            }
            Mail::Found { asker, found } => hear(asker, found, shard),
        }
    }

    /// Once a turn; true if something waits.
    pub(crate) fn run_turn(&mut self, shard: &mut impl Shard<Self>) -> bool {
        let is_more = self.exchanges.settle(|conn| shard.queued_bytes(conn));
        self.forget_topics(shard);
        self.wake_gone(shard);
        let is_behind = self.publish_due(shard);
        self.run_statistics(shard);
        is_behind || is_more
    }

    /// Adds up how long clients have been connected; once a second.
    pub(crate) fn count_minutes(&mut self, shard: &impl Shard<Self>) {
        let (now, counters) = (shard.now(), &shard.shared().counters);
        let since = std::mem::replace(&mut self.counted_at, now.mono);
        let connections = counters.gauge(Gauge::GripConnections);
        self.connected_ms += connections * now.mono.0.saturating_sub(since.0);
        let minutes = self.connected_ms / MINUTE_MS;
        counters.add(Counter::GripConnectionMinutes, minutes);
        self.connected_ms %= MINUTE_MS;
    }

    /// Ends clients that take none of their backend's bytes; once a second.
    pub(crate) fn end_stuck(&mut self, shard: &mut impl Shard<Self>) {
        let now = shard.now().mono;
        let stuck = self.exchanges.stuck(now, |conn| shard.queued_bytes(conn));
        for conn in stuck {
            shard.with(conn, |_, cx| {
                cx.end(End::Now);
                Flow::Stay
            });
        }
    }

    fn ask_last_item(&mut self, conn: ConnId, channel: ChannelName, shard: &mut impl Shard<Self>) {
        let home = home_of(&channel, shard.shards());
        if home == shard.this() {
            let last = self.sequencer.last_item(&channel, shard.now().mono);
            self.tell_last_item(conn, &channel, last, shard);
        } else {
            shard.mail(home, Mail::LastId { conn, channel });
        }
    }

    /// A publisher that looks at subscriptions has published to a channel since it was told of it,
    /// so a backend that was asked after that knew of all that went past this server. The news
    /// comes before the client asks, or it does not: no clock has a say in it.
    fn tell_last_item(
        &self,
        conn: ConnId,
        channel: &ChannelName,
        mut last: LastItem,
        shard: &mut impl Shard<Self>,
    ) {
        let topics = &self.topics;
        shard.with(conn, |session, cx| {
            let asked_at = session.topics_told().unwrap_or_default();
            if last == LastItem::Unknown && topics.was_told(channel, asked_at) {
                last = LastItem::Quiet;
            }
            session.last_item(channel, &last, cx);
            Flow::Stay
        });
    }

    fn refresh(&self, channel: &str, shard: &mut impl Shard<Self>) {
        if let Some(channel) = hub_channel("", channel) {
            shard.mail_all(|| Mail::Refresh {
                channel: channel.clone(),
            });
            refresh_here(&channel, shard);
        }
    }
}

/// Answers a publisher like the hub does.
pub(crate) fn answer(
    reply_to: ReplyTo,
    result: throng_session::PublishResult,
    shard: &mut impl Shard<Grip>,
) {
    let answer = throng_hub::Answer::Published { result };
    let token = reply_to.token;
    shard.with(reply_to.conn, |session, cx| {
        session.event(throng_session::Event::Answer { token, answer }, cx)
    });
}

/// Removes a client whose stream has ended from its channels.
fn leave(conn: ConnId, shard: &mut impl Shard<Grip>) {
    let channels: Vec<ChannelName> = shard.hub().channels_of(conn).cloned().collect();
    shard.with(conn, |_, cx| {
        for channel in channels {
            leave_channel(channel, cx);
        }
        cx.order(Order::Left { conn });
        Flow::Stay
    });
}

fn recover(shard: &mut impl Shard<Grip>) {
    for conn in shard.sessions() {
        shard.with(conn, |session, cx| {
            session.recover(cx);
            Flow::Stay
        });
    }
}

fn refresh_here(channel: &ChannelName, shard: &mut impl Shard<Grip>) {
    for conn in shard.sessions() {
        if shard.hub().is_subscribed(conn, channel) {
            shard.with(conn, |session, cx| {
                session.refresh(cx);
                Flow::Stay
            });
        }
    }
}
