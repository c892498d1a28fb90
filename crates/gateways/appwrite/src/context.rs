//! Context of an event for a session of this gateway.

use throng_session::Context;

use crate::order::Order;
use crate::shared::AppwriteShared;

/// The surroundings of one event.
pub(crate) type Cx<'a> = Context<'a, AppwriteShared, Order>;
