//! Calls of the API port: `POST /pub?channel=a&channel=b`, whose body is the data, and
//! `POST /api/reload`.
//!
//! The answer about a reload comes from the thread that reads the configuration, so a session waits
//! for it. Who asks has passed the API port's door: by its key, where keys are set.

use throng_broker::{Draft, Refusal};
use throng_metrics::Counter;
use throng_session::http::{Later, SAFE, WriteAnswer};
use throng_session::{
    Context, Event, Exchange, Flow, Incoming, PublishOutcome, Reject, Reloaded, answer_text,
    may_touch, respond_json,
};
use throng_types::json::payload_of;
use throng_types::{ChannelName, End};

use crate::Cx;

/// Channels that one request may publish to.
const CHANNELS_MAX: usize = 10_000;

/// Publishes; the answer comes later.
pub(crate) fn publish(incoming: &Incoming<'_, '_>, cx: &mut Cx<'_>) -> Result<Later, Reject> {
    let named =
        |name: &str| ChannelName::new(name).map_err(|error| Reject::new(400, error.to_string()));
    // Mostly there is but one, which needs no list, and no decoding.
    let (mut last, mut channels) = (None, Vec::new());
    if let Some(name) = only_channel(incoming.request.query()) {
        last = Some(named(name)?);
    } else {
        for pair in incoming.parameters() {
            let (name, value) = pair?;
            if name == "channel" {
                channels.extend(last.replace(named(&value)?));
            }
        }
    }
    let Some(last) = last else {
        return Err(Reject::new(400, "no channel given: add ?channel=NAME"));
    };
    if channels.len() >= CHANNELS_MAX {
        let sentence = format!("more than {CHANNELS_MAX} channels in one request");
        return Err(Reject::new(400, sentence));
    }
    for channel in channels.iter().chain([&last]) {
        may_touch(incoming.caller, Some(channel), cx)?;
    }
    let payload = payload_of(incoming.body);
    let counters = &cx.shared.counters;
    counters.add(Counter::PublicationsApi, 1 + channels.len() as u64);
    let write = (write_answer as WriteAnswer, 0);
    if channels.is_empty() {
        let only = Draft::new(last, payload);
        return Ok(Later::publish(only, incoming, write, cx));
    }
    channels.push(last);
    let drafts = channels.into_iter();
    let drafts = drafts.map(|channel| Draft::new(channel, payload.clone()));
    Ok(Later::publish_all(drafts.collect(), incoming, write, cx))
}

/// The value of a query that is one channel, if nothing in it is encoded.
fn only_channel(query: &str) -> Option<&str> {
    let name = query.strip_prefix("channel=")?;
    let is_plain = !name.bytes().any(|byte| matches!(byte, b'&' | b'%' | b'+'));
    is_plain.then_some(name)
}

/// Writes `{"offset":1,"epoch":"…"}` for one channel; for several, an array of these. The status
/// shows whether any was refused, and the body which were taken.
fn write_answer(results: &[PublishOutcome], _: u8, keep_alive: bool, cx: &mut Context<'_>) {
    if let [Ok(None)] = results {
        return respond_json(200, b"{}\n", keep_alive, cx);
    }
    let worst = results.iter().find_map(|result| result.err());
    if let (Some(refusal), [_]) = (worst, results) {
        let (status, sentence) = status_of(refusal);
        return answer_text(status, sentence, &SAFE, keep_alive, cx);
    }
    let texts: Vec<String> = results
        .iter()
        .map(|result| match result {
            Ok(Some(position)) => {
                format!(
                    "{{\"offset\":{},\"epoch\":\"{}\"}}",
                    position.offset, position.epoch
                )
            }
            Ok(None) => "{}".to_owned(),
            Err(refusal) => format!("{{\"error\":\"{}\"}}", status_of(*refusal).1),
        })
        .collect();
    let body = match &texts[..] {
        [only] => format!("{only}\n"),
        several => format!("[{}]\n", several.join(",")),
    };
    let status = worst.map_or(200, |refusal| status_of(refusal).0);
    respond_json(status, body.as_bytes(), keep_alive, cx);
}

pub(crate) const fn status_of(refusal: Refusal) -> (u16, &'static str) {
    match refusal {
        Refusal::Busy => (
            503,
            "a queue is full, nothing was published; try again in a moment",
        ),
        Refusal::Unavailable => (
            503,
            "the broker is unavailable, nothing was published; try again in a moment",
        ),
        Refusal::Unknown => (
            503,
            "the broker did not answer, it may have published or not; repeat it with the same \
             idempotency key",
        ),
        Refusal::NotWritten => (
            503,
            "history cannot be written to disk, nothing was published; try again later",
        ),
        Refusal::NotOnDisk => (
            503,
            "published, but not written to disk; repeat it with the same idempotency key",
        ),
        Refusal::UnknownChannel => (404, "the channel's namespace is not configured"),
        _ => (400, "the channel refused the publication"),
    }
}

/// A call that waits.
pub struct Reloading(Exchange);

impl Reloading {
    pub(crate) fn open(incoming: &Incoming<'_, '_>, cx: &mut Cx<'_>) -> Self {
        cx.shared.notices.changed("reload", "", [""; 2]);
        cx.set_deadline(None);
        cx.reload();
        Self(Exchange::new(incoming))
    }

    pub(crate) fn event(&mut self, event: Event<'_>, cx: &mut Cx<'_>) -> Flow {
        match event {
            Event::Bytes(input) => self.0.keep_behind_api_call(input, cx),
            Event::Reloaded(what) => return self.told(what, cx),
            Event::Timeout => cx.end(End::Flush),
            // The answer still comes.
            Event::Close(_) => self.0.keep_alive = false,
            _ => {}
        }
        Flow::Stay
    }

    fn told(&mut self, what: &Reloaded, cx: &mut Cx<'_>) -> Flow {
        let (status, body) = what.answer();
        respond_json(status, &body, self.0.keep_alive, cx);
        self.0.done(cx)
    }
}
