//! What a session of this gateway is given with each event.

use throng_session::{Ask, Context, ProxyOptions};

/// The surroundings of one event.
pub(crate) type Cx<'a> = Context<'a, ProxyOptions, Ask>;
