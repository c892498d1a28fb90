//! GRIP: requests that a backend answers, and clients that are held for it.
//!
//! A request on a path with a route becomes an [`OriginRequest`], which the shard hands to
//! the driver; what the backend does comes back as events. Until its answer is known the
//! session is a [`proxied::Proxied`]. An answer that holds the client makes it a
//! [`held::Held`]: a member of its channels like any other subscriber, which is all that a
//! held stream without filters and links costs.
//!
//! GRIP's channels live in a namespace of their own, [`NAMESPACE`]: only backends say who
//! listens to them.
//!
//! [`OriginRequest`]: throng_grip::exchange::OriginRequest

mod asked;
mod desk;
mod follow;
mod forms;
mod frames;
mod head;
mod held;
mod home;
mod link;
mod open;
mod order;
mod over_http;
mod proxied;
mod publish;
mod receipt;
mod side;
mod tunnel;
mod upload;
mod wait;
mod zmtp;

pub use desk::{GripDesk, GripOptions};
pub(crate) use forms::{GRIP_CHUNKS, GRIP_FRAMES, GRIP_RAW, encode};
pub use forms::{NAMESPACE, grip_home_of};
pub(crate) use held::Held;
pub use home::{GripHome, LastItem, Offered};
pub(crate) use open::{open, outranks, route, streams};
pub use order::GripOrder;
pub(crate) use over_http::OverHttp;
pub(crate) use proxied::Proxied;
pub(crate) use publish::{publish, published};
pub use receipt::Receipt;
pub(crate) use tunnel::Tunnel;
pub use zmtp::Socket;
pub(crate) use zmtp::Zmtp;
