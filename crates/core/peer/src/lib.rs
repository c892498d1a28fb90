//! The trait of what we connect to: a gateway turned outward.
//!
//! A [`Peer`] speaks to servers over links that it dials itself. Bytes, time and calls of the rest
//! of the server come in; bytes, dials, deadlines and replies go out, as wishes in a [`Context`].
//! `runtime/outward` carries them out on a shard of the engine.
//!
//! A peer that sends its servers one request after the other is written as [`task`]s.
//!
//! Never: sockets, names, TLS, clocks.
//!
//! The contract
//! - [`Context::dial`] gives a link at once. Exactly one [`Peer::ended`] ends it, unless
//!   [`Context::end`] did: no event of an ended link follows.
//! - [`Peer::connected`] comes before all else of a link, behind the TLS handshake, and before it
//!   nothing is written. It comes once more behind the handshake that [`Context::secure`] begins.
//! - Every [`Context::write`] to a link is followed by [`Peer::written`] once the kernel has taken
//!   all that was written until then; several writes may share one.
//! - Input comes as one read brought it; after [`Flow::Hold`] none comes until [`Context::resume`].
//!   The end of a link comes behind its input, unless the link broke.
//! - Replies to one destination arrive in their order. They wait without a bound of their own where
//!   the destination is busy: a peer bounds what it has under way.

mod context;
mod link;
mod peer;
pub mod task;

pub use context::{Context, Want, Wants};
pub use link::{Dial, DialTls, Ended, Flow, LinkId};
pub use peer::{Peer, Play};
