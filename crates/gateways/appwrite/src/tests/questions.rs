//! Lookups of users: repetition, lack of room, and answers about another user.

use throng_appwrite::IdentityChange;

use super::identity::{account, membership};
use super::*;
use crate::LookupPart;

/// Fails every question about a connection's user; the pauses until its end, in milliseconds.
fn pauses(index: u32, grace_ms: u64) -> Vec<u64> {
    let mut shard = Shard::new();
    Rc::make_mut(&mut shard.own).grace_ms = grace_ms;
    shard.open_member(index, "ann", &["T"]);
    shard.event(1, &membership("M", "ann", "T", None));
    let mut pauses = Vec::new();
    loop {
        let lookup = shard.lookup();
        shard.answer(&lookup, LookupReply::Failed);
        if !shard.hall.ended.is_empty() {
            assert_eq!(shard.frames(index)[1], json!({ "close": 1011 }));
            return pauses;
        }
        let due = shard.hall.sessions[&index].actions.deadline.flatten();
        let ms = due.expect("it is asked again").since(shard.now.mono);
        // A moment before, nothing is asked.
        shard.wait(index, ms - 1);
        shard.run(index, |solo| solo.event(throng_session::Event::Timeout));
        shard.nothing_asked();
        shard.wait(index, 1);
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

/// Without room for a lookup, new clients and those with another session are refused.
#[test]
fn without_room_for_a_question_nobody_comes_in() {
    let mut shard = Shard::new();
    shard.open(0, FILES, "");
    shard.frames(0);
    shard.world.change(|doings| doings.is_full = true);
    shard.open(1, FILES, "Cookie: a_session_bench=ann\r\n");
    shard.say(0, r#"{"type":"authentication","data":{"session":"bob"}}"#);
    for index in [0, 1] {
        let told = shard.frames(index);
        assert_eq!(told[0]["data"]["code"], 500, "{told:?}");
        assert_eq!(told[1..], [json!({ "close": 1011 })]);
    }
}

/// Without room for a lookup, a connected user stays for a while, as without an answer.
#[test]
fn without_room_for_a_question_about_a_user_it_is_asked_later() {
    let mut shard = Shard::new();
    shard.open_as(0, "ann", FILES);
    shard.frames(0);
    shard.world.change(|doings| doings.is_full = true);
    shard.event(1, &change("A", "ann", "user:ann"));
    shard.wait(0, 1000);
    shard.world.change(|doings| doings.is_full = false);
    shard.wait(0, 1999);
    shard.nothing_asked();
    shard.wait(0, 1);
    let lookup = shard.lookup();
    assert!(shard.frames(0).is_empty());
    shard.answer(&lookup, user_of("ann", &[]));
    assert_eq!(shard.heard(0), ["A"]);
}

/// An answer to a partial lookup may be about another user: then all is looked up.
#[test]
fn an_answer_about_somebody_else_is_not_believed() {
    let mut shard = Shard::new();
    shard.open_member(0, "ann", &["T"]);
    let found = |user: &str, blocked| {
        LookupReply::Changed(IdentityChange {
            user_id: user.to_owned(),
            what: Change::Account {
                verified: true,
                blocked,
                labels: vec!["vip".to_owned()],
            },
        })
    };
    let asked = |shard: &mut Shard| {
        let now = json!({"$id": "ann", "status": true, "emailVerification": true, "labels": []});
        shard.event(1, &account("ann", "update.labels", now));
        let lookup = shard.lookup();
        assert_eq!(lookup.part, LookupPart::Account);
        lookup
    };
    let lookup = asked(&mut shard);
    shard.answer(&lookup, found("bob", false));
    let all = shard.lookup();
    assert_eq!(all.part, LookupPart::Everything);
    shard.event(2, &event("no", "label:vip"));
    shard.answer(&all, user_of("ann", &["T"]));
    assert_eq!(shard.heard(0), [""; 0]);
    // About the right one, it is; what it says of a block, too.
    let lookup = asked(&mut shard);
    shard.answer(&lookup, found("ann", false));
    shard.nothing_asked();
    shard.event(3, &event("vip", "label:vip"));
    assert_eq!(shard.heard(0), ["vip"]);
    let lookup = asked(&mut shard);
    shard.answer(&lookup, found("ann", true));
    shard.event(4, &event("no", "users"));
    shard.event(5, &event("yes", "guests"));
    assert_eq!(shard.heard(0), ["yes"]);
    assert!(shard.is_bare(0));
}

/// A token that expires while roles are unknown: the client reconnects with a new one.
#[test]
fn a_token_that_runs_out_before_roles_are_known_ends_the_connection() {
    let mut shard = Shard::new();
    shard.open_with_token(0);
    shard.event(1, &change("A", "ann", "user:ann"));
    let lookup = shard.lookup();
    shard.answer(
        &lookup,
        LookupReply::Expired("Invalid token: Expired".into()),
    );
    let told = shard.frames(0);
    assert_eq!((told.len(), &told[0]["data"]["code"]), (1, &json!(401)));
    assert_eq!(shard.hall.ended, [0]);
}

#[test]
fn users_that_are_gone_or_signed_out_everywhere_are_guests() {
    for what in ["delete", "sessions.delete"] {
        let mut shard = Shard::new();
        shard.open_member(0, "ann", &["T"]);
        shard.event(1, &account("ann", what, json!({})));
        for (offset, role) in (2..).zip(["users", "team:T", "guests"]) {
            shard.event(offset, &event(role, role));
        }
        assert_eq!(shard.heard(0), ["guests"], "{what}");
        assert!(shard.is_bare(0), "{what}");
        shard.nothing_asked();
    }
}

/// Messages that wait for a lookup are dropped if the connection ends with its answer.
#[test]
fn messages_that_wait_are_not_answered_after_the_end() {
    let mut shard = Shard::new();
    shard.open(0, FILES, "Cookie: a_session_bench=ann\r\n");
    let lookup = shard.lookup();
    shard.say(0, r#"{"type":"ping"}"#);
    shard.answer(&lookup, LookupReply::Failed);
    let told = shard.frames(0);
    assert_eq!(told[0]["data"]["code"], 500);
    assert_eq!(told[1..], [json!({ "close": 1011 })]);
    // A repeated answer is ignored, too.
    shard.answer(&lookup, user_of("ann", &[]));
    assert!(shard.frames(0).is_empty());
}

/// Connections that end because their tokens are over do not take the place of those that wait for
/// a lookup.
#[test]
fn after_a_gap_tokens_that_are_over_hold_nobody_up() {
    let mut shard = Shard::new();
    for index in 0..40 {
        shard.open_with_token(index);
    }
    shard.open_member(40, "bob", &[]);
    shard.now.unix_ms += 61_000;
    shard.lose();
    assert_eq!(shard.hall.ended.len(), 40);
    let lookup = shard.lookup();
    assert_eq!(
        (lookup.conn, lookup.haste),
        (conn(40), LookupPriority::Recheck)
    );
}

/// Without lookups, a session counts as none.
#[test]
fn what_is_not_served_is_refused_by_why() {
    let authentication = r#"{"type":"authentication","data":{"session":"s"}}"#;
    let presence = r#"{"type":"presence","data":{"status":"online"}}"#;
    let told = |shard: &mut Shard, said: &str| {
        shard.say(0, said);
        let told = shard.frames(0).remove(0);
        (told["type"].clone(), told["data"]["code"].clone())
    };
    let refused = |code: u16| (json!("error"), json!(code));
    let mut shard = Shard::new();
    Rc::make_mut(&mut shard.own).identifies = false;
    shard.open(0, FILES, "");
    shard.frames(0);
    assert_eq!(told(&mut shard, authentication), refused(1003));
    assert_eq!(told(&mut shard, presence), refused(401));
    let mut shard = Shard::new();
    shard.open_member(0, "ann", &[]);
    shard.say(0, authentication);
    assert_eq!(shard.lookup().haste, LookupPriority::Open);
}
