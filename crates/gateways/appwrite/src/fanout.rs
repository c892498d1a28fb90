//! An event on its way: its receivers, and the bytes of its frames.

use throng_appwrite::{EncodedEvent, FeedMessage, Layout, NewEvent};
use throng_types::{ConnId, Frame, Now, Position};
use throng_ws::{Masking, Opcode, encode_header};

/// An event on its way: receivers in order, each with the end of its ids.
pub(crate) struct Fanout {
    pub(crate) shared: Shared,
    pub(crate) receivers: Vec<(ConnId, u32)>,
    pub(crate) ids: Vec<u8>,
    pub(crate) next: usize,
}

/// The parts of an event's frames that its receivers share.
pub(crate) struct Shared {
    head: Box<[u8]>,
    pub(crate) tail: Frame,
    position: Position,
}

impl Shared {
    pub(crate) fn new(event: &FeedMessage, position: Position) -> Self {
        let encoded = EncodedEvent::new(event, Layout::IdsFirst);
        Self {
            head: encoded.head,
            tail: Frame::new(&encoded.tail),
            position,
        }
    }

    /// A frame's own part: the WebSocket header, and everything up to the shared part.
    pub(crate) fn head(&self, ids: &[u8], positioned: bool, out: &mut Vec<u8>) {
        out.clear();
        let (before, after) = self.head.split_at(if positioned { DATA.len() } else { 0 });
        let position = match positioned {
            true => format!(
                r#""position":"{}-{}","#,
                self.position.epoch, self.position.offset
            ),
            false => String::new(),
        };
        let bytes = self.head.len() + position.len() + ids.len() + self.tail.len();
        encode_header(Masking::Server, Opcode::Text, bytes, out);
        for part in [before, position.as_bytes(), after, ids] {
            out.extend_from_slice(part);
        }
    }
}

/// Start of an event's frame, up to where more fields may stand.
const DATA: &[u8] = br#"{"type":"event","data":{"#;

/// The event of the channel `tests`, on which other people's tests depend.
pub(crate) fn test_event(now: Now) -> Option<FeedMessage> {
    let mut message = Vec::new();
    let event = NewEvent {
        project: throng_appwrite::CONSOLE,
        roles: &[throng_appwrite::GUESTS],
        names: &["test.event"],
        channels: &["tests"],
        time_unix_ms: now.unix_ms,
        payload: r#"{"response":"WS:/v1/realtime:passed"}"#,
    };
    event.encode(&mut message);
    FeedMessage::parse(&message, message.len()).ok()
}
