//! State of a socket until the hub answers, and state that few sockets need for longer.
//!
//! Boxed by its owner, and gone when nothing is left: an idle connection has none.
//!
//! Owns values alone; the module `asking` acts on them.

use throng_broker::Draft;
use throng_centrifuge::{Connect, TagFilter};
use throng_session::{Opening, Questions};
use throng_types::{ChannelName, Position, Save};

/// A subscribe that needs more than the hub's answer for its reply.
pub(crate) struct Subscribing {
    pub(crate) command: u32,
    pub(crate) channel: ChannelName,
    /// When the subscription token ends the subscription, if there is one: `Some(None)` for never.
    pub(crate) until: Option<Option<u64>>,
    /// JSON for the subscriber, from its token.
    pub(crate) data: Option<Box<str>>,
    /// Whether publications are sent as differences.
    pub(crate) delta: bool,
    /// Only publications that pass it are delivered.
    pub(crate) filter: Option<TagFilter>,
    /// Whether a backend has allowed it, and is asked when it expires.
    pub(crate) is_backends: bool,
    /// Whether the client refuses a subscription that did not recover.
    pub(crate) rejects_unrecovered: bool,
}

/// Everything of one socket that waits for the hub.
#[derive(Default, Save)]
pub(crate) struct PendingState {
    /// Until every channel that the connection begins with has answered.
    #[save(skip)]
    pub(crate) opening: Option<Box<Opening>>,
    /// JSON for the subscriber of some of these channels, from its token.
    #[save(skip)]
    pub(crate) data: Vec<(ChannelName, Box<str>)>,
    /// Subscribes without an answer. Bound: the hub takes no more than a few for each channel of
    /// the connection.
    #[save(skip)]
    pub(crate) subscribing: Vec<Subscribing>,
    /// JSON for the client, sent with the answer to `connect`.
    #[save(skip)]
    pub(crate) welcome: Option<Box<str>>,
    /// State for connections whose client backends are asked about.
    pub(crate) proxied: Option<Box<Proxied>>,
    /// The filters of subscriptions that the client has. Bound: one a subscription.
    pub(crate) filters: Vec<(ChannelName, TagFilter)>,
}

impl PendingState {
    /// Whether another process can go on with it: nothing waits for the hub or a backend.
    pub(crate) fn moves(&self) -> bool {
        let is_quiet = self.proxied.as_ref().is_none_or(|it| it.moves());
        let is_answered = self.opening.is_none() && self.subscribing.is_empty();
        is_quiet && is_answered && self.data.is_empty() && self.welcome.is_none()
    }

    /// Whether all answers have arrived.
    pub(crate) const fn is_over(&self) -> bool {
        let is_answered = self.opening.is_none() && self.subscribing.is_empty();
        let is_plain = self.filters.is_empty() && self.proxied.is_none();
        is_answered && self.data.is_empty() && is_plain && self.welcome.is_none()
    }

    pub(crate) fn take(&mut self, command: u32, channel: &ChannelName) -> Option<Subscribing> {
        let mut all = self.subscribing.iter();
        let at = all.position(|one| one.command == command && one.channel == *channel)?;
        Some(self.subscribing.remove(at))
    }
}

/// Subscription that a client asked for, while a backend decides.
pub(crate) struct PendingSubscribe {
    pub(crate) command: u32,
    pub(crate) channel: ChannelName,
    pub(crate) since: Option<Position>,
    pub(crate) join_leave: bool,
    pub(crate) delta: bool,
    pub(crate) filter: Option<TagFilter>,
    pub(crate) rejects_unrecovered: bool,
    pub(crate) is_backends: bool,
}

/// Subject of an open question to a backend.
pub(crate) enum Pending {
    /// Identity of the client. Its `connect` is kept, because the connection begins with channels
    /// from there.
    Connect {
        command: u32,
        request: Box<[u8]>,
    },
    Refresh,
    Subscribe(Box<PendingSubscribe>),
    /// Whether a unidirectional connection may begin with a channel.
    Begin(ChannelName),
    Publish {
        command: u32,
        draft: Box<Draft>,
    },
    /// Whether a subscription goes on.
    SubRefresh(ChannelName),
    Rpc {
        command: u32,
    },
}

impl Pending {
    /// Returns what the client asked for, and the channel, for the log.
    pub(crate) fn about(&self) -> (&'static str, &str) {
        match self {
            Self::Connect { .. } => ("connect", ""),
            Self::Refresh => ("refresh", ""),
            Self::Subscribe(wants) => ("subscribe", wants.channel.as_str()),
            Self::Begin(channel) => ("subscribe", channel.as_str()),
            Self::Publish { draft, .. } => ("publish", draft.channel.as_str()),
            Self::SubRefresh(channel) => ("refresh", channel.as_str()),
            Self::Rpc { .. } => ("rpc", ""),
        }
    }
}

/// State of a connection where there are backends.
#[derive(Default, Save)]
pub(crate) struct Proxied {
    pub(crate) questions: Questions<Pending>,
    /// Whether a backend has identified the client.
    pub(crate) is_backends: bool,
    /// Subscriptions that a backend allowed, and is asked about when they expire.
    pub(crate) refreshed: Vec<ChannelName>,
    /// Commands behind `connect`. Queue: `behind connect`.
    #[save(skip)]
    pub(crate) later: Vec<u8>,
}

/// The `connect` command, decoded and as received.
pub(crate) struct Hello<'a> {
    pub(crate) command: u32,
    /// The command as received.
    pub(crate) request: &'a [u8],
    pub(crate) connect: &'a Connect<'a>,
}

impl Proxied {
    /// Whether another process can go on with it: all backends have answered.
    pub(crate) fn moves(&self) -> bool {
        self.questions.is_quiet() && self.later.is_empty()
    }

    /// A subscription has ended.
    pub(crate) fn forget(&mut self, name: &ChannelName) {
        self.refreshed.retain(|known| known != name);
    }
}

#[cfg(test)]
mod tests {
    use throng_broker::BackendId;
    use throng_session::{Open, Passed};
    use throng_types::check_saved;

    use super::*;

    fn asked() -> PendingState {
        let said = Passed {
            name: "x-said".into(),
            value: "hello".into(),
            is_emulated: true,
        };
        let mut proxied = Proxied {
            is_backends: true,
            refreshed: ChannelName::new("a").into_iter().collect(),
            ..Proxied::default()
        };
        proxied.questions.headers.push(said);
        (proxied.questions.meta, proxied.questions.next) = (Some("{}".into()), 7);
        PendingState {
            proxied: Some(Box::new(proxied)),
            ..PendingState::default()
        }
    }

    #[test]
    fn what_backends_know_comes_back_whole() {
        assert!(asked().moves());
        check_saved(&asked());
    }

    #[test]
    fn who_waits_for_something_stays() {
        let waits: [fn(&mut PendingState); 4] = [
            |it| {
                let proxied = it.proxied.get_or_insert_default();
                proxied.questions.open.push(Open {
                    number: 1,
                    to: BackendId::DEFAULT,
                    pending: Pending::Rpc { command: 2 },
                });
            },
            |it| it.proxied.get_or_insert_default().later.push(b' '),
            |it| it.welcome = Some("{}".into()),
            |it| it.opening = Some(Opening::new(1, 1, false)),
        ];
        for wait in waits {
            let mut asked = asked();
            wait(&mut asked);
            assert!(!asked.moves());
        }
    }
}
