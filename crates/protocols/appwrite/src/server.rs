//! Frames of the server besides events and errors, appended by hand.
//!
//! Every generation of clients reads these frames: old ones ignore `subscriptions`, new ones
//! (SDKs from 22.1 on) deliver nothing without it.

use crate::connect::{Slot, write_slot_ids};
use crate::json;

pub const PONG: &[u8] = br#"{"type":"pong"}"#;

#[derive(Clone, Copy, Debug)]
pub struct Connected<'c, S> {
    /// All channels of the URL under the client's identity, each once.
    pub channels: &'c [String],
    /// The URL's slots with the ids that the server gave them.
    pub subscriptions: &'c [(Slot, S)],
    /// The account document, or nothing for a guest.
    pub account: Option<&'c str>,
}

impl<S: AsRef<str>> Connected<'_, S> {
    /// Appends the frame. `account` is embedded as it stands, so it must be one JSON value.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(br#"{"type":"connected","data":{"channels":"#);
        json::push_strs(out, self.channels);
        out.extend_from_slice(br#","subscriptions":"#);
        write_slot_ids(self.subscriptions, out);
        out.extend_from_slice(br#","user":"#);
        out.extend_from_slice(self.account.unwrap_or("null").as_bytes());
        out.extend_from_slice(b"}}");
    }
}

/// The `response` to a good message. SDKs ignore it.
#[derive(Clone, Copy, Debug)]
pub enum Response<'r> {
    /// The session was good; its account document, embedded as it stands.
    Authentication { account: &'r str },
    /// Subscriptions as they are now, in the message's order.
    Subscribe(&'r [SubscriptionEntry<'r>]),
    /// Ids, and whether there was such a subscription.
    Unsubscribe(&'r [(&'r str, bool)]),
    /// The stored presence document, embedded as it stands.
    Presence { presence: &'r str },
}

#[derive(Clone, Copy, Debug)]
pub struct SubscriptionEntry<'r> {
    /// The subscription's id, the client's or ours.
    pub id: &'r str,
    /// Channels under the client's identity.
    pub channels: &'r [String],
    /// Queries as a JSON array of texts ([`QueryFilter::text`](crate::QueryFilter::text)).
    pub queries: &'r str,
}

impl Response<'_> {
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(br#"{"type":"response","data":{"to":"#);
        match *self {
            Self::Authentication { account } => {
                out.extend_from_slice(br#""authentication","success":true,"user":"#);
                out.extend_from_slice(account.as_bytes());
            }
            Self::Subscribe(items) => {
                out.extend_from_slice(br#""subscribe","success":true,"subscriptions":"#);
                json::push_list(out, items, |out, item| item.encode(out));
            }
            Self::Unsubscribe(items) => {
                out.extend_from_slice(br#""unsubscribe","success":true,"subscriptions":"#);
                json::push_list(out, items, |out, (id, removed)| {
                    out.extend_from_slice(br#"{"subscriptionId":"#);
                    json::push_str(out, id);
                    out.extend_from_slice(br#","removed":"#);
                    out.extend_from_slice(if *removed { b"true}" } else { b"false}" });
                });
            }
            Self::Presence { presence } => {
                out.extend_from_slice(br#""presence","presence":"#);
                out.extend_from_slice(presence.as_bytes());
            }
        }
        out.extend_from_slice(b"}}");
    }
}

impl SubscriptionEntry<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(br#"{"subscriptionId":"#);
        json::push_str(out, self.id);
        out.extend_from_slice(br#","channels":"#);
        json::push_strs(out, self.channels);
        out.extend_from_slice(br#","queries":"#);
        out.extend_from_slice(self.queries.as_bytes());
        out.push(b'}');
    }
}

/// An id for a subscription without one: 13 hexadecimal digits of time and 7 of chance, the form
/// of Appwrite's `ID::unique()` and of the SDKs' own.
#[must_use]
pub fn subscription_id(unix_micros: u64, random: u32) -> String {
    let seconds = unix_micros / 1_000_000;
    let micros = unix_micros % 1_000_000;
    // Eight digits of seconds last until the year 2106; beyond, they wrap like PHP's own.
    format!(
        "{:08x}{micros:05x}{:07x}",
        seconds as u32,
        random & 0x0fff_ffff
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(encode: impl FnOnce(&mut Vec<u8>), frame: &str) {
        let mut out = Vec::new();
        encode(&mut out);
        assert_eq!(String::from_utf8(out).unwrap(), frame);
    }

    #[test]
    fn connected() {
        let files = ["files".to_owned()];
        let slots = [(Slot::Number(0), "6511f2a30b1c2abcdef0")];
        let connected = Connected {
            channels: &files,
            subscriptions: &slots,
            account: Some(r#"{"$id":"U"}"#),
        };
        check(
            |out| connected.encode(out),
            concat!(
                r#"{"type":"connected","data":{"channels":["files"],"#,
                r#""subscriptions":["6511f2a30b1c2abcdef0"],"user":{"$id":"U"}}}"#,
            ),
        );
        let connected = Connected::<&str> {
            channels: &[],
            subscriptions: &[],
            account: None,
        };
        check(
            |out| connected.encode(out),
            r#"{"type":"connected","data":{"channels":[],"subscriptions":[],"user":null}}"#,
        );
    }

    #[test]
    fn responses() {
        check(
            |out| Response::Authentication { account: "{}" }.encode(out),
            r#"{"type":"response","data":{"to":"authentication","success":true,"user":{}}}"#,
        );
        let channels = ["a".to_owned(), "b".to_owned()];
        let item = SubscriptionEntry {
            id: "x",
            channels: &channels,
            queries: r#"["{}"]"#,
        };
        check(
            |out| Response::Subscribe(&[item, item]).encode(out),
            concat!(
                r#"{"type":"response","data":{"to":"subscribe","success":true,"#,
                r#""subscriptions":[{"subscriptionId":"x","channels":["a","b"],"#,
                r#""queries":["{}"]},{"subscriptionId":"x","channels":["a","b"],"#,
                r#""queries":["{}"]}]}}"#,
            ),
        );
        check(
            |out| Response::Unsubscribe(&[("x", true), ("y", false)]).encode(out),
            concat!(
                r#"{"type":"response","data":{"to":"unsubscribe","success":true,"#,
                r#""subscriptions":[{"subscriptionId":"x","removed":true},"#,
                r#"{"subscriptionId":"y","removed":false}]}}"#,
            ),
        );
        check(
            |out| Response::Presence { presence: "{}" }.encode(out),
            r#"{"type":"response","data":{"to":"presence","presence":{}}}"#,
        );
    }

    #[test]
    fn ids_have_twenty_digits() {
        assert_eq!(
            subscription_id(1_632_000_000_123_456, 0xf123_4567),
            "614658001e2401234567"
        );
        assert_eq!(subscription_id(0, 0).len(), 20);
        assert_eq!(subscription_id(u64::MAX, u32::MAX).len(), 20);
    }
}
