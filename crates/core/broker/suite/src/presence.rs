//! Members, and the announcements of their coming and going.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use throng_broker::{ChannelMember, Present, Refusal, Reply, Request};
use throng_types::{PublicationKind, Publisher, ShardId};

use crate::cluster::MEMBERS_MAX;
use crate::tester::{Tester, name};

/// A channel with a list of members that are told of each other.
const CHANNEL: &str = "seen:a";

fn presence(client: &str, user: &str) -> ChannelMember {
    ChannelMember {
        who: Arc::new(Publisher {
            client: client.into(),
            user: user.into(),
            ..Publisher::default()
        }),
        is_listed: true,
        is_announced: true,
    }
}

fn come(tester: &mut Tester, shard: ShardId, presence: ChannelMember) -> u32 {
    tester.ask(shard, |ticket| Request::Subscribe {
        ticket,
        channel: name(CHANNEL),
        since: None,
        presence: Some(presence),
    })
}

fn quit(tester: &mut Tester, shard: ShardId, presence: ChannelMember) {
    let channel = name(CHANNEL);
    tester.ask(shard, |_| Request::Quit { channel, presence });
}

fn present(tester: &mut Tester, channel: &str, with_members: bool) -> Result<Present, Refusal> {
    let shard = tester.shard();
    let channel = name(channel);
    let ticket = tester.ask(shard, |ticket| Request::Present {
        ticket,
        channel,
        with_members,
    });
    tester.settle();
    match tester.reply(shard, ticket) {
        Some(Reply::Present { result, .. }) => result,
        other => panic!("{other:?} to a question for presence"),
    }
}

fn clients(present: &Present) -> BTreeSet<String> {
    let members = present.members.iter().flatten();
    members.map(|who| who.client.to_string()).collect()
}

/// In any order of comings and goings on several shards, the list has the present members, and a
/// listener from the start is told of all of them.
pub fn members_are_those_who_came_and_have_not_left(tester: &mut Tester) {
    let few = tester.setup.shards.min(4);
    let watcher = ShardId(few - 1);
    tester.subscribe(watcher, CHANNEL, None);
    // By client: on which shard, and as which user. A client stays on its shard.
    let mut there: BTreeMap<u64, ChannelMember> = BTreeMap::new();
    for _ in 0..400 {
        let n = tester.rng.below(24);
        let shard = ShardId((n % u64::from(few)) as u8);
        match tester.rng.below(4) {
            0 | 1 if !there.contains_key(&n) => {
                let presence = presence(&format!("client {n:02}"), &format!("user {}", n % 5));
                come(tester, shard, presence.clone());
                there.insert(n, presence);
            }
            2 => {
                if let Some(presence) = there.remove(&n) {
                    quit(tester, shard, presence);
                }
            }
            _ => drop(tester.step()),
        }
    }
    tester.settle();
    let listed = present(tester, CHANNEL, true).expect("a list");
    let expected: BTreeSet<String> = { there.values() }
        .map(|presence| presence.who.client.to_string())
        .collect();
    assert_eq!(clients(&listed), expected);
    let users: BTreeSet<&str> = there.values().map(|presence| &*presence.who.user).collect();
    let numbers = present(tester, CHANNEL, false).expect("numbers");
    assert_eq!(numbers.members, None);
    for told in [&listed, &numbers] {
        let found = (told.clients as usize, told.users as usize);
        assert_eq!(found, (there.len(), users.len()));
    }
    // The watcher's announcements lead to the same list.
    let mut heard = BTreeSet::new();
    while let Some(reply) = tester.next(watcher) {
        let Reply::Delivery(publication) = reply else {
            continue;
        };
        let who = publication.publisher.as_ref().expect("somebody");
        assert_eq!(publication.position, None);
        match publication.told {
            PublicationKind::Joined => {
                assert!(heard.insert(who.client.to_string()), "{who:?} came twice")
            }
            PublicationKind::Left => {
                assert!(heard.remove(&*who.client), "{who:?} left without coming")
            }
            PublicationKind::Data => panic!("nobody has published"),
        }
    }
    assert_eq!(heard, expected);
    for (n, presence) in there {
        quit(tester, ShardId((n % u64::from(few)) as u8), presence);
    }
    tester.settle();
    let nobody = present(tester, CHANNEL, true).expect("an empty list");
    assert_eq!((nobody.clients, clients(&nobody)), (0, BTreeSet::new()));
    assert_eq!(tester.stats().map_or(0, |stats| stats.members), 0);
}

/// A member is listed before the reply to its subscribe, and its own coming arrives after it.
pub fn who_comes_hears_of_it_after_its_reply(tester: &mut Tester) {
    for shard in tester.shards().take(4) {
        let presence = presence(&format!("client {}", shard.0), "ann");
        let ticket = come(tester, shard, presence.clone());
        let mut replied = false;
        loop {
            let more = tester.step();
            while let Some(reply) = tester.next(shard) {
                match reply {
                    Reply::Subscribed { ticket: of, .. } => {
                        assert_eq!(of.0, ticket);
                        replied = true;
                    }
                    Reply::Delivery(publication) => {
                        let who = publication.publisher.as_ref().expect("somebody");
                        let is_own = who.client == presence.who.client;
                        assert!(replied || !is_own, "the coming before the reply");
                    }
                    other => panic!("{other:?}"),
                }
            }
            if replied {
                let listed = present(tester, CHANNEL, true).expect("a list");
                assert!(clients(&listed).contains(&*presence.who.client));
                break;
            }
            assert!(more, "a reply");
        }
        for other in tester.shards().take(4) {
            while tester.next(other).is_some() {}
        }
    }
}

/// A list is given whole or not at all, and only where there is one.
pub fn a_long_list_is_not_cut(tester: &mut Tester) {
    for n in 0..=MEMBERS_MAX {
        let full = present(tester, CHANNEL, true).expect("a list");
        assert_eq!(clients(&full).len(), n);
        let shard = tester.shard();
        come(tester, shard, presence(&format!("client {n}"), ""));
        tester.settle();
    }
    let found = present(tester, CHANNEL, true);
    assert_eq!(found, Err(Refusal::TooLong));
    let numbers = present(tester, CHANNEL, false).expect("numbers");
    assert_eq!(
        (numbers.clients as usize, numbers.users),
        (MEMBERS_MAX + 1, 1)
    );
    for (channel, refusal) in [
        ("plain", Refusal::NotAvailable),
        ("unknown:a", Refusal::UnknownChannel),
    ] {
        assert_eq!(present(tester, channel, true), Err(refusal), "{channel}");
    }
}
