//! `POST /pub?channel=a&channel=b`: the body is the data.

use throng_broker::Refusal;
use throng_centrifuge::payload_of;
use throng_metrics::Counter;
use throng_session::http::{Later, SAFE};
use throng_session::{Context, Incoming, PublishResult, Reject, answer_text, draft, respond_json};
use throng_types::ChannelName;

use crate::context::Cx;

/// Channels that one request may publish to.
const CHANNELS_MAX: usize = 10_000;

/// Publishes; the answer comes later.
pub(crate) fn publish(incoming: &Incoming<'_, '_>, cx: &mut Cx<'_>) -> Result<Later, Reject> {
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
    // The last one gets the payload itself, and mostly there is but one.
    let payloads = std::iter::repeat_n(payload, channels.len());
    let drafts = channels.into_iter().zip(payloads);
    let drafts: Vec<_> = drafts
        .map(|(channel, payload)| draft(channel, payload))
        .collect();
    let counters = &cx.shared.counters;
    counters.add(Counter::PublicationsApi, drafts.len() as u64);
    Ok(Later::publish(drafts, incoming, (write_answer, 0), cx))
}

/// `{"offset":1,"epoch":"…"}` for one channel; for several, an array of these. If any was
/// refused the status says so, and the body says which were taken.
fn write_answer(results: &[PublishResult], _: u8, keep_alive: bool, cx: &mut Context<'_>) {
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
