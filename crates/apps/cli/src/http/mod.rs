//! HTTP for commands that talk to a server: blocking, over our own codec.

mod api;
mod client;
mod endpoint;
mod stream;

pub(crate) use api::ApiArgs;
pub(crate) use client::{Exchange, Request, RequestError};
pub(crate) use endpoint::{Endpoint, query};
pub(crate) use stream::TrustArgs;
