//! The Centrifugo protocol, both ways and one way: commands, replies and pushes.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use throng_types::{ConnId, Epoch, Position};

use super::connect::frame;
use super::stream::{check_position, position_of, text};
use super::{Around, Client, Link, Protocol};
use crate::payload::{self, Got};
use crate::setup::token;

type Since = Option<(Epoch, u64)>;

/// What a command asked for.
#[derive(Debug)]
enum Asked {
    Connect,
    Subscribe(usize, Since),
    /// A subscribe that was taken back: its answer may come late, but begins nothing.
    TakenBack(usize),
    Unsubscribe(usize),
    Publish(usize, u64),
    History(usize),
    Ping,
    /// Something that is not offered: it must be refused.
    Refused,
}

/// The commands of one connection.
#[derive(Debug, Default)]
pub(super) struct Commands {
    last_id: u32,
    open: BTreeMap<u32, Asked>,
    /// The public id that the server gave.
    client: String,
}

impl Commands {
    fn next(&mut self, asked: Asked) -> u32 {
        self.last_id += 1;
        self.open.insert(self.last_id, asked);
        self.last_id
    }

    pub(super) fn settle(&self, number: usize) {
        assert!(
            self.open.is_empty(),
            "client {number}: never answered: {:?}",
            self.open
        );
    }
}

impl Client {
    // ---- commands ----

    pub(super) fn connect_command(
        &mut self,
        link: &mut Link,
        resume: bool,
        around: &mut Around<'_>,
    ) {
        let mut connect = json!({});
        let own: Vec<usize> = if !self.user.is_empty() && around.rng.percent(40) {
            self.channels.clone()
        } else {
            Vec::new()
        };
        if !self.user.is_empty() {
            let names = own
                .iter()
                .map(|&channel| around.witness.name(channel).to_owned());
            let names: Vec<String> = names.collect();
            let names = names.iter().map(String::as_str).collect();
            connect["token"] = token(&self.user, None, names, self.expiry(around)).into();
        }
        for &channel in own.iter().filter(|_| resume) {
            if let Some(&(epoch, offset)) = self.positions.get(&channel) {
                link.since.insert(channel, (epoch, offset));
                connect["subs"][around.witness.name(channel)] =
                    json!({"recover": true, "epoch": epoch.to_string(), "offset": offset});
            }
        }
        let id = link.commands.next(Asked::Connect);
        let mut lines = json!({"id": id, "connect": connect}).to_string();
        // SDKs do not wait for the answer when they subscribe again.
        if own.is_empty() && around.rng.percent(50) {
            for &channel in &self.channels {
                lines.push('\n');
                lines.push_str(&self.subscribe(link, channel, around));
            }
        }
        let frame = frame(lines.as_bytes(), around);
        around.net.pipe(link.pipe).up.extend(frame);
    }

    fn subscribe(&self, link: &mut Link, channel: usize, around: &mut Around<'_>) -> String {
        link.feed.asks(channel, around.witness);
        let mut subscribe = json!({"channel": around.witness.name(channel)});
        let since = self.positions.get(&channel).copied();
        let since = since.filter(|_| around.rng.percent(80));
        if let Some((epoch, offset)) = since {
            subscribe["recover"] = true.into();
            subscribe["epoch"] = epoch.to_string().into();
            subscribe["offset"] = offset.into();
        }
        if around.witness.options(channel).subscribe_token {
            let name = around.witness.name(channel).to_owned();
            let token = token(&self.user, Some(&name), Vec::new(), self.expiry(around));
            subscribe["token"] = token.into();
        }
        let id = link.commands.next(Asked::Subscribe(channel, since));
        json!({"id": id, "subscribe": subscribe}).to_string()
    }

    /// Does one thing of its own accord, or several in one frame.
    pub(crate) fn act(&mut self, around: &mut Around<'_>) {
        if self.protocol != Protocol::Centrifuge {
            return;
        }
        let Some(mut link) = self.link.take() else {
            return;
        };
        if link.open && !link.over && !around.net.pipe(link.pipe).client_fin {
            let mut lines = Vec::new();
            for _ in 0..around.rng.pick(&[1, 1, 1, 3]) {
                lines.push(self.command(&mut link, around));
            }
            let lines = lines.join("\n");
            around
                .witness
                .note(|| format!("client {} says {lines}", self.number));
            let frame = frame(lines.as_bytes(), around);
            let pipe = around.net.pipe(link.pipe);
            if !pipe.server_gone {
                pipe.up.extend(frame);
            }
        }
        self.link = Some(link);
    }

    fn command(&mut self, link: &mut Link, around: &mut Around<'_>) -> String {
        let channel = around.witness.draw_channel(false, around.rng);
        let name = around.witness.name(channel).to_owned();
        let pick = around.rng.below(100);
        match pick {
            0..35 => {
                let asked =
                    |asked: &Asked| matches!(asked, Asked::Subscribe(of, _) if *of == channel);
                let pending = link.commands.open.values().any(asked);
                let known = pending || link.feed.is_active(channel);
                if known && around.rng.percent(70) {
                    let id = link.commands.next(Asked::Unsubscribe(channel));
                    return json!({"id": id, "unsubscribe": {"channel": name}}).to_string();
                }
                self.subscribe(link, channel, around)
            }
            35..75 => {
                let n = around.witness.number();
                let data = payload::make(n, true, around.rng);
                let data = String::from_utf8(data).expect("JSON is text");
                let id = link.commands.next(Asked::Publish(channel, n));
                let name = Value::from(name);
                format!("{{\"id\":{id},\"publish\":{{\"channel\":{name},\"data\":{data}}}}}")
            }
            75..85 => {
                let id = link.commands.next(Asked::History(channel));
                let mut history = json!({"channel": name, "limit": around.rng.between(0, 10)});
                history["reverse"] = around.rng.percent(30).into();
                if around.rng.percent(30) {
                    history["limit"] = (-1).into();
                }
                json!({"id": id, "history": history}).to_string()
            }
            85..95 => {
                let id = link.commands.next(Asked::Ping);
                json!({"id": id, "ping": {}}).to_string()
            }
            _ => {
                let id = link.commands.next(Asked::Refused);
                json!({"id": id, "rpc": {"method": "m", "data": {}}}).to_string()
            }
        }
    }

    // ---- replies ----

    /// Takes one JSON object of the server's.
    pub(super) fn spoken(&mut self, words: &Value, around: &mut Around<'_>) {
        let is_ping = words.as_object().is_some_and(serde_json::Map::is_empty);
        let bidirectional = self.protocol == Protocol::Centrifuge;
        let Some(link) = self.link.as_mut() else {
            return;
        };
        if is_ping {
            if bidirectional && !self.mute {
                let pong = frame(b"{}", around);
                self.write(&pong, around);
            }
        } else if !bidirectional {
            self.push(words, around);
        } else if let Some(id) = words["id"].as_u64() {
            let asked = link.commands.open.remove(&(id as u32));
            let asked = asked.unwrap_or_else(|| panic!("answered twice or unasked: {words}"));
            self.reply(asked, words, around);
        } else {
            self.push(&words["push"], around);
        }
    }

    fn reply(&mut self, asked: Asked, words: &Value, around: &mut Around<'_>) {
        let Some(link) = self.link.as_mut() else {
            return;
        };
        let failed = words["error"]["code"].as_u64();
        match asked {
            // Its token expired on the way.
            Asked::Connect if failed == Some(109) && !self.user.is_empty() => {
                link.over = true;
                self.leave(around);
            }
            Asked::Connect => {
                assert_eq!(failed, None, "connect: {words}");
                self.opened(&words["connect"], around);
            }
            Asked::Subscribe(channel, since) => {
                let conn = link.conn.expect("accepted");
                if failed.is_none() {
                    self.begun(conn, channel, since, &words["subscribe"], around);
                }
            }
            Asked::TakenBack(channel) => {
                if failed.is_none() {
                    let conn = link.conn.expect("accepted");
                    around
                        .witness
                        .start(conn, channel)
                        .expect("it was subscribed for a moment");
                }
            }
            Asked::Unsubscribe(channel) => {
                assert_eq!(failed, None, "unsubscribe: {words}");
                link.feed.end(channel);
                let id = words["id"].as_u64().unwrap_or(0);
                for (_, asked) in link
                    .commands
                    .open
                    .iter_mut()
                    .filter(|(of, _)| u64::from(**of) < id)
                {
                    if matches!(asked, Asked::Subscribe(of, _) if *of == channel) {
                        *asked = Asked::TakenBack(channel);
                    }
                }
            }
            Asked::Publish(channel, n) => {
                let accepted = around.witness.place(channel, n).is_some();
                assert_eq!(accepted, failed.is_none(), "n={n}: {words}");
            }
            Asked::History(channel) => self.history(channel, words, around),
            Asked::Ping => assert_eq!(words["ping"], json!({})),
            Asked::Refused => assert_eq!(failed, Some(108), "{words}"),
        }
    }

    /// The connection stands; `words` may name subscriptions that it has from the start.
    fn opened(&mut self, words: &Value, around: &mut Around<'_>) {
        let Some(link) = self.link.as_mut() else {
            return;
        };
        assert!(!link.open, "first words come first, and once");
        link.open = true;
        link.commands.client = text(words, "client").to_owned();
        let conn = link.conn.expect("accepted");
        let since = std::mem::take(&mut link.since);
        for (name, sub) in words["subs"].as_object().into_iter().flatten() {
            let channel = around.witness.channel(name);
            self.begun(conn, channel, since.get(&channel).copied(), sub, around);
        }
    }

    /// A subscription has begun: recovery is exact, or there is none.
    fn begun(
        &mut self,
        conn: ConnId,
        channel: usize,
        since: Since,
        words: &Value,
        around: &mut Around<'_>,
    ) {
        let Some(link) = self.link.as_mut() else {
            return;
        };
        let witness = &mut *around.witness;
        let name = witness.name(channel).to_owned();
        let start = witness
            .start(conn, channel)
            .unwrap_or_else(|| panic!("{name}: never subscribed"));
        let position = position_of(words);
        let told = position.map(|(epoch, offset)| Position { epoch, offset });
        check_position(channel, start, told, witness);
        link.feed.begin(channel, start, start, witness);
        let none = Vec::new();
        let missed = words["publications"].as_array().unwrap_or(&none);
        let recovered = words["recovered"].as_bool().unwrap_or(false);
        let was_recovering = words["was_recovering"].as_bool().unwrap_or(false);
        assert_eq!(was_recovering, since.is_some(), "{name}: {words}");
        if recovered {
            let (Some((_, after)), Some((epoch, to))) = (since, position) else {
                panic!("{name}: nothing was to be recovered");
            };
            let expected = witness.numbers_between(channel, epoch, after, to);
            assert_eq!(
                missed.len(),
                expected.len(),
                "{name}: exactly what was missed"
            );
            for ((publication, n), offset) in missed.iter().zip(expected).zip(after + 1..) {
                let place = witness.place(channel, n).expect("accepted");
                let told = publication["offset"].as_u64();
                assert_eq!(told, Some(offset), "{name}: in order, without a gap");
                witness.check(channel, place, &Got::Json(&publication["data"]), Some(told));
                witness.received += 1;
            }
        } else {
            assert!(missed.is_empty(), "{name}: none of the gap");
        }
        match position {
            Some(position) => self.positions.insert(channel, position),
            None => self.positions.remove(&channel),
        };
    }

    fn history(&mut self, channel: usize, words: &Value, around: &mut Around<'_>) {
        let witness = &*around.witness;
        let name = witness.name(channel);
        let options = witness.options(channel);
        let failed = words["error"]["code"].as_u64();
        if options.subscribe_token {
            return assert_eq!(failed, Some(103), "{name}: {words}");
        }
        if !options.retention.keeps() {
            return assert_eq!(failed, Some(108), "{name}: {words}");
        }
        assert_eq!(failed, None, "{name}: {words}");
        let history = &words["history"];
        let none = Vec::new();
        let publications = history["publications"].as_array().unwrap_or(&none);
        assert!(publications.len() <= options.retention.publications_max as usize);
        let mut before: Option<u64> = None;
        for publication in publications {
            let got = Got::Json(&publication["data"]);
            let n = payload::number_of(&got).expect("data of ours");
            let place = witness.place(channel, n).expect("accepted");
            let offset = publication["offset"].as_u64();
            witness.check(channel, place, &got, Some(offset));
            let offset = offset.expect("history has positions");
            let next = before.is_none_or(|before| before.abs_diff(offset) == 1);
            assert!(next, "{name}: a page without holes: {words}");
            before = Some(offset);
        }
    }

    // ---- pushes ----

    fn push(&mut self, push: &Value, around: &mut Around<'_>) {
        let Some(link) = self.link.as_mut() else {
            return;
        };
        let channel = push["channel"]
            .as_str()
            .map(|name| around.witness.channel(name));
        if let (Some(channel), publication @ Value::Object(_)) = (channel, &push["pub"]) {
            if link.feed.is_stray(channel) {
                return;
            }
            let offset = publication["offset"].as_u64();
            let got = Got::Json(&publication["data"]);
            link.feed
                .publication(channel, &got, Some(offset), around.witness);
            if let (Some(offset), Some(position)) = (offset, self.positions.get_mut(&channel)) {
                position.1 = offset;
            }
        } else if let (Some(channel), Value::Object(_)) = (channel, &push["unsubscribe"]) {
            let code = push["unsubscribe"]["code"].as_u64();
            assert!(matches!(code, Some(2000 | 2501)), "{push}");
            if !link.open {
                link.feed.end_early(channel);
                // If it had begun, the first words will not say so.
                let conn = link.conn.expect("accepted");
                around.witness.start(conn, channel);
            }
            link.feed.end(channel);
        } else if let Some(dropped) = push["message"]["data"]["dropped"].as_u64() {
            link.feed.told += dropped;
        } else if push["connect"].is_object() {
            self.opened(&push["connect"], around);
        } else if push["disconnect"].is_object() {
            // The last chunk follows, if there are chunks.
            link.over = self.protocol == Protocol::UniSse;
        } else {
            panic!("a push that nobody knows: {push}");
        }
    }
}
