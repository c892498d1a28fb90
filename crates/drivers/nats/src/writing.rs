//! Turns that write: publications behind the newest message of their channel.

use throng_broker::{Draft, HistoryPage, Refusal, Reply, Ticket};
use throng_remote::{NOBODY, blob};
use throng_types::ChannelName;

use crate::api::{self, EXPECTED, IMPOSSIBLE, KEY, WRONG_SEQUENCE};
use crate::batch::{Known, Told, is_newer};
use crate::flight::{Flight, Then};
use crate::node::Nats;
use crate::record::{Item, Kind, Record, State};
use crate::stream::{Op, Stage};

/// How often a turn begins again because another node was first.
pub(crate) const TRIES_MAX: u32 = 100;

impl Nats {
    /// Publishes what is not kept.
    pub(crate) fn publish_core(
        &mut self,
        channel: &ChannelName,
        lane: u8,
        ticket: Ticket,
        draft: &Draft,
    ) {
        let subject = self.names.channel(channel, self.core.keeps(channel));
        let record = Record {
            state: None,
            time_ms: self.time_ms(),
            items: vec![item(draft, Kind::Passing)],
        };
        self.say(&subject, &record.encode());
        if ticket != NOBODY {
            self.behind.push(Then::Published(lane, ticket));
        }
    }

    /// Stores the publications of this turn behind the newest message.
    pub(crate) fn store(&mut self, channel: &ChannelName) {
        let keeps = self.core.keeps(channel);
        let mut state = self.opened(channel).0;
        let Some(turn) = self.turn(channel) else {
            return;
        };
        let mut items = Vec::new();
        let mut told = Vec::new();
        let (mut key, mut is_changed) = (None, false);
        for op in &turn.ops {
            let Op::Publish(lane, ticket, draft) = op else {
                continue;
            };
            let draft: &Draft = draft;
            let mut position = None;
            if keeps {
                if !is_newer(&state, draft.version.as_deref()) {
                    told.push((*lane, *ticket, Some(state.position())));
                    continue;
                }
                if let Some(version) = &draft.version {
                    state.version = Some((version.number, version.epoch.clone()));
                }
                if !draft.skip_history {
                    state.offset += 1;
                    position = Some(state.position());
                }
            }
            is_changed = true;
            let kind = if position.is_some() {
                Kind::Kept
            } else {
                Kind::Passing
            };
            items.push(item(draft, kind));
            told.push((*lane, *ticket, position));
            key = draft.idempotency_key.as_deref();
        }
        if !is_changed {
            self.end_turn(channel);
            self.published(told);
            return self.begin(channel);
        }
        if key.is_some() && !turn.key.is_ours {
            return self.claim(channel);
        }
        turn.stage = Stage::Store(state.clone(), told);
        let record = Record {
            time_ms: state.time_ms,
            state: Some(state),
            items,
        };
        let key = self.key_of(channel);
        self.put(channel, &record, key.as_deref());
    }

    /// Sends a message to be stored, if nobody was first.
    pub(crate) fn put(&mut self, channel: &ChannelName, record: &Record, key: Option<&str>) {
        let bytes = record.encode();
        let most = self.link.map_or(0, |link| link.payload_max);
        if bytes.len() + 1024 > most {
            tracing::warn!(%channel, bytes = bytes.len(), most, "NATS takes no such message");
            return self.fail(channel);
        }
        let known = self.streams.get(channel).and_then(|it| it.known.as_ref());
        let seq = known.map_or(0, |known| known.seq).to_string();
        let mut headers = vec![(EXPECTED, &*seq)];
        headers.extend(key.map(|key| (KEY, key)));
        let subject = self.names.store(channel, self.core.keeps(channel));
        self.ask(Flight::Store(channel.clone()), &subject, &headers, &bytes);
    }

    /// NATS has said whether a message is stored.
    pub(crate) fn stored(&mut self, channel: &ChannelName, payload: &[u8]) {
        let Some(stream) = self.streams.get_mut(channel) else {
            return;
        };
        let Some(turn) = &mut stream.turn else {
            return;
        };
        match api::stored(payload) {
            Ok(seq) => match std::mem::replace(&mut turn.stage, Stage::Last) {
                Stage::Store(state, told) => {
                    self.compare_with_seen(channel, &state);
                    let Some(stream) = self.streams.get_mut(channel) else {
                        return;
                    };
                    stream.known = Some(Known { seq, state });
                    if let [(_, _, position)] = &told[..] {
                        self.settle_key(channel, *position);
                    }
                    self.end_turn(channel);
                    self.published(told);
                    self.begin(channel);
                }
                Stage::Open(state, newest) => {
                    self.compare_with_seen(channel, &state);
                    let Some(stream) = self.streams.get_mut(channel) else {
                        return;
                    };
                    stream.known = Some(Known {
                        seq,
                        state: state.clone(),
                    });
                    self.has_opened(channel, &state, newest.as_ref());
                }
                _ => {}
            },
            Err(error) if error.code == WRONG_SEQUENCE && turn.tries < TRIES_MAX => {
                turn.tries += 1;
                let before = stream.known.take().map_or(0, |known| known.seq);
                self.was_second(channel, before);
            }
            Err(error) => {
                stream.known = None;
                tracing::warn!(%channel, error = error.text, "NATS stores no message");
                match error.code {
                    IMPOSSIBLE => {
                        self.core.desk.doubt(channel, "an answer that cannot be");
                        self.give_up(channel, Refusal::Unknown);
                    }
                    _ => self.fail(channel),
                }
            }
        }
    }

    /// A cluster of servers keeps what it has acknowledged: if a new epoch had to begin behind what
    /// this node's subscribers have, it did not.
    fn compare_with_seen(&mut self, channel: &ChannelName, state: &State) {
        let seen = self.core.top(channel);
        let is_behind = { seen.zip(state.formers.first()) }.is_some_and(|(seen, former)| {
            seen.epoch == former.epoch && seen.offset > former.offset
        });
        if is_behind && self.link.is_some_and(|link| link.is_clustered) {
            self.core
                .desk
                .doubt(channel, "a stream that stands behind what it delivered");
        }
    }

    fn has_opened(&mut self, channel: &ChannelName, state: &State, newest: Option<&Record>) {
        let forgets = { self.turn(channel) }
            .is_some_and(|turn| matches!(turn.ops.first(), Some(Op::Forget(..))));
        if !forgets {
            let marker = Record {
                time_ms: state.time_ms,
                state: Some(state.clone()),
                items: Vec::new(),
            };
            return self.walk(channel, state, newest, Some(&marker));
        }
        let (stream, subject) = (
            self.names.stream_of(channel, true),
            self.names.store(channel, true),
        );
        let body = format!("{{\"filter\":\"{subject}\",\"keep\":1}}");
        self.api(Flight::Nothing, "STREAM.PURGE", &stream, &body);
        self.has_forgotten(channel);
    }

    /// Tells who wished that a history is forgotten that it is.
    pub(crate) fn has_forgotten(&mut self, channel: &ChannelName) {
        for op in self.end_turn(channel) {
            if let Op::Forget(lane, ticket) = op {
                let result = Ok(HistoryPage::default());
                self.core
                    .desk
                    .leave(lane, Reply::History { ticket, result });
            }
        }
        self.begin(channel);
    }

    pub(crate) fn published(&mut self, told: Vec<Told>) {
        for (lane, ticket, position) in told {
            self.core.published(lane, ticket, Ok(position));
        }
    }
}

/// A draft as an item.
fn item(draft: &Draft, kind: Kind) -> Item {
    let mut body = Vec::with_capacity(draft.payload.bytes.len() + 64);
    let (who, tags) = (draft.publisher.as_deref(), draft.tags.as_deref());
    blob::encode(&draft.payload, who, tags, &mut body);
    let body = body.into();
    Item { kind, body }
}
