//! Budgets of users: how many connections each has, and how many commands a second it sends, over
//! all shards of this process.
//!
//! Owns the users with connections while there is a limit. Never: knows how a user was proven; the
//! gateways tell that, each with its own words for a refusal.
//!
//! Rule for "full": the connection, or the command, is refused with
//! [`Overspent::UserConnections`] or [`Overspent::User`].
//!
//! Invariants
//! - A connection counts for one user at most, from when its user is known until it has gone.
//! - Without limits nobody is counted, and no lock is taken.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use throng_types::{ConnId, Millis, Now};

use crate::work::{BURST_US, Overspent, Work, WorkLimits};

/// Limits of one user; zero for no bound.
#[derive(Clone, Copy, Debug, Default)]
pub struct UserLimits {
    pub connections_max: u32,
    pub commands_per_s_max: u32,
    /// Channels of a connection, which a user may take all of twice a second.
    pub channels_max: usize,
}

/// Counts of one user, which all shards share.
#[derive(Debug)]
pub struct Usage {
    pub user: Box<str>,
    /// Time of the last charge in milliseconds, above [`OWED_BITS`]; below what was owed then, in
    /// microseconds.
    owed: AtomicU64,
}

/// Bits of a debt, which is [`BURST_US`] at most.
const OWED_BITS: u32 = BURST_US.ilog2() + 1;

impl Usage {
    pub fn new(user: &str) -> Self {
        Self {
            user: user.into(),
            owed: AtomicU64::default(),
        }
    }

    /// Charges some microseconds; false, and nothing is charged, if too much is owed.
    fn charge(&self, cost_us: u32, now: Millis) -> bool {
        let charged = self.owed.fetch_update(Relaxed, Relaxed, |owed| {
            let (at_ms, owed_us) = (owed >> OWED_BITS, owed & ((1 << OWED_BITS) - 1));
            // Another shard's clock may be a little ahead.
            let now_ms = now.0.max(at_ms);
            let paid_us = (now_ms - at_ms).saturating_mul(1000);
            let owed_us = owed_us.saturating_sub(paid_us) + u64::from(cost_us);
            (owed_us <= u64::from(BURST_US)).then_some(now_ms << OWED_BITS | owed_us)
        });
        charged.is_ok()
    }
}

/// The users with connections, over all shards.
pub trait Population: Send + Sync {
    /// Counts a connection of a user; `None` if it has as many as it may. Zero is no bound.
    fn enter_user(&self, user: &str, connections_max: u32) -> Option<Arc<Usage>>;
    /// Counts the end of one.
    fn leave_user(&self, usage: &Usage);
}

/// The users of one shard's connections; owned by its thread.
#[derive(Default)]
pub struct Users {
    limits: UserLimits,
    population: Option<Arc<dyn Population>>,
    /// With each connection its user. Bound: the connections of this shard.
    counted: RefCell<HashMap<u32, Arc<Usage>>>,
}

impl Users {
    pub fn new(limits: UserLimits, population: Arc<dyn Population>) -> Self {
        Self {
            limits,
            population: Some(population),
            counted: RefCell::default(),
        }
    }

    /// Other limits hold for connections that come from now on; commands of those that were not
    /// counted have none.
    pub const fn renew(&mut self, limits: UserLimits) {
        self.limits = limits;
    }

    /// Counts a connection for a user. `realm` tells apart users of one name whom different keys
    /// have proven; it is empty for tokens. Error: the user has as many connections as it may.
    pub fn admit(&self, conn: ConnId, realm: &str, user: &str) -> Result<(), Overspent> {
        let UserLimits {
            connections_max,
            commands_per_s_max,
            ..
        } = self.limits;
        if user.is_empty() || connections_max == 0 && commands_per_s_max == 0 {
            return Ok(());
        }
        let name = match realm {
            "" => user.to_owned(),
            realm => format!("{realm}\0{user}"),
        };
        self.enter(conn, &name, connections_max)
    }

    fn enter(&self, conn: ConnId, name: &str, connections_max: u32) -> Result<(), Overspent> {
        let before = self.counted.borrow().get(&conn.index()).cloned();
        if before.is_some_and(|before| *before.user == *name) {
            return Ok(());
        }
        let Some(population) = &self.population else {
            return Ok(());
        };
        let usage = population.enter_user(name, connections_max);
        let usage = usage.ok_or(Overspent::UserConnections)?;
        self.gone(conn);
        self.counted.borrow_mut().insert(conn.index(), usage);
        Ok(())
    }

    /// Name under which a connection is counted, for a process that takes over.
    pub fn counted_as(&self, conn: ConnId) -> Option<Box<str>> {
        let counted = self.counted.borrow();
        counted.get(&conn.index()).map(|usage| usage.user.clone())
    }

    /// Counts a connection that was counted by the process before, whatever the limit.
    pub fn take_over(&self, conn: ConnId, name: &str) {
        let _ = self.enter(conn, name, 0);
    }

    /// Charges a command to the connection's user, if it is counted. Error: the user has sent more
    /// than it may.
    pub fn spend(&self, conn: ConnId, work: Work, now: Now) -> Result<(), Overspent> {
        if self.limits.commands_per_s_max == 0 {
            return Ok(());
        }
        let limits = WorkLimits {
            messages_per_s_max: self.limits.commands_per_s_max,
            channels_max: self.limits.channels_max,
            ..WorkLimits::NONE
        };
        let cost_us = match work {
            Work::Message | Work::Command | Work::Subscribe => limits.connection_us(work),
            _ => return Ok(()),
        };
        let counted = self.counted.borrow();
        match counted.get(&conn.index()) {
            Some(usage) if !usage.charge(cost_us, now.mono) => Err(Overspent::User),
            _ => Ok(()),
        }
    }

    /// Forgets a connection that has gone.
    pub fn gone(&self, conn: ConnId) {
        let mut counted = self.counted.borrow_mut();
        if !counted.is_empty()
            && let Some(usage) = counted.remove(&conn.index())
            && let Some(population) = &self.population
        {
            population.leave_user(&usage);
        }
    }
}
