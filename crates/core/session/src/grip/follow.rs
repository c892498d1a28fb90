//! What a held client has of its channels: last ids, filters, meta.

use throng_grip::filters::{FilterContext, FilterFault, Filtered, Filters};
use throng_grip::instruct::HoldChannel;
use throng_grip::item::Item;
use throng_hub::{Asker, Command, Format};
use throng_types::{ChannelName, ConnId};

use super::forms::{hub_channel, own_name};
use super::order::GripOrder;
use crate::effects::{Fx, Order};
use crate::opening::OPENING;

/// One channel of a held client.
pub(super) struct Followed {
    /// The hub's name.
    pub(super) channel: ChannelName,
    /// Bytes of the route's prefix in front of the backend's name.
    prefix_bytes: u16,
    pub(super) last_id: Option<Box<str>>,
    pub(super) filters: Filters,
}

impl Followed {
    /// The backend's name.
    pub(super) fn name(&self) -> &str {
        let name = own_name(&self.channel);
        name.get(usize::from(self.prefix_bytes)..).unwrap_or(name)
    }
}

/// See the module's head.
pub(super) struct Following {
    pub(super) channels: Vec<Followed>,
    pub(super) meta: Vec<(String, String)>,
}

/// What becomes of an item for this client.
pub(super) enum Due {
    /// The client has it.
    Known,
    /// Something is missing before it.
    Gap,
    /// It is next, and its id is noted.
    Next,
}

impl Following {
    /// Those channels that have a name that a hub can have.
    pub(super) fn new(prefix: &str, channels: &[HoldChannel], meta: Vec<(String, String)>) -> Self {
        let mut following = Self {
            channels: Vec::new(),
            meta,
        };
        for wanted in channels {
            let Some(channel) = hub_channel(prefix, &wanted.name) else {
                continue;
            };
            if following.find(&channel).is_none() {
                following.channels.push(Followed {
                    channel,
                    prefix_bytes: prefix.len() as u16,
                    last_id: wanted.prev_id.as_deref().map(Into::into),
                    filters: wanted.filters,
                });
            }
        }
        following
    }

    /// Whether anything here asks for a look at each item.
    pub(super) fn is_plain(&self) -> bool {
        let plain = |followed: &Followed| followed.last_id.is_none() && followed.filters.is_empty();
        self.channels.iter().all(plain)
    }

    pub(super) fn find(&self, channel: &ChannelName) -> Option<usize> {
        self.channels
            .iter()
            .position(|followed| followed.channel == *channel)
    }

    /// Whether it has a last id in a channel, and another one.
    pub(super) fn has_other_than(&self, channel: &ChannelName, last: &str) -> bool {
        let known = self.find(channel).and_then(|at| self.channels.get(at));
        let known = known.and_then(|followed| followed.last_id.as_deref());
        known.is_some_and(|known| known != last)
    }

    pub(super) fn subscribe(&self, conn: ConnId, form: Format, fx: &mut Fx<'_>) {
        self.subscribe_those(conn, form, |_| true, fx);
    }

    pub(super) fn subscribe_those(
        &self,
        conn: ConnId,
        form: Format,
        wanted: impl Fn(&ChannelName) -> bool,
        fx: &mut Fx<'_>,
    ) {
        for followed in self
            .channels
            .iter()
            .filter(|followed| wanted(&followed.channel))
        {
            fx.hub(Command::Subscribe {
                asker: Asker {
                    conn,
                    token: OPENING,
                },
                channel: followed.channel.clone(),
                format: form,
                since: None,
            });
        }
    }

    pub(super) fn leave(&self, conn: ConnId, fx: &mut Fx<'_>) {
        for followed in &self.channels {
            let channel = followed.channel.clone();
            fx.hub(Command::Unsubscribe { conn, channel });
        }
    }

    /// Asks which items went out last, where the client has said which one it has.
    pub(super) fn ask_last_ids(&self, conn: ConnId, fx: &mut Fx<'_>) {
        for followed in self
            .channels
            .iter()
            .filter(|followed| followed.last_id.is_some())
        {
            let channel = followed.channel.clone();
            fx.orders
                .push(Order::Grip(GripOrder::LastId { conn, channel }));
        }
    }

    /// The ids for `Grip-Last`.
    pub(super) fn last_ids(&self) -> Vec<(&str, &str)> {
        let channels = self.channels.iter();
        channels
            .filter_map(|followed| Some((followed.name(), followed.last_id.as_deref()?)))
            .collect()
    }

    /// Whether an item is what comes next in its channel.
    pub(super) fn due(&mut self, at: usize, item: &Item) -> Due {
        let Some(followed) = self.channels.get_mut(at) else {
            return Due::Known;
        };
        let Some(last) = followed.last_id.as_deref() else {
            return Due::Next;
        };
        if item.id.as_deref() == Some(last) {
            return Due::Known;
        }
        if item.prev_id.as_deref() != Some(last) {
            return Due::Gap;
        }
        followed.last_id = item.id.as_deref().map(Into::into);
        Due::Next
    }

    /// Runs a channel's filters over content.
    pub(super) fn filter<'c>(
        &self,
        at: usize,
        item: &Item,
        content: &'c [u8],
    ) -> Result<Filtered<'c>, FilterFault> {
        let Some(followed) = self.channels.get(at) else {
            return Ok(Filtered::Drop);
        };
        let channels: Vec<(&str, Option<&str>)> = self
            .channels
            .iter()
            .map(|followed| (followed.name(), followed.last_id.as_deref()))
            .collect();
        let context = FilterContext {
            sub_meta: &self.meta,
            pub_meta: &item.meta,
            channels: &channels,
        };
        followed.filters.apply(&context, content)
    }

    /// The context for content that belongs to no item.
    pub(super) fn with_context<R>(&self, run: impl FnOnce(&FilterContext<'_>) -> R) -> R {
        let channels = self.channels.iter();
        let channels: Vec<(&str, Option<&str>)> = channels
            .map(|followed| (followed.name(), followed.last_id.as_deref()))
            .collect();
        run(&FilterContext {
            sub_meta: &self.meta,
            pub_meta: &[],
            channels: &channels,
        })
    }
}
