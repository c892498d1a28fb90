//! A home as bytes: what another process makes of it, and of damaged ones.

use throng_types::{Epoch, Load as _, Parts, Publisher, Saved};

use super::*;

const LONG: &str = "kept:a channel whose name is longer than most";

fn home(nonce: u32) -> Home {
    let hash_seed = u64::from(nonce);
    Home::new(MemoryOptions {
        nonce,
        hash_seed,
        ..options(5, 1000, 1 << 20)
    })
}

/// Publishes a version that rises with time.
fn publish(home: &mut Home, channel: &str, key: Option<&str>, ms: u64) -> Position {
    let draft = Draft {
        idempotency_key: key.map(Into::into),
        ..versioned(ms, channel, &ms.to_string())
    };
    home.publish(draft, at(ms)).position.expect("history")
}

fn pieces_of(save: impl FnOnce(&mut Parts<'_>)) -> Vec<u8> {
    let mut pieces = Vec::new();
    let mut keep = |piece: &[u8]| pieces.extend_from_slice(piece);
    let mut parts = Parts::new(&mut keep);
    save(&mut parts);
    parts.end();
    pieces
}

/// Gives up the bytes of a home, which takes them back and is as before.
fn pieces(home: &mut Home) -> Vec<u8> {
    let pieces = pieces_of(|parts| home.give_up(parts));
    load(home, &pieces).expect("what was saved");
    pieces
}

fn load(home: &mut Home, pieces: &[u8]) -> Option<()> {
    let mut from = Saved::new(pieces);
    while !from.is_empty() {
        let kind = u8::load(&mut from)?;
        home.load(kind, &mut from)?;
    }
    Some(())
}

fn moved(old: &mut Home, nonce: u32) -> Home {
    let mut new = home(nonce);
    load(&mut new, &pieces(old)).expect("what was saved");
    new
}

#[test]
fn streams_go_on_with_their_positions_and_epochs() {
    let mut old = home(7);
    for ms in 1..=8 {
        publish(&mut old, "kept:busy", None, ms);
    }
    let keyed = publish(&mut old, LONG, Some("k"), 9);
    old.subscribe(ShardId(3), &name("kept:busy"), None, at(9));
    old.subscribe(ShardId(1), &name("kept:quiet"), None, at(9));
    let who = Arc::new(Publisher {
        client: "c".into(),
        ..Publisher::default()
    });
    old.members.add(&name("kept:quiet"), &who);
    let mut new = moved(&mut old, 8);
    assert_eq!(new.stats(), old.stats());
    // What is given up equals what is saved; it is gone here, and can be loaded again.
    let (stats, granted) = (old.stats(), old.share.granted());
    let saved = pieces(&mut old);
    assert!(pieces_of(|parts| old.give_up(parts)) == saved);
    assert_eq!((old.stats(), old.keys.len()), (BrokerStats::default(), 0));
    assert_eq!(old.share.granted(), granted, "it has room if it comes back");
    load(&mut old, &saved).expect("what was saved");
    assert!(old.stats() == stats && pieces(&mut old) == saved);
    assert_eq!(pieces(&mut new).len(), saved.len());
    assert_eq!(new.interest(&name("kept:busy")), 8);
    assert_eq!(new.interest(&name("kept:quiet")), 2);
    // The repeated publication is recognized by its key and by its version.
    assert_eq!(publish(&mut new, LONG, Some("k"), 100), keyed);
    assert_eq!(publish(&mut new, "kept:busy", None, 8).offset, 8);
    // Recovery goes on, over the hand-over.
    let next = publish(&mut new, "kept:busy", None, 20);
    assert_eq!((next.offset, next.epoch), (9, Epoch(7 << 32)));
    let since = Some(Position { offset: 5, ..next });
    let subscribed = new.subscribe(ShardId(0), &name("kept:busy"), since, at(20));
    let Recovery::Whole(missed) = subscribed.recovery else {
        panic!("{:?}", subscribed.recovery);
    };
    let offsets = missed.iter().map(|it| it.position.unwrap().offset);
    assert!(offsets.eq(6..=9));
    // What was kept ages as before.
    new.tick(at(1015), 100);
    let kept = new.texts("kept:busy", HistoryQuery::default(), 1015);
    assert_eq!(kept, ["20"]);
    new.check();
}

#[test]
fn damaged_bytes_do_no_harm() {
    let mut old = home(7);
    publish(&mut old, "kept:a", Some("k"), 1);
    publish(&mut old, "kept:a", None, 2);
    let whole = pieces(&mut old);
    for cut in 0..whole.len() {
        let _ = load(&mut home(8), &whole[..cut]);
    }
    for place in 0..whole.len() {
        for wrong in [0, 1, 2, 0x7f, 0xff] {
            let mut bytes = whole.clone();
            bytes[place] = wrong;
            let mut new = home(8);
            let _ = load(&mut new, &bytes);
            // Any item that loads leaves a usable home.
            publish(&mut new, "kept:a", None, 30);
            new.tick(at(5000), 100);
        }
    }
    // The same items cannot be loaded twice, and no other kind can.
    let mut new = moved(&mut old, 8);
    assert!(load(&mut new, &whole).is_none() && load(&mut new, &[99]).is_none());
}
