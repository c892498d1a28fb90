//! HTTP for commands that talk to a server: blocking, over our own codec, without TLS.

mod client;
mod endpoint;

pub(crate) use client::{Exchange, Fault, Request};
pub(crate) use endpoint::{Endpoint, query};
