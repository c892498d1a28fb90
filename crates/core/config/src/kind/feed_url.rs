//! The kind of the option for the URL of a feed's source.

use super::TextKind;
use crate::secret::Secret;

/// Where the source of a feed is. It may hold a password, so it is a secret.
pub(crate) struct FeedUrl;

impl TextKind for FeedUrl {
    type Field = Secret;
    const NAME: &'static str = "URL";

    fn wanted() -> String {
        "a URL such as \"postgres://user:password@127.0.0.1:5432/database\"".to_owned()
    }

    fn of(text: &str) -> Option<Secret> {
        let text = text.trim();
        let (scheme, rest) = text.split_once("://")?;
        let is_strange = |c: char| c.is_whitespace() || c.is_control();
        let is_good = !scheme.is_empty() && !rest.is_empty() && !rest.contains(is_strange);
        is_good.then(|| Secret::from(text))
    }

    fn text(value: &Secret) -> String {
        value.expose().to_owned()
    }
}
