//! Parameters of calls that JSON and Protobuf say in different ways.

use std::borrow::Cow;

use serde::{Deserialize as _, Deserializer};
use serde_json::value::RawValue;

use crate::code::Malformed;
use crate::field::{FromJson, message};
use crate::protobuf::{self, FromProtobuf, Message, Value};
use crate::request::{History, Since};

message! {
    /// Asks for past publications. In JSON it is the client's request, in Protobuf it has other
    /// numbers.
    pub struct HistoryRequest<'a> {
        pub channel: Cow<'a, str> = 1,
        /// At most so many publications; see [`History::limit`].
        pub limit: i32 = 2,
        /// Place before the first of them; see [`History::since`].
        pub since: Option<Since<'a>> = 3,
        /// Order with the latest first.
        pub reverse: bool = 4,
    }
}

impl<'a> From<HistoryRequest<'a>> for History<'a> {
    fn from(request: HistoryRequest<'a>) -> Self {
        Self {
            channel: request.channel,
            limit: request.limit,
            since: request.since,
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
        Ok(Self(json.map(Cow::Borrowed)))
    }
}

impl FromProtobuf<'_> for Overrides<'_> {
    fn merge(&mut self, value: Value<'_>) -> Result<(), Malformed> {
        const NAMES: [&str; 5] = [
            "presence",
            "join_leave",
            "force_recovery",
            "force_positioning",
            "force_push_join_leave",
        ];
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
