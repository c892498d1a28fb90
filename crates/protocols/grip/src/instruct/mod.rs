//! Instructions: what a backend's response tells the proxy to do with its client.
//!
//! Owns: reading `Grip-*` response headers and `application/grip-instruct` bodies into one
//! [`Instruct`], with Pushpin's defaults and limits. Never: holds, fetches or sends anything.

mod json;
mod read;
#[cfg(test)]
mod tests;

use crate::filters::Filters;
use crate::headers::{self, Element, Header, HeaderRef, text};
use crate::value::DocFault;

pub use read::last_ids;
use read::{channels, exposed, hold, keep_alive, seconds, set_meta, status};

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

/// Why a response is no instruction. The fault is the backend's: the client gets 502.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InstructFault {
    /// `Grip-Hold` is neither `response` nor `stream`.
    #[error("Grip-Hold: the mode is response or stream, nothing else")]
    Hold,
    /// More filters than a channel may have.
    #[error("channel '{0}' has more filters than it may")]
    TooManyFilters(String),
    /// A header or a parameter that must be a number from 0 up is not.
    #[error("{0} is not a number of seconds")]
    Seconds(&'static str),
    /// `Grip-Keep-Alive` with parameters but nothing to send.
    #[error("Grip-Keep-Alive: there is nothing to send")]
    KeepAliveEmpty,
    /// `Grip-Keep-Alive` with an unknown mode.
    #[error("Grip-Keep-Alive: mode is idle or interval, not '{0}'")]
    KeepAliveMode(String),
    /// `Grip-Keep-Alive` with an unknown format.
    #[error("Grip-Keep-Alive: format is raw, cstring or base64, not '{0}'")]
    KeepAliveFormat(String),
    /// The data is not what its format says.
    #[error("Grip-Keep-Alive: the data is not {0}")]
    KeepAliveData(&'static str),
    /// An empty element.
    #[error("Grip-Set-Meta: there is nothing between two commas")]
    SetMeta,
    /// Not a code from 0 to 999.
    #[error("Grip-Status: the code must be a number from 0 to 999")]
    Status,
    /// Not `<uri>; ...`.
    #[error("Grip-Link: the URI must stand between < and >")]
    Link,
    /// A URI that cannot be one.
    #[error("Grip-Link: what stands between < and > cannot be a URI")]
    LinkUri,
    /// A body with instructions comes with 200.
    #[error("the status of an {INSTRUCT_TYPE} response must be 200")]
    DocumentStatus,
    /// A body with instructions that is too large.
    #[error("the {INSTRUCT_TYPE} body is larger than {INSTRUCT_BODY_BYTES_MAX} bytes")]
    DocumentTooLarge,
    /// A body with instructions that is not JSON.
    #[error("the {INSTRUCT_TYPE} body is not JSON")]
    DocumentJson,
    /// A body with instructions that says something impossible.
    #[error("the {INSTRUCT_TYPE} body: {0}")]
    Document(#[from] DocFault),
}

/// The head of a backend's response.
#[derive(Clone, Copy, Debug)]
pub struct ResponseHead<'h> {
    /// The status code.
    pub code: u16,
    /// The reason phrase, maybe empty.
    pub reason: &'h str,
    /// All fields.
    pub headers: &'h [HeaderRef<'h>],
}

impl ResponseHead<'_> {
    /// Whether this response is read as an instruction: it has a `Grip-*` header, or its
    /// content type is [`INSTRUCT_TYPE`]. Anything else is relayed untouched.
    #[must_use]
    pub fn is_grip(&self) -> bool {
        self.headers.iter().any(|(name, _)| headers::is_grip(name)) || self.is_document()
    }

    /// Whether the body has to be read whole before the instruction is known.
    #[must_use]
    pub fn is_document(&self) -> bool {
        Element::first(self.headers, "Content-Type")
            .is_some_and(|params| params.value() == INSTRUCT_TYPE.as_bytes())
    }
}

impl Instruct {
    /// Reads a response. `body` matters only if [`ResponseHead::is_document`]; pass what is
    /// there otherwise, or nothing. `channels_max` cuts the list of channels.
    pub fn from_response(
        head: ResponseHead<'_>,
        body: &[u8],
        channels_max: usize,
    ) -> Result<Self, InstructFault> {
        let fields = head.headers;
        let mut out = Self {
            hold: hold(fields)?,
            channels: channels(fields)?,
            channels_cut: 0,
            timeout_s: match headers::first(fields, "Grip-Timeout") {
                Some(value) => seconds(value, "Grip-Timeout")?,
                None => TIMEOUT_DEFAULT_S,
            },
            keep_alive: keep_alive(fields)?,
            meta: Vec::new(),
            next: None,
            gone: None,
            last: last_ids(fields),
            expose: headers::elements(fields, "Grip-Expose-Headers")
                .into_iter()
                .map(text)
                .collect(),
            reply: Reply {
                code: head.code,
                reason: Some(head.reason)
                    .filter(|reason| !reason.is_empty())
                    .map(str::to_owned),
                headers: Vec::new(),
                body: ReplyBody::AsReceived,
            },
        };
        for (key, value) in set_meta(fields)? {
            out.put_meta(key, value);
        }
        status(fields, &mut out.reply)?;
        out.links(fields)?;
        out.reply.headers = exposed(fields, &out.expose);
        if head.is_document() {
            json::apply(head.code, body, &mut out)?;
        }
        out.timeout_s = out.timeout_s.max(TIMEOUT_MIN_S);
        if let Some(keep_alive) = &mut out.keep_alive {
            keep_alive.timeout_s = keep_alive.timeout_s.max(1);
        }
        out.channels_cut = out.channels.len().saturating_sub(channels_max);
        out.channels.truncate(channels_max);
        Ok(out)
    }

    fn put_meta(&mut self, key: String, value: String) {
        match self.meta.iter_mut().find(|(other, _)| *other == key) {
            Some(entry) => entry.1 = value,
            None => self.meta.push((key, value)),
        }
    }

    fn links(&mut self, fields: &[HeaderRef<'_>]) -> Result<(), InstructFault> {
        for params in Element::all(fields, "Grip-Link") {
            // A link without a relation says nothing.
            if params.is_bare() {
                continue;
            }
            let uri = params
                .value()
                .strip_prefix(b"<")
                .and_then(|value| value.strip_suffix(b">"))
                .filter(|uri| !uri.is_empty())
                .ok_or(InstructFault::Link)?;
            let uri = str::from_utf8(uri)
                .ok()
                .filter(|uri| {
                    uri.chars()
                        .all(|c| c > ' ' && c != '\x7f' && !"<>\"".contains(c))
                })
                .ok_or(InstructFault::LinkUri)?
                .to_owned();
            match params.get("rel").as_deref() {
                Some(b"next") => {
                    let timeout_s = match params.get("timeout") {
                        Some(value) => seconds(&value, "Grip-Link timeout")?,
                        None => NEXT_LINK_TIMEOUT_DEFAULT_S,
                    };
                    self.next = Some(NextLink { uri, timeout_s });
                }
                Some(b"gone") => self.gone = Some(uri),
                _ => {}
            }
        }
        Ok(())
    }
}
