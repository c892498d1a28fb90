//! The server hands over to another process, by the code with which real processes do; or it tries
//! to, and goes on.
//!
//! Played are the link between the two, and which process is in charge. The clients go on
//! meanwhile: what they send waits in the kernel. No connection may end by it, since all of them
//! can move.

use std::io;

use throng_server::handover::{Parcel, Unpacking, steps};

use super::{Play, Process};
use crate::client::Around;
use crate::kernel::{SimKernel, SimSocket};

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
            for (_, stage, _) in &mut self.retired {
                stage.turn_all();
            }
        }
    }

    fn hand_over(&mut self) {
        // A server that is on its way out refuses.
        if self.draining || self.stage.running().count() < self.setup.shards {
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
        self.stage.running_mut().for_each(steps::be_still);
        if !self.comes_to_rest() {
            self.net.count("the shards do not come to rest");
            note!(self.net, "no rest");
            return self
                .stage
                .running_mut()
                .for_each(|running| steps::go_on(running, None));
        }
        let (made_of, net) = (&self.made_of, &self.net);
        let mut successor = made_of.process(net, &self.setup);
        let mut parcels: Vec<Parcel<SimKernel>> = Vec::new();
        for running in self.stage.running_mut() {
            let moves = running.conns().movable().count();
            let parcel = Parcel::pack(running, &mut || ());
            assert_eq!(parcel.len(), moves, "everybody's connection can move");
            parcels.push(parcel);
        }
        let is_taken = self.tell(&parcels, &mut successor, ending);
        match ending {
            Ending::Taken => {
                assert!(is_taken, "what was packed can be taken");
                self.net.count("the server hands over");
                self.is_taken_over(parcels, successor);
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
                for (running, parcel) in self.stage.running_mut().zip(parcels) {
                    steps::go_on(running, Some(parcel));
                }
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
            let mut is_busy = false;
            for running in self.stage.running_mut() {
                is_busy |= steps::still_turn(running).expect("a simulated wait does not fail");
            }
            if !is_busy && !self.stage.running().any(steps::is_busy) {
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
        (_, successor, _): &mut Process,
        ending: Ending,
    ) -> bool {
        let mut told = 0;
        let mut is_taken = true;
        for (running, parcel) in successor.running_mut().zip(parcels) {
            let (app, conns) = running.parts_mut();
            let mut unpacking = Unpacking::default();
            let sent = parcel.each(|message, sockets| {
                if ending == Ending::Died(told) {
                    return Err(io::ErrorKind::BrokenPipe.into());
                }
                self.meanwhile();
                let mut message = message.to_vec();
                if ending == Ending::Damaged(told) {
                    self.damage(&mut message);
                }
                told += 1;
                let mut sockets = sockets.iter().map(SimSocket::shared);
                let taken = unpacking.take(&message, &mut sockets, app, conns);
                taken.ok_or_else(|| io::ErrorKind::InvalidData.into())
            });
            is_taken &= sent.is_ok() && unpacking.is_whole();
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
        is_taken
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

    fn is_taken_over(
        &mut self,
        parcels: Vec<Parcel<SimKernel>>,
        (assembly, mut new, appwrite): Process,
    ) {
        // Both have the listeners until the old one closes its own.
        new.take_ports(&self.stage);
        for (running, parcel) in self.stage.running_mut().zip(parcels) {
            self.assembly.leave(running, parcel);
        }
        new.running_mut().for_each(throng_engine::Running::begin);
        let old = std::mem::replace(&mut self.stage, new);
        let of_old = std::mem::replace(&mut self.assembly, assembly);
        let of_appwrite = std::mem::replace(&mut self.appwrite, appwrite);
        self.retired.push((of_old, old, of_appwrite));
    }

    /// Processes that have handed over have ended by themselves.
    pub(super) fn retire(&mut self) {
        let running = |play: &Self| -> usize {
            let stages = play.retired.iter();
            stages.map(|(_, stage, _)| stage.running().count()).sum()
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
