//! Instructions: what a backend's response tells the proxy to do with its client.
//!
//! Owns: reading `Grip-*` response headers and `application/grip-instruct` bodies into one
//! [`Instruct`], with Pushpin's defaults and limits. Never: holds, fetches or sends anything.

mod fault;
mod instruction;
mod json;
mod read;
#[cfg(test)]
mod tests;

use crate::headers::{self, Element, HeaderRef, text};

use read::{channels, exposed, hold, keep_alive, seconds, set_meta, status};

pub use fault::InstructFault;
pub use instruction::{
    CHANNELS_MAX, Hold, HoldChannel, INSTRUCT_BODY_BYTES_MAX, INSTRUCT_TYPE, Instruct, KeepAlive,
    KeepAliveMode, NEXT_LINK_TIMEOUT_DEFAULT_S, NextLink, Reply, ReplyBody, TIMEOUT_DEFAULT_S,
    TIMEOUT_MIN_S,
};
pub use read::last_ids;

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
