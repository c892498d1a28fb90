//! An event of a source, and the publication that it becomes.

use serde_json::Deserializer;
use serde_json::de::SliceRead;
use serde_json::value::RawValue;
use throng_broker::Draft;
use throng_types::{ChannelName, Payload, PayloadKind, SpanContext};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Event {
    /// Place in the source, which no other event ever has: the idempotency key.
    pub(crate) place: String,
    /// The channel, if the event names one.
    pub(crate) channel: Option<String>,
    /// Key at its source, if there is one: a record's key, a subject.
    pub(crate) key: Option<String>,
    pub(crate) data: Option<Vec<u8>>,
    /// Tags: a JSON object of texts.
    pub(crate) tags: Option<String>,
    /// Span of what made it, if that is sampled.
    pub(crate) trace: Option<SpanContext>,
    /// Longer than any that is published, so its data was not read.
    pub(crate) is_too_long: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unfit {
    /// Neither the event nor the options name a channel, or the name is none.
    #[error("it has no channel, or one with a name that is not allowed")]
    Channel,
    #[error("it has no data")]
    Data,
    #[error("its data is longer than limits.message_bytes_max")]
    TooLong,
    #[error("its tags are not a JSON object of strings")]
    Tags,
}

/// Rules by which events become publications.
#[derive(Clone, Debug)]
pub(crate) struct Mapping {
    /// The channel of all events; `{key}` in it stands for the event's key.
    pub channel: Option<String>,
    /// Keys are subjects: `{2}` in the channel stands for the second word between their dots.
    pub has_subjects: bool,
    pub data_bytes_max: usize,
    /// Publications are part of the traces of their events.
    pub is_traced: bool,
}

impl Mapping {
    pub(crate) fn draft(&self, event: Event) -> Result<Draft, Unfit> {
        if event.is_too_long {
            return Err(Unfit::TooLong);
        }
        let name = match &self.channel {
            Some(channel) => self.filled(channel, event.key.as_deref()),
            None => event.channel.or(event.key),
        };
        let name = name.ok_or(Unfit::Channel)?;
        let channel = ChannelName::new(&name).map_err(|_| Unfit::Channel)?;
        let data = event.data.ok_or(Unfit::Data)?;
        if data.len() > self.data_bytes_max {
            return Err(Unfit::TooLong);
        }
        Ok(Draft {
            tags: event.tags.map(|tags| checked(&tags)).transpose()?.flatten(),
            idempotency_key: Some(event.place.into()),
            trace: event.trace.filter(|_| self.is_traced).map(Box::new),
            ..Draft::new(channel, payload(&data))
        })
    }
}

impl Mapping {
    /// The channel, with what stands for something filled in; none if the event lacks it.
    fn filled(&self, channel: &str, key: Option<&str>) -> Option<String> {
        let mut name = String::with_capacity(channel.len());
        let mut rest = channel;
        while let Some((before, after)) = rest.split_once('{') {
            name.push_str(before);
            let inside = after.split_once('}');
            match inside.map(|(inside, after)| (inside, number(inside), after)) {
                Some(("key", _, after)) => {
                    name.push_str(key?);
                    rest = after;
                }
                Some((_, Some(number), after)) if self.has_subjects => {
                    name.push_str(key?.split('.').nth(number - 1)?);
                    rest = after;
                }
                _ => {
                    name.push('{');
                    rest = after;
                }
            }
        }
        name.push_str(rest);
        Some(name)
    }
}

/// From 1 on, in plain digits.
fn number(text: &str) -> Option<usize> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|&number| is_plain && number > 0)
}

fn payload(data: &[u8]) -> Payload {
    let kind = if is_json(data) {
        PayloadKind::Json
    } else if str::from_utf8(data).is_ok() {
        PayloadKind::Text
    } else {
        PayloadKind::Binary
    };
    let bytes = match kind {
        PayloadKind::Json => data.trim_ascii(),
        _ => data,
    };
    Payload {
        bytes: bytes.into(),
        kind,
    }
}

/// Whether it is one value of JSON, and nothing else.
fn is_json(data: &[u8]) -> bool {
    let mut values = Deserializer::new(SliceRead::new(data));
    let value: Result<&RawValue, _> = serde::Deserialize::deserialize(&mut values);
    value.is_ok() && values.end().is_ok()
}

/// The tags as they travel; no tags are none.
fn checked(tags: &str) -> Result<Option<Box<str>>, Unfit> {
    let object: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(tags).map_err(|_| Unfit::Tags)?;
    if !object.values().all(serde_json::Value::is_string) {
        return Err(Unfit::Tags);
    }
    Ok((!object.is_empty()).then(|| tags.trim().into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event() -> Event {
        Event {
            place: "pg 1".to_owned(),
            channel: Some("a".to_owned()),
            data: Some(b"{}".to_vec()),
            ..Event::default()
        }
    }

    fn mapping(channel: Option<&str>) -> Mapping {
        Mapping {
            channel: channel.map(str::to_owned),
            has_subjects: false,
            data_bytes_max: 8,
            is_traced: true,
        }
    }

    #[test]
    fn channels_come_from_the_options_the_event_or_its_key() {
        let with_key = Event {
            key: Some("7".to_owned()),
            ..event()
        };
        let only_key = Event {
            channel: None,
            ..with_key.clone()
        };
        for (option, event, expected) in [
            (None, event(), Some("a")),
            (Some("all"), event(), Some("all")),
            (Some("user:{key}"), with_key, Some("user:7")),
            (Some("user:{key}"), event(), None),
            (None, only_key, Some("7")),
        ] {
            let draft = mapping(option).draft(event);
            let found = draft.as_ref().map(|draft| draft.channel.as_str());
            assert_eq!(found.ok(), expected, "{option:?}");
        }
    }

    #[test]
    fn a_publication_is_part_of_the_trace_of_its_event() {
        let trace = SpanContext {
            trace_id: 1,
            span_id: 2,
        };
        let traced = Event {
            trace: Some(trace),
            ..event()
        };
        for (is_traced, event, expected) in [
            (true, traced.clone(), Some(trace)),
            (false, traced, None),
            (true, event(), None),
        ] {
            let mapping = Mapping {
                is_traced,
                ..mapping(None)
            };
            let draft = mapping.draft(event).expect("a good event");
            assert_eq!(draft.trace.as_deref(), expected.as_ref());
        }
    }

    #[test]
    fn words_of_a_subject_make_a_channel() {
        let with_subjects = Mapping {
            has_subjects: true,
            ..mapping(None)
        };
        let key = Some("shop.42.{1}");
        for (channel, filled) in [
            ("orders:{2}", Some("orders:42")),
            ("{1}:{2}-{key}", Some("shop:42-shop.42.{1}")),
            ("{3}", Some("{1}")),
            ("{4}", None),
            ("a{0}{x}{", Some("a{0}{x}{")),
            ("{{2}}", Some("{42}")),
            ("{18446744073709551616}", Some("{18446744073709551616}")),
        ] {
            let found = with_subjects.filled(channel, key);
            assert_eq!(found.as_deref(), filled, "{channel}");
        }
        assert_eq!(with_subjects.filled("a{1}", None), None);
        let without = mapping(None).filled("{2}{key}", Some("k"));
        assert_eq!(without.as_deref(), Some("{2}k"), "keys have no words");
    }

    #[test]
    fn data_is_json_text_or_bytes() {
        for (data, kind, kept) in [
            (&b" {\"a\":1}\n"[..], PayloadKind::Json, &b"{\"a\":1}"[..]),
            (b"1 2", PayloadKind::Text, b"1 2"),
            (b"", PayloadKind::Text, b""),
            (b"\xff", PayloadKind::Binary, b"\xff"),
        ] {
            let found = payload(data);
            assert_eq!((found.kind, &*found.bytes), (kind, kept), "{data:?}");
        }
    }

    #[test]
    fn what_does_not_fit_is_said() {
        let with = |change: &dyn Fn(&mut Event)| {
            let mut event = event();
            change(&mut event);
            mapping(None).draft(event)
        };
        let tags = |tags: &str| with(&|event| event.tags = Some(tags.to_owned()));
        assert_eq!(with(&|it| it.data = None).unwrap_err(), Unfit::Data);
        let long = with(&|it| it.data = Some(vec![b'1'; 9]));
        assert_eq!(long.unwrap_err(), Unfit::TooLong);
        let unread = with(&|it| it.is_too_long = true);
        assert_eq!(unread.unwrap_err(), Unfit::TooLong);
        let name = with(&|it| it.channel = Some(String::new()));
        assert_eq!(name.unwrap_err(), Unfit::Channel);
        for wrong in ["[]", "{\"a\":1}", "x"] {
            assert_eq!(tags(wrong).unwrap_err(), Unfit::Tags, "{wrong}");
        }
        assert_eq!(tags("{}").unwrap().tags, None);
        assert!(tags("{\"a\":\"1\"}").unwrap().tags.is_some());
    }
}
