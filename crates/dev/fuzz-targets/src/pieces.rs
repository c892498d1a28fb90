//! How targets with several inputs get them out of one row of bytes, and checks that several share.

use serde::de::IgnoredAny;

/// Cuts at NUL bytes, which texts do not need, so that mutations of one part leave the others
/// alone. The last part takes what is left; missing parts are empty.
pub(crate) fn parts<const N: usize>(input: &[u8]) -> [&[u8]; N] {
    let mut all = input.splitn(N, |&byte| byte == 0);
    std::array::from_fn(|_| all.next().unwrap_or_default())
}

/// Splits the input into texts at NUL; none if it is not UTF-8.
pub(crate) fn texts<const N: usize>(input: &[u8]) -> Option<[&str; N]> {
    let whole = std::str::from_utf8(input).ok()?;
    let mut all = whole.splitn(N, '\0');
    Some(std::array::from_fn(|_| all.next().unwrap_or_default()))
}

/// Whether this is exactly one JSON value, however deep.
pub(crate) fn is_json(text: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(text).is_ok()
}

/// `name=value` lines as pairs with unique names.
pub(crate) fn pairs(text: &str) -> Vec<(String, String)> {
    let mut out: Vec<(String, String)> = Vec::new();
    for (name, value) in text.lines().filter_map(|line| line.split_once('=')) {
        if out.iter().all(|(known, _)| known != name) {
            out.push((name.to_owned(), value.to_owned()));
        }
    }
    out
}
