//! Opening of a stream: from the request for several channels until all have answered and the first
//! words can be written.

use std::sync::Arc;

use throng_broker::{Recovery, Refusal, Subscribed};
use throng_types::{ChannelName, Position, Publication};

use crate::{Context, Form};

/// The token of subscribes that belong to the opening; commands of clients have other ids.
pub const OPENING: u32 = 0;

/// Asks for the channels of a connection that opens, each from where it may resume.
pub fn subscribe<S, O>(
    channels: Vec<(ChannelName, Option<Position>)>,
    form: Form,
    cx: &mut Context<'_, S, O>,
) {
    for (channel, since) in channels {
        cx.subscribe(OPENING, channel, form, since);
    }
}

/// Result of one channel's subscription.
pub struct ChannelOpened {
    pub channel: ChannelName,
    /// Where its stream stands, or why the subscription was refused.
    pub result: Result<Subscribed, Refusal>,
}

/// Channels asked, and the answers so far. Boxed, and dropped once all have answered.
#[derive(Default)]
pub struct Opening {
    waiting: usize,
    /// In the order in which they answered.
    pub opened: Vec<ChannelOpened>,
    /// The connect command that the answer belongs to, if one does.
    pub command: u32,
    /// Whether the client sent a position to resume from.
    pub resuming: bool,
    /// Deliveries that must be encoded after the first words, because their ids tell the
    /// place in all channels.
    held: Vec<Arc<Publication>>,
    /// More came than is held; the client must come back and recover.
    pub overflowed: bool,
}

/// Deliveries held; the opening lasts as long as mail takes between shards.
const HELD_MAX: usize = 1024;

impl Opening {
    /// Waits for so many channels.
    #[must_use]
    pub fn new(waiting: usize, command: u32, resuming: bool) -> Box<Self> {
        Box::new(Self {
            waiting,
            command,
            resuming,
            ..Self::default()
        })
    }

    /// Waits for so many channels, and nothing has been asked before.
    pub(crate) const fn await_channels(&mut self, waiting: usize, resuming: bool) {
        self.waiting = waiting;
        self.resuming = resuming;
    }

    /// Takes an answer; true once all are in.
    pub fn take(&mut self, channel: ChannelName, result: Result<Subscribed, Refusal>) -> bool {
        if matches!(result, Err(Refusal::Cancelled)) {
            // The server ended it before it began; the other channels go on.
            self.waiting -= 1;
        } else {
            self.opened.push(ChannelOpened { channel, result });
        }
        self.opened.len() >= self.waiting
    }

    /// Forgets a channel that answered, because the server has ended its subscription since.
    pub fn forget(&mut self, channel: &ChannelName) {
        let before = self.opened.len();
        self.opened.retain(|opened| opened.channel != *channel);
        self.waiting -= before - self.opened.len();
        self.held.retain(|held| held.channel != *channel);
    }

    /// Keeps a delivery until the first words are written.
    pub fn hold(&mut self, publication: &Arc<Publication>) {
        if self.held.len() < HELD_MAX {
            self.held.push(publication.clone());
        } else {
            self.overflowed = true;
        }
    }

    /// Takes the publications held back, in order.
    pub fn take_held(&mut self) -> Vec<Arc<Publication>> {
        std::mem::take(&mut self.held)
    }

    /// Whether the client has, or is about to get, everything since it was last here.
    #[must_use]
    pub fn recovered(&self) -> bool {
        let whole = |opened: &ChannelOpened| {
            matches!(
                &opened.result,
                Ok(Subscribed {
                    recovery: Recovery::Whole(_),
                    ..
                })
            )
        };
        self.resuming && self.opened.iter().all(whole)
    }
}
