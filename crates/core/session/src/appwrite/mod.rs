//! Appwrite Realtime at `/v1/realtime`: the sessions of its clients, and one shard's room of them.
//!
//! A session ([`Appwrite`]) speaks with its client and writes down [`Order`]s; the shard's
//! [`Room`] knows who subscribed to what, carries the orders out and finds the receivers of events.
//! What neither may do (ask Appwrite who somebody is, count openings of an address, hand an event
//! to all shards) is behind [`Outside`]. What comes back from there is [`News`].
//!
//! Beyond stock, for clients that ask for it: `?recover=` in the URL brings positions, and
//! `?recover=POSITION` what was missed since. See [`past`].

mod connection;
mod desk;
mod open;
mod order;
mod past;
mod publish;
mod room;
#[cfg(test)]
mod tests;
mod waiting;
mod who;

pub(crate) use connection::Appwrite;
pub use desk::{AppwriteDesk, AppwriteProject, Credential, Found, Lookup, News, Outside, Refused};
pub(crate) use open::open;
pub use order::{Order, RoomOptions, Wanted, Wire};
pub(crate) use publish::publish;
pub use room::Room;
