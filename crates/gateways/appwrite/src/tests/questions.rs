//! Pauses between look-ups of a user that are not answered.

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
