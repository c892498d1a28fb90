//! What backends answer.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::value::RawValue;
use throng_types::{Payload, PayloadKind};

use crate::json::{or_default, payload_of, tags, text};
use crate::strict;

/// Codes with which a backend may refuse a command: Centrifugo leaves these to applications.
const ERRORS: std::ops::RangeInclusive<u32> = 400..=1999;
/// Codes with which a backend may end a connection: 4000 to 4499 lets the client come back.
const DISCONNECTS: std::ops::RangeInclusive<u32> = 4000..=4999;
/// Bytes of the reason of a close frame (RFC 6455 section 5.5, without the code).
const REASON_BYTES_MAX: usize = 123;

/// How a backend refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProxyRefusal {
    /// The command is answered with this error.
    Error {
        /// 400 to 1999.
        code: u32,
        /// A word for developers.
        message: Box<str>,
        /// Whether the client may try again.
        temporary: bool,
    },
    /// The connection ends.
    Disconnect {
        /// 4000 to 4999.
        code: u16,
        /// A word for developers.
        reason: Box<str>,
    },
}

/// What a backend answers, if it does not refuse.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxyAnswer {
    /// The result as JSON; nothing if there is none. It has the fields of a token's claims where
    /// the question is who somebody is or whether somebody may subscribe.
    pub result: Option<Box<str>>,
    /// The user (connect).
    pub user: Box<str>,
    /// The application's own data: for the client, or (publish) in place of what it published.
    pub data: Option<Payload>,
    /// What was asked about is over (refresh).
    pub expired: bool,
    /// Deliver, but do not keep (publish).
    pub skip_history: bool,
    /// Tags of the publication, a JSON object of texts.
    pub tags: Option<Box<str>>,
    /// As in the server API (publish).
    pub idempotency_key: Option<Box<str>>,
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<ErrorBody<'a>>,
    #[serde(borrow)]
    disconnect: Option<DisconnectBody<'a>>,
}

#[derive(Deserialize)]
struct ErrorBody<'a> {
    code: u32,
    #[serde(borrow, default, deserialize_with = "text")]
    message: Cow<'a, str>,
    #[serde(default, deserialize_with = "or_default")]
    temporary: bool,
}

#[derive(Deserialize)]
struct DisconnectBody<'a> {
    code: u32,
    #[serde(borrow, default, deserialize_with = "text")]
    reason: Cow<'a, str>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResultBody<'a> {
    #[serde(borrow, deserialize_with = "text")]
    user: Cow<'a, str>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "text")]
    b64data: Cow<'a, str>,
    #[serde(deserialize_with = "or_default")]
    expired: bool,
    #[serde(deserialize_with = "or_default")]
    skip_history: bool,
    #[serde(borrow, deserialize_with = "tags")]
    tags: Option<&'a str>,
    #[serde(borrow, deserialize_with = "text")]
    idempotency_key: Cow<'a, str>,
}

impl ProxyRefusal {
    /// An error with a code that applications may use.
    #[must_use]
    pub fn error(code: u32, message: &str, temporary: bool) -> Option<Self> {
        Some(Self::Error {
            code: Some(code).filter(|code| ERRORS.contains(code))?,
            message: message.into(),
            temporary,
        })
    }

    /// A disconnect with a code that applications may use.
    #[must_use]
    pub fn disconnect(code: u32, reason: &str) -> Option<Self> {
        let is_possible = DISCONNECTS.contains(&code) && reason.len() <= REASON_BYTES_MAX;
        Some(Self::Disconnect {
            code: u16::try_from(code).ok().filter(|_| is_possible)?,
            reason: reason.into(),
        })
    }
}

impl ProxyAnswer {
    /// Reads the body of an answer. Nothing if it is none: then the question has failed.
    #[must_use]
    pub fn parse(body: &[u8]) -> Option<Result<Self, ProxyRefusal>> {
        let body: Body<'_> = strict::from_slice(body).ok()?;
        if let Some(DisconnectBody { code, reason }) = body.disconnect {
            return ProxyRefusal::disconnect(code, &reason).map(Err);
        }
        if let Some(error) = body.error {
            return ProxyRefusal::error(error.code, &error.message, error.temporary).map(Err);
        }
        let Some(json) = body.result else {
            return Some(Ok(Self::default()));
        };
        let result: ResultBody<'_> = strict::from_str(json.get()).ok()?;
        let data = match (&*result.b64data, result.data) {
            ("", data) => data.map(|json| Payload {
                bytes: json.get().as_bytes().into(),
                kind: PayloadKind::Json,
            }),
            (base64, _) => Some(payload_of(&STANDARD.decode(base64).ok()?)),
        };
        Some(Ok(Self {
            result: Some(json.get().into()),
            user: result.user.into(),
            data,
            expired: result.expired,
            skip_history: result.skip_history,
            tags: result.tags.map(Into::into),
            idempotency_key: { !result.idempotency_key.is_empty() }
                .then(|| result.idempotency_key.into()),
        }))
    }
}
