//! Series that count closed connections and failed commands.

use throng_types::Disconnect;

use crate::Counter;

impl Counter {
    /// Series of connections that the server closed for this reason.
    #[must_use]
    pub const fn closed(reason: Disconnect) -> Self {
        match reason {
            Disconnect::Closed => Self::ClosedNormal,
            Disconnect::Shutdown => Self::ClosedShutdown,
            Disconnect::ServerError => Self::ClosedServerError,
            Disconnect::Expired => Self::ClosedExpired,
            Disconnect::SubscriptionExpired => Self::ClosedSubscriptionExpired,
            Disconnect::Slow => Self::ClosedSlow,
            Disconnect::WriteError => Self::ClosedWriteError,
            Disconnect::InsufficientState => Self::ClosedInsufficientState,
            Disconnect::ForceReconnect => Self::ClosedForceReconnect,
            Disconnect::NoPong => Self::ClosedNoPong,
            Disconnect::TooManyRequests => Self::ClosedTooManyRequests,
            Disconnect::InvalidToken => Self::ClosedInvalidToken,
            Disconnect::BadRequest => Self::ClosedBadRequest,
            Disconnect::Stale => Self::ClosedStale,
            Disconnect::ForceNoReconnect => Self::ClosedForceNoReconnect,
            Disconnect::ConnectionLimit => Self::ClosedConnectionLimit,
            Disconnect::ChannelLimit => Self::ClosedChannelLimit,
            Disconnect::InappropriateProtocol => Self::ClosedInappropriateProtocol,
            Disconnect::PermissionDenied => Self::ClosedPermissionDenied,
            Disconnect::NotAvailable => Self::ClosedNotAvailable,
            Disconnect::TooManyErrors => Self::ClosedTooManyErrors,
        }
    }

    /// Series of commands that were answered with this error code.
    #[must_use]
    pub const fn error(code: u32) -> Self {
        match code {
            100 => Self::ErrorInternal,
            101 => Self::ErrorUnauthorized,
            102 => Self::ErrorUnknownChannel,
            103 => Self::ErrorPermissionDenied,
            104 => Self::ErrorMethodNotFound,
            105 => Self::ErrorAlreadySubscribed,
            106 => Self::ErrorLimitExceeded,
            107 => Self::ErrorBadRequest,
            108 => Self::ErrorNotAvailable,
            109 => Self::ErrorTokenExpired,
            110 => Self::ErrorExpired,
            111 => Self::ErrorTooManyRequests,
            112 => Self::ErrorUnrecoverablePosition,
            _ => Self::ErrorOther,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_labelled_by_their_texts() {
        for reason in [
            Disconnect::Closed,
            Disconnect::Shutdown,
            Disconnect::ServerError,
            Disconnect::Expired,
            Disconnect::SubscriptionExpired,
            Disconnect::Slow,
            Disconnect::WriteError,
            Disconnect::InsufficientState,
            Disconnect::ForceReconnect,
            Disconnect::NoPong,
            Disconnect::TooManyRequests,
            Disconnect::InvalidToken,
            Disconnect::BadRequest,
            Disconnect::Stale,
            Disconnect::ForceNoReconnect,
            Disconnect::ConnectionLimit,
            Disconnect::ChannelLimit,
            Disconnect::InappropriateProtocol,
            Disconnect::PermissionDenied,
            Disconnect::NotAvailable,
            Disconnect::TooManyErrors,
        ] {
            let label = Counter::closed(reason).label().expect("a reason");
            assert_eq!(label.value, reason.reason().replace(' ', "_"));
        }
    }

    #[test]
    fn codes_are_labelled_by_their_numbers() {
        for code in 100..=112 {
            let label = Counter::error(code).label().expect("a code");
            assert_eq!(label.value, code.to_string());
        }
        for code in [0, 99, 113, u32::MAX] {
            assert_eq!(Counter::error(code), Counter::ErrorOther);
        }
    }
}
