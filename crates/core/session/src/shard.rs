//! A shard as one of its gateways sees it.

use throng_broker::{Draft, Published, Refusal};
use throng_hub::Hub;
use throng_types::{ConnId, Frame, Now, ShardId};

use crate::family::Family;
use crate::flow::Flow;
use crate::{Context, Shared};

/// The gateway's context for one of its sessions.
pub type Own<'a, G> = Context<'a, <G as Family>::Shared, <G as Family>::Order>;

/// Calls that a gateway may make beyond one connection. They act at once; orders of sessions are
/// carried out after the gateway has returned, unless it takes its own orders before.
pub trait Shard<G: Family> {
    /// Which shard this is.
    fn this(&self) -> ShardId;
    /// Number of shards in the process.
    fn shards(&self) -> u8;
    /// The clocks, as read at the start of the turn.
    fn now(&self) -> Now;
    /// Returns the state that all sessions of the shard share.
    fn shared(&self) -> &Shared;
    /// The shard's hub, for questions.
    fn hub(&self) -> &Hub;

    /// Publishes in a channel that is at home here.
    ///
    /// # Errors
    /// Why not, and the draft: after [`Refusal::Busy`] it may be offered again.
    fn publish(&mut self, draft: Draft) -> Result<Published, (Refusal, Draft)>;

    /// Whether a connection is open, of any gateway.
    fn is_connected(&self, conn: ConnId) -> bool;
    /// The connection in a slot.
    fn conn(&self, index: u32) -> Option<ConnId>;
    /// All connections, of any gateway.
    fn sessions(&self) -> Vec<ConnId>;
    /// Bytes that wait for a connection.
    fn queued_bytes(&self, conn: ConnId) -> usize;

    /// Runs `act` on a session of this gateway; false if it is closed or of another gateway.
    fn with(
        &mut self,
        conn: ConnId,
        act: impl FnOnce(&mut G::Session, &mut Own<'_, G>) -> Flow,
    ) -> bool;

    /// Runs `act` on a session whose connection has closed. Its output is dropped, and its orders
    /// for the hub are not carried out.
    fn with_gone(
        &mut self,
        conn: ConnId,
        session: &mut G::Session,
        act: impl FnOnce(&mut G::Session, &mut Own<'_, G>),
    );

    /// Takes the orders of this gateway's sessions since the current call began, in order.
    fn take_orders(&mut self) -> Vec<G::Order>;

    /// Queues a frame in two pieces for a connection, of which the second is shared, and counts
    /// it. A connection whose queue is full ends.
    fn deliver(&mut self, conn: ConnId, head: &[u8], tail: &Frame);

    /// Whether the queue to another shard has room for a question. Answers need not ask: there are
    /// never more of them than questions.
    fn has_room(&self, to: ShardId) -> bool;
    /// Sends mail to this gateway on another shard.
    fn mail(&mut self, to: ShardId, mail: G::Mail);
    /// Sends the same mail to this gateway on every other shard.
    fn mail_all(&mut self, mail: impl Fn() -> G::Mail) {
        let this = self.this();
        for shard in (0..self.shards()).map(ShardId) {
            if shard != this {
                self.mail(shard, mail());
            }
        }
    }
}
