//! What a session of this gateway is given with each event.

use throng_session::Context;

use crate::order::Order;
use crate::shared::GripShared;

/// The surroundings of one event.
pub(crate) type Cx<'a> = Context<'a, GripShared, Order>;
