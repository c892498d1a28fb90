//! The kinds of values that options take: how each is read, checked, described and written.
//!
//! A kind is a type that is never made; it ties a field's Rust type to its text form.
//! Reading takes a TOML value or a plain text (from a variable or a flag) alike.

mod address;
mod text;

use std::ops::Range;

use serde_json::{Value, json};
use throng_types::units::{duration_text, parse_duration_ms, parse_size_bytes, size_text};
use toml::Spanned;
use toml::de::DeValue;

pub use address::ListenAddress;
pub(crate) use address::{
    Address, AddressBlock, AskUrl, BaseUrl, BrokerUrl, Endpoint, FeedUrl, HttpUrl, Listener,
    OriginUrl, RedisUrl, WebOrigin,
};
pub(crate) use text::{
    Choice, ForwardedForText, HostName, MetricPrefix, Named, PathPrefix, Pem, SecretText,
    SigningSecret, StatusText, TargetLevel, Text, TextKind, choice,
};
pub use text::{ForwardedFor, ProxyStatus};

/// Default of permissions that are not set, for the reference.
pub(crate) const OPEN: &str = "true in open mode, else false";

#[derive(Clone, Copy, Debug)]
pub(crate) enum Input<'a> {
    Text(&'a str),
    Toml(&'a Spanned<DeValue<'a>>),
}

impl Input<'_> {
    fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Toml(value) => value.get_ref().as_str(),
        }
    }

    /// The bytes of the file that this value takes.
    fn span(&self) -> Option<Range<usize>> {
        match self {
            Self::Text(_) => None,
            Self::Toml(value) => Some(value.span()),
        }
    }

    /// Quotes the value for a message; secrets are never repeated.
    fn describe(&self, secret: bool) -> String {
        let value = match self {
            Self::Text(_) if secret => return "something else".to_owned(),
            Self::Text(text) if is_private_key(text) => return "a private key".to_owned(),
            Self::Text(text) if has_user(text) => return "a URL with a user name".to_owned(),
            Self::Text(text) => return quoted_short(text),
            Self::Toml(value) => value.get_ref(),
        };
        match value {
            DeValue::String(text) if is_private_key(text) => "a private key".to_owned(),
            DeValue::String(text) if has_user(text) && !secret => {
                "a URL with a user name".to_owned()
            }
            DeValue::String(_) if secret => "another text".to_owned(),
            DeValue::String(text) => quoted_short(text),
            DeValue::Integer(_) if secret => "a number".to_owned(),
            DeValue::Integer(number) => format!("the number {number}"),
            DeValue::Float(_) => "a number with a fraction".to_owned(),
            DeValue::Boolean(flag) => flag.to_string(),
            DeValue::Datetime(_) => "a date or time".to_owned(),
            DeValue::Array(_) => "a list".to_owned(),
            DeValue::Table(_) => "a section".to_owned(),
        }
    }
}

/// Reason why a value was refused, with the bytes at fault.
#[derive(Debug)]
pub(crate) struct Fault {
    /// "expected …, found …".
    pub(crate) message: String,
    /// Bytes of the file, when the value stands in one.
    pub(crate) span: Option<Range<usize>>,
}

/// Constraints of one option, besides its kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    min: u64,
    max: u64,
    /// Whether zero is allowed below `min`, and what it then means.
    zero: Option<&'static str>,
    pub(crate) secret: bool,
    pub(crate) flag: Option<&'static str>,
    /// A TOML value to show where there is no default.
    pub(crate) example: &'static str,
    /// Text for the reference while the option is unset, if that is not one value.
    pub(crate) unset: &'static str,
    /// Whether a running server keeps the value that it was started with.
    pub(crate) restart: bool,
    /// Whether the default is that of open mode.
    pub(crate) permission: bool,
    /// Whether it names a file, which counts from the folder of the configuration file.
    pub(crate) file: bool,
}

/// Declares setters of a field each.
macro_rules! words {
    ($($word:ident $(($value:ident: $Type:ty))? = $set:expr;)+) => {$(
        pub(crate) const fn $word(mut self $(, $value: $Type)?) -> Self {
            self.$word = $set;
            self
        }
    )+};
}

/// The setters are the words of the table of options.
impl Rule {
    pub(crate) const ANY: Self = Self {
        min: 0,
        max: u64::MAX,
        zero: None,
        secret: false,
        flag: None,
        example: "",
        unset: "",
        restart: false,
        permission: false,
        file: false,
    };

    pub(crate) const fn range(self, min: u64, max: u64) -> Self {
        Self { min, max, ..self }
    }

    words! {
        zero(meaning: &'static str) = Some(meaning);
        flag(flag: &'static str) = Some(flag);
        example(example: &'static str) = example;
        unset(unset: &'static str) = unset;
        secret = true;
        restart = true;
        file = true;
    }

    pub(crate) const fn permission(mut self) -> Self {
        self.permission = true;
        self.example("false").unset(OPEN)
    }

    /// The integers that it admits up to `most`, as JSON Schema.
    fn integers(&self, most: u64) -> Value {
        let within =
            json!({ "type": "integer", "minimum": self.min, "maximum": self.max.min(most) });
        match self.zero {
            Some(_) => json!({ "anyOf": [within, { "const": 0 }] }),
            None => within,
        }
    }

    fn admits(&self, value: u64) -> bool {
        (self.min..=self.max).contains(&value) || (value == 0 && self.zero.is_some())
    }

    /// " from A to B", with what zero means, or nothing where everything goes.
    fn bounds(&self, text: impl Fn(u64) -> String) -> String {
        let range = match (self.min, self.max) {
            (0, u64::MAX) => String::new(),
            (min, u64::MAX) => format!(" of at least {}", text(min)),
            (min, max) => format!(" from {} to {}", text(min), text(max)),
        };
        match self.zero {
            Some(meaning) => format!("{range} or {} ({meaning})", text(0)),
            None => range,
        }
    }
}

/// Type of an option's values: how they are read, checked and written.
pub(crate) trait Kind {
    type Field;
    /// For the reference: "duration", "list of addresses".
    fn name() -> String;
    /// For messages: what follows "expected".
    fn expected(rule: &Rule) -> String;
    fn read(given: &Input<'_>, rule: &Rule) -> Result<Self::Field, Fault>;
    /// The value as TOML, none while it is unset.
    fn write(value: &Self::Field) -> Option<String>;
    /// Values that may stand in the file, as JSON Schema; it may admit some that are refused later.
    fn schema(rule: &Rule) -> Value;
    /// Whether flags and variables may give several values.
    const LIST: bool = false;

    fn refuse<T>(given: &Input<'_>, rule: &Rule) -> Result<T, Fault> {
        Err(Fault {
            message: format!(
                "expected {}, found {}",
                Self::expected(rule),
                given.describe(rule.secret)
            ),
            span: given.span(),
        })
    }
}

pub(crate) struct Bool;

impl Kind for Bool {
    type Field = bool;

    fn name() -> String {
        "bool".to_owned()
    }

    fn expected(_: &Rule) -> String {
        "true or false".to_owned()
    }

    fn read(given: &Input<'_>, rule: &Rule) -> Result<bool, Fault> {
        match given {
            Input::Text("true") => Ok(true),
            Input::Text("false") => Ok(false),
            Input::Toml(value) => match value.get_ref() {
                DeValue::Boolean(flag) => Ok(*flag),
                _ => Self::refuse(given, rule),
            },
            Input::Text(_) => Self::refuse(given, rule),
        }
    }

    fn write(value: &bool) -> Option<String> {
        Some(value.to_string())
    }

    fn schema(_: &Rule) -> Value {
        json!({ "type": "boolean" })
    }
}

/// A whole number, without a unit.
pub(crate) struct Count;

impl Kind for Count {
    type Field = u32;

    fn name() -> String {
        "number".to_owned()
    }

    fn expected(rule: &Rule) -> String {
        let rule = rule.range(rule.min, rule.max.min(u32::MAX.into()));
        format!("a whole number{}", rule.bounds(|value| value.to_string()))
    }

    fn read(given: &Input<'_>, rule: &Rule) -> Result<u32, Fault> {
        let number = match given {
            Input::Text(text) => text.trim().parse().ok(),
            Input::Toml(value) => integer(value.get_ref()),
        };
        number
            .filter(|&number| rule.admits(number))
            .and_then(|number| u32::try_from(number).ok())
            .map_or_else(|| Self::refuse(given, rule), Ok)
    }

    fn write(value: &u32) -> Option<String> {
        Some(value.to_string())
    }

    fn schema(rule: &Rule) -> Value {
        rule.integers(u32::MAX.into())
    }
}

/// Declares kinds of numbers with a unit, written as texts: examples for messages, the function
/// that reads a text, the one that writes it, whether a bare number is one too, and the pattern of
/// texts.
macro_rules! measures {
    ($(
        $(#[$doc:meta])+
        $kind:ident(
            $name:literal, $examples:literal, $parse:ident, $text:ident, $is_plain:literal,
            $pattern:literal
        );
    )+) => {$(
        $(#[$doc])+
        pub(crate) struct $kind;

        impl Kind for $kind {
            type Field = u64;

            fn name() -> String {
                $name.to_owned()
            }

            fn expected(rule: &Rule) -> String {
                format!("a {}{}", $name, rule.bounds(|value| quoted(&$text(value))))
            }

            fn read(given: &Input<'_>, rule: &Rule) -> Result<u64, Fault> {
                let value = match given {
                    Input::Toml(value) if $is_plain && value.get_ref().is_integer() => {
                        integer(value.get_ref())
                    }
                    _ => given.as_str().and_then(|text| $parse(text).ok()),
                };
                match value {
                    Some(value) if rule.admits(value) => Ok(value),
                    Some(_) => Self::refuse(given, rule),
                    None => Self::refuse(given, rule).map_err(|mut fault: Fault| {
                        fault.message += concat!("; write it like ", $examples);
                        fault
                    }),
                }
            }

            fn write(value: &u64) -> Option<String> {
                Some(quoted(&$text(*value)))
            }

            fn schema(rule: &Rule) -> Value {
                let text = json!({ "type": "string", "pattern": $pattern });
                match $is_plain {
                    true => json!({ "anyOf": [text, rule.integers(u64::MAX)] }),
                    false => text,
                }
            }
        }
    )+};
}

measures! {
    /// Milliseconds, written with a unit.
    Duration(
        "duration", "\"250ms\" or \"5m\"", parse_duration_ms, duration_text, false,
        r"^\s*([0-9.]+\s*(us|ms|s|m|h|d)\s*)+$"
    );
    /// Bytes, written with a unit or as a bare number.
    Size(
        "size", "\"64KiB\" or \"1MiB\"", parse_size_bytes, size_text, true,
        r"^\s*[0-9.]+\s*([kKMG]i?)?B?\s*$"
    );
}

fn integer(value: &DeValue<'_>) -> Option<u64> {
    let number = value.as_integer()?;
    u64::from_str_radix(number.as_str(), number.radix()).ok()
}

pub(crate) struct Opt<K>(K);

impl<K: Kind> Kind for Opt<K> {
    type Field = Option<K::Field>;
    const LIST: bool = K::LIST;

    fn name() -> String {
        K::name()
    }

    fn expected(rule: &Rule) -> String {
        K::expected(rule)
    }

    fn read(given: &Input<'_>, rule: &Rule) -> Result<Self::Field, Fault> {
        K::read(given, rule).map(Some)
    }

    fn write(value: &Self::Field) -> Option<String> {
        value.as_ref().and_then(K::write)
    }

    fn schema(rule: &Rule) -> Value {
        K::schema(rule)
    }
}

/// Several values: a TOML list, or a text with commas.
pub(crate) struct List<K>(K);

impl<K: Kind> Kind for List<K> {
    type Field = Vec<K::Field>;
    const LIST: bool = true;

    fn name() -> String {
        let name = K::name();
        let plural = if name.ends_with('s') { "es" } else { "s" };
        format!("list of {name}{plural}")
    }

    fn expected(rule: &Rule) -> String {
        format!("a list in which each item is {}", K::expected(rule))
    }

    fn read(given: &Input<'_>, rule: &Rule) -> Result<Self::Field, Fault> {
        match given {
            Input::Text(text) => text
                .split(',')
                .map(str::trim)
                .filter(|item| !item.is_empty())
                .map(|item| K::read(&Input::Text(item), rule))
                .collect(),
            Input::Toml(value) => match value.get_ref() {
                DeValue::Array(items) => items
                    .iter()
                    .map(|item| K::read(&Input::Toml(item), rule))
                    .collect(),
                // One value without brackets is what people write for a list of one.
                DeValue::String(_) => Ok(vec![K::read(given, rule)?]),
                _ => Self::refuse(given, rule),
            },
        }
    }

    fn write(value: &Self::Field) -> Option<String> {
        let items: Vec<String> = value.iter().filter_map(K::write).collect();
        Some(format!("[{}]", items.join(", ")))
    }

    fn schema(rule: &Rule) -> Value {
        some_of(&K::schema(rule))
    }
}

/// A list of such values, or one without brackets.
fn some_of(item: &Value) -> Value {
    json!({ "anyOf": [{ "type": "array", "items": item }, item] })
}

/// Whether a text may be a URL with a user name, and with a password behind that.
fn has_user(text: &str) -> bool {
    let rest = text.split_once("://").map(|(_, rest)| rest);
    rest.is_some_and(|rest| rest.contains('@'))
}

fn is_private_key(text: &str) -> bool {
    text.contains("PRIVATE KEY")
}

/// A TOML basic string (TOML 1.0, "String").
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => {
                let code = format!("\\u{:04X}", u32::from(c));
                out.push_str(&code);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A quotation for messages: long values are cut, so that a problem stays one line.
fn quoted_short(text: &str) -> String {
    const CHARS_MAX: usize = 60;
    if text.chars().count() <= CHARS_MAX {
        return quoted(text);
    }
    let head: String = text.chars().take(CHARS_MAX).collect();
    format!("{}…", quoted(&head))
}
