//! What another process hands over to this one, and what this one hands over.

use throng_broker::{Moving, Presence};
use throng_remote::agent::{AUDIT_SOON_MS, Channel};
use throng_types::ChannelName;

use crate::api;
use crate::early::{Agent, Early};
use crate::flight::Flight;
use crate::names::token;
use crate::node::Node;
use crate::rows::{Row, body};

impl Node {
    /// Takes what a shard says of a hand-over.
    pub(crate) fn move_over(&mut self, lane: u8, moving: Moving) {
        match moving {
            Moving::Expect(name) => {
                self.desk.arrival.expect();
                self.expect(lane, &name);
            }
            Moving::Cut(cut) => self.desk.arrival.expected(lane, cut),
            Moving::Resume(name, from) => {
                self.expect(lane, &name);
                if let Some(agent) = self.channels.get_mut(&name) {
                    agent.channel.resume(lane, from);
                }
            }
            Moving::Resumed => {
                let shards = self.desk.shards();
                if self.desk.arrival.resumed(lane, shards) {
                    self.all_arrived();
                }
            }
            Moving::Take(channel, presence) => self.take_somebody(channel, presence),
            Moving::Give(channel, presence) => self.give_somebody(channel, &presence),
        }
        if self.link.is_none() {
            self.desk.arrival.give_up_cut();
        }
    }

    /// A shard has subscribers of a channel who come from another process.
    fn expect(&mut self, lane: u8, name: &ChannelName) {
        let keeps = self.keeps(name);
        let serial = self.next_serial();
        let agent = self.channels.get_or_insert(name, || Agent {
            channel: Channel::new(serial),
            sid: 0,
            early: Early::default(),
        });
        agent.channel.expect(lane, keeps);
        if agent.channel.serial != serial {
            return;
        }
        if keeps {
            let is_clustered = self.link.is_some_and(|link| link.is_clustered);
            self.audits
                .add(name, serial, self.desk.now_ms, is_clustered);
        }
        if self.link.is_some() {
            self.again.push_back(name.clone());
            self.expected_at_ms = self.desk.now_ms;
        }
    }

    /// All shards have said up to where their subscribers have everything.
    fn all_arrived(&mut self) {
        let names: Vec<ChannelName> = self.channels.iter().map(|(name, _)| name.clone()).collect();
        for name in names {
            let agent = self.channels.get_mut(&name);
            if agent.is_some_and(|agent| agent.channel.arrive()) && self.link.is_some() {
                self.again.push_back(name);
            }
        }
    }

    /// Makes the cut between the other process and this one, when this one hears all channels. In a
    /// cluster of servers the others learn of its subscriptions a little later.
    pub(crate) fn make_cut(&mut self) {
        let is_ready = self.again.is_empty() && self.desk.lanes_are_taken();
        if !is_ready || !self.desk.arrival.is_cut_due() {
            return;
        }
        let is_clustered = self.link.is_some_and(|link| link.is_clustered);
        if is_clustered && self.desk.now_ms < self.expected_at_ms + AUDIT_SOON_MS {
            return;
        }
        let shards = self.desk.shards();
        if let Some(cut) = self.desk.arrival.make_cut(shards) {
            let everybody = self.names.everybody();
            self.say(&everybody, cut.as_bytes());
        }
    }

    // ---- who is present ----

    /// Somebody is present who came in another process.
    fn take_somebody(&mut self, channel: ChannelName, presence: Presence) {
        let serial = self.next_serial();
        let client = presence.who.client.clone();
        let row = Row {
            presence,
            serial,
            is_stored: false,
            is_in: true,
            is_gone: false,
        };
        let key = (channel, client);
        self.rows.entry(key.clone()).or_default().push(row);
        if self.link.is_some() {
            self.store_taken(&key.0, &key.1);
        }
    }

    /// Stores the rows of those that came from another process and are not stored under the name of
    /// this one.
    pub(crate) fn store_all_taken(&mut self) {
        let keys: Vec<(ChannelName, Box<str>)> = self.rows.keys().cloned().collect();
        for (channel, client) in keys {
            self.store_taken(&channel, &client);
        }
    }

    fn store_taken(&mut self, channel: &ChannelName, client: &str) {
        let rows = self.rows.get(&(channel.clone(), client.into()));
        let is_taken =
            |row: &&Row| row.presence.is_listed && row.is_in && !row.is_gone && !row.is_stored;
        let row = rows.and_then(|rows| rows.iter().find(is_taken));
        if let Some((presence, serial)) = row.map(|row| (row.presence.clone(), row.serial)) {
            let (subject, body) = (self.member(channel, &presence), body(channel, &presence));
            let flight = Flight::RowTaken(channel.clone(), Box::new(presence), serial);
            self.ask(flight, &subject, &[], &body);
        }
    }

    /// A row of somebody who came from another process is stored: what that one has stored goes,
    /// and also what is here if they have left meanwhile.
    pub(crate) fn taken(
        &mut self,
        channel: &ChannelName,
        presence: &Presence,
        serial: u64,
        payload: &[u8],
    ) {
        let Ok(seq) = api::stored(payload) else {
            return;
        };
        let who = &presence.who;
        let key = (channel.clone(), who.client.clone());
        let rows = self.rows.get_mut(&key);
        match rows.and_then(|rows| rows.iter_mut().find(|row| row.serial == serial)) {
            Some(row) => row.is_stored = true,
            None => self.unlist(channel, presence),
        }
        let name = format!("{}.{}", token(&who.user), token(&who.client));
        let theirs = self.names.member(&token(channel.as_str()), "*", &name);
        let stream = self.names.stream("members");
        let body = format!("{{\"filter\":\"{theirs}\",\"seq\":{seq}}}");
        self.api(Flight::Nothing, "STREAM.PURGE", &stream, &body);
    }

    /// Somebody is present in another process, which has a row of its own.
    fn give_somebody(&mut self, channel: ChannelName, presence: &Presence) {
        let key = (channel, presence.who.client.clone());
        if let Some(rows) = self.rows.get_mut(&key)
            && let Some(at) = rows.iter().position(|row| !row.is_gone)
        {
            rows.remove(at);
            if rows.is_empty() {
                self.rows.remove(&key);
            }
        }
    }
}
