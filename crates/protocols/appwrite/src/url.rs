//! A URL's query, read as PHP reads it, because Appwrite's channel parameters lean on PHP's rules.
//!
//! Owns: percent decoding, `a[b][]` nesting and PHP's renaming of keys. Never: knows what a
//! channel is.
//!
//! Rules (PHP manual, "Variables from external sources"): the name is decoded before brackets are
//! looked for; `.` and space in front of the first bracket become `_`; an empty bracket takes the
//! next whole number; a later text replaces an earlier list and the reverse.

use throng_types::form_decoded;

/// Deeper brackets than this have no meaning to Appwrite.
const DEPTH_MAX: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UrlError {
    TooMany,
    /// A percent sequence decodes to something that is not UTF-8.
    Encoding,
    TooDeep,
}

/// The key of a list entry: a client's name for a subscription in the URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    /// A whole number in its plain decimal form, and what an empty bracket becomes.
    Number(i64),
    /// Any other text between the brackets.
    Name(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Param {
    Text(String),
    /// `a[..]=x`, in order of first appearance.
    List(Vec<(Key, Self)>),
}

impl Param {
    pub(crate) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::List(_) => None,
        }
    }
}

/// All parameters, in order of first appearance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Params(Vec<(Key, Param)>);

impl Params {
    pub(crate) fn parse(query: &str, params_max: usize) -> Result<Self, UrlError> {
        let mut params = Self::default();
        for (n, pair) in query.split('&').filter(|pair| !pair.is_empty()).enumerate() {
            if n >= params_max {
                return Err(UrlError::TooMany);
            }
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            params.insert(&decode(name)?, decode(value)?)?;
        }
        Ok(params)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Param> {
        let named = |key: &Key| matches!(key, Key::Name(known) if known == name);
        let found = self.0.iter().find(|(key, _)| named(key));
        found.map(|(_, param)| param)
    }

    fn insert(&mut self, name: &str, value: String) -> Result<(), UrlError> {
        let name = name.trim_start_matches(' ');
        let (base, brackets) = split_brackets(name);
        if base.is_empty() {
            return Ok(());
        }
        let base = base.replace(['.', ' '], "_");
        set(entry(&mut self.0, Key::Name(base)), brackets, value, 0)
    }
}

/// The entry with this key, made if it is not there.
fn entry(entries: &mut Vec<(Key, Param)>, key: Key) -> &mut Param {
    let known = entries.iter().position(|(known, _)| *known == key);
    let at = known.unwrap_or_else(|| {
        entries.push((key, Param::Text(String::new())));
        entries.len() - 1
    });
    &mut entries[at].1
}

/// Splits `a[b][]` into `a` and `[b][]`. A first bracket that never closes belongs to the name,
/// where PHP turns it into `_`; no SDK sends one, so it simply stays.
fn split_brackets(name: &str) -> (&str, &str) {
    match name.find('[') {
        Some(at) if name[at..].contains(']') => name.split_at(at),
        _ => (name, ""),
    }
}

fn set(param: &mut Param, brackets: &str, value: String, depth: usize) -> Result<(), UrlError> {
    let Some((key, rest)) = brackets
        .strip_prefix('[')
        .and_then(|inner| inner.split_once(']'))
    else {
        // PHP ignores what follows the last bracket.
        *param = Param::Text(value);
        return Ok(());
    };
    if depth >= DEPTH_MAX {
        return Err(UrlError::TooDeep);
    }
    if let Param::Text(_) = param {
        *param = Param::List(Vec::new());
    }
    let Param::List(entries) = param else {
        return Ok(());
    };
    let key = if key.is_empty() {
        Key::Number(next_index(entries))
    } else {
        key_of(key)
    };
    set(entry(entries, key), rest, value, depth + 1)
}

/// One more than the highest whole number; the limit on parameters bounds the walk.
fn next_index(entries: &[(Key, Param)]) -> i64 {
    entries
        .iter()
        .filter_map(|(key, _)| match key {
            Key::Number(index) => Some(index.saturating_add(1)),
            Key::Name(_) => None,
        })
        .max()
        .map_or(0, |next| next.max(0))
}

/// PHP takes a text key as a number only in its plain decimal form.
fn key_of(text: &str) -> Key {
    match text.parse::<i64>() {
        Ok(index) if index.to_string() == text => Key::Number(index),
        _ => Key::Name(text.to_owned()),
    }
}

fn decode(text: &str) -> Result<String, UrlError> {
    String::from_utf8(form_decoded(text)).map_err(|_| UrlError::Encoding)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use throng_types::cases;

    use super::*;

    /// A parameter as the table writes it.
    fn shown(param: &Param) -> String {
        match param {
            Param::Text(text) => format!("{text:?}"),
            Param::List(entries) => {
                let entries = entries.iter().map(|(key, param)| match key {
                    Key::Number(number) => format!("{number}={}", shown(param)),
                    Key::Name(name) => format!("{name:?}={}", shown(param)),
                });
                format!("[{}]", entries.collect::<Vec<_>>().join(", "))
            }
        }
    }

    #[test]
    fn queries_are_read_as_php_reads_them() {
        for (case, expect) in cases(include_str!("url.txt")) {
            let (query, name) = case.split_once(" has ").unwrap();
            let params = Params::parse(query, 100).unwrap();
            let told = params.get(name).map_or_else(|| "nothing".to_owned(), shown);
            assert_eq!(told, expect, "{query}");
        }
    }

    #[test]
    fn refusals() {
        assert_eq!(Params::parse("a=%ff", 9), Err(UrlError::Encoding));
        assert_eq!(Params::parse("a&b&c", 2), Err(UrlError::TooMany));
        assert_eq!(Params::parse("a[][][][][]=1", 2), Err(UrlError::TooDeep));
    }

    proptest! {
        #[test]
        fn nothing_panics(query in "[a\\[\\]=&%0-9.+ é]{0,60}") {
            let _ = Params::parse(&query, 20);
        }
    }
}
