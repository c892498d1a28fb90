//! Public ids of connections: no table, unguessable, and decoded in constant time.
//!
//! An id is one block of AES under a secret of the node: the connection's number and the node's.
//! Without the secret, ids can be neither made nor decoded, however many are known. They look like
//! UUIDs because SDKs and their users expect one.
//!
//! Invariant: no two nodes make the same id. They have different keys, or, with the same key,
//! different numbers, and different blocks stay different.

use std::fmt;
use std::sync::Arc;

use throng_auth::BlockKey;
use throng_types::{ConnId, Save};

/// A node's secret, and its public number.
#[derive(Clone)]
pub struct NodeKey {
    block: Arc<BlockKey>,
    number: u64,
}

/// A public id: 36 characters, `8-4-4-4-12` hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Save)]
#[save(check = Self::is_text)]
pub struct ClientId([u8; 36]);

const DASHES: [usize; 4] = [8, 13, 18, 23];
/// Places of the two digits of each byte.
const PLACES: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];
const DIGITS: &[u8; 16] = b"0123456789abcdef";

impl NodeKey {
    /// From random bytes: 16 of the key, 8 of the node's number; the rest is not used.
    pub fn new(secret: [u8; 32]) -> Self {
        let bits = |from: usize| -> u128 {
            let bytes = secret.iter().skip(from).take(16);
            bytes.fold(0, |bits, byte| bits << 8 | u128::from(*byte))
        };
        Self {
            block: Arc::new(BlockKey::new(bits(0).to_be_bytes())),
            number: (bits(16) >> 64) as u64,
        }
    }

    /// The node's number. It is public, and no part of the key.
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// The node's name in protocols: its number in hexadecimal digits.
    pub fn name(&self) -> String {
        format!("{:016x}", self.number)
    }

    pub fn client_id(&self, conn: ConnId) -> ClientId {
        self.sealed(conn, self.number)
    }

    /// Encrypts a connection's number with a mark for the kind of id.
    fn sealed(&self, conn: ConnId, mark: u64) -> ClientId {
        let plain = u128::from(conn.to_bits()) << 64 | u128::from(mark);
        let sealed = self.block.seal(plain.to_be_bytes());
        let mut text = [b'-'; 36];
        for (at, byte) in PLACES.into_iter().zip(sealed) {
            text[at] = DIGITS[usize::from(byte >> 4)];
            text[at + 1] = DIGITS[usize::from(byte & 15)];
        }
        ClientId(text)
    }

    /// Returns the secret id of a connection's session: a holder may act as that client. The public
    /// id does not reveal it.
    pub fn session_id(&self, conn: ConnId) -> ClientId {
        self.sealed(conn, !self.number)
    }

    /// The connection that a public id of this node names; it may have gone since.
    pub fn conn_id(&self, text: &str) -> Option<ConnId> {
        self.opened(text, self.number)
    }

    /// The connection that a session's secret id names; it may have gone since.
    pub fn conn_of_session(&self, text: &str) -> Option<ConnId> {
        self.opened(text, !self.number)
    }

    fn opened(&self, text: &str, mark: u64) -> Option<ConnId> {
        if text.len() != 36 {
            return None;
        }
        let mut sealed: u128 = 0;
        for (at, byte) in text.bytes().enumerate() {
            let digit = match byte {
                b'-' if DASHES.contains(&at) => continue,
                _ if DASHES.contains(&at) => return None,
                b'0'..=b'9' => byte - b'0',
                b'a'..=b'f' => byte - b'a' + 10,
                _ => return None,
            };
            sealed = sealed << 4 | u128::from(digit);
        }
        let plain = u128::from_be_bytes(self.block.open(sealed.to_be_bytes()));
        (plain as u64 == mark).then(|| ConnId::from_bits((plain >> 64) as u64))
    }
}

impl fmt::Debug for NodeKey {
    /// Prints the number only; the key stays secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeKey({:016x})", self.number)
    }
}

impl ClientId {
    const fn is_text(&self) -> bool {
        self.0.is_ascii()
    }
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

    fn key(first: u8) -> NodeKey {
        NodeKey::new(std::array::from_fn(|n| first.wrapping_add(n as u8)))
    }

    #[test]
    fn an_id_leads_back_to_its_connection_on_its_node_only() {
        let key_one = key(1);
        for (index, generation) in [(0, 0), (1, 2), (u32::MAX, 77)] {
            let conn = ConnId::new(ShardId(3), index, generation);
            let id = key_one.client_id(conn);
            assert_eq!(key_one.conn_id(id.as_str()), Some(conn));
            assert_eq!(key(2).conn_id(id.as_str()), None);
        }
    }

    #[test]
    fn a_public_id_is_no_session() {
        let key = key(1);
        let conn = ConnId::new(ShardId(3), 7, 1);
        let (public, secret) = (key.client_id(conn), key.session_id(conn));
        assert_eq!(key.conn_of_session(secret.as_str()), Some(conn));
        assert_eq!(key.conn_of_session(public.as_str()), None);
        assert_eq!(key.conn_id(secret.as_str()), None);
    }

    #[test]
    fn what_is_not_an_id_names_nobody() {
        let key = key(5);
        let id = key.client_id(ConnId::new(ShardId(0), 1, 1));
        let altered = id.as_str().replacen(|c: char| c != '0' && c != '-', "0", 1);
        let upper = "ABCDEF00-0000-0000-0000-000000000000";
        for wrong in ["", "x", &altered, upper, &"é".repeat(18), &"-".repeat(36)] {
            assert_eq!(key.conn_id(wrong), None, "{wrong}");
        }
    }

    /// Regression: ids once showed the connection's number and the node's secret, mixed by an
    /// invertible function in their first half.
    #[test]
    fn ids_show_neither_the_number_nor_the_node() {
        let key = key(9);
        let bits = |index: u32| {
            let id = key.client_id(ConnId::new(ShardId(0), index, 1));
            let digits: String = id.as_str().chars().filter(|c| *c != '-').collect();
            u128::from_str_radix(&digits, 16).unwrap()
        };
        for index in 0..200 {
            // Neighbours differ in about half of their bits, in either half of the id.
            let differ = bits(index) ^ bits(index + 1);
            for half in [differ as u64, (differ >> 64) as u64] {
                assert!((10..54).contains(&half.count_ones()), "{index}");
            }
            assert_ne!(bits(index) as u64, key.number());
        }
    }

    #[test]
    fn nodes_with_one_key_and_their_own_numbers_never_make_the_same_id() {
        let with_number = |number: u8| {
            let mut secret = [7; 32];
            secret[16..24].fill(number);
            NodeKey::new(secret)
        };
        let (one, other) = (with_number(1), with_number(2));
        for index in 0..1000 {
            let conn = ConnId::new(ShardId(0), index, 0);
            let id = one.client_id(conn);
            assert_ne!(id, other.client_id(conn));
            assert_eq!(other.conn_id(id.as_str()), None);
        }
    }

    #[test]
    fn a_key_does_not_show_itself() {
        assert_eq!(format!("{:?}", key(0)), "NodeKey(1011121314151617)");
    }
}
