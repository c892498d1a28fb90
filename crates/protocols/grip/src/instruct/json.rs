//! Bodies of `application/grip-instruct`.

use super::fault::InstructFault;
use super::instruction::{
    Hold, HoldChannel, INSTRUCT_BODY_BYTES_MAX, Instruct, KeepAlive, KeepAliveMode, ReplyBody,
    TIMEOUT_DEFAULT_S,
};
use crate::filters::Filters;
use crate::headers::headers_of;
use crate::value::{Coding, DocFault, Fields, Value};

const SECONDS_MAX: i64 = i32::MAX as i64;

/// Lets a document overrule what the headers said. Links and `Grip-Status` stay as they are;
/// the response's own headers and body give way to the document's.
pub(super) fn apply(code: u16, body: &[u8], out: &mut Instruct) -> Result<(), InstructFault> {
    if code != 200 {
        return Err(InstructFault::DocumentStatus);
    }
    if body.len() > INSTRUCT_BODY_BYTES_MAX {
        return Err(InstructFault::DocumentTooLarge);
    }
    let document = Value::from_json(body).map_err(|_| InstructFault::DocumentJson)?;
    let mut document = Fields::new(document, Coding::Json, "instruct")?;
    if let Some(hold) = document.object("hold", "hold")? {
        apply_hold(hold, out)?;
    }
    out.reply.headers.clear();
    out.reply.body = ReplyBody::Replaced(Vec::new());
    if let Some(response) = document.object("response", "response")? {
        apply_response(response, out)?;
    }
    Ok(())
}

fn apply_hold(mut hold: Fields, out: &mut Instruct) -> Result<(), InstructFault> {
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

fn hold_channel(value: Value) -> Result<HoldChannel, InstructFault> {
    let mut channel = Fields::new(value, Coding::Json, "channel")?;
    let name = channel.required_text("name")?;
    let prev_id = channel.text("prev-id")?;
    let names = channel.texts("filters")?.unwrap_or_default();
    let Ok(filters) = Filters::from_names(names.iter().map(String::as_str)) else {
        return Err(InstructFault::TooManyFilters(name));
    };
    Ok(HoldChannel {
        name,
        prev_id,
        filters,
    })
}

/// The mode of a keep-alive in a document is not said; Pushpin's behaves like an interval.
/// A document without data keeps what the header said, at the document's pace.
fn apply_keep_alive(mut fields: Fields, out: &mut Instruct) -> Result<(), InstructFault> {
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

fn apply_response(mut response: Fields, out: &mut Instruct) -> Result<(), DocFault> {
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
        reply.body = ReplyBody::Replaced(body);
    }
    Ok(())
}

fn narrow(seconds: i64) -> u32 {
    // Bounded by `SECONDS_MAX` where it was read.
    u32::try_from(seconds).unwrap_or(u32::MAX)
}
