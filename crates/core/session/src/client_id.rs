//! Public ids of connections: nothing to store, nothing to guess, found again at once.
//!
//! The id is the connection's own number, stirred with the node's secret so that it
//! tells nothing, and a check that only this node can make. It looks like a UUID
//! because SDKs and their users expect one.

use std::fmt;

use throng_types::ConnId;

/// A node's secret, drawn at start.
#[derive(Clone, Copy)]
pub struct NodeKey(pub u64);

/// A public id: 36 characters, `8-4-4-4-12` hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ClientId([u8; 36]);

const DASHES: [usize; 4] = [8, 13, 18, 23];

impl NodeKey {
    /// The public id of a connection.
    #[must_use]
    pub fn client_id(self, conn: ConnId) -> ClientId {
        let hidden = stir(conn.to_bits() ^ self.0);
        let digits = format!("{hidden:016x}{:016x}", self.check(hidden));
        let mut digits = digits.bytes();
        let mut text = [b'-'; 36];
        for (at, byte) in text.iter_mut().enumerate() {
            if !DASHES.contains(&at) {
                // 32 digits for 32 places.
                *byte = digits.next().unwrap_or(b'0');
            }
        }
        ClientId(text)
    }

    /// The connection that a public id of this node names; it may have gone since.
    #[must_use]
    pub fn conn_id(self, text: &str) -> Option<ConnId> {
        let shape = text.len() == 36
            && text.bytes().enumerate().all(|(at, byte)| match byte {
                b'-' => DASHES.contains(&at),
                _ => !DASHES.contains(&at) && matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
            });
        if !shape {
            return None;
        }
        let digits: String = text.chars().filter(|&c| c != '-').collect();
        let hidden = u64::from_str_radix(&digits[..16], 16).ok()?;
        let check = u64::from_str_radix(&digits[16..], 16).ok()?;
        (check == self.check(hidden)).then(|| ConnId::from_bits(unstir(hidden) ^ self.0))
    }

    fn check(self, hidden: u64) -> u64 {
        stir(stir(hidden ^ self.0.rotate_left(32)).wrapping_add(self.0))
    }
}

/// A bijection of 64 bits (the finaliser of SplitMix64).
const fn stir(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Its inverse.
const fn unstir(mut x: u64) -> u64 {
    x = (x ^ (x >> 31) ^ (x >> 62)).wrapping_mul(0x3196_42b2_d24d_8ec3);
    x = (x ^ (x >> 27) ^ (x >> 54)).wrapping_mul(0x96de_1b17_3f11_9089);
    x ^ (x >> 30) ^ (x >> 60)
}

impl ClientId {
    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // Digits and dashes only.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Debug for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use throng_types::ShardId;

    use super::*;

    #[test]
    fn an_id_leads_back_to_its_connection_on_its_node_only() {
        let key = NodeKey(0x1234_5678_9abc_def0);
        for (index, generation) in [(0, 0), (1, 2), (u32::MAX, 77)] {
            let conn = ConnId::new(ShardId(3), index, generation);
            let id = key.client_id(conn);
            assert_eq!(key.conn_id(id.as_str()), Some(conn));
            assert_eq!(NodeKey(1).conn_id(id.as_str()), None);
        }
    }

    #[test]
    fn what_is_not_an_id_names_nobody() {
        let key = NodeKey(5);
        let id = key.client_id(ConnId::new(ShardId(0), 1, 1));
        let altered = id.as_str().replacen(|c: char| c != '0' && c != '-', "0", 1);
        let upper = "ABCDEF00-0000-0000-0000-000000000000";
        for wrong in ["", "x", &altered, upper, &"é".repeat(18), &"-".repeat(36)] {
            assert_eq!(key.conn_id(wrong), None, "{wrong}");
        }
    }
}
