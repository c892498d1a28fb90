//! Parameters of calls that JSON and Protobuf say in different ways.

use std::borrow::Cow;

use serde::{Deserialize as _, Deserializer};
use serde_json::value::RawValue;

use super::fields::{Field, FieldType, Kind, misfit, parameters};
use crate::code::Malformed;
use crate::field::FromJson;
use crate::protobuf::{self, FromProtobuf, Message, Value};
use crate::request::{History, Since};

parameters! {
    /// Asks for past publications. In JSON it is the client's request, in Protobuf it has other
    /// numbers.
    pub struct HistoryRequest<'a> {
        /// The channel whose history is wanted.
        pub channel: Cow<'a, str> = 1,
        /// At most so many publications; 0 for the position alone, below 0 for all. A page has at
        /// most `limits.history_reply_max` publications of `limits.history_reply_bytes_max` bytes;
        /// ask for the next with `since`.
        pub limit: i32 = 2,
        /// Only publications after this position, or before it with `reverse`. Error 112 if it is
        /// not a position of this stream.
        pub since: Option<StatedPosition<'a>> = 3,
        /// Begin with the latest.
        pub reverse: bool = 4,
    }
}

parameters! {
    /// A position as backends state it.
    pub struct StatedPosition<'a> {
        /// The offset of the last publication that is known.
        pub offset: u64 = 1,
        /// The epoch that came with it; empty only with offset 0, for the beginning.
        pub epoch: Cow<'a, str> = 2,
    }
}

impl<'a> From<HistoryRequest<'a>> for History<'a> {
    fn from(request: HistoryRequest<'a>) -> Self {
        Self {
            channel: request.channel,
            limit: request.limit,
            since: request.since.map(|since| Since {
                offset: since.offset,
                epoch: since.epoch,
            }),
            reverse: request.reverse,
        }
    }
}

/// Options that a subscription sets aside, as the JSON that tokens have.
#[derive(Debug, Default)]
pub struct Overrides<'a>(pub Option<Cow<'a, RawValue>>);

impl<'de: 'a, 'a> FromJson<'de> for Overrides<'a> {
    fn from_json<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Option::<&RawValue>::deserialize(deserializer)?;
        if let Some(fault) = json.and_then(|json| misfit(FIELDS, json.get())) {
            return Err(serde::de::Error::custom(fault));
        }
        Ok(Self(json.map(Cow::Borrowed)))
    }
}

/// Options in the order of their numbers in Protobuf.
const NAMES: [&str; 5] = [
    "presence",
    "join_leave",
    "force_recovery",
    "force_positioning",
    "force_push_join_leave",
];

const FIELDS: &[Field] = &{
    const VALUE: &[Field] = &[Field {
        name: "value",
        doc: "In place of the channel's option; `null` is refused (107).",
        kind: Kind::Flag,
    }];
    let mut fields = [Field {
        name: "",
        doc: "In place of the channel's option of that name.",
        kind: Kind::Object(VALUE),
    }; NAMES.len()];
    let mut at = 0;
    while at < NAMES.len() {
        fields[at].name = NAMES[at];
        at += 1;
    }
    fields
};

impl FieldType for Overrides<'_> {
    const KIND: Kind = Kind::Object(FIELDS);
}

impl FromProtobuf<'_> for Overrides<'_> {
    fn merge(&mut self, value: Value<'_>) -> Result<(), Malformed> {
        let mut flags = [None; NAMES.len()];
        let mut fields = protobuf::Fields(value.bytes()?);
        while let Some((number, value)) = fields.next()? {
            let place = usize::try_from(number).ok().and_then(|n| n.checked_sub(1));
            if let Some(flag) = place.and_then(|place| flags.get_mut(place)) {
                let BoolValue(is_set) = protobuf::read(value.bytes()?)?;
                *flag = Some(is_set);
            }
        }
        let each = NAMES.iter().zip(flags);
        let each =
            each.filter_map(|(name, flag)| Some(format!("\"{name}\":{{\"value\":{}}}", flag?)));
        let json = format!("{{{}}}", each.collect::<Vec<_>>().join(","));
        self.0 = RawValue::from_string(json).ok().map(Cow::Owned);
        Ok(())
    }
}

/// A flag that may be missing.
#[derive(Default)]
struct BoolValue(bool);

impl Message<'_> for BoolValue {
    fn field(&mut self, number: u64, value: Value<'_>) -> Result<(), Malformed> {
        match number {
            1 => self.0.merge(value),
            _ => Ok(()),
        }
    }
}
