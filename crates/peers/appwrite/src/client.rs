//! Look-ups and presences under way at Appwrite's HTTP API.
//!
//! Owns: the queues of both, answers of late, the exchanges. Never: what is asked next, or what an
//! answer means; [`Directory`], [`Inquiry`] and [`Presences`] say that.
//!
//! Invariant: an answer is checked against changes of users and told in one step, so that no shard
//! gets an event between.

use std::collections::VecDeque;
use std::sync::Arc;

use throng_appwrite::{Lookup, LookupReply, News, PresenceCall, PresenceReply, QueueFull};
use throng_backend::{
    Address, AnswerTo, AskLimits, Backend, BackendLimits, Call, Reply as Answered, TicketId,
};
use throng_http1::origin::OriginRequest;
use throng_metrics::{Counter, Counters};
use throng_peer::{LinkEvent, LinkId, Peer, PeerContext, ReadFlow};
use throng_types::ConnId;

use crate::api::{Answer, Api};
use crate::changes::Known;
use crate::directory::{Directory, DirectoryOptions, Inquiry, Next, Outcome, Settled};
use crate::feed::Reply;
use crate::identify::Note;
use crate::presences::{Presences, presence_answer};
use crate::sampled::Sampled;

/// Bytes of one answer. An account with many preferences has some tens of kilobytes.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Options of the way to Appwrite's HTTP API.
pub struct ApiOptions {
    pub address: Address,
    /// Bound of each request, in milliseconds.
    pub timeout_ms: u64,
    pub directory: DirectoryOptions,
}

enum Token {
    Lookup(Box<Inquiry>),
    Presence(Box<PresenceCall>),
}

pub(crate) struct Client {
    api: Api,
    limits: AskLimits,
    backend: Backend<Token>,
    /// Bound: what is under way.
    answers: VecDeque<Answered<Token>>,
    tickets: u64,
    directory: Directory,
    presences: Presences,
    pub(crate) known: Known,
    counters: Arc<Counters>,
    lookup_failures: Sampled,
    presence_failures: Sampled,
    /// The log has a line on a project whose Teams service is off.
    has_told_off: bool,
}

impl Client {
    pub(crate) fn new(options: ApiOptions, counters: Arc<Counters>) -> Self {
        let ApiOptions {
            address,
            timeout_ms,
            directory,
        } = options;
        Self {
            api: Api::new(address.to, address.host, &address.path),
            limits: AskLimits {
                bytes_max: ANSWER_BYTES_MAX,
                timeout_ms,
            },
            backend: Backend::new(BackendLimits::default()),
            answers: VecDeque::new(),
            tickets: 0,
            known: Known::new(directory.answers_max, directory.grace_ms),
            directory: Directory::new(directory),
            presences: Presences::default(),
            counters,
            lookup_failures: Sampled::default(),
            presence_failures: Sampled::default(),
            has_told_off: false,
        }
    }

    pub(crate) fn event(
        &mut self,
        link: LinkId,
        event: LinkEvent<'_>,
        cx: &mut PeerContext<'_, Reply>,
    ) -> ReadFlow {
        let mut inner = cx.inner(&mut self.answers);
        let flow = self.backend.event(link, event, &mut inner);
        self.go_on(cx);
        flow
    }

    /// Takes a question; the answer follows, even if it is known already.
    pub(crate) fn look_up(&mut self, lookup: Lookup, cx: &mut PeerContext<'_, Reply>) {
        let asker = (lookup.conn, lookup.token);
        if self.directory.ask(lookup) == Err(QueueFull) {
            self.counters.count(Counter::AppwriteLookupsRefused);
            tell_found(asker, LookupReply::Failed, cx);
        }
        self.go_on(cx);
    }

    /// Takes a call; an answer follows one that writes.
    pub(crate) fn presence(&mut self, call: PresenceCall, cx: &mut PeerContext<'_, Reply>) {
        let asker = asker_of(&call);
        if self.presences.put(call) == Err(QueueFull) {
            self.counters.count(Counter::AppwritePresencesFull);
            tell_presence(asker, PresenceReply::Failed, cx);
        }
        self.go_on(cx);
    }

    /// Asks whatever may be asked now, and hands answers on.
    fn go_on(&mut self, cx: &mut PeerContext<'_, Reply>) {
        loop {
            self.ask_more(cx);
            let Some(Answered::Whole(token, answer)) = self.answers.pop_front() else {
                return;
            };
            match token {
                Token::Lookup(mut inquiry) => {
                    let next = inquiry.answered(answer, &self.api, &self.known, cx.now.mono);
                    self.follow(inquiry, next, cx);
                }
                Token::Presence(call) => self.presence_answered(&call, answer, cx),
            }
        }
    }

    fn ask_more(&mut self, cx: &mut PeerContext<'_, Reply>) {
        while let Some(mut inquiry) = self.directory.take() {
            let next = inquiry.begin(&self.api, &self.known, cx.now.mono);
            self.follow(inquiry, next, cx);
        }
        while let Some(call) = self.presences.take() {
            match self.api.presence(&call) {
                Ok(request) => self.ask(request, Token::Presence(call), cx),
                Err(answer) => self.presence_answered(&call, Ok(answer), cx),
            }
        }
    }

    fn ask(&mut self, request: OriginRequest, token: Token, cx: &mut PeerContext<'_, Reply>) {
        self.tickets += 1;
        let call = Call::Begin {
            ticket: TicketId(self.tickets),
            to: AnswerTo::Whole(self.limits),
            request,
            token,
        };
        self.backend.call(call, &mut cx.inner(&mut self.answers));
    }

    /// Goes on with a question, until Appwrite is asked or its askers get the answer.
    fn follow(
        &mut self,
        mut inquiry: Box<Inquiry>,
        mut next: Next,
        cx: &mut PeerContext<'_, Reply>,
    ) {
        let now = cx.now.mono;
        loop {
            let outcome = match next {
                Next::Ask(request) => return self.ask(request, Token::Lookup(inquiry), cx),
                Next::Found(outcome) => outcome,
            };
            self.note(&outcome, inquiry.project(), cx);
            let settled = (self.directory).settle(inquiry, outcome, &mut self.known, now);
            match settled {
                Settled::Again(again) => inquiry = again,
                Settled::Told(found, askers) => {
                    for asker in askers {
                        tell_found(asker, found.clone(), cx);
                    }
                    return;
                }
            }
            next = inquiry.begin(&self.api, &self.known, now);
        }
    }

    /// Counts an answer, and logs failures for the operator.
    fn note(&mut self, outcome: &Outcome, project: &str, cx: &PeerContext<'_, Reply>) {
        self.counters.count(match &outcome.found {
            _ if outcome.is_cached => Counter::AppwriteLookupsCached,
            _ if outcome.fault.is_some() => Counter::AppwriteLookupsFailed,
            LookupReply::User(_) | LookupReply::Changed(_) => Counter::AppwriteLookupsUser,
            _ => Counter::AppwriteLookupsNobody,
        });
        if let Some(error) = &outcome.fault
            && let Some(unsaid) = self.lookup_failures.next(cx.now.mono)
        {
            tracing::warn!(%error, project, unsaid, "Appwrite look-up of a client failed");
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
                    "a user has more teams than are read; the others give no roles"
                ),
            }
        }
    }

    /// Reports the outcome of a call, and counts it.
    fn presence_answered(
        &mut self,
        call: &PresenceCall,
        answer: Answer,
        cx: &mut PeerContext<'_, Reply>,
    ) {
        let answer = presence_answer(call, answer).unwrap_or_else(|error| {
            let project = &*call.project;
            if let Some(unsaid) = self.presence_failures.next(cx.now.mono) {
                tracing::warn!(%error, project, unsaid, "Appwrite did not confirm a presence");
            }
            PresenceReply::Failed
        });
        self.counters.count(match (&answer, &call.body) {
            (PresenceReply::Written { .. }, Some(_)) => Counter::AppwritePresencesWritten,
            (PresenceReply::Written { .. }, None) => Counter::AppwritePresencesDeleted,
            (PresenceReply::Refused { .. }, _) => Counter::AppwritePresencesRefused,
            (PresenceReply::Failed, _) => Counter::AppwritePresencesFailed,
        });
        tell_presence(asker_of(call), answer, cx);
        self.presences.done(call);
    }
}

pub(crate) fn tell_found(
    (conn, token): (ConnId, u32),
    found: LookupReply,
    cx: &mut PeerContext<'_, Reply>,
) {
    let news = News::Found { conn, token, found };
    cx.reply(Reply::News(conn.shard().index(), news));
}

/// The connection that waits for the answer to a call; none for a call that deletes.
pub(crate) fn asker_of(call: &PresenceCall) -> Option<(ConnId, u32)> {
    call.body.is_some().then_some((call.conn, call.token))
}

pub(crate) fn tell_presence(
    asker: Option<(ConnId, u32)>,
    answer: PresenceReply,
    cx: &mut PeerContext<'_, Reply>,
) {
    if let Some((conn, token)) = asker {
        let news = News::Presence {
            conn,
            token,
            answer,
        };
        cx.reply(Reply::News(conn.shard().index(), news));
    }
}
