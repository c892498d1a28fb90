//! Who of this node is present, and who is present anywhere.
//!
//! A member is a message in a stream of its own, whose subject says all but what was told about it:
//! channel, node, user, client. It is stored before the subscribe is answered and deleted when it
//! leaves. Whoever deletes it tells that somebody has left, so that this is told once.
//!
//! Rule for "full": rows are at most one for each subscription of this node.

use std::collections::{BTreeMap, BTreeSet};

use throng_broker::{Presence, Present, Refusal, Reply, Ticket};
use throng_remote::blob;
use throng_types::ChannelName;

use crate::api;
use crate::flight::{Flight, Wanted};
use crate::link::Message;
use crate::names::token;
use crate::node::Node;
use crate::record::{Item, Kind, Record};
use crate::rows::{Gather, Row, body, read_body};

/// The most members of a channel that are counted: JetStream lists no more subjects at once.
const SUBJECTS_MAX: usize = 100_000;

impl Node {
    pub(crate) fn member(&self, channel: &ChannelName, presence: &Presence) -> String {
        let who = &presence.who;
        let who = format!("{}.{}", token(&who.user), token(&who.client));
        self.names
            .member(&token(channel.as_str()), &self.incarnation, &who)
    }

    /// Lists somebody who comes with a subscribe, which goes on when that is done.
    pub(crate) fn come(&mut self, wanted: Wanted) {
        let Some(presence) = wanted.presence.clone() else {
            return self.look_for(wanted);
        };
        let key = (wanted.channel.clone(), presence.who.client.clone());
        self.rows.entry(key).or_default().push(Row {
            presence: presence.clone(),
            serial: wanted.serial,
            seq: None,
            is_in: false,
            is_gone: false,
        });
        if presence.is_listed {
            let subject = self.member(&wanted.channel, &presence);
            let body = body(&wanted.channel, &presence);
            self.ask(Flight::Row(wanted), &subject, &[], &body);
        } else {
            self.look_for(wanted);
        }
    }

    fn row(&mut self, wanted: &Wanted) -> Option<&mut Row> {
        let presence = wanted.presence.as_ref()?;
        let key = (wanted.channel.clone(), presence.who.client.clone());
        let rows = self.rows.get_mut(&key)?;
        rows.iter_mut().find(|row| row.serial == wanted.serial)
    }

    fn take_row(&mut self, wanted: &Wanted) -> Option<Row> {
        let presence = wanted.presence.as_ref()?;
        let key = (wanted.channel.clone(), presence.who.client.clone());
        let rows = self.rows.get_mut(&key)?;
        let at = rows.iter().position(|row| row.serial == wanted.serial)?;
        let row = rows.remove(at);
        if rows.is_empty() {
            self.rows.remove(&key);
        }
        Some(row)
    }

    /// NATS has said whether somebody is listed.
    pub(crate) fn listed(&mut self, wanted: Wanted, payload: &[u8]) {
        match api::stored(payload) {
            Ok(seq) => {
                if let Some(row) = self.row(&wanted) {
                    row.seq = Some(seq);
                }
                self.look_for(wanted);
            }
            Err(error) => {
                tracing::warn!(error = error.text, "NATS lists nobody");
                self.not_subscribed(wanted, Refusal::Unavailable);
            }
        }
    }

    /// A subscribe was answered: who came with it is told of.
    pub(crate) fn has_come(&mut self, wanted: &Wanted) {
        let Some(row) = self.row(wanted) else {
            return;
        };
        row.is_in = true;
        let (presence, is_gone) = (row.presence.clone(), row.is_gone);
        if presence.is_announced {
            self.tell(&wanted.channel, &presence, Kind::Joined);
        }
        if is_gone && let Some(row) = self.take_row(wanted) {
            self.leave_row(&wanted.channel, &row);
        }
    }

    /// A subscribe was refused: nobody has come.
    pub(crate) fn has_not_come(&mut self, wanted: &Wanted) {
        if let Some(row) = self.take_row(wanted)
            && let Some(seq) = row.seq
        {
            self.delete_member(Flight::Nothing, seq);
        }
    }

    /// A subscribe is asked again on another connection: with whom, unless they have left.
    pub(crate) fn come_later(&mut self, wanted: &Wanted) -> Option<Presence> {
        let row = self.take_row(wanted)?;
        (!row.is_gone).then_some(row.presence)
    }

    /// Somebody has left.
    pub(crate) fn quit(&mut self, channel: &ChannelName, presence: &Presence) {
        let client = &presence.who.client;
        let key = (channel.clone(), client.clone());
        let rows = self.rows.get_mut(&key);
        let row = rows.and_then(|rows| rows.iter_mut().find(|row| !row.is_gone));
        if let Some(row) = row {
            row.is_gone = true;
            if !row.is_in {
                return;
            }
            let wanted = Wanted {
                lane: 0,
                ticket: Ticket(0),
                channel: channel.clone(),
                since: None,
                presence: Some(presence.clone()),
                serial: row.serial,
            };
            if let Some(row) = self.take_row(&wanted) {
                self.leave_row(channel, &row);
            }
            return;
        }
        // It may not have come yet, for want of a connection.
        for (_, _, request) in &mut self.waiting {
            if let throng_broker::Request::Subscribe {
                channel: theirs,
                presence: who @ Some(_),
                ..
            } = request
                && theirs == channel
                && who.as_ref().is_some_and(|who| who.who.client == *client)
            {
                *who = None;
                return;
            }
        }
    }

    fn leave_row(&mut self, channel: &ChannelName, row: &Row) {
        if self.link.is_none() {
            return;
        }
        if let Some(seq) = row.seq {
            self.delete_member(Flight::Nothing, seq);
        }
        if row.presence.is_announced {
            self.tell(channel, &row.presence, Kind::Left);
        }
    }

    pub(crate) fn delete_member(&mut self, flight: Flight, seq: u64) {
        let stream = self.names.stream("members");
        let body = format!("{{\"seq\":{seq},\"no_erase\":true}}");
        self.api(flight, "STREAM.MSG.DELETE", &stream, &body);
    }

    /// Tells a channel's subscribers that somebody has come or gone.
    pub(crate) fn tell(&mut self, channel: &ChannelName, presence: &Presence, kind: Kind) {
        let record = Record {
            state: None,
            time_ms: self.time_ms(),
            items: vec![Item {
                kind,
                body: blob::of_somebody(&presence.who).into(),
            }],
        };
        let subject = self.names.channel(channel, self.keeps(channel));
        self.say(&subject, &record.encode());
    }

    // ---- a new connection ----

    /// This node was without its lease for so long that others may have removed its rows: they are
    /// stored again, under its name of now.
    pub(crate) fn come_again(&mut self) {
        let rows = self.rows.iter().flat_map(|((channel, client), rows)| {
            let listed = rows
                .iter()
                .filter(|row| row.presence.is_listed && row.is_in);
            let row = |row: &Row| {
                (
                    channel.clone(),
                    client.clone(),
                    row.serial,
                    row.presence.clone(),
                )
            };
            listed.map(row).collect::<Vec<_>>()
        });
        for (channel, client, serial, presence) in rows.collect::<Vec<_>>() {
            let subject = self.member(&channel, &presence);
            let body = body(&channel, &presence);
            let flight = Flight::RowAgain(channel, client, serial);
            self.ask(flight, &subject, &[], &body);
        }
    }

    /// A row is stored under the new name: the old one goes.
    pub(crate) fn listed_again(
        &mut self,
        channel: ChannelName,
        client: Box<str>,
        serial: u64,
        payload: &[u8],
    ) {
        let Ok(seq) = api::stored(payload) else {
            return;
        };
        let key = (channel.clone(), client.clone());
        let rows = self.rows.get_mut(&key);
        let row = rows.and_then(|rows| rows.iter_mut().find(|row| row.serial == serial));
        let Some(row) = row else {
            // It has left meanwhile.
            return self.delete_member(Flight::Nothing, seq);
        };
        if let Some(before) = row.seq.replace(seq) {
            self.delete_member(Flight::RowMoved(channel, client), before);
        }
    }

    /// If another node has removed the old row, it has told that somebody left.
    pub(crate) fn moved(&mut self, channel: ChannelName, client: Box<str>, payload: &[u8]) {
        let key = (channel.clone(), client);
        let row = self.rows.get(&key).and_then(|rows| rows.first());
        let presence = row.map(|row| row.presence.clone());
        if api::done(payload).is_err()
            && let Some(presence) = presence.filter(|presence| presence.is_announced)
        {
            self.tell(&channel, &presence, Kind::Joined);
        }
    }

    // ---- who is present ----

    /// Says who is present.
    pub(crate) fn present(
        &mut self,
        lane: u8,
        ticket: Ticket,
        channel: &ChannelName,
        with_members: bool,
    ) {
        let serial = self.next_serial();
        let gather = Gather {
            lane,
            ticket,
            with_members,
            missing: 0,
            present: Present::default(),
            members: Vec::new(),
        };
        self.gathers.insert(serial, gather);
        let filter = self.names.member(&token(channel.as_str()), "*", ">");
        let body = format!("{{\"subjects_filter\":\"{filter}\"}}");
        let stream = self.names.stream("members");
        self.api(Flight::Members(serial), "STREAM.INFO", &stream, &body);
    }

    /// The subjects of a channel's members are here.
    pub(crate) fn members(&mut self, serial: u64, payload: &[u8]) {
        let Some((subjects, total)) = api::subjects(payload) else {
            return self.gathered(serial, Some(Refusal::Unavailable));
        };
        let Some(gather) = self.gathers.get_mut(&serial) else {
            return;
        };
        let (mut clients, mut users) = (BTreeMap::new(), BTreeSet::new());
        for subject in &subjects {
            let Some([_, incarnation, user, client]) = self.names.member_of(subject) else {
                continue;
            };
            if !self.dead.contains(incarnation) {
                clients.insert(client, subject);
                users.insert(user);
            }
        }
        gather.present.clients = clients.len() as u32;
        gather.present.users = users.len() as u32;
        let most = if gather.with_members {
            self.desk.options.reply.members_max
        } else {
            SUBJECTS_MAX
        };
        if clients.len() > most || total > SUBJECTS_MAX {
            return self.gathered(serial, Some(Refusal::TooLong));
        }
        if !gather.with_members || clients.is_empty() {
            return self.gathered(serial, None);
        }
        gather.missing = clients.len();
        let stream = self.names.stream("members");
        let subjects: Vec<String> = clients.into_values().cloned().collect();
        for subject in subjects {
            let name = format!("{stream}.{subject}");
            self.api(Flight::Member(serial), "DIRECT.GET", &name, "");
        }
    }

    /// One of them is here, or has left since.
    pub(crate) fn member_found(&mut self, serial: u64, message: &Message) {
        let Some(gather) = self.gathers.get_mut(&serial) else {
            return;
        };
        gather.missing -= 1;
        let body = read_body(&message.payload).filter(|_| message.status.is_none());
        gather
            .members
            .extend(body.map(|(_, presence)| presence.who));
        if gather.missing == 0 {
            self.gathered(serial, None);
        }
    }

    pub(crate) fn gathered(&mut self, serial: u64, refusal: Option<Refusal>) {
        let Some(gather) = self.gathers.remove(&serial) else {
            return;
        };
        let mut present = gather.present;
        if gather.with_members {
            let users: BTreeSet<&str> = gather.members.iter().map(|who| &*who.user).collect();
            present.clients = gather.members.len() as u32;
            present.users = users.len() as u32;
            present.members = Some(gather.members);
        }
        let result = refusal.map_or(Ok(present), Err);
        let ticket = gather.ticket;
        self.desk
            .leave(gather.lane, Reply::Present { ticket, result });
    }
}
