//! Debts in time, and the table of those of addresses: each in two places, by a secret hash.
//!
//! Rule for "full": it has a fixed size. An address has spent too much only if both of its places
//! do, so addresses that share one of them do not harm each other.

use std::cell::RefCell;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use throng_types::{Millis, mix};

use crate::address::network;

/// The most that may be owed before work is refused, in microseconds.
pub const BURST_US: u32 = 2_000_000;
/// Maximum of a debt after work that was already done, in microseconds.
pub(super) const DEBT_MAX_US: u32 = 10_000_000;

/// Returns the debt left after the time since `at_ms`, in microseconds.
pub(super) const fn left(owed_us: u32, at_ms: u32, now_ms: u32) -> u32 {
    // A connection that is silent for 49 days may seem to have been silent for less.
    owed_us.saturating_sub(now_ms.wrapping_sub(at_ms).saturating_mul(1000))
}

/// Low half of a timestamp, enough to measure how long ago it was.
pub(super) const fn low_ms(now: Millis) -> u32 {
    now.0 as u32
}

/// Debt that all shards share.
#[derive(Debug, Default)]
pub struct SharedDebt {
    /// When it is paid back, in microseconds of the monotonic clock.
    paid_at: AtomicU64,
    /// Sum of charges that are counted, in microseconds.
    counted_us: AtomicU64,
}

impl SharedDebt {
    /// Longest debt of one charge, in microseconds: an hour.
    pub const CHARGE_US_MAX: u64 = 3_600_000_000;

    /// Charges microseconds, if so many that are owed already `admit` them. Error: what is owed;
    /// nothing is charged then.
    pub fn charge(
        &self,
        cost_us: u64,
        now: Millis,
        admit: impl Fn(u64) -> bool,
    ) -> Result<(), u64> {
        let now_us = now.0 * 1000;
        let charged = self.paid_at.fetch_update(Relaxed, Relaxed, |paid_at| {
            let owed_us = paid_at.saturating_sub(now_us);
            admit(owed_us).then_some(now_us + owed_us + cost_us)
        });
        match charged {
            Ok(_) => Ok(()),
            Err(paid_at) => Err(paid_at.saturating_sub(now_us)),
        }
    }

    /// Takes a charge back.
    pub fn give_back(&self, cost_us: u64) {
        self.paid_at.fetch_sub(cost_us, Relaxed);
    }

    /// Counts a charge that will not be taken back, for other nodes.
    pub fn count(&self, cost_us: u64) {
        self.counted_us.fetch_add(cost_us, Relaxed);
    }

    pub fn counted_us(&self) -> u64 {
        self.counted_us.load(Relaxed)
    }

    /// Charges what another node has counted since it told of the sum `before_us`. It may have
    /// begun anew.
    pub fn charge_elsewhere(&self, before_us: u64, told_us: u64, now: Millis) {
        let new_us = told_us.checked_sub(before_us).unwrap_or(told_us);
        let _ = self.charge(new_us.min(Self::CHARGE_US_MAX), now, |_| true);
    }
}

/// Places in the table; a power of two.
const PLACES: usize = 1 << 15;
const PLACE_BITS: u32 = PLACES.trailing_zeros();

/// The two places of an address, by a secret hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payer(u32);

impl Payer {
    pub const NOBODY: Self = Self(u32::MAX);
    pub const PLACES: usize = PLACES;

    /// Those of an address; [`Payer::NOBODY`] for one close by, unless these count.
    pub fn of(address: IpAddr, counts_private: bool, secret: [u64; 2]) -> Self {
        let Some(network) = network(address, counts_private) else {
            return Self::NOBODY;
        };
        let [low, high] = [network as u64, (network >> 64) as u64];
        let hash = mix(mix(high ^ secret[0]) ^ low ^ secret[1]);
        Self(hash as u32 & ((1 << (2 * PLACE_BITS)) - 1))
    }

    /// The places as a number below 2^30, or nothing of an address that is not counted.
    pub fn to_bits(self) -> Option<u32> {
        (self != Self::NOBODY).then_some(self.0)
    }

    pub const fn from_bits(bits: u32) -> Self {
        Self(bits & ((1 << (2 * PLACE_BITS)) - 1))
    }

    pub const fn places(self) -> [usize; 2] {
        let mask = PLACES as u32 - 1;
        [
            (self.0 & mask) as usize,
            ((self.0 >> PLACE_BITS) & mask) as usize,
        ]
    }
}

#[derive(Clone, Copy, Default)]
struct Place {
    at_ms: u32,
    owed_us: u32,
}

/// Debts of all addresses, in a table of fixed size.
#[derive(Default)]
pub(super) struct Table {
    /// Bound: [`PLACES`]; empty until an address is charged.
    places: RefCell<Vec<Place>>,
}

impl Table {
    /// Charges an address, up to [`DEBT_MAX_US`]; false, and nothing is charged, if it owes more
    /// than `owed_max_us` already. Work that is done is charged with a maximum of `u32::MAX`.
    pub(super) fn charge(&self, payer: Payer, cost_us: u32, owed_max_us: u32, now_ms: u32) -> bool {
        if payer == Payer::NOBODY {
            return true;
        }
        let mut table = self.places.borrow_mut();
        if table.is_empty() {
            table.resize(PLACES, Place::default());
        }
        let places = payer.places();
        let owed = places.map(|at| {
            let place = table.get(at).copied().unwrap_or_default();
            left(place.owed_us, place.at_ms, now_ms)
        });
        if owed.iter().all(|owed| *owed > owed_max_us) {
            return false;
        }
        for (at, owed_us) in places.into_iter().zip(owed) {
            if let Some(place) = table.get_mut(at) {
                *place = Place {
                    at_ms: now_ms,
                    owed_us: owed_us.saturating_add(cost_us).min(DEBT_MAX_US),
                };
            }
        }
        true
    }
}
