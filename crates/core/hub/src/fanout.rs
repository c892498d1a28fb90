//! The hub's carrying: sweeps go over members, a bounded number of visits a turn.

use throng_types::Now;

use crate::channel::{Member, NO_SWEEP};
use crate::subscriptions::Place;
use crate::sweep::Sweep;
use crate::{Batch, Hub, Sink};

impl Hub {
    /// Delivers to at most `visits` members; true if more wait.
    ///
    /// A member whose connection has other channels is asked to gather, so that it is
    /// written to once even when several of its channels were published to in one turn.
    pub fn fan_out(&mut self, visits: usize, now: Now, sink: &mut impl Sink) -> bool {
        let more = self.go_round(visits, now, sink);
        for publication in self.carried.drain(..) {
            sink.carried(&publication);
        }
        more
    }

    fn go_round(&mut self, visits: usize, now: Now, sink: &mut impl Sink) -> bool {
        let mut left = visits;
        while left > 0 {
            let Some(key) = self.turn_order.pop_front() else {
                return false;
            };
            let Some(mut sweep) = self.sweeps.remove(key) else {
                continue;
            };
            let several = !self.turn_order.is_empty();
            self.carry(&mut sweep, several, &mut left, sink);
            self.waiting -= sweep.forget(&mut self.carried);
            let channel = sweep.channel;
            if sweep.is_over() {
                if let Some(channel) = self.channels.at_mut(channel) {
                    channel.sweep = NO_SWEEP;
                }
                self.release_if_unused(channel, now);
            } else {
                let key = self.sweeps.insert(sweep);
                if let Some(channel) = self.channels.at_mut(channel) {
                    channel.sweep = key;
                }
                self.turn_order.push_back(key);
            }
        }
        !self.turn_order.is_empty()
    }

    /// Carries one sweep on while visits are left and somebody lacks something.
    fn carry(&mut self, sweep: &mut Sweep, several: bool, left: &mut usize, sink: &mut impl Sink) {
        // Twice through the end of a round finds everybody, whatever was left of the first.
        for _ in 0..2 {
            while let Some((at, mark)) = sweep.next_visit() {
                if *left == 0 {
                    return;
                }
                *left -= 1;
                let channel = self.channels.at(sweep.channel);
                let member =
                    channel.and_then(|(_, channel)| channel.members.as_slice().get(at as usize));
                if let Some(&member) = member {
                    let gather = several && self.subscriptions.of_index(member.index()).len() > 1;
                    deliver(sweep, member, mark, gather, sink);
                }
                sweep.took_load();
            }
            sweep.next_round();
            self.admit_newcomers(sweep, left, sink);
        }
    }

    /// Gives newcomers what they lack and makes them members.
    fn admit_newcomers(&mut self, sweep: &mut Sweep, left: &mut usize, sink: &mut impl Sink) {
        for newcomer in std::mem::take(&mut sweep.newcomers) {
            let mut mark = newcomer.mark;
            while mark < sweep.next_number() {
                mark += deliver(sweep, newcomer.member, mark, true, sink);
                *left = left.saturating_sub(1);
            }
            let Some(channel) = self.channels.at_mut(sweep.channel) else {
                continue;
            };
            channel.members.push(newcomer.member);
            let place = Place::Member(channel.members.len() - 1);
            let index = newcomer.member.index();
            self.subscriptions.set_place(index, sweep.channel, place);
            sweep.admitted(mark);
        }
    }
}

/// Hands a member what it lacks; gives how many publications that were.
fn deliver(
    sweep: &mut Sweep,
    member: Member,
    mark: u64,
    gather: bool,
    sink: &mut impl Sink,
) -> u64 {
    let (channel_key, overflow) = (sweep.channel, sweep.overflow);
    let load = sweep.load(mark);
    let form = load.encoded(member.format(), sink);
    let batch = Batch {
        channel_key,
        overflow,
        publications: &load.publications,
        encoded: load.form(form),
        gather,
    };
    sink.deliver(member.index(), &batch);
    load.publications.len() as u64
}
