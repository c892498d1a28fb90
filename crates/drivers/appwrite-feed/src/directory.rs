//! Who is this? Asked by sessions, answered by Appwrite, a few questions at a time.
//!
//! Owns: the queue of questions, the threads that ask, the answers of late. Equal questions that
//! wait at the same time are asked once.
//!
//! Rule for "full": a question beyond the bound is refused, and its client told to come back.
//!
//! An answer may be older than a change that the feed has told of meanwhile. So every change of a
//! user is noted ([`Directory::changed`]) before the shards hear of it, and an answer whose
//! question began before it is thrown away and asked for again.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

use throng_gateway_appwrite::{Found, Lookup, News, Refused};
use throng_metrics::Counter;
use throng_types::ConnId;

use crate::cache::{Cache, Key};
use crate::{AccountApi, Feed, Meter};

/// How often an answer that is too old is asked for again.
const TRIES: usize = 3;
/// Between two looks of an idle thread whether the server has ended.
const LOOK: Duration = Duration::from_secs(1);
/// Changes that are remembered; the oldest are of no use once every question from before them is
/// answered.
const CHANGES_MAX: usize = 4096;

/// Bounds of a directory.
#[derive(Clone, Copy, Debug)]
pub struct DirectoryOptions {
    /// Questions to Appwrite at the same time, each with a thread.
    pub threads: usize,
    /// Different questions that may wait.
    pub waiting_max: usize,
    /// Answers that are remembered.
    pub answers_max: usize,
}

impl Default for DirectoryOptions {
    fn default() -> Self {
        Self {
            threads: 8,
            waiting_max: 65_536,
            answers_max: 16_384,
        }
    }
}

/// Who gets the answer to a question.
type Askers = Vec<(ConnId, u32)>;

struct State {
    cache: Cache,
    /// What is to be asked, in order. Bound: `waiting_max`. Queue: `look-ups`.
    queue: VecDeque<Lookup>,
    /// Who waits, by question; those to come later for the same join.
    waiting: HashMap<Key, Askers>,
    /// Counts changes.
    clock: u64,
    /// When users last changed, by project and id, in counts of `clock`.
    changes: HashMap<(Box<str>, Box<str>), u64>,
    changes_in_order: BTreeMap<u64, (Box<str>, Box<str>)>,
}

/// Answers look-ups from the cache or from Appwrite.
pub struct Directory {
    api: AccountApi,
    feed: Arc<Feed>,
    meter: Meter,
    options: DirectoryOptions,
    state: Mutex<State>,
    work: Condvar,
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
        let directory = Arc::new(Self {
            api,
            feed,
            meter,
            options,
            state: Mutex::new(State {
                cache: Cache::new(options.answers_max),
                queue: VecDeque::new(),
                waiting: HashMap::new(),
                clock: 0,
                changes: HashMap::new(),
                changes_in_order: BTreeMap::new(),
            }),
            work: Condvar::new(),
        });
        directory.feed.also_tell(&directory);
        for number in 0..options.threads.max(1) {
            let directory = directory.clone();
            thread::Builder::new()
                .name(format!("appwrite-who-{number}"))
                .spawn(move || directory.run())?;
        }
        Ok(directory)
    }

    /// Takes a question. The answer comes as [`News::Found`], even if it is known already.
    ///
    /// # Errors
    /// [`Refused`] if too many wait.
    pub fn ask(&self, lookup: Lookup) -> Result<(), Refused> {
        let key = (lookup.project.clone(), lookup.credential.clone());
        let asker = (lookup.conn, lookup.token);
        let mut state = self.state();
        // A fresh answer must be asked for after this moment, so it joins none under way.
        if !lookup.fresh
            && let Some(askers) = state.waiting.get_mut(&key)
        {
            askers.push(asker);
            return Ok(());
        }
        if state.queue.len() >= self.options.waiting_max {
            drop(state);
            self.meter.count(Counter::AppwriteLookupsRefused);
            return Err(Refused);
        }
        if !lookup.fresh {
            state.waiting.insert(key, Vec::new());
        }
        state.queue.push_back(lookup);
        drop(state);
        self.work.notify_one();
        Ok(())
    }

    /// A user is not what it was. To be called before the shards hear of it.
    pub fn changed(&self, project: &str, user_id: &str) {
        let mut state = self.state();
        state.cache.forget(project, user_id);
        state.clock += 1;
        let (clock, key) = (state.clock, (Box::from(project), Box::from(user_id)));
        if let Some(before) = state.changes.insert(key.clone(), clock) {
            state.changes_in_order.remove(&before);
        }
        state.changes_in_order.insert(clock, key);
        if state.changes_in_order.len() > CHANGES_MAX
            && let Some((_, oldest)) = state.changes_in_order.pop_first()
        {
            state.changes.remove(&oldest);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // What is under the lock is whole between any two statements.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        while let Some(lookup) = self.next() {
            let key = (lookup.project.clone(), lookup.credential.clone());
            let cached = match lookup.fresh {
                true => None,
                false => self.state().cache.get(&key, Instant::now()),
            };
            let found = match cached {
                Some(found) => {
                    self.meter.count(Counter::AppwriteLookupsCached);
                    found
                }
                None => self.find(&lookup, &key),
            };
            let mut askers = match lookup.fresh {
                true => Vec::new(),
                false => self.state().waiting.remove(&key).unwrap_or_default(),
            };
            askers.push((lookup.conn, lookup.token));
            for (conn, token) in askers {
                let found = found.clone();
                let news = News::Found { conn, token, found };
                self.feed.tell(conn.shard().index(), news);
            }
        }
    }

    /// The next question; `None` when the server has ended.
    fn next(&self) -> Option<Lookup> {
        let mut state = self.state();
        loop {
            if self.feed.is_over() {
                return None;
            }
            if let Some(lookup) = state.queue.pop_front() {
                return Some(lookup);
            }
            let woken = self.work.wait_timeout(state, LOOK);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Asks Appwrite, until the answer is newer than the last change.
    fn find(&self, lookup: &Lookup, key: &Key) -> Found {
        for _ in 0..TRIES {
            let began = self.state().clock;
            let found = match self.api.identify(lookup) {
                Ok(found) => found,
                Err(error) => {
                    self.meter.count(Counter::AppwriteLookupsFailed);
                    tracing::warn!(%error, project = &*lookup.project, "Appwrite does not say \
                                        who a client is");
                    return Found::Failed;
                }
            };
            self.meter.count(match found {
                Found::User(_) => Counter::AppwriteLookupsUser,
                _ => Counter::AppwriteLookupsNobody,
            });
            let mut state = self.state();
            let changed = match &found {
                Found::User(user) => {
                    let whom = (lookup.project.clone(), user.user_id.as_str().into());
                    state.changes.get(&whom).is_some_and(|&at| at > began)
                }
                _ => false,
            };
            if !changed {
                state.cache.put(key.clone(), &found, Instant::now());
                return found;
            }
        }
        Found::Failed
    }
}

#[cfg(test)]
mod tests;
