//! Tsung's XML: the part of its vocabulary that realtime benchmarks use.
//!
//! Owns: from `<tsung>` to a [`Scenario`], and what Tsung itself would have made of the file.
//! Facts: Tsung's DTD (`tsung-1.0.dtd`) and manual, sections on clients, servers, load, options and
//! sessions.

mod convert;
mod file;
mod options;
mod session;
#[cfg(test)]
mod tests;

use super::Imported;
use super::xml;
use crate::Problem;

use file::File;

pub use options::TsungOptions;

/// Reads a Tsung file. The first thing that is not supported ends it, with its line.
pub fn read_tsung(text: &str, options: &TsungOptions) -> Result<Imported, Problem> {
    let root = xml::parse(text)?;
    if root.name != "tsung" {
        return Err(root.problem(format!("the root element is <{}>, not <tsung>", root.name)));
    }
    root.only_attributes(&["loglevel", "dumptraffic", "backend", "version"])?;
    let mut file = File::default();
    for child in &root.children {
        match child.name.as_str() {
            "information" => {}
            "clients" => file.clients(child)?,
            "servers" => file.servers(child)?,
            "monitoring" => file
                .notes
                .push("<monitoring> is left out: the server is watched by its /metrics".into()),
            "load" => file.load(child)?,
            "options" => file.options(child)?,
            "sessions" => file.sessions(child)?,
            _ => return Err(child.unsupported()),
        }
    }
    file.finish(&root, options)
}
