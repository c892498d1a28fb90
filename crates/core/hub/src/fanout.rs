//! The hub's carrying: sweeps go over members, a bounded number of deliveries a turn.

use throng_types::Now;

use crate::channel::{Member, NO_SWEEP};
use crate::subscriptions::Place;
use crate::sweep::{Sweep, encode, encoded_once};
use crate::{Batch, Hub, Sink};

impl Hub {
    /// Delivers to at most `budget` members; true if more wait.
    ///
    /// A member whose connection has other channels is asked to gather, so that it is
    /// written to once even when several of its channels were published to in one turn.
    pub fn fan_out(&mut self, budget: usize, now: Now, sink: &mut impl Sink) -> bool {
        let mut left = budget;
        while left > 0 {
            let Some(key) = self.turn_order.pop_front() else {
                return false;
            };
            let Some(mut sweep) = self.sweeps.remove(key) else {
                continue;
            };
            let several = !self.turn_order.is_empty();
            let waiting = sweep.waiting();
            let done = self.carry(&mut sweep, several, &mut left, sink);
            self.waiting -= waiting - sweep.waiting();
            if done {
                if let Some(channel) = self.channels.at_mut(sweep.channel) {
                    channel.sweep = NO_SWEEP;
                }
                self.release_if_unused(sweep.channel, now);
            } else {
                let channel = sweep.channel;
                let key = self.sweeps.insert(sweep);
                if let Some(channel) = self.channels.at_mut(channel) {
                    channel.sweep = key;
                }
                self.turn_order.push_back(key);
            }
        }
        !self.turn_order.is_empty()
    }

    /// Carries one sweep on; true when it has nothing more to carry.
    fn carry(
        &mut self,
        sweep: &mut Sweep,
        several: bool,
        left: &mut usize,
        sink: &mut impl Sink,
    ) -> bool {
        loop {
            if !sweep.in_round() && !sweep.next_round() {
                return true;
            }
            if !self.carry_slice(sweep, several, left, sink) {
                return false;
            }
            self.admit_newcomers(sweep, left, sink);
            if !sweep.next_round() {
                return true;
            }
            if *left == 0 {
                return false;
            }
        }
    }

    /// Moves the cursor over members while the budget lasts; true when it is at the end.
    fn carry_slice(
        &self,
        sweep: &mut Sweep,
        several: bool,
        left: &mut usize,
        sink: &mut impl Sink,
    ) -> bool {
        let Some((_, channel)) = self.channels.at(sweep.channel) else {
            return true;
        };
        let members = channel.members.as_slice();
        while *left > 0 {
            let Some(&member) = members.get(sweep.cursor as usize) else {
                return true;
            };
            let format = member.format();
            let encoded = if format.personal() {
                None
            } else {
                Some(encoded_once(&mut sweep.encoded, &sweep.batch, format, sink))
            };
            let batch = Batch {
                channel_key: sweep.channel,
                overflow: sweep.overflow,
                publications: &sweep.batch,
                encoded,
                gather: several && self.subscriptions.of_index(member.index()).len() > 1,
            };
            sink.deliver(member.index(), &batch);
            sweep.cursor += 1;
            *left = left.saturating_sub(sweep.batch.len());
        }
        sweep.cursor as usize >= members.len()
    }

    /// Gives newcomers their part of the finished batch and makes them members.
    fn admit_newcomers(&mut self, sweep: &mut Sweep, left: &mut usize, sink: &mut impl Sink) {
        let newcomers = std::mem::take(&mut sweep.newcomers);
        for newcomer in newcomers {
            let Some(start) = sweep.newcomer_start(newcomer) else {
                sweep.newcomers.push(newcomer);
                continue;
            };
            if let Some(due) = sweep.batch.get(start..).filter(|due| !due.is_empty()) {
                let format = newcomer.member.format();
                let encoded = (!format.personal()).then(|| encode(format, due, sink));
                let batch = Batch {
                    channel_key: sweep.channel,
                    overflow: sweep.overflow,
                    publications: due,
                    encoded: encoded.as_ref(),
                    gather: true,
                };
                sink.deliver(newcomer.member.index(), &batch);
                *left = left.saturating_sub(due.len());
            }
            self.admit(sweep.channel, newcomer.member);
            // It has the whole batch, so it stands before the cursor.
            sweep.cursor += 1;
        }
    }

    fn admit(&mut self, key: u32, member: Member) {
        let Some(channel) = self.channels.at_mut(key) else {
            return;
        };
        channel.members.push(member);
        let place = Place::Member(channel.members.len() - 1);
        self.subscriptions.set_place(member.index(), key, place);
    }
}
