//! Budgets of users: how many connections each has, and how many commands a second it sends, over
//! all shards of this process, and over all nodes as far as they have told each other.
//!
//! Owns, while there is a limit, the users with connections. Never: knows how a user was proven, or
//! words a refusal; the gateways do.
//!
//! Rule for "full": the connection is refused with [`Overspent::UserConnections`], the command with
//! [`Overspent::User`].
//!
//! Invariants
//! - A connection counts for one user at most, from when its user is known until it has gone.
//! - Without limits nobody is counted, and no lock is taken.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use throng_types::{ConnId, Millis, Now};

use crate::work::{BURST_US, Overspent, SharedDebt, Work, WorkLimits};

/// Limits of one user; zero for no bound.
#[derive(Clone, Copy, Debug, Default)]
pub struct UserLimits {
    pub connections_max: u32,
    pub commands_per_s_max: u32,
    /// Channels of a connection. A subscribe costs so much that a user may take all of them twice a
    /// second.
    pub channels_max: usize,
}

/// Counts of one user, which all shards share.
#[derive(Debug)]
pub struct Usage {
    pub user: Box<str>,
    /// Debt of commands, alone in its list.
    pub debts: [SharedDebt; 1],
}

impl Usage {
    pub fn new(user: &str) -> Self {
        Self {
            user: user.into(),
            debts: Default::default(),
        }
    }

    /// Charges microseconds of work; false, and nothing is charged, if more than [`BURST_US`] would
    /// be owed.
    fn charge(&self, cost_us: u32, now: Millis) -> bool {
        let cost_us = u64::from(cost_us);
        let admit = |owed_us| owed_us + cost_us <= u64::from(BURST_US);
        let charged = self.debts[0].charge(cost_us, now, admit);
        charged.map(|()| self.debts[0].count(cost_us)).is_ok()
    }
}

/// Users with connections, over all shards.
pub trait Population: Send + Sync {
    /// Counts a connection of a user; `None` if it has `connections_max` of them. Zero is no bound.
    fn enter_user(&self, user: &str, connections_max: u32) -> Option<Arc<Usage>>;
    /// Counts the end of a connection.
    fn leave_user(&self, usage: &Usage);
}

/// The users of one shard's connections; owned by its thread.
#[derive(Default)]
pub struct Users {
    limits: UserLimits,
    population: Option<Arc<dyn Population>>,
    /// Users by the index of their connection. Bound: the connections of this shard.
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

    /// Sets other limits. Connections that were not counted when they came stay uncounted, and
    /// their commands have no limit.
    pub const fn renew(&mut self, limits: UserLimits) {
        self.limits = limits;
    }

    /// Counts a connection for a user. Users of one name in two realms are two users; the realm of
    /// tokens is empty. Error: the user has as many connections as it may.
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
