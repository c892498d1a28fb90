//! Verbs of a broker: the requests that a node makes of it, and the answers that the node takes.
//!
//! A broker on the other side of a network is a type with these methods. They encode requests into
//! the io's output and remember which answer is for what. Every rule about channels, hand-overs
//! and connections is in [`crate::NodeChannels`] and [`crate::Node`], which all brokers share.
//!
//! Rules for every broker
//! - Requests about one channel take effect in the order in which they were made.
//! - Each [`Verbs::look`] ends with one of [`crate::NodeChannels::tell_looked`],
//!   [`crate::NodeChannels::refuse_look`] and [`crate::NodeChannels::lose_look`]; each
//!   [`Verbs::settle`] with [`crate::NodeChannels::settled`], or as a look does.
//! - [`Verbs::end_connection`] ends all that has no answer.

use throng_broker::{ChannelMember, Draft, NamespaceOptions};
use throng_peer::task::{Link, Net};
use throng_types::{ChannelName, Position};

use crate::agent::Mode;
use crate::core::Core;
use crate::queues::RequestId;

#[derive(Clone, Debug)]
pub struct PendingSubscribe {
    pub id: RequestId,
    pub channel: ChannelName,
    /// From where on publications are missing, if a client asked for them.
    pub since: Option<Position>,
    /// The client that comes with it, if it is to be seen.
    pub presence: Option<ChannelMember>,
    /// Distinguishes it from others of the same client.
    pub serial: u64,
}

#[derive(Debug)]
pub enum Purpose {
    Subscribe(PendingSubscribe),
    /// Fills the gap of a channel; the number distinguishes it from a former channel of that name.
    Refill(u64),
    /// Finds a gap that no later publication would show; the same number.
    Audit(u64),
    /// Answers a request for history.
    History(RequestId),
}

/// The part of a history that is wanted.
#[derive(Clone, Copy, Debug)]
pub struct Query {
    /// End of the history at which it begins.
    pub mode: Mode,
    /// Position at which it begins, if not at an end.
    pub since: Option<Position>,
    pub limit: usize,
    /// Bytes at most, unless a single publication has more.
    pub bytes: usize,
}

/// Requests that a node makes of its broker, and what it says. No method waits, and none
/// reads a clock: the time is in the [`Core`]'s io.
pub trait Verbs: Sized + Send + 'static {
    type Connector: Connector;

    const BROKER: &'static str;

    /// Answers and deliveries of a connection come in the order in which they came about: a
    /// delivery behind an answer is of a later publication. Otherwise either may come first.
    const IS_ONE_ROAD: bool;

    /// Batches of channels that are subscribed to again before others have their turn.
    const BATCHES: usize;

    fn core(&mut self) -> &mut Core;

    // ---- the connection ----

    fn connector(&mut self) -> Self::Connector;

    fn begin_connection(&mut self, handshake: <Self::Connector as Connector>::Handshake);

    /// Announces to others that this node lives, and lists its members again. Its lease has been
    /// renewed.
    fn announce(&mut self);

    /// The connection is lost, with every answer that was still to come. Ends every request:
    /// a publication that may have happened is [`throng_broker::Refusal::Unknown`].
    fn end_connection(&mut self);

    /// Takes what the broker says.
    ///
    /// # Errors
    /// The connection is to be given up.
    fn message(&mut self, message: MessageOf<Self::Connector>) -> Result<(), BrokerFault>;

    /// Channels have other options from now on, which the io has already; `before` has the old.
    ///
    /// # Errors
    /// The connection is to be made anew, since the broker must hear of them.
    fn renewed(&mut self, _before: &NamespaceOptions) -> Result<(), BrokerFault> {
        Ok(())
    }

    /// Requests without an answer, and their bytes.
    fn in_flight(&mut self) -> (usize, usize);

    /// When the oldest of them was made.
    fn oldest_ms(&mut self) -> Option<u64>;

    /// All of them count as made now: nothing was taken from the broker for a while, which is not
    /// its fault.
    fn forgive(&mut self);

    /// Whether a subscription may take effect a little after the broker has taken it.
    fn is_late(&mut self) -> bool {
        false
    }

    /// Does what is due, before all that every node does.
    ///
    /// # Errors
    /// The connection is to be given up.
    fn begin_tick(&mut self) -> Result<(), BrokerFault>;

    /// Does what is due behind all that every node does.
    fn end_tick(&mut self);

    /// Sends this node a message by the way that publications take; [`Core::proved`] notes that it
    /// came.
    fn probe(&mut self);

    // ---- channels ----

    /// Subscribes to channels; the number with each distinguishes it from a former one of that
    /// name.
    fn subscribe(&mut self, channels: &[(ChannelName, u64)]);

    /// Ends a subscription. `is_empty` if the channel's stream has no publication.
    fn unsubscribe(&mut self, channel: &ChannelName, serial: u64, is_empty: bool);

    /// Reads where a stream stands, and a part of its history, behind the subscription.
    fn look(&mut self, channel: &ChannelName, purpose: Purpose, query: Query);

    /// Waits until the broker has taken the subscription of a channel without history.
    fn settle(&mut self, subscribe: PendingSubscribe);

    /// Publishes; the answer goes to [`Core::published`].
    fn publish(&mut self, id: RequestId, draft: Draft);

    fn forget(&mut self, id: RequestId, channel: &ChannelName);

    // ---- members ----

    /// Lists the client that comes with a subscribe, and goes on with
    /// [`crate::NodeChannels::look_for`].
    fn come(&mut self, subscribe: PendingSubscribe);

    fn has_come(&mut self, subscribe: &PendingSubscribe);

    fn has_not_come(&mut self, subscribe: &PendingSubscribe);

    /// The subscribe is made again on another connection: with this client, unless it has left.
    fn come_later(&mut self, subscribe: &PendingSubscribe) -> Option<ChannelMember>;

    /// A client has left; its subscribe may still be on its way.
    fn quit(&mut self, channel: &ChannelName, presence: &ChannelMember);

    fn present(&mut self, id: RequestId, channel: &ChannelName, with_members: bool);

    /// A client has come in another process, which hands over to this one.
    fn take_somebody(&mut self, channel: ChannelName, presence: ChannelMember);

    /// A client is in another process from now on.
    fn give_somebody(&mut self, channel: ChannelName, presence: &ChannelMember);

    // ---- other nodes ----

    /// Name of this node in the broker, by which answers come back.
    fn own(&self) -> &str;

    fn renew_lease(&mut self);

    /// Looks for nodes without a lease, whose members are to be removed.
    fn look_for_dead(&mut self);

    /// Subscribes to questions for the node of this name.
    fn hear_by_name(&mut self, name: &str);

    /// Whether it is known which nodes a question for all goes to.
    fn may_ask(&self) -> bool {
        true
    }

    /// Sends a question to all nodes, and says to [`crate::PendingQueries::expect`] how many got
    /// it.
    fn ask_all(&mut self, who: (u8, u32), message: Vec<u8>);

    /// Sends a question to the node of a name. The same holds.
    fn ask_one(&mut self, who: (u8, u32), node: &str, message: Vec<u8>);

    fn answer_to(&mut self, node: &str, message: Vec<u8>);

    /// Sends something to every node, this one included.
    fn tell_everybody(&mut self, message: &[u8]);
}

#[derive(Debug)]
pub struct BrokerFault(pub String);

/// A connection on its way, as a task of the peer.
pub trait Connector: 'static {
    type Handshake;
    type Messages: Messages;

    /// Finds the server, connects and introduces this node. The peer reads the link from then on.
    fn connect(
        &mut self,
        net: &Net,
    ) -> impl Future<Output = Result<(Self::Handshake, Link, Self::Messages), String>>;

    /// Waits until the connection is to be given up although it works, and says why. Called behind
    /// [`Self::connect`].
    fn watch(&mut self, _: &Net) -> impl Future<Output = String> {
        std::future::pending()
    }
}

/// Bytes in, messages out. Bounds the bytes of a message that is not whole.
pub trait Messages: 'static {
    type Message;

    fn feed(&mut self, bytes: &[u8]);

    /// Takes the next message; `None` until it is whole.
    ///
    /// # Errors
    /// A sentence, if the bytes are none of the protocol, or too many.
    fn next(&mut self) -> Result<Option<Self::Message>, String>;
}

pub type MessageOf<D> = <<D as Connector>::Messages as Messages>::Message;
