//! Connections on their way.

use std::sync::Arc;

use crate::inbox::Inbox;
use crate::stream::Wire;

/// Why a connection cannot be used any more.
#[derive(Debug)]
pub struct Fault(pub String);

/// A connection on its way: connects, and reads until it ends. Runs on a thread of its own.
pub trait Dial: Send + 'static {
    /// What a connection that stands has said of itself.
    type Hello: Send;
    /// What the broker says.
    type Word: Send;

    /// Connects and reads until the connection ends; gives the reason. `link` is its number.
    fn run(self, link: u64, inbox: &Arc<DialInbox<Self>>) -> String;
}

/// Where a connection puts what it reads.
pub type DialInbox<D> = Inbox<(<D as Dial>::Hello, Box<dyn Wire>), <D as Dial>::Word>;
