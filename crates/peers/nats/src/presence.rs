//! Present members of this node, and those of all nodes.
//!
//! A member is a message in a stream of its own, whose subject says all but what was told about it:
//! channel, node, user, client. It is stored before the subscribe is answered, and after the roster
//! has the node, and deleted when it leaves. The node that deletes it announces that the member has
//! left, so that this happens once.
//! After every connection a node compares its own members with what is listed, and mends both ways.
//!
//! Rule for "full": rows are at most one for each subscription of this node.

use std::collections::{BTreeMap, BTreeSet};

use throng_broker::{Announced, ChannelMember, Outcome, Refusal};
use throng_remote::{NodeChannels as _, PendingSubscribe, blob};
use throng_types::ChannelName;

use crate::api;
use crate::link::Message;
use crate::names::token;
use crate::node::Nats;
use crate::node::{Comparison, Flight, Member, Row, UserStep, body, read_body};
use crate::record::{Item, Kind, Record};

/// The most members of a channel that are counted: JetStream lists no more subjects at once.
const SUBJECTS_MAX: usize = 100_000;
/// Rows that one comparison mends; the rest with the next one.
const MEND_MAX: usize = 500;
/// Until the next one, in milliseconds.
const MEND_MS: u64 = 2000;

impl Nats {
    pub(crate) fn member(&self, channel: &ChannelName, presence: &ChannelMember) -> String {
        self.member_as(&self.incarnation, channel, presence)
    }

    /// Subject of a member under a name of this node.
    fn member_as(&self, node: &str, channel: &ChannelName, presence: &ChannelMember) -> String {
        let who = &presence.who;
        let who = format!("{}.{}", token(&who.user), token(&who.client));
        self.names.member(&token(channel.as_str()), node, &who)
    }

    /// Lists a member who comes with a subscribe, which goes on when that is done.
    pub(crate) fn list(&mut self, subscribe: PendingSubscribe) {
        let Some(presence) = subscribe.presence.clone() else {
            return self.look_for(subscribe);
        };
        let key = (subscribe.channel.clone(), presence.who.client.clone());
        self.rows.entry(key).or_default().push(Row {
            presence: presence.clone(),
            serial: subscribe.serial,
            seq: 0,
            is_stored: false,
            is_in: false,
            is_gone: false,
        });
        match presence.is_listed {
            true if self.is_rostered => self.store_row(subscribe, &presence),
            true => self.unrostered.push(subscribe),
            false => self.look_for(subscribe),
        }
    }

    fn store_row(&mut self, subscribe: PendingSubscribe, presence: &ChannelMember) {
        let subject = self.member(&subscribe.channel, presence);
        let body = body(&subscribe.channel, presence);
        self.ask(Flight::Row(subscribe), &subject, &[], &body);
    }

    /// Lists members who waited until this node is in the roster, or refuses them if it is not.
    pub(crate) fn list_unrostered(&mut self) {
        for subscribe in std::mem::take(&mut self.unrostered) {
            match subscribe.presence.clone().filter(|_| self.is_rostered) {
                Some(presence) => self.store_row(subscribe, &presence),
                None => self.not_subscribed(&subscribe, Refusal::Unavailable),
            }
        }
    }

    pub(crate) fn row(&mut self, subscribe: &PendingSubscribe) -> Option<&mut Row> {
        let presence = subscribe.presence.as_ref()?;
        let key = (subscribe.channel.clone(), presence.who.client.clone());
        let rows = self.rows.get_mut(&key)?;
        rows.iter_mut().find(|row| row.serial == subscribe.serial)
    }

    pub(crate) fn take_row(&mut self, subscribe: &PendingSubscribe) -> Option<Row> {
        let client = subscribe.presence.as_ref()?.who.client.clone();
        let is_it = |row: &Row| row.serial == subscribe.serial;
        self.remove_row((subscribe.channel.clone(), client), is_it)
    }

    /// Forgets the first row of a client that is meant.
    pub(crate) fn remove_row(
        &mut self,
        key: (ChannelName, Box<str>),
        is_it: impl Fn(&Row) -> bool,
    ) -> Option<Row> {
        let rows = self.rows.get_mut(&key)?;
        let row = rows.remove(rows.iter().position(is_it)?);
        if rows.is_empty() {
            self.rows.remove(&key);
        }
        Some(row)
    }

    /// NATS has said whether a member is listed.
    pub(crate) fn listed(&mut self, subscribe: PendingSubscribe, payload: &[u8]) {
        match api::stored(payload) {
            Ok(seq) => {
                if let Some(row) = self.row(&subscribe) {
                    row.is_stored = true;
                    row.seq = seq;
                }
                self.look_for(subscribe);
            }
            Err(error) => {
                tracing::warn!(error = error.text, "NATS did not list a member");
                self.not_subscribed(&subscribe, Refusal::Unavailable);
            }
        }
    }

    /// A member has left: at once, or as soon as its subscribe is answered. False if it has no row.
    pub(crate) fn leave(&mut self, channel: &ChannelName, client: &str) -> bool {
        let key = (channel.clone(), client.into());
        let mut rows = self.rows.get_mut(&key).into_iter().flatten();
        let Some(row) = rows.find(|row| !row.is_gone) else {
            return false;
        };
        row.is_gone = true;
        let (serial, is_in) = (row.serial, row.is_in);
        if is_in && let Some(row) = self.remove_row(key, |row| row.serial == serial) {
            self.leave_row(channel, &row);
        }
        true
    }

    /// Without a connection it stays listed, and is found when rows are compared on the next one.
    pub(crate) fn leave_row(&mut self, channel: &ChannelName, row: &Row) {
        if self.link.is_none() {
            return;
        }
        if row.presence.is_listed {
            self.unlist(channel, &row.presence);
        }
        if row.presence.announced == Announced::Connections {
            self.tell(channel, &row.presence, Kind::Left);
        }
    }

    /// Whether a member of this node is, or is about to be, listed by that subject.
    pub(crate) fn lists(
        &self,
        channel: &ChannelName,
        presence: &ChannelMember,
        subject: &str,
    ) -> bool {
        let key = (channel.clone(), presence.who.client.clone());
        let mut rows = self.rows.get(&key).into_iter().flatten();
        rows.any(|row| row.presence.is_listed && self.member(channel, &row.presence) == *subject)
    }

    /// Takes a member who has left out of the list. Rows go by their names: numbers of messages are
    /// used again by a server that comes back with an older copy.
    pub(crate) fn unlist(&mut self, channel: &ChannelName, presence: &ChannelMember) {
        let subject = self.member(channel, presence);
        if self.lists(channel, presence, &subject) {
            return;
        }
        let flight = Flight::Unlisted(channel.clone(), presence.clone());
        self.remove_member(flight, &subject);
        self.leaving.insert(subject);
    }

    /// Notes that a member who has left is not listed any more.
    pub(crate) fn unlisted(
        &mut self,
        channel: &ChannelName,
        presence: &ChannelMember,
        payload: &[u8],
    ) {
        let subject = self.member(channel, presence);
        self.leaving.remove(&subject);
        if let Err(error) = api::done(payload) {
            tracing::warn!(
                error = error.text,
                "NATS did not remove a member who has left"
            );
            self.compare_at_ms = Some(self.core.io.now_ms + MEND_MS);
        } else if presence.announced == Announced::Users && !self.lists(channel, presence, &subject)
        {
            self.went(channel, presence);
        }
        self.heal(channel, presence);
    }

    /// A row was removed. NATS may do that behind what was asked later: if the same client has come
    /// again meanwhile, it is stored once more.
    pub(crate) fn heal(&mut self, channel: &ChannelName, presence: &ChannelMember) {
        let subject = self.member(channel, presence);
        if self.lists(channel, presence, &subject) {
            let client = presence.who.client.clone();
            let rows = self.rows.get(&(channel.clone(), client.clone()));
            let row = rows.and_then(|rows| rows.iter().find(|row| row.presence.is_listed));
            if let Some(serial) = row.map(|row| row.serial) {
                self.store_again((channel.clone(), client, serial), None);
            }
        }
    }

    pub(crate) fn remove_member(&mut self, flight: Flight, subject: &str) {
        let stream = self.names.stream("members");
        let body = format!("{{\"filter\":\"{subject}\"}}");
        self.api(flight, "STREAM.PURGE", &stream, &body);
    }

    /// Announces to a channel's subscribers that a member has come or gone.
    pub(crate) fn tell(&mut self, channel: &ChannelName, presence: &ChannelMember, kind: Kind) {
        let record = Record {
            state: None,
            time_ms: self.time_ms(),
            items: vec![Item {
                trace: None,
                kind,
                body: blob::of_somebody(&presence.who).into(),
            }],
        };
        let subject = self.names.channel(channel, self.core.keeps(channel));
        self.say(&subject, &record.encode());
    }

    // ---- users ----

    /// Announces a member who has come. A user has come with the connection whose row is its
    /// oldest: one that came earlier and is gone had nobody beside it.
    pub(crate) fn came(&mut self, channel: &ChannelName, presence: &ChannelMember, seq: u64) {
        match presence.announced {
            Announced::Nothing => {}
            Announced::Connections => self.tell(channel, presence, Kind::Joined),
            Announced::Users => self.look_for_user(channel, presence, UserStep::Came(seq)),
        }
    }

    /// Announces a member who has left, or its user if no row of it is left. Somebody may come
    /// while that is told, and be told before it: so rows are looked for once more.
    pub(crate) fn went(&mut self, channel: &ChannelName, presence: &ChannelMember) {
        match presence.announced {
            Announced::Nothing => {}
            Announced::Connections => self.tell(channel, presence, Kind::Left),
            Announced::Users => self.look_for_user(channel, presence, UserStep::Left),
        }
    }

    /// Asks the leader, which has every row that was stored.
    fn look_for_user(&mut self, channel: &ChannelName, presence: &ChannelMember, step: UserStep) {
        let who = format!("{}.*", token(&presence.who.user));
        let subject = self.names.member(&token(channel.as_str()), "*", &who);
        let body = format!("{{\"seq\":1,\"next_by_subj\":\"{subject}\"}}");
        let stream = self.names.stream("members");
        let flight = Flight::User(channel.clone(), Box::new(presence.clone()), step);
        self.api(flight, "STREAM.MSG.GET", &stream, &body);
    }

    /// Takes the oldest row of a member's user. What the leader cannot say now is told twice rather
    /// than never.
    pub(crate) fn user_found(
        &mut self,
        channel: &ChannelName,
        presence: &ChannelMember,
        step: UserStep,
        payload: &[u8],
    ) {
        let oldest = api::message(payload);
        match (step, oldest) {
            (UserStep::Came(seq), oldest) => {
                if oldest.flatten().is_none_or(|oldest| oldest.seq >= seq) {
                    self.tell(channel, presence, Kind::Joined);
                }
            }
            (UserStep::Left, Some(None)) => {
                self.tell(channel, presence, Kind::Left);
                self.look_for_user(channel, presence, UserStep::Told);
            }
            (UserStep::Told, Some(Some(oldest))) => {
                if let Some((_, member)) = read_body(&oldest.payload) {
                    self.tell(channel, &member, Kind::Joined);
                }
            }
            (UserStep::Left | UserStep::Told, _) => {}
        }
    }

    // ---- a new connection ----

    /// This node was without its lease for so long that others may have removed its rows: they are
    /// stored again, under its name of now.
    pub(crate) fn come_again(&mut self) {
        let mut members = Vec::new();
        for ((channel, client), rows) in &mut self.rows {
            for row in rows {
                row.is_stored = false;
                if row.presence.is_listed && row.is_in {
                    members.push((channel.clone(), client.clone(), row.serial));
                }
            }
        }
        let formerly = self.formerly.take();
        for member in members {
            let who = self.rows_of(&member).map(|row| row.presence.clone());
            let old = who.zip(formerly.as_ref());
            let old = old.map(|(who, name)| self.member_as(name, &member.0, &who));
            self.store_again(member, old);
        }
    }

    fn rows_of(&mut self, (channel, client, serial): &Member) -> Option<&mut Row> {
        let rows = self.rows.get_mut(&(channel.clone(), client.clone()))?;
        rows.iter_mut().find(|row| row.serial == *serial)
    }

    fn store_again(&mut self, member: Member, old: Option<String>) {
        if !self.is_rostered {
            self.compare_at_ms = Some(self.core.io.now_ms);
            return;
        }
        let Some(presence) = self.rows_of(&member).map(|row| row.presence.clone()) else {
            return;
        };
        let (subject, body) = (
            self.member(&member.0, &presence),
            body(&member.0, &presence),
        );
        self.ask(Flight::RowAgain(member, old), &subject, &[], &body);
    }

    /// A row is stored once more. If that was under a new name, the old one goes.
    pub(crate) fn listed_again(&mut self, member: Member, old: Option<String>, payload: &[u8]) {
        if api::stored(payload).is_err() {
            self.compare_at_ms = Some(self.core.io.now_ms + MEND_MS);
            return;
        }
        let Some(row) = self.rows_of(&member) else {
            // It has left meanwhile: what is listed is found.
            self.compare_at_ms = Some(self.core.io.now_ms);
            return;
        };
        row.is_stored = true;
        if let Some(old) = old {
            self.remove_member(Flight::RowMoved(member.0, member.1), &old);
        }
    }

    /// Compares this node's members with what NATS lists of them, if that is due: after each
    /// connection, as soon as this node is in the roster, and where a row could not be stored or
    /// removed.
    pub(crate) fn compare_rows(&mut self) {
        let is_due = { self.compare_at_ms }.is_some_and(|at_ms| at_ms <= self.core.io.now_ms);
        if !is_due || !self.is_rostered {
            return;
        }
        self.compare_at_ms = None;
        self.store_all_taken();
        let rows = self.rows.iter().flat_map(|((channel, client), rows)| {
            let stored = rows.iter().filter(|row| row.is_stored && row.is_in);
            stored.map(|row| (channel.clone(), client.clone(), row.serial))
        });
        let comparison = Comparison {
            stored: rows.collect(),
            listed: BTreeSet::new(),
        };
        self.ask_own_rows(comparison);
    }

    fn ask_own_rows(&mut self, comparison: Comparison) {
        let filter = self.names.member("*", &self.incarnation, ">");
        let offset = comparison.listed.len();
        let body = format!("{{\"subjects_filter\":\"{filter}\",\"offset\":{offset}}}");
        let stream = self.names.stream("members");
        self.api(Flight::OwnRows(comparison), "STREAM.INFO", &stream, &body);
    }

    /// The subjects of this node's own members are here, or a page of them: a member that is listed
    /// and not here goes, and one that is here and not listed is stored again.
    pub(crate) fn own_rows(&mut self, mut comparison: Comparison, payload: &[u8]) {
        let Some((subjects, total)) = api::subjects(payload) else {
            self.compare_at_ms = Some(self.core.io.now_ms + MEND_MS);
            return;
        };
        let before = comparison.listed.len();
        comparison.listed.extend(subjects);
        if comparison.listed.len() < total && comparison.listed.len() > before {
            return self.ask_own_rows(comparison);
        }
        let Comparison { stored, mut listed } = comparison;
        let mut missing = Vec::new();
        for member in stored {
            let presence = self.rows_of(&member).map(|row| row.presence.clone());
            if let Some(presence) = presence
                && !listed.contains(&self.member(&member.0, &presence))
            {
                missing.push((member, presence));
            }
        }
        for ((channel, _), rows) in &self.rows {
            for row in rows {
                listed.remove(&self.member(channel, &row.presence));
            }
        }
        let gone: Vec<String> = listed.difference(&self.leaving).cloned().collect();
        if gone.is_empty() && missing.is_empty() {
            return;
        }
        let (too_many, too_few) = (gone.len(), missing.len());
        tracing::warn!(
            too_many,
            too_few,
            "NATS listed other members of this node: mended"
        );
        let stream = self.names.stream("members");
        for subject in gone.into_iter().take(MEND_MAX) {
            let name = format!("{stream}.{subject}");
            self.api(Flight::Orphan(subject), "DIRECT.GET", &name, "");
        }
        for (member, presence) in missing.into_iter().take(MEND_MAX) {
            let channel = member.0.clone();
            self.store_again(member, None);
            // Another node may have told that they left.
            if presence.announced != Announced::Nothing {
                self.tell(&channel, &presence, Kind::Joined);
            }
        }
        // Until nothing is left: there may be more, and a server that is behind does not have what
        // its leader lists, or lists what is removed.
        self.compare_at_ms = Some(self.core.io.now_ms + MEND_MS);
    }

    /// If another node has removed the old row, it has announced that the member left.
    pub(crate) fn moved(&mut self, channel: ChannelName, client: Box<str>, payload: &[u8]) {
        let key = (channel.clone(), client);
        let row = self.rows.get(&key).and_then(|rows| rows.first());
        let presence = row.map(|row| row.presence.clone());
        if !api::purged(payload).is_ok_and(|count| count > 0)
            && let Some(presence) = presence.filter(|it| it.announced != Announced::Nothing)
        {
            self.tell(&channel, &presence, Kind::Joined);
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

    /// Stores the row of a member that came from another process, once this one is in the roster.
    pub(crate) fn store_taken(&mut self, channel: &ChannelName, client: &str) {
        if !self.is_rostered {
            return;
        }
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

    /// The row of a member that came from another process is stored: what that one has stored goes,
    /// and also what is here if they have left meanwhile.
    pub(crate) fn taken(
        &mut self,
        channel: &ChannelName,
        presence: &ChannelMember,
        serial: u64,
        payload: &[u8],
    ) {
        let Ok(seq) = api::stored(payload) else {
            self.compare_at_ms = Some(self.core.io.now_ms + MEND_MS);
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

    // ---- present members ----

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
            self.core.io.options.reply.members_max
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

    /// Takes a member of the list; without one it has left since.
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
        let outcome = Outcome::Present(refusal.map_or(Ok(present), Err));
        self.core.io.reply(gather.id, outcome);
    }
}
