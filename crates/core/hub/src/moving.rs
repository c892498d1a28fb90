//! A hub as bytes, for a process that takes over: its channels, and each connection's
//! subscriptions.
//!
//! Invariants
//! - It is saved only when it is at rest: nothing waits for the broker, nothing is on its way to
//!   members. So a member has everything up to its channel's position, and nothing after it.
//! - Members of the new process are those whose connections moved; the broker gets a quit for the
//!   others. Where the broker is elsewhere, the old process sends it.
//! - Where the broker is elsewhere, everything that came before a cut in the deliveries is with the
//!   members, and nothing behind it; see [`throng_broker::Moving`].

use throng_broker::{ChannelMember, Moving, Request};
use throng_types::{ChannelName, ConnId, Load, Now, Parts, Position, Save, Saved, save_count};

use crate::channel::{Channel, Member};
use crate::subscriptions::{Entry, Place};
use crate::{Format, Hub};

/// Kinds of saved items; those of the broker are lower.
const CHANNEL: u8 = 128;
const QUIT: u8 = 129;
const EXPECT: u8 = 130;
const CUT: u8 = 131;
const RESUME: u8 = 132;

impl Hub {
    /// Whether nothing is under way: no request without a reply, no publication that a member
    /// lacks.
    pub const fn is_at_rest(&self) -> bool {
        self.has_all_replies() && self.local.publications == 0
    }

    /// Whether the broker has answered every request.
    pub const fn has_all_replies(&self) -> bool {
        self.local.waiting.is_empty()
    }

    /// Ends the rests of channels with a delay: what gathered there leaves with the next
    /// [`Hub::fan_out`], and so do members whose connections have gone.
    pub fn hurry(&mut self) {
        let leaving = self.local.leaving.drain(..).map(|(_, quit)| quit);
        self.local.farewells.extend(leaving);
        while let Some(&(_, key)) = self.local.resting.first() {
            self.local.end_rest(key);
        }
    }

    /// Saves the channels that another process must receive before this one stops at a cut in the
    /// deliveries; false, and nothing is saved, if no channel is elsewhere.
    pub fn save_expected(&self, cut: u64, parts: &mut Parts<'_>) -> bool {
        if self.broker.has_stopped() {
            return false;
        }
        for (name, channel) in self.local.channels.iter() {
            if channel.requests.is_live() && self.broker.is_elsewhere(name) {
                parts.item(EXPECT, name);
            }
        }
        parts.item(CUT, &cut);
        true
    }

    /// Saves the channels and the broker's part, which forgets what it keeps.
    pub fn give_up(&mut self, parts: &mut Parts<'_>) {
        self.local.has_given = true;
        self.broker.give_up(parts);
        for (name, channel) in self
            .local
            .channels
            .iter()
            .filter(|(_, channel)| channel.requests.is_live())
        {
            let kind = match self.broker.is_elsewhere(name) {
                true => RESUME,
                false => CHANNEL,
            };
            parts.item(kind, &(name, channel.position.get()));
        }
    }

    /// Saves a quit for each channel of a connection that stays behind.
    pub fn save_quits(&self, conn: ConnId, parts: &mut Parts<'_>) {
        let all = self.local.present.range((conn, 0)..=(conn, u32::MAX));
        for ((_, key), presence) in all {
            if let Some((name, _)) = self.local.channels.at(*key)
                && !self.broker.is_elsewhere(name)
            {
                parts.item(QUIT, &(name, presence));
            }
        }
    }

    /// Loads one item; `None` if it is not valid.
    pub fn load(&mut self, kind: u8, from: &mut Saved<'_>) -> Option<()> {
        match kind {
            CHANNEL | RESUME => {
                let (name, position) = <(ChannelName, Option<Position>)>::load(from)?;
                // Channels elsewhere are not loaded here.
                (kind == CHANNEL || self.broker.is_elsewhere(&name)).then_some(())?;
                let key = self.local.channels.key_or_insert(&name, || Channel::NEW);
                self.load_live(key, &name);
                self.local.channels.at_mut(key)?.position.set(position);
                self.broker.hand_over(Moving::Resume(name, position));
            }
            EXPECT => {
                let name = ChannelName::load(from)?;
                let key = self.local.channels.key_or_insert(&name, || Channel::NEW);
                self.load_live(key, &name);
                self.broker.hand_over(Moving::Expect(name));
            }
            CUT => self.broker.hand_over(Moving::Cut(u64::load(from)?)),
            QUIT => {
                let (channel, presence) = <(ChannelName, ChannelMember)>::load(from)?;
                self.local.options.tell_member(&channel, &presence, true);
                self.local
                    .farewells
                    .push(Request::Quit { channel, presence });
            }
            kind => self.broker.load(kind, from)?,
        }
        Some(())
    }

    /// Takes a channel for one to which deliveries come.
    fn load_live(&mut self, key: u32, name: &ChannelName) {
        let Some(channel) = self.local.channels.at_mut(key) else {
            return;
        };
        let is_known = channel.requests.is_live() || self.local.has_given;
        channel.requests.accepted();
        if !is_known {
            self.local.options.tell_occupied(name, true);
        }
    }

    /// Appends the subscriptions of a connection; false, and the bytes are of no use, if one of
    /// them waits for a reply.
    pub fn save_subscriptions(&self, conn: ConnId, out: &mut Vec<u8>) -> bool {
        let local = &self.local;
        let entries = local.subscriptions.of(conn);
        save_count(entries.len(), out);
        for entry in entries {
            let Place::Member(at) = entry.place else {
                return false;
            };
            let Some((name, channel)) = local.channels.at(entry.channel) else {
                return false;
            };
            let Some(member) = channel.members.as_slice().get(at as usize) else {
                return false;
            };
            // The first publication after the hand-over is sent whole.
            let bits = member.format().without_base().to_bits();
            (name, bits, local.present.get(&(conn, entry.channel))).save(out);
        }
        true
    }

    /// Forgets a connection's subscriptions, which are saved, and channels without other
    /// subscribers. Sends nothing to the broker.
    pub fn give_up_subscriptions(&mut self, conn: ConnId) {
        while let Some(Entry { channel, place }) = self.local.subscriptions.remove_any(conn) {
            if let Some(presence) = self.local.present.remove(&(conn, channel))
                && let Some((name, _)) = self.local.channels.at(channel)
            {
                self.broker.hand_over(Moving::Give(name.clone(), presence));
            }
            if let Place::Member(at) = place {
                self.local.remove_member(channel, at);
            }
            self.local.forget_if_unused(channel);
        }
    }

    /// Makes a connection a member of the channels in its saved bytes. Load the channels first.
    pub fn load_subscriptions(&mut self, conn: ConnId, from: &mut Saved<'_>) -> Option<()> {
        self.local.shard = conn.shard();
        (conn.index() <= Member::INDEX_MAX).then_some(())?;
        for _ in 0..from.count()? {
            let (name, bits, presence) = <(ChannelName, u16, Option<ChannelMember>)>::load(from)?;
            let format = Format::from_bits(bits);
            let channel = self.local.channels.key(&name)?;
            let is_new = self.local.subscriptions.find(conn, channel).is_none();
            if !is_new || u32::from(bits) >> Format::BITS != 0 || format.has_base() {
                return None;
            }
            let place = self.local.join(conn, channel, format);
            self.local.subscriptions.add(conn, Entry { channel, place });
            if let Some(presence) = presence {
                let moving = Moving::Take(name, presence.clone());
                self.broker.hand_over(moving);
                if !self.local.has_given
                    && let Some((name, _)) = self.local.channels.at(channel)
                {
                    self.local.options.tell_member(name, &presence, true);
                }
                self.local.present.insert((conn, channel), presence);
            }
        }
        Some(())
    }

    /// Ends loading: forgets channels without members, and tells the broker.
    pub fn loaded(&mut self, now: Now) {
        let all: Vec<u32> = self.local.channels.entries().map(|(key, ..)| key).collect();
        for key in all {
            self.local.release_if_unused(key);
        }
        self.leave_unused(now);
        self.broker.hand_over(Moving::Resumed);
    }
}
