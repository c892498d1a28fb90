//! Ids of connections in Pusher's form, two decimal numbers: the halves of the public id that every
//! connection has.

use throng_session::NodeKey;
use throng_types::ConnId;

/// Id of a connection. It can be made and decoded by this node alone.
pub(crate) fn socket_id(node: &NodeKey, conn: ConnId) -> String {
    let id = node.client_id(conn);
    let digits: String = id.as_str().chars().filter(|digit| *digit != '-').collect();
    let half = |digits: &str| u64::from_str_radix(digits, 16).unwrap_or_default();
    let (high, low) = digits.split_at(digits.len() / 2);
    format!("{}.{}", half(high), half(low))
}

#[cfg(test)]
mod tests {
    use throng_pusher::api::is_socket_id;
    use throng_types::ShardId;

    use super::*;

    #[test]
    fn every_connection_has_an_id_of_its_own() {
        let node = NodeKey::new([7; 32]);
        let of = |shard, index| socket_id(&node, ConnId::new(ShardId(shard), index, 1));
        assert_eq!(of(1, 2), of(1, 2));
        assert_ne!(of(1, 2), of(2, 2));
        assert_ne!(of(1, 2), of(1, 3));
        assert!(is_socket_id(&of(1, 2)), "{}", of(1, 2));
    }
}
