//! Journal of webhooks in memory, which outlives its process.

use std::sync::{Arc, Mutex};

use throng_broker::HookJournal;
use throng_types::lock;

use crate::net::Net;

/// Journal that outlives its process.
#[derive(Clone, Default)]
pub(crate) struct Disk(Arc<Mutex<Written>>);

#[derive(Default)]
struct Written {
    records: Vec<u8>,
    /// Everything that was ever written.
    ever: Vec<u8>,
}

impl Disk {
    pub(crate) fn records(&self) -> Vec<u8> {
        lock(&self.0).records.clone()
    }

    /// Loses what was written, as far as the next process sees.
    pub(crate) fn wipe(&self) {
        lock(&self.0).records.clear();
    }

    /// Whether the data of an event were written at any time.
    pub(crate) fn has_had(&self, data: &str) -> bool {
        let written = lock(&self.0);
        { written.ever.windows(data.len()) }.any(|bytes| bytes == data.as_bytes())
    }

    /// Cuts a write that nobody has gone on from: the beginning of a record is behind the others.
    pub(crate) fn tear(&self, net: &Net) {
        let mut written = lock(&self.0);
        let torn = net.below(written.records.len().min(12) + 1);
        let torn = written.records[..torn].to_vec();
        written.records.extend(torn);
    }
}

impl HookJournal for Disk {
    fn append(&mut self, records: &[u8]) {
        let mut written = lock(&self.0);
        written.records.extend(records);
        written.ever.extend(records);
    }

    fn replace(&mut self, records: &[u8]) {
        lock(&self.0).records.clear();
        self.append(records);
    }

    fn bytes(&self) -> u64 {
        lock(&self.0).records.len() as u64
    }
}
