//! Channels of a held client: last ids, filters, meta.

use throng_grip::filters::{FilterContext, FilterError, Filtered, Filters};
use throng_grip::instruct::HoldChannel;
use throng_grip::item::Item;
use throng_session::{Form, OPENING};
use throng_types::{ChannelName, Save};

use crate::context::Cx;
use crate::forms::{hub_channel, own_name};
use crate::order::Order;

/// One channel of a held client.
#[derive(Save)]
pub(crate) struct Followed {
    /// Name of the channel in the hub.
    pub(crate) channel: ChannelName,
    /// Bytes of the route's prefix in front of the backend's name.
    pub(crate) prefix_bytes: u16,
    pub(crate) last_id: Option<Box<str>>,
    pub(crate) filters: Filters,
}

impl Followed {
    /// Name of the channel at the backend, without the route's prefix.
    pub(crate) fn name(&self) -> &str {
        let name = own_name(&self.channel);
        name.get(usize::from(self.prefix_bytes)..).unwrap_or(name)
    }
}

/// A held client's channels, and the values for filters.
#[derive(Save)]
pub(crate) struct Following {
    pub(crate) channels: Vec<Followed>,
    pub(crate) meta: Vec<(String, String)>,
}

/// Outcome of an item for one client.
pub(crate) enum Due {
    /// The client has it.
    Known,
    /// Something is missing before it.
    Gap,
    /// The item is next; its id is noted.
    Next,
}

impl Following {
    /// Those channels that have a name that a hub can have.
    pub(crate) fn new(prefix: &str, channels: &[HoldChannel], meta: Vec<(String, String)>) -> Self {
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
    pub(crate) fn is_plain(&self) -> bool {
        let plain = |followed: &Followed| followed.last_id.is_none() && followed.filters.is_empty();
        self.channels.iter().all(plain)
    }

    pub(crate) fn find(&self, channel: &ChannelName) -> Option<usize> {
        self.channels
            .iter()
            .position(|followed| followed.channel == *channel)
    }

    /// Whether it has a last id in a channel, and another one.
    pub(crate) fn has_other_than(&self, channel: &ChannelName, last: &str) -> bool {
        let known = self.find(channel).and_then(|at| self.channels.get(at));
        let known = known.and_then(|followed| followed.last_id.as_deref());
        known.is_some_and(|known| known != last)
    }

    pub(crate) fn subscribe(&self, form: Form, cx: &mut Cx<'_>) {
        self.subscribe_those(form, |_| true, cx);
    }

    pub(crate) fn subscribe_those(
        &self,
        form: Form,
        wanted: impl Fn(&ChannelName) -> bool,
        cx: &mut Cx<'_>,
    ) {
        for followed in self
            .channels
            .iter()
            .filter(|followed| wanted(&followed.channel))
        {
            cx.subscribe(OPENING, followed.channel.clone(), form, None);
        }
    }

    pub(crate) fn leave(&self, cx: &mut Cx<'_>) {
        for followed in &self.channels {
            leave_channel(followed.channel.clone(), cx);
        }
    }

    /// Asks for the last items of channels for which the client has named its own.
    pub(crate) fn ask_last_ids(&self, cx: &mut Cx<'_>) {
        for followed in self
            .channels
            .iter()
            .filter(|followed| followed.last_id.is_some())
        {
            let (conn, channel) = (cx.id, followed.channel.clone());
            cx.order(Order::LastId { conn, channel });
        }
    }

    /// The ids for `Grip-Last`.
    pub(crate) fn last_ids(&self) -> Vec<(&str, &str)> {
        let channels = self.channels.iter();
        channels
            .filter_map(|followed| Some((followed.name(), followed.last_id.as_deref()?)))
            .collect()
    }

    /// Decides whether an item is the next one in its channel.
    pub(crate) fn due(&mut self, at: usize, item: &Item) -> Due {
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
    pub(crate) fn filter<'c>(
        &self,
        at: usize,
        item: &Item,
        content: &'c [u8],
    ) -> Result<Filtered<'c>, FilterError> {
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
    pub(crate) fn with_context<R>(&self, run: impl FnOnce(&FilterContext<'_>) -> R) -> R {
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

/// A client gets no more of a channel.
pub(crate) fn leave_channel(channel: ChannelName, cx: &mut Cx<'_>) {
    cx.own.stats(|book| book.left(cx.id, &channel));
    cx.unsubscribe(channel);
}

#[cfg(test)]
mod tests {
    use throng_grip::item::zmq_pull_item;

    use super::*;

    #[test]
    fn an_item_is_known_or_next_or_behind_a_gap() {
        let channel = hub_channel("", "a").unwrap();
        let item = |id: &str, prev: &str| {
            let ids = format!(r#""id":"{id}","prev-id":"{prev}""#);
            let json = format!(r#"J{{"channel":"a",{ids},"http-stream":{{"content":"x"}}}}"#);
            zmq_pull_item(&[json.into_bytes()]).unwrap()
        };
        let mut following = Following {
            channels: vec![Followed {
                channel,
                prefix_bytes: 0,
                last_id: Some("2".into()),
                filters: Filters::default(),
            }],
            meta: Vec::new(),
        };
        assert!(matches!(following.due(0, &item("2", "1")), Due::Known));
        assert!(matches!(following.due(0, &item("4", "3")), Due::Gap));
        assert!(matches!(following.due(0, &item("3", "2")), Due::Next));
        assert!(matches!(following.due(0, &item("4", "3")), Due::Next));
    }
}
