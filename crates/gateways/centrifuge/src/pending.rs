//! Open questions of a connection to backends, and state that it keeps meanwhile.
//!
//! Owns values alone; the modules `asking`, `answered` and `welcoming` act on them.

use throng_broker::Draft;
use throng_centrifuge::{Connect, TagFilter};
use throng_session::Questions;
use throng_types::{ChannelName, Position, Save};

/// Subscription that a client asked for, while a backend decides.
pub(crate) struct Wants {
    pub(crate) command: u32,
    pub(crate) channel: ChannelName,
    pub(crate) since: Option<Position>,
    pub(crate) join_leave: bool,
    pub(crate) delta: bool,
    pub(crate) filter: Option<TagFilter>,
    pub(crate) rejects_unrecovered: bool,
    /// A backend allows it.
    pub(crate) is_backends: bool,
}

/// Subject of an open question to a backend.
pub(crate) enum Pending {
    /// Identity of the client. Its `connect` is kept, because the connection begins with channels
    /// from there.
    Connect { command: u32, request: Box<[u8]> },
    /// Whether it goes on.
    Refresh,
    /// Whether it may subscribe.
    Subscribe(Box<Wants>),
    /// Whether a unidirectional connection may begin with a channel.
    Begin(ChannelName),
    /// Whether it may publish.
    Publish { command: u32, draft: Box<Draft> },
    /// Whether a subscription goes on.
    SubRefresh(ChannelName),
    /// Something of its own.
    Rpc { command: u32 },
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
