//! Turns that write: publications behind the newest message of their channel, and which
//! publications with an idempotency key have happened.
//!
//! A key has a row in a stream of its own, which NATS forgets after [`KEY_TTL_MS`]. The row is
//! written before the publication, and only if it is still as its writer has read it. It says
//! either *claimed behind `s`*: if the publication has happened, it is the first message of its
//! channel behind sequence `s`, with the key in a header; or *done*, with the position.
//!
//! A node that finds a row of another that is not done looks at the first message behind `s`. With
//! the key it is the publication. Without it, and directly behind `s`, the publication has failed:
//! its message would be stored behind `s` or not at all, and the row is claimed anew. Where there
//! is none yet, it may still be on its way: the row is claimed anew behind the same `s`. Of two
//! messages behind one `s` NATS stores one, and the other's writer looks again. If what was
//! directly behind `s` is no longer kept, nobody knows, and that is the answer.

use throng_broker::{Draft, HistoryPage, Outcome, Refusal};
use throng_nats_protocol::write;
use throng_remote::{RequestId, blob};
use throng_types::{ChannelName, Epoch, Position};

use crate::api::{
    self, ChannelMessage, EXPECTED, IMPOSSIBLE, KEY, KEY_TTL_MS, StoredMessage, TRACES,
    WRONG_SEQUENCE,
};
use crate::batch::{Known, PublishedAt, is_newer};
use crate::names::token;
use crate::node::Nats;
use crate::node::{Flight, Op, Stage, Then};
use crate::record::{Item, Kind, Record, State};

/// Number of times a turn begins again because another node was first.
const TRIES_MAX: u32 = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Row {
    /// The publication is the first message behind this sequence, or has not happened.
    Claimed(u64),
    /// The publication has happened, there if its channel keeps history.
    Done(Option<Position>),
}

impl Row {
    fn encode(self) -> String {
        match self {
            Self::Claimed(seq) => format!("c{seq}"),
            Self::Done(None) => "d".to_owned(),
            Self::Done(Some(at)) => format!("d{}.{}", at.epoch.0, at.offset),
        }
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        if let Some(seq) = text.strip_prefix('c') {
            return Some(Self::Claimed(seq.parse().ok()?));
        }
        let text = text.strip_prefix('d')?;
        if text.is_empty() {
            return Some(Self::Done(None));
        }
        let (epoch, offset) = text.split_once('.')?;
        Some(Self::Done(Some(Position {
            epoch: Epoch(epoch.parse().ok()?),
            offset: offset.parse().ok()?,
        })))
    }
}

impl Nats {
    pub(crate) fn publish_core(&mut self, channel: &ChannelName, id: RequestId, draft: &Draft) {
        let subject = self.names.channel(channel, self.core.keeps(channel));
        let record = Record {
            state: None,
            time_ms: self.time_ms(),
            items: vec![item(draft, Kind::Passing)],
        };
        let traces = record.traces();
        let headers: Vec<_> = { traces.as_deref() }
            .map(|traces| (TRACES, traces))
            .into_iter()
            .collect();
        write::publish(
            &mut self.core.io.out,
            &subject,
            None,
            &headers,
            &record.encode(),
        );
        self.behind.push(Then::Published(id));
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
            let Op::Publish(id, draft) = op else {
                continue;
            };
            let draft: &Draft = draft;
            let mut position = None;
            if keeps {
                if !is_newer(&state, draft.version.as_deref()) {
                    // Versions may have begun anew on another node.
                    if !turn.has_read {
                        return self.read_again(channel);
                    }
                    told.push((*id, Some(state.position())));
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
            told.push((*id, position));
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

    /// Sends a message to be stored, if no other publisher was first.
    pub(crate) fn put(&mut self, channel: &ChannelName, record: &Record, key: Option<&str>) {
        let bytes = record.encode();
        let most = self.link.map_or(0, |link| link.payload_max);
        if bytes.len() + 1024 > most {
            tracing::warn!(
                %channel,
                bytes = bytes.len(),
                most,
                "a message is longer than NATS takes"
            );
            return self.fail(channel);
        }
        let known = self.streams.get(channel).and_then(|it| it.known.as_ref());
        let seq = known.map_or(0, |known| known.seq).to_string();
        let mut headers = vec![(EXPECTED, &*seq)];
        headers.extend(key.map(|key| (KEY, key)));
        let traces = record.traces();
        headers.extend(traces.as_deref().map(|traces| (TRACES, traces)));
        let subject = self.names.store(channel, self.core.keeps(channel));
        self.ask(Flight::Store(channel.clone()), &subject, &headers, &bytes);
    }

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
                    if let [(_, position)] = &told[..] {
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
                tracing::warn!(%channel, error = error.text, "NATS did not store a message");
                match error.code {
                    IMPOSSIBLE => {
                        self.core.io.doubt(channel, "an answer that cannot be");
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
                .io
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

    /// Answers the request to forget a history, once that is done.
    pub(crate) fn has_forgotten(&mut self, channel: &ChannelName) {
        for op in self.end_turn(channel) {
            if let Op::Forget(id) = op {
                let outcome = Outcome::History(Ok(HistoryPage::default()));
                self.core.io.reply(id, outcome);
            }
        }
        self.begin(channel);
    }

    pub(crate) fn published(&mut self, told: Vec<PublishedAt>) {
        for (id, position) in told {
            self.core.published(id, Ok(position));
        }
    }

    // ---- idempotency keys ----

    /// The token of the key that the publication of this turn has.
    fn key_of(&self, channel: &ChannelName) -> Option<String> {
        let turn = self.streams.get(channel)?.turn.as_ref()?;
        let Some(Op::Publish(_, draft)) = turn.ops.first() else {
            return None;
        };
        let key = token(draft.idempotency_key.as_deref()?);
        Some(match self.core.io.options.given_ms() {
            0 => key,
            // NATS does not know the clock of a test; there, a row lasts for a period of it.
            given_ms => format!("{key}_{}", given_ms / KEY_TTL_MS),
        })
    }

    fn write_row(&mut self, channel: &ChannelName, flight: Flight, row: Row, behind: Option<u64>) {
        let Some(key) = self.key_of(channel) else {
            return;
        };
        let subject = self.names.key(channel, &key);
        let behind = behind.map(|seq| seq.to_string());
        let headers: Vec<_> = behind.iter().map(|seq| (EXPECTED, &**seq)).collect();
        self.ask(flight, &subject, &headers, row.encode().as_bytes());
    }

    /// Claims the key of this turn, behind the newest message.
    fn claim(&mut self, channel: &ChannelName) {
        let known = self.streams.get(channel).and_then(|it| it.known.as_ref());
        let seq = known.map_or(0, |known| known.seq);
        let Some(turn) = self.turn(channel) else {
            return;
        };
        // What may have been on its way has come.
        if let Some(behind) = turn.key.awaited.take().filter(|behind| *behind < seq) {
            return self.look_behind(channel, behind);
        }
        turn.stage = Stage::Claim;
        let row = turn.key.row;
        let flight = Flight::Claim(channel.clone());
        self.write_row(channel, flight, Row::Claimed(seq), Some(row));
    }

    /// NATS has said whether the key is this turn's.
    pub(crate) fn claimed(&mut self, channel: &ChannelName, payload: &[u8]) {
        let Some(turn) = self.turn(channel) else {
            return;
        };
        match api::stored(payload) {
            Ok(seq) => {
                turn.key.row = seq;
                turn.key.is_ours = true;
                self.store(channel);
            }
            Err(error) if error.code == WRONG_SEQUENCE && turn.tries < TRIES_MAX => {
                turn.tries += 1;
                turn.stage = Stage::KeyRow;
                turn.key.is_second = true;
                let Some(key) = self.key_of(channel) else {
                    return self.fail(channel);
                };
                let subject = self.names.key(channel, &key);
                let body = format!("{{\"last_by_subj\":\"{subject}\"}}");
                let stream = self.names.stream("keys");
                self.ask_newest(Flight::KeyRow(channel.clone()), &stream, &body);
            }
            Err(error) => {
                tracing::warn!(
                    %channel,
                    error = error.text,
                    "NATS did not store an idempotency key"
                );
                if error.code == IMPOSSIBLE {
                    self.core.io.doubt(channel, "an answer that cannot be");
                }
                self.fail(channel);
            }
        }
    }

    pub(crate) fn key_row(&mut self, channel: &ChannelName, given: Option<StoredMessage>) {
        let Some(turn) = self.turn(channel) else {
            return;
        };
        turn.key.row = given.as_ref().map_or(0, |given| given.seq);
        let row = given.map(|given| Row::decode(&given.payload));
        match row {
            // NATS has forgotten it meanwhile.
            None => self.read_again(channel),
            Some(Some(Row::Done(position))) => self.was_published(channel, position),
            Some(Some(Row::Claimed(seq))) => self.look_behind(channel, seq),
            Some(None) => self.give_up(channel, Refusal::Unknown),
        }
    }

    fn look_behind(&mut self, channel: &ChannelName, seq: u64) {
        if let Some(turn) = self.turn(channel) {
            turn.stage = Stage::After(seq);
        }
        let keeps = self.core.keeps(channel);
        let (stream, subject) = (
            self.names.stream_of(channel, keeps),
            self.names.store(channel, keeps),
        );
        let next = seq + 1;
        let body = format!("{{\"seq\":{next},\"next_by_subj\":\"{subject}\"}}");
        self.ask_newest(Flight::After(channel.clone()), &stream, &body);
    }

    /// The first message behind a claim is here.
    pub(crate) fn behind_claim(&mut self, channel: &ChannelName, found: ChannelMessage) {
        let ours = self.key_of(channel);
        let Some(turn) = self.turn(channel) else {
            return;
        };
        let Stage::After(seq) = turn.stage else {
            return;
        };
        match found {
            ChannelMessage::Nothing => {
                turn.key.awaited = Some(seq);
                self.read_again(channel);
            }
            ChannelMessage::Record(_, record, key) if key.as_deref() == ours.as_deref() => {
                let position = record.publications(channel, None);
                let position = position.and_then(|all| all.first()?.position);
                self.settle_key(channel, position);
                self.was_published(channel, position);
            }
            ChannelMessage::Record(_, record, _) => {
                let before = record.state.and_then(|state| state.before.first().copied());
                if before.unwrap_or_default() == seq {
                    self.read_again(channel);
                } else {
                    self.give_up(channel, Refusal::Unknown);
                }
            }
            ChannelMessage::Strange => self.give_up(channel, Refusal::Unknown),
        }
    }

    /// Another message was stored behind the one that this turn has read.
    fn was_second(&mut self, channel: &ChannelName, seq: u64) {
        let key = { self.turn(channel) }.map(|turn| &turn.key);
        match key.is_some_and(|key| key.is_ours && key.is_second) {
            // It may be that of the publisher that had claimed the key before.
            true => self.look_behind(channel, seq),
            false => self.read_again(channel),
        }
    }

    /// Begins this turn again from the newest message.
    fn read_again(&mut self, channel: &ChannelName) {
        if let Some(stream) = self.streams.get_mut(channel)
            && let Some(turn) = &mut stream.turn
        {
            turn.stage = Stage::Last;
            turn.key.is_ours = false;
            stream.known = None;
            self.ask_last(channel);
        }
    }

    /// Notes that the publication of this turn has happened, if it has a key. It need not be known
    /// before the publisher is: until then the message itself says so.
    fn settle_key(&mut self, channel: &ChannelName, position: Option<Position>) {
        self.write_row(channel, Flight::Nothing, Row::Done(position), None);
    }

    /// The publication of this turn had happened before.
    fn was_published(&mut self, channel: &ChannelName, position: Option<Position>) {
        let told = self
            .end_turn(channel)
            .into_iter()
            .filter_map(|op| match op {
                Op::Publish(id, _) => Some((id, position)),
                _ => None,
            });
        let told: Vec<PublishedAt> = told.collect();
        self.published(told);
        self.begin(channel);
    }
}

fn item(draft: &Draft, kind: Kind) -> Item {
    let mut body = Vec::with_capacity(draft.payload.bytes.len() + 64);
    let (who, tags) = (draft.publisher.as_deref(), draft.tags.as_deref());
    blob::encode(&draft.payload, who, tags, &mut body);
    Item {
        kind,
        body: body.into(),
        trace: draft.trace.clone(),
    }
}

#[cfg(test)]
mod tests {
    use throng_broker::Ticket;
    use throng_remote::Verbs as _;
    use throng_types::Payload;

    use super::*;
    use crate::link::Message;
    use crate::nodes::tests::{asked, hear, node};

    /// Its claim was found, then its message came, and then the newest message was read.
    #[test]
    fn a_publication_that_another_node_had_on_its_way_is_not_stored_again() {
        let mut node = node();
        let channel = ChannelName::new("c").expect("a name");
        let draft = Draft {
            idempotency_key: Some("k".into()),
            ..Draft::new(channel.clone(), Payload::text("{}"))
        };
        let state = State {
            epoch: Epoch(1),
            offset: 0,
            server: 1,
            formers: Vec::new(),
            time_ms: 1,
            forgotten: 0,
            version: None,
            before: Vec::new(),
        };
        let theirs = Record {
            time_ms: 1,
            state: Some(state),
            items: vec![item(&draft, Kind::Passing)],
        };
        let said = |status, seq, key: Option<&str>, payload: &[u8]| Message {
            sid: 0,
            subject: "".into(),
            status,
            seq,
            key: key.map(Into::into),
            traces: None,
            payload: payload.into(),
        };
        let nothing = || said(Some(404), 0, None, b"");
        let its = || said(None, 5, Some("k"), &theirs.encode());
        let is_second = br#"{"error":{"code":400,"err_code":10071,"description":""}}"#;
        let (shard, ticket) = (0, Ticket(1));
        node.publish(RequestId { shard, ticket }, draft);
        hear(&mut node, |it| matches!(it, Flight::Last(_)), nothing());
        let claim = |it: &Flight| matches!(it, Flight::Claim(_));
        hear(&mut node, claim, said(None, 0, None, is_second));
        let row = said(None, 10, None, b"c0");
        hear(&mut node, |it| matches!(it, Flight::KeyRow(_)), row);
        let behind = |it: &Flight| matches!(it, Flight::After(_));
        hear(&mut node, behind, nothing());
        hear(&mut node, |it| matches!(it, Flight::Last(_)), its());
        assert!(asked(&node, claim).is_none());
        hear(&mut node, behind, its());
        // It is told as published, and its row is written.
        assert!(asked(&node, |it| matches!(it, Flight::Nothing)).is_some());
        assert!(asked(&node, claim).is_none() && node.turn(&channel).is_none());
    }

    #[test]
    fn what_a_row_says_is_read() {
        let at = Position {
            epoch: Epoch(u64::MAX / 2),
            offset: 7,
        };
        for row in [
            Row::Claimed(0),
            Row::Claimed(12),
            Row::Done(None),
            Row::Done(Some(at)),
        ] {
            assert_eq!(Row::decode(row.encode().as_bytes()), Some(row));
        }
        for wrong in ["", "c", "c-1", "d1", "d1.", "d.1", "x", "\u{fc}"] {
            assert_eq!(Row::decode(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
