//! Answers to calls.

use serde::Deserialize;
use serde_json::value::RawValue;
use throng_types::json::{Object, append_list};

/// Facts about a channel; those that were not asked for are `None`, and left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelInfo<'a> {
    pub occupied: Option<bool>,
    /// Users in a presence channel.
    pub user_count: Option<u64>,
    pub subscription_count: Option<u64>,
    /// JSON about the newest event of a cache channel, as [`cached_event`] makes it.
    pub cache: Option<&'a str>,
}

/// Newest event of a channel, as [`crate::append_event`] wrote it.
#[derive(Deserialize)]
struct Newest<'a> {
    #[serde(borrow)]
    data: &'a RawValue,
}

/// Makes the JSON about an event that is kept for so many seconds more; `null` for none, or for
/// what no back end has published.
#[must_use]
pub fn cached_event(newest: Option<(&[u8], u64)>) -> String {
    let read = newest.and_then(|(event, ttl_s)| {
        let newest: Newest<'_> = serde_json::from_slice(event).ok()?;
        Some(format!(r#"{{"data":{},"ttl":{ttl_s}}}"#, newest.data))
    });
    read.unwrap_or_else(|| "null".to_owned())
}

impl ChannelInfo<'_> {
    /// Appends the object with what is known.
    pub fn append(&self, out: &mut Vec<u8>) {
        Object::append(out, |object| {
            if let Some(is_occupied) = self.occupied {
                object.flag("occupied", is_occupied);
            }
            for (key, number) in [
                ("user_count", self.user_count),
                ("subscription_count", self.subscription_count),
            ] {
                if let Some(number) = number {
                    object.number(key, number);
                }
            }
            if let Some(cache) = self.cache {
                object.json("cache", cache);
            }
        });
    }
}

/// Appends the answer with facts about channels: to a list of channels, or to an event.
pub fn channels_answer<'a>(
    channels: impl IntoIterator<Item = (&'a str, ChannelInfo<'a>)>,
    out: &mut Vec<u8>,
) {
    Object::append(out, |answer| {
        Object::append(answer.value("channels"), |by_name| {
            for (name, info) in channels {
                info.append(by_name.value_of(name));
            }
        });
    });
}

/// Appends the answer to a batch: one object for each event, in their order.
pub fn batch_answer(infos: &[ChannelInfo<'_>], out: &mut Vec<u8>) {
    Object::append(out, |answer| {
        append_list(infos, answer.value("batch"), ChannelInfo::append);
    });
}

/// Appends the answer with the users of a presence channel.
pub fn users_answer<'a>(ids: impl IntoIterator<Item = &'a str>, out: &mut Vec<u8>) {
    Object::append(out, |answer| {
        append_list(ids, answer.value("users"), |id, out| {
            Object::append(out, |user| user.text("id", id));
        });
    });
}

/// Appends the answer with the number of an app's connections.
pub fn connections_answer(count: u64, out: &mut Vec<u8>) {
    Object::append(out, |answer| answer.number("connections", count));
}

/// Appends the body that refuses a call: why, and the HTTP status as `code`, as in soketi.
pub fn error_answer(status: u16, why: &str, out: &mut Vec<u8>) {
    Object::append(out, |answer| {
        answer.text("error", why);
        answer.number("code", status);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        let written = |write: &dyn Fn(&mut Vec<u8>)| {
            let mut out = Vec::new();
            write(&mut out);
            String::from_utf8(out).unwrap()
        };
        let all = ChannelInfo {
            occupied: Some(true),
            user_count: Some(2),
            subscription_count: Some(3),
            cache: Some("null"),
        };
        let none = ChannelInfo::default();
        for (answer, expected) in [
            (
                written(&|out| channels_answer([("a", none), ("b", all)], out)),
                concat!(
                    r#"{"channels":{"a":{},"b":{"occupied":true,"user_count":2,"#,
                    r#""subscription_count":3,"cache":null}}}"#,
                ),
            ),
            (
                written(&|out| batch_answer(&[none, none], out)),
                r#"{"batch":[{},{}]}"#,
            ),
            (
                written(&|out| users_answer(["7", "8"], out)),
                r#"{"users":[{"id":"7"},{"id":"8"}]}"#,
            ),
            (
                written(&|out| connections_answer(5, out)),
                r#"{"connections":5}"#,
            ),
            (
                written(&|out| error_answer(404, "no", out)),
                r#"{"error":"no","code":404}"#,
            ),
        ] {
            assert_eq!(answer, expected);
        }
    }
}
