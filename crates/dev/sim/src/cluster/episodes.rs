//! Episodes of a run that single steps rarely make up, and waits.

use super::Play;
use super::broker::Kept;
use crate::http::{Exchange, Progress};

impl Play {
    /// Keeps all readers away for longer than a stream without publications is remembered. The
    /// broker starts anew meanwhile, with all data, and something is published behind each start.
    pub(super) fn all_readers_are_away(&mut self) {
        self.readers_leave();
        for _ in 0..self.net.between(0, 3) {
            self.pass_s(6);
            for conn in self.broker.clients() {
                self.cut(conn);
            }
            let is_less = self.broker.start(Kept::All);
            self.witness.broker_started(is_less);
            self.pass_s(6);
            self.publish_some();
        }
        self.pass_s(15);
    }

    /// Lets the broker refuse things while all connections stand and readers are there.
    pub(super) fn only_the_broker_ails(&mut self) {
        self.pass_s(6);
        for at in 0..self.readers.len() {
            self.reader_acts(at);
        }
        for _ in 0..6 {
            self.broker_ails();
            self.publish_some();
        }
        self.broker.heal();
    }

    fn publish_some(&mut self) {
        for _ in 0..20 {
            self.publisher_acts();
            self.rest();
        }
    }

    fn pass_s(&mut self, seconds: usize) {
        for _ in 0..seconds {
            self.rest();
            self.net.pass_us(1_000_000);
        }
    }

    /// Waits for an answer.
    pub(super) fn whole(&mut self, mut answer: Exchange) -> Exchange {
        while answer.read(&self.net, usize::MAX) == Progress::Open {
            self.rest();
            self.net.pass_us(100_000);
        }
        answer
    }
}
