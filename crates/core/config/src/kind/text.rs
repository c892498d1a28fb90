//! The kinds whose values are TOML strings: texts, keys, addresses, URLs, words.

use throng_grip::proxy::XffRule;

use super::{Fault, Given, Kind, Rule, is_private_key, quoted};
use crate::secret::{Secret, is_placeholder};

/// A kind whose values are TOML strings.
pub(crate) trait TextKind {
    /// Rust type of the field.
    type Field;
    /// Name for the reference; see [`Kind::name`].
    const NAME: &'static str;
    /// Text behind "expected" in messages; see [`Kind::expected`].
    fn wanted() -> String;
    /// Reads and checks a text.
    fn of(text: &str) -> Option<Self::Field>;
    /// The inverse of [`TextKind::of`].
    fn text(value: &Self::Field) -> String;
    /// Advice on a text that was a value in older versions.
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

    fn read(given: &Given<'_>, rule: &Rule) -> Result<K::Field, Fault> {
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
        "a text that is neither empty nor the placeholder of an example".to_owned()
    }

    fn of(text: &str) -> Option<Secret> {
        Text::of(text)
            .filter(|text| !is_placeholder(text))
            .map(Secret::from)
    }

    fn text(value: &Secret) -> String {
        value.expose().to_owned()
    }
}

/// A secret that signs tokens.
pub(crate) struct SigningSecret;

impl TextKind for SigningSecret {
    type Field = Secret;
    const NAME: &'static str = SecretText::NAME;

    fn wanted() -> String {
        "a secret of at least 32 bytes, as `openssl rand -hex 32` makes, and not the placeholder \
         of an example"
            .to_owned()
    }

    fn of(text: &str) -> Option<Secret> {
        // The length is checked later, together with the other options.
        (!text.is_empty() && !is_placeholder(text)).then(|| Secret::from(text))
    }

    fn text(value: &Secret) -> String {
        SecretText::text(value)
    }
}

/// A public key in PEM form (RFC 7468).
pub(crate) struct Pem;

impl TextKind for Pem {
    type Field = String;
    const NAME: &'static str = "PEM text";

    fn wanted() -> String {
        "a public key as PEM text that begins with -----BEGIN (for the name of a file, use the \
         option that ends in _file)"
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
        // Apps in web views have schemes of their own, such as `capacitor://localhost`.
        let is_origin = || {
            let (scheme, _) = text.split_once("://")?;
            let is_scheme = !scheme.is_empty()
                && scheme
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'));
            let (_, after) = host_of(text, &[&format!("{scheme}://")])?;
            (is_scheme && after.is_empty()).then_some(())
        };
        (text == "*" || is_origin().is_some()).then(|| text.to_ascii_lowercase())
    }

    fn text(value: &String) -> String {
        value.clone()
    }
}

/// The name of a host without a port, `*.domain` for all below a domain, or `*` for all.
pub(crate) struct HostName;

impl TextKind for HostName {
    type Field = String;
    const NAME: &'static str = "host name";

    fn wanted() -> String {
        "the name of a host without a port, such as \"push.example.com\" or \"*.example.com\", or \
         \"*\""
            .to_owned()
    }

    fn of(text: &str) -> Option<String> {
        let text = text.trim();
        let name = text.strip_prefix("*.").unwrap_or(text);
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        let is_name = !name.is_empty() && !name.starts_with('.') && name.bytes().all(plain);
        (text == "*" || is_name).then(|| text.to_ascii_lowercase())
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
        "a URL such as \"redis://127.0.0.1:6379/0\", \"rediss://user:password@host:6379\", \
         \"unix:///run/redis.sock\" or \"redis+sentinel://host:26379/mymaster\""
            .to_owned()
    }

    fn of(text: &str) -> Option<Secret> {
        let text = text.trim();
        let schemes = [
            "unix:///",
            "redis+unix:///",
            "redis+sentinel://",
            "rediss+sentinel://",
        ];
        let is_elsewhere = schemes.iter().any(|scheme| {
            text.strip_prefix(scheme)
                .is_some_and(|rest| !rest.is_empty())
        });
        if !is_elsewhere {
            host_of(text, &["redis://", "rediss://"])?;
        }
        Some(Secret::from(text))
    }

    fn text(value: &Secret) -> String {
        value.expose().to_owned()
    }
}

/// Rule for the header `X-Forwarded-For`.
pub(crate) struct ForwardedFor;

impl TextKind for ForwardedFor {
    type Field = XffRule;
    const NAME: &'static str = "rule";

    fn wanted() -> String {
        "\"append\", \"truncate:N\", \"truncate:N,append\" or nothing".to_owned()
    }

    fn of(text: &str) -> Option<XffRule> {
        XffRule::parse(text)
    }

    fn text(value: &XffRule) -> String {
        let truncate = value.truncate.map(|keep| format!("truncate:{keep}"));
        let append = value.append.then(|| "append".to_owned());
        let words: Vec<String> = truncate.into_iter().chain(append).collect();
        words.join(",")
    }
}

/// The beginning of metrics' names (the data model of Prometheus).
pub(crate) struct MetricPrefix;

impl TextKind for MetricPrefix {
    type Field = String;
    const NAME: &'static str = "prefix";

    fn wanted() -> String {
        "ASCII letters, digits and \"_\", not a digit first".to_owned()
    }

    fn of(text: &str) -> Option<String> {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let clean = text.bytes().all(is_name) && !text.starts_with(|c: char| c.is_ascii_digit());
        clean.then(|| text.to_owned())
    }

    fn text(value: &String) -> String {
        value.clone()
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
    /// Texts of values that are no more, with what an operator does instead, and why.
    const GONE: &'static [(&'static str, &'static str)] = &[];
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

    fn advice(text: &str) -> Option<&'static str> {
        let found = T::GONE.iter().find(|(name, _)| *name == text.trim());
        found.map(|&(_, advice)| advice)
    }

    fn text(value: &T) -> String {
        let found = T::NAMES.iter().find(|(_, other)| other == value);
        found.map_or_else(String::new, |(name, _)| (*name).to_owned())
    }
}

/// Host and what follows it, if the text has one of the schemes and its host is not empty.
pub(super) fn host_of<'a>(text: &'a str, schemes: &[&str]) -> Option<(&'a str, &'a str)> {
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
