//! The bounds of a home: bytes, streams, keys, replies; and its books.

use throng_types::Publisher;

use super::*;
use crate::memory::keys::KEYS_MAX;

#[test]
fn history_stays_within_its_budget_of_bytes() {
    let mut home = home(1000, 1_000_000, 10_000);
    for n in 0..200 {
        publish(&mut home, &format!("kept:{}", n % 7), &"x".repeat(100), n);
        assert!(home.stats().history_bytes <= 10_000);
        home.check();
    }
    assert!(home.stats().history_publications > 10);
    let before = home.stats();
    publish(&mut home, "kept:big", &"x".repeat(20_000), 300);
    assert_eq!(home.stats().history_bytes, before.history_bytes);
    assert_eq!(home.stats().streams, before.streams + 1);
    home.check();
}

#[test]
fn tags_publishers_and_streams_are_in_the_budget() {
    let mut home = home(1, 1000, 1 << 20);
    let used = |home: &mut Home, draft: Draft| {
        let cost = draft.cost_bytes();
        let kept = home.publish(draft, at(0)).publication.unwrap();
        assert_eq!(kept.cost_bytes(), cost, "known before it is made");
        home.stats().history_bytes
    };
    let bare = used(&mut home, draft("kept:a", "x"));
    assert_eq!(bare, TINY_BYTES);
    let tagged = Draft {
        tags: Some("y".repeat(1000).into()),
        ..draft("kept:a", "x")
    };
    assert_eq!(used(&mut home, tagged), bare + 1000);
    let publisher = Publisher {
        client: "c".repeat(100).into(),
        user: "u".repeat(50).into(),
        conn_info: Some("i".repeat(25).into()),
        chan_info: None,
    };
    let published = Draft {
        publisher: Some(Box::new(publisher)),
        ..draft("kept:a", "x")
    };
    assert_eq!(
        used(&mut home, published),
        bare + 175 + size_of::<Publisher>()
    );
}

#[test]
fn homes_share_one_budget() {
    let bytes_max = 8 << 20;
    let budget = Budget::new(bytes_max, 8);
    let new = || {
        let options = options(1000, 1_000_000, 0);
        let history = budget.clone();
        Home::new(MemoryOptions { history, ..options })
    };
    let mut homes: Vec<Home> = (0..8).map(|_| new()).collect();
    let large = "x".repeat(40_000);
    for n in 0..100 {
        publish(&mut homes[0], "kept:a", &large, n);
    }
    assert_eq!(homes[0].stats().history_publications, 100);
    for n in 100..300 {
        publish(&mut homes[0], "kept:a", &large, n);
    }
    // The first uses all. The others get an equal part when it looks.
    let all =
        |homes: &[Home]| -> usize { homes.iter().map(|home| home.stats().history_bytes).sum() };
    assert!(all(&homes) > bytes_max - 50_000, "{}", all(&homes));
    for n in 300..600 {
        publish(&mut homes[1], "kept:b", &large, n);
        homes[0].tick(at(n), 100);
        assert!(all(&homes) <= bytes_max);
    }
    let [first, second] = [0, 1].map(|at: usize| homes[at].stats().history_bytes);
    assert!(second >= bytes_max / 8 - 50_000, "{second}");
    assert!(first >= bytes_max / 2, "{first}");
    for home in &homes {
        home.check();
    }
}

/// A home that asks for more than is free takes nothing from those with at most an equal part.
#[test]
fn an_equal_part_is_safe_from_others() {
    let budget = Budget::new(8 * TINY_BYTES, 2);
    let [mut modest, mut greedy] = [0, 1].map(|_| {
        let history = budget.clone();
        let options = options(10, 1_000_000, 0);
        Home::new(MemoryOptions { history, ..options })
    });
    for channel in ["kept:a", "kept:b", "kept:c", "kept:d"] {
        publish(&mut modest, channel, "x", 0);
    }
    for channel in ["kept:e", "kept:f", "kept:g"] {
        publish(&mut greedy, channel, "x", 0);
    }
    publish(&mut greedy, "kept:h", &"x".repeat(1 + TINY_BYTES), 1);
    modest.tick(at(2), 10);
    assert_eq!(modest.stats().history_publications, 4);
    modest.check();
    // Its own new publications replace its own old ones.
    publish(&mut modest, "kept:i", "x", 3);
    assert_eq!(modest.stats().history_publications, 4);
    modest.check();
}

#[test]
fn streams_without_subscribers_and_history_are_bounded() {
    let mut options = options(10, 1000, 1 << 20);
    options.live.streams_max = 10;
    let mut home = Home::new(options);
    let channels: Vec<String> = (0..30).map(|n| format!("kept:{n}")).collect();
    let positions: Vec<Position> = { channels.iter().zip(0..) }
        .map(|(channel, n)| publish(&mut home, channel, "x", n))
        .collect();
    let held = name(&channels[0]);
    home.subscribe(SHARD, &held, None, at(40));
    home.tick(at(2000), 100);
    assert_eq!(home.stats().streams, 11, "the subscribed one, and ten");
    home.check();
    for (n, (channel, since)) in channels.iter().zip(&positions).enumerate() {
        let found = home.subscribe(SHARD, &name(channel), Some(*since), at(2001));
        let remembered = n == 0 || n >= 20;
        let expected = match remembered {
            true => Recovery::Whole(Vec::new()),
            false => Recovery::Lost,
        };
        assert_eq!(found.recovery, expected, "{channel}");
    }
    home.check();
}

#[test]
fn a_stream_is_noted_once_however_often_it_falls_idle() {
    let mut home = home(10, 1000, 1 << 20);
    for n in 0..500 {
        publish(&mut home, "kept:a", "x", n * 2000);
        home.tick(at(n * 2000 + 1500), 100);
        home.check();
    }
    assert_eq!(home.expiring.len() + home.idle.len(), 1);
}

#[test]
fn keys_are_in_the_budget_and_go_before_they_fill_it() {
    let mut home = home(1000, 1_000_000, 16_000);
    for n in 0..100 {
        publish(&mut home, "kept:a", &"x".repeat(100), n);
    }
    for n in 0..100 {
        let key = format!("{n:04}{}", "k".repeat(96));
        home.publish(keyed("plain", &key), at(100));
        home.check();
    }
    let cost = Keys::cost_bytes("plain\n") + 100;
    assert_eq!(home.keys.len(), 2000 / cost, "an eighth of the budget");
    assert!(home.stats().history_publications > 30);
    // A key that is too long for that is not remembered.
    for _ in 0..2 {
        let accepted = home.publish(keyed("plain", &"k".repeat(3000)), at(100));
        assert!(accepted.publication.is_some());
    }
    home.check();
    home.tick(at(300_100), 100);
    assert_eq!(home.keys.len(), 0);
    home.check();
}

#[test]
fn so_many_keys_are_remembered_and_no_more() {
    let mut home = home(10, 1000, 1 << 30);
    for n in 0..=KEYS_MAX {
        home.publish(keyed("plain", &n.to_string()), at(0));
    }
    assert_eq!(home.keys.len(), KEYS_MAX);
    for (key, is_new) in [("1", false), ("0", true)] {
        let accepted = home.publish(keyed("plain", key), at(1));
        assert_eq!(accepted.publication.is_some(), is_new, "{key}");
    }
}

#[test]
fn the_books_are_right_after_whatever_happens() {
    let mut rng = 1_u64;
    for round in 0..40 {
        let mut options = options(4, 50, [1500, 3000, 20_000][round % 3]);
        options.live.streams_max = 3;
        let mut home = Home::new(options);
        let mut now = 0;
        for _ in 0..300 {
            rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let pick = |shift: u32, below: u64| (rng >> shift) % below;
            let channel = ["kept:a", "kept:b", "kept:c", "kept:d", "kept:e", "plain"];
            let channel = channel[pick(33, 6) as usize];
            let shard = ShardId(pick(37, 2) as u8);
            match pick(41, 12) {
                0..=3 => {
                    drop(home.publish(draft(channel, &"x".repeat(pick(45, 300) as usize)), at(now)))
                }
                4 => drop(home.publish(keyed("plain", &pick(45, 9).to_string()), at(now))),
                5 | 6 => drop(home.subscribe(shard, &name(channel), None, at(now))),
                7 | 8 => home.leave(shard, &name(channel), at(now)),
                9 => drop(home.history(&name(channel), HistoryQuery::default(), at(now))),
                10 => now += pick(45, 40),
                _ => drop(home.tick(at(now), pick(45, 4) as usize)),
            }
            home.check();
            assert!(home.idle.len() <= 3);
        }
        for channel in ["kept:a", "kept:b", "kept:c", "kept:d", "kept:e", "plain"] {
            home.leave(ShardId(0), &name(channel), at(now));
            home.leave(ShardId(1), &name(channel), at(now));
        }
        home.tick(at(now + 1000), 1000);
        home.tick(at(now + POSITION_TTL_MS + 1000), 1000);
        home.check();
        assert_eq!(home.stats(), BrokerStats::default());
    }
}
