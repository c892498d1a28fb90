//! What a client's token says of one channel.

use throng_auth::{Claims, SubscriptionOptions, TokenFault};
use throng_session::check_token as session_check;
use throng_types::ChannelName;

use crate::context::Cx;
use crate::socket::Socket;

/// What a subscription token gives.
pub(crate) struct Grant {
    /// When the subscription ends; `None` for never.
    pub(crate) until: Option<u64>,
    /// What it sets for the subscription.
    pub(crate) options: SubscriptionOptions,
}

/// Checks a subscription token. `None`: there is none.
pub(crate) fn check_token(
    ws: &Socket,
    channel: &ChannelName,
    token: &str,
    cx: &Cx<'_>,
) -> Result<Option<Grant>, TokenFault> {
    let Some(verifier) = cx.shared.verifier.as_ref().filter(|_| !token.is_empty()) else {
        return Ok(None);
    };
    let user = ws.identity().map_or("", |identity| &identity.user);
    let client = cx.shared.node.client_id(cx.id);
    let check = |claims: Claims| {
        claims.check_subscription(channel.as_str(), user, client.as_str())?;
        Ok(Some(Grant {
            until: claims.ends_at_unix_s(),
            options: SubscriptionOptions {
                info: claims.info,
                ..claims.options
            },
        }))
    };
    session_check(verifier, token, check, cx.shared, cx.now)
}
