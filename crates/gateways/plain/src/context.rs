//! Context of an event for a session of this gateway.

use throng_session::{Ask, Context, ProxyOptions};

/// The surroundings of one event.
pub(crate) type Cx<'a> = Context<'a, ProxyOptions, Ask>;
