//! Context of an event for a session of this gateway.

use throng_session::{Context, ProxyOptions};

use crate::order::Order;

/// The surroundings of one event.
pub(crate) type Cx<'a> = Context<'a, ProxyOptions, Order>;
