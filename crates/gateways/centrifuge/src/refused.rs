//! Answers to a client whose token is invalid: one table for all commands that carry one.
//!
//! Never: checks a token, or counts a refused one; `throng_session` does.

use throng_auth::TokenFault;
use throng_centrifuge::ErrorCode;
use throng_session::AuthError;
use throng_types::Disconnect;

use crate::context::Cx;
use crate::socket::Socket;

/// Command that carried a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Brought {
    Connect,
    /// The first message of a unidirectional WebSocket, which has no error replies, only a close.
    UniConnect,
    Refresh,
    Subscribe,
    SubRefresh,
}

enum Heard {
    Error(ErrorCode),
    End(Disconnect),
}

/// The codes are Centrifugo's, so that SDKs fetch another token, come again or give up as they do
/// there.
const fn heard(brought: Brought, why: AuthError) -> Heard {
    let AuthError::Token(fault) = why else {
        return Heard::End(Disconnect::BadRequest);
    };
    match (fault, brought) {
        // Codes that SDKs try again after.
        (TokenFault::UnknownKey, Brought::UniConnect) => Heard::End(Disconnect::ServerError),
        (TokenFault::UnknownKey, _) => Heard::Error(ErrorCode::Internal),
        (TokenFault::Expired, Brought::Connect | Brought::Subscribe) => {
            Heard::Error(ErrorCode::TokenExpired)
        }
        (TokenFault::Expired, Brought::SubRefresh) => Heard::Error(ErrorCode::Expired),
        // An SDK that got an error would stay away; after this close it comes back with a token.
        (TokenFault::Expired, Brought::UniConnect | Brought::Refresh) => {
            Heard::End(Disconnect::Expired)
        }
        // For another user or channel: a lasting mistake.
        (TokenFault::Purpose, Brought::Subscribe) => Heard::End(Disconnect::InvalidToken),
        (_, Brought::Subscribe) => Heard::Error(ErrorCode::PermissionDenied),
        _ => Heard::End(Disconnect::InvalidToken),
    }
}

impl Socket {
    /// Answers a command whose token is invalid, as the table says. `command` is the command's id.
    pub(crate) fn refuse_token(
        &mut self,
        command: u32,
        brought: Brought,
        why: AuthError,
        cx: &mut Cx<'_>,
    ) {
        match heard(brought, why) {
            Heard::Error(code) => self.error(command, code, cx),
            Heard::End(reason) => self.disconnect(reason, cx),
        }
    }
}
