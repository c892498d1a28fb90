//! Construction of a list of gateways: from the configuration, through the drivers that it
//! needs, to one list on each shard's thread.

use std::net::SocketAddr;
use std::sync::Arc;

use throng_config::Config;
use throng_engine::MailboxSender;
use throng_types::ShardId;

use crate::list::GatewayList;
use crate::options::StartError;
use crate::own_port::OwnPort;
use crate::shard::Mail;

/// Reads the gateways' sections again while they run.
pub trait Renewer<M>: Send {
    /// Reads them. Nothing changes before [`Renewer::commit`], and nothing at all if that is not
    /// called.
    ///
    /// # Errors
    /// Sentences on what is wrong.
    fn prepare(&mut self, config: &Config) -> Result<(), Vec<String>>;

    /// Puts the sections that were read last into force. Returns mail for a shard's gateways;
    /// called for each shard, in order.
    fn commit(&mut self, shard: usize) -> Vec<M>;
}

/// Sources from which gateways hear events of other servers, in a process that hands over.
pub trait Sources: Send + Sync {
    /// Called once the new process gets everything: takes what came before, and nothing more
    /// until [`Sources::go_on`].
    ///
    /// # Errors
    /// A sentence, if that takes too long.
    fn stand_still(&self) -> Result<(), String>;

    /// The hand-over is over, however it ended.
    fn go_on(&self);
}

/// A list of gateways before it runs.
pub trait Plan: Sized {
    /// List of gateways that this becomes.
    type List: GatewayList;
    /// Part that moves to one shard's thread.
    type Part: Send + 'static;

    /// The ports that the gateways want.
    fn ports(&self) -> Vec<OwnPort>;

    /// Subscriptions that one connection may have, if that is more than clients may.
    fn subscriptions_max(&self) -> usize {
        0
    }

    /// Returns the reader that reads the gateways' sections again; `None` if no section can change.
    fn renewer(
        &self,
        mailboxes: &[MailboxSender<Mail<<Self::List as GatewayList>::Mail>>],
    ) -> Option<Box<dyn Renewer<<Self::List as GatewayList>::Mail>>> {
        let _ = mailboxes;
        None
    }

    /// Returns the sources that must stand still during a hand-over, if any.
    fn sources(&self) -> Option<Arc<dyn Sources>> {
        None
    }

    /// Starts the drivers, which tell the shards through these mailboxes. The ports listen at
    /// `addresses`, in their order. Gives a part for each shard.
    ///
    /// # Errors
    /// See [`StartError`].
    fn start(
        self,
        mailboxes: &[MailboxSender<Mail<<Self::List as GatewayList>::Mail>>],
        addresses: &[SocketAddr],
    ) -> Result<Vec<Self::Part>, StartError>;

    /// Makes a shard's list, on its thread.
    fn build(part: Self::Part, shard: ShardId) -> Self::List;
}
