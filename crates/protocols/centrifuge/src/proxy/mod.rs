//! What backends are asked on a client's behalf, and what they answer: Centrifugo's HTTP proxies.
//!
//! Owns: the bodies of requests, and what an answer may be. Never: where backends are, which
//! headers go with a request, and what follows from an answer.
//!
//! Facts come from Centrifugo's page "Proxy events to the backend" and its schema `proxy.proto`. An
//! answer is `{"result": {..}}`, `{"error": {..}}` or `{"disconnect": {..}}`; of several the
//! disconnect counts first, then the error.

mod answer;
mod request;

pub use answer::{ProxyAnswer, ProxyRefusal};
pub use request::{ProxyCall, ProxyKind, ProxyRequest, encode_cache_empty};

#[cfg(test)]
mod tests;
