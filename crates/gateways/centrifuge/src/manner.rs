//! Options of a client's subscription beside its publications: presence, its shown identity, and
//! joins and leaves of others.
//!
//! The channel's options decide, unless a token sets them aside for its subscription.

use std::sync::Arc;

use throng_auth::SubscriptionOptions;
use throng_broker::Presence;
use throng_hub::Format;
use throng_session::{Form, Identity, OPENING, Sight, Wanted, may_see_presence};
use throng_types::{ChannelName, Publisher};

use crate::context::Cx;

/// Asks for a subscription that the client did not ask for itself, as a part of the connection's
/// opening.
pub(crate) fn subscribe(wanted: &Wanted, identity: Option<&Identity>, form: Form, cx: &mut Cx<'_>) {
    let channel = wanted.channel.clone();
    let manner = Manner::new(identity, &channel, &wanted.options, false, form, cx);
    let Manner { format, presence } = manner;
    cx.subscribe_as(OPENING, channel, format, wanted.since, presence);
}

/// Options of a client's subscription.
pub(crate) struct Manner {
    /// The wire form of deliveries.
    pub(crate) format: Format,
    /// Presence of the client in the channel, if it is listed there.
    pub(crate) presence: Option<Presence>,
}

impl Manner {
    /// Decides by the channel's options and the token's. `asks_for_news` if the client asks for
    /// joins and leaves; it gets none if it may not see presence.
    pub(crate) fn new(
        identity: Option<&Identity>,
        channel: &ChannelName,
        own: &SubscriptionOptions,
        asks_for_news: bool,
        form: Form,
        cx: &Cx<'_>,
    ) -> Self {
        let options = cx.shared.namespaces.find(channel);
        let options = options.map(|options| options.presence).unwrap_or_default();
        let is_listed = own.presence.unwrap_or(options.is_listed);
        let is_announced = own.join_leave.unwrap_or(options.is_announced);
        let may_hear = || {
            let sight = may_see_presence(identity, channel, cx.shared);
            matches!(sight, Sight::Yes | Sight::IfSubscribed)
        };
        let hears = own.force_push_join_leave.unwrap_or(options.is_pushed)
            || asks_for_news && is_announced && may_hear();
        let format = cx.format(form);
        let presence = || Presence {
            who: Arc::new(Publisher {
                client: cx.shared.node.client_id(cx.id).as_str().into(),
                user: { identity }.map_or_else(Box::default, |identity| identity.user.clone()),
                conn_info: identity.and_then(|identity| identity.info.clone()),
                chan_info: own.info.clone(),
            }),
            is_listed,
            is_announced,
        };
        Self {
            format: if hears { format.with_news() } else { format },
            presence: (is_listed || is_announced).then(presence),
        }
    }
}
