//! Fields of calls: the table that declares their reader, for the reference of the API and for
//! bodies that do not fit.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use throng_types::nearest;

use crate::field::{FromJson, IfThere, Tags};
use crate::json::{ClientData, each_entry};
use crate::protobuf::Message;

/// Field of a call's parameters in JSON.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    pub name: &'static str,
    /// Meaning for readers of the reference, in Markdown.
    pub doc: &'static str,
    pub kind: Kind,
}

/// Values that a field takes, `null` beside them.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Flag,
    /// Number without a fraction, between these.
    Number(i64, u64),
    Text,
    Texts,
    /// Any JSON, of which `null` is a value like others.
    Json,
    /// Object whose values are strings.
    Tags,
    Object(&'static [Field]),
    /// Taken and ignored: Centrifugo or an older client has it.
    Ignored,
}

impl Kind {
    /// Says what is wanted in place of a value that does not fit; objects are looked into by
    /// [`misfit`].
    fn wanted(self, json: &str) -> Option<String> {
        fn reads<'a, T: FromJson<'a>>(json: &'a str) -> bool {
            T::from_json(&mut serde_json::Deserializer::from_str(json)).is_ok()
        }
        let (fits, wanted) = match self {
            Self::Flag => (reads::<bool>(json), "true or false"),
            Self::Text => (reads::<Cow<'_, str>>(json), "a string"),
            Self::Texts => (reads::<Vec<Cow<'_, str>>>(json), "a list of strings"),
            Self::Tags => (reads::<Tags<'_>>(json), "an object of strings"),
            Self::Number(min, max) => {
                let bounds = i128::from(min)..=i128::from(max);
                let fits = serde_json::from_str::<Option<i128>>(json)
                    .is_ok_and(|number| bounds.contains(&number.unwrap_or(0)));
                return (!fits).then(|| format!("a whole number, {min} to {max}"));
            }
            Self::Object(_) | Self::Json | Self::Ignored => return None,
        };
        (!fits).then(|| wanted.to_owned())
    }
}

impl Field {
    /// A field that only its name and kind say something of.
    pub(super) const fn new(name: &'static str, kind: Kind) -> Self {
        Self {
            name,
            doc: "",
            kind,
        }
    }
}

/// A value that is taken and ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ignored;

impl<'de> FromJson<'de> for Ignored {
    fn from_json<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        serde::de::IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

/// Parameters whose fields are a table.
pub(crate) trait Fields {
    const FIELDS: &'static [Field];
}

/// A type of fields, and what they take.
pub(crate) trait FieldType {
    const KIND: Kind;
}

macro_rules! kinds {
    ($($Type:ty => $kind:expr;)+) => {
        $(impl FieldType for $Type { const KIND: Kind = $kind; })+
    };
}

kinds! {
    bool => Kind::Flag;
    i32 => Kind::Number(i32::MIN as i64, i32::MAX as u64);
    i64 => Kind::Number(i64::MIN, i64::MAX as u64);
    u32 => Kind::Number(0, u32::MAX as u64);
    u64 => Kind::Number(0, u64::MAX);
    Cow<'_, str> => Kind::Text;
    Vec<Cow<'_, str>> => Kind::Texts;
    IfThere<ClientData<'_>> => Kind::Json;
    Tags<'_> => Kind::Tags;
    Ignored => Kind::Ignored;
}

impl<M: Fields> FieldType for Option<M> {
    const KIND: Kind = Kind::Object(M::FIELDS);
}

/// Parameters of a call that has none.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoFields {}

impl Fields for NoFields {
    const FIELDS: &'static [Field] = &[];
}

impl Message<'_> for NoFields {
    fn field(&mut self, _: u64, _: crate::protobuf::Value<'_>) -> Result<(), crate::Malformed> {
        Ok(())
    }
}

/// Declares a message whose fields are a table, too, and are all that it takes. Those behind
/// `ignored` are taken and ignored.
macro_rules! parameters {
    ($(#[$meta:meta])* $vis:vis struct $Name:ident<'a> {
        $(
            $(#[doc = $doc:literal])+
            $(#[serde(rename = $rename:literal)])?
            $field_vis:vis $field:ident: $Type:ty = $number:literal,
        )*
        $(ignored $($ignored:ident)+)?
    }) => {
        crate::field::message! {
            $(#[$meta])*
            #[serde(deny_unknown_fields)]
            $vis struct $Name<'a> {
                $(
                    $(#[doc = $doc])+
                    $(#[serde(rename = $rename)])?
                    $field_vis $field: $Type = $number,
                )*
                $($($ignored: crate::api::fields::Ignored,)+)?
            }
        }

        impl<'a> crate::api::fields::Fields for $Name<'a> {
            const FIELDS: &'static [crate::api::fields::Field] = &[
                $(crate::api::fields::Field {
                    name: crate::api::fields::parameters!(@name $field $($rename)?),
                    doc: concat!($($doc),+),
                    kind: <$Type as crate::api::fields::FieldType>::KIND,
                },)*
                $($(crate::api::fields::Field {
                    name: stringify!($ignored),
                    doc: "",
                    kind: crate::api::fields::Kind::Ignored,
                },)+)?
            ];
        }
    };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $rename:literal) => { $rename };
}

pub(crate) use parameters;

/// Characters of an unknown name that are said back.
const NAME_CHARS_MAX: usize = 64;

/// Says which field of an object does not fit, and what was wanted; `None` if each does, or the
/// text is no JSON.
pub(super) fn misfit(fields: &[Field], json: &str) -> Option<String> {
    if json.trim_ascii_start().starts_with(|first| first != '{') {
        return Some("an object is wanted".to_owned());
    }
    let mut found = None;
    let mut reader = serde_json::Deserializer::from_str(json);
    let each = |name: Cow<'_, str>, value: &RawValue| {
        found = found
            .take()
            .or_else(|| misfit_of(fields, &name, value.get()));
    };
    each_entry(&mut reader, each).ok()?;
    found
}

/// Says that a name is none of these.
pub(super) fn unknown(name: &str, known: Vec<&str>) -> String {
    let name: String = name.chars().take(NAME_CHARS_MAX).collect();
    let hint = match nearest(&name, known.iter().copied()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None if known.is_empty() => "there are none".to_owned(),
        None => format!("the fields are {}", known.join(", ")),
    };
    format!("unknown field `{name}`: {hint}")
}

fn misfit_of(fields: &[Field], name: &str, json: &str) -> Option<String> {
    let Some(field) = fields.iter().find(|field| field.name == name) else {
        let known = fields
            .iter()
            .filter(|field| !matches!(field.kind, Kind::Ignored));
        return Some(unknown(name, known.map(|field| field.name).collect()));
    };
    if let Some(wanted) = field.kind.wanted(json) {
        return Some(format!("`{name}` wants {wanted}"));
    }
    match field.kind {
        Kind::Object(inner) if json != "null" => {
            misfit(inner, json).map(|fault| format!("in `{name}`: {fault}"))
        }
        _ => None,
    }
}
