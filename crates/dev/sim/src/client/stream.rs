//! What a client makes of a message: first words, publications, news of drops, farewells.

use serde_json::Value;
use throng_session::Cursor;
use throng_types::{ChannelName, Epoch, Position};
use throng_ws::Masking;

use super::wire::Message;
use super::{Around, Client, Link, Protocol};
use crate::feed::Feed;
use crate::payload::Got;
use crate::witness::Witness;

/// More channels than any client has.
const CURSOR_ENTRIES_MAX: usize = 16;
/// Codes with which a server may close a connection whose client kept to the rules.
const CLOSE_CODES: [u16; 6] = [1012, 3001, 3005, 3008, 3012, 3503];

pub(super) fn json(bytes: &[u8]) -> Value {
    let parsed = serde_json::from_slice(bytes);
    parsed.unwrap_or_else(|error| panic!("{error} in {}", String::from_utf8_lossy(bytes)))
}

pub(super) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

pub(super) fn position_of(value: &Value) -> Option<(Epoch, u64)> {
    let epoch = Epoch::parse(text(value, "epoch"))?;
    Some((epoch, value["offset"].as_u64().unwrap_or(0)))
}

impl Link {
    /// A plain WebSocket says nothing when it begins.
    pub(super) fn begin_plain(&mut self, channels: &[usize], witness: &mut Witness) {
        let Some(conn) = self.conn else { return };
        for &channel in channels {
            if !self.feed.has_begun(channel)
                && let Some(start) = witness.start(conn, channel)
            {
                self.feed.begin(channel, start, start, witness);
            }
        }
    }
}

impl Client {
    pub(super) fn message(&mut self, message: Message, around: &mut Around<'_>) {
        let Some(link) = self.link.as_mut() else {
            return;
        };
        assert!(
            !link.over,
            "client {}: words after the last word",
            self.number
        );
        match message {
            Message::Refused(status) => {
                // Going down, or the request was too slow, for its token or altogether.
                let late = status == 401 && !self.user.is_empty();
                let excused = late || matches!(status, 503 | 408);
                assert!(excused, "client {}: refused with {status}", self.number);
                link.over = true;
                // It has no reason to stay.
                self.leave(around);
            }
            Message::Close(code) => {
                // Stale: the clock leapt before its first words were read.
                let stale = code == Some(3502) && !link.open;
                let good = stale || code.is_some_and(|code| CLOSE_CODES.contains(&code));
                assert!(good, "client {}: closed with {code:?}", self.number);
                link.over = true;
            }
            Message::LastChunk => link.over = true,
            Message::Ping(payload) => self.ping(&payload, around),
            Message::Data { text, data } => match self.protocol {
                Protocol::Plain => self.plain(&data, around),
                _ => {
                    assert!(text, "JSON travels as text");
                    for line in data.split(|&byte| byte == b'\n') {
                        self.spoken(&json(line), around);
                    }
                }
            },
            Message::Event { event, data, id } => match self.protocol {
                Protocol::Sse => self.event(&event, &data, &id, around),
                _ => self.spoken(&json(&data), around),
            },
            Message::Line(line) => match self.protocol {
                Protocol::Lines => self.line(&json(&line), around),
                _ => self.spoken(&json(&line), around),
            },
        }
    }

    fn ping(&mut self, payload: &[u8], around: &mut Around<'_>) {
        let Some(link) = self.link.as_mut() else {
            return;
        };
        if let Some(dropped) = payload.strip_prefix(b"dropped=") {
            let dropped = std::str::from_utf8(dropped).expect("a number");
            link.feed.told += dropped.parse::<u64>().expect("a number");
        }
        if !self.mute {
            let mut out = Vec::new();
            let masking = Masking::Client((around.rng.next() as u32).to_be_bytes());
            throng_ws::encode_pong(masking, payload, &mut out);
            self.write(&out, around);
        }
    }

    fn plain(&mut self, data: &[u8], around: &mut Around<'_>) {
        let Some(link) = self.link.as_mut() else {
            return;
        };
        link.begin_plain(&self.channels, around.witness);
        let got = Got::Raw(data);
        let channel = link.feed.channel_of(&got, around.witness);
        link.feed.publication(channel, &got, None, around.witness);
    }

    // ---- /sse and /stream ----

    fn event(&mut self, event: &str, data: &[u8], id: &str, around: &mut Around<'_>) {
        let Some(link) = self.link.as_mut() else {
            return;
        };
        match event {
            "message" => {
                let got = Got::Event(data);
                let channel = link.feed.channel_of(&got, around.witness);
                let place = link.feed.publication(channel, &got, None, around.witness);
                self.at(channel, place, id, around.witness);
            }
            "subscribed" => self.first_words(&json(data), id, around),
            "dropped" => link.feed.told += json(data)["dropped"].as_u64().expect("a number"),
            "unsubscribed" => {
                let channel = around.witness.channel(text(&json(data), "unsubscribed"));
                link.feed.end(channel);
            }
            "disconnect" => {
                let code = json(data)["code"].as_u64().unwrap_or(0);
                assert!(
                    CLOSE_CODES.map(u64::from).contains(&code),
                    "disconnected: {code}"
                );
                link.over = true;
            }
            _ => panic!("an event that nobody knows: {event}"),
        }
    }

    fn line(&mut self, line: &Value, around: &mut Around<'_>) {
        let Some(link) = self.link.as_mut() else {
            return;
        };
        let id = text(line, "id").to_owned();
        if !line["data"].is_null() {
            let channel = around.witness.channel(text(line, "channel"));
            let offset = line["offset"].as_u64();
            let got = Got::Json(&line["data"]);
            let place = link
                .feed
                .publication(channel, &got, Some(offset), around.witness);
            self.at(channel, place, &id, around.witness);
        } else if !line["recovered"].is_null() {
            self.first_words(line, &id, around);
        } else if let Some(dropped) = line["dropped"].as_u64() {
            link.feed.told += dropped;
        } else if !line["unsubscribed"].is_null() {
            link.feed
                .end(around.witness.channel(text(line, "unsubscribed")));
        } else if !line["disconnect"].is_null() {
            // The last chunk follows.
            let code = line["disconnect"]["code"].as_u64().unwrap_or(0);
            assert!(
                CLOSE_CODES.map(u64::from).contains(&code),
                "disconnected: {code}"
            );
        } else {
            assert!(
                line.as_object().is_some_and(serde_json::Map::is_empty),
                "{line}"
            );
        }
    }

    /// `recovered`, and the id that tells where the connection begins.
    fn first_words(&mut self, words: &Value, id: &str, around: &mut Around<'_>) {
        let Some(link) = self.link.as_mut() else {
            return;
        };
        assert!(!link.open, "first words come first, and once");
        link.open = true;
        let recovered = words["recovered"].as_bool().expect("it says");
        assert_eq!(words["resuming"].as_bool(), Some(link.resuming));
        assert!(!recovered || link.resuming, "nothing was to be recovered");
        let conn = link.conn.expect("accepted");
        let before = Cursor::parse(&self.cursor, CURSOR_ENTRIES_MAX).unwrap_or_default();
        let now = Cursor::parse(id, CURSOR_ENTRIES_MAX).unwrap_or_default();
        for name in words["channels"].as_array().expect("it says") {
            let channel = around.witness.channel(name.as_str().expect("a name"));
            let start = around
                .witness
                .start(conn, channel)
                .expect("it was subscribed");
            let name = ChannelName::new(around.witness.name(channel)).expect("a name");
            let place = now.position(&name);
            if recovered {
                assert_eq!(
                    place,
                    before.position(&name),
                    "{name}: recovery begins where it was"
                );
                let mut last = self.places.get(&channel).copied().unwrap_or(0);
                if link.feed.is_lossy() {
                    // An id tells how far the server went, and that may be past what it had
                    // dropped when the connection ended, which nobody was told any more.
                    last = last.max(around.witness.place_at(channel, place));
                }
                link.feed.begin(channel, last, start, around.witness);
            } else {
                check_position(channel, start, place, around.witness);
                link.feed.begin(channel, start, start, around.witness);
                self.places.insert(channel, start);
            }
        }
        self.cursor = id.to_owned();
    }

    /// Notes how far it has come in a channel, and where it would resume.
    fn at(&mut self, channel: usize, place: usize, id: &str, witness: &Witness) {
        self.places.insert(channel, place);
        if !id.is_empty() {
            let cursor = Cursor::parse(id, CURSOR_ENTRIES_MAX).expect("an id is a cursor");
            let feed = self.link.as_ref().map(|link| &link.feed);
            for (&other, &place) in &self.places {
                // What was dropped is behind the place that the id tells, if it has one.
                let knows = |feed: &Feed| feed.is_active(other) && !feed.is_lossy();
                let told = other == channel && witness.position_of(channel, place).is_some();
                if witness.options(other).retention.keeps() && (told || feed.is_some_and(knows)) {
                    let name = ChannelName::new(witness.name(other)).expect("a name");
                    check_position(other, place, cursor.position(&name), witness);
                }
            }
        }
        if !id.is_empty() {
            self.cursor = id.to_owned();
        }
    }
}

/// Checks where the server says a subscription begins.
pub(super) fn check_position(
    channel: usize,
    start: usize,
    told: Option<Position>,
    witness: &Witness,
) {
    let name = witness.name(channel);
    if !witness.options(channel).retention.keeps() {
        assert_eq!(told, None, "{name}: no history, no position");
        return;
    }
    let told = told.unwrap_or_else(|| panic!("{name}: history has positions"));
    let before = witness.position_at(channel, start);
    let expected = before.filter(|before| before.epoch == told.epoch);
    let offset = expected.map_or(0, |position| position.offset);
    assert_eq!(
        told.offset, offset,
        "{name}: the subscription begins at place {start}"
    );
}
