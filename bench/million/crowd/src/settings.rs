//! What `crowd drive` was asked for.

use std::collections::HashMap;
use std::path::PathBuf;
use std::str::FromStr;

use crate::plan::{Layout, Transport};

pub(crate) struct Settings {
    pub(crate) connections: u32,
    pub(crate) clients: u32,
    pub(crate) transport: Transport,
    pub(crate) layout: Layout,
    pub(crate) hold_s: u64,
    pub(crate) ping_s: u64,
    pub(crate) sample_s: u64,
    /// Another process takes over before anything is published.
    pub(crate) upgrade: bool,
    /// Value of the server's option `tls.records`; none without TLS.
    pub(crate) tls: Option<String>,
    pub(crate) throng: PathBuf,
    pub(crate) out: PathBuf,
}

impl Settings {
    pub(crate) fn read(args: &Args) -> Result<Self, String> {
        Ok(Self {
            connections: args.get("connections")?,
            clients: args.get("clients")?,
            transport: args.get("transport")?,
            layout: args.get("layout")?,
            hold_s: args.get("hold")?,
            ping_s: args.get("ping")?,
            sample_s: args.get("sample")?,
            upgrade: args.get("upgrade")?,
            tls: Some(args.get("tls")?).filter(|records| records != "no"),
            throng: args.get("throng")?,
            out: args.get("out")?,
        })
    }
}

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
