//! Texts that clients bring back: cursors of event streams, public ids of connections. What is
//! accepted is what was given out.
//!
//! Input: the text.

use throng_gateway_plain::Cursor;
use throng_session::NodeKey;
use throng_types::{ChannelName, ConnId, ShardId};

pub(crate) const SEEDS: &[&[u8]] = &[
    b"9f3a.abc.7,1.2.ffffffffffffffff",
    b"0.0.0",
    b"00000000-0000-0000-0000-000000000000",
    b"chat:room-1",
];

/// Runs one input of this target; panics if the target finds a fault.
pub fn session_ids(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    if let Some(cursor) = Cursor::parse(text, 4) {
        let mut again = String::new();
        cursor.write(&mut again);
        assert_eq!(Cursor::parse(&again, 4), Some(cursor));
    }
    let key = NodeKey::new([0x5e; 32]);
    if let Some(conn) = key.conn_id(text) {
        assert_eq!(key.client_id(conn).as_str(), text);
    }
    let conn = ConnId::new(ShardId(3), 7, input.len() as u32);
    assert_eq!(key.conn_id(key.client_id(conn).as_str()), Some(conn));
    if let Ok(channel) = ChannelName::new(text) {
        assert_eq!(channel.as_str(), text);
    }
}
