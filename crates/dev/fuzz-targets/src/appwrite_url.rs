//! The URL of an Appwrite client: limits hold, and each slot gets its id under a key of its own.

use throng_appwrite::{ConnectRequest, MessageLimits, Slot, write_slot_ids};

use crate::pieces::is_json;

pub(crate) const SEEDS: &[&[u8]] = &[
    b"project=p&channels[]=files&channels[]=account&channels[]=account.update",
    b"project=p&channels%5B0%5D=files&\
      files%5B0%5D%5B%5D=%7B%22method%22%3A%22equal%22%2C%22attribute%22%3A%22a%22%2C%22values\
      %22%3A%5B1%5D%7D&\
      files[x][]=%7B%22method%22%3A%22select%22%2C%22values%22%3A%5B%22*%22%5D%7D",
    b"project=p&jwt=a.b.c&mode=admin&devKey=k&channels[]=databases.d.collections.c.documents&\
      databases_d_collections_c_documents[1][]={\"method\":\"greaterThan\",\
      \"attribute\":\"n\",\"values\":[1.5]}",
    b"channels[2]=a&channels[a.b]=c&a[-1]=&a[9223372036854775807][]=x&a[][]=y&c=%ff",
];

/// Runs one input of this target; panics if the target finds a fault.
pub fn appwrite_url(input: &[u8]) {
    let Ok(query) = std::str::from_utf8(input) else {
        return;
    };
    let limits = MessageLimits {
        url_params_max: 12,
        channels_max: 4,
        channel_bytes_max: 40,
        subscriptions_max: 3,
        ..MessageLimits::default()
    };
    let Ok(request) = ConnectRequest::parse(query, &limits) else {
        return;
    };
    assert!(!request.project.is_empty());
    assert!(request.channels.len() <= limits.channels_max);
    for (at, channel) in request.channels.iter().enumerate() {
        assert!(channel.len() <= limits.channel_bytes_max);
        assert!(!request.channels[..at].contains(channel));
    }
    for user_id in ["", "U"] {
        let Ok(slots) = request.subscriptions(user_id, &limits) else {
            continue;
        };
        assert!(slots.len() <= limits.subscriptions_max);
        let named: Vec<(Slot, &str)> = slots.iter().map(|slot| (slot.slot.clone(), "id")).collect();
        let mut out = Vec::new();
        write_slot_ids(&named, &mut out);
        let ids: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
        let count = ids.as_array().map(Vec::len);
        let count = count.or_else(|| ids.as_object().map(serde_json::Map::len));
        assert_eq!(count, Some(slots.len()));
        for slot in &slots {
            assert!(!slot.channels.is_empty());
            assert!(is_json(slot.filter.text().as_bytes()));
        }
    }
}
