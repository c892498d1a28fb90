//! Lookups of users: repetition, lack of room, and answers about another user.

use super::*;

/// Fails every question about a connection's user; the pauses until its end, in milliseconds.
fn pauses(index: u32, grace_ms: u64) -> Vec<u64> {
    let mut server = Server::with(|own| own.grace_ms = grace_ms);
    server.open_as(index, "ann", &["T"], FILES);
    server.frames(index);
    server.event(1, &membership("M", "ann", "T", None));
    server.turn();
    let mut pauses = Vec::new();
    loop {
        let lookup = server.lookup();
        server.answer(&lookup, LookupReply::Failed);
        if !server.floor.ended.is_empty() {
            assert_eq!(server.frames(index)[1], json!({ "close": 1011 }));
            return pauses;
        }
        let due = server.deadline(index);
        let ms = due.expect("it is asked again").since(server.floor.now.mono);
        // A moment before, nothing is asked.
        server.wait(index, ms - 1);
        server.run(index, |solo| solo.event(throng_session::Event::Timeout));
        server.nothing_asked();
        server.wait(index, 1);
        pauses.push(ms);
    }
}

#[test]
fn pauses_between_questions_grow_and_have_an_end() {
    let usual = pauses(0, 120_000);
    assert_eq!(usual[..4], [1000, 2000, 4000, 8000]);
    assert_eq!(usual[4..], [10_000; 11]);
    // Until the time for which roles are believed is over, to the millisecond.
    assert_eq!(pauses(0, 7000), [1000, 2000, 4000]);
    assert_eq!(pauses(0, 7001), [1000, 2000, 4000, 8000]);
    // A crowd that failed at once does not come back at once.
    let spread: Vec<u64> = (1..20)
        .map(|index| {
            let (own, first) = (pauses(index, 7000), 1000);
            let spread = own[0] - first;
            assert_eq!(own[1], 2000 + spread, "{index}");
            spread
        })
        .collect();
    assert!(spread.iter().all(|&ms| ms < 512), "{spread:?}");
    let different: std::collections::BTreeSet<u64> = spread.iter().copied().collect();
    assert!(different.len() > 15, "{spread:?}");
}

/// Connections that end because their tokens are over do not take the place of those that wait for
/// a lookup.
#[test]
fn after_a_gap_tokens_that_are_over_hold_nobody_up() {
    let mut server = Server::new();
    for index in 0..40 {
        server.open(index, &format!("{FILES}&jwt={TOKEN}"), "");
        let lookup = server.lookup();
        server.answer(&lookup, user_of("ann", &["T"]));
    }
    server.open_as(40, "bob", &[], FILES);
    server.floor.now.unix_ms += 61_000;
    server.begin(2);
    assert_eq!(server.floor.ended.len(), 40);
    let lookup = server.lookup();
    assert_eq!(
        (lookup.conn, lookup.haste),
        (conn(40), LookupPriority::Recheck)
    );
}

#[test]
fn known_roles_stay_for_a_while_without_an_answer() {
    let mut server = Server::new();
    server.open_as(0, "ann", &["T", "S"], FILES);
    server.frames(0);
    server.event(1, &membership("M", "ann", "T", None));
    server.turn();
    let mut asked = 0;
    let mut at_ms = 0;
    while server.floor.ended.is_empty() {
        while let Ok(lookup) = server.asked.try_recv() {
            asked += 1;
            server.answer(&lookup, LookupReply::Failed);
        }
        if server.floor.ended.is_empty() {
            server.event(2, &event("no", "team:T"));
            server.turn();
            server.event(3, &event("yes", "team:S"));
            server.turn();
            assert_eq!(server.heard(0), ["yes"]);
        }
        server.wait(0, 500);
        at_ms += 500;
        assert!(at_ms < 200_000, "not for ever");
    }
    assert!(
        at_ms >= 120_000 && (10..=20).contains(&asked),
        "{at_ms} {asked}"
    );
    assert_eq!(server.frames(0)[1], json!({ "close": 1011 }));
}

#[test]
fn after_a_gap_every_user_is_looked_up_a_few_at_a_time() {
    let mut server = Server::new();
    for index in 0..50 {
        server.open_as(index, &format!("u{index}"), &["T"], FILES);
        server.frames(index);
    }
    server.open(50, FILES, "");
    server.frames(50);
    server.begin(2);
    let mut lookups: Vec<Lookup> = server.asked.try_iter().collect();
    assert_eq!(lookups.len(), 32);
    assert!(
        lookups
            .iter()
            .all(|one| one.haste == LookupPriority::Recheck)
    );
    // Those who leave make room, too.
    server.close(0);
    lookups.remove(0);
    let mut answered = 0;
    while let Some(lookup) = lookups.pop() {
        let index = lookup.conn.index();
        // Half of them are no members any more.
        let teams: &[&str] = if index % 2 == 0 { &["T"] } else { &[] };
        server.answer(&lookup, user_of(&format!("u{index}"), teams));
        answered += 1;
        lookups.extend(server.asked.try_iter());
        assert!(lookups.len() <= 32);
    }
    assert_eq!(answered, 49);
    server.event(1, &event("A", "team:T"));
    server.turn();
    for index in 1..50 {
        let heard: &[&str] = if index % 2 == 0 { &["A"] } else { &[] };
        assert_eq!(server.heard(index), heard, "{index}");
    }
}
