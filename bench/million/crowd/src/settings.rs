//! What `crowd drive` was asked for.

use std::path::PathBuf;

use crate::args::Args;
use crate::plan::{Layout, Transport};

/// Options of `crowd drive`, checked.
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
