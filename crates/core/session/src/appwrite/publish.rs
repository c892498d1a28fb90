//! `POST /v1/realtime/events` on the API port: an event in the form in which Appwrite announces it
//! on Redis, so that Appwrite and Redis need not be there.
//!
//! The answer is 202 when the event is on its way to all shards, in the order of the requests of
//! one connection; 400 for what is no event; 503 when too many wait already, and then it was not
//! taken.

use throng_appwrite::FeedMessage;

use crate::Desk;
use crate::api::{Incoming, Reject};
use crate::effects::Fx;
use crate::http::Next;

/// Takes one event.
pub(crate) fn publish(
    incoming: &Incoming<'_, '_>,
    desk: &Desk,
    fx: &mut Fx<'_>,
) -> Result<Next, Reject> {
    let Some(appwrite) = desk.appwrite.as_deref() else {
        let hint =
            "Appwrite Realtime is off; a section [appwrite] in the configuration turns it on";
        return Err(Reject::new(404, hint));
    };
    let event = FeedMessage::parse(incoming.body, desk.limits.publish_bytes_max)
        .map_err(|error| Reject::new(400, error.to_string()))?;
    appwrite
        .outside
        .publish(event)
        .map_err(|_| Reject::new(503, "too many events wait; send it again in a moment"))?;
    let keep_alive = incoming.request.keep_alive();
    let headers = [("Content-Type", "application/json")];
    throng_http1::encode_response(202, &headers, b"{}\n", keep_alive, fx.out);
    Ok(Next::Answered { keep_alive })
}
