//! Commands on their way to a session that lives on another connection.

use throng_types::ConnId;

/// Commands on their way to the session that they name.
#[derive(Debug)]
pub struct Upward {
    /// The request that brought them; nothing once they have left its shard.
    pub(crate) request: Option<ConnId>,
    /// Connection of the session that the commands are for.
    pub(crate) to: ConnId,
    /// A frame of commands.
    pub(crate) data: Box<[u8]>,
}
