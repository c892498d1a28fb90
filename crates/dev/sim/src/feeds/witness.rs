//! The witness: what is at the source, what the feed had published, what it acknowledged.
//!
//! - An event is acknowledged after its publication was accepted (and is on disk, where it is to
//!   be), or refused for good.
//! - Events of a channel are published in the order in which the source has them.
//! - An event is published under one key alone, and each key is that of one event. The witness
//!   remembers keys for good, as a broker does for some minutes.

use std::collections::{BTreeMap, BTreeSet};

use throng_broker::{Acknowledge, Draft, Refusal};

use crate::net::Net;

/// The longest data that the feed takes, in bytes.
pub(super) const DATA_BYTES_MAX: usize = 60;
/// A channel of a namespace that nobody configured.
const NOWHERE: &str = "none:x";

/// Kinds of events by what becomes of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    #[default]
    Good,
    /// Has no data, or is a mark of a deleted key.
    Empty,
    TooLong,
    /// Its channel's namespace is not configured.
    Nowhere,
}

#[derive(Debug, Default)]
struct Event {
    channel: usize,
    kind: Kind,
    /// The source has lost it.
    is_lost: bool,
    /// Published, or refused for good.
    is_done: bool,
    is_on_disk: bool,
    is_acknowledged: bool,
}

pub(super) struct Witness {
    net: Net,
    events: Vec<Event>,
    /// Events by the keys of their publications.
    keys: BTreeMap<Box<str>, usize>,
    /// The newest event that was published of each channel.
    newest: BTreeMap<usize, usize>,
    /// Publications are kept on disk.
    pub(super) is_on_disk: bool,
}

impl Witness {
    pub(super) fn new(net: &Net, is_on_disk: bool) -> Self {
        Self {
            net: net.clone(),
            events: Vec::new(),
            keys: BTreeMap::new(),
            newest: BTreeMap::new(),
            is_on_disk,
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.events.len()
    }

    /// Makes an event, which comes behind all others of its channel.
    pub(super) fn make(&mut self, channel: usize, kind: Kind) -> usize {
        self.events.push(Event {
            channel,
            kind,
            ..Event::default()
        });
        self.events.len() - 1
    }

    pub(super) fn channel(&self, event: usize) -> String {
        match self.events[event].kind {
            Kind::Nowhere => NOWHERE.to_owned(),
            _ => format!("c{}", self.events[event].channel),
        }
    }

    /// Number of the channel that an event is of, which is what orders it.
    pub(super) fn order(&self, event: usize) -> usize {
        self.events[event].channel
    }

    /// Data of an event; none if it has none.
    pub(super) fn data(&self, event: usize) -> Option<Vec<u8>> {
        let text = format!("event {event}");
        match self.events[event].kind {
            Kind::Good | Kind::Nowhere => Some(text.into_bytes()),
            Kind::TooLong => Some(format!("{text:<w$}", w = 3 * DATA_BYTES_MAX).into_bytes()),
            Kind::Empty => None,
        }
    }

    /// The source does not have an event any more.
    pub(super) fn lost(&mut self, event: usize) {
        if !std::mem::replace(&mut self.events[event].is_lost, true) {
            self.net.count("an event is lost at its source");
        }
    }

    /// The feed has told the source that an event is done.
    pub(super) fn acknowledged(&mut self, number: usize) {
        let on_disk = self.is_on_disk;
        let event = &mut self.events[number];
        let is_owed = !event.is_lost && matches!(event.kind, Kind::Good | Kind::Nowhere);
        let is_kept = !on_disk || event.is_on_disk || event.kind == Kind::Nowhere;
        assert!(
            !is_owed || event.is_done && is_kept,
            "event {number} is acknowledged, and was not published: {event:?}"
        );
        if !std::mem::replace(&mut event.is_acknowledged, true) {
            self.net.count("an event is acknowledged");
        }
    }

    /// Takes a publication as a broker does; `refusal` is why it is not accepted, if it is not.
    pub(super) fn publish(
        &mut self,
        draft: &Draft,
        refusal: Option<Refusal>,
    ) -> Result<(), Refusal> {
        let text = std::str::from_utf8(&draft.payload.bytes).expect("text");
        let number = text.strip_prefix("event ").expect("an event");
        let number: usize = number.parse().expect("its number");
        assert_eq!(draft.channel.as_str(), self.channel(number), "{number}");
        let key = draft.idempotency_key.as_deref().expect("a key");
        let known = *self.keys.entry(key.into()).or_insert(number);
        assert_eq!(known, number, "the two have one place in their source");
        let event = &mut self.events[number];
        if event.kind == Kind::Nowhere {
            event.is_done = true;
            return Err(Refusal::UnknownChannel);
        }
        // What became of it is not known with these.
        let is_taken = match refusal {
            None | Some(Refusal::NotOnDisk) => true,
            Some(Refusal::Unknown) => number.is_multiple_of(2),
            Some(_) => false,
        };
        if is_taken {
            self.accept(number);
        }
        if let Some(why) = refusal {
            self.net.count("an event is refused, to be offered again");
            return Err(why);
        }
        if draft.acknowledge == Acknowledge::Synced {
            self.synced(number);
        }
        Ok(())
    }

    fn accept(&mut self, number: usize) {
        let event = &mut self.events[number];
        if std::mem::replace(&mut event.is_done, true) {
            self.net.count("an event is offered once more");
            return;
        }
        self.net.count("an event is published");
        let channel = event.channel;
        if event.is_lost {
            // The source may have given others since.
            return;
        }
        let newest = self.newest.insert(channel, number);
        assert!(
            newest.is_none_or(|newest| newest < number),
            "event {number} is published behind {newest:?} of its channel {channel}"
        );
    }

    /// The disk has this event and those of its channel that were published before.
    fn synced(&mut self, number: usize) {
        let channel = self.events[number].channel;
        for event in &mut self.events {
            event.is_on_disk |= event.is_done && event.channel == channel;
        }
    }

    /// Every event that the source still has was published.
    pub(super) fn settle(&self) {
        let missing = { self.events.iter() }.position(|it| {
            !it.is_lost && !it.is_done && matches!(it.kind, Kind::Good | Kind::Nowhere)
        });
        assert_eq!(missing, None, "an event was never published");
    }

    /// The events that a source has in place of others.
    pub(super) fn restored(&mut self, before: BTreeSet<usize>, now: &BTreeSet<usize>) {
        for event in before {
            if !now.contains(&event) {
                self.lost(event);
            }
        }
    }
}
