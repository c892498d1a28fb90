//! One channel's publications on their way to its members.
//!
//! A fan-out goes round and round over the members: a member that is visited gets everything
//! that was published since its last visit. So a publication reaches all members within one
//! round of its arrival, wherever the fan-out stands then, and the busier the channel, the
//! more each visit carries.
//!
//! Owns the publications that some member still has to get. Never: the members' list.
//!
//! Publications are numbered as they arrive. A member's *mark* says that it has
//! everything below that number. Members with one mark stand side by side, so marks
//! are kept as runs: `behind` for the members that were visited in this round (they
//! stand first), `ahead` for those that were not.
//!
//! In a channel with a delay the fan-out rests before each round, so that publications gather and
//! a visit carries several of them. A channel that conflates ([`Rules::conflates`]) keeps only the
//! newest of them: it replaces the one before it as soon as it comes, so a visit
//! carries one publication, and the queue of a busy channel is no longer than that of a quiet one.
//!
//! Invariants
//! - The counts of all runs add up to the members, in their order; the next visit is to
//!   the first member of `ahead`.
//! - Marks do not fall along `behind`, nor along `ahead`.
//! - A joining connection has everything below its mark and is not a member yet. At the end of a
//!   round it gets the rest and becomes the last member.
//! - `bytes` is the cost of all of `publications`.
//! - So a member gets exactly what was published after it joined, in order, once; where the channel
//!   conflates, the newest of it in each round.
//! - Marks may be below `first` only in a channel that conflates: the missing ones are dropped.

use std::collections::VecDeque;
use std::sync::Arc;

use throng_broker::Overflow;
use throng_types::{Millis, Publication, PublicationKind};

use crate::channel::Member;
use crate::load::Load;

/// Publications that one visit carries.
const VISIT_MAX: u64 = 256;
/// Bytes of data that one visit carries, unless a single publication has more.
const VISIT_BYTES_MAX: usize = 256 << 10;
/// Items for which a fan-out that is over keeps room, for the next one.
const KEPT: usize = 8;

/// A member that joined during a fan-out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Joining {
    pub(crate) member: Member,
    /// Number below which it has everything.
    pub(crate) mark: u64,
}

/// Neighbours with the same mark.
#[derive(Clone, Copy, Debug)]
struct Run {
    count: u32,
    mark: u64,
}

/// Neighbours that are visited next, and their mark.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visits {
    /// The place of the first.
    pub(crate) at: u32,
    pub(crate) count: u32,
    pub(crate) mark: u64,
}

/// Appends a run of members.
fn extend(runs: &mut VecDeque<Run>, count: u32, mark: u64) {
    match runs.back_mut() {
        _ if count == 0 => {}
        Some(last) if last.mark == mark => last.count += count,
        _ => runs.push_back(Run { count, mark }),
    }
}

/// Whether a fan-out lets publications gather.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Rounds follow each other without a rest.
    #[default]
    No,
    /// A rest begins with the next turn.
    Due,
    /// The fan-out rests until this time.
    Until(Millis),
}

/// Options of the channel that concern its fan-out.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rules {
    pub(crate) overflow: Overflow,
    /// Milliseconds that publications gather before each round.
    pub(crate) delay_ms: u32,
    /// Whether publications may be sent as the difference from the one before.
    pub(crate) delta: bool,
    /// Label under which its namespace is counted.
    pub(crate) label: u8,
}

impl Rules {
    /// Whether only the newest publication of each window is delivered. Differences need them all.
    pub(crate) fn conflates(self) -> bool {
        self.delay_ms > 0 && self.overflow == Overflow::LatestOnly && !self.delta
    }
}

/// One channel's publications that some member still has to get.
#[derive(Default)]
pub(crate) struct Fanout {
    pub(crate) channel: u32,
    pub(crate) rules: Rules,
    rest: Rest,
    pub(crate) joining: Vec<Joining>,
    /// Bound: two runs per publication.
    behind: VecDeque<Run>,
    /// Bound: as those behind.
    ahead: VecDeque<Run>,
    visited: u32,
    /// Publications that some member lacks; the first has the number `first`. Queue: `fan-out`.
    publications: VecDeque<Arc<Publication>>,
    bytes: usize,
    first: u64,
    /// The publication before the first of them, in channels with deltas.
    before: Option<Arc<Publication>>,
    /// Publications of the last visit, and their wire forms: the next visit mostly carries the
    /// same.
    load: Load,
}

impl Fanout {
    /// Starts a fan-out over so many members that have everything. `before` is the publication
    /// before the first one to come.
    pub(crate) fn begin(
        &mut self,
        channel: u32,
        rules: Rules,
        members: u32,
        before: Option<Arc<Publication>>,
    ) {
        debug_assert!(self.is_over() && self.ahead.is_empty() && self.behind.is_empty());
        (self.channel, self.rules, self.before) = (channel, rules, before);
        self.round_is_over();
        (self.visited, self.bytes, self.first) = (0, 0, 0);
        extend(&mut self.ahead, members, 0);
    }

    /// Ends it, and keeps some room for the next one.
    pub(crate) fn end(&mut self) {
        self.load.clear();
        self.load.publications.shrink_to(KEPT);
        self.before = None;
        self.publications.clear();
        self.publications.shrink_to(KEPT);
        for runs in [&mut self.behind, &mut self.ahead] {
            runs.clear();
            runs.shrink_to(KEPT);
        }
        self.joining = Vec::new();
    }

    /// Prepares the next round; in a channel with a delay it waits for a rest. True in such a
    /// channel.
    pub(crate) fn round_is_over(&mut self) -> bool {
        let rests = self.rules.delay_ms > 0;
        self.rest = if rests { Rest::Due } else { Rest::No };
        rests
    }

    /// Begins a rest if one is due; returns the time of its end.
    pub(crate) fn begin_rest(&mut self, now: Millis) -> Option<Millis> {
        if self.rest != Rest::Due || self.is_full() {
            return None;
        }
        let until = now + u64::from(self.rules.delay_ms);
        self.rest = Rest::Until(until);
        Some(until)
    }

    /// Whether it rests, or does as soon as its turn comes.
    pub(crate) fn rests(&self) -> bool {
        self.rest != Rest::No
    }

    /// When the rest ends, while it lasts.
    pub(crate) const fn rests_until(&self) -> Option<Millis> {
        match self.rest {
            Rest::Until(until) => Some(until),
            Rest::No | Rest::Due => None,
        }
    }

    /// Ends the current rest.
    pub(crate) const fn end_rest(&mut self) {
        self.rest = Rest::No;
    }

    /// Whether the waiting publications exceed one visit, so that a rest gains nothing. A single
    /// newest publication waits for its window, at any size.
    pub(crate) fn is_full(&self) -> bool {
        let is_newest_alone = self.rules.conflates() && self.publications.len() == 1;
        let is_much = self.publications.len() as u64 >= VISIT_MAX || self.bytes >= VISIT_BYTES_MAX;
        is_much && !is_newest_alone
    }

    /// Publications that some member lacks.
    pub(crate) fn waiting(&self) -> usize {
        self.publications.len()
    }

    /// Cost of these publications in bytes.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether a publication replaces those before it.
    pub(crate) fn conflates(&self, publication: &Publication) -> bool {
        self.rules.conflates() && publication.told == PublicationKind::Data
    }

    /// Drops publications that a newer one replaces; returns the number of deliveries saved.
    /// Dropped publications with tags go to `carried`.
    pub(crate) fn forget_older(&mut self, carried: &mut Vec<Arc<Publication>>) -> u64 {
        let mut saved = 0;
        let is_data = |known: &Arc<Publication>| known.told == PublicationKind::Data;
        while self.publications.front().is_some_and(is_data) {
            saved += self.lack(self.first);
            let tagged = |it: &Arc<Publication>| it.tags.is_some();
            carried.extend(self.forget_below(self.first + 1).filter(tagged));
        }
        saved
    }

    /// Appends a publication as the newest.
    pub(crate) fn push(&mut self, publication: Arc<Publication>) {
        self.bytes += publication.cost_bytes();
        self.publications.push_back(publication);
    }

    /// Members, joining ones too, that lack the publication with a number.
    fn lack(&self, number: u64) -> u64 {
        let runs = self.behind.iter().chain(&self.ahead);
        let members = runs.filter(|run| run.mark <= number);
        let joining = self.joining.iter().filter(|it| it.mark <= number).count();
        members.map(|run| u64::from(run.count)).sum::<u64>() + joining as u64
    }

    /// Takes publications below a number out.
    fn forget_below(&mut self, number: u64) -> impl Iterator<Item = Arc<Publication>> {
        let count = usize::try_from(number.saturating_sub(self.first)).unwrap_or(usize::MAX);
        let count = count.min(self.publications.len());
        self.first += count as u64;
        let bytes = &mut self.bytes;
        let forgotten = self.publications.drain(..count);
        forgotten.inspect(|publication| *bytes -= publication.cost_bytes())
    }

    /// Number that the next publication will get, which is the mark of a connection that joins now.
    pub(crate) fn next_number(&self) -> u64 {
        self.first + self.publications.len() as u64
    }

    /// The members to visit next, all with one mark; `None` at the end of a round.
    ///
    /// Members that lack nothing are passed over, however many they are.
    pub(crate) fn next_visits(&mut self) -> Option<Visits> {
        let top = self.next_number();
        while let Some(run) = self.ahead.front().copied() {
            if run.mark < top {
                return Some(Visits {
                    at: self.visited,
                    count: run.count,
                    mark: run.mark,
                });
            }
            self.ahead.pop_front();
            self.visited += run.count;
            extend(&mut self.behind, run.count, run.mark);
        }
        None
    }

    /// Publications due to a member with this mark, up to the limit of one visit.
    #[inline]
    pub(crate) fn load(&mut self, mark: u64) -> &mut Load {
        let mark = mark.max(self.first);
        let end = self.next_number().min(mark + VISIT_MAX);
        let same = self.load.span.start == mark
            && (self.load.span.end == end || self.load_is_full(mark, end));
        if !same {
            self.fill_load(mark);
        }
        &mut self.load
    }

    /// Not inlined: most members get the same load as the one before them.
    #[inline(never)]
    fn fill_load(&mut self, mark: u64) {
        let from = usize::try_from(mark - self.first).unwrap_or(usize::MAX);
        let from = from.min(self.publications.len());
        let base = { self.rules.delta }.then(|| self.last_data(from)).flatten();
        self.load.clear();
        self.load.base = base;
        let mut bytes = 0;
        for publication in self.publications.range(from..) {
            bytes += publication.payload.bytes.len();
            let enough = !self.load.publications.is_empty() && bytes > VISIT_BYTES_MAX;
            if enough || self.load.publications.len() as u64 == VISIT_MAX {
                break;
            }
            self.load.publications.push(publication.clone());
        }
        self.load.span = mark..mark + self.load.publications.len() as u64;
    }

    /// The last data before a place among the publications.
    fn last_data(&self, place: usize) -> Option<Arc<Publication>> {
        let mut earlier = self.publications.range(..place).rev();
        let found = earlier.find(|publication| publication.told == PublicationKind::Data);
        found.or(self.before.as_ref()).cloned()
    }

    /// Whether the load for a mark ended before `end` because it had bytes enough.
    fn load_is_full(&self, mark: u64, end: u64) -> bool {
        let next = self.load.span.end;
        let bytes = self
            .load
            .publications
            .iter()
            .map(|publication| publication.payload.bytes.len());
        let more = usize::try_from(next - self.first)
            .ok()
            .and_then(|at| self.publications.get(at))
            .map_or(0, |publication| publication.payload.bytes.len());
        mark < next && next < end && bytes.sum::<usize>() + more > VISIT_BYTES_MAX
    }

    /// Publications that the last visit carried.
    pub(crate) fn load_len(&self) -> u64 {
        self.load.publications.len() as u64
    }

    /// A member that got the load.
    pub(crate) fn after_load(&self, member: Member) -> Member {
        match self.rules.delta && self.load.has_data() {
            true => member.with_base(),
            false => member,
        }
    }

    /// Newest publication, in channels with deltas.
    pub(crate) fn newest(&self) -> Option<Arc<Publication>> {
        self.last_data(self.publications.len())
    }

    /// Notes that so many members of [`Fanout::next_visits`] took the load.
    pub(crate) fn took_load(&mut self, count: u32) {
        if let Some(run) = self.ahead.front_mut() {
            run.count -= count;
            if run.count == 0 {
                self.ahead.pop_front();
            }
            self.visited += count;
            extend(&mut self.behind, count, self.load.span.end);
        }
    }

    /// Whether no member lacks anything, as far as that is seen at once. Only between rounds.
    pub(crate) fn all_have_all(&self) -> bool {
        let top = self.next_number();
        self.ahead.len() == 1 && self.ahead.iter().all(|run| run.mark >= top)
    }

    /// Ends a round: all visited members are to be visited again.
    pub(crate) fn next_round(&mut self) {
        debug_assert!(
            self.ahead.is_empty(),
            "a round ends when everybody was visited"
        );
        std::mem::swap(&mut self.behind, &mut self.ahead);
        self.visited = 0;
    }

    /// Notes a new last member that took the load. Only between rounds.
    pub(crate) fn admitted(&mut self, mark: u64) {
        debug_assert_eq!(self.visited, 0, "members are added between rounds");
        extend(&mut self.ahead, 1, mark);
    }

    /// Removes the member at a place. Returns the places whose members, in this order, fill the
    /// hole that the one before left; the last of them is the end of the list.
    pub(crate) fn remove(&mut self, at: u32) -> Vec<u32> {
        let mut moves = Vec::new();
        let (mut start, mut found) = (0, false);
        for run in self.behind.iter_mut().chain(&mut self.ahead) {
            let end = start + run.count;
            if !found && at < end {
                found = true;
                run.count -= 1;
            }
            if found {
                moves.push(end - 1);
            }
            start = end;
        }
        if at < self.visited {
            self.visited -= 1;
        }
        self.behind.retain(|run| run.count > 0);
        self.ahead.retain(|run| run.count > 0);
        moves
    }

    /// Publications with tags that some member lacks.
    pub(crate) fn tagged(&self) -> impl Iterator<Item = Arc<Publication>> {
        let tagged = { self.publications.iter() }.filter(|known| known.tags.is_some());
        tagged.cloned()
    }

    /// Moves publications that all members have to `carried`.
    pub(crate) fn forget(&mut self, carried: &mut Vec<Arc<Publication>>) {
        let marks = [self.behind.front(), self.ahead.front()]
            .into_iter()
            .flatten();
        let marks = marks
            .map(|run| run.mark)
            .chain(self.joining.iter().map(|joining| joining.mark));
        let lowest = marks.min().unwrap_or_else(|| self.next_number());
        if self.rules.delta {
            let place = usize::try_from(lowest - self.first).unwrap_or(usize::MAX);
            self.before = self.last_data(place.min(self.publications.len()));
        }
        carried.extend(self.forget_below(lowest));
        debug_assert!(!self.publications.is_empty() || self.bytes == 0);
    }

    /// Whether all members have everything.
    pub(crate) fn is_over(&self) -> bool {
        self.publications.is_empty() && self.joining.is_empty()
    }
}
