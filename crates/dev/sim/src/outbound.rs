//! A connection's outbound queue: the engine's rules, written down a second time and plainly.
//!
//! Deliveries are bounded by the rule of their channel, own bytes are not; what has
//! begun to leave is never forgotten; while the queue is held, own bytes go before the
//! deliveries that wait.

use std::collections::VecDeque;

use throng_broker::Overflow;
use throng_types::Frame;

/// What became of a delivery.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Pushed {
    Queued { dropped: u64 },
    Full,
}

struct Item {
    bytes: Vec<u8>,
    /// The channel of a delivery; own bytes have none.
    key: Option<u32>,
    /// Its channel would rather end the connection than lose it.
    stays: bool,
}

#[derive(Default)]
pub(crate) struct Outbound {
    items: VecDeque<Item>,
    /// Bytes of the first item that have left.
    begun: usize,
    pub(crate) blocked: bool,
    pub(crate) lagged: bool,
    pub(crate) dropped: u64,
    /// While held: how many items may leave.
    open: Option<usize>,
}

impl Outbound {
    pub(crate) fn bytes(&self) -> usize {
        self.items
            .iter()
            .map(|item| item.bytes.len())
            .sum::<usize>()
            - self.begun
    }

    /// Bytes of deliveries that wait and have not begun to leave.
    pub(crate) fn delivery_bytes(&self) -> usize {
        let whole = self.items.iter().skip(usize::from(self.begun > 0));
        whole
            .filter(|item| item.key.is_some())
            .map(|item| item.bytes.len())
            .sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(crate) const fn is_held(&self) -> bool {
        self.open.is_some()
    }

    pub(crate) fn may_leave(&self) -> bool {
        !self.items.is_empty() && self.open != Some(0)
    }

    pub(crate) fn hold(&mut self, hold: bool) {
        self.open = hold.then_some(self.items.len());
    }

    pub(crate) fn forget_held(&mut self) {
        if let Some(open) = self.open.take() {
            self.items.truncate(open);
        }
    }

    pub(crate) fn push_own(&mut self, bytes: &[u8]) {
        let item = Item {
            bytes: bytes.to_vec(),
            key: None,
            stays: true,
        };
        if let Some(open) = self.open.as_mut() {
            self.items.insert(*open, item);
            *open += 1;
        } else {
            self.items.push_back(item);
        }
    }

    pub(crate) fn push_begun(&mut self, frame: &Frame, sent: usize) {
        assert!(self.items.is_empty(), "only the head can have begun");
        self.begun = sent;
        self.items.push_back(Item {
            bytes: frame.to_vec(),
            key: Some(u32::MAX),
            stays: true,
        });
    }

    pub(crate) fn push_frame(
        &mut self,
        frame: &Frame,
        key: u32,
        overflow: Overflow,
        bytes_max: usize,
    ) -> Pushed {
        let mut dropped = 0;
        if overflow == Overflow::LatestOnly && self.blocked {
            while self.forget_first(Some(key)) {
                dropped += 1;
            }
        }
        while self.bytes() + frame.len() > bytes_max {
            if overflow == Overflow::Close {
                return Pushed::Full;
            }
            dropped += 1;
            if !self.forget_first(None) {
                // Nothing else can go, so it is this one's turn.
                self.dropped += dropped;
                return Pushed::Queued { dropped };
            }
        }
        self.dropped += dropped;
        self.items.push_back(Item {
            bytes: frame.to_vec(),
            key: Some(key),
            stays: overflow == Overflow::Close,
        });
        Pushed::Queued { dropped }
    }

    /// Forgets the oldest delivery that has not begun to leave; of one channel, if it is given.
    fn forget_first(&mut self, key: Option<u32>) -> bool {
        let first = usize::from(self.begun > 0);
        let fits = |item: &Item| !item.stays && (key.is_none() || item.key == key);
        let Some(at) = (first..self.items.len()).find(|&at| fits(&self.items[at])) else {
            return false;
        };
        self.items.remove(at);
        self.open = self.open.map(|open| open - usize::from(at < open));
        true
    }

    /// What may leave now, in one piece.
    pub(crate) fn head(&self) -> Vec<u8> {
        let open = self.open.unwrap_or(self.items.len());
        let mut all = Vec::new();
        for item in self.items.iter().take(open) {
            all.extend_from_slice(&item.bytes);
        }
        all.split_off(self.begun)
    }

    /// Takes out what the kernel took.
    pub(crate) fn sent(&mut self, mut bytes: usize) {
        while bytes > 0 {
            let left = self.items[0].bytes.len() - self.begun;
            if bytes < left {
                self.begun += bytes;
                return;
            }
            bytes -= left;
            self.begun = 0;
            self.items.pop_front();
            self.open = self.open.map(|open| open.saturating_sub(1));
        }
    }
}
