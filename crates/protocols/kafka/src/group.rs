//! Messages that members of a consumer group exchange through the coordinator, and how the one
//! that deals deals.
//!
//! The way is Kafka's `roundrobin`, so a group may hold other clients too: all partitions in order,
//! to all members in order, one each in turn.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::BufMut as _;

use crate::wire::{Reader, TopicPartition, Write, write_places};

/// The name of the way to deal.
pub const WAY: &str = "roundrobin";
/// The version of subscriptions and assignments.
const VERSION: i16 = 0;

/// Writes the subscription of a member that reads these topics.
#[must_use]
pub fn subscription(topics: &[impl AsRef<str>]) -> Vec<u8> {
    let mut out = Vec::new();
    out.put_i16(VERSION);
    out.texts(topics);
    out.bytes(&[]);
    out
}

/// The topics of a subscription; later versions have more behind them.
#[must_use]
pub fn topics_of(subscription: &[u8]) -> Option<Vec<String>> {
    let body = &mut Reader(subscription);
    let _version = body.i16()?;
    body.list(Reader::text)
}

/// The partitions of an assignment. A member for whom there are none may get no bytes at all.
#[must_use]
pub fn assignment(bytes: &[u8]) -> Option<Vec<TopicPartition>> {
    if bytes.is_empty() {
        return Some(Vec::new());
    }
    let body = &mut Reader(bytes);
    let _version = body.i16()?;
    let topics = body.list(|body| {
        let topic: Arc<str> = body.text()?.into();
        let partitions = body.list(Reader::i32)?;
        Some(partitions.into_iter().map(move |partition| TopicPartition {
            topic: topic.clone(),
            partition,
        }))
    })?;
    Some(topics.into_iter().flatten().collect())
}

fn write_assignment(places: &[(TopicPartition, ())]) -> Vec<u8> {
    let mut out = Vec::new();
    out.put_i16(VERSION);
    write_places(places, &mut out, |(), _| {});
    out.bytes(&[]);
    out
}

/// Deals these partitions to members, each with the topics that it reads. A partition of a topic
/// that nobody reads is nobody's.
#[must_use]
pub fn deal(
    members: &BTreeMap<String, Vec<String>>,
    places: impl IntoIterator<Item = TopicPartition>,
) -> Vec<(String, Vec<u8>)> {
    let mut hands: Vec<_> = members.iter().map(|it| (it, Vec::new())).collect();
    let mut places: Vec<TopicPartition> = places.into_iter().collect();
    places.sort();
    let mut turn = 0;
    for place in places {
        let count = hands.len();
        let reads = |n: &usize| {
            let ((_, topics), _) = &hands[*n];
            topics.iter().any(|topic| **topic == *place.topic)
        };
        let order = (turn..turn + count).map(|n| n % count);
        if let Some(next) = { order }.find(reads) {
            hands[next].1.push((place, ()));
            turn = next + 1;
        }
    }
    let hands = hands.into_iter();
    hands
        .map(|((id, _), places)| (id.clone(), write_assignment(&places)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dealt(members: &[(&str, &[&str])], topics: &[(&str, i32)]) -> Vec<(String, String)> {
        let members = members.iter().map(|(id, topics)| {
            let bytes = subscription(topics);
            ((*id).to_owned(), topics_of(&bytes).unwrap())
        });
        let place = |topic: &str, partition| TopicPartition {
            topic: topic.into(),
            partition,
        };
        let places = topics.iter();
        let places = places.flat_map(|(topic, count)| (0..*count).map(|n| place(topic, n)));
        let hands = deal(&members.collect(), places).into_iter();
        let show = |bytes: &[u8]| {
            let places = assignment(bytes).unwrap();
            let places: Vec<String> = places.iter().map(ToString::to_string).collect();
            places.join(" ")
        };
        hands.map(|(id, bytes)| (id, show(&bytes))).collect()
    }

    fn hands(hands: &[(&str, &str)]) -> Vec<(String, String)> {
        let hands = hands.iter();
        hands
            .map(|(id, places)| ((*id).to_owned(), (*places).to_owned()))
            .collect()
    }

    #[test]
    fn partitions_are_dealt_in_turn() {
        let found = dealt(
            &[("x", &["a", "b"]), ("y", &["a", "b"])],
            &[("a", 3), ("b", 2)],
        );
        assert_eq!(found, hands(&[("x", "a-0 a-2 b-1"), ("y", "a-1 b-0")]));
    }

    #[test]
    fn only_who_reads_a_topic_gets_its_partitions() {
        let members: [(&str, &[&str]); 3] = [("x", &["a"]), ("y", &["b"]), ("z", &["a"])];
        let found = dealt(&members, &[("a", 3), ("b", 1), ("c", 1)]);
        assert_eq!(
            found,
            hands(&[("x", "a-0 a-2"), ("y", "b-0"), ("z", "a-1")])
        );
        assert_eq!(dealt(&[], &[("a", 1)]), []);
    }

    #[test]
    fn what_makes_no_sense_is_none() {
        assert_eq!(assignment(b""), Some(Vec::new()));
        assert_eq!(assignment(b"\0\0\x7f\xff\xff\xff"), None);
        assert_eq!(topics_of(b"\0\0\0\0\0\x01\0\x05a"), None);
    }
}
