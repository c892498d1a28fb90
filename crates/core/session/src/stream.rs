//! Opening of several channels at once, and a connection that only listens, for every gateway with
//! streams.
//!
//! The head leaves at once; the first words wait until every channel has answered, and deliveries
//! wait behind them.

use std::sync::Arc;

use throng_broker::{Recovery, Refusal, Subscribed};
use throng_hub::Answer;
use throng_metrics::Counter;
use throng_types::{ChannelName, Disconnect, End, Millis, Position, Publication, Save};

use crate::websocket::first_beat;
use crate::{CloseReason, Context, Form, Identity};

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
    /// In the order in which they answered. Bound: one for each channel that was asked.
    pub opened: Vec<ChannelOpened>,
    /// The connect command that the answer belongs to, if one does.
    pub command: u32,
    /// Whether the client sent a position to resume from.
    pub resuming: bool,
    /// Deliveries that must be encoded after the first words, because their ids tell the
    /// place in all channels. Bound: [`HELD_MAX`].
    held: Vec<Arc<Publication>>,
    /// More came than is held; the client must come back and recover.
    pub overflowed: bool,
}

/// Deliveries held; the opening lasts as long as mail takes between shards.
const HELD_MAX: usize = 1024;

impl Opening {
    /// Waits for so many channels.
    pub fn new(waiting: usize, command: u32, resuming: bool) -> Box<Self> {
        Box::new(Self {
            waiting,
            command,
            resuming,
            ..Self::default()
        })
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

    pub fn take_held(&mut self) -> Vec<Arc<Publication>> {
        std::mem::take(&mut self.held)
    }

    /// Whether the client has, or is about to get, everything since it was last here.
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

/// Meaning of a stream's deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamBeat {
    /// Nothing is due yet.
    Early,
    SignOfLife,
    Expired,
}

/// The part that every held HTTP stream has: identity, opening, heartbeat.
#[derive(Save)]
pub struct Stream {
    /// Identity from the token, if the client sent one.
    pub identity: Option<Box<Identity>>,
    /// State until the first words are written.
    #[save(skip)]
    pub opening: Option<Box<Opening>>,
    beat_at: Millis,
    #[save(skip)]
    closing: bool,
}

impl Stream {
    /// Whether another process can go on with it: it has begun, and is not about to end.
    pub const fn moves(&self) -> bool {
        self.opening.is_none() && !self.closing
    }

    /// Creates a stream whose head was written, and asks for its channels.
    pub fn open<S, O>(
        identity: Option<Box<Identity>>,
        channels: Vec<(ChannelName, Option<Position>)>,
        form: Form,
        cx: &mut Context<'_, S, O>,
    ) -> Self {
        let resuming = channels.iter().any(|(_, since)| since.is_some());
        let stream = Self {
            identity,
            opening: Some(Opening::new(channels.len(), 0, resuming)),
            beat_at: first_beat(cx.id, cx.shared.limits.stream_keepalive_ms, cx.now),
            closing: false,
        };
        cx.hold(true);
        stream.arm(cx);
        subscribe(channels, form, cx);
        stream
    }

    /// Whether its last words were written.
    pub const fn is_closing(&self) -> bool {
        self.closing
    }

    /// Sets the deadline to the earliest thing that is due.
    fn arm<S, O>(&self, cx: &mut Context<'_, S, O>) {
        let beat = (cx.shared.limits.stream_keepalive_ms > 0).then_some(self.beat_at);
        let identity = self.identity.as_deref();
        let end = identity.and_then(|identity| identity.ends_at(0, cx.now));
        cx.set_deadline([beat, end].into_iter().flatten().min());
    }

    /// The subscriptions that have expired; they are forgotten here.
    pub fn take_expired<S, O>(&mut self, cx: &Context<'_, S, O>) -> Vec<ChannelName> {
        let Some(identity) = self.identity.as_mut() else {
            return Vec::new();
        };
        let now_s = cx.now.unix_s();
        let is_over = |(_, until): &mut (_, Option<u64>)| until.is_some_and(|at| at <= now_s);
        let ended = identity.subscriptions_until.extract_if(.., is_over);
        ended.map(|(channel, _)| channel).collect()
    }

    /// Decides what is due at a deadline, and sets the next one.
    pub fn timeout<S, O>(&mut self, cx: &mut Context<'_, S, O>) -> StreamBeat {
        if self.closing {
            return StreamBeat::Early;
        }
        let identity = self.identity.as_deref();
        let expires = identity.and_then(|identity| identity.expires_at_unix_s);
        if expires.is_some_and(|at| at <= cx.now.unix_s()) {
            return StreamBeat::Expired;
        }
        let interval_ms = cx.shared.limits.stream_keepalive_ms;
        let is_due = cx.now.mono >= self.beat_at && interval_ms > 0;
        if is_due {
            cx.count(Counter::Pings);
            self.beat_at = cx.now.mono + interval_ms;
        }
        self.arm(cx);
        match is_due {
            true => StreamBeat::SignOfLife,
            false => StreamBeat::Early,
        }
    }

    /// Takes an answer of the hub; true once every channel has answered.
    pub fn answer(&mut self, token: u32, answer: Answer) -> bool {
        let (OPENING, Answer::Subscribed { channel, result }) = (token, answer) else {
            return false;
        };
        let opening = self.opening.as_mut();
        let all_in = opening.is_some_and(|opening| opening.take(channel, result));
        all_in && !self.closing
    }

    /// Allows deliveries behind the first words, once every channel has answered. Error: why the
    /// stream cannot begin.
    pub fn begin<S, O>(
        &mut self,
        cx: &mut Context<'_, S, O>,
    ) -> Result<Option<Box<Opening>>, Disconnect> {
        cx.hold(false);
        let Some(opening) = self.opening.take() else {
            return Ok(None);
        };
        if opening.overflowed {
            return Err(Disconnect::Slow);
        }
        if opening.opened.iter().any(|opened| opened.result.is_err()) {
            return Err(Disconnect::ServerError);
        }
        if opening.resuming {
            cx.count(match opening.recovered() {
                true => Counter::RecoveredComplete,
                false => Counter::RecoveredFailed,
            });
        }
        Ok(Some(opening))
    }

    /// Removes a subscription that the server ended. First words that are still to come leave it
    /// out.
    pub fn unsubscribed(&mut self, channel: &ChannelName) {
        if let Some(opening) = self.opening.as_mut() {
            opening.forget(channel);
        }
    }

    /// Ends the stream; true if its last words are to be written now.
    pub fn close<S, O>(&mut self, reason: &CloseReason, cx: &mut Context<'_, S, O>) -> bool {
        if self.closing {
            return false;
        }
        self.closing = true;
        // Held deliveries never leave: they would follow the last bytes.
        cx.actions.hold = None;
        cx.count(reason.counter());
        cx.note_end(reason.code(), reason.reason());
        cx.end(End::Flush);
        true
    }
}
