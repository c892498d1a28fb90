//! Arguments of a command, as pairs of `--NAME VALUE`.

use std::collections::HashMap;
use std::str::FromStr;

pub(crate) struct Args(HashMap<String, String>);

impl Args {
    pub(crate) fn read(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut pairs = HashMap::new();
        while let Some(word) = words.next() {
            let name = word
                .strip_prefix("--")
                .ok_or_else(|| format!("{word}: expected --NAME"))?;
            let value = words
                .next()
                .ok_or_else(|| format!("--{name} needs a value"))?;
            pairs.insert(name.to_owned(), value);
        }
        Ok(Self(pairs))
    }

    pub(crate) fn get<T: FromStr>(&self, name: &str) -> Result<T, String> {
        let text = self
            .0
            .get(name)
            .ok_or_else(|| format!("--{name} is missing"))?;
        text.parse()
            .map_err(|_| format!("--{name}: {text} is not understood"))
    }
}
