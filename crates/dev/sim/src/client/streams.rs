//! `/ws`, `/sse`, `/stream` and streams of GRIP: first words, publications, drops, farewells.

use serde_json::Value;
use throng_types::Epoch;

use super::kind::Kind;
use super::state::{Around, Client};
use crate::payload::Got;
use crate::setup::CHANNELS;
use crate::witness::{Place, Start};

pub(crate) fn json_of(bytes: &[u8]) -> Value {
    let parsed = serde_json::from_slice(bytes);
    parsed.unwrap_or_else(|error| panic!("{error} in {}", String::from_utf8_lossy(bytes)))
}

pub(super) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

pub(crate) fn place_of(value: &Value) -> Option<Place> {
    let epoch = Epoch::parse(text(value, "epoch"))?;
    Some((epoch, value["offset"].as_u64().unwrap_or(0)))
}

impl Client {
    /// A good head came: a stream of GRIP is live with it.
    pub(super) fn head_came(&mut self, around: &mut Around<'_>) {
        if self.kind == Kind::Grip {
            return;
        }
        if self.kind == Kind::Plain {
            self.link.as_mut().expect("it reads").open = true;
            // It does not list its subscriptions; the first publication shows one.
            note!(around.net, "{} is open", self.who());
        }
    }

    pub(super) fn ping(&mut self, payload: &[u8], around: &mut Around<'_>) {
        let Some(link) = self.link.as_mut() else {
            return;
        };
        if let Some(dropped) = payload.strip_prefix(b"dropped=") {
            let dropped = std::str::from_utf8(dropped).expect("a number");
            let dropped = dropped.parse().expect("a number");
            around.witness.told_dropped(link.conn, dropped);
        }
        if !self.mute {
            let mut out = Vec::new();
            throng_ws::encode_pong(around.net.masking(), payload, &mut out);
            self.say(&out, around);
        }
    }

    /// The channel of a publication in a protocol that does not name it.
    fn guess(&self, got: &Got<'_>, around: &Around<'_>) -> usize {
        let sent_to = around.witness.channels_of(got);
        let own = self.channels.iter().find(|own| sent_to.contains(own));
        *own.unwrap_or_else(|| panic!("{}: {got:?} is of no channel here", self.who()))
    }

    fn got(&mut self, got: &Got<'_>, around: &mut Around<'_>) {
        let channel = self.guess(got, around);
        let track = self.track(channel, around);
        if !around.witness.has_begun(track) {
            around.witness.begins(track, Start::Unknown);
        }
        around.witness.gets(track, got, None);
    }

    pub(super) fn plain(&mut self, data: &[u8], around: &mut Around<'_>) {
        self.got(&Got::Raw(data), around);
    }

    /// All of its channels begin with the first words, which tell no places.
    pub(super) fn all_begin(&mut self, around: &mut Around<'_>) {
        self.link.as_mut().expect("it reads").open = true;
        for channel in self.channels.clone() {
            let track = self.track(channel, around);
            around.witness.begins(track, Start::Unknown);
        }
    }

    /// A line of a held stream: the greeting of the backend, or an item.
    pub(super) fn grip_line(&mut self, line: &[u8], around: &mut Around<'_>) {
        if line == b"welcome" {
            return self.all_begin(around);
        }
        self.got(&Got::Raw(line), around);
    }

    /// A held stream has ended: the client leaves, or asks again on the same connection.
    pub(super) fn stream_ended(&mut self, around: &mut Around<'_>) {
        let shut = self.link.as_ref().is_none_or(|link| link.shut);
        if shut || around.net.percent(30) {
            return self.leave(around);
        }
        if let Some(link) = self.forget_link(around) {
            note!(
                around.net,
                "client {} asks again on {}",
                self.number,
                link.conn
            );
            self.begin(link.conn, around);
        }
    }

    // ---- /sse and /stream ----

    pub(super) fn event(&mut self, event: &str, data: &[u8], id: &str, around: &mut Around<'_>) {
        match event {
            "message" => {
                self.got(&Got::Event(data), around);
                self.came_to(id);
            }
            "subscribed" => self.first_words(&json_of(data), id, around),
            "dropped" => self.dropped(&json_of(data)["dropped"], around),
            "unsubscribed" => self.unsubscribed(text(&json_of(data), "unsubscribed"), around),
            "disconnect" => {
                self.disconnected(&json_of(data), around);
                self.link.as_mut().expect("it reads").over = true;
            }
            _ => panic!("an event that nobody knows: {event}"),
        }
    }

    pub(super) fn line(&mut self, line: &Value, around: &mut Around<'_>) {
        let id = text(line, "id").to_owned();
        if !line["data"].is_null() {
            let channel = around.witness.channel(text(line, "channel"));
            let track = self.track(channel, around);
            let offset = line["offset"].as_u64();
            around
                .witness
                .gets(track, &Got::Json(&line["data"]), offset);
            self.came_to(&id);
        } else if !line["recovered"].is_null() {
            self.first_words(line, &id, around);
        } else if !line["dropped"].is_null() {
            self.dropped(&line["dropped"], around);
        } else if !line["unsubscribed"].is_null() {
            self.unsubscribed(text(line, "unsubscribed"), around);
        } else if !line["disconnect"].is_null() {
            // The last chunk follows.
            self.disconnected(&line["disconnect"], around);
        } else {
            let empty = line.as_object().is_some_and(serde_json::Map::is_empty);
            assert!(empty, "{line}");
        }
    }

    fn dropped(&self, count: &Value, around: &mut Around<'_>) {
        let count = count.as_u64().expect("a number");
        let conn = self.conn().expect("it reads");
        around.witness.told_dropped(conn, count);
    }

    fn unsubscribed(&mut self, name: &str, around: &mut Around<'_>) {
        let channel = around.witness.channel(name);
        let track = self.track(channel, around);
        around.witness.ends(track);
    }

    pub(super) fn disconnected(&self, words: &Value, around: &mut Around<'_>) {
        let code = words["code"].as_u64().unwrap_or(0);
        assert!(around.may_close(code), "{}: {words}", self.who());
        self.was_sent_away(Some(code), around);
    }

    /// `recovered`, and the id of the place where the connection begins.
    fn first_words(&mut self, words: &Value, id: &str, around: &mut Around<'_>) {
        let who = self.who();
        let link = self.link.as_mut().expect("it reads");
        assert!(!link.open, "{who}: first words come first, and once");
        link.open = true;
        let recovered = words["recovered"].as_bool().expect("it says");
        assert_eq!(words["resuming"].as_bool(), Some(link.resuming), "{who}");
        assert!(!recovered || link.resuming, "nothing was to be recovered");
        let lossy = link.lossy;
        for name in words["channels"].as_array().expect("it says") {
            let channel = around.witness.channel(name.as_str().expect("a name"));
            let track = self.track(channel, around);
            let before = self.before.get(&channel).copied();
            let start = match before {
                Some(before) if recovered => Start::After(before),
                _ => Start::Unknown,
            };
            if recovered && lossy {
                // An id marks how far the server went, and that may be past what it had dropped
                // when the connection ended, which the client was not told any more.
                around.witness.loses_sharpness(track);
            }
            around.witness.begins(track, start);
        }
        if words["resuming"] == true {
            around.witness.resumes(recovered);
        }
        if lossy {
            let conn = self.conn().expect("it reads");
            around.witness.blurs(conn);
        }
        self.came_to(id);
    }

    fn came_to(&mut self, id: &str) {
        if !id.is_empty() {
            self.cursor = id.to_owned();
        }
    }
}

/// Whether a channel keeps history.
pub(super) const fn keeps(channel: usize) -> bool {
    CHANNELS[channel].history.0 > 0
}
