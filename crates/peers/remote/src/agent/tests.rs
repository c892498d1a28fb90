use throng_types::json::payload_of;

use super::*;

/// A publication at a position, that says where it is.
pub(crate) fn publication(position: Option<Position>) -> Publication {
    saying(position, &format!("{position:?}"))
}

fn saying(position: Option<Position>, text: &str) -> Publication {
    let channel = ChannelName::new("a").unwrap();
    Publication::new(channel, position, payload_of(text.as_bytes()))
}

const fn at(epoch: u64, offset: u64) -> Option<Position> {
    Some(Position {
        epoch: Epoch(epoch),
        offset,
    })
}

/// A channel that stands at this offset of the first epoch.
fn live(offset: u64) -> Channel {
    let mut channel = Channel::new(1);
    channel.state = State::Live;
    channel.top = at(1, offset);
    channel
}

#[test]
fn another_content_for_a_position_is_strange_and_the_same_is_known() {
    let mut channel = live(40);
    for offset in 41..=60 {
        assert_eq!(channel.took(&publication(at(1, offset))), Took::Next);
    }
    for offset in 45..=60 {
        assert_eq!(channel.took(&publication(at(1, offset))), Took::Known);
        let other = channel.took(&saying(at(1, offset), "x"));
        assert!(matches!(other, Took::Strange(_)), "{offset}");
    }
    // As it comes with answers.
    assert!(channel.remember(&publication(at(1, 50))));
    assert!(!channel.remember(&saying(at(1, 50), "x")));
    // In another epoch it is another publication.
    assert_eq!(channel.took(&saying(at(2, 50), "x")), Took::Gap);
}

#[test]
fn a_delivery_far_behind_those_before_it_is_strange() {
    let mut channel = live(40);
    for offset in 41..=60 {
        channel.took(&publication(at(1, offset)));
    }
    let behind = channel.took(&publication(at(1, 44)));
    assert!(matches!(behind, Took::Strange(_)), "{behind:?}");
    // A new connection begins anew.
    channel.lost_connection(true);
    channel.state = State::Live;
    assert_eq!(channel.took(&publication(at(1, 44))), Took::Known);
}

#[test]
fn what_waited_for_an_answer_is_taken_once_more() {
    let mut channel = Channel::new(1);
    for offset in 1..=60 {
        assert_eq!(channel.took(&publication(at(1, offset))), Took::Known);
    }
    (channel.state, channel.top) = (State::Live, at(1, 10));
    for offset in 11..=60 {
        assert_eq!(channel.took(&publication(at(1, offset))), Took::Next);
    }
}

#[test]
fn what_comes_on_its_way_behind_an_answer_is_known() {
    // The answer has all up to 100; deliveries of the last 60 come behind it.
    let mut channel = live(100);
    for offset in 1..=100 {
        assert!(channel.remember(&publication(at(1, offset))));
    }
    for offset in 41..=100 {
        assert_eq!(channel.took(&publication(at(1, offset))), Took::Known);
    }
    // One that a server sends late, out of order.
    assert_eq!(channel.took(&publication(at(1, 99))), Took::Known);
    assert_eq!(channel.took(&publication(at(1, 101))), Took::Next);
    // A jump forgets what lies before.
    assert_eq!(channel.took(&publication(at(1, 140))), Took::Gap);
}
