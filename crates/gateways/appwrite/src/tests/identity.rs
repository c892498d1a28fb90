//! Changes of users, expired tokens, and an Appwrite that does not answer.

use throng_appwrite::IdentityChange;

use super::*;
use crate::LookupPart;

/// Event of stock for a change of a membership; `roles` if the user is in the team.
pub(super) fn membership(id: &str, user: &str, team: &str, roles: Option<&[&str]>) -> Value {
    let mut event = change(id, user, &format!("team:{team}"));
    let action = if roles.is_some() { "update" } else { "delete" };
    event["data"]["events"] = json!([format!("teams.{team}.memberships.m.{action}")]);
    event["data"]["payload"] =
        json!({"$id": "m", "teamId": team, "userId": "", "confirm": true, "roles": roles});
    event
}

/// As stock publishes it when an account changes.
pub(super) fn account(user: &str, what: &str, payload: Value) -> Value {
    let mut event = event("X", &format!("user:{user}"));
    event["data"]["events"] = json!([format!("users.{user}.{what}")]);
    event["data"]["channels"] = json!(["account", format!("account.{user}")]);
    event["data"]["payload"] = payload;
    event
}

/// `{"userId":"ann","sessionId":"S","exp":1700000060}`: a minute after the clock's start.
const TOKEN: &str = "e30.eyJ1c2VySWQiOiJhbm4iLCJzZXNzaW9uSWQiOiJTIiwiZXhwIjoxNzAwMDAwMDYwfQ.x";

impl Shard {
    #[track_caller]
    pub(super) fn lookup(&self) -> Lookup {
        self.asked.try_recv().expect("a question")
    }

    #[track_caller]
    pub(super) fn nothing_asked(&self) {
        if let Ok(lookup) = self.asked.try_recv() {
            panic!("{lookup:?}");
        }
    }

    pub(super) fn open_member(&mut self, index: u32, user: &str, teams: &[&str]) {
        let cookie = format!("Cookie: a_session_bench={user}\r\n");
        self.open(index, FILES, &cookie);
        let lookup = self.lookup();
        self.answer(&lookup, user_of(user, teams));
        self.frames(index);
    }

    pub(super) fn open_with_token(&mut self, index: u32) {
        self.open(index, &format!("{FILES}&jwt={TOKEN}"), "");
        let lookup = self.lookup();
        self.answer(&lookup, user_of("ann", &["T"]));
        self.frames(index);
    }
}

#[test]
fn a_change_that_says_all_takes_effect_at_once() {
    let mut shard = Shard::new();
    shard.open_member(0, "ann", &["T"]);
    shard.event(1, &event("A", "team:T"));
    shard.event(2, &membership("M", "ann", "T", None));
    shard.event(3, &event("B", "team:T"));
    shard.event(4, &event("C", "any"));
    shard.event(5, &event("D", "user:ann"));
    assert_eq!(
        shard.heard(0),
        ["A", "C", "D"],
        "without a word from Appwrite"
    );
    // One request makes sure.
    let lookup = shard.lookup();
    let part = LookupPart::Membership {
        user_id: "ann".into(),
        team: "T".into(),
        id: "m".into(),
    };
    assert_eq!(
        (&lookup.part, lookup.haste),
        (&part, LookupPriority::Change)
    );
    // It was overtaken by another change, so it is asked once more and says nothing.
    shard.event(6, &membership("m", "ann", "T", Some(&["dev"])));
    shard.nothing_asked();
    shard.event(7, &event("E", "team:T/dev"));
    assert_eq!(shard.heard(0), ["m", "E"]);
    let found = |roles| {
        LookupReply::Changed(IdentityChange {
            user_id: "ann".to_owned(),
            what: Change::Membership {
                team: "T".to_owned(),
                id: "m".to_owned(),
                roles,
            },
        })
    };
    shard.answer(&lookup, found(None));
    shard.event(8, &event("F", "team:T"));
    assert_eq!(shard.heard(0), ["F"]);
    let lookup = shard.lookup();
    assert_eq!(lookup.part, part);
    shard.answer(&lookup, found(None));
    shard.event(9, &event("G", "team:T"));
    shard.event(10, &event("H", "users"));
    assert_eq!(shard.heard(0), ["H"], "Appwrite knows best");
    shard.nothing_asked();
}

#[test]
fn an_account_that_changes_is_asked_for_at_most_once() {
    let mut shard = Shard::new();
    shard.open_member(0, "ann", &["T"]);
    shard.event(1, &account("ann", "update.prefs", json!({"theme": "dark"})));
    shard.event(2, &account("ann", "update.name", json!({"$id": "ann"})));
    shard.nothing_asked();
    let now = json!({"$id": "ann", "status": true, "emailVerification": false, "labels": ["vip"]});
    shard.event(3, &account("ann", "update.labels", now.clone()));
    for (offset, role) in ["label:vip", "users/unverified", "team:T"]
        .iter()
        .enumerate()
    {
        shard.event(4 + offset as u64, &event(role, role));
    }
    shard.event(9, &event("no", "users/verified"));
    assert_eq!(shard.heard(0), ["label:vip", "users/unverified", "team:T"]);
    let lookup = shard.lookup();
    assert_eq!(lookup.part, LookupPart::Account);
    shard.nothing_asked();
    let mut blocked = now;
    blocked["status"] = json!(false);
    shard.event(10, &account("ann", "update.status", blocked));
    shard.event(11, &event("no", "users"));
    shard.event(12, &event("yes", "guests"));
    assert_eq!(shard.heard(0), ["yes"]);
    assert!(shard.is_bare(0), "a guest, of whom nothing is asked");
}

/// "Log out that device": the SDK there acts on the event, and gets nothing after it.
#[test]
fn a_user_hears_the_event_that_ends_its_rights_and_nothing_after() {
    let blocked = json!({"$id": "ann", "status": false, "emailVerification": true, "labels": []});
    for (what, payload, id) in [
        ("sessions.S.delete", json!({"$id": "S"}), "S"),
        ("sessions.delete", json!({"$id": "S"}), "S"),
        ("delete", json!({"$id": "ann"}), "ann"),
        ("update.status", blocked, "ann"),
    ] {
        let mut shard = Shard::new();
        shard.open_with_token(0);
        shard.open_as(1, "ann", FILES);
        shard.say(
            1,
            r#"{"type":"subscribe","data":[{"channels":["account"]}]}"#,
        );
        shard.say(
            0,
            r#"{"type":"subscribe","data":[{"channels":["account"]}]}"#,
        );
        shard.frames(0);
        shard.frames(1);
        shard.event(1, &account("ann", what, payload));
        shard.event(2, &event("secret", "user:ann"));
        shard.event(3, &event("public", "guests"));
        assert_eq!(shard.heard(0), [id, "public"], "{what}");
        if let Ok(lookup) = shard.asked.try_recv() {
            // Which session it was only Appwrite knows.
            assert_eq!(shard.heard(1), [id], "{what}");
            shard.answer(&lookup, LookupReply::Nobody);
            assert_eq!(shard.heard(1), ["public"], "{what}");
        } else {
            assert_eq!(shard.heard(1), [id, "public"], "{what}");
        }
        assert!(shard.is_bare(0) && shard.is_bare(1), "{what}");
    }
}

/// Two devices are logged out, one right after the other: the second also gets the event about
/// itself while it waits for an answer about the first, and nothing else that was for the user.
#[test]
fn the_end_of_rights_is_told_to_those_who_wait_for_an_answer() {
    for query in [FILES.to_owned(), format!("{FILES}&recover=")] {
        let mut shard = Shard::new();
        shard.open_as(0, "ann", &format!("{query}&channels[]=account"));
        shard.frames(0);
        shard.event(1, &account("ann", "sessions.A.delete", json!({"$id": "A"})));
        let lookup = shard.lookup();
        shard.event(2, &event("secret", "user:ann"));
        shard.event(3, &account("ann", "sessions.B.delete", json!({"$id": "B"})));
        shard.event(4, &account("ann", "update.name", json!({"$id": "ann"})));
        shard.answer(&lookup, LookupReply::Nobody);
        shard.event(5, &event("public", "guests"));
        assert_eq!(shard.heard(0), ["A", "B", "public"]);
    }
}

#[test]
fn events_wait_for_roles_that_nobody_says() {
    let mut shard = Shard::new();
    shard.open_as(0, "ann", FILES);
    shard.open_as(1, "bob", FILES);
    shard.frames(0);
    shard.frames(1);
    shard.event(1, &change("A", "ann", "team:T"));
    let lookup = shard.lookup();
    assert!(lookup.haste == LookupPriority::Change && lookup.conn == conn(0));
    assert_eq!(lookup.part, LookupPart::Everything);
    shard.event(2, &event("B", "team:T"));
    shard.event(3, &event("C", "any"));
    shard.event(4, &event("D", "team:S"));
    // About the same thing as one that waits.
    shard.event(5, &event("B", "any"));
    assert_eq!(
        shard.heard(0),
        ["C"],
        "what everyone may hear does not wait"
    );
    assert_eq!(shard.heard(1), ["C", "B"], "others do not wait");
    shard.say(0, r#"{"type":"ping"}"#);
    assert_eq!(
        shard.frames(0),
        [json!({"type": "pong"})],
        "and neither do words"
    );
    shard.answer(&lookup, user_of("ann", &["T"]));
    assert_eq!(shard.heard(0), ["A", "B", "B"]);
    // A second change while the first is being asked about: its answer may be too old.
    shard.event(6, &change("E", "ann", "team:T"));
    let first = shard.lookup();
    shard.event(7, &change("F", "ann", "team:T"));
    shard.nothing_asked();
    shard.answer(&first, user_of("ann", &["T"]));
    assert!(shard.frames(0).is_empty());
    let second = shard.lookup();
    shard.event(8, &event("G", "user:ann"));
    shard.answer(&second, user_of("ann", &[]));
    assert_eq!(shard.heard(0), ["G"]);
    let refused = Counter::AppwriteRefusedServer;
    assert_eq!(shard.shared.counters.counter(refused), 0);
}

/// Found by the simulator (seeds 892 and 979): the answer names the team, and events from the time
/// when the user was not, or maybe not, a member were delivered all the same.
#[test]
fn what_came_while_a_user_was_out_of_a_team_is_not_told() {
    let mut shard = Shard::new();
    shard.open_member(0, "ann", &["S"]);
    shard.event(1, &change("A", "ann", "user:ann"));
    let lookup = shard.lookup();
    shard.event(2, &event("unknown", "team:T"));
    shard.event(3, &membership("M", "ann", "T", None));
    shard.event(4, &event("secret", "team:T"));
    shard.event(5, &event("secret too", "team:T/owner"));
    shard.event(6, &event("S", "team:S"));
    shard.event(7, &membership("M", "ann", "T", Some(&[])));
    shard.event(8, &event("after", "team:T"));
    shard.answer(&lookup, user_of("ann", &["S", "T"]));
    if let Ok(again) = shard.asked.try_recv() {
        shard.answer(&again, user_of("ann", &["S", "T"]));
    }
    assert_eq!(shard.heard(0), ["A", "S", "m", "after"]);
}

#[test]
fn who_has_positions_has_them_in_order() {
    let mut shard = Shard::new();
    shard.open_as(0, "ann", &format!("{FILES}&recover="));
    shard.frames(0);
    shard.event(1, &change("A", "ann", "user:ann"));
    let lookup = shard.lookup();
    shard.event(2, &event("B", "any"));
    assert!(shard.frames(0).is_empty());
    shard.answer(&lookup, user_of("ann", &[]));
    assert_eq!(shard.heard(0), ["A", "B"]);
}

#[test]
fn too_much_held_back_ends_the_connection() {
    let mut shard = Shard::new();
    shard.open_as(0, "ann", FILES);
    shard.frames(0);
    shard.event(1, &change("A", "ann", "user:ann"));
    for offset in 2..=300 {
        shard.event(offset, &event("B", "user:bob"));
    }
    assert!(shard.frames(0).is_empty(), "what is for others is not held");
    for offset in 302..=557 {
        shard.event(offset, &event("B", "team:T"));
    }
    let frames = shard.frames(0);
    assert_eq!(frames[0]["data"]["code"], 500);
    assert_eq!(frames[1..], [json!({ "close": 1011 })]);
    assert_eq!(shard.hall.ended, [0]);
}

#[test]
fn known_roles_stay_for_a_while_without_an_answer() {
    let mut shard = Shard::new();
    shard.open_member(0, "ann", &["T", "S"]);
    shard.event(1, &membership("M", "ann", "T", None));
    let mut asked = 0;
    let mut at_ms = 0;
    while shard.hall.ended.is_empty() {
        while let Ok(lookup) = shard.asked.try_recv() {
            asked += 1;
            shard.answer(&lookup, LookupReply::Failed);
        }
        if shard.hall.ended.is_empty() {
            shard.event(2, &event("no", "team:T"));
            shard.event(3, &event("yes", "team:S"));
            assert_eq!(shard.heard(0), ["yes"]);
        }
        shard.wait(0, 500);
        at_ms += 500;
        assert!(at_ms < 200_000, "not for ever");
    }
    assert!(
        at_ms >= 120_000 && (10..=20).contains(&asked),
        "{at_ms} {asked}"
    );
    assert_eq!(shard.frames(0)[1], json!({ "close": 1011 }));
}

#[test]
fn an_answer_in_the_end_is_enough() {
    let mut shard = Shard::new();
    shard.open_as(0, "ann", FILES);
    shard.frames(0);
    shard.event(1, &change("A", "ann", "user:ann"));
    let lookup = shard.lookup();
    shard.answer(&lookup, LookupReply::Failed);
    shard.event(2, &event("B", "user:ann"));
    assert!(shard.frames(0).is_empty(), "nobody says that it still may");
    shard.nothing_asked();
    shard.wait(0, 2_000);
    let lookup = shard.lookup();
    shard.answer(&lookup, user_of("ann", &[]));
    assert_eq!(shard.heard(0), ["A", "B"]);
}

#[test]
fn a_token_is_looked_at_once() {
    let mut shard = Shard::new();
    shard.open_with_token(0);
    shard.wait(0, 61_000);
    let now = json!({"$id": "ann", "status": true, "emailVerification": true, "labels": ["vip"]});
    shard.event(1, &account("ann", "update.prefs", json!({})));
    shard.event(2, &account("ann", "update.labels", now));
    shard.event(3, &membership("M", "ann", "T", None));
    shard.event(4, &account("ann", "sessions.other.delete", json!({})));
    for (offset, role) in ["user:ann", "label:vip", "team:T"].iter().enumerate() {
        shard.event(5 + offset as u64, &event(role, role));
    }
    assert_eq!(shard.heard(0), ["user:ann", "label:vip"]);
    shard.nothing_asked();
    // No lookup can find what the event does not name.
    shard.event(9, &change("A", "ann", "user:ann"));
    let frames = shard.frames(0);
    let message = "Failed to verify JWT. Invalid token: Expired";
    assert_eq!(
        frames,
        [json!({"type": "error", "data": {"code": 401, "message": message}})]
    );
    assert_eq!(
        shard.hall.ended,
        [0],
        "without a close frame, so that the SDK comes back"
    );
    // Its own session is another matter.
    shard.open_with_token(1);
    shard.event(10, &account("ann", "sessions.S.delete", json!({})));
    shard.event(11, &event("no", "user:ann"));
    shard.event(12, &event("yes", "guests"));
    assert_eq!(shard.heard(1), ["yes"]);
    shard.nothing_asked();
}

#[test]
fn a_token_that_runs_out_meanwhile_is_no_loss() {
    let mut shard = Shard::new();
    shard.open_with_token(0);
    shard.event(1, &membership("M", "ann", "T", None));
    let lookup = shard.lookup();
    shard.answer(
        &lookup,
        LookupReply::Expired("Invalid token: Expired".into()),
    );
    shard.event(2, &event("A", "user:ann"));
    assert_eq!(shard.heard(0), ["A"]);
}

#[test]
fn tokens_and_sessions_that_are_no_good() {
    let mut shard = Shard::new();
    let open = |shard: &mut Shard, index, found| {
        shard.open(index, &format!("{FILES}&jwt=t"), "");
        let lookup = shard.lookup();
        shard.answer(&lookup, found);
        shard.frames(index)
    };
    let expired = LookupReply::Expired("Invalid token: Expired".into());
    let frames = open(&mut shard, 0, expired);
    let message = "Failed to verify JWT. Invalid token: Expired";
    assert_eq!(
        frames,
        [json!({"type": "error", "data": {"code": 401, "message": message}})]
    );
    // The token is good, and the session behind it has ended: as in stock, a guest.
    let frames = open(&mut shard, 1, LookupReply::Nobody);
    assert_eq!(frames[0]["data"]["user"], Value::Null);
    shard.open(2, FILES, "Cookie: a_session_bench=ann\r\n");
    let lookup = shard.lookup();
    shard.answer(&lookup, LookupReply::Nobody);
    assert_eq!(shard.frames(2)[0]["data"]["user"], Value::Null);
}

#[test]
fn after_a_gap_every_user_is_looked_up_a_few_at_a_time() {
    let mut shard = Shard::new();
    for index in 0..50 {
        shard.open_member(index, &format!("u{index}"), &["T"]);
    }
    shard.open(50, FILES, "");
    shard.frames(50);
    shard.lose();
    let mut lookups: Vec<Lookup> = shard.asked.try_iter().collect();
    assert_eq!(lookups.len(), 32);
    assert!(
        lookups
            .iter()
            .all(|one| one.haste == LookupPriority::Recheck)
    );
    // Those who leave make room, too.
    shard.hall.sessions.remove(&0);
    shard.hub.leave(0);
    lookups.remove(0);
    let mut answered = 0;
    while let Some(lookup) = lookups.pop() {
        let index = lookup.conn.index();
        // Half of them are no members any more.
        let teams: &[&str] = if index % 2 == 0 { &["T"] } else { &[] };
        shard.answer(&lookup, user_of(&format!("u{index}"), teams));
        answered += 1;
        shard.recheck();
        lookups.extend(shard.asked.try_iter());
        assert!(lookups.len() <= 32);
    }
    assert_eq!(answered, 49);
    shard.event(1, &event("A", "team:T"));
    for index in 1..50 {
        let heard: &[&str] = if index % 2 == 0 { &["A"] } else { &[] };
        assert_eq!(shard.heard(index), heard, "{index}");
    }
}

#[test]
fn after_a_gap_a_token_that_is_over_has_to_be_a_new_one() {
    let mut shard = Shard::new();
    shard.open_with_token(0);
    shard.wait(0, 61_000);
    shard.lose();
    shard.nothing_asked();
    assert_eq!(shard.frames(0)[0]["data"]["code"], 401);
    assert_eq!(shard.hall.ended, [0]);
}

#[test]
fn signing_in_goes_before_questions_about_who_was_there() {
    let mut shard = Shard::new();
    shard.open_as(0, "ann", FILES);
    shard.frames(0);
    shard.event(1, &change("A", "ann", "any"));
    let old = shard.lookup();
    shard.say(0, r#"{"type":"authentication","data":{"session":"bob"}}"#);
    let lookup = shard.lookup();
    assert_eq!(lookup.haste, LookupPriority::Open);
    shard.answer(&old, user_of("ann", &[]));
    shard.event(2, &event("B", "user:ann"));
    shard.answer(&lookup, user_of("bob", &[]));
    shard.event(3, &event("C", "user:bob"));
    let frames = shard.frames(0);
    assert_eq!(frames[0]["data"]["payload"]["$id"], "A");
    assert_eq!(frames[1]["data"]["user"]["$id"], "bob");
    assert_eq!(frames[2]["data"]["payload"]["$id"], "C");
    assert_eq!(frames.len(), 3);
    // If it fails, the question about who is there is asked again.
    shard.event(4, &change("D", "bob", "user:bob"));
    shard.lookup();
    shard.say(0, r#"{"type":"authentication","data":{"session":"eve"}}"#);
    let lookup = shard.lookup();
    shard.answer(&lookup, LookupReply::Nobody);
    assert_eq!(
        shard.frames(0)[0]["data"]["message"],
        "Session is not valid."
    );
    let again = shard.lookup();
    assert_eq!(again.haste, LookupPriority::Change);
    shard.answer(&again, user_of("bob", &[]));
    assert_eq!(shard.heard(0), ["D"]);
}
