//! Idempotency keys: which publications with one have happened.
//!
//! A key has a row in a stream of its own, which NATS forgets after [`KEY_TTL_MS`]. The row is
//! written before the publication, and only if it is still as its writer has read it. It says
//! either *claimed behind `s`*: if the publication has happened, it is the first message of its
//! channel behind sequence `s`, with the key in a header; or *done*, with the position.
//!
//! Who finds a row of somebody else that is not done looks at the first message behind `s`. With
//! the key it is the publication. Without it, and directly behind `s`, the publication has failed:
//! its message would be stored behind `s` or not at all. Where there is none yet, it may still be
//! on its way. In both cases the row is claimed anew; of two messages behind one `s` NATS stores
//! one, and the other's writer looks again. If what was directly behind `s` is no longer kept,
//! nobody knows, and that is the answer.

use throng_broker::Refusal;
use throng_types::{ChannelName, Epoch, Position};

use crate::api::{self, EXPECTED, Found, Given, IMPOSSIBLE, KEY_TTL_MS, WRONG_SEQUENCE};
use crate::batch::Told;
use crate::flight::Flight;
use crate::names::token;
use crate::node::Nats;
use crate::stream::{Op, Stage};
use crate::writing::TRIES_MAX;

/// Content of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Row {
    /// The publication is the first message behind this sequence, or has not happened.
    Claimed(u64),
    /// It has happened, there if its channel keeps history.
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
    /// The token of the key that the publication of this turn has.
    pub(crate) fn key_of(&self, channel: &ChannelName) -> Option<String> {
        let turn = self.streams.get(channel)?.turn.as_ref()?;
        let Some(Op::Publish(_, _, draft)) = turn.ops.first() else {
            return None;
        };
        let key = token(draft.idempotency_key.as_deref()?);
        Some(match self.core.desk.options.given_ms() {
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
    pub(crate) fn claim(&mut self, channel: &ChannelName) {
        let known = self.streams.get(channel).and_then(|it| it.known.as_ref());
        let seq = known.map_or(0, |known| known.seq);
        let Some(turn) = self.turn(channel) else {
            return;
        };
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
                tracing::warn!(%channel, error = error.text, "NATS keeps no key");
                if error.code == IMPOSSIBLE {
                    self.core.desk.doubt(channel, "an answer that cannot be");
                }
                self.fail(channel);
            }
        }
    }

    /// What is kept about the key is here.
    pub(crate) fn key_row(&mut self, channel: &ChannelName, given: Option<Given>) {
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
    pub(crate) fn behind_claim(&mut self, channel: &ChannelName, found: Found) {
        let ours = self.key_of(channel);
        let Some(turn) = self.turn(channel) else {
            return;
        };
        let Stage::After(seq) = turn.stage else {
            return;
        };
        match found {
            Found::Nothing => self.read_again(channel),
            Found::Record(_, record, key) if key.as_deref() == ours.as_deref() => {
                let position = record.publications(channel, None);
                let position = position.and_then(|all| all.first()?.position);
                self.settle_key(channel, position);
                self.was_published(channel, position);
            }
            Found::Record(_, record, _) => {
                let before = record.state.and_then(|state| state.before.first().copied());
                if before.unwrap_or_default() == seq {
                    self.read_again(channel);
                } else {
                    self.give_up(channel, Refusal::Unknown);
                }
            }
            Found::Strange => self.give_up(channel, Refusal::Unknown),
        }
    }

    /// Another message was stored behind the one that this turn has read.
    pub(crate) fn was_second(&mut self, channel: &ChannelName, seq: u64) {
        let key = { self.turn(channel) }.map(|turn| &turn.key);
        match key.is_some_and(|key| key.is_ours && key.is_second) {
            // It may be that of who had claimed the key before.
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
    pub(crate) fn settle_key(&mut self, channel: &ChannelName, position: Option<Position>) {
        self.write_row(channel, Flight::Nothing, Row::Done(position), None);
    }

    /// The publication of this turn had happened before.
    fn was_published(&mut self, channel: &ChannelName, position: Option<Position>) {
        let told = self
            .end_turn(channel)
            .into_iter()
            .filter_map(|op| match op {
                Op::Publish(lane, ticket, _) => Some((lane, ticket, position)),
                _ => None,
            });
        let told: Vec<Told> = told.collect();
        self.published(told);
        self.begin(channel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
