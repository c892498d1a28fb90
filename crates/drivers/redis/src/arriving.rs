//! What another process hands over to this one, and what this one hands over.

use throng_broker::{Moving, Presence};
use throng_remote::agent::Channel;
use throng_types::ChannelName;

use crate::flight::Flight;
use crate::node::Node;

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
                if let Some(channel) = self.channels.get_mut(&name) {
                    channel.resume(lane, from);
                }
            }
            Moving::Resumed => {
                let shards = self.desk.shards();
                if self.desk.arrival.resumed(lane, shards) {
                    self.all_arrived();
                }
            }
            Moving::Take(channel, presence) => self.take_somebody(channel, presence),
            Moving::Give(channel, presence) => self.forget_row(&channel, &presence.who.client),
        }
        if self.link.is_none() {
            self.desk.arrival.give_up_cut();
        }
    }

    /// A shard has subscribers of a channel who come from another process.
    fn expect(&mut self, lane: u8, name: &ChannelName) {
        let keeps = self.desk.options.of(name).retention.keeps();
        self.serial += 1;
        let serial = self.serial;
        let channel = { &mut self.channels }.get_or_insert(name, || Channel::new(serial));
        channel.expect(lane, keeps);
        if channel.serial != serial {
            return;
        }
        if keeps {
            self.audits.add(name, serial, self.desk.now_ms, false);
        }
        if self.link.is_some() {
            self.again.push_back(name.clone());
        }
    }

    /// All shards have said up to where their subscribers have everything.
    fn all_arrived(&mut self) {
        let names: Vec<ChannelName> = self.channels.iter().map(|(name, _)| name.clone()).collect();
        for name in names {
            if { self.channels.get_mut(&name) }.is_some_and(Channel::arrive) && self.link.is_some()
            {
                self.again.push_back(name);
            }
        }
    }

    /// Somebody is present who came in another process.
    fn take_somebody(&mut self, channel: ChannelName, presence: Presence) {
        if presence.is_listed {
            let key = (channel, presence.who.client.clone());
            self.rows.insert(key.clone(), presence);
            if self.link.is_some() {
                self.rows_again.push_back(key);
            }
        }
    }

    /// Makes the cut between the other process and this one, when this one hears all channels.
    pub(crate) fn make_cut(&mut self) {
        let is_ready = self.again.is_empty() && self.desk.lanes_are_taken();
        if !is_ready || !self.desk.arrival.is_cut_due() {
            return;
        }
        let shards = self.desk.shards();
        if let Some(cut) = self.desk.arrival.make_cut(shards) {
            let publish = self.target.verbs().publish.as_bytes();
            let everybody = self.keys.everybody();
            self.send(
                Flight::Nothing,
                &[publish, everybody.as_bytes(), cut.as_bytes()],
            );
        }
    }
}
