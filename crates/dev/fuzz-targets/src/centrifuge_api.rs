//! Bodies of the server API, in each of its three forms: calls that are read hold data that can go
//! out.
//!
//! Input: one byte that selects the method, then the body.

use throng_centrifuge::api::{ApiRequest, Method, NamePattern, parse, parse_batch, parse_legacy};
use throng_types::json::append_payload;

use crate::pieces::is_json;

pub(crate) const SEEDS: &[&[u8]] = &[
    b"\x00{\"channel\":\"a\",\"data\":{\"k\": [1,\n2]},\"tags\":{\"t\":\"v\"},\
      \"idempotency_key\":\"i\",\"version\":3,\"skip_history\":true}",
    b"\x01{\"channels\":[\"a\",\"b\\u0000\"],\"b64data\":\"AP8=\",\"delta\":null}",
    b"\x08{\"channel\":\"a\",\"limit\":-1,\"since\":{\"offset\":5,\"epoch\":\"e\"},\
      \"reverse\":true}",
    b"\x04{\"user\":\"u\",\"client\":\"c\",\"whitelist\":[\"w\"],\
      \"disconnect\":{\"code\":4000,\"reason\":\"r\"}}",
    b"\x00{\"commands\":[{\"publish\":{\"channel\":\"a\",\"data\":1}},{\"info\":{}},\
      {\"x\":{}}],\"parallel\":true}",
    b"\x05{\"id\":1,\"method\":\"publish\",\"params\":{\"channel\":\"a\",\"data\":{}}}\n\
      {\"method\":\"CHANNELS\",\"params\":{\"pattern\":\"a*[b-d]{x,y}\"}}",
];

/// Runs one input of this target; panics if the target finds a fault.
pub fn centrifuge_api(input: &[u8]) {
    let Some((&method, body)) = input.split_first() else {
        return;
    };
    let method = Method::ALL[usize::from(method) % Method::ALL.len()];
    assert_eq!(Method::from_name(method.name()), Some(method));
    if let Ok(request) = parse(method, body) {
        assert_eq!(request.method(), method);
        check(&request);
    }
    if let Ok(batch) = parse_batch(body) {
        batch.commands.iter().flatten().for_each(check);
    }
    if let Ok(commands) = parse_legacy(body) {
        assert!(!commands.is_empty());
        let requests = commands.iter().flat_map(|command| &command.request);
        requests.for_each(check);
    }
}

fn check(request: &ApiRequest<'_>) {
    let (payload, tags) = match request {
        ApiRequest::Publish(publish) => (publish.payload(), publish.tags.0),
        ApiRequest::Broadcast(broadcast) => (broadcast.payload(), broadcast.tags.0),
        ApiRequest::Channels(channels) => {
            let pattern = NamePattern::new(&channels.pattern);
            let _ = (pattern.matches(""), pattern.matches("a-channel:of some"));
            return;
        }
        _ => return,
    };
    if let Ok(payload) = payload {
        let mut line = Vec::new();
        append_payload(&payload, &mut line);
        assert!(is_json(&line) && !line.contains(&b'\n') && !line.contains(&b'\r'));
    }
    if let Some(tags) = tags {
        assert!(is_json(tags.as_bytes()));
    }
}
