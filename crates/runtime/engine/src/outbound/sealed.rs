//! TLS records in a queue: they stand at its head, in place of the bytes that they say.

use throng_types::Frame;

use super::{Item, Outbound};

impl Outbound {
    /// The rest of the TLS records that must leave before anything else.
    pub(crate) fn sealed(&self) -> Option<&[u8]> {
        match self.items.front()? {
            Item::Sealed { records, .. } => Some(&records[self.head_sent..]),
            _ => None,
        }
    }

    /// Puts TLS records before everything but those that are there.
    pub(crate) fn push_sealed(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let (records, next_sent) = match self.items.front() {
            Some(Item::Sealed { records, next_sent }) => {
                let before = &records[self.head_sent..];
                let joined = (Frame::new(&[before, bytes].concat()), *next_sent);
                self.items.pop_front();
                joined
            }
            _ => {
                self.held_behind = self.held_behind.map(|behind| behind + 1);
                self.staying += 1;
                (Frame::new(bytes), self.head_sent as u32)
            }
        };
        self.bytes += bytes.len();
        self.head_sent = 0;
        self.items.push_front(Item::Sealed { records, next_sent });
    }

    /// Forgets what is not sealed: it cannot leave any more.
    pub(crate) fn forget_plain(&mut self) {
        let sealed = self.sealed().map(Frame::new);
        self.items.clear();
        self.own.clear();
        (self.head_sent, self.bytes) = (0, 0);
        (self.held_behind, self.staying) = (None, 0);
        if let Some(sealed) = sealed {
            self.push_sealed(&sealed);
        }
    }
}
