//! The kinds whose values are TOML strings: texts, secrets, names, words.

use std::fmt;

use serde_json::{Value, json};

use super::{Fault, Input, Kind, Rule, is_private_key, quoted};
use crate::secret::{Secret, is_placeholder};

/// A kind whose values are TOML strings.
pub(crate) trait TextKind {
    type Field;
    /// Name for the reference; see [`Kind::name`].
    const NAME: &'static str;
    /// Text behind "expected" in messages; see [`Kind::expected`].
    fn wanted() -> String;
    /// Reads and checks a text.
    fn of(text: &str) -> Option<Self::Field>;
    /// The inverse of [`TextKind::of`].
    fn text(value: &Self::Field) -> String;
    /// The regular expression of texts that may be values, as far as one says it.
    const PATTERN: &'static str = "";

    /// Describes texts that may be values; see [`Kind::schema`].
    fn texts() -> Value {
        match Self::PATTERN {
            "" => json!({ "type": "string" }),
            pattern => json!({ "type": "string", "pattern": pattern }),
        }
    }
    /// Advice on a text that is refused, such as a value of older versions.
    fn advice(_: &str) -> Option<&'static str> {
        None
    }
}

impl<K: TextKind> Kind for K {
    type Field = K::Field;

    fn name() -> String {
        K::NAME.to_owned()
    }

    fn expected(_: &Rule) -> String {
        K::wanted()
    }

    fn read(given: &Input<'_>, rule: &Rule) -> Result<K::Field, Fault> {
        let text = given.as_str();
        if let Some(field) = text.and_then(K::of) {
            return Ok(field);
        }
        Self::refuse(given, rule).map_err(|mut fault: Fault| {
            if let Some(advice) = text.and_then(K::advice) {
                fault.message += "; ";
                fault.message += advice;
            }
            fault
        })
    }

    fn write(value: &K::Field) -> Option<String> {
        Some(quoted(&K::text(value)))
    }

    fn schema(_: &Rule) -> Value {
        K::texts()
    }
}

/// Text form of a field, for the configuration file.
pub(super) trait Written {
    fn written(&self) -> String;
}

impl<T: fmt::Display> Written for T {
    fn written(&self) -> String {
        self.to_string()
    }
}

impl Written for Secret {
    fn written(&self) -> String {
        self.expose().to_owned()
    }
}

/// Declares kinds: the type of the field, the name for the reference, what follows "expected" in
/// messages, the function that reads a text, a pattern of texts where one says what they are, and
/// the function that names what is wrong with a text.
macro_rules! text_kinds {
    ($(
        $(#[$doc:meta])+
        $kind:ident($field:ty, $name:literal, $wanted:literal, $read:expr $(, $pattern:literal)?
            $(; $advice:expr)?);
    )+) => {$(
        $(#[$doc])+
        pub(crate) struct $kind;

        impl $crate::kind::text::TextKind for $kind {
            type Field = $field;
            const NAME: &'static str = $name;
            $(const PATTERN: &'static str = $pattern;)?

            fn wanted() -> String {
                $wanted.to_owned()
            }

            fn of(text: &str) -> Option<$field> {
                let read: fn(&str) -> Option<$field> = $read;
                read(text)
            }

            fn text(value: &$field) -> String {
                $crate::kind::text::Written::written(value)
            }

            $(fn advice(text: &str) -> Option<&'static str> {
                let advice: fn(&str) -> Option<&'static str> = $advice;
                advice(text)
            })?
        }
    )+};
}

pub(super) use text_kinds;

text_kinds! {
    /// Any text but the empty one.
    Text(String, "text", "a text that is not empty", |text| {
        (!text.trim().is_empty()).then(|| text.to_owned())
    }, r"\S");

    /// A text that is never shown.
    SecretText(
        Secret, "secret", "a text that is neither empty nor the placeholder of an example",
        |text| {
            let is_good = !text.trim().is_empty() && !is_placeholder(text);
            is_good.then(|| Secret::from(text))
        }, r"\S"
    );

    /// A secret that signs tokens. Its length is checked later, together with other options.
    SigningSecret(
        Secret, "secret", "a secret of at least 32 bytes, as `openssl rand -hex 32` makes, and not \
        the placeholder of an example", |text| {
            (!text.is_empty() && !is_placeholder(text)).then(|| Secret::from(text))
        }
    );

    /// A public key in PEM form (RFC 7468).
    Pem(
        String, "PEM text", "a public key as PEM text that begins with -----BEGIN (for the name of \
        a file, use the option that ends in _file)", |text| {
            let is_public = text.trim_start().starts_with("-----BEGIN ") && !is_private_key(text);
            is_public.then(|| text.to_owned())
        }, r"^\s*-----BEGIN "
    );

    /// Level of a part of the log.
    TargetLevel(
        String, "level", "a target of the log and its level, such as \
        \"throng::audit=debug\"; levels are off, error, warn, info, debug and trace", |text| {
            let (target, level) = text.trim().split_once('=')?;
            let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b":_".contains(&byte);
            let levels = ["off", "error", "warn", "info", "debug", "trace"];
            let is_target = !target.is_empty() && target.bytes().all(is_good);
            (is_target && levels.contains(&level)).then(|| text.trim().to_owned())
        }, r"^\s*[A-Za-z0-9:_]+=(off|error|warn|info|debug|trace)\s*$"
    );

    /// The name of a host without a port, `*.domain` for all below a domain, or `*` for all.
    HostName(
        String, "host name", "the name of a host without a port, such as \"push.example.com\" or \
        \"*.example.com\", or \"*\"", |text| {
            let text = text.trim();
            let name = text.strip_prefix("*.").unwrap_or(text);
            let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
            let is_name = !name.is_empty() && !name.starts_with('.') && name.bytes().all(is_good);
            (text == "*" || is_name).then(|| text.to_ascii_lowercase())
        }
    );

    /// Rule for the header `X-Forwarded-For`.
    ForwardedForText(
        ForwardedFor, "rule", "\"append\", \"truncate:N\", \"truncate:N,append\" or nothing",
        ForwardedFor::parse
    );

    /// The beginning of metrics' names (the data model of Prometheus).
    MetricPrefix(String, "prefix", "ASCII letters, digits and \"_\", not a digit first", |text| {
        let is_good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let is_digit_first = text.starts_with(|c: char| c.is_ascii_digit());
        (text.bytes().all(is_good) && !is_digit_first).then(|| text.to_owned())
    }, "^([A-Za-z_][A-Za-z0-9_]*)?$");

    /// Where a route begins.
    PathPrefix(String, "path", "a path that begins with \"/\"", |text| {
        let is_strange = |c: char| c.is_control() || matches!(c, ' ' | '?' | '#');
        (text.starts_with('/') && !text.contains(is_strange)).then(|| text.to_owned())
    }, "^/");

    /// A status and its meaning in one text.
    StatusText(
        ProxyStatus, "status and meaning", "a status and its meaning, such as \"404 error 1404 not \
        found\", \"503 temporary 1503 try again\" or \"403 disconnect 4403 forbidden\"; errors \
        have codes from 400 to 1999, disconnects from 4000 to 4999",
        ProxyStatus::parse, r"^\s*[0-9]+ (error|temporary|disconnect) [0-9]+"
    );
}

/// Rule for `X-Forwarded-For`: values to keep, and whether to append the client's address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForwardedFor {
    /// Number of values kept, from the end; `None` keeps all.
    pub truncate: Option<usize>,
    pub append: bool,
}

impl ForwardedFor {
    /// Parses `truncate:N,append`, of which either part may be missing.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut out = Self::default();
        let words = text.split(',').map(str::trim);
        for word in words.filter(|word| !word.is_empty()) {
            match word.split_once(':') {
                Some(("truncate", count)) => out.truncate = Some(count.trim().parse().ok()?),
                None if word == "append" => out.append = true,
                _ => return None,
            }
        }
        Some(out)
    }
}

impl fmt::Display for ForwardedFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let truncate = self.truncate.map(|keep| format!("truncate:{keep}"));
        let append = self.append.then(|| "append".to_owned());
        let words: Vec<String> = truncate.into_iter().chain(append).collect();
        f.write_str(&words.join(","))
    }
}

/// A status of a backend's answer, and its meaning for the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyStatus {
    /// HTTP status, other than 200.
    pub status: u16,
    /// Whether the connection ends; otherwise the command fails.
    pub is_disconnect: bool,
    pub is_temporary: bool,
    /// Code of the disconnect (4000 to 4999) or of the error (400 to 1999).
    pub code: u32,
    /// A word for developers.
    pub text: String,
}

impl ProxyStatus {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut words = text.trim().splitn(4, ' ');
        let status = words.next()?.parse().ok()?;
        let meaning = words.next()?;
        let code = words.next()?.parse().ok()?;
        let text = words.next().unwrap_or_default();
        let is_disconnect = meaning == "disconnect";
        let codes = if is_disconnect { 4000..5000 } else { 400..2000 };
        let is_known = is_disconnect || matches!(meaning, "error" | "temporary");
        let is_status = (201..1000).contains(&status);
        (is_known && is_status && codes.contains(&code) && text.len() <= 120).then(|| Self {
            status,
            is_disconnect,
            is_temporary: meaning == "temporary",
            code,
            text: text.to_owned(),
        })
    }
}

impl fmt::Display for ProxyStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let meaning = match (self.is_disconnect, self.is_temporary) {
            (true, _) => "disconnect",
            (false, true) => "temporary",
            (false, false) => "error",
        };
        let text = format!("{} {meaning} {} {}", self.status, self.code, self.text);
        f.write_str(text.trim_end())
    }
}

/// A field type with a few named values.
pub(crate) trait Named: Copy + PartialEq + 'static {
    /// Every value with its text.
    const NAMES: &'static [(&'static str, Self)];
    /// Texts of values that are no more, with what an operator does instead, and why.
    const GONE: &'static [(&'static str, &'static str)] = &[];

    fn word(self) -> &'static str {
        let found = Self::NAMES.iter().find(|(_, other)| *other == self);
        found.map_or("", |(name, _)| name)
    }
}

/// One of a few words.
pub(crate) struct Choice<T>(T);

impl<T: Named> TextKind for Choice<T> {
    type Field = T;
    const NAME: &'static str = "word";

    fn wanted() -> String {
        let names = T::NAMES.iter().map(|(name, _)| format!("{name:?}"));
        format!("one of {}", names.collect::<Vec<_>>().join(", "))
    }

    fn of(text: &str) -> Option<T> {
        let found = T::NAMES.iter().find(|(name, _)| *name == text.trim());
        found.map(|&(_, value)| value)
    }

    fn advice(text: &str) -> Option<&'static str> {
        let found = T::GONE.iter().find(|(name, _)| *name == text.trim());
        found.map(|&(_, advice)| advice)
    }

    fn text(value: &T) -> String {
        value.word().to_owned()
    }

    fn texts() -> Value {
        let words = T::NAMES.iter().map(|(name, _)| *name);
        json!({ "enum": words.collect::<Vec<_>>() })
    }
}

/// Declares field types with a few named values: each with its word in the configuration, and
/// behind a semicolon the words that are no more.
macro_rules! choice {
    (
        $(#[doc = $doc:literal])+
        $name:ident {
            $($(#[$variant_meta:meta])+ $variant:ident = $word:literal,)+
            $(; $($gone:literal => $advice:literal,)+)?
        }
    ) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$variant_meta])+ $variant,)+
        }

        impl $crate::kind::Named for $name {
            const NAMES: &'static [(&'static str, Self)] = &[$(($word, Self::$variant),)+];
            const GONE: &'static [(&'static str, &'static str)] = &[$($(($gone, $advice),)+)?];
        }
    };
}

pub(crate) use choice;
