//! State that a worker keeps for a connection: little, since there are a million of them.
//!
//! Invariant: an idle connection owns nothing on the heap but its tracks, and these only when
//! something is published. Heads and messages that arrive in part are held while they do.

use throng_client::HeadReader;
use throng_client::centrifugo::StreamPosition;
use throng_http1::BodyDecoder;
use throng_ws::WsDecoder;

use throng_bench_measure::Tracks;

pub(crate) enum Session {
    Client(Client),
    Publisher(u32),
    /// A connection of HTTP/2 that clients share, by its place.
    Carrier(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Connecting,
    Handshake,
    /// The server must still acknowledge so many subscriptions.
    Subscribing(u16),
    Usable,
    ClosedByServer,
    Broken,
    Gone,
}

pub(crate) enum Wire {
    // A response head, as far as it has come.
    Head(HeadReader),
    Frames(WsDecoder),
    // A response body, and its last bytes if they may begin a message.
    Body(BodyDecoder, Carry),
    // Bytes without a protocol.
    Bytes(Carry),
}

/// Bytes that may be the beginning of a message; mostly none.
pub(crate) type Carry = Option<Box<[u8]>>;

pub(crate) struct Client {
    pub(crate) n: u32,
    pub(crate) said: u32,
    /// Due time of its connect, in µs. The handshake's key is made from it.
    pub(crate) due_us: u64,
    /// Time of the next ping, in engine milliseconds; 0 is never.
    pub(crate) ping_at: u32,
    /// End of its life, in engine milliseconds; 0 is never.
    pub(crate) end_at: u32,
    pub(crate) stage: Stage,
    pub(crate) returning: bool,
    /// True from a storm's drop until it is usable again.
    pub(crate) in_storm: bool,
    pub(crate) slow: bool,
    pub(crate) wire: Wire,
    pub(crate) tracks: Tracks,
    /// Position in its streams, if the scenario makes it come back.
    pub(crate) resume: Option<Box<Resume>>,
}

#[derive(Clone, Default)]
pub(crate) struct Resume {
    pub(crate) events: throng_sse::SseDecoder,
    pub(crate) positions: Vec<(String, StreamPosition)>,
    pub(crate) awaits_first: bool,
    /// After a storm: channels, each with the last number that was missed and has not come.
    pub(crate) catches_up_to: Vec<(u32, u64)>,
}

impl Resume {
    pub(crate) fn position_of(&mut self, channel: &str) -> Option<&mut StreamPosition> {
        let mut positions = self.positions.iter_mut();
        Some(&mut positions.find(|(name, _)| name == channel)?.1)
    }

    /// Notes that a channel has come as far as `number`. Returns true if nothing missed is carried.
    /// With a message `lost` on the way, the rest never comes.
    pub(crate) fn reached(&mut self, channel: u32, number: u64, lost: bool) -> bool {
        let before = self.catches_up_to.len();
        self.catches_up_to
            .retain(|&(owed, last)| !lost && (owed != channel || number < last));
        !lost && 0 < before && self.catches_up_to.is_empty()
    }
}

/// State that a connection takes along when it leaves and comes back.
#[derive(Clone, Default)]
pub(crate) struct Carried {
    pub(crate) tracks: Tracks,
    pub(crate) resume: Option<Box<Resume>>,
    pub(crate) said: u32,
    pub(crate) in_storm: bool,
    pub(crate) returning: bool,
}

impl Client {
    pub(crate) fn new(n: u32, due_us: u64, mut carried: Carried) -> Self {
        if let Some(resume) = &mut carried.resume {
            Self::begin_stream(resume);
        }
        Self {
            n,
            said: carried.said,
            due_us,
            ping_at: 0,
            end_at: 0,
            stage: Stage::Connecting,
            returning: carried.returning,
            in_storm: carried.in_storm,
            slow: false,
            wire: Wire::Head(HeadReader::default()),
            tracks: carried.tracks,
            resume: carried.resume,
        }
    }

    /// Returns true if a stream can be resumed. One that has sent no id yet cannot, so messages in
    /// the absence of its connection are not due.
    pub(crate) fn has_place(&self) -> bool {
        self.resume.as_ref().is_some_and(|resume| {
            !resume.events.last_event_id().is_empty() || !resume.positions.is_empty()
        })
    }

    fn begin_stream(resume: &mut Resume) {
        let last = resume.events.last_event_id().to_owned();
        resume.events = throng_sse::SseDecoder::resumed(throng_sse::SseLimits::default(), &last);
    }

    /// Returns true before it is usable or counted as failed.
    pub(crate) const fn is_pending(&self) -> bool {
        matches!(
            self.stage,
            Stage::Connecting | Stage::Handshake | Stage::Subscribing(_)
        )
    }

    /// Next of its deadlines, in engine milliseconds.
    pub(crate) fn next_at(&self) -> Option<u32> {
        [self.ping_at, self.end_at]
            .into_iter()
            .filter(|&at| at > 0)
            .min()
    }
}

// Paid by every connection. It may fall; if it rises, the generator holds fewer connections.
const _: () = assert!(size_of::<Session>() <= 136);
