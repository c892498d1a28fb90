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
pub(crate) struct Params(Vec<(String, Param)>);

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
        self.0
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, param)| param)
    }

    fn insert(&mut self, name: &str, value: String) -> Result<(), UrlError> {
        let name = name.trim_start_matches(' ');
        let (base, brackets) = split_brackets(name);
        if base.is_empty() {
            return Ok(());
        }
        let base = base.replace(['.', ' '], "_");
        let at = match self.0.iter().position(|(known, _)| *known == base) {
            Some(at) => at,
            None => {
                self.0.push((base, Param::Text(String::new())));
                self.0.len() - 1
            }
        };
        set(&mut self.0[at].1, brackets, value, 0)
    }
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
    let at = match entries.iter().position(|(known, _)| *known == key) {
        Some(at) => at,
        None => {
            entries.push((key, Param::Text(String::new())));
            entries.len() - 1
        }
    };
    set(&mut entries[at].1, rest, value, depth + 1)
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

    use super::*;

    fn text(value: &str) -> Param {
        Param::Text(value.to_owned())
    }

    fn list(values: &[(i64, &str)]) -> Param {
        Param::List(
            values
                .iter()
                .map(|(index, value)| (Key::Number(*index), text(value)))
                .collect(),
        )
    }

    #[track_caller]
    fn check(query: &str, name: &str, expect: Option<Param>) {
        let params = Params::parse(query, 100).unwrap();
        assert_eq!(params.get(name), expect.as_ref(), "{query}");
    }

    #[test]
    fn lists_and_texts() {
        check("a=1&b=2", "b", Some(text("2")));
        check("a=1&a=2", "a", Some(text("2")));
        check("a[]=x&a[]=y", "a", Some(list(&[(0, "x"), (1, "y")])));
        check("a%5B%5D=x&a%5B0%5D=y", "a", Some(list(&[(0, "y")])));
        check(
            "a[5]=x&a[2]=y&a[]=z",
            "a",
            Some(list(&[(5, "x"), (2, "y"), (6, "z")])),
        );
        check(
            "a[5]=x&a[1]=y&a[]=z",
            "a",
            Some(list(&[(5, "x"), (1, "y"), (6, "z")])),
        );
        check("a=1&a[]=x", "a", Some(list(&[(0, "x")])));
        check("a[]=x&a=1", "a", Some(text("1")));
        check("a", "a", Some(text("")));
        check("=1&&a=1", "a", Some(text("1")));
        check("a.b.c[]=1", "a_b_c", Some(list(&[(0, "1")])));
        check("a[x", "a[x", Some(text("")));
        check("a[]x=1", "a", Some(list(&[(0, "1")])));
        check("b=1", "a", None);
    }

    #[test]
    fn names_and_numbers_are_told_apart() {
        let nested = Param::List(vec![(Key::Name("01".to_owned()), list(&[(0, "q")]))]);
        check("a[01][]=q", "a", Some(nested));
        let nested = Param::List(vec![(Key::Number(1), list(&[(0, "q"), (1, "r")]))]);
        check("a[1][]=q&a[1][]=r", "a", Some(nested));
    }

    #[test]
    fn percent_sequences() {
        check("a=%7B%22x%22%3A1%7D+y", "a", Some(text("{\"x\":1} y")));
        check("a=100%&b=1", "a", Some(text("100%")));
        check("a=%zz%4", "a", Some(text("%zz%4")));
        check("a=%C3%A9", "a", Some(text("é")));
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
