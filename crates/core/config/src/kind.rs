//! The kinds of values that options take: how each is read, checked, described and written.
//!
//! A kind is a type that is never made; it ties a field's Rust type to its text form.
//! Reading takes a TOML value or a plain text (from a variable or a flag) alike.

use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Range;

use toml::Spanned;
use toml::de::DeValue;

use crate::secret::Secret;
use crate::units::{duration_ms, duration_text, size_bytes, size_text};

/// A value as somebody gave it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Given<'a> {
    /// From a variable or a flag.
    Text(&'a str),
    /// From the file.
    Toml(&'a Spanned<DeValue<'a>>),
}

impl Given<'_> {
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

    /// What stands there, for a message; secrets are never repeated.
    fn describe(&self, secret: bool) -> String {
        let value = match self {
            Self::Text(_) if secret => return "something else".to_owned(),
            Self::Text(text) if is_private_key(text) => return "a private key".to_owned(),
            Self::Text(text) => return quoted_short(text),
            Self::Toml(value) => value.get_ref(),
        };
        match value {
            DeValue::String(text) if is_private_key(text) => "a private key".to_owned(),
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

/// Why a value was refused, with the part of it that is at fault.
#[derive(Debug)]
pub(crate) struct Fault {
    /// "expected …, found …".
    pub(crate) message: String,
    /// Bytes of the file, when the value stands in one.
    pub(crate) span: Option<Range<usize>>,
}

/// What an option's table entry says beside its kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    pub(crate) min: u64,
    pub(crate) max: u64,
    /// Whether zero is allowed below `min`, and what it then means.
    pub(crate) zero: Option<&'static str>,
    pub(crate) secret: bool,
    pub(crate) flag: Option<&'static str>,
    pub(crate) example: &'static str,
    /// What holds while nobody sets it, when that is not one value.
    pub(crate) unset: &'static str,
}

impl Rule {
    pub(crate) const ANY: Self = Self {
        min: 0,
        max: u64::MAX,
        zero: None,
        secret: false,
        flag: None,
        example: "",
        unset: "",
    };

    pub(crate) const fn range(self, min: u64, max: u64) -> Self {
        Self { min, max, ..self }
    }

    pub(crate) const fn zero(self, meaning: &'static str) -> Self {
        Self {
            zero: Some(meaning),
            ..self
        }
    }

    pub(crate) const fn secret(self) -> Self {
        Self {
            secret: true,
            ..self
        }
    }

    pub(crate) const fn flag(self, flag: &'static str) -> Self {
        Self {
            flag: Some(flag),
            ..self
        }
    }

    /// A TOML value to show where there is no default.
    pub(crate) const fn example(self, example: &'static str) -> Self {
        Self { example, ..self }
    }

    pub(crate) const fn unset(self, unset: &'static str) -> Self {
        Self { unset, ..self }
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

/// How an option's values are read and written.
pub(crate) trait Kind {
    /// The field's type.
    type Field;
    /// For the reference: "duration", "list of addresses".
    fn name() -> String;
    /// For messages: what follows "expected".
    fn expected(rule: &Rule) -> String;
    /// Reads and checks one value.
    fn read(given: &Given<'_>, rule: &Rule) -> Result<Self::Field, Fault>;
    /// The value as TOML, none while it is unset.
    fn write(value: &Self::Field) -> Option<String>;
    /// Whether flags and variables may give several values.
    const LIST: bool = false;
    /// Whether the value that nobody set is a rule rather than a value.
    const RESOLVED: bool = false;

    /// The standard refusal.
    fn refuse<T>(given: &Given<'_>, rule: &Rule) -> Result<T, Fault> {
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

/// True or false.
pub(crate) struct Bool;

impl Kind for Bool {
    type Field = bool;

    fn name() -> String {
        "bool".to_owned()
    }

    fn expected(_: &Rule) -> String {
        "true or false".to_owned()
    }

    fn read(given: &Given<'_>, rule: &Rule) -> Result<bool, Fault> {
        match given {
            Given::Text("true") => Ok(true),
            Given::Text("false") => Ok(false),
            Given::Toml(value) => match value.get_ref() {
                DeValue::Boolean(flag) => Ok(*flag),
                _ => Self::refuse(given, rule),
            },
            Given::Text(_) => Self::refuse(given, rule),
        }
    }

    fn write(value: &bool) -> Option<String> {
        Some(value.to_string())
    }
}

/// True or false, and while nobody says, whatever open mode says.
pub(crate) struct Permission;

impl Kind for Permission {
    type Field = bool;
    const RESOLVED: bool = true;

    fn name() -> String {
        Bool::name()
    }

    fn expected(rule: &Rule) -> String {
        Bool::expected(rule)
    }

    fn read(given: &Given<'_>, rule: &Rule) -> Result<bool, Fault> {
        Bool::read(given, rule)
    }

    fn write(value: &bool) -> Option<String> {
        Bool::write(value)
    }
}

/// A whole number.
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

    fn read(given: &Given<'_>, rule: &Rule) -> Result<u32, Fault> {
        let number = match given {
            Given::Text(text) => text.trim().parse().ok(),
            Given::Toml(value) => integer(value.get_ref()),
        };
        number
            .filter(|&number| rule.admits(number))
            .and_then(|number| u32::try_from(number).ok())
            .map_or_else(|| Self::refuse(given, rule), Ok)
    }

    fn write(value: &u32) -> Option<String> {
        Some(value.to_string())
    }
}

/// Milliseconds, written with a unit.
pub(crate) struct Duration;

impl Kind for Duration {
    type Field = u64;

    fn name() -> String {
        "duration".to_owned()
    }

    fn expected(rule: &Rule) -> String {
        let bounds = rule.bounds(|ms| quoted(&duration_text(ms)));
        if bounds.is_empty() {
            return "a duration such as \"250ms\" or \"5m\"".to_owned();
        }
        format!("a duration{bounds}")
    }

    fn read(given: &Given<'_>, rule: &Rule) -> Result<u64, Fault> {
        given
            .as_str()
            .and_then(duration_ms)
            .filter(|&ms| rule.admits(ms))
            .map_or_else(|| Self::refuse(given, rule), Ok)
    }

    fn write(value: &u64) -> Option<String> {
        Some(quoted(&duration_text(*value)))
    }
}

/// Bytes, written with a unit or as a bare number.
pub(crate) struct Size;

impl Kind for Size {
    type Field = u64;

    fn name() -> String {
        "size".to_owned()
    }

    fn expected(rule: &Rule) -> String {
        let bounds = rule.bounds(|bytes| quoted(&size_text(bytes)));
        if bounds.is_empty() {
            return "a size such as \"64KiB\" or \"1MiB\"".to_owned();
        }
        format!("a size{bounds}")
    }

    fn read(given: &Given<'_>, rule: &Rule) -> Result<u64, Fault> {
        let bytes = match given {
            Given::Toml(value) if value.get_ref().is_integer() => integer(value.get_ref()),
            _ => given.as_str().and_then(size_bytes),
        };
        bytes
            .filter(|&bytes| rule.admits(bytes))
            .map_or_else(|| Self::refuse(given, rule), Ok)
    }

    fn write(value: &u64) -> Option<String> {
        Some(quoted(&size_text(*value)))
    }
}

/// A value that may be missing.
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

    fn read(given: &Given<'_>, rule: &Rule) -> Result<Self::Field, Fault> {
        K::read(given, rule).map(Some)
    }

    fn write(value: &Self::Field) -> Option<String> {
        value.as_ref().and_then(K::write)
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

    fn read(given: &Given<'_>, rule: &Rule) -> Result<Self::Field, Fault> {
        match given {
            Given::Text(text) => text
                .split(',')
                .map(str::trim)
                .filter(|item| !item.is_empty())
                .map(|item| K::read(&Given::Text(item), rule))
                .collect(),
            Given::Toml(value) => match value.get_ref() {
                DeValue::Array(items) => items
                    .iter()
                    .map(|item| K::read(&Given::Toml(item), rule))
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
}

/// A kind whose values are TOML strings.
pub(crate) trait TextKind {
    /// The field's type.
    type Field;
    /// See [`Kind::name`].
    const NAME: &'static str;
    /// See [`Kind::expected`].
    fn wanted() -> String;
    /// Reads and checks.
    fn of(text: &str) -> Option<Self::Field>;
    /// The inverse of [`TextKind::of`].
    fn text(value: &Self::Field) -> String;
}

impl<K: TextKind> Kind for K {
    type Field = K::Field;

    fn name() -> String {
        K::NAME.to_owned()
    }

    fn expected(_: &Rule) -> String {
        K::wanted()
    }

    fn read(given: &Given<'_>, rule: &Rule) -> Result<K::Field, Fault> {
        given
            .as_str()
            .and_then(K::of)
            .map_or_else(|| Self::refuse(given, rule), Ok)
    }

    fn write(value: &K::Field) -> Option<String> {
        Some(quoted(&K::text(value)))
    }
}

/// Any text but the empty one.
pub(crate) struct Text;

impl TextKind for Text {
    type Field = String;
    const NAME: &'static str = "text";

    fn wanted() -> String {
        "a text that is not empty".to_owned()
    }

    fn of(text: &str) -> Option<String> {
        (!text.trim().is_empty()).then(|| text.to_owned())
    }

    fn text(value: &String) -> String {
        value.clone()
    }
}

/// A text that is never shown.
pub(crate) struct SecretText;

impl TextKind for SecretText {
    type Field = Secret;
    const NAME: &'static str = "secret";

    fn wanted() -> String {
        "a text that is not empty".to_owned()
    }

    fn of(text: &str) -> Option<Secret> {
        Text::of(text).map(Secret::from)
    }

    fn text(value: &Secret) -> String {
        value.expose().to_owned()
    }
}

/// A public key in PEM form (RFC 7468).
pub(crate) struct Pem;

impl TextKind for Pem {
    type Field = String;
    const NAME: &'static str = "PEM text";

    fn wanted() -> String {
        "a public key as PEM text that begins with -----BEGIN (for the name of a file, use the option that ends in _file)"
            .to_owned()
    }

    fn of(text: &str) -> Option<String> {
        let public = text.trim_start().starts_with("-----BEGIN ") && !is_private_key(text);
        public.then(|| text.to_owned())
    }

    fn text(value: &String) -> String {
        value.clone()
    }
}

/// An IP address with a port.
pub(crate) struct Address;

impl TextKind for Address {
    type Field = SocketAddr;
    const NAME: &'static str = "address";

    fn wanted() -> String {
        "an IP address with a port, such as \"127.0.0.1:8000\" or \"[::]:8000\"".to_owned()
    }

    fn of(text: &str) -> Option<SocketAddr> {
        text.trim().parse().ok()
    }

    fn text(value: &SocketAddr) -> String {
        value.to_string()
    }
}

/// An address as `ZeroMQ` and its users write it: `tcp://` is optional, `*` stands for all interfaces.
pub(crate) struct Endpoint;

impl TextKind for Endpoint {
    type Field = SocketAddr;
    const NAME: &'static str = "address";

    fn wanted() -> String {
        "an address such as \"127.0.0.1:5561\", \"tcp://127.0.0.1:5560\" or \"tcp://*:5560\""
            .to_owned()
    }

    fn of(text: &str) -> Option<SocketAddr> {
        let text = text.trim();
        let text = text.strip_prefix("tcp://").unwrap_or(text);
        match text.strip_prefix("*:") {
            Some(port) => Some(SocketAddr::from((
                Ipv4Addr::UNSPECIFIED,
                port.parse().ok()?,
            ))),
            None => text.parse().ok(),
        }
    }

    fn text(value: &SocketAddr) -> String {
        value.to_string()
    }
}

/// A web origin (RFC 6454 section 6.1), `*` for all, or `scheme://*.domain` for all below a domain.
pub(crate) struct WebOrigin;

impl TextKind for WebOrigin {
    type Field = String;
    const NAME: &'static str = "origin";

    fn wanted() -> String {
        "a web origin such as \"https://app.example.com\", without a path, or \"*\"".to_owned()
    }

    fn of(text: &str) -> Option<String> {
        let text = text.trim();
        (text == "*" || host_of(text, &["http://", "https://"])?.1.is_empty())
            .then(|| text.to_ascii_lowercase())
    }

    fn text(value: &String) -> String {
        value.clone()
    }
}

/// The address of something that speaks HTTP.
pub(crate) struct HttpUrl;

impl TextKind for HttpUrl {
    type Field = String;
    const NAME: &'static str = "URL";

    fn wanted() -> String {
        "a URL that begins with http:// or https://, such as \"http://127.0.0.1:9000\"".to_owned()
    }

    fn of(text: &str) -> Option<String> {
        host_of(text.trim(), &["http://", "https://"])?;
        Some(text.trim().to_owned())
    }

    fn text(value: &String) -> String {
        value.clone()
    }
}

/// The address of a Redis server. It may hold a password, so it is a secret.
pub(crate) struct RedisUrl;

impl TextKind for RedisUrl {
    type Field = Secret;
    const NAME: &'static str = "URL";

    fn wanted() -> String {
        "a URL such as \"redis://127.0.0.1:6379/0\" or \"rediss://user:password@host:6379\""
            .to_owned()
    }

    fn of(text: &str) -> Option<Secret> {
        host_of(text.trim(), &["redis://", "rediss://"])?;
        Some(Secret::from(text.trim()))
    }

    fn text(value: &Secret) -> String {
        value.expose().to_owned()
    }
}

/// Where a route begins.
pub(crate) struct PathPrefix;

impl TextKind for PathPrefix {
    type Field = String;
    const NAME: &'static str = "path";

    fn wanted() -> String {
        "a path that begins with \"/\"".to_owned()
    }

    fn of(text: &str) -> Option<String> {
        let clean = text.starts_with('/')
            && !text.contains(|c: char| c.is_control() || matches!(c, ' ' | '?' | '#'));
        clean.then(|| text.to_owned())
    }

    fn text(value: &String) -> String {
        value.clone()
    }
}

/// A field type with a few named values.
pub(crate) trait Named: Copy + PartialEq + 'static {
    /// Every value with its text.
    const NAMES: &'static [(&'static str, Self)];
}

/// One of a few words.
pub(crate) struct Choice<T>(T);

impl<T: Named> TextKind for Choice<T> {
    type Field = T;
    const NAME: &'static str = "word";

    fn wanted() -> String {
        let names: Vec<String> = T::NAMES
            .iter()
            .map(|(name, _)| format!("{name:?}"))
            .collect();
        format!("one of {}", names.join(", "))
    }

    fn of(text: &str) -> Option<T> {
        let found = T::NAMES.iter().find(|(name, _)| *name == text.trim());
        found.map(|&(_, value)| value)
    }

    fn text(value: &T) -> String {
        let found = T::NAMES.iter().find(|(_, other)| other == value);
        found.map_or_else(String::new, |(name, _)| (*name).to_owned())
    }
}

/// Host and what follows it, if the text has one of the schemes and its host is not empty.
fn host_of<'a>(text: &'a str, schemes: &[&str]) -> Option<(&'a str, &'a str)> {
    let rest = schemes
        .iter()
        .find_map(|scheme| text.strip_prefix(scheme))?;
    if rest.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return None;
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, after) = rest.split_at_checked(end)?;
    (!host.is_empty()).then_some((host, after))
}

fn is_private_key(text: &str) -> bool {
    text.contains("PRIVATE KEY")
}

fn integer(value: &DeValue<'_>) -> Option<u64> {
    let number = value.as_integer()?;
    u64::from_str_radix(number.as_str(), number.radix()).ok()
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
