//! Publications of one request: how each was answered.

use throng_broker::{Draft, Refusal};
use throng_hub::{Answer, Command};
use throng_types::{ConnId, Position};

use crate::{Context, FollowEvent, Shared, write_followed_data};

/// Result of a publication: its position, in channels that keep history.
pub type PublishOutcome = Result<Option<Position>, Refusal>;

/// The answers to the publications of one request, in the order of the request.
pub struct Publications {
    results: Vec<Option<PublishOutcome>>,
    waiting: usize,
}

impl Publications {
    /// Creates a list of unanswered publications; the answers' tokens count from zero.
    pub fn new(count: usize) -> Self {
        Self {
            results: vec![None; count],
            waiting: count,
        }
    }

    pub const fn len(&self) -> usize {
        self.results.len()
    }

    pub const fn is_empty(&self) -> bool {
        self.results.is_empty()
    }

    /// Records the answer for the publication with this token.
    pub fn take(&mut self, token: u32, answer: &Answer) {
        if let Answer::Published { result } = answer {
            self.record(token, *result);
        }
    }

    pub fn record(&mut self, token: u32, result: PublishOutcome) {
        if let Some(place) = self.results.get_mut(token as usize)
            && place.replace(result).is_none()
        {
            self.waiting -= 1;
        }
    }

    pub fn has_errors(&self) -> bool {
        self.results.iter().flatten().any(Result::is_err)
    }

    pub const fn is_whole(&self) -> bool {
        self.waiting == 0
    }

    /// All of them, once they are in.
    pub fn all(&self) -> Option<Vec<PublishOutcome>> {
        (self.waiting == 0).then(|| self.results.iter().flatten().copied().collect())
    }

    /// Takes an answer. Gives all of them once they are in.
    pub fn answer(&mut self, token: u32, answer: &Answer) -> Option<Vec<PublishOutcome>> {
        self.take(token, answer);
        self.all()
    }
}

/// Notes a publication of the server API for the log and for followers.
#[inline]
fn note_published<S, O>(draft: &Draft, cx: &Context<'_, S, O>) {
    let channel = draft.channel.as_str();
    cx.shared.notices.published("publish", channel);
    if cx.shared.follow.is_on() {
        tell_published(draft, cx.id, cx.shared);
    }
}

#[cold]
fn tell_published(draft: &Draft, conn: ConnId, shared: &Shared) {
    let event = FollowEvent {
        name: "published",
        conn: Some(conn),
        channel: draft.channel.as_str(),
        ..FollowEvent::default()
    };
    let caller = shared.notices.caller();
    let key = caller.as_ref().map_or("", |key| &*key.name);
    shared.tell_followers(&event, |line, with_data| {
        line.text_if_any("key", shared.key_name(key));
        write_followed_data(line, &draft.payload, with_data);
    });
}

/// Orders a publication for a call of the server API.
pub(crate) fn publish<S, O>(token: u32, draft: Draft, cx: &mut Context<'_, S, O>) {
    let reply_to = cx.reply_to(token);
    note_published(&draft, cx);
    cx.hub(Command::Publish { reply_to, draft });
}

/// Orders publications for calls of the server API, together: one message to each other shard. The
/// answers' tokens count from `first_token`, wrapping.
pub fn publish_all<S, O>(first_token: u32, mut drafts: Vec<Draft>, cx: &mut Context<'_, S, O>) {
    if drafts.len() == 1
        && let Some(draft) = drafts.pop()
    {
        return publish(first_token, draft, cx);
    }
    for draft in &drafts {
        note_published(draft, cx);
    }
    let reply_to = cx.reply_to(first_token);
    cx.hub(Command::PublishAll { reply_to, drafts });
}
