//! How items travel through hubs, and the wire forms of deliveries to held clients.

use throng_broker::{Draft, home_of};
use throng_grip::item::{CHANNEL_BYTES_MAX, HttpStreamItem, Item, WsKind, WsMessageItem};
use throng_http1::{CHUNK_END, encode_chunk_head};
use throng_session::{Form, FormKind};
use throng_types::{ChannelName, Payload, PayloadKind, Publication, ShardId};
use throng_ws::{Masking, Opcode, encode_header, encode_ping, encode_pong};

/// The namespace of channels that backends hold clients in.
pub const NAMESPACE: &str = "grip";

/// A stream: the item's content as a chunk.
pub(crate) const GRIP_CHUNKS: Form = Form::new(0, FormKind::Noted);
/// A stream to a client of HTTP/1.0: the content alone.
pub(crate) const GRIP_RAW: Form = Form::new(1, FormKind::Noted);
/// A WebSocket: the item's message as a frame.
pub(crate) const GRIP_FRAMES: Form = Form::new(2, FormKind::Noted);
/// Form for sessions that need the item itself: responses, filters, sequences, WebSockets.
pub(crate) const GRIP_OWN: Form = Form::new(3, FormKind::Shown);

/// Form of a stream, whose session looks at each item unless it is plain.
pub(crate) const fn stream_form(is_plain: bool, is_chunked: bool) -> Form {
    match (is_plain, is_chunked) {
        (false, _) => GRIP_OWN,
        (true, true) => GRIP_CHUNKS,
        (true, false) => GRIP_RAW,
    }
}

pub(crate) const ALL: &[Form] = &[GRIP_CHUNKS, GRIP_RAW, GRIP_FRAMES, GRIP_OWN];

/// The longest name that the hub gets from here: an item's with our namespace, or a backend's with
/// its route's prefix too.
const HUB_BYTES_MAX: usize = 2 * CHANNEL_BYTES_MAX;

/// The shard that an item's channel is at home on.
pub(crate) fn home_of_item(item: &Item, shards: u8) -> ShardId {
    // A name that is too long for the hub is refused wherever it comes.
    hub_channel("", item.channel.as_str()).map_or(ShardId(0), |channel| home_of(&channel, shards))
}

/// The hub's name for a backend's channel; none if it is too long or no name at all.
pub(crate) fn hub_channel(prefix: &str, name: &str) -> Option<ChannelName> {
    ChannelName::with_bound(&format!("{NAMESPACE}:{prefix}{name}"), HUB_BYTES_MAX).ok()
}

/// A backend's name for a hub's channel, with its route's prefix still in front.
pub(crate) fn own_name(channel: &ChannelName) -> &str {
    let name = channel.as_str();
    name.split_once(':').map_or(name, |(_, name)| name)
}

/// Builds the hub's draft of an item; `None` if no transport gets anything of it.
pub(crate) fn draft(item: &Item) -> Option<Draft> {
    let mut bytes = Vec::new();
    if !item.encode(&mut bytes) {
        return None;
    }
    let payload = Payload {
        bytes: bytes.into(),
        kind: PayloadKind::Binary,
    };
    Some(Draft::new(hub_channel("", item.channel.as_str())?, payload))
}

/// Returns the item that a publication carries. Data published past GRIP is content.
pub(crate) fn item_of(publication: &Publication) -> Item {
    let name = ChannelName::with_bound(own_name(&publication.channel), HUB_BYTES_MAX);
    let channel = name.unwrap_or_else(|_| publication.channel.clone());
    if let Some(item) = Item::decode(&channel, &publication.payload.bytes) {
        return item;
    }
    let content = publication.payload.bytes.to_vec();
    let kind = match publication.payload.kind {
        PayloadKind::Binary => WsKind::Binary,
        PayloadKind::Json | PayloadKind::Text => WsKind::Text,
    };
    Item {
        channel,
        id: None,
        prev_id: None,
        no_seq: true,
        meta: Vec::new(),
        http_response: None,
        http_stream: Some(HttpStreamItem::Send {
            content: content.clone(),
            content_filters: None,
        }),
        ws_message: Some(WsMessageItem::Send {
            kind,
            content,
            content_filters: None,
        }),
    }
}

/// Appends a publication in a shared wire form. Nothing is appended for items that the session must
/// look at: an end, a hint, or an item that is not for streams.
pub(crate) fn encode(form: u8, publication: &Publication, out: &mut Vec<u8>) {
    let item = item_of(publication);
    let is_for_others =
        |filters: &Option<Vec<String>>| filters.as_ref().is_some_and(|list| !list.is_empty());
    if form == GRIP_FRAMES.number {
        if let Some(WsMessageItem::Send {
            kind,
            content,
            content_filters,
        }) = &item.ws_message
            && !is_for_others(content_filters)
        {
            frame(*kind, content, out);
        }
        return;
    }
    let Some(HttpStreamItem::Send {
        content,
        content_filters,
    }) = &item.http_stream
    else {
        return;
    };
    // Streams served from shared bytes have no filters.
    if !is_for_others(content_filters) {
        stream_bytes(form == GRIP_CHUNKS.number, content, out);
    }
}

pub(crate) fn stream_bytes(is_chunked: bool, content: &[u8], out: &mut Vec<u8>) {
    if content.is_empty() {
        return;
    }
    if is_chunked {
        encode_chunk_head(content.len() as u64, out);
    }
    out.extend_from_slice(content);
    if is_chunked {
        out.extend_from_slice(CHUNK_END);
    }
}

pub(crate) fn frame(kind: WsKind, content: &[u8], out: &mut Vec<u8>) {
    // Control frames hold no more (RFC 6455 section 5.5).
    let control = &content[..content.len().min(125)];
    let opcode = match kind {
        WsKind::Text => Opcode::Text,
        WsKind::Binary => Opcode::Binary,
        WsKind::Ping => return encode_ping(Masking::Server, control, out),
        WsKind::Pong => return encode_pong(Masking::Server, control, out),
    };
    encode_header(Masking::Server, opcode, content.len(), out);
    out.extend_from_slice(content);
}
