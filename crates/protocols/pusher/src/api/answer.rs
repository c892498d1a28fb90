//! Answers to calls, appended by hand.

use serde::Deserialize;
use serde_json::value::RawValue;
use throng_types::json::append_str;

use crate::server::append_number;

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
        let occupied = self.occupied.map(|is| if is { "true" } else { "false" });
        let numbers = [self.user_count, self.subscription_count];
        let numbers = numbers.map(|number| number.map(|number| number.to_string()));
        let [user_count, subscription_count] = &numbers;
        let fields = [
            ("occupied", occupied),
            ("user_count", user_count.as_deref()),
            ("subscription_count", subscription_count.as_deref()),
            ("cache", self.cache),
        ];
        let known = fields
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)));
        append_object(known, out, |value, out| {
            out.extend_from_slice(value.as_bytes())
        });
    }
}

/// Appends the answer with facts about channels: to a list of channels, or to an event.
pub fn channels_answer<'a>(
    channels: impl IntoIterator<Item = (&'a str, ChannelInfo<'a>)>,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(br#"{"channels":"#);
    append_object(channels, out, |info, out| info.append(out));
    out.push(b'}');
}

/// Appends the answer to a batch: one object for each event, in their order.
pub fn batch_answer(infos: &[ChannelInfo<'_>], out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"batch":"#);
    append_list(infos, out, |info, out| info.append(out));
    out.push(b'}');
}

/// Appends the answer with the users of a presence channel.
pub fn users_answer<'a>(ids: impl IntoIterator<Item = &'a str>, out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"users":"#);
    append_list(ids, out, |id, out| {
        out.extend_from_slice(br#"{"id":"#);
        append_str(id, out);
        out.push(b'}');
    });
    out.push(b'}');
}

/// Appends the answer with the number of an app's connections.
pub fn connections_answer(count: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"connections":"#);
    append_number(count, out);
    out.push(b'}');
}

/// Appends the body that refuses a call: why, and the HTTP status as `code`, as in soketi.
pub fn error_answer(status: u16, why: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"error":"#);
    append_str(why, out);
    out.extend_from_slice(br#","code":"#);
    append_number(status.into(), out);
    out.push(b'}');
}

fn append_object<'a, T>(
    fields: impl IntoIterator<Item = (&'a str, T)>,
    out: &mut Vec<u8>,
    mut append: impl FnMut(T, &mut Vec<u8>),
) {
    out.push(b'{');
    let first = out.len();
    for (name, value) in fields {
        if out.len() > first {
            out.push(b',');
        }
        append_str(name, out);
        out.push(b':');
        append(value, out);
    }
    out.push(b'}');
}

fn append_list<T>(
    items: impl IntoIterator<Item = T>,
    out: &mut Vec<u8>,
    mut append: impl FnMut(T, &mut Vec<u8>),
) {
    out.push(b'[');
    let first = out.len();
    for item in items {
        if out.len() > first {
            out.push(b',');
        }
        append(item, out);
    }
    out.push(b']');
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
