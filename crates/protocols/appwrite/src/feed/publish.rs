//! Events of our own making, in the form in which Appwrite publishes its events.

use throng_types::date;

use crate::json;

/// An event to put on the feed: for presence, for the `tests` channel, and for publishers that
/// have no Appwrite behind them.
#[derive(Clone, Copy, Debug)]
pub struct NewEvent<'e> {
    /// The project.
    pub project: &'e str,
    /// Who may get it.
    pub roles: &'e [&'e str],
    /// Its names, the most telling first.
    pub names: &'e [&'e str],
    /// Where it is heard.
    pub channels: &'e [&'e str],
    /// When it happened, in Unix milliseconds.
    pub time_unix_ms: u64,
    /// One JSON value.
    pub payload: &'e str,
}

impl NewEvent<'_> {
    /// Appends the message, for Redis or for [`FeedMessage::parse`](super::FeedMessage::parse).
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(br#"{"project":"#);
        json::push_str(out, self.project);
        out.extend_from_slice(br#","roles":"#);
        json::push_strs(out, self.roles);
        out.extend_from_slice(br#","permissionsChanged":false,"userId":null,"data":{"events":"#);
        json::push_strs(out, self.names);
        out.extend_from_slice(br#","channels":"#);
        json::push_strs(out, self.channels);
        out.extend_from_slice(br#","timestamp":"#);
        // As Appwrite writes a moment since 1.2.
        json::push_str(out, &date::rfc3339(self.time_unix_ms));
        out.extend_from_slice(br#","payload":"#);
        out.extend_from_slice(self.payload.as_bytes());
        out.extend_from_slice(b"}}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FeedMessage;

    #[test]
    fn what_is_published_can_be_read() {
        let mut message = Vec::new();
        NewEvent {
            project: "console",
            roles: &["guests"],
            names: &["test.event"],
            channels: &["tests"],
            time_unix_ms: 0,
            payload: r#"{"response":"WS:/v1/realtime:passed"}"#,
        }
        .encode(&mut message);
        let event = FeedMessage::parse(&message, 1 << 20).unwrap();
        assert_eq!(&*event.project, "console");
        assert_eq!(event.names(), ["test.event"]);
        assert_eq!(event.attributes()["response"], "WS:/v1/realtime:passed");
        assert!(!event.for_everyone());
    }
}
