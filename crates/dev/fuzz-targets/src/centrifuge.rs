//! Centrifugo's protocol: commands, calls of the server API, deltas.

use throng_centrifuge::api::{
    ApiRequest, Method, NamePattern, parse, parse_batch, parse_batch_message, parse_legacy,
    parse_message,
};
use throng_centrifuge::proxy::{ProxyAnswer, ProxyKind};
use throng_centrifuge::{ClientRequest, Codec, Commands, Connect};
use throng_fossil::{DeltaUnit, apply, encode};
use throng_types::json::append_payload;

use crate::pieces::is_json;

/// Bodies of the server API, in each of its three forms and in Protobuf: calls that are read hold
/// data that can go out. Answers of backends in Protobuf, too: they are JSON then.
///
/// Input: one byte that selects the method and the question, then the body.
pub(crate) fn centrifuge_api(input: &[u8]) {
    let Some((&method, body)) = input.split_first() else {
        return;
    };
    let kind = ProxyKind::ALL[usize::from(method) % ProxyKind::ALL.len()];
    if let Ok(json) = kind.answer_in_json(body) {
        assert!(is_json(&json));
        let _ = ProxyAnswer::parse(&json);
    }
    let method = Method::ALL[usize::from(method) % Method::ALL.len()];
    assert_eq!(Method::from_name(method.name()), Some(method));
    if let Ok(request) = parse(method, body) {
        assert_eq!(request.method(), method);
        check(&request);
    }
    if let Ok(request) = parse_message(method, body) {
        assert_eq!(request.method(), method);
        check(&request);
    }
    for batch in [parse_batch(body), parse_batch_message(body)]
        .into_iter()
        .flatten()
    {
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
        ApiRequest::Publish(publish) => (publish.payload(), publish.tags.0.as_deref()),
        ApiRequest::Broadcast(broadcast) => (broadcast.payload(), broadcast.tags.0.as_deref()),
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

/// Any bytes as a frame of commands: reading never panics, a frame is never nothing, a fault is the
/// last item, and the data of a command fits a frame of one line again.
pub(crate) fn centrifuge_commands(input: &[u8]) {
    read(Codec::Json.commands(input));
    let _ = Connect::parse(input);
}

/// Reads a frame in either form.
pub(crate) fn read(mut all: Commands<'_>) {
    let mut count = 0;
    for command in all.by_ref() {
        count += 1;
        match command.map(|command| command.request) {
            Ok(
                ClientRequest::Publish { data, .. }
                | ClientRequest::Rpc { data, .. }
                | ClientRequest::Send { data },
            ) => {
                let mut line = Vec::new();
                append_payload(&data.payload(), &mut line);
                assert!(!line.contains(&b'\n') && !line.contains(&b'\r'));
            }
            Ok(_) => {}
            Err(_) => break,
        }
    }
    assert_ne!(count, 0);
    assert!(all.next().is_none());
}

/// Any bytes as a frame of commands in Protobuf: the same promises as for JSON, and where a frame
/// is cut, what stands before the cut is read alike.
///
/// Panics if a Protobuf frame is not read as the module's head promises.
pub(crate) fn centrifuge_protobuf(input: &[u8]) {
    read(Codec::Protobuf.commands(input));
    let whole: Vec<String> = told(input);
    for cut in [
        input.len() / 3,
        input.len() / 2,
        input.len().saturating_sub(1),
    ] {
        let part = told(&input[..cut]);
        // The last one may be the fault of the cut.
        let sound = &part[..part.len() - 1];
        assert_eq!(sound, &whole[..sound.len()]);
    }
}

fn told(frame: &[u8]) -> Vec<String> {
    let commands = Codec::Protobuf.commands(frame);
    commands.map(|command| format!("{command:?}")).collect()
}

/// Any two texts to the delta encoder: what it makes leads from the first to the second, and a
/// delta of two texts is a text. Any bytes to the decoder: no panic, and nothing above the limit.
///
/// Input: one byte with the place where the first text ends, in parts of 256, then both texts.
pub(crate) fn fossil_delta(input: &[u8]) {
    let [part, texts @ ..] = input else {
        return;
    };
    let (base, target) = texts.split_at(texts.len() * usize::from(*part) / 256);
    let is_text = |bytes: &[u8]| str::from_utf8(bytes).is_ok();
    for unit in [DeltaUnit::Byte, DeltaUnit::Char] {
        let Some(delta) = encode(base, target, unit) else {
            continue;
        };
        assert!(delta.len() < target.len());
        assert_eq!(apply(base, &delta, target.len()).as_deref(), Ok(target));
        if unit == DeltaUnit::Char && is_text(base) && is_text(target) {
            assert!(is_text(&delta), "it cuts a character");
        }
    }
    if let Ok(made) = apply(base, target, 1000) {
        assert!(made.len() <= 1000);
    }
}
