//! Texts that must not reach a log by accident.

use std::fmt;
use std::ops::Deref;

pub(crate) const MASK: &str = "********";

/// A text whose `Debug` form is a mask. It dereferences to the text itself.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

/// RFC 7518 section 3.2: a key for HS256 has at least the 256 bits of its hash.
const SIGNING_BYTES_MIN: usize = 32;

/// Beginning of the placeholders in our own examples.
const PLACEHOLDER: &str = "change-me";

/// Whether a text is a placeholder of an example that was not replaced.
pub(crate) fn is_placeholder(secret: &str) -> bool {
    secret
        .trim_start()
        .to_ascii_lowercase()
        .starts_with(PLACEHOLDER)
}

/// Secrets that our pages and examples print, so that their commands work unchanged, only on
/// loopback.
const PUBLISHED: [&str; 3] = ["replace-this", "everyone-knows", "only your back end knows"];

pub(crate) const PRINTED: &str = "it is printed in the documentation, so it is public; make one \
                                  with `openssl rand -hex 32`";

/// Whether a secret or key is printed in our pages or examples, and so public.
pub(crate) fn is_published(secret: &str) -> bool {
    let secret = secret.to_ascii_lowercase();
    PUBLISHED.iter().any(|printed| secret.contains(printed))
}

/// Reason why a secret must not sign tokens: it has fewer than 32 bytes and can be guessed, or an
/// example prints it. `None` for a good one.
#[must_use]
pub fn signing_secret_fault(secret: &str) -> Option<&'static str> {
    if is_placeholder(secret) {
        return Some("this is the placeholder of an example; make one with `openssl rand -hex 32`");
    }
    (secret.len() < SIGNING_BYTES_MIN).then_some(
        "shorter than 32 bytes, so it can be guessed; make one with `openssl rand -hex 32`",
    )
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl Deref for Secret {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}
