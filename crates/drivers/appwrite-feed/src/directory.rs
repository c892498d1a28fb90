//! Who is this? Asked by sessions, answered by Appwrite, a few questions at a time.
//!
//! Owns: the queues of questions and the threads that ask. Equal questions are asked once until
//! they are answered, whether their askers are on one shard or on several.
//!
//! Rule for "full": a question beyond the bound is refused, and its client told to come back.
//!
//! Questions about changes go first. Those who want to come in and those who are looked up again
//! take turns, and two threads never serve the former, so that bad credentials delay nobody who is
//! here.
//!
//! Invariants
//! - A change of a user is noted ([`Known::changed`]) before the shards hear of it.
//! - An answer whose question began before such a change reaches no shard; it is asked for again.
//!   The check and the telling are one step with regard to events: both happen between two of them.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io, thread};

use throng_gateway_appwrite::{Found, Haste, Lookup, News, Part, Refused};
use throng_metrics::Counter;
use throng_types::ConnId;

use crate::known::Known;
use crate::question::Question;
use crate::sampled::Sampled;
use crate::work::Work;
use crate::{AccountApi, Feed, Meter};

/// How often an answer that is too old is asked for again.
const TRIES: usize = 3;
/// Threads that those who want to come in do not occupy.
const KEPT_FREE: usize = 2;

/// Bounds of a directory.
#[derive(Clone, Copy, Debug)]
pub struct DirectoryOptions {
    /// Questions to Appwrite at the same time, each with a thread.
    pub threads: usize,
    /// Different questions of one haste that may wait.
    pub waiting_max: usize,
    /// Answers that are remembered.
    pub answers_max: usize,
    /// How long an old answer is good enough for somebody who comes in, while there is no new one.
    pub grace: Duration,
}

impl Default for DirectoryOptions {
    fn default() -> Self {
        Self {
            threads: 8,
            waiting_max: 65_536,
            answers_max: 16_384,
            grace: Duration::from_secs(120),
        }
    }
}

/// Who gets the answer to a question.
type Askers = Vec<(ConnId, u32)>;

/// Questions in order.
#[derive(Default)]
struct Lanes {
    /// Bound: `waiting_max`. Queue: `look-ups`.
    changes: VecDeque<Question>,
    /// Bound: `waiting_max`.
    opens: VecDeque<Question>,
    /// Bound: `waiting_max`.
    rechecks: VecDeque<Question>,
    recheck_next: bool,
}

impl Lanes {
    fn lane(&mut self, haste: Haste) -> &mut VecDeque<Question> {
        match haste {
            Haste::Change => &mut self.changes,
            Haste::Open => &mut self.opens,
            Haste::Recheck => &mut self.rechecks,
        }
    }

    fn next(&mut self, with_opens: bool) -> Option<Question> {
        if let Some(question) = self.changes.pop_front() {
            return Some(question);
        }
        if !with_opens {
            return self.rechecks.pop_front();
        }
        self.recheck_next = !self.recheck_next;
        let mut lanes = [&mut self.opens, &mut self.rechecks];
        if self.recheck_next {
            lanes.reverse();
        }
        lanes.into_iter().find_map(VecDeque::pop_front)
    }
}

#[derive(Default)]
struct State {
    lanes: Lanes,
    /// Who waits, by question. Those who come later for the same join, until it is answered.
    waiting: HashMap<Question, Askers>,
}

/// Answers look-ups from the cache or from Appwrite.
pub struct Directory {
    api: AccountApi,
    feed: Arc<Feed>,
    known: Arc<Known>,
    meter: Meter,
    options: DirectoryOptions,
    work: Work<State>,
    failures: Sampled,
}

impl Directory {
    /// Starts the threads.
    ///
    /// # Errors
    /// If the kernel gives none.
    pub fn start(
        api: AccountApi,
        options: DirectoryOptions,
        feed: Arc<Feed>,
        meter: Meter,
    ) -> io::Result<Arc<Self>> {
        let known = Arc::new(Known::new(options.answers_max, options.grace));
        feed.also_tell(&known);
        let directory = Arc::new(Self {
            api,
            feed,
            known,
            meter,
            options,
            work: Work::default(),
            failures: Sampled::default(),
        });
        let threads = options.threads.max(1);
        for number in 0..threads {
            let with_opens = number >= KEPT_FREE || threads <= KEPT_FREE;
            let directory = directory.clone();
            thread::Builder::new()
                .name(format!("appwrite-who-{number}"))
                .spawn(move || directory.run(with_opens))?;
        }
        Ok(directory)
    }

    /// Takes a question. The answer comes as [`News::Found`], even if it is known already.
    ///
    /// # Errors
    /// [`Refused`] if too many wait.
    pub fn ask(&self, lookup: Lookup) -> Result<(), Refused> {
        let asker = (lookup.conn, lookup.token);
        let question = Question {
            project: lookup.project,
            credential: lookup.credential,
            part: lookup.part,
        };
        let mut state = self.work.lock();
        if let Some(askers) = state.waiting.get_mut(&question) {
            askers.push(asker);
            return Ok(());
        }
        let lane = state.lanes.lane(lookup.haste);
        if lane.len() >= self.options.waiting_max {
            drop(state);
            self.meter.count(Counter::AppwriteLookupsRefused);
            return Err(Refused);
        }
        lane.push_back(question.clone());
        state.waiting.insert(question, vec![asker]);
        drop(state);
        // A thread that is kept free may not be the one to do it.
        self.work.wake_all();
        Ok(())
    }

    /// Lets all that is remembered be too old.
    #[cfg(test)]
    fn age(&self) {
        self.known.notes().cache.age();
    }

    fn run(&self, with_opens: bool) {
        let take = |state: &mut State| state.lanes.next(with_opens);
        while let Some(question) = self.work.next(&self.feed, take) {
            self.serve(&question);
        }
    }

    /// Finds an answer that nothing has overtaken, and tells it.
    fn serve(&self, question: &Question) {
        for tries_left in (0..TRIES).rev() {
            let began = self.known.notes().changes.now();
            let found = self.find(question);
            let told = self.feed.between_events(|| {
                let mut notes = self.known.notes();
                let whose = match &found {
                    Found::User(user) => Some(&user.user_id),
                    Found::Changed(change) => Some(&change.user_id),
                    Found::Nobody | Found::Expired(_) | Found::Failed => None,
                };
                let is_old =
                    whose.is_some_and(|user| notes.changes.since(began, &question.project, user));
                if is_old && tries_left > 0 {
                    return false;
                }
                let found = if is_old { Found::Failed } else { found };
                if question.part == Part::Everything {
                    notes.cache.put(question.key(), &found, Instant::now());
                }
                drop(notes);
                let askers = self
                    .work
                    .lock()
                    .waiting
                    .remove(question)
                    .unwrap_or_default();
                for (conn, token) in askers {
                    let found = found.clone();
                    let news = News::Found { conn, token, found };
                    self.feed.tell(conn.shard().index(), news);
                }
                true
            });
            if told {
                return;
            }
        }
    }

    /// What is known, or what Appwrite says.
    fn find(&self, question: &Question) -> Found {
        let may_know = question.part == Part::Everything;
        if may_know {
            let known = self
                .known
                .notes()
                .cache
                .get(&question.key(), Instant::now());
            if let Some(found) = known {
                self.meter.count(Counter::AppwriteLookupsCached);
                return found;
            }
        }
        match self.api.identify(question) {
            Ok(found) => {
                self.meter.count(match found {
                    Found::User(_) | Found::Changed(_) => Counter::AppwriteLookupsUser,
                    _ => Counter::AppwriteLookupsNobody,
                });
                found
            }
            Err(error) => {
                self.meter.count(Counter::AppwriteLookupsFailed);
                let project = &*question.project;
                if let Some(unsaid) = self.failures.next(Instant::now()) {
                    tracing::warn!(%error, project, unsaid, "Appwrite does not say who a \
                                        client is");
                }
                let known = may_know
                    .then(|| {
                        self.known
                            .notes()
                            .cache
                            .old(&question.key(), Instant::now())
                    })
                    .flatten();
                known.unwrap_or(Found::Failed)
            }
        }
    }
}

#[cfg(test)]
mod tests;
