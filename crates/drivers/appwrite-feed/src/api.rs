//! The way to Appwrite's HTTP API: users are looked up there, and presences kept.
//!
//! Owns: the thread that hosts the peer, and the locks around what shards, feed and peer share.
//! Never: what is asked next, or what an answer means; `throng-appwrite-api` says that, without a
//! clock.
//!
//! Bound: an answer waits for the slowest shard, as events do, and the next ones with it.

use std::io;
use std::sync::{Arc, Mutex};

use throng_appwrite_api::{
    Answer, Api, ApiError, Directory, DirectoryOptions, Inquiry, Known, Next, Note, Outcome,
    Presences, Settled, presence_answer,
};
use throng_backend::{Address, AskLimits, Asker, Asking, Asks, BackendLimits};
use throng_gateway_appwrite::{Lookup, LookupReply, News, PresenceCall, PresenceReply, QueueFull};
use throng_metrics::Counter;
use throng_outward::{CallSender, Host};

use crate::feed::lock;
use crate::sampled::Sampled;
use crate::{Feed, Meter};

/// Bytes of one answer. An account with many preferences has some tens of kilobytes.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Takes look-ups and presences. Dropping it ends the thread.
pub struct AppwriteApi {
    shared: Arc<Shared>,
    meter: Meter,
    calls: CallSender<()>,
    _host: Host<()>,
}

/// Shared between shards, the feed and the peer.
struct Shared {
    directory: Mutex<Directory>,
    presences: Mutex<Presences>,
    known: Arc<Mutex<Known>>,
}

impl AppwriteApi {
    /// Starts the thread. `timeout_ms` bounds each request.
    ///
    /// # Errors
    /// If the kernel gives none.
    pub fn start(
        address: &Address,
        timeout_ms: u64,
        options: DirectoryOptions,
        feed: &Arc<Feed>,
        meter: Meter,
    ) -> io::Result<Arc<Self>> {
        let known = Known::new(options.answers_max, options.grace_ms);
        let shared = Arc::new(Shared {
            directory: Mutex::new(Directory::new(options)),
            presences: Mutex::default(),
            known: Arc::new(Mutex::new(known)),
        });
        feed.also_tell(&shared.known);
        let client = Client {
            api: Api::new(address.route.clone(), address.host.clone(), &address.path),
            limits: AskLimits {
                bytes_max: ANSWER_BYTES_MAX,
                timeout_ms,
            },
            shared: shared.clone(),
            feed: feed.clone(),
            meter: meter.clone(),
            lookup_failures: Sampled::default(),
            presence_failures: Sampled::default(),
            has_told_off: false,
        };
        let peer = Asking::new(client, BackendLimits::default());
        let host = throng_outward::start("appwrite-http", peer, Box::new(|reply| match reply {}))?;
        Ok(Arc::new(Self {
            shared,
            meter,
            calls: host.calls(),
            _host: host,
        }))
    }

    /// Takes a question. The answer comes as [`News::LookupReply`], even if it is known already.
    ///
    /// # Errors
    /// [`QueueFull`] if too many wait.
    pub fn look_up(&self, lookup: Lookup) -> Result<(), QueueFull> {
        let asked = lock(&self.shared.directory).ask(lookup);
        self.handed_in(asked, Counter::AppwriteLookupsRefused)
    }

    /// Takes a call; [`News::Presence`] follows one that writes.
    ///
    /// # Errors
    /// [`QueueFull`] if too many wait.
    pub fn presence(&self, call: PresenceCall) -> Result<(), QueueFull> {
        let put = lock(&self.shared.presences).put(call);
        self.handed_in(put, Counter::AppwritePresencesFull)
    }

    fn handed_in(&self, taken: Result<(), QueueFull>, refused: Counter) -> Result<(), QueueFull> {
        match taken {
            Ok(()) => drop(self.calls.send(())),
            Err(QueueFull) => self.meter.count(refused),
        }
        taken
    }
}

/// Asks Appwrite, on the thread that hosts it.
struct Client {
    api: Api,
    limits: AskLimits,
    shared: Arc<Shared>,
    feed: Arc<Feed>,
    meter: Meter,
    lookup_failures: Sampled,
    presence_failures: Sampled,
    /// The log has a line on a project whose Teams service is off.
    has_told_off: bool,
}

/// A request that waits for its answer.
enum Token {
    Lookup(Box<Inquiry>),
    Presence(Box<PresenceCall>),
}

impl Asker for Client {
    type Call = ();
    type Token = Token;

    fn call(&mut self, (): (), asks: &mut Asks<Token>) {
        self.ask_more(asks);
    }

    fn answered(&mut self, token: Token, answer: Answer, asks: &mut Asks<Token>) {
        match token {
            Token::Lookup(mut inquiry) => {
                let known = self.shared.known.clone();
                let next = inquiry.answered(answer, &self.api, &lock(&known), asks.now.mono);
                self.follow(inquiry, next, asks);
            }
            Token::Presence(call) => self.presence(&call, answer, asks),
        }
        self.ask_more(asks);
    }

    fn woken(&mut self, _: &mut Asks<Token>) {}
}

impl Client {
    /// Asks whatever may be asked now.
    fn ask_more(&mut self, asks: &mut Asks<Token>) {
        let shared = self.shared.clone();
        loop {
            let next = lock(&shared.directory).take();
            let Some(mut inquiry) = next else { break };
            let next = inquiry.begin(&self.api, &lock(&shared.known), asks.now.mono);
            self.follow(inquiry, next, asks);
        }
        loop {
            let next = lock(&shared.presences).take();
            let Some(call) = next else { break };
            match self.api.presence(&call) {
                Ok(request) => asks.ask(request, self.limits, Token::Presence(call)),
                Err(answer) => self.presence(&call, Ok(answer), asks),
            }
        }
    }

    /// Goes on with a question, until Appwrite is asked or its askers are told.
    fn follow(&mut self, mut inquiry: Box<Inquiry>, mut next: Next, asks: &mut Asks<Token>) {
        let (shared, now) = (self.shared.clone(), asks.now.mono);
        loop {
            let outcome = match next {
                Next::Ask(request) => {
                    return asks.ask(request, self.limits, Token::Lookup(inquiry));
                }
                Next::Found(outcome) => outcome,
            };
            self.note(&outcome, inquiry.project(), asks);
            let again = self.feed.between_events(|| {
                // No lock is held while shards are told: they may wait for it to ask.
                let settled = {
                    let (mut directory, mut known) = (lock(&shared.directory), lock(&shared.known));
                    directory.settle(inquiry, outcome, &mut known, now)
                };
                match settled {
                    Settled::Again(inquiry) => Some(inquiry),
                    Settled::Told(found, askers) => {
                        for (conn, token) in askers {
                            let found = found.clone();
                            let news = News::Found { conn, token, found };
                            self.feed.tell(conn.shard().index(), news);
                        }
                        None
                    }
                }
            });
            let Some(again) = again else { return };
            inquiry = again;
            next = inquiry.begin(&self.api, &lock(&shared.known), now);
        }
    }

    /// Counts an answer, and tells the operator what went wrong.
    fn note(&mut self, outcome: &Outcome, project: &str, asks: &Asks<Token>) {
        self.meter.count(match &outcome.found {
            _ if outcome.is_cached => Counter::AppwriteLookupsCached,
            _ if outcome.fault.is_some() => Counter::AppwriteLookupsFailed,
            LookupReply::User(_) | LookupReply::Changed(_) => Counter::AppwriteLookupsUser,
            _ => Counter::AppwriteLookupsNobody,
        });
        if let Some(error) = &outcome.fault
            && let Some(unsaid) = self.lookup_failures.next(asks.now.mono)
        {
            tracing::warn!(%error, project, unsaid, "Appwrite does not say who a client is");
        }
        for note in &outcome.notes {
            match note {
                Note::TeamsOff if std::mem::replace(&mut self.has_told_off, true) => {}
                Note::TeamsOff => tracing::warn!(
                    project,
                    "the project's Teams service is off in Appwrite: its users have no roles of \
                     teams"
                ),
                Note::TeamsFull(teams) => tracing::warn!(
                    project,
                    teams,
                    "a user has more teams than are looked at; the others give no roles"
                ),
            }
        }
    }

    /// Tells what became of a call, and counts it.
    fn presence(&mut self, call: &PresenceCall, answer: Answer, asks: &Asks<Token>) {
        let answer = presence_answer(call, answer).unwrap_or_else(|error: ApiError| {
            let project = &*call.project;
            if let Some(unsaid) = self.presence_failures.next(asks.now.mono) {
                tracing::warn!(%error, project, unsaid, "Appwrite does not say what became of a \
                                        presence");
            }
            PresenceReply::Failed
        });
        self.meter.count(match (&answer, &call.body) {
            (PresenceReply::Written { .. }, Some(_)) => Counter::AppwritePresencesWritten,
            (PresenceReply::Written { .. }, None) => Counter::AppwritePresencesDeleted,
            (PresenceReply::Refused { .. }, _) => Counter::AppwritePresencesRefused,
            (PresenceReply::Failed, _) => Counter::AppwritePresencesFailed,
        });
        if call.body.is_some() {
            let (conn, token) = (call.conn, call.token);
            let news = News::Presence {
                conn,
                token,
                answer,
            };
            self.feed.tell(conn.shard().index(), news);
        }
        lock(&self.shared.presences).done(call);
    }
}

#[cfg(test)]
mod tests;
