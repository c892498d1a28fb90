//! How a list of gateways comes into being: from the configuration, through the drivers that it
//! needs, to one list on each shard's thread.

use std::net::SocketAddr;

use throng_engine::MailboxSender;
use throng_types::ShardId;

use crate::list::GatewayList;
use crate::options::StartError;
use crate::shard::Mail;

/// A port of a gateway's own.
#[derive(Clone, Copy, Debug)]
pub struct OwnPort {
    /// The gateway's place in the list.
    pub gateway: u8,
    /// The gateway's number of the port.
    pub port: u8,
    /// Where it listens.
    pub address: SocketAddr,
    /// The option that names it.
    pub option: &'static str,
}

/// A list of gateways before it runs.
pub trait Plan: Sized {
    /// The list.
    type List: GatewayList;
    /// What moves to one shard's thread.
    type Part: Send + 'static;

    /// The ports that the gateways want.
    fn ports(&self) -> Vec<OwnPort>;

    /// Subscriptions that one connection may have, if that is more than clients may.
    fn subscriptions_max(&self) -> usize {
        0
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
