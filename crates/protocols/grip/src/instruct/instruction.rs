//! What a response tells: the struct, its parts, their defaults and bounds.

use crate::filters::Filters;
use crate::headers::Header;

/// The media type of a body with instructions.
pub const INSTRUCT_TYPE: &str = "application/grip-instruct";
/// The largest body with instructions, and the largest body of a held response, in bytes.
pub const INSTRUCT_BODY_BYTES_MAX: usize = 100_000;
/// How long a response is held if nothing is said, and the keep-alive's default, in seconds.
pub const TIMEOUT_DEFAULT_S: u32 = 55;
/// The shortest hold of a response, in seconds.
pub const TIMEOUT_MIN_S: u32 = 5;
/// How long a stream waits before it fetches its next link, in seconds.
pub const NEXT_LINK_TIMEOUT_DEFAULT_S: u32 = 120;
/// The most channels of a connection (`connection_subscription_max`).
pub const CHANNELS_MAX: usize = 20;

/// What to do with the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hold {
    /// Relay the response.
    #[default]
    None,
    /// Long polling: answer with the first item, or with the backend's response at the timeout.
    Response,
    /// Send the response without an end, and every item behind it.
    Stream,
}

/// A channel that a held client listens to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldChannel {
    /// As the backend wrote it: the route's prefix goes in front, and only then is it a
    /// channel name that can be checked.
    pub name: String,
    /// The id of the last item that the client has.
    pub prev_id: Option<String>,
    /// What is done to each item.
    pub filters: Filters,
}

/// When a keep-alive is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepAliveMode {
    /// So long after whatever was sent last.
    Idle,
    /// So long after the keep-alive before.
    Interval,
}

/// What is sent to a client of which nothing else is heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeepAlive {
    /// The bytes; for a stream they become one chunk.
    pub data: Vec<u8>,
    /// Seconds, at least 1.
    pub timeout_s: u32,
    /// What the seconds count from.
    pub mode: KeepAliveMode,
}

/// Where a stream goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextLink {
    /// Absolute, or relative to the request's URI.
    pub uri: String,
    /// Fetched after so many seconds without an item on any channel; 0 means at once.
    pub timeout_s: u32,
}

/// The body that the client gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplyBody {
    /// The backend's own body.
    AsReceived,
    /// What the instruction document says instead.
    Replaced(Vec<u8>),
}

/// The response that the client gets: at once (stream, no hold) or at the timeout (response).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// 0 to 999.
    pub code: u16,
    /// The reason phrase, if the backend set one that still fits the code.
    pub reason: Option<String>,
    /// Without `Grip-*`, and only the exposed ones if any were named.
    pub headers: Vec<Header>,
    /// The body.
    pub body: ReplyBody,
}

/// All that a response told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruct {
    /// Whether and how the client is held.
    pub hold: Hold,
    /// At most [`CHANNELS_MAX`], or what the limits said.
    pub channels: Vec<HoldChannel>,
    /// How many more channels were named and cut: worth a line in the log.
    pub channels_cut: usize,
    /// Response hold: seconds until the backend's own response goes out, at least
    /// [`TIMEOUT_MIN_S`].
    pub timeout_s: u32,
    /// What keeps the client's connection alive.
    pub keep_alive: Option<KeepAlive>,
    /// The connection's meta, for filters. Keys are unique.
    pub meta: Vec<(String, String)>,
    /// Where a stream goes on.
    pub next: Option<NextLink>,
    /// What is told when the client has left.
    pub gone: Option<String>,
    /// `Grip-Last` of the response: channels with the last id that the backend knows.
    pub last: Vec<(String, String)>,
    /// `Grip-Expose-Headers`: already applied to [`Instruct::reply`].
    pub expose: Vec<String>,
    /// What the client gets.
    pub reply: Reply,
}

impl Instruct {
    /// Sets a key of the connection's meta.
    pub(super) fn put_meta(&mut self, key: String, value: String) {
        match self.meta.iter_mut().find(|(other, _)| *other == key) {
            Some(entry) => entry.1 = value,
            None => self.meta.push((key, value)),
        }
    }
}
