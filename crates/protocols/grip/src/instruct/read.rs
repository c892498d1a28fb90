//! The single `Grip-*` headers.

use super::fault::InstructFault;
use super::instruction::{Hold, HoldChannel, KeepAlive, KeepAliveMode, Reply, TIMEOUT_DEFAULT_S};
use crate::filters::Filters;
use crate::headers::{self, Element, Header, HeaderRef, Parameters, integer, text};
use crate::value::decode_base64;

pub(super) fn hold(fields: &[HeaderRef<'_>]) -> Result<Hold, InstructFault> {
    match headers::first(fields, "Grip-Hold") {
        None => Ok(Hold::None),
        Some(b"response") => Ok(Hold::Response),
        Some(b"stream") => Ok(Hold::Stream),
        Some(_) => Err(InstructFault::Hold),
    }
}

pub(super) fn channels(fields: &[HeaderRef<'_>]) -> Result<Vec<HoldChannel>, InstructFault> {
    let mut out = Vec::new();
    for element in Element::all(fields, "Grip-Channel") {
        let name = text(element.value());
        let names: Vec<String> = element
            .parameters()
            .filter(|(key, _)| *key == b"filter")
            .map(|(_, value)| text(&value))
            .collect();
        let Ok(filters) = Filters::from_names(names.iter().map(String::as_str)) else {
            return Err(InstructFault::TooManyFilters(name));
        };
        out.push(HoldChannel {
            prev_id: element.get("prev-id").as_deref().map(text),
            filters,
            name,
        });
    }
    Ok(out)
}

pub(super) fn keep_alive(fields: &[HeaderRef<'_>]) -> Result<Option<KeepAlive>, InstructFault> {
    let Some(params) = Element::first(fields, "Grip-Keep-Alive") else {
        return Ok(None);
    };
    let value = params.value();
    if value.is_empty() {
        return Err(InstructFault::KeepAliveEmpty);
    }
    let mode = match params.get("mode").as_deref().unwrap_or_default() {
        b"" | b"idle" => KeepAliveMode::Idle,
        b"interval" => KeepAliveMode::Interval,
        other => return Err(InstructFault::KeepAliveMode(text(other))),
    };
    let timeout_s = match params.get("timeout") {
        Some(value) => seconds(&value, "Grip-Keep-Alive timeout")?,
        None => TIMEOUT_DEFAULT_S,
    };
    let data = match params.get("format").as_deref().unwrap_or_default() {
        b"" | b"raw" => value.to_vec(),
        b"cstring" => unescape(value).ok_or(InstructFault::KeepAliveData("a cstring"))?,
        b"base64" => str::from_utf8(value)
            .ok()
            .and_then(decode_base64)
            .ok_or(InstructFault::KeepAliveData("base64"))?,
        other => return Err(InstructFault::KeepAliveFormat(text(other))),
    };
    Ok(Some(KeepAlive {
        data,
        timeout_s,
        mode,
    }))
}

pub(super) fn set_meta(fields: &[HeaderRef<'_>]) -> Result<Vec<(String, String)>, InstructFault> {
    let mut out = Vec::new();
    for element in headers::elements(fields, "Grip-Set-Meta") {
        // Here there is no value in front: each element is a parameter, and others may follow.
        let parameters: Result<Vec<_>, _> = Parameters(element).collect();
        let Ok(parameters) = parameters else {
            continue;
        };
        let (key, value) = parameters.first().ok_or(InstructFault::SetMeta)?;
        out.push((text(key), text(value)));
    }
    Ok(out)
}

pub(super) fn status(fields: &[HeaderRef<'_>], reply: &mut Reply) -> Result<(), InstructFault> {
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
        .ok_or(InstructFault::Status)?;
    reply.reason = Some(text(reason)).filter(|reason| !reason.is_empty());
    Ok(())
}

/// `Grip-Last: channel; last-id=ID`, in either direction. Elements without an id say nothing.
#[must_use]
pub fn last_ids(fields: &[HeaderRef<'_>]) -> Vec<(String, String)> {
    Element::all(fields, "Grip-Last")
        .filter_map(|element| Some((text(element.value()), text(&element.get("last-id")?))))
        .collect()
}

/// The fields that the client sees.
pub(super) fn exposed(fields: &[HeaderRef<'_>], expose: &[String]) -> Vec<Header> {
    fields
        .iter()
        .filter(|(name, _)| !headers::is_grip(name))
        .filter(|(name, _)| {
            expose.is_empty() || expose.iter().any(|other| other.eq_ignore_ascii_case(name))
        })
        .map(|&(name, value)| Header::new(name, value))
        .collect()
}

pub(super) fn seconds(value: &[u8], what: &'static str) -> Result<u32, InstructFault> {
    integer(value)
        .and_then(|number| u32::try_from(number).ok())
        .ok_or(InstructFault::Seconds(what))
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
            b'x' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                // Two digits make at most 255.
                out.push((digit()? << 4 | digit()?) as u8);
            }
            _ => {}
        }
    }
    Some(out)
}
