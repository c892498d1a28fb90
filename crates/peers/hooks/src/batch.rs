//! A batch of events as a signed HTTP request.

use aws_lc_rs::hmac;
use data_encoding::BASE64;
use throng_broker::HookEvent;
use throng_http1::field::Header;
use throng_http1::origin::OriginRequest;
use throng_types::SpanContext;
use throng_types::json::Object;

use crate::options::{StandardKey, Webhook};

/// Writes an event as receivers read it: with the fields of Pusher's webhooks, and with ours.
fn write_notice((event, channel): &(&HookEvent, Option<&str>), out: &mut Object<'_>) {
    out.text("name", HookEvent::NAMES[event.kind()]);
    out.text_if_any("channel", channel.unwrap_or_default());
    match event {
        HookEvent::Occupied { .. } => out.text_if_any("node", event.of_node().unwrap_or_default()),
        HookEvent::CacheMiss { .. } => {}
        HookEvent::Count { subscribers, .. } => out.number("subscription_count", *subscribers),
        HookEvent::Member { user, .. } => out.text("user_id", user),
        HookEvent::Client {
            event,
            data,
            socket_id,
            user,
            ..
        } => {
            out.text("event", event);
            out.text("data", data);
            out.text("socket_id", socket_id);
            out.text_if_any("user_id", user.as_deref().unwrap_or_default());
        }
        HookEvent::Connection(it) => {
            out.text("connection_id", &it.id);
            out.text_if_any("user_id", &it.user);
            out.text("protocol", &it.protocol);
            out.text("transport", &it.transport);
            out.text("node", &it.node);
            if let Some((code, reason)) = &it.end {
                out.number_if_any("code", (*code).into());
                out.text_if_any("reason", reason);
            }
        }
    }
    if let Some(trace) = event.trace() {
        out.text(SpanContext::FIELD, &trace.to_string());
    }
}

/// Trace of a request: that of its traced events, if they share one.
fn trace_of<'a>(events: impl Iterator<Item = &'a HookEvent>) -> Option<&'a SpanContext> {
    let mut traces = events.filter_map(HookEvent::trace);
    let first = traces.next()?;
    traces.all(|other| other == first).then_some(first)
}

/// Makes the signed request of a batch. A batch that is sent again as it was has the same `id`, and
/// the time of each attempt.
pub(crate) fn request<'a>(
    hook: &Webhook,
    id: &str,
    unix_ms: u64,
    events: impl Iterator<Item = &'a HookEvent>,
) -> OriginRequest {
    let shown = |event: &'a HookEvent| Some((event, hook.filter.shown(event)?));
    let events: Vec<_> = events.filter_map(shown).collect();
    let mut body = Vec::new();
    Object::append(&mut body, |body| {
        body.number("time_ms", unix_ms);
        body.objects("events", &events, write_notice);
    });
    // Pusher's libraries compare it as a whole.
    let mut headers = vec![Header::new("Content-Type", "application/json")];
    if let Some(keys) = &hook.app {
        headers.push(Header::new("X-Pusher-Key", keys.key()));
        headers.push(Header::new("X-Pusher-Signature", keys.sign(&body)));
    }
    if let Some(key) = &hook.standard {
        let seconds = (unix_ms / 1000).to_string();
        let signature = sign_standard(key, id, &seconds, &body);
        headers.push(Header::new("webhook-id", id));
        headers.push(Header::new("webhook-timestamp", seconds));
        headers.push(Header::new("webhook-signature", signature));
    }
    if let Some(trace) = trace_of(events.iter().map(|(event, _)| *event)) {
        headers.push(Header::new(SpanContext::FIELD, trace.to_string()));
    }
    OriginRequest {
        body,
        ..hook.address.request("POST", headers)
    }
}

/// Signs `ID.SECONDS.BODY` as Standard Webhooks do.
fn sign_standard(key: &StandardKey, id: &str, seconds: &str, body: &[u8]) -> String {
    let mut context = hmac::Context::with_key(&key.0);
    for part in [id.as_bytes(), b".", seconds.as_bytes(), b".", body] {
        context.update(part);
    }
    format!("v1,{}", BASE64.encode(context.sign().as_ref()))
}
