//! A stream over several channels that opens while they are published to.

use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::sync::Arc;

use throng_broker::{Recovery, Subscribed};
use throng_gateway_plain::Plain;
use throng_hub::Answer;
use throng_session::{Event, Gateway, OPENING, Port};
use throng_solo::Solo;
use throng_types::{
    ChannelName, ConnId, Epoch, Payload, PayloadKind, Position, Publication, PublicationKind,
    ShardId,
};

const EPOCH: Epoch = Epoch(1);

fn channel(name: &str) -> ChannelName {
    ChannelName::new(name).expect("a good name")
}

/// The first publication of a channel.
fn first(name: &str) -> Arc<Publication> {
    let payload = Payload {
        bytes: format!("first of {name}").into_bytes().into(),
        kind: PayloadKind::Text,
    };
    let position = Some(Position {
        epoch: EPOCH,
        offset: 1,
    });
    Publication {
        channel: channel(name),
        told: PublicationKind::Data,
        position,
        payload,
        publisher: None,
        tags: None,
        time_unix_ms: 0,
    }
    .shared()
}

fn subscribed(stream: &mut Solo<Plain>, name: &str) {
    let subscribed = Subscribed {
        position: Some(Position {
            epoch: EPOCH,
            offset: 0,
        }),
        recovery: Recovery::NotAsked,
    };
    let answer = Answer::Subscribed {
        channel: channel(name),
        result: Ok(subscribed),
    };
    stream.event(Event::Answer {
        token: OPENING,
        answer,
    });
}

fn deliver(stream: &mut Solo<Plain>, publication: &Arc<Publication>) {
    stream.act(|session, cx| Plain::encode_personal(session, publication, cx.out));
}

/// Deliveries before the last channel's answer wait for the stream's first words, then all go out
/// in order.
#[test]
fn what_comes_while_a_stream_opens_is_all_there_after_the_first_words() {
    for path in ["sse", "stream"] {
        let id = ConnId::new(ShardId(0), 1, 1);
        let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let shared = Rc::new(throng_solo::shared());
        let mut stream: Solo<Plain> = Solo::new(id, Port::Client, peer, shared, Rc::default());
        stream.feed(
            format!(
                "GET /{path}?channel=a&channel=b&channel=c HTTP/1.1\r\nHost: localhost\r\n\r\n"
            )
            .as_bytes(),
        );
        stream.out.clear();
        subscribed(&mut stream, "a");
        deliver(&mut stream, &first("a"));
        subscribed(&mut stream, "b");
        deliver(&mut stream, &first("b"));
        assert!(stream.out.is_empty(), "one channel has not answered");
        subscribed(&mut stream, "c");
        deliver(&mut stream, &first("c"));
        let told = String::from_utf8_lossy(&stream.out).into_owned();
        let places = ["a", "b", "c"].map(|name| told.find(&format!("first of {name}")));
        assert!(places.iter().all(Option::is_some), "{told}");
        assert!(places.is_sorted(), "{told}");
    }
}
