//! Rights of a client's token in one channel.

use throng_auth::TokenFault;
use throng_session::{Grant, Holder};
use throng_types::ChannelName;

use crate::context::Cx;
use crate::socket::Socket;

/// Checks a subscription token. `None`: there is none.
pub(crate) fn check_token(
    ws: &Socket,
    channel: &ChannelName,
    token: &str,
    cx: &Cx<'_>,
) -> Result<Option<Grant>, TokenFault> {
    let holder = Holder {
        identity: ws.identity(),
        conn: cx.id,
    };
    holder.check(Some(channel), token, cx.shared, cx.now)
}
