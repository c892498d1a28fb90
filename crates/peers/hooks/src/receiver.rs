//! One receiver: what it was told, what is due, and what waits for it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::HEXLOWER;
use throng_broker::HookEvent;
use throng_types::{ChannelName, Millis, Now, Save};

use crate::options::Webhook;

/// Bytes of the events that wait for a receiver at most; also of those on their way to all of them.
pub const QUEUE_BYTES_MAX: usize = 16 << 20;
/// Age in milliseconds above which an event is not sent again after a failure, unless it is a state
/// or of a connection.
pub const AGE_MAX_MS: u64 = 3_600_000;
/// Events and their bytes in one request.
const BATCH_EVENTS_MAX: usize = 100;
const BATCH_BYTES_MAX: usize = 256 << 10;
/// Events from which on a batch is sent at once; fewer wait for others.
const BATCH_EVENTS_FULL: usize = 20;
/// Time for which fewer wait, in milliseconds.
const GATHER_MS: u64 = 250;
/// Shortest and longest pause behind a failure, in milliseconds.
const PAUSE_MIN_MS: u64 = 1_000;
const PAUSE_MAX_MS: u64 = 60_000;
/// Number of the states whose end this node has told that it remembers.
const ENDED_MAX: usize = 1_000;
/// Time after which a state that found no room in the queue is looked at again, in milliseconds.
const ROOM_AGAIN_MS: u64 = 1_000;

/// Subject of a state: a channel, and a user in it for a membership.
pub(crate) type Subject = (ChannelName, Option<Box<str>>);
/// Subject, and whether it is on.
pub(crate) type State = (Subject, bool);
/// Subject, and what a receiver was told of it last; `None` if it may have been told that it is on.
pub(crate) type Belief = (Subject, Option<bool>);

/// State of a subject, and of what the receiver knows of it.
#[derive(Default)]
pub(crate) struct Level {
    is_on: bool,
    /// Value of `is_on` that is told or queued; `None` if another node may have told either.
    told: Option<bool>,
    /// Time to look at it, and the number of the change; set while `told` may have to change.
    due: Option<(Millis, u64)>,
}

/// Event in the queue.
#[derive(Clone, Debug, Save)]
pub(crate) struct Item {
    pub(crate) number: u64,
    pub(crate) at_unix_ms: u64,
    pub(crate) event: HookEvent,
}

/// Change of a receiver that a journal keeps.
#[derive(Debug, Save)]
pub(crate) enum Change {
    Queued(Item),
    /// State that counts as told: the receiver knows it, or does not ask for it.
    Told(HookEvent),
    /// Numbers of the events that have left the queue, since the receiver has taken them.
    Gone(Vec<u64>),
    /// State of the cluster's nodes, for a process that takes over. In no file.
    Nodes(Vec<u8>),
    /// Number of events, from the front of the queue, in a batch that has begun.
    Begun(u64),
    /// Numbers of the events that have left the queue, too old or left to other nodes: nobody
    /// knows whether the states among them are told.
    Left(Vec<u64>),
}

/// Number of events that left a queue without an answer, by the reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeftOut {
    pub(crate) full: u64,
    pub(crate) old: u64,
}

pub(crate) struct Receiver {
    pub(crate) hook: Webhook,
    /// Number that no other receiver of the process has had.
    pub(crate) serial: usize,
    /// Whether this node tells states. While not, none are due, nor queued but for those under way.
    tells: bool,
    /// Bound: the states that hold or were told.
    levels: BTreeMap<Subject, Level>,
    /// Subjects to be looked at, by time and in the order of their changes. Bound: `levels`.
    due: BTreeSet<(Millis, u64, Subject)>,
    changes: u64,
    /// Subjects whose end the receiver has taken last, for nodes that did not hear so. Bound:
    /// [`ENDED_MAX`].
    ended: VecDeque<Subject>,
    /// Events to be told, the oldest first. Bound: [`QUEUE_BYTES_MAX`].
    queue: VecDeque<Item>,
    queued_bytes: usize,
    /// Time of the oldest event, from which others are waited for.
    gathers_from: Millis,
    /// Number of events under way, from the front of the queue.
    pub(crate) under_way: usize,
    /// Number of events that a batch without an answer had: it comes again as it was.
    again: usize,
    failures: u32,
    pause_until: Millis,
    next_number: u64,
    pub(crate) left_out: LeftOut,
}

/// State that an event tells.
pub(crate) fn level_of(event: &HookEvent) -> Option<State> {
    match event {
        HookEvent::Occupied { channel, is_on } => Some(((channel.clone(), None), *is_on)),
        HookEvent::Member {
            channel,
            user,
            is_on,
        } => Some(((channel.clone(), Some(user.clone())), *is_on)),
        _ => None,
    }
}

/// Belief of a receiver that was told an event.
pub(crate) fn belief_of(event: &HookEvent) -> Option<Belief> {
    level_of(event).map(|(subject, is_on)| (subject, Some(is_on)))
}

pub(crate) fn event_of((channel, user): Subject, is_on: bool) -> HookEvent {
    match user {
        None => HookEvent::Occupied { channel, is_on },
        Some(user) => HookEvent::Member {
            channel,
            user,
            is_on,
        },
    }
}

impl Receiver {
    /// Makes one that was told nothing. Its events are numbered from `first`.
    pub(crate) const fn new(hook: Webhook, serial: usize, tells: bool, first: u64) -> Self {
        Self {
            hook,
            serial,
            tells,
            levels: BTreeMap::new(),
            due: BTreeSet::new(),
            changes: 0,
            ended: VecDeque::new(),
            queue: VecDeque::new(),
            queued_bytes: 0,
            gathers_from: Millis(0),
            under_way: 0,
            again: 0,
            failures: 0,
            pause_until: Millis(0),
            next_number: first,
            left_out: LeftOut { full: 0, old: 0 },
        }
    }

    /// Takes other options over, and forgets the states that they do not ask for.
    pub(crate) fn renew(&mut self, hook: Webhook) {
        let needs = |subject: &Subject| hook.filter.needs(&event_of(subject.clone(), true));
        self.levels.retain(|subject, _| needs(subject));
        self.due.retain(|(_, _, subject)| needs(subject));
        self.hook = hook;
    }

    pub(crate) fn waiting(&self) -> usize {
        self.queue.len()
    }

    pub(crate) const fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    pub(crate) fn states(&self) -> usize {
        self.levels.len()
    }

    /// Takes an event that the webhook needs to know of.
    pub(crate) fn take(&mut self, event: HookEvent, now: Now) -> Option<Change> {
        match level_of(&event) {
            Some((subject, is_on)) => {
                // One that tells knows all that was told; the end of what it does not know counts
                // as not told.
                let new = Level {
                    told: (self.tells && is_on).then_some(false),
                    ..Level::default()
                };
                self.levels.entry(subject.clone()).or_insert(new).is_on = is_on;
                self.look(subject, now.mono);
                None
            }
            None => self.queue(event, now),
        }
    }

    fn queue(&mut self, event: HookEvent, now: Now) -> Option<Change> {
        if self.queued_bytes + event.cost_bytes() > QUEUE_BYTES_MAX {
            self.left_out.full += 1;
            return None;
        }
        if self.queue.is_empty() {
            self.gathers_from = now.mono;
        }
        let item = Item {
            number: self.next_number,
            at_unix_ms: now.unix_ms,
            event,
        };
        self.push(item.clone());
        Some(Change::Queued(item))
    }

    fn push(&mut self, item: Item) {
        self.next_number = self.next_number.max(item.number) + 1;
        self.queued_bytes += item.event.cost_bytes();
        self.queue.push_back(item);
    }

    /// Makes a state due if it differs from what was told, at once for its begin and after the time
    /// to settle for its end. Forgets one that has ended and is told so.
    fn look(&mut self, subject: Subject, now: Millis) {
        let Some(level) = self.levels.get_mut(&subject) else {
            return;
        };
        let at = match (level.is_on, level.told) {
            _ if !self.tells => None,
            (is_on, Some(told)) if is_on == told => None,
            (true, _) => Some(now),
            (false, _) => Some(now + self.hook.settle_ms),
        };
        if let (Some(at), Some((due, _))) = (at, level.due)
            && due <= at
        {
            return;
        }
        if let Some((at, change)) = level.due.take() {
            self.due.remove(&(at, change, subject.clone()));
        }
        if let Some(at) = at {
            self.changes += 1;
            level.due = Some((at, self.changes));
            self.due.insert((at, self.changes, subject));
        } else if !level.is_on && level.told == Some(false) {
            self.levels.remove(&subject);
        }
    }

    fn look_at_all(&mut self, now: Millis) {
        let subjects: Vec<Subject> = self.levels.keys().cloned().collect();
        for subject in subjects {
            self.look(subject, now);
        }
    }

    /// Lets this node tell states from now on, or no longer: then those that wait leave the queue.
    pub(crate) fn set_tells(&mut self, tells: bool, now: Millis) -> Option<Change> {
        if std::mem::replace(&mut self.tells, tells) == tells {
            return None;
        }
        if tells {
            self.look_at_all(now);
            return None;
        }
        self.ended.clear();
        for (_, _, subject) in std::mem::take(&mut self.due) {
            self.levels.entry(subject).or_default().due = None;
        }
        self.leave_to_others()
    }

    /// Takes the states that wait out of the queue; nobody knows whether they are told.
    pub(crate) fn leave_to_others(&mut self) -> Option<Change> {
        let waiting = self.queue.split_off(self.under_way);
        let (states, kept): (Vec<Item>, Vec<Item>) =
            waiting.into_iter().partition(|item| item.event.is_state());
        self.queue.extend(kept);
        self.again = if states.is_empty() { self.again } else { 0 };
        self.leave(states)
    }

    /// Notes that these have left the queue and may not be told.
    fn leave(&mut self, items: Vec<Item>) -> Option<Change> {
        self.doubt_of(&items);
        self.forget(&items).map(Change::Left)
    }

    fn doubt_of(&mut self, items: &[Item]) {
        for (subject, _) in items.iter().filter_map(|item| level_of(&item.event)) {
            self.levels.entry(subject).or_default().told = None;
        }
    }

    /// Whether a state is under way.
    pub(crate) fn has_state_under_way(&self) -> bool {
        self.batch().any(HookEvent::is_state)
    }

    /// Nobody knows what the receiver was told last: what is true is told again.
    pub(crate) fn doubt(&mut self, now: Millis) {
        self.forget_ended();
        for level in self.levels.values_mut() {
            level.told = None;
        }
        self.look_at_all(now);
    }

    /// Forgets which ends it has told: what others believe may be newer.
    pub(crate) fn forget_ended(&mut self) {
        self.ended.clear();
    }

    /// Takes what another node has told, or may have. Returns the ends that it did not hear of.
    pub(crate) fn hear_told(&mut self, states: Vec<Belief>, now: Millis) -> Vec<Belief> {
        let queued = self.queue.iter().filter_map(|item| level_of(&item.event));
        let waiting: BTreeSet<State> = queued.filter(|_| self.tells).collect();
        let mut unheard = Vec::new();
        for (subject, told) in states {
            let event = event_of(subject.clone(), true);
            if !self.hook.filter.needs(&event) || self.tells && told == Some(false) {
                continue;
            }
            if self.tells && !self.levels.contains_key(&subject) {
                if waiting.contains(&(subject.clone(), false)) {
                    continue;
                }
                if self.ended.contains(&subject) {
                    unheard.push((subject, Some(false)));
                    continue;
                }
            }
            let level = self.levels.entry(subject.clone()).or_default();
            if !self.tells && told.is_some() {
                level.told = told;
            }
            self.look(subject, now);
        }
        unheard
    }

    /// Beliefs for other nodes. What waits counts as told here alone, and so does what another one
    /// told; so they are told that these may be.
    pub(crate) fn believed(&self) -> Vec<Belief> {
        let waiting = self.queue.iter().filter_map(|item| level_of(&item.event));
        let waiting: BTreeSet<Subject> = waiting.map(|(subject, _)| subject).collect();
        let belief = |(subject, level): (&Subject, &Level)| match level.told {
            Some(false) => None,
            Some(true) if self.tells && !waiting.contains(subject) => {
                Some((subject.clone(), Some(true)))
            }
            _ => (!level.is_on).then(|| (subject.clone(), None)),
        };
        let believed: Vec<Belief> = self.levels.iter().filter_map(belief).collect();
        let waiting = waiting.into_iter().map(|subject| (subject, None));
        believed.into_iter().chain(waiting).collect()
    }

    /// Queues the states that are due.
    pub(crate) fn queue_due(&mut self, now: Now) -> Vec<Change> {
        let mut changes = Vec::new();
        while self.due.first().is_some_and(|(at, ..)| *at <= now.mono)
            && let Some((_, _, subject)) = self.due.pop_first()
        {
            let Some(level) = self.levels.get_mut(&subject) else {
                continue;
            };
            level.due = None;
            let is_on = level.is_on;
            let event = event_of(subject.clone(), is_on);
            let is_asked = self.hook.filter.asks(&event);
            if is_asked && self.queued_bytes + event.cost_bytes() > QUEUE_BYTES_MAX {
                self.changes += 1;
                let again = (now.mono + ROOM_AGAIN_MS, self.changes);
                level.due = Some(again);
                self.due.insert((again.0, again.1, subject));
                continue;
            }
            level.told = Some(is_on);
            if !is_on {
                self.levels.remove(&subject);
            }
            match is_asked {
                true => changes.extend(self.queue(event, now)),
                false => changes.push(Change::Told(event)),
            }
        }
        changes
    }

    /// Time at which there is something to do without an answer; `None` if only an answer helps.
    pub(crate) fn wakes_at(&self) -> Option<Millis> {
        let due = self.due.first().map(|(at, ..)| *at);
        let sends = { self.under_way == 0 && !self.queue.is_empty() }.then(|| self.sends_at());
        due.into_iter().chain(sends).min()
    }

    fn sends_at(&self) -> Millis {
        let gathers = self.again == 0 && self.queue.len() < BATCH_EVENTS_FULL;
        let until = match gathers {
            true => self.gathers_from + GATHER_MS,
            false => Millis(0),
        };
        until.max(self.pause_until)
    }

    /// Begins the next batch and returns its id, which no other content has; `None` while one is
    /// under way or it is too early.
    pub(crate) fn begin_batch(&mut self, now: Millis) -> Option<String> {
        if self.under_way > 0 || self.queue.is_empty() || self.sends_at() > now {
            return None;
        }
        let mut bytes = 0;
        let fits = |item: &&Item| {
            bytes += item.event.cost_bytes();
            bytes <= BATCH_BYTES_MAX
        };
        self.under_way = match self.again {
            0 => { self.queue.iter().take(BATCH_EVENTS_MAX) }
                .take_while(fits)
                .count()
                .max(1),
            again => again,
        };
        // Numbers come again if the clock goes back, and in other sections for one receiver.
        let mut sent = Vec::new();
        self.hook.name.save(&mut sent);
        { self.queue.iter().take(self.under_way) }.for_each(|item| item.save(&mut sent));
        let hash = HEXLOWER.encode(&digest(&SHA256, &sent).as_ref()[..16]);
        let first = self.queue.front().map_or(0, |item| item.number);
        Some(format!("msg_{first:x}_{hash}"))
    }

    /// Events that are under way.
    pub(crate) fn batch(&self) -> impl Iterator<Item = &HookEvent> {
        let batch = self.queue.iter().take(self.under_way);
        batch.map(|item| &item.event)
    }

    /// Takes the answer to a batch, and returns the events that leave the queue: after a failure
    /// those that are too old, or states that others tell, else all. Adds the states that the
    /// receiver knows now to `told`.
    pub(crate) fn answered(
        &mut self,
        is_taken: bool,
        now: Now,
        told: &mut Vec<Belief>,
    ) -> Option<Change> {
        let batch: Vec<Item> = self.queue.drain(..self.under_way).collect();
        self.under_way = 0;
        self.gathers_from = now.mono;
        if is_taken {
            told.extend(batch.iter().filter_map(|item| belief_of(&item.event)));
            let ends = told
                .iter()
                .filter(|(_, told)| self.tells && *told == Some(false));
            self.ended.extend(ends.map(|(subject, _)| subject.clone()));
            self.ended
                .drain(..self.ended.len().saturating_sub(ENDED_MAX));
        }
        let (gone, kept): (Vec<Item>, Vec<Item>) = match is_taken {
            true => (batch, Vec::new()),
            false => batch.into_iter().partition(|item| {
                let age_ms = now.unix_ms.saturating_sub(item.at_unix_ms);
                match item.event.is_state() {
                    true => !self.tells,
                    // Whose end is left out would be connected for ever.
                    _ if matches!(item.event, HookEvent::Connection(_)) => false,
                    false => age_ms > AGE_MAX_MS,
                }
            }),
        };
        self.again = if gone.is_empty() { kept.len() } else { 0 };
        for item in kept.into_iter().rev() {
            self.queue.push_front(item);
        }
        if is_taken {
            self.failures = 0;
            self.pause_until = Millis(0);
            return self.forget(&gone).map(Change::Gone);
        }
        let old = gone.iter().filter(|item| !item.event.is_state());
        self.left_out.old += old.count() as u64;
        let pause = PAUSE_MIN_MS << self.failures.min(16);
        self.pause_until = now.mono + pause.min(PAUSE_MAX_MS);
        self.failures += 1;
        self.leave(gone)
    }

    pub(crate) const fn failures(&self) -> u32 {
        self.failures
    }

    /// Counts these out of the queue, and returns their numbers, if there are any.
    fn forget(&mut self, gone: &[Item]) -> Option<Vec<u64>> {
        let bytes = gone.iter().map(|item| item.event.cost_bytes());
        self.queued_bytes -= bytes.sum::<usize>();
        let numbers: Vec<u64> = gone.iter().map(|item| item.number).collect();
        (!numbers.is_empty()).then_some(numbers)
    }

    /// Restores a change that a journal has.
    pub(crate) fn restore(&mut self, change: Change) {
        match change {
            Change::Queued(item) => {
                self.restore_told(&item.event);
                self.push(item);
            }
            Change::Told(event) => self.restore_told(&event),
            Change::Gone(numbers) => drop(self.restore_gone(&numbers)),
            Change::Left(numbers) => {
                let left = self.restore_gone(&numbers);
                self.doubt_of(&left);
            }
            Change::Begun(events) => self.again = self.queue.len().min(events as usize),
            Change::Nodes(_) => {}
        }
    }

    /// Takes the events with these numbers out of the queue.
    fn restore_gone(&mut self, numbers: &[u64]) -> Vec<Item> {
        let is_gone = |item: &Item| numbers.binary_search(&item.number).is_ok();
        let (gone, kept): (Vec<Item>, Vec<Item>) = self.queue.drain(..).partition(is_gone);
        self.queue = kept.into();
        self.forget(&gone);
        self.again = 0;
        gone
    }

    fn restore_told(&mut self, event: &HookEvent) {
        if let Some((subject, is_on)) = level_of(event) {
            if !is_on {
                self.ended.push_back(subject.clone());
            }
            self.levels.entry(subject).or_default().told = Some(is_on);
        }
    }

    /// Makes all states due that differ from what was told, once a journal's changes are restored.
    /// Their time to settle begins now.
    pub(crate) fn settle_all(&mut self, now: Millis) {
        // Some may have come before those of the journal.
        { self.queue.make_contiguous() }.sort_unstable_by_key(|item| item.number);
        self.look_at_all(now);
        self.gathers_from = now;
    }

    /// Makes everything due now, and from now on at once.
    pub(crate) fn hurry(&mut self, now: Millis) {
        self.hook.settle_ms = 0;
        for (_, change, subject) in std::mem::take(&mut self.due) {
            if let Some(level) = self.levels.get_mut(&subject) {
                level.due = Some((now, change));
            }
            self.due.insert((now, change, subject));
        }
    }

    /// Returns the fewest changes from which [`Self::restore`] makes this state.
    pub(crate) fn changes(&self) -> impl Iterator<Item = Change> {
        // One that is to be told here needs no record: it holds.
        let told = self.levels.iter().filter(|(_, level)| match level.told {
            Some(told) => told,
            None => !(self.tells && level.is_on),
        });
        let told = told.map(|(subject, _)| (subject, true));
        let ended = self.ended.iter().map(|subject| (subject, false));
        let told = ended.chain(told);
        let told = told.map(|(subject, is_on)| Change::Told(event_of(subject.clone(), is_on)));
        let begun = self.under_way.max(self.again) as u64;
        told.chain(self.queue.iter().cloned().map(Change::Queued))
            .chain((begun > 0).then_some(Change::Begun(begun)))
    }
}
