//! The Centrifugo protocol, both ways and one way: commands, replies and pushes.

use serde_json::{Value, json};
use throng_types::Epoch;

use super::connect::{frame, message};
use super::kind::Kind;
use super::protobuf;
use super::state::{Around, Asked, Client, Link};
use super::streams::{keeps, place_of, text};
use crate::payload::{self, Got};
use crate::setup::{CHANNELS, PRIVATE, token};
use crate::witness::{Place, Start};

impl Client {
    // ---- commands ----

    fn command(&mut self, asked: Asked) -> u32 {
        let link = self.link.as_mut().expect("it speaks");
        link.commands.next(asked)
    }

    /// Encodes a command whose reply is waited for.
    fn ask(&mut self, asked: Asked, name: &str, command: &Value) -> String {
        json!({"id": self.command(asked), name: command}).to_string()
    }

    /// Sends commands, a line each, in the form of its transport.
    pub(super) fn speak(&mut self, lines: &str, around: &Around<'_>) {
        match self.kind {
            Kind::Protobuf => {
                let data = protobuf::commands(lines);
                self.say(&message(throng_ws::Opcode::Binary, &data, around), around);
            }
            kind if kind.is_emulated() => self.say_upstream(lines, around),
            _ => self.say(&frame(lines.as_bytes(), around), around),
        }
    }

    /// Encodes the first commands of a connection.
    pub(super) fn connect_command(&mut self, resume: bool, around: &mut Around<'_>) -> String {
        let mut connect = json!({});
        let own: Vec<usize> = if !self.user.is_empty() && around.net.percent(40) {
            self.channels.clone()
        } else {
            Vec::new()
        };
        if !self.user.is_empty() {
            let names = own.iter().map(|&channel| CHANNELS[channel].name).collect();
            connect["token"] = token(&self.user, None, names, self.expiry(around)).into();
        }
        for &channel in &own {
            self.asks(channel, around);
            if let Some(&(epoch, offset)) = self.positions.get(&channel).filter(|_| resume) {
                let link = self.link.as_mut().expect("it begins");
                link.since.insert(channel, (epoch, offset));
                connect["subs"][CHANNELS[channel].name] =
                    json!({"recover": true, "epoch": epoch.to_string(), "offset": offset});
            }
        }
        let mut lines = self.ask(Asked::Connect, "connect", &connect);
        // SDKs do not wait for the answer when they subscribe again.
        if own.is_empty() && around.net.percent(50) {
            for channel in self.channels.clone() {
                lines.push('\n');
                lines.push_str(&self.subscribe(channel, around));
            }
        }
        lines
    }

    fn subscribe(&mut self, channel: usize, around: &mut Around<'_>) -> String {
        let name = CHANNELS[channel].name;
        let mut subscribe = json!({"channel": name});
        let since = self.positions.get(&channel).copied();
        let since = since.filter(|_| around.net.percent(80));
        if let Some((epoch, offset)) = since {
            subscribe["recover"] = true.into();
            subscribe["epoch"] = epoch.to_string().into();
            subscribe["offset"] = offset.into();
        }
        if channel == PRIVATE {
            let token = token(&self.user, Some(name), Vec::new(), self.expiry(around));
            subscribe["token"] = token.into();
        }
        // One that is refused, because there is another, must not take its place.
        let link = self.link.as_mut().expect("it speaks");
        let other = link.tracks.get(&channel).copied();
        self.asks(channel, around);
        let link = self.link.as_mut().expect("it speaks");
        let track = link.tracks[&channel];
        if let Some(other) = other {
            link.tracks.insert(channel, other);
        }
        let asked = Asked::Subscribe(channel, track, since);
        self.ask(asked, "subscribe", &subscribe)
    }

    /// Does one thing of its own accord, or several in one frame.
    pub(crate) fn act(&mut self, around: &mut Around<'_>) {
        let speaks = |link: &Link| link.open && !link.over && !link.shut;
        if !self.kind.has_commands() || !self.link.as_ref().is_some_and(speaks) {
            return;
        }
        let waits = |link: &Link| !link.commands.open.is_empty() || !link.upstream.is_empty();
        if self.kind.is_emulated() && self.link.as_ref().is_some_and(waits) {
            return;
        }
        let mut lines = Vec::new();
        for _ in 0..around.net.pick(&[1, 1, 1, 3]) {
            lines.push(self.one_command(around));
        }
        let lines = lines.join("\n");
        note!(around.net, "{} says {lines}", self.who());
        self.speak(&lines, around);
    }

    fn one_command(&mut self, around: &mut Around<'_>) -> String {
        let channel = around.setup.draw_channel(false, around.net);
        let name = CHANNELS[channel].name;
        match around.net.below(100) {
            0..35 => {
                let link = self.link.as_ref().expect("it speaks");
                let of_it =
                    |asked: &Asked| matches!(asked, Asked::Subscribe(of, ..) if *of == channel);
                let pending = link.commands.open.values().any(of_it);
                let track = link.tracks.get(&channel);
                let active = track.is_some_and(|&track| around.witness.is_active(track));
                // Now and then it does not wait for the answer, and takes back what it asked.
                let again = around.net.percent(10);
                if (pending || active) && !again {
                    if around.net.percent(70) {
                        let of = json!({"channel": name});
                        return self.ask(Asked::Unsubscribe(channel), "unsubscribe", &of);
                    }
                    return self.ask(Asked::Ping, "ping", &json!({}));
                }
                self.subscribe(channel, around)
            }
            35..75 => {
                let n = around.witness.next_number();
                let data = payload::make(n, true, around.net);
                around.witness.sends(&[channel], &data, keeps(channel));
                let data = String::from_utf8(data).expect("JSON is text");
                let id = self.command(Asked::Publish(n));
                let name = Value::from(name);
                format!("{{\"id\":{id},\"publish\":{{\"channel\":{name},\"data\":{data}}}}}")
            }
            75..85 => {
                let mut history = json!({"channel": name, "limit": around.net.between(0, 10)});
                history["reverse"] = around.net.percent(30).into();
                if around.net.percent(30) {
                    history["limit"] = (-1).into();
                }
                self.ask(Asked::History(channel), "history", &history)
            }
            85..90 => {
                let link = self.link.as_ref().expect("it speaks");
                let stands = |track: &usize| {
                    around.witness.is_active(*track) && around.witness.has_begun(*track)
                };
                let track = link.tracks.get(&channel).copied().filter(stands);
                let of = json!({"channel": name});
                self.ask(Asked::Presence(channel, track), "presence", &of)
            }
            90..95 => self.ask(Asked::Ping, "ping", &json!({})),
            _ => self.ask(Asked::Refused, "rpc", &json!({"method": "m", "data": {}})),
        }
    }

    // ---- replies ----

    /// Takes one JSON object of the server's.
    pub(super) fn spoken(&mut self, words: &Value, around: &mut Around<'_>) {
        let is_ping = words.as_object().is_some_and(serde_json::Map::is_empty);
        let bidirectional = self.kind.has_commands();
        let Some(link) = self.link.as_mut() else {
            return;
        };
        if is_ping {
            if bidirectional && !self.mute {
                self.speak("{}", around);
            }
        } else if !bidirectional {
            self.push(words, around);
        } else if let Some(id) = words["id"].as_u64() {
            let asked = link.commands.open.remove(&(id as u32));
            let asked = asked.unwrap_or_else(|| panic!("answered twice or unasked: {words}"));
            if let Some(channel) = asked.joins_or_leaves() {
                let mut before = link.commands.open.range(..id as u32);
                let is_earlier = |(_, open): (_, &Asked)| open.joins_or_leaves() == Some(channel);
                assert!(!before.any(is_earlier), "out of order: {words}");
            }
            self.reply(asked, words, around);
        } else {
            self.push(&words["push"], around);
        }
    }

    fn reply(&mut self, asked: Asked, words: &Value, around: &mut Around<'_>) {
        let failed = words["error"]["code"].as_u64();
        let who = self.who();
        match asked {
            // Its token expired on the way.
            Asked::Connect if failed == Some(109) && !self.user.is_empty() => {
                self.link.as_mut().expect("it reads").over = true;
                self.leave(around);
            }
            Asked::Connect => {
                assert_eq!(failed, None, "{who}: connect: {words}");
                self.opened(&words["connect"], around);
            }
            Asked::Subscribe(channel, track, since) => {
                if failed.is_none() {
                    let link = self.link.as_mut().expect("it reads");
                    link.tracks.insert(channel, track);
                    self.begun(channel, track, since, &words["subscribe"], around);
                }
            }
            // Too much waited behind a subscribe.
            Asked::Unsubscribe(_) if failed == Some(111) => {}
            Asked::Unsubscribe(channel) => {
                assert_eq!(failed, None, "{who}: unsubscribe: {words}");
                let track = self.track(channel, around);
                around.witness.ends(track);
                around.witness.blurs(self.conn().expect("it reads"));
            }
            Asked::Publish(n) => around.witness.answered(n, failed.is_none()),
            Asked::History(channel) => self.history(channel, words, around),
            Asked::Presence(channel, track) => self.presence(channel, track, words, around),
            Asked::Ping => assert_eq!(words["ping"], json!({}), "{who}"),
            Asked::Refused => assert_eq!(failed, Some(108), "{who}: {words}"),
        }
    }

    /// The connection stands; `words` may name subscriptions that it has from the start.
    fn opened(&mut self, words: &Value, around: &mut Around<'_>) {
        let who = self.who();
        let link = self.link.as_mut().expect("it reads");
        assert!(!link.open, "{who}: first words come first, and once");
        link.open = true;
        for (known, name) in [
            (&mut link.id, "client"),
            (&mut link.session, "session"),
            (&mut link.node, "node"),
        ] {
            text(words, name).clone_into(known);
        }
        let since = std::mem::take(&mut link.since);
        for (name, sub) in words["subs"].as_object().into_iter().flatten() {
            let channel = around.witness.channel(name);
            let track = self.track(channel, around);
            self.begun(channel, track, since.get(&channel).copied(), sub, around);
        }
    }

    /// A subscription has begun: recovery is exact, or there is none.
    fn begun(
        &mut self,
        channel: usize,
        track: usize,
        since: Option<Place>,
        words: &Value,
        around: &mut Around<'_>,
    ) {
        let who = self.who();
        let name = CHANNELS[channel].name;
        let place = place_of(words);
        assert_eq!(place.is_some(), keeps(channel), "{who}: {name}: {words}");
        let none = Vec::new();
        let missed = words["publications"].as_array().unwrap_or(&none);
        let recovered = words["recovered"].as_bool().unwrap_or(false);
        let was_recovering = words["was_recovering"].as_bool().unwrap_or(false);
        assert_eq!(was_recovering, since.is_some(), "{who}: {name}: {words}");
        assert!(
            recovered || missed.is_empty(),
            "{who}: {name}: none of the gap"
        );
        let mut brought = Vec::new();
        let epoch = place.map(|(epoch, _)| epoch);
        for publication in missed {
            assert!(epoch.is_some(), "history has positions");
            brought.push(from_history(&who, channel, epoch, publication, around).0);
        }
        if let (Some(since), Some(to)) = (since, place) {
            let got = recovered.then_some(brought);
            around.witness.recovers(who, channel, since, to, got);
        }
        around
            .witness
            .begins(track, place.map_or(Start::Unknown, Start::At));
        match place {
            Some(place) => self.positions.insert(channel, place),
            None => self.positions.remove(&channel),
        };
    }

    /// Checks a presence answer: a client that is and stays subscribed must be listed.
    fn presence(
        &self,
        channel: usize,
        track: Option<usize>,
        words: &Value,
        around: &mut Around<'_>,
    ) {
        let who = self.who();
        let name = CHANNELS[channel].name;
        let failed = words["error"]["code"].as_u64();
        if !CHANNELS[channel].is_listed() {
            return assert_eq!(failed, Some(108), "{who}: {name}: {words}");
        }
        let link = self.link.as_ref().expect("it reads");
        let open = link.commands.open.values();
        let is_moving = { open }.any(|asked| asked.joins_or_leaves() == Some(channel));
        let stays = |track: usize| {
            link.tracks.get(&channel) == Some(&track) && around.witness.is_active(track)
        };
        let stays = track.is_some_and(stays) && !is_moving;
        if failed.is_some() {
            // It does not subscribe.
            let is_closed = CHANNELS[channel].private && !stays;
            return assert!(failed == Some(103) && is_closed, "{who}: {name}: {words}");
        }
        let there = words["presence"]["presence"].get(&link.id);
        let as_user = there.map(|info| text(info, "user"));
        if stays {
            assert_eq!(as_user, Some(&*self.user), "{who}: {name}: {words}");
            around
                .net
                .count("a client finds itself among those present");
        }
    }

    fn history(&self, channel: usize, words: &Value, around: &mut Around<'_>) {
        let who = self.who();
        let name = CHANNELS[channel].name;
        let failed = words["error"]["code"].as_u64();
        if !keeps(channel) {
            return assert_eq!(failed, Some(108), "{who}: {name}: {words}");
        }
        if CHANNELS[channel].private && failed.is_some() {
            // It does not subscribe.
            return assert_eq!(failed, Some(103), "{who}: {name}: {words}");
        }
        assert_eq!(failed, None, "{who}: {name}: {words}");
        let history = &words["history"];
        let epoch = place_of(history).map(|(epoch, _)| epoch);
        let none = Vec::new();
        let publications = history["publications"].as_array().unwrap_or(&none);
        assert!(publications.len() as u64 <= CHANNELS[channel].history.0);
        let mut before: Option<u64> = None;
        for publication in publications {
            let (_, offset) = from_history(&who, channel, epoch, publication, around);
            let next = before.is_none_or(|before| before.abs_diff(offset) == 1);
            assert!(next, "{who}: {name}: a page without holes: {words}");
            before = Some(offset);
        }
    }

    // ---- pushes ----

    fn push(&mut self, push: &Value, around: &mut Around<'_>) {
        let channel = push["channel"]
            .as_str()
            .map(|name| around.witness.channel(name));
        if let (Some(channel), publication @ Value::Object(_)) = (channel, &push["pub"]) {
            let track = self.track(channel, around);
            if !around.witness.has_begun(track) {
                // It was on its way to a subscription that the server ended before its answer.
                return;
            }
            let offset = publication["offset"].as_u64();
            let got = Got::Json(&publication["data"]);
            around.witness.gets(track, &got, offset);
            if let (Some(offset), Some(position)) = (offset, self.positions.get_mut(&channel)) {
                position.1 = offset;
            }
        } else if let (Some(channel), Value::Object(_)) = (channel, &push["unsubscribe"]) {
            let code = push["unsubscribe"]["code"].as_u64();
            assert!(matches!(code, Some(2000 | 2501)), "{push}");
            let track = self.track(channel, around);
            around.witness.ends(track);
            around.witness.blurs(self.conn().expect("it reads"));
        } else if let Some(dropped) = push["message"]["data"]["dropped"].as_u64() {
            let conn = self.conn().expect("it reads");
            around.witness.told_dropped(conn, dropped);
        } else if push["connect"].is_object() {
            self.opened(&push["connect"], around);
        } else if push["disconnect"].is_object() {
            self.disconnected(&push["disconnect"], around);
            // The last chunk follows, if there are chunks.
            self.link.as_mut().expect("it reads").over =
                matches!(self.kind, Kind::UniSse | Kind::Events);
        } else {
            let text = text(push, "type");
            panic!("a push that nobody knows: {text} {push}");
        }
    }
}

/// Shows the witness a publication that came from history; gives its number and its offset.
fn from_history(
    who: &str,
    channel: usize,
    epoch: Option<Epoch>,
    publication: &Value,
    around: &mut Around<'_>,
) -> (u64, u64) {
    let got = Got::Json(&publication["data"]);
    let n = around.witness.checks(who, channel, &got);
    let offset = publication["offset"].as_u64();
    let offset = offset.expect("history has offsets");
    if let Some(epoch) = epoch {
        around.witness.stands(n, channel, (epoch, offset));
    }
    (n, offset)
}
