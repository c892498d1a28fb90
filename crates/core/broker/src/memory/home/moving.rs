//! A home as bytes, for a process that takes over: streams with their positions and epochs, what
//! they keep, idempotency keys, and who is present.
//!
//! Times are those of the first process: the zero of the clock is handed over, too.

use std::collections::VecDeque;
use std::sync::Arc;

use throng_types::{
    ChannelName, Load, Millis, Parts, Position, Publication, Publisher, Save, Saved,
};

use super::super::budget::Share;
use super::super::stream::Kept;
use super::{Home, NEVER, STREAM_BYTES, Stream};
use crate::memory::keys::Keys;
use crate::{Lineage, Version};

/// Kinds of saved items.
const HEAD: u8 = 0;
const STREAM: u8 = 1;
const KEY: u8 = 2;
const MEMBER: u8 = 3;

/// A stream with its name.
#[derive(Save)]
struct Moved {
    channel: ChannelName,
    interest: u64,
    top: u64,
    generation: u32,
    due: Millis,
    version: Option<Version>,
    tops: Vec<(u32, u64)>,
    log: Vec<(Millis, Arc<Publication>)>,
}

impl Home {
    fn save_stream(&self, key: u32, parts: &mut Parts<'_>) {
        let Some((channel, stream)) = self.streams.at(key) else {
            return;
        };
        let log = stream.log.iter().flat_map(|log| log.iter());
        let moved = Moved {
            channel: channel.clone(),
            interest: stream.interest,
            top: stream.top,
            generation: stream.generation,
            due: stream.due,
            version: self.versions.get(&key).cloned(),
            tops: self.ancestry.tops(key, stream.start()),
            log: { log }
                .map(|kept| (kept.at, kept.publication.clone()))
                .collect(),
        };
        parts.item(STREAM, &moved);
    }

    /// Saves everything. Forgets each stream's history once it is saved, and the rest at the end,
    /// without a record in the store. The granted budget stays, so that everything has room if it
    /// comes back.
    pub(in crate::memory) fn give_up(&mut self, parts: &mut Parts<'_>) {
        // Streams may come back with other keys, so a copy begins anew.
        self.end_copy();
        parts.item(HEAD, &(self.lineage(), (self.forgotten, self.shift)));
        for key in 0..self.streams.bound() {
            self.save_stream(key, parts);
            if let Some(stream) = self.streams.at_mut(key) {
                stream.log = None;
            }
        }
        for (at, key, position) in self.keys.all() {
            parts.item(KEY, &(at, key, position));
        }
        for (channel, who) in self.members.all() {
            parts.item(MEMBER, &(channel, who));
        }
        self.share.forget();
        let empty = Share::new(self.options.history.clone());
        let mut new = Self::new(self.options.clone());
        new.share = std::mem::replace(&mut self.share, empty);
        new.journal = self.journal.take();
        *self = new;
    }

    pub(in crate::memory) fn load(&mut self, kind: u8, from: &mut Saved<'_>) -> Option<()> {
        match kind {
            HEAD => {
                let (lineage, rest) = <(Lineage, (u32, u64))>::load(from)?;
                self.set_lineage(&lineage);
                (self.forgotten, self.shift) = rest;
                self.note_lineage();
            }
            STREAM => self.restore(Moved::load(from)?)?,
            KEY => {
                let (at, key, position) = <(Millis, String, Option<Position>)>::load(from)?;
                // One that is there already is not counted twice.
                if self.keys.find(&key).is_none() && self.share.take(Keys::cost_bytes(&key)) {
                    self.keys.insert(&key, position, at);
                }
            }
            MEMBER => {
                let (channel, who) = <(ChannelName, Arc<Publisher>)>::load(from)?;
                self.members.add(&channel, &who);
            }
            _ => return None,
        }
        Some(())
    }

    fn restore(&mut self, moved: Moved) -> Option<()> {
        let Moved {
            channel,
            interest,
            top,
            generation,
            due,
            version,
            tops,
            log,
        } = moved;
        if self.streams.key(&channel).is_some() {
            return None;
        }
        let mut stream = Stream::new(generation);
        (stream.interest, stream.due) = (interest, due);
        stream.stand(top, 0);
        let first = (top.checked_add(1)?).checked_sub(log.len() as u64)?;
        let mut kept = VecDeque::with_capacity(log.len());
        let mut bytes = STREAM_BYTES + channel.as_str().len();
        for (offset, (at, publication)) in (first..).zip(log) {
            if publication.position.map(|position| position.offset) != Some(offset) {
                return None;
            }
            bytes += publication.cost_bytes();
            // Of a long name there is one copy, as before.
            let publication = Publication {
                channel: channel.clone(),
                ..Arc::unwrap_or_clone(publication)
            };
            let publication = publication.shared();
            kept.push_back(Kept { at, publication });
        }
        let keeps = !kept.is_empty() && due != NEVER;
        // The budget may be smaller here; then positions stay, and history goes.
        let keeps = keeps && self.share.take(bytes);
        if keeps {
            self.history_publications += kept.len();
            stream.log = Some(Box::new(kept));
        } else if stream.kept() == 0 && !kept.is_empty() {
            stream.due = NEVER;
        }
        let due = stream.due;
        let key = self.streams.key_or_insert(&channel, || stream);
        if let Some(version) = version {
            self.versions.insert(key, version);
        }
        let start = self.ancestry.set_tops(key, tops, 0);
        if let Some(stream) = self.streams.at_mut(key) {
            stream.stand(top, start);
        }
        if keeps {
            self.expiring.insert((due, key));
        } else if due != NEVER {
            self.idle.insert((due, key));
        } else {
            self.rest(key, Millis(0));
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use throng_types::{Epoch, Now, Payload, PayloadKind, ShardId};

    use super::*;
    use crate::{
        Acknowledge, BrokerStats, Budget, ChannelOptions, Draft, HistoryQuery, MemoryOptions,
        Namespaces, Recovery, ReplyLimit, Retention,
    };

    fn home(nonce: u32) -> Home {
        let options = ChannelOptions {
            retention: Retention {
                publications_max: 5,
                ttl_ms: 1000,
            },
            recovery: true,
            ..ChannelOptions::default()
        };
        Home::new(MemoryOptions {
            nonce,
            hash_seed: u64::from(nonce),
            history: Budget::new(1 << 20, 1),
            streams_max: 10,
            reply: ReplyLimit {
                publications_max: 100,
                members_max: 100,
                bytes_max: 1 << 20,
            },
            namespaces: Arc::new(Namespaces::new(options, Vec::new())),
        })
    }

    fn at(ms: u64) -> Now {
        Now {
            mono: Millis(ms),
            unix_ms: ms,
        }
    }

    fn name(text: &str) -> ChannelName {
        ChannelName::new(text).expect("a name")
    }

    fn publish(home: &mut Home, channel: &str, key: Option<&str>, ms: u64) -> Position {
        let draft = Draft {
            channel: name(channel),
            payload: Payload {
                bytes: Arc::from(ms.to_string().as_bytes()),
                kind: PayloadKind::Json,
            },
            publisher: None,
            tags: None,
            skip_history: false,
            idempotency_key: key.map(Into::into),
            version: Some(Box::new(Version {
                number: ms,
                epoch: "".into(),
            })),
            acknowledge: Acknowledge::Memory,
        };
        let (retention, interest) = (home.retention(&draft.channel), 0);
        let accepted = home.accept(draft, retention, interest, at(ms));
        accepted.position.expect("history")
    }

    fn pieces_of(save: impl FnOnce(&mut Parts<'_>)) -> Vec<Vec<u8>> {
        let mut pieces = Vec::new();
        let mut keep = |piece: &[u8]| pieces.push(piece.to_vec());
        let mut parts = Parts::new(&mut keep);
        save(&mut parts);
        parts.end();
        pieces
    }

    /// Gives up the pieces of a home, which takes them back and is as before.
    fn pieces(home: &mut Home) -> Vec<Vec<u8>> {
        let pieces = pieces_of(|parts| home.give_up(parts));
        load(home, &pieces).expect("what was saved");
        pieces
    }

    fn load(home: &mut Home, pieces: &[Vec<u8>]) -> Option<()> {
        for piece in pieces {
            let mut from = Saved::new(piece);
            while !from.is_empty() {
                let kind = u8::load(&mut from)?;
                home.load(kind, &mut from)?;
            }
        }
        Some(())
    }

    fn moved(home: &mut Home, nonce: u32) -> Home {
        let mut other = self::home(nonce);
        load(&mut other, &pieces(home)).expect("what was saved");
        other
    }

    #[test]
    fn streams_go_on_with_their_positions_and_epochs() {
        let mut old = home(7);
        for ms in 1..=8 {
            publish(&mut old, "busy", None, ms);
        }
        let keyed = publish(
            &mut old,
            "a channel whose name is longer than most",
            Some("k"),
            9,
        );
        old.subscribe(ShardId(3), &name("busy"), None, at(9));
        old.subscribe(ShardId(1), &name("quiet"), None, at(9));
        let who = Arc::new(Publisher {
            client: "c".into(),
            ..Publisher::default()
        });
        old.members.add(&name("quiet"), &who);
        let mut new = moved(&mut old, 8);
        assert_eq!(new.stats(), old.stats());
        // What is given up equals what is saved; it is gone here, and can be loaded again.
        let (stats, granted) = (old.stats(), old.share.granted());
        let saved = pieces(&mut old);
        assert!(pieces_of(|parts| old.give_up(parts)) == saved);
        assert_eq!((old.stats(), old.keys.len()), (BrokerStats::default(), 0));
        assert_eq!(old.share.granted(), granted, "it has room if it comes back");
        load(&mut old, &saved).expect("what was saved");
        assert!(old.stats() == stats && pieces(&mut old) == saved);
        assert_eq!(
            pieces(&mut new).concat().len(),
            pieces(&mut old).concat().len()
        );
        assert_eq!(
            (new.interest(&name("busy")), new.interest(&name("quiet"))),
            (8, 2)
        );
        // The repeated publication is recognized by its key and by its version.
        let long = "a channel whose name is longer than most";
        assert_eq!(publish(&mut new, long, Some("k"), 100), keyed);
        assert_eq!(publish(&mut new, "busy", None, 8).offset, 8);
        // Recovery goes on, over the hand-over.
        let next = publish(&mut new, "busy", None, 20);
        assert_eq!((next.offset, next.epoch), (9, Epoch(7 << 32)));
        let since = Position { offset: 5, ..next };
        let subscribed = new.subscribe(ShardId(0), &name("busy"), Some(since), at(20));
        let Recovery::Whole(missed) = subscribed.recovery else {
            panic!("{:?}", subscribed.recovery);
        };
        let offsets: Vec<u64> = missed
            .iter()
            .filter_map(|it| Some(it.position?.offset))
            .collect();
        assert_eq!(offsets, [6, 7, 8, 9]);
        // What was kept ages as before.
        new.tick(at(1015), 100);
        let query = HistoryQuery {
            since: None,
            limit: None,
            reverse: false,
        };
        let page = new.history(&name("busy"), query, at(1015));
        assert_eq!(page.expect("history").publications.len(), 1);
    }

    #[test]
    fn damaged_bytes_do_no_harm() {
        let mut old = home(7);
        publish(&mut old, "a", Some("k"), 1);
        publish(&mut old, "a", None, 2);
        let whole = pieces(&mut old).concat();
        for cut in 0..whole.len() {
            let _ = load(&mut home(8), &[whole[..cut].to_vec()]);
        }
        for place in 0..whole.len() {
            for wrong in [0, 1, 2, 0x7f, 0xff] {
                let mut bytes = whole.clone();
                bytes[place] = wrong;
                let mut new = home(8);
                let _ = load(&mut new, &[bytes]);
                // Any item that loads leaves a usable home.
                publish(&mut new, "a", None, 30);
                new.tick(at(5000), 100);
            }
        }
        // The same items cannot be loaded twice.
        let mut new = moved(&mut old, 8);
        assert!(load(&mut new, &pieces(&mut old)).is_none());
    }
}
