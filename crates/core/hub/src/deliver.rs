//! Fan-outs go over their members, a bounded number of visits a turn. In channels with deltas the
//! last publication that members have is kept: the next one is sent as difference from it.
//!
//! Invariants
//! - A member is marked as having a base only if it got the channel's newest publication, from its
//!   fan-out here or with the reply to its subscribe. All such members have the same one.
//! - The base is in the channel's fan-out, or, while there is none, in [`Local::bases`].

use std::iter;
use std::ops::Range;
use std::sync::Arc;

use throng_broker::{Recovery, Subscribed};
use throng_types::{ChannelName, Millis, Publication};

use crate::channel::{Member, NO_FANOUT};
use crate::fanout::{Fanout, Joining};
use crate::local::Local;
use crate::subscriptions::Place;
use crate::{Batch, Format, Sink};

impl Local {
    /// Counts a publication that the broker is asked for.
    pub(crate) fn note_published(&self, channel: &ChannelName, sink: &mut impl Sink) {
        if let Some(options) = self.options.namespaces.find(channel) {
            sink.published(options.label);
        }
    }

    /// Delivers to at most `visits` members; true if more wait.
    pub(crate) fn fan_out(&mut self, visits: usize, now: Millis, sink: &mut impl Sink) -> bool {
        self.end_rests(now);
        let more = self.go_round(visits, now, sink);
        for publication in self.carried.drain(..) {
            sink.carried(&publication);
            if sink.counts_members(&publication) {
                let channel = self.channels.get(&publication.channel);
                sink.reached(&publication, channel.map_or(0, |it| it.members.len()));
            }
        }
        more
    }

    /// Continues fan-outs whose rest has ended.
    fn end_rests(&mut self, now: Millis) {
        if { self.resting.first() }.is_none_or(|(until, _)| *until > now) {
            return;
        }
        let over = self.resting.extract_if(..=(now, u32::MAX), |_| true);
        let over: Vec<(Millis, u32)> = over.collect();
        over.into_iter().for_each(|(_, key)| self.end_rest(key));
    }

    fn go_round(&mut self, visits: usize, now: Millis, sink: &mut impl Sink) -> bool {
        let mut left = visits;
        while left > 0 {
            let Some(key) = self.turn_order.pop_front() else {
                return false;
            };
            let fanout = self.fanouts.get_mut(key);
            if let Some(until) = fanout.and_then(|fanout| fanout.begin_rest(now)) {
                self.resting.insert((until, key));
                continue;
            }
            let Some(mut fanout) = self.fanouts.remove(key) else {
                continue;
            };
            let several = !self.turn_order.is_empty();
            let (waiting, bytes, before) = (fanout.waiting(), fanout.bytes(), left);
            self.carry(&mut fanout, several, &mut left, sink);
            fanout.forget(&mut self.carried);
            debug_assert!(
                left < before || fanout.is_over() || fanout.rests(),
                "a fan-out that goes on without a visit goes on for ever"
            );
            self.publications -= waiting - fanout.waiting();
            self.bytes -= bytes - fanout.bytes();
            let channel = fanout.channel;
            let is_over = fanout.is_over();
            let key = if is_over {
                self.keep_base(&mut fanout);
                self.spare(fanout);
                NO_FANOUT
            } else {
                self.fanouts.insert(fanout)
            };
            if let Some(channel) = self.channels.at_mut(channel) {
                channel.fanout = key;
            }
            if is_over {
                self.release_if_unused(channel);
            } else {
                self.turn_order.push_back(key);
            }
        }
        !self.turn_order.is_empty()
    }

    /// Continues one fan-out while visits are left and some member lacks something.
    fn carry(
        &mut self,
        fanout: &mut Fanout,
        several: bool,
        left: &mut usize,
        sink: &mut impl Sink,
    ) {
        // Passing the end of a round twice reaches all members, wherever the first began. In a
        // channel with a delay the second round comes after a rest.
        for _ in 0..2 {
            while let Some(visits) = fanout.next_visits() {
                if *left == 0 {
                    return;
                }
                let count = visits.count.min(u32::try_from(*left).unwrap_or(u32::MAX));
                *left -= count as usize;
                let places = visits.at as usize..(visits.at + count) as usize;
                let channel = self.channels.at(fanout.channel);
                let members = channel.map_or(&[][..], |(_, channel)| channel.members.as_slice());
                let members = members.get(places.clone()).unwrap_or_default().iter();
                let members = members.map(|&member| {
                    let gather = several && self.subscriptions.of_index(member.index()).len() > 1;
                    (member, gather)
                });
                deliver(fanout, members, visits.mark, sink);
                sink.delivered(fanout.rules.label, u64::from(count) * fanout.load_len());
                self.note_bases(fanout, places);
                fanout.took_load(count);
            }
            fanout.next_round();
            if !fanout.joining.is_empty() {
                self.admit_joining(fanout, left, sink);
            }
            if fanout.round_is_over() || fanout.all_have_all() {
                return;
            }
        }
    }

    /// Gives joining connections the publications that they lack, and makes them members.
    fn admit_joining(&mut self, fanout: &mut Fanout, left: &mut usize, sink: &mut impl Sink) {
        for joining in std::mem::take(&mut fanout.joining) {
            let Joining {
                mut member,
                mut mark,
            } = joining;
            while mark < fanout.next_number() {
                mark = deliver(fanout, iter::once((member, true)), mark, sink);
                sink.delivered(fanout.rules.label, fanout.load_len());
                member = fanout.after_load(member);
                *left = left.saturating_sub(1);
            }
            let Some(channel) = self.channels.at_mut(fanout.channel) else {
                continue;
            };
            channel.members.push(member);
            let place = Place::Member(channel.members.len() - 1);
            let index = member.index();
            self.subscriptions.set_place(index, fanout.channel, place);
            fanout.admitted(mark);
        }
    }

    // ---- the publications that differences are made from ----

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

/// Hands members with one mark the publications that they lack, each with whether more may follow
/// for it in this turn; returns their mark after that.
fn deliver(
    fanout: &mut Fanout,
    members: impl Iterator<Item = (Member, bool)>,
    mark: u64,
    sink: &mut impl Sink,
) -> u64 {
    let (channel_key, overflow) = (fanout.channel, fanout.rules.overflow);
    let load = fanout.load(mark);
    debug_assert!(
        !load.publications.is_empty(),
        "only who lacks something is visited"
    );
    let mut known = None;
    for (member, gather) in members {
        let format = member.format();
        // Most members have the form of the previous one.
        let form = match known {
            Some((known, form)) if known == format => form,
            _ => load.encoded(format, sink),
        };
        known = Some((format, form));
        let batch = Batch {
            channel_key,
            overflow,
            publications: &load.publications,
            format,
            encoded: load.form(form),
            gather,
        };
        sink.deliver(member.index(), &batch);
    }
    load.span.end
}
