//! A queue as bytes. Frames that were shared with other queues are copies where they arrive.

use throng_types::{Frame, Load, Save, Saved, save_count};

use super::{Item, Outbound};

/// Kinds of items: own bytes; a frame, which may be dropped, or stays, or is the next part of the
/// message before it; TLS records.
const OWN: u8 = 0;
const FRAME: u8 = 1;
const FRAME_STAYS: u8 = 2;
const SEALED: u8 = 3;
const FRAME_GOES_ON: u8 = 4;

impl Save for Outbound {
    fn save(&self, out: &mut Vec<u8>) {
        save_count(self.items.len(), out);
        let (mut own_at, mut skip) = (0, self.head_sent);
        for item in &self.items {
            match item {
                Item::Own { bytes } => {
                    let end = own_at + (*bytes as usize - skip);
                    let own: Vec<u8> = self.own.range(own_at..end).copied().collect();
                    own_at = end;
                    out.push(OWN);
                    own.save(out);
                }
                Item::Frame {
                    frame,
                    stays,
                    goes_on,
                    ..
                } => {
                    out.push(match (goes_on, stays) {
                        (true, _) => FRAME_GOES_ON,
                        (_, true) => FRAME_STAYS,
                        // The rest of a frame that has begun to leave must follow.
                        _ if skip > 0 => FRAME_STAYS,
                        _ => FRAME,
                    });
                    frame[skip..].save(out);
                }
                Item::Sealed { records, .. } => {
                    out.push(SEALED);
                    records[skip..].save(out);
                }
            }
            skip = match item {
                Item::Sealed { next_sent, .. } => *next_sent as usize,
                _ => 0,
            };
        }
        self.held_behind.save(out);
        (self.lagged, self.dropped).save(out);
    }
}

impl Load for Outbound {
    fn load(from: &mut Saved<'_>) -> Option<Self> {
        let mut queue = Self::default();
        for _ in 0..from.count()? {
            let (kind, bytes) = (u8::load(from)?, from.bytes()?);
            queue.bytes += bytes.len();
            queue.items.push_back(match kind {
                OWN => {
                    queue.own.extend(bytes);
                    let bytes = u32::try_from(bytes.len()).ok()?;
                    Item::Own { bytes }
                }
                // No other frame is told to replace it: the channel's key is another one here.
                FRAME | FRAME_STAYS | FRAME_GOES_ON => Item::Frame {
                    frame: Frame::new(bytes),
                    key: u32::MAX,
                    stays: kind != FRAME,
                    goes_on: kind == FRAME_GOES_ON,
                },
                // What they say of the next item was not saved with that.
                SEALED if queue.items.is_empty() => Item::Sealed {
                    records: Frame::new(bytes),
                    next_sent: 0,
                },
                _ => return None,
            });
        }
        queue.held_behind = Load::load(from)?;
        (queue.lagged, queue.dropped) = Load::load(from)?;
        let is_sound = queue.held_behind.is_none_or(|behind| {
            let mut after = queue.items.iter().skip(behind);
            behind <= queue.items.len() && after.all(|item| matches!(item, Item::Frame { .. }))
        });
        is_sound.then_some(queue)
    }
}

#[cfg(test)]
mod tests {
    use throng_types::Overflow;

    use super::*;

    fn leaves(queue: &mut Outbound) -> Vec<u8> {
        let mut all = Vec::new();
        while queue.may_leave() {
            let (bytes, count) = queue.with_slices(|slices| {
                let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
                let count = bytes.len();
                (bytes, count)
            });
            all.extend(bytes);
            queue.sent(count);
        }
        all
    }

    #[test]
    fn a_queue_goes_on_where_it_was() {
        let frame = |text: &str| Frame::new(text.as_bytes());
        for (sealed, sent) in [0, 4, 11]
            .iter()
            .flat_map(|&n| (0..=12).map(move |sent| (n, sent)))
        {
            let mut queue = Outbound::default();
            queue.push_own(b"own");
            queue.push_frame(&frame("frame"), 1, Overflow::DropOldest, 100);
            queue.push_own(b"more");
            queue.hold(true);
            queue.push_frame(&frame("held"), 1, Overflow::Close, 100);
            queue.sent(sent);
            // Records that say some of it, and have left in part.
            let left = b"ownframemore"[sent..].to_vec();
            let said = sealed.min(left.len());
            let mut expect = left.clone();
            if said > 0 {
                queue.sent(said);
                queue.push_sealed(b"records");
                queue.sent(sealed % 7);
                expect.splice(..said, b"records"[sealed % 7..].iter().copied());
            }
            let bytes = queue.saved();
            let mut moved = Outbound::load_whole(&bytes).expect("what was saved");
            assert_eq!(moved.bytes(), queue.bytes());
            assert_eq!((moved.is_held(), moved.saved() == bytes), (true, true));
            assert_eq!(leaves(&mut moved), expect, "{sealed} {sent}");
            moved.hold(false);
            assert_eq!(leaves(&mut moved), b"held");
            for cut in 0..bytes.len() {
                assert!(Outbound::load_whole(&bytes[..cut]).is_none());
            }
            for at in 0..bytes.len() {
                for wrong in [0, 1, 2, 3, 4, 0xff] {
                    let mut bytes = bytes.clone();
                    bytes[at] = wrong;
                    if let Some(mut queue) = Outbound::load_whole(&bytes) {
                        leaves(&mut queue);
                        queue.hold(false);
                        leaves(&mut queue);
                    }
                }
            }
        }
    }
}
