//! The names that [`gateways!`](crate::gateways!) needs where it is used.

pub use std::net::IpAddr;
pub use std::sync::Arc;

pub use throng_engine::Kernel;
pub use throng_hub::Format;
pub use throng_metrics::Gauge;
pub use throng_session::{
    Claim, Class, Context, Event, Family, Flow, Gateway, Http, Incoming, Opened, Order, Patch,
    Reject, Sender, Shared,
};
pub use throng_types::{ConnId, Load, Millis, Now, Publication, Save, Saved};

pub use crate::list::Host;
pub use crate::slot::Slot;
