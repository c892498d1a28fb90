//! `POST /pub?channel=a&channel=b`: the body is the data.

use throng_broker::Refusal;
use throng_centrifuge::payload_of;
use throng_metrics::Counter;
use throng_session::http::SAFE;
use throng_session::{
    Event, Exchange, Flow, Incoming, Publications, PublishResult, Reject, answer_text, draft,
    respond_json,
};
use throng_types::{ChannelName, End};

use crate::context::Cx;

/// Channels that one request may publish to.
const CHANNELS_MAX: usize = 10_000;

/// A request whose publications are on their way.
pub struct Publishing {
    exchange: Exchange,
    publications: Publications,
}

impl Publishing {
    pub(crate) fn start(incoming: &Incoming<'_, '_>, cx: &mut Cx<'_>) -> Result<Self, Reject> {
        let mut channels = Vec::new();
        for pair in incoming.parameters() {
            let (name, value) = pair?;
            if name == "channel" {
                let channel = ChannelName::new(&value);
                channels.push(channel.map_err(|error| Reject::new(400, error.to_string()))?);
            }
        }
        if channels.is_empty() {
            return Err(Reject::new(400, "no channel given: add ?channel=NAME"));
        }
        if channels.len() > CHANNELS_MAX {
            let sentence = format!("more than {CHANNELS_MAX} channels in one request");
            return Err(Reject::new(400, sentence));
        }
        let payload = payload_of(incoming.body.to_vec());
        let drafts = channels.into_iter();
        let drafts = drafts.map(|channel| draft(channel, payload.clone()));
        let drafts: Vec<_> = drafts.collect();
        let counters = &cx.shared.counters;
        counters.add(Counter::PublicationsApi, drafts.len() as u64);
        cx.set_deadline(None);
        Ok(Self {
            exchange: Exchange::new(incoming),
            publications: Publications::order(drafts, cx),
        })
    }

    pub(crate) fn event(&mut self, event: Event<'_>, cx: &mut Cx<'_>) -> Flow {
        match event {
            Event::Bytes(input) => {
                self.exchange.keep_behind_api_call(input, cx);
                Flow::Stay
            }
            Event::Answer { token, answer } => {
                let Some(results) = self.publications.answer(token, &answer) else {
                    return Flow::Stay;
                };
                write_answer(&results, self.exchange.keep_alive, cx);
                self.exchange.done(cx)
            }
            Event::Timeout => {
                cx.end(End::Flush);
                Flow::Stay
            }
            // The answer comes within this turn or the next few; it is not cut off.
            _ => Flow::Stay,
        }
    }
}

/// `{"offset":1,"epoch":"…"}` for one channel; for several, an array of these. If any was
/// refused the status says so, and the body says which were taken.
fn write_answer(results: &[PublishResult], keep_alive: bool, cx: &mut Cx<'_>) {
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

/// The status and sentence for a refusal.
const fn status_of(refusal: Refusal) -> (u16, &'static str) {
    match refusal {
        Refusal::Busy => (
            503,
            "a queue is full, nothing was published; try again in a moment",
        ),
        Refusal::UnknownChannel => (404, "the channel's namespace is not configured"),
        _ => (400, "the channel does not take this"),
    }
}
