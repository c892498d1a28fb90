//! Limits on the work that clients cause: an allowance for each connection, and one for each
//! address.
//!
//! Prices requests of clients, and reports when they exceed the allowance. Owns the table of
//! addresses; a connection's own allowance is kept in its session, which lends it to the [`Meter`]
//! while it is served. Never: answers or closes; the caller does.
//!
//! Work done is a debt that time pays back, one second of debt each second. A piece of work costs
//! as much time as its limit allows: with `messages_per_second_max = 100` a message costs 10 ms. So
//! one number holds for all kinds of work. No debt may exceed [`BURST_US`].

mod price;
mod table;

use std::cell::Cell;
use std::net::IpAddr;

use throng_auth::{Algorithm, TokenFault};
use throng_types::{Now, Save};

pub use price::{Overspent, Work, WorkLimits};
pub use table::{BURST_US, Payer, SharedDebt};

use table::{DEBT_MAX_US, Table, left, low_ms};

/// Bad tokens that one connection may bring; the next one ends it.
pub const BAD_TOKENS_MAX: u32 = 3;
/// Where the number of bad tokens begins in [`Allowance::owed`].
const BAD_SHIFT: u32 = 29;

/// Debt of one connection. Kept in the session, and small for that reason.
#[derive(Clone, Copy, Debug, Default, Save)]
pub struct Allowance {
    at_ms: u32,
    /// Microseconds in the low bits, bad tokens in the high ones.
    owed: u32,
}

impl Allowance {
    const fn owed_us(&self, now_ms: u32) -> u32 {
        left(self.owed & ((1 << BAD_SHIFT) - 1), self.at_ms, now_ms)
    }

    const fn bad_tokens(&self) -> u32 {
        self.owed >> BAD_SHIFT
    }

    const fn owe(&mut self, us: u32, now_ms: u32) {
        self.owed = self.bad_tokens() << BAD_SHIFT | us;
        self.at_ms = now_ms;
    }

    const fn note_bad_token(&mut self) {
        if self.bad_tokens() <= BAD_TOKENS_MAX {
            self.owed += 1 << BAD_SHIFT;
        }
    }
}

/// Prices and collects; one per shard, owned by its thread.
pub struct Meter {
    limits: WorkLimits,
    secret: [u64; 2],
    /// Allowance of the connection that is being served; `None` if its work is not counted.
    current: Cell<Option<Allowance>>,
    /// Address that pays for the connection that is being served.
    payer: Cell<Payer>,
    table: Table,
}

impl Meter {
    /// Creates the meter of one shard; `secret` is random, so that clients cannot choose an
    /// address's places.
    pub fn new(limits: WorkLimits, secret: [u64; 2]) -> Self {
        Self {
            limits,
            secret,
            current: Cell::new(None),
            payer: Cell::new(Payer::NOBODY),
            table: Table::default(),
        }
    }

    pub fn renew(&mut self, limits: WorkLimits) {
        self.limits = limits;
    }

    /// Finds the places in the table that are charged for an address.
    pub fn payer(&self, address: IpAddr) -> Payer {
        if self.limits.address_ms_per_s_max == 0 {
            return Payer::NOBODY;
        }
        Payer::of(address, self.limits.counts_private, self.secret)
    }

    /// Begins to serve a connection of an address.
    pub fn pays(&self, payer: Payer) {
        self.payer.set(payer);
    }

    /// Lends a connection's allowance: charges from now on are its own.
    pub fn lend(&self, allowance: Allowance) {
        self.current.set(Some(allowance));
    }

    pub fn take_back(&self) -> Option<Allowance> {
        self.current.take()
    }

    pub fn lent(&self) -> Option<Allowance> {
        self.current.get()
    }

    /// Charges the price of a piece of work, before it is done. Error: whose allowance is used up;
    /// nothing was spent then.
    pub fn spend(&self, work: Work, now: Now) -> Result<(), Overspent> {
        let Some(mut own) = self.current.get() else {
            return Ok(());
        };
        if own.bad_tokens() > BAD_TOKENS_MAX {
            return Err(Overspent::Tokens);
        }
        if !self.spend_own(&mut own, work, now) {
            return Err(Overspent::Connection);
        }
        if !self.spend_address(self.payer.get(), work, low_ms(now.mono)) {
            return Err(Overspent::Address);
        }
        self.current.set(Some(own));
        Ok(())
    }

    /// Charges the price of a piece of work to an allowance alone, before it is done; false, and
    /// nothing is charged, if that is used up.
    pub fn spend_own(&self, own: &mut Allowance, work: Work, now: Now) -> bool {
        let now_ms = low_ms(now.mono);
        let cost_us = self.limits.connection_us(work);
        let owed_us = own.owed_us(now_ms);
        let has_room = cost_us == 0 || owed_us.saturating_add(cost_us) <= BURST_US;
        if has_room {
            own.owe(owed_us + cost_us, now_ms);
        }
        has_room
    }

    /// Charges the price of work that is already done. It may leave a debt.
    pub fn charge(&self, work: Work, now: Now) {
        let Some(mut own) = self.current.get() else {
            return;
        };
        self.charge_own(&mut own, work, now);
        self.current.set(Some(own));
        self.charge_payer(self.payer.get(), work, now);
    }

    /// Charges an answer of the broker to the connection's own allowance. Its address pays by
    /// [`Meter::charge_payer`].
    pub fn charge_own(&self, own: &mut Allowance, work: Work, now: Now) {
        let now_ms = low_ms(now.mono);
        let owed_us = own.owed_us(now_ms) + self.limits.connection_us(work);
        own.owe(owed_us.min(DEBT_MAX_US), now_ms);
    }

    /// Charges work that is already done to an address, whatever it owes.
    pub fn charge_payer(&self, payer: Payer, work: Work, now: Now) {
        let cost_us = self.limits.address_us(work);
        self.table
            .charge(payer, cost_us, u32::MAX, low_ms(now.mono));
    }

    /// Charges a token's check. An expired token does not count as bad: clients that were away send
    /// many of them, and the issuer had signed each. Nor does a token whose key is still to come.
    pub fn token_checked(&self, algorithm: Option<Algorithm>, fault: Option<TokenFault>, now: Now) {
        let is_good = matches!(
            fault,
            None | Some(TokenFault::Expired | TokenFault::UnknownKey)
        );
        if let Some(algorithm) = algorithm {
            self.charge(Work::Token { algorithm, is_good }, now);
        }
        if !is_good && let Some(mut own) = self.current.get() {
            own.note_bad_token();
            self.current.set(Some(own));
        }
    }

    /// Whether the connection that is being served has brought more bad tokens than it may.
    pub fn has_lost_trust(&self) -> bool {
        let own = self.current.get();
        own.is_some_and(|own| own.bad_tokens() > BAD_TOKENS_MAX)
    }

    /// Whether an address may do something before there is a connection; charges it.
    #[must_use]
    pub fn admits(&self, address: IpAddr, work: Work, now: Now) -> bool {
        self.spend_address(self.payer(address), work, low_ms(now.mono))
    }

    fn spend_address(&self, payer: Payer, work: Work, now_ms: u32) -> bool {
        let cost_us = self.limits.address_us(work);
        self.table.charge(payer, cost_us, BURST_US, now_ms)
    }
}

#[cfg(test)]
mod tests;
