//! TLS: the state of one connection, certificates, and what servers and clients offer.
//!
//! rustls does the handshake. Records are made by rustls too, or by our own layer
//! ([`RecordLayer`]). This room gives the engine a [`TlsLink`] that takes and gives bytes, and the
//! server [`Certificates`] that can be replaced while it runs.
//!
//! Owns: keys and certificates, tickets, and what a connection needs to go on. Never: touches a
//! socket, a file or a clock, but for the machine's own list of authorities ([`ClientTls`]); rustls
//! asks the clock itself.

mod certificate;
mod client;
mod der;
mod lean;
mod link;
mod opening;
mod server;
mod stream;
mod suites;
mod talk;
#[cfg(test)]
mod tests;

pub use certificate::{CertificateError, Finding, Site, Unkeyed, Validity};
pub use client::{Authorities, ClientTls, Trust, client_config};
pub use lean::Shaken;
pub use link::TlsLink;
pub use opening::PrefaceLength;
pub use server::{Certificates, MinVersion, RecordLayer, ServerTls};
pub use stream::TlsStream;
pub use stream::{ReadHalf, WriteHalf};
pub use talk::TlsFault;
