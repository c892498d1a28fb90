//! The server hands over to another process, by the code with which real processes do; or it tries
//! to, and goes on.
//!
//! Played are the link between the two, and which process is in charge. The clients go on
//! meanwhile: what they send waits in the kernel. No connection may end by it, since all of them
//! can move.

use std::io;

use throng_server::handover::{Parcel, steps};

use super::Play;
use crate::client::Around;
use crate::kernel::SimKernel;
use crate::node::{Node, unpack};

/// Rounds in which the shards may come to rest.
const ROUNDS: usize = 300;

/// Outcome of a hand-over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Taken,
    Refused,
    /// After so many messages.
    Died(usize),
    Late,
    /// In the message of this number.
    Damaged(usize),
}

impl Play {
    pub(super) fn hand_over_or_publish(&mut self) {
        if self.net.percent(4) {
            self.hand_over();
        } else {
            self.publisher_acts();
        }
    }

    /// Runs a turn of the shards that have handed over.
    pub(super) fn retired_turn(&mut self) {
        if self.net.percent(30) {
            for old in &mut self.retired {
                old.stage.turn_all();
            }
        }
    }

    fn hand_over(&mut self) {
        // A server that is on its way out refuses.
        if self.draining || self.node.stage.running().count() < self.setup.shards {
            return;
        }
        let ending = match self.net.below(8) {
            0 => Ending::Refused,
            1 => Ending::Died(self.net.below(6)),
            2 => Ending::Late,
            3 => Ending::Damaged(self.net.below(6)),
            _ => Ending::Taken,
        };
        note!(self.net, "a hand-over begins: {ending:?}");
        self.node.stage.running_mut().for_each(steps::be_still);
        if !self.comes_to_rest() {
            self.net.count("the shards do not come to rest");
            note!(self.net, "no rest");
            return self.node.go_on(Vec::new());
        }
        let mut successor = self.node.successor(&self.net);
        let all_move = |node: &Node| -> Vec<usize> {
            let running = node.stage.running();
            running.map(|it| it.conns().movable().len()).collect()
        };
        let moves = all_move(&self.node);
        let parcels = self.node.pack();
        let packed: Vec<usize> = parcels.iter().map(Parcel::len).collect();
        assert_eq!(packed, moves, "everybody's connection can move");
        let is_taken = self.tell(&parcels, &mut successor, ending);
        match ending {
            Ending::Taken => {
                assert!(is_taken, "what was packed can be taken");
                self.net.count("the server hands over");
                let old = self.node.leave_to(successor, parcels);
                self.retired.push(old);
            }
            _ => {
                self.net.count(match ending {
                    Ending::Died(_) => "a successor ends in the midst",
                    Ending::Late => "a successor answers late",
                    Ending::Damaged(_) => "a successor is told damaged bytes",
                    _ => "a successor declines",
                });
                // It has ended for certain before the old one goes on.
                drop(successor);
                self.node.go_on(parcels);
            }
        }
        note!(self.net, "the hand-over is over");
    }

    /// Clients do something meanwhile.
    fn meanwhile(&mut self) {
        self.net.pass_us(self.net.between(0, 2000) as u64);
        match self.net.below(4) {
            0 => self.client_acts(),
            1 => self.publisher_acts(),
            2 => {
                let at = self.net.below(self.clients.len());
                self.clients[at].read(&mut around!(self));
            }
            _ => {}
        }
    }

    fn comes_to_rest(&mut self) -> bool {
        for _ in 0..ROUNDS {
            if self.node.still_turn(false) {
                return true;
            }
            self.meanwhile();
        }
        false
    }

    /// Sends the successor everything, as far as it goes; whether it has taken it.
    fn tell(
        &mut self,
        parcels: &[Parcel<SimKernel>],
        successor: &mut Node,
        ending: Ending,
    ) -> bool {
        let mut told = 0;
        for (running, parcel) in successor.stage.running_mut().zip(parcels) {
            let is_taken = unpack(running, parcel, |message| {
                if ending == Ending::Died(told) {
                    return Err(io::ErrorKind::BrokenPipe.into());
                }
                self.meanwhile();
                let mut message = message.to_vec();
                if ending == Ending::Damaged(told) {
                    self.damage(&mut message);
                }
                told += 1;
                Ok(message)
            });
            if !is_taken {
                return false;
            }
        }
        if ending == Ending::Late {
            let ms = self.net.pick(&[1, 20_000, 60_000]);
            for _ in 0..5 {
                self.meanwhile();
            }
            self.net.pass_us(ms * 1000);
        }
        true
    }

    /// A bit is another one, or the end is missing.
    fn damage(&self, message: &mut Vec<u8>) {
        let at = self.net.below(message.len());
        if self.net.percent(30) {
            message.truncate(at);
        } else {
            message[at] ^= 1 << self.net.below(8);
        }
    }

    /// Processes that have handed over have ended by themselves.
    pub(super) fn retire(&mut self) {
        let running = |play: &Self| -> usize {
            let stages = play.retired.iter();
            stages.map(|old| old.stage.running().count()).sum()
        };
        // A shard whose time is up ends without the others, which then wait until their own time
        // is up.
        for _ in 0..10 {
            if running(self) > 0 {
                self.net.pass_us(6_000_000);
                self.rest();
            }
        }
        assert_eq!(running(self), 0, "a drained process ends");
    }
}
