//! Instructions of a backend's response to the proxy about its client.
//!
//! Owns: reading `Grip-*` response headers and `application/grip-instruct` bodies into one
//! [`Instruct`], with Pushpin's defaults and limits. Never: holds, fetches or sends anything.

#[cfg(test)]
mod tests;

use throng_http1::origin::OriginHead;
use throng_types::{Save, hex_byte};

use crate::filters::Filters;
use crate::headers::{self, Element, Header, HeaderRef, Parameters, headers_of, integer, text};
use crate::value::{Coding, DocumentError, Fields, Value, decode_base64};

/// The head of a backend's response.
#[derive(Clone, Copy, Debug)]
pub struct ResponseHead<'h> {
    pub code: u16,
    /// The reason phrase, maybe empty.
    pub reason: &'h str,
    /// All fields, in their order.
    pub headers: &'h [HeaderRef<'h>],
}

impl<'h> ResponseHead<'h> {
    /// The head of an origin's answer, of which `headers` are the fields.
    #[must_use]
    pub fn of(head: &'h OriginHead, headers: &'h [HeaderRef<'h>]) -> Self {
        Self {
            code: head.code,
            reason: &head.reason,
            headers,
        }
    }

    /// Tells whether this response is read as an instruction: it has a `Grip-*` header, or its
    /// content type is [`INSTRUCT_TYPE`]. Anything else is relayed untouched.
    #[must_use]
    pub fn is_grip(&self) -> bool {
        self.headers.iter().any(|(name, _)| headers::is_grip(name)) || self.is_document()
    }

    /// Tells whether the body has to be read whole before the instruction is known.
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
    ) -> Result<Self, InstructError> {
        let fields = head.headers;
        let mut out = Self {
            hold: hold(fields)?,
            channels: channels(fields)?,
            timeout_s: match headers::first(fields, "Grip-Timeout") {
                Some(value) => seconds(value, "Grip-Timeout")?,
                None => TIMEOUT_DEFAULT_S,
            },
            keep_alive: keep_alive(fields)?,
            meta: Vec::new(),
            next: None,
            gone: None,
            reply: HeldReply {
                code: head.code,
                reason: Some(head.reason)
                    .filter(|reason| !reason.is_empty())
                    .map(str::to_owned),
                headers: Vec::new(),
                body: None,
            },
        };
        for (key, value) in set_meta(fields)? {
            out.put_meta(key, value);
        }
        status(fields, &mut out.reply)?;
        out.links(fields)?;
        out.reply.headers = exposed(fields);
        if head.is_document() {
            apply(head.code, body, &mut out)?;
        }
        out.timeout_s = out.timeout_s.max(TIMEOUT_MIN_S);
        if let Some(keep_alive) = &mut out.keep_alive {
            keep_alive.timeout_s = keep_alive.timeout_s.max(1);
        }
        out.channels.truncate(channels_max);
        Ok(out)
    }

    fn links(&mut self, fields: &[HeaderRef<'_>]) -> Result<(), InstructError> {
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
                .ok_or(InstructError::Link)?;
            let uri = str::from_utf8(uri)
                .ok()
                .filter(|uri| {
                    uri.chars()
                        .all(|c| c > ' ' && c != '\x7f' && !"<>\"".contains(c))
                })
                .ok_or(InstructError::LinkUri)?
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

/// The media type of a body with instructions.
pub const INSTRUCT_TYPE: &str = "application/grip-instruct";
/// The largest body with instructions, and the largest body of a held response, in bytes.
pub const INSTRUCT_BODY_BYTES_MAX: usize = 100_000;
/// Hold of a response if none is given, and the keep-alive's default, in seconds.
pub const TIMEOUT_DEFAULT_S: u32 = 55;
/// The shortest hold of a response, in seconds.
pub const TIMEOUT_MIN_S: u32 = 5;
/// Pause of a stream before it fetches its next link, in seconds.
pub const NEXT_LINK_TIMEOUT_DEFAULT_S: u32 = 120;

/// Treatment of the client's request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hold {
    /// Relays the response; nothing is held.
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
    pub filters: Filters,
}

/// When a keep-alive is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Save)]
pub enum KeepAliveMode {
    /// So long after whatever was sent last.
    Idle,
    /// So long after the keep-alive before.
    Interval,
}

/// Bytes sent to a client of which nothing else is heard.
#[derive(Clone, Debug, PartialEq, Eq, Save)]
pub struct KeepAlive {
    /// The bytes; for a stream they become one chunk.
    pub data: Vec<u8>,
    /// Seconds, at least 1.
    pub timeout_s: u32,
    /// Start of the count of seconds.
    pub mode: KeepAliveMode,
}

/// Continuation of a stream by another request.
#[derive(Clone, Debug, PartialEq, Eq, Save)]
pub struct NextLink {
    /// Absolute, or relative to the request's URI.
    pub uri: String,
    /// Fetched after so many seconds without an item on any channel; 0 means at once.
    pub timeout_s: u32,
}

/// The response that the client gets: at once (stream, no hold) or at the timeout (response).
#[derive(Clone, Debug, PartialEq, Eq, Save)]
pub struct HeldReply {
    /// Status code, from 0 to 999.
    pub code: u16,
    /// The reason phrase, if the backend set one that still fits the code.
    pub reason: Option<String>,
    /// Without `Grip-*`, and only the exposed ones if any were named.
    pub headers: Vec<Header>,
    /// Body of the instruction document, in place of the backend's own.
    pub body: Option<Vec<u8>>,
}

/// All that a response told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruct {
    /// Hold of the client, if any.
    pub hold: Hold,
    /// At most `channels_max` of [`Instruct::from_response`].
    pub channels: Vec<HoldChannel>,
    /// Response hold: seconds until the backend's own response goes out, at least
    /// [`TIMEOUT_MIN_S`].
    pub timeout_s: u32,
    /// Keep-alive of the client's connection, if any.
    pub keep_alive: Option<KeepAlive>,
    /// The connection's meta, for filters. Keys are unique.
    pub meta: Vec<(String, String)>,
    /// Continuation of a stream, if any.
    pub next: Option<NextLink>,
    /// URI to request when the client has left.
    pub gone: Option<String>,
    /// Response that the client gets.
    pub reply: HeldReply,
}

impl Instruct {
    /// Sets a key of the connection's meta.
    fn put_meta(&mut self, key: String, value: String) {
        match self.meta.iter_mut().find(|(other, _)| *other == key) {
            Some(entry) => entry.1 = value,
            None => self.meta.push((key, value)),
        }
    }
}

fn hold(fields: &[HeaderRef<'_>]) -> Result<Hold, InstructError> {
    match headers::first(fields, "Grip-Hold") {
        None => Ok(Hold::None),
        Some(b"response") => Ok(Hold::Response),
        Some(b"stream") => Ok(Hold::Stream),
        Some(_) => Err(InstructError::Hold),
    }
}

fn channels(fields: &[HeaderRef<'_>]) -> Result<Vec<HoldChannel>, InstructError> {
    let mut out = Vec::new();
    for element in Element::all(fields, "Grip-Channel") {
        let name = text(element.value());
        let names: Vec<String> = element
            .parameters()
            .filter(|(key, _)| *key == b"filter")
            .map(|(_, value)| text(&value))
            .collect();
        let Ok(filters) = Filters::from_names(names.iter().map(String::as_str)) else {
            return Err(InstructError::TooManyFilters(name));
        };
        out.push(HoldChannel {
            prev_id: element.get("prev-id").as_deref().map(text),
            filters,
            name,
        });
    }
    Ok(out)
}

fn keep_alive(fields: &[HeaderRef<'_>]) -> Result<Option<KeepAlive>, InstructError> {
    let Some(params) = Element::first(fields, "Grip-Keep-Alive") else {
        return Ok(None);
    };
    let value = params.value();
    if value.is_empty() {
        return Err(InstructError::KeepAliveEmpty);
    }
    let mode = match params.get("mode").as_deref().unwrap_or_default() {
        b"" | b"idle" => KeepAliveMode::Idle,
        b"interval" => KeepAliveMode::Interval,
        other => return Err(InstructError::KeepAliveMode(text(other))),
    };
    let timeout_s = match params.get("timeout") {
        Some(value) => seconds(&value, "Grip-Keep-Alive timeout")?,
        None => TIMEOUT_DEFAULT_S,
    };
    let data = match params.get("format").as_deref().unwrap_or_default() {
        b"" | b"raw" => value.to_vec(),
        b"cstring" => unescape(value).ok_or(InstructError::KeepAliveData("a cstring"))?,
        b"base64" => str::from_utf8(value)
            .ok()
            .and_then(decode_base64)
            .ok_or(InstructError::KeepAliveData("base64"))?,
        other => return Err(InstructError::KeepAliveFormat(text(other))),
    };
    Ok(Some(KeepAlive {
        data,
        timeout_s,
        mode,
    }))
}

fn set_meta(fields: &[HeaderRef<'_>]) -> Result<Vec<(String, String)>, InstructError> {
    let mut out = Vec::new();
    for element in headers::elements(fields, "Grip-Set-Meta") {
        // Here there is no value in front: each element is a parameter, and others may follow.
        let parameters: Result<Vec<_>, _> = Parameters(element).collect();
        let Ok(parameters) = parameters else {
            continue;
        };
        let (key, value) = parameters.first().ok_or(InstructError::SetMeta)?;
        out.push((text(key), text(value)));
    }
    Ok(out)
}

fn status(fields: &[HeaderRef<'_>], reply: &mut HeldReply) -> Result<(), InstructError> {
    let Some(value) = headers::first(fields, "Grip-Status").filter(|value| !value.is_empty())
    else {
        return Ok(());
    };
    let (code, reason) = match memchr::memchr(b' ', value) {
        Some(at) => (&value[..at], &value[at + 1..]),
        None => (value, &[][..]),
    };
    reply.code = integer(code)
        .and_then(|code| u16::try_from(code).ok())
        .filter(|&code| code <= 999)
        .ok_or(InstructError::Status)?;
    reply.reason = Some(text(reason)).filter(|reason| !reason.is_empty());
    Ok(())
}

/// The fields that the client sees: without `Grip-Expose-Headers`, all but GRIP's.
fn exposed(fields: &[HeaderRef<'_>]) -> Vec<Header> {
    let expose = headers::elements(fields, "Grip-Expose-Headers");
    let is_exposed = |name: &str| {
        let mut expose = expose.iter();
        expose.any(|other| other.eq_ignore_ascii_case(name.as_bytes()))
    };
    fields
        .iter()
        .filter(|(name, _)| !headers::is_grip(name))
        .filter(|(name, _)| expose.is_empty() || is_exposed(name))
        .map(|&(name, value)| Header::new(name, value))
        .collect()
}

fn seconds(value: &[u8], what: &'static str) -> Result<u32, InstructError> {
    integer(value)
        .and_then(|number| u32::try_from(number).ok())
        .ok_or(InstructError::Seconds(what))
}

/// Undoes `\\`, `\r`, `\n` and `\xHH`. Other escapes vanish with their letter.
fn unescape(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        match bytes.next()? {
            b'\\' => out.push(b'\\'),
            b'r' => out.push(b'\r'),
            b'n' => out.push(b'\n'),
            b'x' => out.push(hex_byte(bytes.next()?, bytes.next()?)?),
            _ => {}
        }
    }
    Some(out)
}

const SECONDS_MAX: i64 = i32::MAX as i64;

/// Lets a document overrule what the headers said. Links and `Grip-Status` stay as they are;
/// the response's own headers and body give way to the document's.
fn apply(code: u16, body: &[u8], out: &mut Instruct) -> Result<(), InstructError> {
    if code != 200 {
        return Err(InstructError::DocumentStatus);
    }
    if body.len() > INSTRUCT_BODY_BYTES_MAX {
        return Err(InstructError::DocumentTooLarge);
    }
    let document = Value::from_json(body).map_err(|_| InstructError::DocumentJson)?;
    let mut document = Fields::new(document, Coding::Json, "instruct")?;
    if let Some(hold) = document.object("hold", "hold")? {
        apply_hold(hold, out)?;
    }
    out.reply.headers.clear();
    out.reply.body = Some(Vec::new());
    if let Some(response) = document.object("response", "response")? {
        apply_response(response, out)?;
    }
    Ok(())
}

fn apply_hold(mut hold: Fields, out: &mut Instruct) -> Result<(), InstructError> {
    out.hold = match hold.text("mode")?.as_deref() {
        None | Some("response") => Hold::Response,
        Some("stream") => Hold::Stream,
        Some(_) => return Err(hold.invalid("mode").into()),
    };
    let channels = match hold.take("channels") {
        Some(Value::List(channels)) => channels,
        Some(_) => return Err(hold.wrong_type("channels").into()),
        None => return Err(hold.missing("channels").into()),
    };
    for channel in channels {
        out.channels.push(hold_channel(channel)?);
    }
    if let Some(timeout_s) = hold.integer("timeout", 0, SECONDS_MAX)? {
        out.timeout_s = narrow(timeout_s);
    }
    if let Some(keep_alive) = hold.object("keep-alive", "keep-alive")? {
        apply_keep_alive(keep_alive, out)?;
    }
    for (key, value) in hold.meta()? {
        out.put_meta(key, value);
    }
    Ok(())
}

fn hold_channel(value: Value) -> Result<HoldChannel, InstructError> {
    let mut channel = Fields::new(value, Coding::Json, "channel")?;
    let name = channel.required_text("name")?;
    let prev_id = channel.text("prev-id")?;
    let names = channel.texts("filters")?.unwrap_or_default();
    let Ok(filters) = Filters::from_names(names.iter().map(String::as_str)) else {
        return Err(InstructError::TooManyFilters(name));
    };
    Ok(HoldChannel {
        name,
        prev_id,
        filters,
    })
}

/// The mode of a keep-alive in a document is not said; Pushpin's behaves like an interval.
/// A document without data keeps what the header said, at the document's pace.
fn apply_keep_alive(mut fields: Fields, out: &mut Instruct) -> Result<(), InstructError> {
    let data = fields
        .bytes("content", "content-bin")?
        .map(|(data, _)| data);
    let timeout_s = fields
        .integer("timeout", 0, SECONDS_MAX)?
        .map_or(TIMEOUT_DEFAULT_S, narrow);
    match (&mut out.keep_alive, data) {
        (_, Some(data)) => {
            out.keep_alive = Some(KeepAlive {
                data,
                timeout_s,
                mode: KeepAliveMode::Interval,
            });
        }
        (Some(keep_alive), None) => keep_alive.timeout_s = timeout_s,
        (None, None) => {}
    }
    Ok(())
}

fn apply_response(mut response: Fields, out: &mut Instruct) -> Result<(), DocumentError> {
    let reply = &mut out.reply;
    if let Some(code) = response.integer("code", 0, 999)? {
        // Bounded just now.
        reply.code = code as u16;
        reply.reason = None;
    }
    if let Some(reason) = response.text("reason")?.filter(|reason| !reason.is_empty()) {
        reply.reason = Some(reason);
    }
    reply.headers = headers_of(&mut response)?;
    if let Some((body, _)) = response.bytes("body", "body-bin")? {
        reply.body = Some(body);
    }
    Ok(())
}

fn narrow(seconds: i64) -> u32 {
    // Bounded by `SECONDS_MAX` where it was read.
    u32::try_from(seconds).unwrap_or(u32::MAX)
}

/// Why a response is no instruction. The fault is the backend's: the client gets 502.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InstructError {
    #[error("Grip-Hold: the mode is response or stream, nothing else")]
    Hold,
    #[error("channel '{0}' has more filters than it may")]
    TooManyFilters(String),
    #[error("{0} is not a number of seconds")]
    Seconds(&'static str),
    #[error("Grip-Keep-Alive: there is nothing to send")]
    KeepAliveEmpty,
    #[error("Grip-Keep-Alive: mode is idle or interval, not '{0}'")]
    KeepAliveMode(String),
    #[error("Grip-Keep-Alive: format is raw, cstring or base64, not '{0}'")]
    KeepAliveFormat(String),
    #[error("Grip-Keep-Alive: the data is not {0}")]
    KeepAliveData(&'static str),
    #[error("Grip-Set-Meta: there is nothing between two commas")]
    SetMeta,
    #[error("Grip-Status: the code must be a number from 0 to 999")]
    Status,
    #[error("Grip-Link: the URI must stand between < and >")]
    Link,
    #[error("Grip-Link: what stands between < and > cannot be a URI")]
    LinkUri,
    #[error("the status of an {INSTRUCT_TYPE} response must be 200")]
    DocumentStatus,
    #[error("the {INSTRUCT_TYPE} body is larger than {INSTRUCT_BODY_BYTES_MAX} bytes")]
    DocumentTooLarge,
    #[error("the {INSTRUCT_TYPE} body is not JSON")]
    DocumentJson,
    #[error("the {INSTRUCT_TYPE} body: {0}")]
    Document(#[from] DocumentError),
}
