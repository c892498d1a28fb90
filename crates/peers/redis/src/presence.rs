//! Presence: members of this node, and the removal of those of nodes that died.
//!
//! A member is a row in Redis with the incarnation of its node. An incarnation lasts as long as a
//! connection to Redis and has a lease of [`LEASE_MS`], which the node renews. With a new
//! connection all rows are written again under a new incarnation. A node that finds an incarnation
//! without a lease removes its rows and announces each: so a node that dies leaves its members for
//! at most [`LEASE_MS`] and five seconds, and the time that the sweep takes.
//!
//! Rule for "full": rows are at most one for each subscription of this node.

use std::ops::Bound::{Excluded, Unbounded};

use redis::Value;
use throng_broker::{Announced, ChannelMember};
use throng_redis_link::value;
use throng_remote::{BrokerFault, FLIGHTS_MAX, LEASE_MS, blob};
use throng_types::ChannelName;

use crate::command::Script;
use crate::node::Flight;
use crate::node::Redis;

/// Time for one step of a sweep before another node may take it over, in milliseconds.
const SWEEPER_MS: &[u8] = b"10000";
/// Channels in one step of a sweep.
const STEP: &[u8] = b"100";

impl Redis {
    pub(crate) fn list(&mut self, channel: &ChannelName, presence: &ChannelMember) {
        if presence.is_listed {
            let key = (channel.clone(), presence.who.client.clone());
            self.rows.insert(key, presence.clone());
            self.write_row(channel, presence, false);
        }
    }

    fn write_row(&mut self, channel: &ChannelName, presence: &ChannelMember, again: bool) {
        let incarnation = self.incarnation().to_owned();
        let user = &presence.who.user;
        let announced = presence.announced as u8;
        let mut row = format!("{incarnation}{announced}{:08}{user}", user.len()).into_bytes();
        row.extend_from_slice(&blob::of_somebody(&presence.who));
        let (members, users) = (self.keys.members(channel), self.keys.users(channel));
        let told = self.keys.told(channel);
        let (places, name) = (self.keys.places(&incarnation), self.keys.channel(channel));
        let again: &[u8] = if again { b"1" } else { b"0" };
        let client = presence.who.client.as_bytes();
        let args = [client, &row, again, channel.as_str().as_bytes()];
        let lease = format!("{}{incarnation}", self.keys.leases());
        let keys = [&*members, &*users, &*told, &*places, &*name, &*lease];
        self.call(Flight::Row, Script::Come, &keys, &args);
    }

    /// Announces a member who has come, or its user, after the reply to its own subscribe.
    pub(crate) fn tell_joined(&mut self, channel: &ChannelName, presence: &ChannelMember) {
        let name = self.keys.channel(channel);
        let mut message = format!("j   {} ", self.core.io.unix_ms).into_bytes();
        message.extend_from_slice(&blob::of_somebody(&presence.who));
        match presence.announced {
            Announced::Nothing => {}
            Announced::Connections => self.tell(&name, &message),
            Announced::Users => {
                let keys = [&*self.keys.told(channel), &*name];
                let args = [presence.who.user.as_bytes(), &message];
                self.call(Flight::Row, Script::Tell, &keys, &args);
            }
        }
    }

    /// Takes a member who has left out of the list.
    pub(crate) fn unlist(&mut self, channel: &ChannelName, presence: &ChannelMember) {
        let client = &presence.who.client;
        let incarnation = self.incarnation().to_owned();
        let (members, users) = (self.keys.members(channel), self.keys.users(channel));
        let (places, there) = (self.keys.places(&incarnation), self.keys.channel(channel));
        let from = (channel.clone(), Box::from(""));
        let next = self.rows.range((Excluded(from), Unbounded)).next();
        let is_last = next.is_none_or(|((theirs, _), _)| theirs != channel);
        let last: &[u8] = if is_last { b"1" } else { b"0" };
        let announced = (presence.announced as u8).to_string();
        let user_told = self.keys.told(channel);
        let (who, told) = (client.as_bytes(), blob::of_somebody(&presence.who));
        let (node, name) = (incarnation.as_bytes(), channel.as_str().as_bytes());
        let args = [who, node, announced.as_bytes(), &told, last, name];
        let keys = [&*members, &*users, &*user_told, &*there, &*places];
        self.call(Flight::Row, Script::Quit, &keys, &args);
    }

    /// Forgets the row of a client. False if there is none.
    pub(crate) fn forget_row(&mut self, channel: &ChannelName, client: &str) -> bool {
        let key = (channel.clone(), Box::from(client));
        self.rows.remove(&key).is_some()
    }

    // ---- nodes ----

    /// Members are written again, under this node's new name, as far as there is room.
    pub(crate) fn come_again(&mut self) {
        while self.flights.len() < FLIGHTS_MAX / 2
            && let Some(key) = self.rows_again.pop_front()
        {
            if let Some(presence) = self.rows.get(&key).cloned() {
                self.write_row(&key.0, &presence, true);
            }
        }
        if self.rows_again.is_empty()
            && let Some(before) = self.incarnation_before.take()
        {
            // What was still said under the name before counts no more.
            let lease = format!("{}{before}", self.keys.leases());
            self.send(Flight::Nothing, &[b"DEL", lease.as_bytes()]);
        }
    }

    /// Renews the lease, and says once more that this node may have members: what was said before
    /// may have been refused, and a node whose lease had ended may have been swept after.
    pub(crate) fn set_lease(&mut self) {
        let (nodes, incarnation) = (self.keys.nodes(), self.incarnation().to_owned());
        let parts = [b"SADD", nodes.as_bytes(), incarnation.as_bytes()];
        self.send(Flight::Nothing, &parts);
        let lease = format!("{}{incarnation}", self.keys.leases());
        let lease_ms = LEASE_MS.to_string();
        let parts = [b"SET", lease.as_bytes(), b"1", b"PX", lease_ms.as_bytes()];
        self.send(Flight::Leased, &parts);
    }

    /// The lease is renewed, so Redis takes writes.
    ///
    /// # Errors
    /// The list of members may be wrong, since some were not written while it took none, or since
    /// the lease had ended and others may have removed them: a new connection writes all again
    /// under another name.
    pub(crate) fn leased(&mut self) -> Result<(), BrokerFault> {
        let before_ms = self.leased_at_ms.replace(self.core.io.now_ms);
        if !self.core.io.is_refusing() {
            return Ok(());
        }
        self.core.io.set_refusing(false);
        tracing::info!("Redis takes writes again");
        let has_ended = before_ms.is_none_or(|at_ms| self.core.io.now_ms >= at_ms + LEASE_MS);
        if self.rows_missed || has_ended && !self.rows.is_empty() {
            let fault = "members could not be written while it refused writes";
            return Err(BrokerFault(fault.to_owned()));
        }
        Ok(())
    }

    pub(crate) fn nodes(&mut self, value: &Value) -> bool {
        let own = self.incarnation().to_owned();
        let Some(nodes) = value::list(value) else {
            return false;
        };
        for node in nodes
            .iter()
            .filter_map(value::text)
            .filter(|node| *node != own)
        {
            let lease = format!("{}{node}", self.keys.leases());
            self.send(
                Flight::Lives(node.to_owned()),
                &[b"EXISTS", lease.as_bytes()],
            );
        }
        true
    }

    pub(crate) fn lives(&mut self, incarnation: String, value: &Value) -> bool {
        let Some(lives) = value::number(value) else {
            return false;
        };
        if lives == 0 {
            let sweeper = self.keys.sweeper(&incarnation);
            let parts = [b"SET", sweeper.as_bytes(), b"1", b"NX", b"PX", SWEEPER_MS];
            self.send(Flight::MaySweep(incarnation), &parts);
        }
        true
    }

    pub(crate) fn may_sweep(&mut self, incarnation: String, value: &Value) -> bool {
        if value::text(value) == Some("OK") {
            self.next_places(incarnation);
        }
        true
    }

    pub(crate) fn next_places(&mut self, incarnation: String) {
        let places = self.keys.places(&incarnation);
        let parts = [b"SRANDMEMBER", places.as_bytes(), STEP];
        self.send(Flight::Places(incarnation), &parts);
    }

    /// Removes the members of a node that died from some channels. It goes on when Redis has done
    /// so: where it refused, this node or another one begins again when [`SWEEPER_MS`] are over.
    pub(crate) fn sweep(&mut self, incarnation: &str, value: &Value) -> bool {
        let Some(found) = value::list(value) else {
            return false;
        };
        let places = self.keys.places(incarnation);
        if found.is_empty() {
            tracing::info!(incarnation, "the members of a node that died are removed");
            let nodes = self.keys.nodes();
            let parts = [b"SREM", nodes.as_bytes(), incarnation.as_bytes()];
            self.send(Flight::Nothing, &parts);
            return true;
        }
        let sweeper = self.keys.sweeper(incarnation);
        self.send(
            Flight::Nothing,
            &[b"PEXPIRE", sweeper.as_bytes(), SWEEPER_MS],
        );
        let names = found.iter().filter_map(value::text);
        let channels = names.filter_map(|name| ChannelName::with_bound(name, usize::MAX).ok());
        let mut channels = channels.peekable();
        while let Some(channel) = channels.next() {
            let (members, users) = (self.keys.members(&channel), self.keys.users(&channel));
            let (told, there) = (self.keys.told(&channel), self.keys.channel(&channel));
            let keys = [&*members, &*users, &*told, &*there, &*places];
            let args = [incarnation.as_bytes(), channel.as_str().as_bytes()];
            let flight = match channels.peek() {
                Some(_) => Flight::Nothing,
                None => Flight::Swept(incarnation.to_owned()),
            };
            self.call(flight, Script::Sweep, &keys, &args);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use throng_broker::{Announced, Request, Ticket};
    use throng_remote::{Node as _, NodeIo, RemoteOptions, Verbs as _};
    use throng_types::Publisher;

    use super::*;
    use crate::node::RedisServer;
    use crate::options::Target;

    fn node() -> Redis {
        let target = Target::new("redis://a").expect("a URL");
        let io = NodeIo::without_shards(RemoteOptions::for_tests());
        Redis::new(io, target)
    }

    fn up(node: &mut Redis) {
        node.connected(RedisServer {
            process: "p".to_owned(),
            line: "l".to_owned(),
            digests: Script::ALL.map(|script| format!("{script:?}")).to_vec(),
            incarnation: "i".repeat(16),
        });
    }

    /// Which of these words are in the commands that the node has written since.
    fn said<const N: usize>(node: &mut Redis, words: [&str; N]) -> [bool; N] {
        let out = std::mem::take(&mut node.core.io.out);
        words.map(|word| out.windows(word.len()).any(|it| it == word.as_bytes()))
    }

    fn somebody() -> ChannelMember {
        let who = Publisher {
            client: "c".into(),
            user: "u".into(),
            conn_info: None,
            chan_info: None,
        };
        ChannelMember {
            who: Arc::new(who),
            is_listed: true,
            announced: Announced::Nothing,
        }
    }

    /// Otherwise nobody looks for its rows where Redis had refused its name, or where others have
    /// swept after it because its lease had ended.
    #[test]
    fn a_node_says_its_name_with_each_lease() {
        let mut node = node();
        up(&mut node);
        for _ in 0..2 {
            let words = ["SADD", "lease", "\r\n$2\r\nPX\r\n$5\r\n15000\r\n"];
            assert_eq!(said(&mut node, words), [true; 3]);
            node.renew_lease();
        }
    }

    /// A channel is forgotten by the script that removes the rows, which knows whether any is left;
    /// while Redis refuses that, a sweep does not go on.
    #[test]
    fn a_channel_whose_rows_are_not_removed_is_not_forgotten() {
        let mut node = node();
        up(&mut node);
        let channel = ChannelName::new("a").expect("a name");
        let presence = somebody();
        node.list(&channel, &presence);
        said(&mut node, []);
        node.request(0, Request::Quit { channel, presence });
        assert_eq!(said(&mut node, ["Quit", "SREM"]), [true, false]);

        let value = |text: &[u8]| redis::parse_redis_value(text).expect("RESP");
        for (answer, goes_on) in [
            (b"-NOREPLICAS Not enough\r\n".as_slice(), false),
            (b":1\r\n", true),
        ] {
            node.flights.clear();
            assert!(node.sweep("dead", &value(b"*2\r\n$1\r\na\r\n$1\r\nb\r\n")));
            let words = ["Sweep", "SREM", "SRANDMEMBER"];
            assert_eq!(said(&mut node, words), [true, false, false]);
            for _ in 0..node.flights.len() {
                node.message(value(answer)).expect("good");
            }
            assert_eq!(said(&mut node, words), [false, false, goes_on]);
        }
    }

    #[test]
    fn a_client_that_left_before_its_answer_was_lost_does_not_come_again() {
        for leaves in [false, true] {
            let mut node = node();
            let lists = |node: &mut Redis| said(node, ["Come"]) == [true];
            let channel = ChannelName::new("a").expect("a name");
            let presence = somebody();
            up(&mut node);
            let subscribe = Request::Subscribe {
                ticket: Ticket(1),
                channel: channel.clone(),
                since: None,
                presence: Some(presence.clone()),
            };
            node.request(0, subscribe);
            assert!(lists(&mut node));
            if leaves {
                node.request(0, Request::Quit { channel, presence });
            }
            node.disconnected();
            up(&mut node);
            node.tick().expect("a connection");
            assert_eq!(lists(&mut node), !leaves, "left: {leaves}");
        }
    }
}
