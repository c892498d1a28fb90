//! Reader of a Tsung session of type `ts_websocket`: one connect, then thinking, perhaps with a
//! message that repeats.

use super::vocabulary::check;
use crate::import::xml::Element;
use crate::payload::MESSAGE_BYTES_MIN;
use crate::template::escape;
use crate::{PeriodicMessage, Problem};

#[derive(Debug, Default)]
pub(super) struct Session {
    pub(super) name: String,
    pub(super) path: Option<String>,
    pub(super) origin: Option<String>,
    pub(super) subprotocol: Option<String>,
    /// Messages sent at once after the connect.
    pub(super) first_frames: Vec<String>,
    pub(super) say: Option<PeriodicMessage>,
    pub(super) lifetime_us: u64,
    connected: bool,
    closed: bool,
}

pub(super) fn read_session(element: &Element) -> Result<Session, Problem> {
    check(element, "session")?;
    let kind = element.required("type")?;
    if kind != "ts_websocket" {
        return Err(element.problem(format!(
            "sessions of type `{kind}` are not supported; supported is ts_websocket"
        )));
    }
    let mut session = Session {
        name: element.attribute("name").unwrap_or("tsung").to_owned(),
        ..Session::default()
    };
    session.actions(&element.children)?;
    if !session.connected {
        return Err(element.problem("the session never connects"));
    }
    Ok(session)
}

impl Session {
    fn actions(&mut self, actions: &[Element]) -> Result<(), Problem> {
        for action in actions {
            if self.closed {
                return Err(action.problem("what comes after the close is not supported"));
            }
            match action.name.as_str() {
                "request" => self.request(action)?,
                "thinktime" => self.think(think_us(action)?, 1, action)?,
                "for" => self.repeat(action)?,
                "transaction" => self.actions(&action.children)?,
                _ => return Err(action.unsupported()),
            }
        }
        Ok(())
    }

    fn request(&mut self, request: &Element) -> Result<(), Problem> {
        let websocket = websocket_of(request)?;
        match websocket.required("type")? {
            "connect" => self.connect(websocket),
            "message" => {
                if !self.connected {
                    return Err(websocket.problem("a message before the connect"));
                }
                if self.lifetime_us > 0 {
                    return Err(websocket.problem(
                        "a single message in the middle of a session is not supported; a first \
                         message or one that repeats in a <for> is",
                    ));
                }
                let (text, binary) = message_of(websocket)?;
                if binary {
                    return Err(websocket.problem(
                        "a first message as a binary frame (the default of Tsung) is not \
                         supported; write frame=\"text\"",
                    ));
                }
                self.first_frames.push(text);
                Ok(())
            }
            "close" => {
                self.closed = true;
                Ok(())
            }
            other => Err(websocket.problem(format!("type=\"{other}\" is not supported"))),
        }
    }

    fn connect(&mut self, websocket: &Element) -> Result<(), Problem> {
        check(websocket, "connect")?;
        if self.connected {
            return Err(websocket.problem("a second connect in one session is not supported"));
        }
        self.connected = true;
        let owned = |name| websocket.attribute(name).map(str::to_owned);
        self.path =
            owned("path").map(|path| format!("/{}", path.strip_prefix('/').unwrap_or(&path)));
        self.origin = owned("origin");
        self.subprotocol = owned("subprotocols");
        Ok(())
    }

    fn think(&mut self, each_us: u64, times: u64, at: &Element) -> Result<(), Problem> {
        if !self.connected {
            return Err(at.problem("a thinktime before the connect is not supported"));
        }
        self.lifetime_us = each_us
            .checked_mul(times)
            .and_then(|sum| self.lifetime_us.checked_add(sum))
            .ok_or_else(|| at.problem("the session would last longer than any run"))?;
        Ok(())
    }

    /// Reads a loop of thinking, perhaps around one message.
    fn repeat(&mut self, repeat: &Element) -> Result<(), Problem> {
        check(repeat, "for")?;
        let from: u64 = repeat.required_number("from")?;
        let to: u64 = repeat.required_number("to")?;
        let step = repeat.number::<u64>("incr")?.unwrap_or(1);
        if step == 0 {
            return Err(repeat.problem("a <for> with incr=\"0\" never ends"));
        }
        let times = if to < from { 0 } else { (to - from) / step + 1 };
        let mut body_us = 0_u64;
        let mut message = None;
        for action in &repeat.children {
            match action.name.as_str() {
                "thinktime" => body_us = body_us.saturating_add(think_us(action)?),
                "request" => {
                    let websocket = websocket_of(action)?;
                    let again = message.is_some() || self.say.is_some();
                    if websocket.attribute("type") != Some("message") || again {
                        return Err(websocket.problem(
                            "within a <for>, one message that repeats is supported, and no other \
                             request",
                        ));
                    }
                    message = Some(message_of(websocket)?);
                }
                _ => return Err(action.unsupported()),
            }
        }
        if let Some((text, binary)) = message {
            if body_us == 0 {
                return Err(repeat.problem(
                    "a message that repeats without a thinktime is a flood; it is not supported",
                ));
            }
            if self.lifetime_us > 0 {
                return Err(
                    repeat.problem("a loop with messages after a thinktime is not supported")
                );
            }
            self.say = Some(PeriodicMessage {
                text: escape(&text),
                every_us: body_us,
                count: Some(times),
                size_bytes: MESSAGE_BYTES_MIN,
                binary,
            });
        }
        self.think(body_us, times, repeat)
    }
}

fn websocket_of(request: &Element) -> Result<&Element, Problem> {
    check(request, "request")?;
    let mut children = request.children.iter();
    match (children.next(), children.next()) {
        (Some(websocket), None) if websocket.name == "websocket" => {
            if let Some(child) = websocket.children.first() {
                return Err(child.unsupported());
            }
            let substitutes = request.attribute("subst") == Some("true");
            let text = websocket.attribute("path").unwrap_or_default();
            if substitutes && (websocket.text.contains("%%") || text.contains("%%")) {
                return Err(websocket.problem("substitution (`%%…%%`) is not supported"));
            }
            Ok(websocket)
        }
        (Some(first), second) => {
            let odd = second
                .filter(|_| first.name == "websocket")
                .unwrap_or(first);
            Err(odd.unsupported())
        }
        (None, _) => Err(request.problem("an empty <request>")),
    }
}

/// Returns the text of a message, and true for a binary frame, which is Tsung's default.
fn message_of(websocket: &Element) -> Result<(String, bool), Problem> {
    check(websocket, "message")?;
    let binary = match websocket.attribute("frame").unwrap_or("binary") {
        "text" => false,
        "binary" => true,
        other => return Err(websocket.problem(format!("frame=\"{other}\" is unknown"))),
    };
    Ok((websocket.text.clone(), binary))
}

/// Reads a thinktime, which is in seconds, fractions allowed.
fn think_us(think: &Element) -> Result<u64, Problem> {
    check(think, "thinktime")?;
    let seconds = think
        .number::<f64>("value")?
        .filter(|seconds| seconds.is_finite() && *seconds >= 0.0)
        .ok_or_else(|| think.problem("<thinktime> needs the attribute `value`, in seconds"))?;
    Ok((seconds * 1e6) as u64)
}
