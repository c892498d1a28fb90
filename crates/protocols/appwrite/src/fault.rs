//! Refusals as Appwrite makes them: one `error` frame with a code and a text, and sometimes a
//! close.
//!
//! Owns: every code and text, whether a fault ends the connection, and the WebSocket close code
//! that Appwrite leaves out. Never: sends anything.
//!
//! Appwrite answers every upgrade with 101, then sends the frame and drops the connection without a
//! close frame; a browser reports that as 1006, and SDKs from 21.3 on stop retrying only on 1008.
//! So a refused client comes back once a second for ever, unless [`RefusalStyle::close_codes`] is
//! on. A bad token alone is refused as Appwrite does it in either style: the next attempt brings
//! another token, if the page has got one meanwhile.

use std::borrow::Cow;

use throng_types::json::Object;

/// State of the connection when a client is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionPhase {
    /// While the connection was being opened: every fault ends it.
    Open,
    /// On a message of an open connection: only policy violations end it.
    Message,
}

/// Fault of a client, or of ours. The message that the client sees is the `Display` form, with
/// [`RefusalStyle::mask`] in production.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RealtimeError {
    #[error("Missing or unknown project ID")]
    UnknownProject,
    #[error("The requested API is disabled. You can enable the API from the Appwrite console.")]
    ApiDisabled,
    #[error("Too many requests")]
    TooManyRequests,
    #[error("Too many messages.")]
    TooManyMessages,
    #[error(
        "Invalid Origin. Register your new client ({host}) as a new {platform} platform on your \
         project console dashboard"
    )]
    Origin {
        /// The host of the `Origin` header.
        host: String,
        /// Appwrite's name for the scheme's platform.
        platform: &'static str,
    },
    #[error(
        "Invalid Scheme. The scheme used ({scheme}) in the Origin ({origin}) is not supported. \
         If you are using a custom scheme, please change it to `appwrite-callback-<PROJECT_ID>`"
    )]
    OriginScheme {
        /// The scheme of the `Origin` header.
        scheme: String,
        /// Whole text of the header.
        origin: String,
    },
    #[error("Invalid Origin.")]
    OriginEmpty,
    #[error("{0}")]
    UrlQuery(String),
    #[error("Invalid query: {0}")]
    MessageQuery(String),
    #[error("Message format is not valid.")]
    Format,
    #[error("Message type is not valid.")]
    MessageType,
    #[error("Payload is not valid. {0} is required")]
    Required(&'static str),
    #[error("{0}: {1}")]
    Field(&'static str, Cow<'static, str>),
    #[error("Session is not valid.")]
    Session,
    #[error("User must be authorized")]
    Unauthorized,
    #[error("{1}")]
    Presence(u16, String),
    #[error("Failed to verify JWT. {0}")]
    Jwt(String),
    /// A fault without a code of its own, which production masks (`select` other than `*`,
    /// values of a type that PHP would stumble over).
    #[error("{0}")]
    Internal(String),
    #[error("Error: Server Error")]
    Server,
}

impl RealtimeError {
    /// The `code` in the frame (Appwrite's table of errors).
    #[must_use]
    pub fn code(&self) -> u16 {
        match self {
            Self::UnknownProject
            | Self::Origin { .. }
            | Self::OriginScheme { .. }
            | Self::OriginEmpty
            | Self::UrlQuery(_) => POLICY_VIOLATION,
            Self::ApiDisabled => 403,
            Self::Unauthorized | Self::Jwt(_) => 401,
            Self::TooManyRequests | Self::TooManyMessages => TRY_AGAIN_LATER,
            Self::MessageQuery(_)
            | Self::Format
            | Self::MessageType
            | Self::Required(_)
            | Self::Field(..)
            | Self::Session => FORMAT_INVALID,
            Self::Internal(_) => 0,
            Self::Presence(code, _) => *code,
            Self::Server => 500,
        }
    }

    /// Tells whether the connection ends after the frame. Opening tolerates nothing; on an open
    /// connection only code 1008 ends it.
    #[must_use]
    pub fn closes(&self, phase: ConnectionPhase) -> bool {
        phase == ConnectionPhase::Open || self.code() == POLICY_VIOLATION
    }

    /// A label for metrics, without anything that the client chose.
    #[must_use]
    pub fn label(&self) -> &'static str {
        match self {
            Self::UnknownProject => "project",
            Self::ApiDisabled => "api_disabled",
            Self::TooManyRequests => "too_many_requests",
            Self::TooManyMessages => "too_many_messages",
            Self::Origin { .. } | Self::OriginScheme { .. } | Self::OriginEmpty => "origin",
            Self::UrlQuery(_) | Self::MessageQuery(_) => "query",
            Self::Format | Self::MessageType | Self::Required(_) | Self::Field(..) => "format",
            Self::Session | Self::Jwt(_) => "session",
            Self::Unauthorized => "unauthorized",
            Self::Presence(..) => "presence",
            Self::Internal(_) | Self::Server => "server",
        }
    }

    /// Appends the `error` frame and says how the connection goes on.
    pub fn refuse(
        &self,
        phase: ConnectionPhase,
        style: RefusalStyle,
        out: &mut Vec<u8>,
    ) -> ErrorAction {
        let code = self.code();
        Object::append(out, |frame| {
            frame.text("type", "error");
            Object::append(frame.value("data"), |data| {
                data.number("code", code);
                match style.mask && self.masked(phase) {
                    true => data.text("message", MASK),
                    false => data.text("message", &self.to_string()),
                }
            });
        });
        if !self.closes(phase) {
            ErrorAction::Stay
        } else if style.close_codes && !matches!(self, Self::Jwt(_)) {
            ErrorAction::Close(close_code(code))
        } else {
            ErrorAction::Drop
        }
    }

    /// Since 1.8.0 a production server hides the text of code 0 and of every code from 500 on,
    /// which takes in the WebSocket codes; only 1008 while opening keeps its text.
    fn masked(&self, phase: ConnectionPhase) -> bool {
        let code = self.code();
        let kept = phase == ConnectionPhase::Open && code == POLICY_VIOLATION;
        (code == 0 || code >= 500) && !kept
    }
}

/// State of the connection after an `error` frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorAction {
    /// The connection stays open.
    Stay,
    /// The connection ends after a close frame with this code.
    Close(u16),
    /// The connection ends without a close frame, as Appwrite does it.
    Drop,
}

/// Deviations of refusals from a stock server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusalStyle {
    /// Send a close frame with a code on which SDKs stop retrying. Stock sends none.
    pub close_codes: bool,
    /// Hide texts as a production server does. Clients only show them, so telling is kinder.
    pub mask: bool,
}

impl RefusalStyle {
    /// Style of a production Appwrite.
    pub const STOCK: Self = Self {
        close_codes: false,
        mask: true,
    };
}

impl Default for RefusalStyle {
    fn default() -> Self {
        Self {
            close_codes: true,
            mask: false,
        }
    }
}

/// The close code for a frame's code. SDKs stop on 1008 alone, so what no retry can mend gets it.
fn close_code(code: u16) -> u16 {
    match code {
        POLICY_VIOLATION | FORMAT_INVALID | 401 | 403 => POLICY_VIOLATION,
        TRY_AGAIN_LATER => TRY_AGAIN_LATER,
        _ => 1011,
    }
}

const FORMAT_INVALID: u16 = 1003;
const POLICY_VIOLATION: u16 = 1008;
const TRY_AGAIN_LATER: u16 = 1013;
const MASK: &str = "Error: Server Error";

#[cfg(test)]
mod tests {
    use throng_types::cases;

    use super::*;
    use ConnectionPhase::{Message, Open};

    #[test]
    fn refusals_have_their_code_and_their_end() {
        let faults = [
            RealtimeError::UnknownProject,
            RealtimeError::TooManyRequests,
            RealtimeError::TooManyMessages,
            RealtimeError::Format,
            RealtimeError::Session,
            RealtimeError::Unauthorized,
            RealtimeError::Jwt("Expired".to_owned()),
            RealtimeError::Internal("x".to_owned()),
            RealtimeError::Server,
        ];
        for (case, expected) in cases(include_str!("fault.txt")) {
            let words: Vec<&str> = case.split(' ').collect();
            let phase = if words[0] == "opening" { Open } else { Message };
            let style = match words[1] {
                "stock" => RefusalStyle::STOCK,
                _ => RefusalStyle::default(),
            };
            let is_it = |fault: &&RealtimeError| format!("{fault:?}").starts_with(words[2]);
            let fault = faults.iter().find(is_it).expect("a fault");
            let mut out = Vec::new();
            let then = fault.refuse(phase, style, &mut out);
            let (then, frame) = (format!("{then:?}"), String::from_utf8(out).unwrap());
            assert_eq!(format!("{then} {frame}"), expected, "{case}");
            assert_eq!(fault.closes(phase), then != "Stay", "{case}");
        }
    }
}
