//! `POST /v1/realtime/events` on the API port: an event in the form in which Appwrite announces it
//! on Redis, so that Appwrite and Redis need not be there.
//!
//! The answer is 202 when the event is on its way to all shards, in the order of the requests of
//! one connection; 400 if the body is no event; 503 when too many wait already, and then it was not
//! taken.

use throng_appwrite::FeedMessage;
use throng_session::{Incoming, Opened, Reject, respond_json};

use crate::connection::Connection;
use crate::context::Cx;

/// Parses one event and passes it to all shards.
pub(crate) fn publish(
    incoming: &Incoming<'_, '_>,
    cx: &mut Cx<'_>,
) -> Result<Opened<Connection>, Reject> {
    let event = FeedMessage::parse(incoming.body, cx.shared.limits.publish_bytes_max)
        .map_err(|error| Reject::new(400, error.to_string()))?;
    cx.own
        .outside
        .publish(event)
        .map_err(|_| Reject::new(503, "too many events wait; send it again in a moment"))?;
    let keep_alive = incoming.request.keep_alive();
    respond_json(202, b"{}\n", keep_alive, cx);
    Ok(Opened::Answered { keep_alive })
}
