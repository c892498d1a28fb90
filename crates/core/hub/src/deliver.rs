//! Fan-outs go over their members, a bounded number of visits a turn.

use std::iter;

use throng_types::Millis;

use crate::channel::{Member, NO_FANOUT};
use crate::fanout::{Fanout, Joining};
use crate::local::Local;
use crate::subscriptions::Place;
use crate::{Batch, Sink};

impl Local {
    /// Delivers to at most `visits` members; true if more wait.
    pub(crate) fn fan_out(&mut self, visits: usize, now: Millis, sink: &mut impl Sink) -> bool {
        self.end_rests(now);
        let more = self.go_round(visits, now, sink);
        for publication in self.carried.drain(..) {
            sink.carried(&publication);
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
