//! The way of other threads to HTTP backends.
//!
//! A shard hands in requests through a [`Client`] and gets a [`Ticket`] for each; what the backend
//! does comes back through the function that [`Origin::start`] was given. The ticket is the shard's
//! hand on the exchange: it grants bytes of the answer as the client takes them, what follows a
//! request goes through it, and dropping it ends the exchange.
//!
//! Rule for "full": a request beyond [`OriginOptions::requests_max`] is refused.

mod client;
mod held;
#[cfg(test)]
mod tests;

pub use client::{Client, Origin, OriginOptions, Ticket};
pub use held::Deliver;
pub use throng_backend::{Address, AskLimits, BackendLimits, WholeAnswer};
