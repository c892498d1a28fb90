//! Members, and the announcements of their coming and going.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use throng_broker::{Announced, ChannelMember, Outcome, Present, Refusal, Request};
use throng_types::{PublicationKind, Publisher, ShardId};

use crate::HubMessage;
use crate::cluster::MEMBERS_MAX;
use crate::tester::{Tester, name};

/// A channel with a list of members that are told of each other.
const CHANNEL: &str = "seen:a";
/// Far more than any broker looks before it tells.
const LOOKS_MAX: usize = 1000;

fn presence(client: &str, user: &str) -> ChannelMember {
    ChannelMember {
        who: Arc::new(Publisher {
            client: client.into(),
            user: user.into(),
            ..Publisher::default()
        }),
        is_listed: true,
        announced: Announced::Connections,
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
        Some(Outcome::Present(result)) => result,
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
        let HubMessage::Delivery(publication) = reply else {
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

/// Takes what a shard is told of users until it knows that these are there, as a broker may look
/// more than once before it tells. `told` has those who have come and not left. Returns the number
/// of tellings.
fn hear_users(
    tester: &mut Tester,
    shard: ShardId,
    told: &mut BTreeSet<String>,
    there: &BTreeSet<String>,
) -> usize {
    let mut count = hear_news(tester, shard, told);
    for _ in 0..LOOKS_MAX {
        if told == there {
            return count;
        }
        present(tester, CHANNEL, false).expect("numbers");
        count += hear_news(tester, shard, told);
    }
    panic!("{told:?} are told, and {there:?} are there");
}

fn hear_news(tester: &mut Tester, shard: ShardId, there: &mut BTreeSet<String>) -> usize {
    let mut count = 0;
    tester.settle();
    while let Some(message) = tester.next(shard) {
        let HubMessage::Delivery(publication) = message else {
            continue;
        };
        let who = publication.publisher.as_ref().expect("somebody");
        match publication.told {
            PublicationKind::Joined => drop(there.insert(who.user.to_string())),
            PublicationKind::Left => drop(there.remove(&*who.user)),
            PublicationKind::Data => panic!("nobody has published"),
        }
        count += 1;
    }
    count
}

/// A listener from the start knows which users are there: it is told of each once, where one thing
/// happens after the other, and of the truth last, where all happens at once.
pub fn users_come_with_their_first_connection_and_leave_with_their_last(tester: &mut Tester) {
    let few = tester.setup.shards.min(4);
    let watcher = ShardId(few - 1);
    tester.subscribe(watcher, CHANNEL, None);
    tester.settle();
    let mut there: BTreeMap<u64, ChannelMember> = BTreeMap::new();
    let mut told = BTreeSet::new();
    for step in 0..300 {
        let is_quiet = step < 100;
        let n = tester.rng.below(12);
        let shard = ShardId((n % u64::from(few)) as u8);
        let users = |there: &BTreeMap<u64, ChannelMember>| -> BTreeSet<String> {
            { there.values() }
                .map(|presence| presence.who.user.to_string())
                .collect()
        };
        let before = users(&there);
        match there.remove(&n) {
            Some(presence) => quit(tester, shard, presence),
            None => {
                let presence = ChannelMember {
                    announced: Announced::Users,
                    ..presence(&format!("client {n:02}"), &format!("user {}", n % 5))
                };
                come(tester, shard, presence.clone());
                there.insert(n, presence);
            }
        }
        if is_quiet || step == 299 {
            let after = users(&there);
            let count = hear_users(tester, watcher, &mut told, &after);
            let changed = before.symmetric_difference(&after).count();
            assert!(!is_quiet || count == changed, "{count} for {changed}");
        } else {
            tester.step();
        }
    }
    for (n, presence) in there {
        quit(tester, ShardId((n % u64::from(few)) as u8), presence);
    }
    hear_users(tester, watcher, &mut told, &BTreeSet::new());
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
                    HubMessage::Reply(reply) => {
                        assert_eq!(reply.ticket.0, ticket);
                        replied = true;
                    }
                    HubMessage::Delivery(publication) => {
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
