//! What a server says about a subscription, over all of its transports.

use serde_json::Value;

/// What a server says about the subscription itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The subscriptions stand.
    Subscribed {
        /// Whether everything was brought that was missed; nothing for a client that comes for the
        /// first time.
        recovered: Option<bool>,
    },
    /// So many publications were not delivered, because this end was too slow.
    Dropped(u64),
    /// The server ended the subscription to this channel.
    Unsubscribed(String),
    /// The server is about to end the connection.
    Disconnect {
        /// Why, as a number.
        code: u64,
        /// Why, in words.
        reason: String,
    },
}

impl Notice {
    /// Nothing for a sign of life, or for what a later version says.
    pub(super) fn read(value: &Value) -> Option<Self> {
        if let Some(recovered) = value.get("recovered").and_then(Value::as_bool) {
            let resuming = value.get("resuming").and_then(Value::as_bool) == Some(true);
            return Some(Self::Subscribed {
                recovered: resuming.then_some(recovered),
            });
        }
        if let Some(count) = value.get("dropped").and_then(Value::as_u64) {
            return Some(Self::Dropped(count));
        }
        if let Some(channel) = value.get("unsubscribed").and_then(Value::as_str) {
            return Some(Self::Unsubscribed(channel.to_owned()));
        }
        // Lines have the object in a member of its own, events are named.
        let value = value.get("disconnect").unwrap_or(value);
        let reason = value.get("reason").and_then(Value::as_str);
        Some(Self::Disconnect {
            code: value.get("code")?.as_u64()?,
            reason: reason.unwrap_or_default().to_owned(),
        })
    }

    /// Whether there is no sense in coming back (Centrifugo, page "Client protocol codes": 3500 to
    /// 3999 and 4500 to 4999).
    #[must_use]
    pub const fn is_final(&self) -> bool {
        matches!(self, Self::Disconnect { code: 3500..=3999 | 4500..=4999, .. })
    }
}
