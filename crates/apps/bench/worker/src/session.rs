//! What a worker keeps for a connection: little, since there are a million of them.
//!
//! Invariant: an idle connection owns nothing on the heap but its tracks, and these only when
//! something is published. Heads and messages that arrive in part are held while they do.

use throng_client::HeadReader;
use throng_client::centrifugo::Position;
use throng_http1::BodyDecoder;
use throng_ws::WsDecoder;

use throng_bench_measure::Tracks;

/// A connection of a worker.
pub(crate) enum Session {
    /// One of the run's clients.
    Subscriber(Subscriber),
    /// A publisher's link, by its number.
    Publisher(u32),
}

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// TCP is under way.
    Connecting,
    /// The request is sent.
    Handshake,
    /// The server must still acknowledge so many subscriptions.
    Subscribing(u16),
    /// It is as the scenario wants it.
    Usable,
    /// The server has said goodbye.
    ClosedByServer,
    /// The server broke its protocol.
    Broken,
    /// It was ended by us and is counted.
    Gone,
}

/// What arrives.
pub(crate) enum Wire {
    /// A response head, as far as it has come.
    Head(HeadReader),
    /// WebSocket frames.
    Frames(WsDecoder),
    /// A response body, and its last bytes if they may begin a message.
    Body(BodyDecoder, Carry),
    /// Bytes as they are.
    Bytes(Carry),
}

/// Bytes that may be the beginning of a message; mostly none.
pub(crate) type Carry = Option<Box<[u8]>>;

/// One of the run's clients.
pub(crate) struct Subscriber {
    /// Its number in the run.
    pub(crate) n: u32,
    /// How often it has said something.
    pub(crate) said: u32,
    /// When it was due to be opened, in µs. The handshake's key is made from it.
    pub(crate) due_us: u64,
    /// When it pings next, in engine milliseconds; 0 is never.
    pub(crate) ping_at: u32,
    /// When its life ends; the same.
    pub(crate) end_at: u32,
    pub(crate) stage: Stage,
    /// It has been here before.
    pub(crate) returning: bool,
    /// A storm dropped it, and it has not been usable since.
    pub(crate) in_storm: bool,
    /// It reads slowly by plan, or not at all.
    pub(crate) slow: bool,
    pub(crate) wire: Wire,
    pub(crate) tracks: Tracks,
    /// Where it stands in its streams, where the scenario has it come back.
    pub(crate) resume: Option<Box<Resume>>,
}

/// Where a connection stood when it left.
#[derive(Clone, Default)]
pub(crate) struct Resume {
    /// The event stream's decoder, for its last id.
    pub(crate) events: throng_sse::SseDecoder,
    /// Centrifugo's positions, by channel.
    pub(crate) positions: Vec<(String, Position)>,
    /// The first message after the return has not come.
    pub(crate) awaits_first: bool,
    /// After a storm: channels, each with the number up to which messages were missed and have not
    /// come.
    pub(crate) catches_up_to: Vec<(u32, u64)>,
}

impl Resume {
    /// A channel has come as far as `number`. True if that was the last of what was missed. Where a
    /// message was lost on the way, what was missed never comes.
    pub(crate) fn reached(&mut self, channel: u32, number: u64, lost: bool) -> bool {
        let before = self.catches_up_to.len();
        self.catches_up_to
            .retain(|&(owed, last)| !lost && (owed != channel || number < last));
        !lost && 0 < before && self.catches_up_to.is_empty()
    }
}

/// What comes back with a connection.
#[derive(Clone, Default)]
pub(crate) struct Left {
    pub(crate) tracks: Tracks,
    pub(crate) resume: Option<Box<Resume>>,
    pub(crate) said: u32,
    /// A storm dropped it, and it has not been usable since.
    pub(crate) in_storm: bool,
    pub(crate) returning: bool,
}

impl Subscriber {
    pub(crate) fn new(n: u32, due_us: u64, mut left: Left) -> Self {
        if let Some(resume) = &mut left.resume {
            Self::begin_stream(resume);
        }
        Self {
            n,
            said: left.said,
            due_us,
            ping_at: 0,
            end_at: 0,
            stage: Stage::Connecting,
            returning: left.returning,
            in_storm: left.in_storm,
            slow: false,
            wire: Wire::Head(HeadReader::default()),
            tracks: left.tracks,
            resume: left.resume,
        }
    }

    /// Whether it knows where it stands in its streams. A stream that has sent no id yet cannot be
    /// resumed, so what comes while its connection is away is not due.
    pub(crate) fn has_place(&self) -> bool {
        self.resume.as_ref().is_some_and(|resume| {
            !resume.events.last_event_id().is_empty() || !resume.positions.is_empty()
        })
    }

    /// A new stream goes on with the last id of the one before.
    fn begin_stream(resume: &mut Resume) {
        let last = resume.events.last_event_id().to_owned();
        resume.events = throng_sse::SseDecoder::resumed(throng_sse::SseLimits::default(), &last);
    }

    /// Whether it is neither usable nor counted as anything else.
    pub(crate) const fn is_pending(&self) -> bool {
        matches!(
            self.stage,
            Stage::Connecting | Stage::Handshake | Stage::Subscribing(_)
        )
    }

    /// The next of its own deadlines, in engine milliseconds.
    pub(crate) fn next_at(&self) -> Option<u32> {
        [self.ping_at, self.end_at]
            .into_iter()
            .filter(|&at| at > 0)
            .min()
    }
}

/// Paid by every connection. It may fall; if it rises, the generator holds fewer connections.
const _: () = assert!(size_of::<Session>() <= 136);
