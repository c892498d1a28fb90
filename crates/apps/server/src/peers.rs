//! How many connections each address has, over all shards.
//!
//! The one lock of the server, taken once when a connection opens and once when it
//! closes, and only if there is a limit per address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use throng_session::{Census, counted_as};

/// Counts connections by address and refuses those above the limit.
pub(crate) struct Peers {
    /// Changes while the server runs.
    per_address_max: AtomicU32,
    counts: Mutex<HashMap<IpAddr, u32>>,
}

impl Peers {
    /// Counts, if there is a limit (zero is none).
    pub(crate) fn new(per_address_max: u32) -> Self {
        Self {
            per_address_max: AtomicU32::new(per_address_max),
            counts: Mutex::default(),
        }
    }

    /// Another limit holds for who comes from now on. Who came while there was none is not counted.
    pub(crate) fn renew(&self, per_address_max: u32) {
        self.per_address_max.store(per_address_max, Relaxed);
    }
}

impl Census for Peers {
    fn limited(&self) -> bool {
        self.per_address_max.load(Relaxed) > 0
    }

    fn enter(&self, address: IpAddr) -> bool {
        let Ok(mut counts) = self.counts.lock() else {
            return true;
        };
        let count = counts.entry(counted_as(address)).or_insert(0);
        *count += 1;
        *count <= self.per_address_max.load(Relaxed)
    }

    fn leave(&self, address: IpAddr) {
        let Ok(mut counts) = self.counts.lock() else {
            return;
        };
        let address = counted_as(address);
        if let Some(count) = counts.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&address);
            }
        }
    }
}
