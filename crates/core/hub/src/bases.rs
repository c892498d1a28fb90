//! Last publication of each channel with deltas, as its members have it: the next one is sent as
//! difference from it.
//!
//! Invariants
//! - A member is marked as having a base only if it got the channel's newest publication, from its
//!   fan-out here or with the reply to its subscribe. All such members have the same one.
//! - The base is in the channel's fan-out, or, while there is none, in [`Local::bases`].

use std::ops::Range;
use std::sync::Arc;

use throng_broker::{Recovery, Subscribed};
use throng_types::Publication;

use crate::Format;
use crate::channel::NO_FANOUT;
use crate::fanout::Fanout;
use crate::local::Local;

impl Local {
    /// Keeps the newest publication when a fan-out is over.
    pub(crate) fn keep_base(&mut self, fanout: &mut Fanout) {
        if fanout.rules.delta
            && let Some(newest) = fanout.newest()
        {
            self.set_base(fanout.channel, newest);
        }
    }

    /// Sets a channel's base, or removes it if no difference can be made from the publication.
    fn set_base(&mut self, key: u32, newest: Arc<Publication>) {
        if newest.payload.bytes.len() > throng_fossil::BYTES_MAX {
            self.bases.remove(&key);
        } else {
            self.bases.insert(key, newest);
        }
    }

    /// Marks members that got what the fan-out carries.
    pub(crate) fn note_bases(&mut self, fanout: &Fanout, places: Range<usize>) {
        if fanout.rules.delta
            && let Some(channel) = self.channels.at_mut(fanout.channel)
            && let Some(members) = channel.members.as_mut_slice().get_mut(places)
        {
            for member in members {
                *member = fanout.after_load(*member);
            }
        }
    }

    /// The form for a new subscriber: the publication that it recovered is its base if the others
    /// have the same.
    pub(crate) fn format_after(
        &mut self,
        key: u32,
        format: Format,
        subscribed: &Subscribed,
    ) -> Format {
        let based = format.with_base();
        let Some((_, channel)) = self.channels.at(key).filter(|_| based != format) else {
            return format;
        };
        let Recovery::Whole(missed) = &subscribed.recovery else {
            return format;
        };
        let Some(newest) = missed.last() else {
            // The client may have missed nothing, and have no publication.
            return format;
        };
        if channel.members.len() == 0 && channel.fanout == NO_FANOUT {
            self.set_base(key, newest.clone());
            return based;
        }
        let fanout = self.fanouts.get(channel.fanout);
        let base = fanout.map_or_else(|| self.bases.get(&key).cloned(), |fanout| fanout.newest());
        match base {
            Some(base) if base.position.is_some() && base.position == newest.position => based,
            _ => format,
        }
    }
}
