//! The interface of every server that is measured.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::server::Addresses;

/// A server that can be started.
pub(crate) trait Peer {
    /// Its name on the command line.
    fn key(&self) -> &'static str;

    /// Its row in the table, with its version.
    fn title(&self) -> String;

    fn addresses(&self) -> Result<Addresses> {
        Addresses::single()
    }

    /// Returns the command that starts it in the foreground; it may keep files in `folder`, which
    /// is empty.
    fn command(&self, addresses: Addresses, folder: &Path) -> Result<Command>;
}
