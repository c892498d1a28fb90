//! Frames of the server besides events and errors.
//!
//! Every generation of clients reads these frames: old ones ignore `subscriptions`, new ones
//! (SDKs from 22.1 on) deliver nothing without it.

use throng_types::json::Object;

use crate::connect::{Slot, write_slot_ids};

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
        frame("connected", out, |data| {
            data.texts("channels", self.channels);
            write_slot_ids(self.subscriptions, data.value("subscriptions"));
            data.json("user", self.account.unwrap_or("null"));
        });
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
        frame("response", out, |data| match *self {
            Self::Authentication { account } => {
                success("authentication", data);
                data.json("user", account);
            }
            Self::Subscribe(items) => {
                success("subscribe", data);
                data.objects("subscriptions", items, |item, entry| {
                    entry.text("subscriptionId", item.id);
                    entry.texts("channels", item.channels);
                    entry.json("queries", item.queries);
                });
            }
            Self::Unsubscribe(items) => {
                success("unsubscribe", data);
                data.objects("subscriptions", items, |(id, removed), entry| {
                    entry.text("subscriptionId", id);
                    entry.flag("removed", *removed);
                });
            }
            Self::Presence { presence } => {
                data.text("to", "presence");
                data.json("presence", presence);
            }
        });
    }
}

fn frame(kind: &str, out: &mut Vec<u8>, write: impl FnOnce(&mut Object<'_>)) {
    Object::append(out, |frame| {
        frame.text("type", kind);
        Object::append(frame.value("data"), write);
    });
}

fn success(to: &str, data: &mut Object<'_>) {
    data.text("to", to);
    data.flag("success", true);
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
