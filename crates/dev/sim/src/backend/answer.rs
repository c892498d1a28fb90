//! Answers of the backend, and what a connection becomes behind them.

use throng_http1::field::Header;
use throng_http1::origin::{OriginEvent, OriginHead, OriginRequest};

use super::talk::Talk;

/// An answer, and what the connection becomes behind it.
pub(super) struct Answered {
    pub(super) head: OriginHead,
    pub(super) body: Vec<u8>,
    pub(super) tunnel: Option<Tunnel>,
}

/// The backend's end of a connection that both sides pass bytes on.
pub(super) enum Tunnel {
    /// All that comes goes back.
    Echo,
    /// Messages, with the extension.
    Talk(Box<Talk>),
}

impl Tunnel {
    /// Takes bytes, and answers them.
    pub(super) fn hear(&mut self, bytes: Vec<u8>) -> Option<OriginEvent> {
        let answer = match self {
            Self::Echo => bytes,
            Self::Talk(talk) => talk.hear(bytes),
        };
        (!answer.is_empty()).then_some(OriginEvent::Body(answer))
    }
}

/// A field of a request.
pub(super) fn field<'r>(request: &'r OriginRequest, name: &str) -> Option<&'r str> {
    let mut fields = request.headers.iter();
    let found = fields.find(|header| header.is(name))?;
    std::str::from_utf8(&found.value).ok()
}

/// An answer with a length.
pub(super) fn answered(headers: &[(&str, String)], body: Vec<u8>) -> Answered {
    let headers = headers.iter();
    let headers = headers.map(|(name, value)| Header::new(*name, value.as_bytes()));
    Answered {
        head: OriginHead {
            code: 200,
            reason: "OK".to_owned(),
            headers: headers.collect(),
            body_bytes: Some(body.len() as u64),
            is_bodiless: false,
        },
        body,
        tunnel: None,
    }
}
