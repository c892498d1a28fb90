//! What sessions tell the hub, and what the hub tells them.

use std::sync::Arc;

use throng_broker::{
    Draft, HistoryPage, HistoryQuery, Namespaces, Overflow, Presence, Present, Recovery, Refusal,
    Subscribed,
};
use throng_types::{ChannelName, ConnId, Frames, Payload, Position, Publication};

/// What a hub is made of.
#[derive(Clone)]
pub struct HubOptions {
    /// Subscriptions that one connection may have.
    pub subscriptions_max: usize,
    /// Seeds the hash of channel names, which come from strangers.
    pub hash_seed: u64,
    /// The options of channels.
    pub namespaces: Arc<Namespaces>,
}

/// What a wire form says of its deliveries, once, where it is declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FormKind {
    /// The same bytes for everybody; nobody is asked.
    Shared,
    /// The same bytes for everybody, and the session is told that they went out. It looks itself
    /// at publications for which there are none.
    Noted,
    /// Each session encodes for itself, because its frames differ from everybody else's.
    Personal,
    /// Each session looks at the publication and does what it likes.
    Shown,
    /// As [`FormKind::Shared`], but a publication is said as the difference from the one before it
    /// to those who have that one. Only in channels whose [`throng_broker::ChannelOptions::delta`]
    /// is set; the first publication of a subscription is whole in any case.
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
    /// The kind [`FormKind::Delta`], for somebody who has the publication before.
    const DELTA_WITH_BASE: u16 = 5;

    /// The form with this number.
    ///
    /// # Panics
    /// From [`Format::COUNT`] on, which the list of gateways rules out when it is compiled.
    #[must_use]
    pub const fn new(number: u8, kind: FormKind) -> Self {
        assert!(number < Self::COUNT);
        let kind = match kind {
            FormKind::Shared => 0,
            FormKind::Noted => 1,
            FormKind::Personal => 2,
            FormKind::Shown => 3,
            FormKind::Delta => 4,
        };
        Self(kind << Self::NUMBER_BITS | number as u16)
    }

    /// The number that it was made from.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0 as u8 & (Self::COUNT - 1)
    }

    /// What it says of its deliveries.
    #[must_use]
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

    /// The same form for somebody who has the publication before the next one.
    pub(crate) const fn with_base(self) -> Self {
        match self.kind() {
            FormKind::Delta => Self(self.0 | 1 << Self::NUMBER_BITS),
            _ => self,
        }
    }

    /// The same form for a subscription that hears of comings and goings, too. Only forms with
    /// shared bytes do.
    #[must_use]
    pub const fn with_news(self) -> Self {
        Self(self.0 | Self::NEWS)
    }

    /// Whether the subscription hears of comings and goings.
    #[must_use]
    pub const fn has_news(self) -> bool {
        self.0 & Self::NEWS != 0
    }

    /// Whether there are bytes that connections of this form share.
    #[must_use]
    pub const fn is_encoded(self) -> bool {
        use FormKind::{Delta, Noted, Shared};
        matches!(self.kind(), Shared | Noted | Delta)
    }

    /// The same form for somebody who has nothing yet.
    pub(crate) const fn without_base(self) -> Self {
        match self.has_base() {
            true => Self(self.0 & !(1 << Self::NUMBER_BITS)),
            false => self,
        }
    }

    pub(crate) const fn to_bits(self) -> u16 {
        self.0
    }

    /// A form from the bits of another one.
    pub(crate) const fn from_bits(bits: u16) -> Self {
        Self(bits)
    }
}

/// Who asked: a connection, and a number of its own choice that is given back to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyTo {
    /// The connection.
    pub conn: ConnId,
    /// Echoed in the answer.
    pub token: u32,
}

/// What a connection wants of the hub.
#[derive(Debug)]
pub enum Command {
    /// Begin to receive a channel's publications. Answered, after whatever the connection wanted
    /// of the channel before.
    Subscribe {
        /// Whom to answer, and who subscribes.
        reply_to: ReplyTo,
        /// The channel.
        channel: ChannelName,
        /// How deliveries to this connection look; the same for all its subscriptions, but for what
        /// [`Format::with_news`] says.
        format: Format,
        /// Where it was, if it wants what it missed.
        since: Option<Position>,
        /// Who comes, if that is to be seen.
        presence: Option<Presence>,
    },
    /// Stop receiving; what is already queued still leaves. With a token it is answered, after
    /// whatever the connection wanted of the channel before. Without one it takes effect at once,
    /// and a subscribe that waits for the broker is refused as [`Refusal::Cancelled`].
    Unsubscribe {
        /// Whose subscription.
        conn: ConnId,
        /// The channel.
        channel: ChannelName,
        /// Echoed in the answer.
        token: Option<u32>,
    },
    /// Publish. Answered.
    Publish {
        /// Whom to answer.
        reply_to: ReplyTo,
        /// What to publish.
        draft: Draft,
    },
    /// Publish many at once, in this order. Each is answered by itself: the first with the token of
    /// `reply_to`, each other one with the token after that of the one before it, wrapping.
    PublishAll {
        /// Whom to answer.
        reply_to: ReplyTo,
        /// What to publish.
        drafts: Vec<Draft>,
    },
    /// Say who is present in a channel. Answered.
    Present {
        /// Whom to answer.
        reply_to: ReplyTo,
        /// The channel.
        channel: ChannelName,
        /// Everybody, not only how many they are.
        with_members: bool,
        /// As in [`Command::History`].
        only_subscribed: bool,
    },
    /// Forget a channel's past. Answered as [`Command::History`], with an empty page.
    Forget {
        /// Whom to answer.
        reply_to: ReplyTo,
        /// The channel.
        channel: ChannelName,
    },
    /// Read a channel's past. Answered.
    History {
        /// Whom to answer.
        reply_to: ReplyTo,
        /// The channel.
        channel: ChannelName,
        /// Which part.
        query: HistoryQuery,
        /// Refuse it, as [`Answer::NotSubscribed`], if the connection does not subscribe to the
        /// channel.
        only_subscribed: bool,
    },
}

/// What the hub answers.
#[derive(Debug)]
pub enum Answer {
    /// To [`Command::Subscribe`]. Deliveries follow this answer and never precede it.
    Subscribed {
        /// The channel.
        channel: ChannelName,
        /// Where the subscription begins.
        result: Result<Subscribed, Refusal>,
    },
    /// To [`Command::Unsubscribe`] with a token.
    Unsubscribed {
        /// The channel.
        channel: ChannelName,
        /// Whether there is no subscription now. It is refused if too much waits before it.
        result: Result<(), Refusal>,
    },
    /// To [`Command::Publish`], and to each publication of [`Command::PublishAll`].
    Published {
        /// The position, in channels that keep history.
        result: Result<Option<Position>, Refusal>,
    },
    /// To [`Command::Present`].
    Present {
        /// Who is there.
        result: Result<Present, Refusal>,
    },
    /// To [`Command::History`].
    History {
        /// What was found.
        result: Result<HistoryPage, Refusal>,
    },
    /// To [`Command::Present`] and [`Command::History`], if only a subscriber may have that and the
    /// connection is none.
    NotSubscribed {
        /// `history` or `presence`.
        what: &'static str,
        /// The channel.
        channel: ChannelName,
    },
}

impl Answer {
    /// Publications or members in it.
    #[must_use]
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
    /// Some of the frames are empty: whoever gets them looks at those publications itself.
    pub has_gaps: bool,
}

/// What is due to one connection: publications of one channel, in order.
#[derive(Debug)]
pub struct Batch<'a> {
    /// Names the channel while it has subscribers here; for "latest only".
    pub channel_key: u32,
    /// What to do with a delivery that finds the connection's queue full.
    pub overflow: Overflow,
    /// What was published.
    pub publications: &'a [Arc<Publication>],
    /// The connection's wire form.
    pub format: Format,
    /// The same in that form; `None` for forms without shared bytes.
    pub encoded: Option<&'a Encoded>,
    /// More may follow for this connection in this turn: queue, and write once.
    pub gather: bool,
}

/// A publication as the difference from the one before it.
#[derive(Clone, Copy, Debug)]
pub struct Patch<'a> {
    /// The data of the one before.
    pub base: &'a Payload,
    /// What makes the data of it, in the format of [`throng_fossil`]; shorter than that. A text if
    /// both data are.
    pub delta: &'a [u8],
}

/// Where answers and deliveries go: to whoever holds the connections.
pub trait Sink {
    /// Hands an answer to a connection, which may have gone.
    fn answer(&mut self, reply_to: ReplyTo, answer: Answer);
    /// Appends one publication in a shared wire form.
    fn encode(&mut self, format: Format, publication: &Publication, out: &mut Vec<u8>);
    /// The same in a form of the kind [`FormKind::Delta`]; without a patch it is whole.
    fn encode_delta(
        &mut self,
        format: Format,
        publication: &Publication,
        patch: Option<Patch<'_>>,
        out: &mut Vec<u8>,
    ) {
        let _ = patch;
        self.encode(format, publication, out);
    }
    /// Hands deliveries to the connection in a slot. The connection is alive.
    fn deliver(&mut self, index: u32, batch: &Batch<'_>);
    /// A connection's subscription has ended, because what it got is not continued: it is to
    /// subscribe again, from the position that it has.
    fn lost(&mut self, conn: ConnId, channel: &ChannelName) {
        let _ = (conn, channel);
    }
    /// Everybody on this shard who is to get a publication has got it; there may be nobody. Only
    /// those with tags are told of, each once.
    fn carried(&mut self, publication: &Publication) {
        let _ = publication;
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
