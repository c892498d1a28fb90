//! Commands of sessions to the hub, and its answers and deliveries to them.

use std::sync::Arc;

use throng_broker::{
    ChannelMember, Draft, HistoryPage, HistoryQuery, HookEvent, Hooks, NamespaceOptions, Outcome,
    Overflow, Present, Recovery, Refusal, Subscribed,
};
use throng_types::{
    ChannelName, ConnId, Frames, Payload, Position, Publication, Save, SpanContext,
};

#[derive(Clone)]
pub struct HubOptions {
    /// Subscriptions that one connection may have.
    pub subscriptions_max: usize,
    /// Seeds the hash of channel names, which come from strangers.
    pub hash_seed: u64,
    /// The options of channels.
    pub namespaces: Arc<NamespaceOptions>,
    /// Listener for channels and users that come and go on this shard, if there are webhooks.
    pub hooks: Option<Arc<dyn Hooks>>,
}

impl HubOptions {
    /// Tells webhooks that this shard has subscribers of a channel, or has none any more.
    pub(crate) fn tell_occupied(&self, channel: &ChannelName, is_on: bool) {
        if let Some(hooks) = &self.hooks {
            let channel = channel.clone();
            hooks.tell(HookEvent::Occupied { channel, is_on });
        }
    }

    /// Tells webhooks that a connection of a user is listed in a channel, or is not any more.
    pub(crate) fn tell_member(&self, channel: &ChannelName, presence: &ChannelMember, is_on: bool) {
        if let Some(hooks) = self.hooks.as_ref().filter(|_| presence.is_listed) {
            hooks.tell(HookEvent::member(channel, &presence.who, is_on));
        }
    }
}

/// Encoding of a wire form's deliveries, declared once with the form. The order is that of
/// [`Format`]'s bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Save)]
pub enum FormKind {
    /// Shared bytes for all; sessions are not called.
    Shared,
    /// Shared bytes for all, and the session is told that they went out. It looks itself at
    /// publications without bytes.
    Noted,
    /// Each session encodes for itself, because its frames differ from all others.
    Personal,
    /// Each session gets the publication and decides itself.
    Shown,
    /// Shared bytes as in [`FormKind::Shared`], but members that have the previous publication get
    /// the difference from it. Only in channels whose [`throng_broker::ChannelOptions::delta`] is
    /// set; the first publication of a subscription is always whole.
    Delta,
}

/// A wire form of deliveries. Connections of one form share encoded frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Format(u16);

impl Format {
    const NUMBER_BITS: u8 = 5;
    /// Different forms that there may be.
    pub const COUNT: u8 = 1 << Self::NUMBER_BITS;
    const KIND_MASK: u16 = 7;
    const NEWS: u16 = 1 << (Self::NUMBER_BITS + 3);
    pub(crate) const BITS: u32 = Self::NUMBER_BITS as u32 + 4;
    /// The kind [`FormKind::Delta`], for a member that has the previous publication.
    const DELTA_WITH_BASE: u16 = 5;

    /// The form with this number.
    ///
    /// # Panics
    /// From [`Format::COUNT`] on, which the list of gateways rules out when it is compiled.
    pub const fn new(number: u8, kind: FormKind) -> Self {
        assert!(number < Self::COUNT);
        Self((kind as u16) << Self::NUMBER_BITS | number as u16)
    }

    /// Number of the form, as given to [`Format::new`].
    pub const fn number(self) -> u8 {
        self.0 as u8 & (Self::COUNT - 1)
    }

    /// Encoding of this form's deliveries.
    pub const fn kind(self) -> FormKind {
        match self.kind_bits() {
            0 => FormKind::Shared,
            1 => FormKind::Noted,
            2 => FormKind::Personal,
            3 => FormKind::Shown,
            _ => FormKind::Delta,
        }
    }

    const fn kind_bits(self) -> u16 {
        self.0 >> Self::NUMBER_BITS & Self::KIND_MASK
    }

    /// Whether the next publication may be said as the difference from the one before it.
    pub(crate) const fn has_base(self) -> bool {
        self.kind_bits() == Self::DELTA_WITH_BASE
    }

    /// The form of a member that has the previous publication.
    pub(crate) const fn with_base(self) -> Self {
        match self.kind() {
            FormKind::Delta => Self(self.0 | 1 << Self::NUMBER_BITS),
            _ => self,
        }
    }

    /// The form of a subscription that also gets comings and goings. Only forms with shared bytes
    /// do.
    pub const fn with_news(self) -> Self {
        Self(self.0 | Self::NEWS)
    }

    /// Whether the subscription gets comings and goings.
    pub const fn has_news(self) -> bool {
        self.0 & Self::NEWS != 0
    }

    /// Whether there are bytes that connections of this form share.
    pub const fn is_encoded(self) -> bool {
        use FormKind::{Delta, Noted, Shared};
        matches!(self.kind(), Shared | Noted | Delta)
    }

    /// The form of a member that has no publication yet.
    pub(crate) const fn without_base(self) -> Self {
        match self.has_base() {
            true => Self(self.0 & !(1 << Self::NUMBER_BITS)),
            false => self,
        }
    }

    pub(crate) const fn to_bits(self) -> u16 {
        self.0
    }

    /// A form from [`Format`] bits that were taken earlier.
    pub(crate) const fn from_bits(bits: u16) -> Self {
        Self(bits)
    }
}

/// Sender of a command: a connection, and a number of its own choice that is echoed to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyTo {
    pub conn: ConnId,
    /// Echoed in the answer.
    pub token: u32,
}

impl ReplyTo {
    pub const fn new(conn: ConnId, token: u32) -> Self {
        Self { conn, token }
    }
}

/// Command to the hub, of a connection unless it says otherwise.
#[derive(Debug)]
pub enum Command {
    /// Starts to receive a channel's publications. Answered, after the connection's earlier
    /// commands for the channel.
    Subscribe {
        /// Subscriber, which gets the answer.
        reply_to: ReplyTo,
        channel: ChannelName,
        /// Form of deliveries to this connection; equal for all its subscriptions, except for
        /// [`Format::with_news`].
        format: Format,
        /// Last position of the subscriber, if it asks for recovery.
        since: Option<Position>,
        /// The member that comes, if presence is on.
        presence: Option<ChannelMember>,
    },
    /// Stops receiving; queued deliveries still leave. With a token it is answered, after the
    /// connection's earlier commands for the channel. Without one it takes effect at once, and a
    /// subscribe that waits for the broker is refused as [`Refusal::Cancelled`].
    Unsubscribe {
        /// Owner of the subscription.
        conn: ConnId,
        channel: ChannelName,
        /// Echoed in the answer.
        token: Option<u32>,
    },
    Publish {
        reply_to: ReplyTo,
        draft: Draft,
    },
    /// Publishes several drafts, in this order. Each is answered by itself: the first with the
    /// token of `reply_to`, each other one with the next token, wrapping.
    PublishAll {
        reply_to: ReplyTo,
        drafts: Vec<Draft>,
    },
    /// Publishes drafts of a feed, in this order. Each is answered to the feed; see [`Sink::fed`].
    Feed {
        /// Number of the round, echoed in the answers.
        round: u32,
        drafts: Vec<Draft>,
    },
    /// Publishes a draft of the server's own, which nobody waits for.
    Announce {
        draft: Draft,
    },
    /// Counts or lists the members of a channel. Answered.
    Present {
        reply_to: ReplyTo,
        channel: ChannelName,
        /// Whether the answer lists all members, besides their number.
        with_members: bool,
        /// Whether only a subscriber is answered, as in [`Command::History`].
        only_subscribed: bool,
    },
    /// Forgets a channel's history. Answered as [`Command::History`], with an empty page.
    Forget {
        reply_to: ReplyTo,
        channel: ChannelName,
    },
    /// Reads a channel's history. Answered.
    History {
        reply_to: ReplyTo,
        channel: ChannelName,
        query: HistoryQuery,
        /// Whether a connection without a subscription to the channel is refused, as
        /// [`Answer::NotSubscribed`].
        only_subscribed: bool,
    },
}

/// Answer of the hub to a command.
#[derive(Debug)]
pub enum Answer {
    /// Answers [`Command::Subscribe`]. Deliveries follow this answer and never precede it.
    Subscribed {
        channel: ChannelName,
        /// Where the subscription begins.
        result: Result<Subscribed, Refusal>,
    },
    /// Answers [`Command::Unsubscribe`] with a token.
    Unsubscribed {
        channel: ChannelName,
        /// Success if there is no subscription now. Refused if too many commands wait before it.
        result: Result<(), Refusal>,
    },
    /// Answers [`Command::Publish`], and each publication of [`Command::PublishAll`].
    Published {
        /// The position, in channels that keep history.
        result: Result<Option<Position>, Refusal>,
    },
    /// Answers [`Command::Present`] with counts or a list.
    Present { result: Result<Present, Refusal> },
    /// Answers [`Command::History`] and [`Command::Forget`].
    History {
        result: Result<HistoryPage, Refusal>,
    },
    /// Answers [`Command::Present`] and [`Command::History`] that only a subscriber may send, for a
    /// connection without a subscription.
    NotSubscribed {
        /// Name of the command, `history` or `presence`.
        what: &'static str,
        channel: ChannelName,
    },
}

impl Answer {
    /// The answer to a command with the outcome of its request; none to a subscribe, whose answer
    /// names the channel.
    pub(crate) fn of(outcome: Outcome) -> Option<Self> {
        Some(match outcome {
            Outcome::Subscribed(_) => return None,
            Outcome::Published(result) => Self::Published {
                result: result.map(|published| published.position),
            },
            Outcome::Present(result) => Self::Present { result },
            Outcome::History(result) => Self::History { result },
        })
    }

    /// Number of publications or members in it.
    pub fn items(&self) -> usize {
        match self {
            Self::Subscribed {
                result:
                    Ok(Subscribed {
                        recovery: Recovery::Whole(missed),
                        ..
                    }),
                ..
            } => missed.len(),
            Self::Present {
                result: Ok(present),
            } => present.members.as_ref().map_or(0, Vec::len),
            Self::History { result: Ok(page) } => page.publications.len(),
            _ => 0,
        }
    }
}

/// Publications in one wire form.
#[derive(Debug, Default)]
pub struct Encoded {
    /// One frame for each publication.
    pub frames: Frames,
    /// Whether some frames are empty: a session that gets one looks at the publication itself.
    pub has_gaps: bool,
}

/// Deliveries due to one connection: publications of one channel, in order.
#[derive(Debug)]
pub struct Batch<'a> {
    /// Names the channel while it has subscribers here; for "latest only".
    pub channel_key: u32,
    /// Policy for a delivery that finds the connection's queue full.
    pub overflow: Overflow,
    pub publications: &'a [Arc<Publication>],
    /// The connection's wire form.
    pub format: Format,
    /// The publications in that form; `None` for forms without shared bytes.
    pub encoded: Option<&'a Encoded>,
    /// Whether more may follow for this connection in this turn: queue, and write once.
    pub gather: bool,
}

/// A publication as the difference from the one before it.
#[derive(Clone, Copy, Debug)]
pub struct Patch<'a> {
    /// Data of the previous publication.
    pub base: &'a Payload,
    /// Difference from `base`, in the format of [`throng_fossil`]; shorter than the new data. A
    /// text if both data are.
    pub delta: &'a [u8],
}

/// Receiver of answers and deliveries: the owner of the connections.
#[expect(
    unused_variables,
    reason = "most of what is not overridden uses nothing"
)]
pub trait Sink {
    /// Hands an answer to a connection, which may have gone.
    fn answer(&mut self, reply_to: ReplyTo, answer: Answer);
    /// Hands a feed the result of a publication of a round.
    fn fed(&mut self, round: u32, number: u32, result: Result<Option<Position>, Refusal>) {}
    /// Appends one publication in a shared wire form; whole without a patch, which only forms of
    /// the kind [`FormKind::Delta`] are given.
    fn encode(
        &mut self,
        format: Format,
        publication: &Publication,
        patch: Option<Patch<'_>>,
        out: &mut Vec<u8>,
    );
    /// Hands deliveries to the connection in a slot. The connection is alive.
    fn deliver(&mut self, index: u32, batch: &Batch<'_>);
    /// Notes that a connection's subscription has ended, because its deliveries have a gap: it must
    /// subscribe again, from the position that it has.
    fn lost(&mut self, conn: ConnId, channel: &ChannelName) {}
    /// Notes publications that the broker is asked for, in a namespace with this label.
    fn published(&mut self, label: u8) {}
    /// Notes deliveries to members, in a namespace with this label.
    fn delivered(&mut self, label: u8, count: u64) {}
    /// Notes that all members on this shard have a publication. Called once for each; of those that
    /// nobody got, because there are no members or a newer one took its place, only if it has tags.
    fn carried(&mut self, publication: &Publication) {}
    /// Whether the number of members that have a publication is wanted.
    fn counts_members(&self, publication: &Publication) -> bool {
        publication.trace.is_some()
    }
    /// Notes the number of members on this shard that have a publication, where
    /// [`Self::counts_members`] says so. Called after [`Self::carried`].
    fn reached(&mut self, publication: &Publication, members: u32) {}
    /// Notes that a broker elsewhere has taken or refused a traced publication. The call `by` made
    /// it; it was on its way since then, in Unix milliseconds.
    fn broker_replied(
        &mut self,
        by: &SpanContext,
        since: u64,
        channel: &ChannelName,
        is_taken: bool,
    ) {
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_has_a_number_and_a_kind_and_only_two_kinds_have_shared_bytes() {
        use FormKind::{Delta, Noted, Personal, Shared, Shown};
        for number in 0..Format::COUNT {
            for kind in [Shared, Noted, Personal, Shown, Delta] {
                let format = Format::new(number, kind);
                assert_eq!((format.number(), format.kind()), (number, kind));
                assert_eq!(Format::from_bits(format.to_bits()), format);
                let news = format.with_news();
                assert_eq!((news.number(), news.kind()), (number, kind));
                assert_eq!((format.has_news(), news.has_news()), (false, true));
                assert_eq!(news.with_news(), news);
                assert_eq!(Format::from_bits(news.to_bits()), news);
                assert_eq!(format.is_encoded(), matches!(kind, Shared | Noted | Delta));
                let based = news.with_base();
                assert_eq!((based.number(), based.kind()), (number, kind));
                assert!(!news.has_base() && based.has_news());
                assert_eq!(based.has_base(), kind == Delta);
                assert_eq!((based.with_base(), based.without_base()), (based, news));
                assert_eq!(news.without_base(), news);
                assert!(based.to_bits() < 1 << Format::BITS);
            }
        }
    }
}
