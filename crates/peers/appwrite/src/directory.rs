//! Look-ups of sessions, a few of which are under way at the same time.
//!
//! Owns: the queues of questions and who waits for which. Equal questions are asked once until
//! they are answered, whether their askers are on one shard or on several.
//!
//! Rule for "full": a question beyond the bound is refused, and its client told to come back.
//!
//! Questions about changes go first. Those who want to come in and those who are looked up again
//! take turns, and the former never take the last [`KEPT_FREE`] places, so that bad credentials
//! delay nobody who is here.
//!
//! Invariants
//! - A change of a user is noted ([`Known::changed`]) before the shards hear of it.
//! - An answer whose question began before such a change reaches no shard; it is asked for again.
//!   The caller makes [`Directory::settle`] and the telling one step with regard to events: both
//!   happen between two of them.

use std::collections::{BTreeMap, VecDeque};

use throng_appwrite::{Lookup, LookupPart, LookupPriority, LookupReply, QueueFull};
use throng_http1::origin::OriginRequest;
use throng_types::{ConnId, Millis};

use crate::api::{Answer, Api, ApiError};
use crate::changes::Known;
use crate::identify::{Identify, Note, Question, Step};

/// Tries of a question whose answers are too old, the first one included.
const TRIES: usize = 3;
/// Places that clients which connect do not occupy.
const KEPT_FREE: usize = 2;

#[derive(Clone, Copy, Debug)]
pub struct DirectoryOptions {
    /// Questions to Appwrite at the same time.
    pub asked_max: usize,
    /// Different questions of one haste that may wait.
    pub waiting_max: usize,
    pub answers_max: usize,
    /// Time for which an expired answer serves while Appwrite does not answer, in milliseconds.
    pub grace_ms: u64,
}

impl Default for DirectoryOptions {
    fn default() -> Self {
        Self {
            asked_max: 8,
            waiting_max: 65_536,
            answers_max: 16_384,
            grace_ms: 120_000,
        }
    }
}

/// The connections that get the answer to a question, with the number that each gave.
pub(crate) type Askers = Vec<(ConnId, u32)>;

/// Questions that wait, in order, by priority.
#[derive(Default)]
struct Lanes {
    /// Bound: `waiting_max`. Queue: `look-ups`.
    changes: VecDeque<Question>,
    /// Questions of connections that open. Bound: `waiting_max`.
    opens: VecDeque<Question>,
    /// Questions of repeated checks. Bound: `waiting_max`.
    rechecks: VecDeque<Question>,
    recheck_next: bool,
}

impl Lanes {
    fn lane(&mut self, haste: LookupPriority) -> &mut VecDeque<Question> {
        match haste {
            LookupPriority::Change => &mut self.changes,
            LookupPriority::Open => &mut self.opens,
            LookupPriority::Recheck => &mut self.rechecks,
        }
    }

    /// The next question, and whether it is one of a client that connects.
    fn next(&mut self, with_opens: bool) -> Option<(Question, bool)> {
        if let Some(question) = self.changes.pop_front() {
            return Some((question, false));
        }
        if !with_opens {
            return self.rechecks.pop_front().map(|question| (question, false));
        }
        self.recheck_next = !self.recheck_next;
        let mut lanes = [(&mut self.opens, true), (&mut self.rechecks, false)];
        if self.recheck_next {
            lanes.reverse();
        }
        let mut lanes = lanes.into_iter();
        lanes.find_map(|(lane, is_open)| Some((lane.pop_front()?, is_open)))
    }
}

/// Questions that wait, and how many are asked.
pub(crate) struct Directory {
    options: DirectoryOptions,
    lanes: Lanes,
    /// The askers of each question; later ones join until it is answered. Bound: what waits and
    /// what is under way.
    waiting: BTreeMap<Question, Askers>,
    /// Questions under way, and those of them that want to come in.
    asked: usize,
    opens: usize,
}

pub(crate) enum Settled {
    /// Tell these askers this answer, before any other event.
    Told(LookupReply, Askers),
    /// The answer is too old: [`Inquiry::begin`] it again.
    Again(Box<Inquiry>),
}

impl Directory {
    #[must_use]
    pub(crate) fn new(options: DirectoryOptions) -> Self {
        Self {
            options,
            lanes: Lanes::default(),
            waiting: BTreeMap::new(),
            asked: 0,
            opens: 0,
        }
    }

    /// Takes a question.
    ///
    /// # Errors
    /// [`QueueFull`] if too many wait.
    pub(crate) fn ask(&mut self, lookup: Lookup) -> Result<(), QueueFull> {
        let asker = (lookup.conn, lookup.token);
        let question = Question {
            project: lookup.project,
            credential: lookup.credential,
            part: lookup.part,
        };
        if let Some(askers) = self.waiting.get_mut(&question) {
            askers.push(asker);
            return Ok(());
        }
        let lane = self.lanes.lane(lookup.haste);
        if lane.len() >= self.options.waiting_max {
            return Err(QueueFull);
        }
        lane.push_back(question.clone());
        self.waiting.insert(question, vec![asker]);
        Ok(())
    }

    /// The next question that may be asked now; [`Directory::settle`] ends it.
    pub(crate) fn take(&mut self) -> Option<Box<Inquiry>> {
        let places = self.options.asked_max.max(1);
        let for_opens = match places {
            ..=KEPT_FREE => places,
            _ => places - KEPT_FREE,
        };
        if self.asked >= places {
            return None;
        }
        let (question, is_open) = self.lanes.next(self.opens < for_opens)?;
        self.asked += 1;
        self.opens += usize::from(is_open);
        Some(Box::new(Inquiry {
            identify: Identify::new(question),
            is_open,
            tries_left: TRIES - 1,
            began: 0,
        }))
    }

    /// Ends a question, unless something has changed meanwhile.
    pub(crate) fn settle(
        &mut self,
        mut inquiry: Box<Inquiry>,
        outcome: Outcome,
        known: &mut Known,
        now: Millis,
    ) -> Settled {
        let question = &inquiry.identify.question;
        let is_fresh = !outcome.is_cached && outcome.fault.is_none();
        let whose = match &outcome.found {
            LookupReply::User(user) => Some(&user.user_id),
            LookupReply::Changed(change) => Some(&change.user_id),
            LookupReply::Nobody | LookupReply::Expired(_) | LookupReply::Failed => None,
        };
        let changes = &known.changes;
        let is_old =
            whose.is_some_and(|user| changes.since(inquiry.began, &question.project, user));
        if is_old && inquiry.tries_left > 0 {
            inquiry.tries_left -= 1;
            return Settled::Again(inquiry);
        }
        let found = if is_old {
            LookupReply::Failed
        } else {
            outcome.found
        };
        if is_fresh && question.part == LookupPart::Everything {
            known.cache.put(question.key(), &found, now);
        }
        self.asked -= 1;
        self.opens -= usize::from(inquiry.is_open);
        let askers = self.waiting.remove(question).unwrap_or_default();
        Settled::Told(found, askers)
    }
}

/// The answer to a question, for [`Directory::settle`].
pub(crate) struct Outcome {
    pub found: LookupReply,
    /// Remembered from before; Appwrite was not asked.
    pub is_cached: bool,
    /// The reason if Appwrite did not say. The answer may be an old one then.
    pub fault: Option<ApiError>,
    /// Remarks for the operator.
    pub notes: Vec<Note>,
}

pub(crate) enum Next {
    /// Make this request, and give its answer to [`Inquiry::answered`].
    Ask(OriginRequest),
    /// Give this to [`Directory::settle`].
    Found(Outcome),
}

pub(crate) struct Inquiry {
    is_open: bool,
    tries_left: usize,
    /// Changes that were noted before.
    began: u64,
    identify: Identify,
}

impl Inquiry {
    #[must_use]
    pub(crate) fn project(&self) -> &str {
        &self.identify.question.project
    }

    /// Begins it, or begins it again.
    pub(crate) fn begin(&mut self, api: &Api, known: &Known, now: Millis) -> Next {
        self.began = known.changes.now();
        let question = &self.identify.question;
        if question.part == LookupPart::Everything
            && let Some(found) = known.cache.get(&question.key(), now)
        {
            return Next::Found(Outcome {
                found,
                is_cached: true,
                fault: None,
                notes: Vec::new(),
            });
        }
        self.identify = Identify::new(question.clone());
        let step = self.identify.ask(api);
        self.follow(step, known, now)
    }

    pub(crate) fn answered(
        &mut self,
        answer: Answer,
        api: &Api,
        known: &Known,
        now: Millis,
    ) -> Next {
        let step = self.identify.answered(answer, api);
        self.follow(step, known, now)
    }

    fn follow(&mut self, step: Step, known: &Known, now: Millis) -> Next {
        let (found, fault) = match step {
            Step::Ask(request) => return Next::Ask(request),
            Step::Done(Ok(found)) => (found, None),
            Step::Done(Err(error)) => {
                let question = &self.identify.question;
                let old = match question.part {
                    LookupPart::Everything => known.cache.old(&question.key(), now),
                    LookupPart::Account | LookupPart::Membership { .. } => None,
                };
                (old.unwrap_or(LookupReply::Failed), Some(error))
            }
        };
        Next::Found(Outcome {
            found,
            is_cached: false,
            fault,
            notes: std::mem::take(&mut self.identify.notes),
        })
    }
}

#[cfg(test)]
mod tests;
