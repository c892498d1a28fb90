//! Nodes of a cluster: which live, which states each has, and which one tells them.
//!
//! Each node says on a way that all hear, itself included, that it lives and how its own states
//! change. The way may lose messages: a gap in a node's numbers is seen, and it is asked for
//! everything. A state holds while a living node has it. This node's states count as they are
//! heard here, so what the leader tells is known to all that hear what it hears.
//!
//! Invariants
//! - One node leads, or none, as far as they hear each other. It is the smallest of the living ones
//!   if none was heard to lead for [`DEAD_MS`]; it leads until it ends. Of two the smaller stays.
//! - A node that does not hear itself is cut off: it tells no states, and no other is dead for it.
//! - What receivers were told is in doubt where the leader before this one ended without a word.
//!
//! Without other nodes (the broker in memory) nothing is said, and this one leads.

use std::collections::{BTreeMap, BTreeSet};

use throng_types::{Load as _, Millis, Save};

use crate::receiver::{Belief, State, Subject};

/// Number of the messages' form, their first byte; it rises with each change of theirs. Nodes do
/// not hear those of another form.
const FORM: u8 = 2;
/// Time between two words of a node, in milliseconds.
const BEAT_MS: u64 = 3_000;
/// Time without its own words after which a node is cut off. The others wait longer.
const CUT_MS: u64 = 9_000;
/// Time without a word after which a node is dead, or does not lead.
const DEAD_MS: u64 = 15_000;
/// Time for which changes wait for others.
const GATHER_MS: u64 = 100;
/// Time between two times that everything is said.
const WHOLE_MS: u64 = 1_000;
/// Bytes of the states in one message, about.
const PART_BYTES: usize = 32 << 10;

/// Start of a node in Unix milliseconds, and a number that distinguishes it from others.
pub type HookNode = (u64, u64);

#[derive(Debug, Save)]
struct Message {
    from: HookNode,
    /// One more than that of the node's message before.
    number: u64,
    leads: bool,
    said: Said,
}

#[derive(Debug, Save)]
enum Said {
    /// Sign of life, with the time of its own clock.
    Beat(Millis),
    /// States of its own that have begun or ended, in their order.
    Changed(Vec<State>),
    /// A part of all states of its own that hold, and whether it is the first and the last.
    Whole(Vec<State>, bool, bool),
    /// Question to a node for everything.
    Ask(HookNode),
    /// States as the receiver of a webhook knows them, and those of which it may know.
    Told(Box<str>, Vec<Belief>),
    /// Last word of a node that ends.
    Gone,
}

/// Consequence of what was heard, or of time.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum News {
    State(State),
    /// Name of a webhook and its states, as in [`Said::Told`].
    Told(Box<str>, Vec<Belief>),
    /// Nobody knows what receivers were told last.
    Doubt,
    /// A node is heard that was not, and may have told anything meanwhile.
    Joined,
    /// The others are to hear what receivers were told, as far as this node knows.
    Asked,
}

/// A node as it was heard.
#[derive(Debug, Default, Save)]
struct Member {
    heard_at: Millis,
    number: u64,
    /// Something of it was not heard, and whether it was asked for everything, and when.
    is_torn: bool,
    asked_at: Option<Millis>,
    leads: bool,
    /// Its states that hold. Bound: what it has.
    on: BTreeSet<Subject>,
    /// Those of its parts so far, until the last one.
    parts: Option<BTreeSet<Subject>>,
}

#[derive(Debug, Save)]
pub(crate) struct HookNodes {
    id: HookNode,
    #[save(skip)]
    is_alone: bool,
    /// States of this node: shards with subscribers, and connections in lists. Bound: the channels
    /// with subscribers and the members here.
    #[save(skip)]
    own: BTreeMap<Subject, u32>,
    /// Changes of them that are not said yet, and when the first came. Bound: those of
    /// [`GATHER_MS`].
    #[save(skip)]
    changed: Vec<State>,
    #[save(skip)]
    changed_at: Millis,
    /// All nodes that live, with this one as it was heard. Bound: the cluster's nodes.
    members: BTreeMap<HookNode, Member>,
    number: u64,
    leads: bool,
    /// A smaller one leads, too: this one ends to.
    yields: bool,
    /// Larger ones that lead, too, until they end to. Bound: `members`.
    rivals: BTreeSet<HookNode>,
    /// From when on this node may lead.
    leads_from: Millis,
    /// The last leader has said all that it told.
    is_sure: bool,
    is_leaving: bool,
    /// Time of the newest word of its own that it has heard.
    echo_at: Millis,
    is_cut: bool,
    beats_at: Millis,
    is_asked: bool,
    whole_at: Millis,
    /// Messages to all nodes. Bound: those of one call.
    #[save(skip)]
    pub(crate) out: Vec<Vec<u8>>,
}

fn parts_of<T>(states: impl IntoIterator<Item = (Subject, T)>) -> Vec<Vec<(Subject, T)>> {
    let (mut parts, mut bytes) = (vec![Vec::new()], 0);
    for state in states {
        let ((channel, user), _) = &state;
        let cost = 16 + channel.as_str().len() + user.as_ref().map_or(0, |user| user.len());
        if bytes > 0 && bytes + cost > PART_BYTES {
            parts.push(Vec::new());
            bytes = 0;
        }
        bytes += cost;
        if let Some(part) = parts.last_mut() {
            part.push(state);
        }
    }
    parts
}

impl HookNodes {
    /// Makes the node of this name, or with `None` the only one.
    pub(crate) fn new(id: Option<HookNode>) -> Self {
        Self {
            id: id.unwrap_or_default(),
            is_alone: id.is_none(),
            own: BTreeMap::new(),
            changed: Vec::new(),
            changed_at: Millis(0),
            members: BTreeMap::new(),
            number: 0,
            leads: id.is_none(),
            yields: false,
            rivals: BTreeSet::new(),
            leads_from: Millis(0),
            is_sure: false,
            is_leaving: false,
            echo_at: Millis(0),
            is_cut: id.is_some(),
            beats_at: Millis(0),
            is_asked: false,
            whole_at: Millis(0),
            out: Vec::new(),
        }
    }

    pub(crate) const fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// Whether this node tells states now.
    pub(crate) const fn tells(&self) -> bool {
        self.leads && !self.yields && !self.is_cut && !self.is_leaving
    }

    /// Goes on as the process did that has handed over, whose states are `saved`; false if they are
    /// not its own.
    pub(crate) fn resume(&mut self, saved: &[u8], now: Millis, news: &mut Vec<News>) -> bool {
        let Some(before) = Self::load_whole(saved).filter(|_| !self.is_alone) else {
            return false;
        };
        let own = std::mem::take(&mut self.own);
        *self = Self { own, ..before };
        let on = self.members.values().flat_map(|member| &member.on);
        news.extend(on.map(|subject| News::State((subject.clone(), true))));
        self.is_asked = true;
        // Times of this process are others.
        (self.beats_at, self.whole_at, self.echo_at) = (now, now, now);
        self.join_again(now);
        true
    }

    /// Joins the others again, which count as alive, and asks them for what was not heard.
    fn join_again(&mut self, now: Millis) {
        self.is_cut = false;
        self.leads_from = now + DEAD_MS;
        for (id, member) in &mut self.members {
            member.heard_at = now;
            member.is_torn = member.is_torn || *id != self.id;
            member.asked_at = None;
        }
    }

    fn say(&mut self, said: Said) {
        self.number += 1;
        let message = Message {
            from: self.id,
            number: self.number,
            leads: self.leads,
            said,
        };
        self.out.push((FORM, message).saved());
    }

    /// Says what the receiver of a webhook knows.
    pub(crate) fn say_told(&mut self, hook: &str, states: Vec<Belief>) {
        if self.is_alone || states.is_empty() {
            return;
        }
        for part in parts_of(states) {
            self.say(Said::Told(hook.into(), part));
        }
    }

    /// Counts a state of this node in or out. Others hear of it if it is needed; it is counted in
    /// any case, since what is needed may change.
    pub(crate) fn count(
        &mut self,
        ((subject, is_on), is_needed): (State, bool),
        now: Millis,
        news: &mut Vec<News>,
    ) {
        let count = self.own.entry(subject.clone()).or_default();
        let was_on = *count > 0;
        *count = match is_on {
            true => *count + 1,
            false => count.saturating_sub(1),
        };
        let is_still_on = *count > 0;
        if !is_still_on {
            self.own.remove(&subject);
        }
        if was_on == is_still_on || !is_needed {
            return;
        }
        if self.is_alone {
            return news.push(News::State((subject, is_on)));
        }
        if self.changed.is_empty() {
            self.changed_at = now;
        }
        self.changed.push((subject, is_on));
    }

    /// Lists the states that hold, since others are needed from now on. This node's are said anew,
    /// and the others are asked: they may know what a leader before this one told.
    pub(crate) fn list(&mut self, news: &mut Vec<News>) {
        let on = |subject: &Subject| News::State((subject.clone(), true));
        if self.is_alone {
            return news.extend(self.own.keys().map(on));
        }
        self.is_asked = true;
        for member in self.members.values_mut() {
            (member.is_torn, member.asked_at) = (true, None);
        }
        news.extend(self.members.values().flat_map(|it| &it.on).map(on));
    }

    fn state_now(&self, subject: Subject) -> News {
        let is_on = { self.members.values() }.any(|member| member.on.contains(&subject));
        News::State((subject, is_on))
    }

    /// Takes a message of some node, this one included.
    pub(crate) fn hear(&mut self, message: &[u8], now: Millis, news: &mut Vec<News>) {
        let message = match message.split_first() {
            Some((&FORM, message)) if !self.is_alone => Message::load_whole(message),
            _ => None,
        };
        let Some(Message {
            from,
            number,
            leads,
            said,
        }) = message
        else {
            return;
        };
        if !self.members.contains_key(&from) {
            news.push(News::Joined);
        }
        let member = self.members.entry(from).or_default();
        member.heard_at = now;
        if number <= member.number {
            return;
        }
        if number != member.number + 1 {
            (member.is_torn, member.asked_at, member.parts) = (true, None, None);
        }
        member.number = number;
        let (led, is_torn) = (std::mem::replace(&mut member.leads, leads), member.is_torn);
        if from != self.id {
            self.led(from, (led, leads), now, news);
        }
        match said {
            Said::Beat(at) if from == self.id => {
                if self.is_cut && now <= at + CUT_MS {
                    // Another may have led meanwhile, and be no more.
                    let may_doubt = self.leads && now > self.echo_at + DEAD_MS;
                    news.extend(may_doubt.then_some(News::Doubt));
                    self.join_again(now);
                }
                // The process before may have said it.
                self.echo_at = self.echo_at.max(at.min(now));
            }
            Said::Beat(_) => {}
            Said::Changed(states) => {
                for (subject, is_on) in states {
                    if let Some(member) = self.members.get_mut(&from) {
                        match is_on {
                            true => member.on.insert(subject.clone()),
                            false => member.on.remove(&subject),
                        };
                    }
                    news.push(self.state_now(subject));
                }
            }
            Said::Whole(states, is_first, is_last) => {
                self.hear_part(from, states, (is_first, is_last), news);
            }
            Said::Ask(of) => self.is_asked |= of == self.id,
            Said::Told(hook, states) if from != self.id => {
                news.push(News::Told(hook, states));
            }
            Said::Told(..) => {}
            Said::Gone => {
                if leads {
                    self.leads_from = now;
                    self.is_sure = !is_torn;
                }
                self.end(from, news);
            }
        }
    }

    /// Notes whether another node led before its message, and leads now.
    fn led(&mut self, from: HookNode, led: (bool, bool), now: Millis, news: &mut Vec<News>) {
        if let (was, true) = led {
            (self.leads_from, self.is_sure) = (now + DEAD_MS, false);
            if !self.leads {
                // It may not know what this node knows.
                news.extend((!was).then_some(News::Asked));
            } else if from < self.id {
                self.yields = true;
            } else {
                self.rivals.insert(from);
            }
        } else if self.rivals.remove(&from) {
            news.push(News::Doubt);
        }
    }

    fn hear_part(
        &mut self,
        from: HookNode,
        states: Vec<State>,
        (is_first, is_last): (bool, bool),
        news: &mut Vec<News>,
    ) {
        let leads = self.leads;
        let Some(member) = self.members.get_mut(&from) else {
            return;
        };
        if is_first {
            member.parts = Some(BTreeSet::new());
            if member.leads && !leads {
                // What was told comes behind it.
                news.push(News::Doubt);
            }
        }
        let Some(parts) = &mut member.parts else {
            return;
        };
        parts.extend(states.into_iter().map(|(subject, _)| subject));
        if is_last && let Some(on) = member.parts.take() {
            (member.is_torn, member.asked_at) = (false, None);
            let before = std::mem::replace(&mut member.on, on);
            let differ = before.symmetric_difference(&member.on);
            let differ: Vec<Subject> = differ.cloned().collect();
            news.extend(differ.into_iter().map(|subject| self.state_now(subject)));
        }
    }

    /// The states of a node that is no more end.
    fn end(&mut self, id: HookNode, news: &mut Vec<News>) {
        let Some(member) = self.members.remove(&id) else {
            return;
        };
        if self.rivals.remove(&id) {
            news.push(News::Doubt);
        }
        news.extend(member.on.into_iter().map(|subject| self.state_now(subject)));
        // The one that leads may have begun behind its end, and never have known of them.
        news.extend((!self.leads).then_some(News::Asked));
    }

    /// Does what is due.
    pub(crate) fn tick(
        &mut self,
        now: Millis,
        is_needed: impl Fn(&Subject) -> bool,
        news: &mut Vec<News>,
    ) {
        if self.is_alone {
            return;
        }
        if now >= self.beats_at {
            self.beats_at = now + BEAT_MS;
            self.say(Said::Beat(now));
        }
        self.is_cut |= now > self.echo_at + CUT_MS;
        if !self.is_cut {
            self.look_around(now, news);
        }
        if self.is_asked && now >= self.whole_at {
            (self.is_asked, self.whole_at) = (false, now + WHOLE_MS);
            self.changed.clear();
            let all = self.own.keys().filter(|subject| is_needed(subject));
            let all = all.map(|subject| (subject.clone(), true));
            let parts = parts_of(all);
            let last = parts.len() - 1;
            for (place, part) in parts.into_iter().enumerate() {
                self.say(Said::Whole(part, place == 0, place == last));
            }
            news.push(News::Asked);
        }
        if !self.changed.is_empty() && now >= self.changed_at + GATHER_MS {
            for part in parts_of(std::mem::take(&mut self.changed)) {
                self.say(Said::Changed(part));
            }
        }
    }

    /// Buries the dead, asks for what is missing, and leads if nobody does.
    fn look_around(&mut self, now: Millis, news: &mut Vec<News>) {
        let dead = { self.members.iter() }
            .filter(|(id, member)| **id != self.id && now > member.heard_at + DEAD_MS);
        for id in dead.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.end(id, news);
        }
        let mut asks = Vec::new();
        for (id, member) in &mut self.members {
            let is_due = member.asked_at.is_none_or(|at| now >= at + BEAT_MS);
            if member.is_torn && is_due {
                member.asked_at = Some(now);
                asks.push(*id);
            }
        }
        for id in asks {
            match id == self.id {
                true => self.is_asked = true,
                false => self.say(Said::Ask(id)),
            }
        }
        let is_smallest = self.members.keys().next() == Some(&self.id);
        let is_known = !self.members.values().any(|member| member.is_torn);
        let is_due = now >= self.leads_from && (is_known || now >= self.leads_from + DEAD_MS);
        if !self.leads && !self.is_leaving && is_smallest && is_due {
            (self.leads, self.beats_at) = (true, now);
            if !self.is_sure {
                news.push(News::Doubt);
            }
        }
    }

    /// Whether this node is to end to lead, as soon as no state is under way.
    pub(crate) const fn is_to_yield(&self) -> bool {
        self.yields
    }

    /// Ends to lead, and says so at the next tick. What receivers were told is to be said then.
    pub(crate) const fn end_to_lead(&mut self) {
        (self.leads, self.yields, self.beats_at) = (false, false, Millis(0));
    }

    /// Tells no more states; [`Self::say_gone`] follows.
    pub(crate) const fn leave(&mut self) {
        self.is_leaving = !self.is_alone;
    }

    pub(crate) fn say_gone(&mut self) {
        if self.is_leaving {
            self.say(Said::Gone);
        }
    }

    /// Time at which there is something to do; `None` without other nodes.
    pub(crate) fn wakes_at(&self) -> Option<Millis> {
        let changed = { !self.changed.is_empty() }.then(|| self.changed_at + GATHER_MS);
        let whole = self.is_asked.then_some(self.whole_at);
        let first = changed
            .into_iter()
            .chain(whole)
            .fold(self.beats_at, Millis::min);
        (!self.is_alone).then_some(first)
    }
}
