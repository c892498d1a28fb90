//! BrokerMail between two parts of the broker in memory: its bounds, and the interest of shards.

use std::sync::Arc;

use throng_broker::{
    Announced, Broker, BrokerMail, ChannelMember, ChannelOptions, DELIVERIES_MAX, Draft,
    MemoryOptions, NamespaceOptions, Outcome, REQUESTS_MAX, Refusal, Reply, Request, Ticket,
    home_of,
};
use throng_broker_suite::{HubMessage, TestHub};
use throng_types::json::payload_of;
use throng_types::{ChannelName, Now, Publication, PublicationKind, Publisher, ShardId};

const NOW: Now = Now {
    mono: throng_types::Millis(0),
    unix_ms: 0,
};

fn part(shard: u8) -> Broker {
    let namespaces = NamespaceOptions::new(ChannelOptions::default(), Vec::new());
    let home = MemoryOptions::for_tests(3, Arc::new(namespaces));
    Broker::new(ShardId(shard), 3, home)
}

/// A channel that is at home on shard 1.
fn channel() -> ChannelName {
    let mut names = (0..).map(|n| ChannelName::new(&format!("c{n}")).unwrap());
    names.find(|name| home_of(name, 3) == ShardId(1)).unwrap()
}

fn draft(bytes: usize) -> Draft {
    Draft::new(channel(), payload_of(&vec![b'x'; bytes]))
}

fn subscribe(ticket: u32) -> Request {
    Request::Subscribe {
        ticket: Ticket(ticket),
        channel: channel(),
        since: None,
        presence: None,
    }
}

/// Subscribes another shard to the channel.
fn join(home: &mut Broker, shard: u8) {
    let mut inbox = TestHub::default();
    let mail = BrokerMail::Request(subscribe(0));
    home.mail(ShardId(shard), mail, NOW, &mut inbox);
    assert!(inbox.heard.is_empty());
    assert!(home.has_mail(ShardId(shard)));
    let reply = home.take_mail(ShardId(shard));
    assert!(matches!(reply, Some(BrokerMail::Reply(_))));
    assert!(!home.has_mail(ShardId(shard)));
}

/// Publishes until that is refused; gives how many were accepted.
fn fill(home: &mut Broker, bytes: usize) -> u32 {
    for accepted in 0..20_000 {
        match home.publish_here(draft(bytes), NOW, &mut TestHub::default()) {
            Ok(published) => assert_eq!(published.shards, Some(1)),
            Err((refusal, _)) => {
                assert_eq!(refusal, Refusal::Busy);
                return accepted;
            }
        }
    }
    panic!("20,000 publications wait, and one more may");
}

#[test]
fn interest_names_the_shards_with_subscribers() {
    let mut home = part(1);
    assert_eq!(home.interest(&channel()), 0);
    join(&mut home, 0);
    assert_eq!(home.interest(&channel()), 0b001);
    join(&mut home, 2);
    home.request(subscribe(0), NOW, &mut TestHub::default());
    assert_eq!(home.interest(&channel()), 0b111);
    let leave = || Request::Leave { channel: channel() };
    home.request(leave(), NOW, &mut TestHub::default());
    home.mail(
        ShardId(0),
        BrokerMail::Request(leave()),
        NOW,
        &mut TestHub::default(),
    );
    assert_eq!(home.interest(&channel()), 0b100);
}

#[test]
fn so_many_requests_wait_for_a_reply() {
    let mut part = part(0);
    let mut inbox = TestHub::default();
    for ticket in 0..REQUESTS_MAX {
        part.request(subscribe(ticket), NOW, &mut inbox);
        // It counts until the reply, also after it left.
        assert!(part.take_mail(ShardId(1)).is_some());
    }
    assert!(inbox.heard.is_empty());
    part.request(subscribe(REQUESTS_MAX), NOW, &mut inbox);
    let refused = inbox.heard.pop_back();
    let Some(HubMessage::Reply(Reply { ticket, outcome })) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(ticket, Ticket(REQUESTS_MAX));
    assert!(matches!(outcome, Outcome::Subscribed(Err(Refusal::Busy))));
    // Leaving is never refused, and is not counted.
    part.request(Request::Leave { channel: channel() }, NOW, &mut inbox);
    assert!(part.take_mail(ShardId(1)).is_some());
    // Deliveries are no replies.
    let delivery = Publication::new(channel(), None, draft(1).payload);
    let delivery = BrokerMail::Delivery(delivery.shared());
    part.mail(ShardId(1), delivery, NOW, &mut inbox);
    part.request(subscribe(1), NOW, &mut inbox);
    assert_eq!(inbox.heard.len(), 2, "a delivery, and a refusal");
    let refused = Reply::published(Ticket(3), Err(Refusal::UnknownChannel));
    let reply = BrokerMail::Reply(refused);
    part.mail(ShardId(1), reply, NOW, &mut inbox);
    part.request(subscribe(1), NOW, &mut inbox);
    assert_eq!(inbox.heard.len(), 3, "room for one");
    part.request(subscribe(1), NOW, &mut inbox);
    assert_eq!(inbox.heard.len(), 4);
}

#[test]
fn so_many_deliveries_wait_for_a_mailbox() {
    let mut home = part(1);
    join(&mut home, 0);
    for _ in 0..2 {
        assert_eq!(fill(&mut home, 1), DELIVERIES_MAX);
        for _ in 0..100 {
            assert!(home.take_mail(ShardId(0)).is_some());
        }
        assert_eq!(fill(&mut home, 1), 100);
        while home.take_mail(ShardId(0)).is_some() {}
        // 64 MiB of them, or one of any size.
        let bytes = (1 << 20) - size_of::<Publication>();
        assert_eq!(fill(&mut home, bytes), 64);
        assert!(home.take_mail(ShardId(0)).is_some());
        assert_eq!(fill(&mut home, bytes), 1);
        while home.take_mail(ShardId(0)).is_some() {}
        assert_eq!(fill(&mut home, 100 << 20), 1);
        while home.take_mail(ShardId(0)).is_some() {}
    }
}

/// Comings that nobody took leave room for publications.
#[test]
fn so_many_comings_wait_for_a_mailbox() {
    let mut home = part(1);
    join(&mut home, 0);
    let coming = || Request::Subscribe {
        ticket: Ticket(0),
        channel: channel(),
        since: None,
        presence: Some(ChannelMember {
            who: Arc::new(Publisher::default()),
            is_listed: false,
            announced: Announced::Connections,
        }),
    };
    let comings_max = DELIVERIES_MAX / 16;
    for _ in 0..=comings_max {
        home.request(coming(), NOW, &mut TestHub::default());
    }
    let published = home.publish_here(draft(1), NOW, &mut TestHub::default());
    assert_eq!(published.expect("there is room").shards, Some(2));
    let mail = std::iter::from_fn(|| home.take_mail(ShardId(0)));
    let told = mail.map(|mail| match mail {
        BrokerMail::Delivery(publication) => publication.told,
        other => panic!("{other:?}"),
    });
    let told: Vec<PublicationKind> = told.collect();
    let (last, comings) = told.split_last().expect("deliveries");
    assert_eq!(*last, PublicationKind::Data);
    assert_eq!(comings.len(), comings_max as usize);
    assert!(comings.iter().all(|told| *told == PublicationKind::Joined));
}

#[test]
fn publications_that_go_together_are_one_message_to_each_other_shard() {
    let (mut part, mut home) = (part(0), part(1));
    let mut inbox = TestHub::default();
    let names = (0..100).map(|n| ChannelName::new(&format!("c{n}")).unwrap());
    let with = |channel| Draft {
        channel,
        ..draft(1)
    };
    let drafts: Vec<_> = (0..).map(Ticket).zip(names.map(with)).collect();
    let here = |(_, draft): &&(Ticket, Draft)| home_of(&draft.channel, 3) == ShardId(0);
    let count = drafts.iter().filter(here).count();
    part.publish_all(drafts, NOW, &mut inbox);
    assert_eq!(inbox.heard.len(), count, "those at home here");
    let mail = part.take_mail(ShardId(1)).unwrap();
    assert!(part.take_mail(ShardId(1)).is_none());
    assert!(part.take_mail(ShardId(2)).is_some());
    assert!(part.take_mail(ShardId(2)).is_none());
    home.mail(ShardId(0), mail, NOW, &mut TestHub::default());
    let answer = home.take_mail(ShardId(0)).unwrap();
    assert!(!home.has_mail(ShardId(0)));
    part.mail(ShardId(1), answer, NOW, &mut inbox);
    let replied = inbox.heard.len() - count;
    assert!(replied > 10, "{replied}");
    // Each of them counts: what is too much is refused one by one, and what was answered is room.
    let many = |count: u32| (0..count).map(|n| (Ticket(n), draft(1))).collect();
    inbox.heard.clear();
    part.publish_all(many(REQUESTS_MAX + 3), NOW, &mut inbox);
    assert_eq!(inbox.heard.len(), 3);
    part.publish_all(many(1), NOW, &mut inbox);
    part.request(subscribe(1), NOW, &mut inbox);
    assert_eq!(inbox.heard.len(), 5);
    let mail = part.take_mail(ShardId(1)).unwrap();
    home.mail(ShardId(0), mail, NOW, &mut TestHub::default());
    let answer = home.take_mail(ShardId(0)).unwrap();
    part.mail(ShardId(1), answer, NOW, &mut inbox);
    assert_eq!(inbox.heard.len(), 5 + REQUESTS_MAX as usize);
    part.publish_all(many(1), NOW, &mut inbox);
    assert_eq!(inbox.heard.len(), 5 + REQUESTS_MAX as usize);
}
