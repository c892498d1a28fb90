//! A batch of events as a signed HTTP request.

use aws_lc_rs::hmac;
use data_encoding::BASE64;
use serde::Serialize;
use throng_broker::HookEvent;
use throng_http1::field::Header;
use throng_http1::origin::OriginRequest;

use crate::options::{StandardKey, Webhook};

#[derive(Serialize)]
struct Body<'a> {
    time_ms: u64,
    events: Vec<Notice<'a>>,
}

/// Event as receivers read it: the fields of Pusher's webhooks.
#[derive(Serialize)]
struct Notice<'a> {
    name: &'static str,
    channel: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    socket_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subscription_count: Option<u32>,
}

fn notice<'a>(event: &'a HookEvent, channel: &'a str) -> Notice<'a> {
    let mut notice = Notice {
        name: HookEvent::NAMES[event.kind()],
        channel,
        event: None,
        data: None,
        socket_id: None,
        user_id: None,
        subscription_count: None,
    };
    match event {
        HookEvent::Occupied { .. } | HookEvent::CacheMiss { .. } => {}
        HookEvent::Count { subscribers, .. } => notice.subscription_count = Some(*subscribers),
        HookEvent::Member { user, .. } => notice.user_id = Some(user),
        HookEvent::Client {
            event,
            data,
            socket_id,
            user,
            ..
        } => {
            (notice.event, notice.data) = (Some(&**event), Some(&**data));
            (notice.socket_id, notice.user_id) = (Some(&**socket_id), user.as_deref());
        }
    }
    notice
}

/// Makes the signed request of a batch. A batch that is sent again as it was has the same `id`, and
/// the time of each attempt.
pub(crate) fn request<'a>(
    hook: &Webhook,
    id: &str,
    unix_ms: u64,
    events: impl Iterator<Item = &'a HookEvent>,
) -> OriginRequest {
    let visible = |event: &'a HookEvent| Some(notice(event, hook.filter.name(event.channel())?));
    let body = Body {
        time_ms: unix_ms,
        events: events.filter_map(visible).collect(),
    };
    let body = serde_json::to_vec(&body).unwrap_or_default();
    let mut headers = vec![
        Header::new("Host", hook.address.host.as_str()),
        // Pusher's libraries compare it as a whole.
        Header::new("Content-Type", "application/json"),
    ];
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
    let (to, path) = (hook.address.to.clone(), hook.address.path.clone());
    OriginRequest {
        body,
        ..OriginRequest::new(to, "POST", path, headers)
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
