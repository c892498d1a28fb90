//! What a client is made of, and what it remembers.

use std::collections::BTreeMap;

use super::kind::Kind;
use super::wire::Wire;
use crate::backend::Requests;
use crate::http::Exchange;
use crate::net::Net;
use crate::setup::Setup;
use crate::witness::{Place, Witness};

/// Close codes that a server may send to a client that kept to the rules.
const CLOSE_CODES: [u64; 7] = [1012, 3001, 3005, TOO_SLOW, 3012, 3502, 3503];
/// The code for a client that reads too slowly.
const TOO_SLOW: u64 = 3008;
/// Close code for a client that sends more than it may.
const TOO_MANY: u64 = 3013;

/// State of one connection.
#[derive(Default)]
pub(super) struct Link {
    pub(super) conn: usize,
    pub(super) wire: Wire,
    /// The subscriptions, by channel.
    pub(super) tracks: BTreeMap<usize, usize>,
    pub(super) commands: Commands,
    /// Client id from the server; with `session` and `node`, the address of commands on emulated
    /// transports.
    pub(super) id: String,
    pub(super) session: String,
    pub(super) node: String,
    /// Its commands that are on their way there.
    pub(super) upstream: Vec<Exchange>,
    /// Positions that the client resumed from, per channel.
    pub(super) since: BTreeMap<usize, Place>,
    /// Asked to resume when it connected.
    pub(super) resuming: bool,
    /// Some channel of it may drop.
    pub(super) lossy: bool,
    /// Whether the first message has arrived.
    pub(super) open: bool,
    /// Whether the server has sent its last message.
    pub(super) over: bool,
    /// The client has shut its sending side.
    pub(super) shut: bool,
    pub(super) reads_from_us: u64,
}

/// A simulated client: what it asked for, and what it reads.
pub(crate) struct Client {
    pub(super) number: usize,
    pub(super) kind: Kind,
    /// Channels that it listens to; a Centrifugo client chooses them as it goes.
    pub(super) channels: Vec<usize>,
    /// Empty for a client without a token.
    pub(super) user: String,
    /// Never answers a ping.
    pub(super) mute: bool,
    /// Most bytes that it reads at once.
    pub(super) read_bytes_max: usize,
    pub(super) link: Option<Link>,
    /// Where it was, in the words of its protocol.
    pub(super) positions: BTreeMap<usize, Place>,
    pub(super) cursor: String,
    /// The subscriptions of the connection before.
    pub(super) before: BTreeMap<usize, usize>,
    /// The run comes to its end: behave.
    pub(super) calm: bool,
}

/// Parts of the run that a client uses during one call.
pub(crate) struct Around<'a> {
    pub(crate) net: &'a Net,
    pub(crate) setup: &'a Setup,
    pub(crate) witness: &'a mut Witness,
    pub(crate) backend: &'a Requests,
}

impl Around<'_> {
    /// Whether the server may close a connection with this code, whose client kept to the rules but
    /// for the amount that it sends.
    pub(super) fn may_close(&self, code: u64) -> bool {
        let is_overspent = code == TOO_MANY && self.setup.stingy;
        if is_overspent {
            self.net.count("a client that sends too much is closed");
        } else if code == TOO_SLOW {
            self.net.count("a client hears that it is too slow");
        }
        is_overspent || CLOSE_CODES.contains(&code)
    }
}

/// Command that waits for its reply.
#[derive(Debug)]
pub(super) enum Asked {
    Connect,
    /// A channel, its subscription, and where the client was.
    Subscribe(usize, usize, Option<Place>),
    Unsubscribe(usize),
    Publish(u64),
    History(usize),
    /// Presence of a channel; with the subscription that the client had when it asked.
    Presence(usize, Option<usize>),
    Ping,
    /// Something that is not offered: it must be refused.
    Refused,
}

impl Asked {
    /// The channel to which it subscribes, or whose subscription it ends. Such commands of one
    /// channel are answered in order.
    pub(super) const fn joins_or_leaves(&self) -> Option<usize> {
        match self {
            Self::Subscribe(channel, ..) | Self::Unsubscribe(channel) => Some(*channel),
            _ => None,
        }
    }
}

/// Commands of a connection that have no reply yet.
#[derive(Debug, Default)]
pub(super) struct Commands {
    last_id: u32,
    pub(super) open: BTreeMap<u32, Asked>,
}

impl Commands {
    pub(super) fn next(&mut self, asked: Asked) -> u32 {
        self.last_id += 1;
        self.open.insert(self.last_id, asked);
        self.last_id
    }

    pub(super) fn settle(&self, who: &str) {
        let open = &self.open;
        assert!(open.is_empty(), "{who}: never answered: {open:?}");
    }
}
