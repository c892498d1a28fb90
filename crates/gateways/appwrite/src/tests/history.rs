//! History for clients that reconnect, and events held back while roles are unknown.

use super::*;
use crate::held::{Held, Verdict};
use crate::history::History;

const fn position(epoch: u64, offset: u64) -> Position {
    Position {
        epoch: Epoch(epoch),
        offset,
    }
}

fn message(event: &Value) -> Arc<FeedMessage> {
    let event = FeedMessage::parse(event.to_string().as_bytes(), 1 << 20);
    Arc::new(event.expect("an event"))
}

/// The offsets that are kept after a place, if all are.
fn since(history: &History, epoch: u64, offset: u64) -> Option<Vec<u64>> {
    let missed = history.since(position(epoch, offset))?;
    assert!(missed.iter().all(|(_, at)| at.epoch == Epoch(epoch)));
    Some(missed.iter().map(|(_, at)| at.offset).collect())
}

#[test]
fn what_is_kept_has_no_gap() {
    let mut history = History::new(1000, 1 << 20);
    let event = message(&event("A", "any"));
    let now = Millis(0);
    for offset in 5..=8 {
        history.push(&event, position(1, offset), now);
    }
    assert_eq!(history.position(), position(1, 8));
    // Events before the first position are not known.
    assert_eq!(since(&history, 1, 3), None);
    assert_eq!(since(&history, 1, 6), Some(vec![7, 8]));
    assert_eq!(since(&history, 1, 8), Some(vec![]));
    assert_eq!(since(&history, 1, 9), None);
    assert_eq!(since(&history, 2, 8), None);
    // One offset is missing: all before is of no use.
    history.push(&event, position(1, 10), now);
    assert_eq!(since(&history, 1, 8), None);
    assert_eq!(since(&history, 1, 9), Some(vec![10]));
    // An equal offset in another epoch is another position.
    history.push(&event, position(2, 11), now);
    assert_eq!(since(&history, 1, 10), None);
    assert_eq!(since(&history, 2, 9), None);
    assert_eq!(since(&history, 2, 10), Some(vec![11]));
    history.begin(position(3, 20));
    assert_eq!(history.position(), position(3, 20));
    assert_eq!(since(&history, 3, 19), None);
    assert_eq!(since(&history, 3, 20), Some(vec![]));
}

/// Age and bytes each have a bound, which may be reached and not passed.
#[test]
fn what_is_kept_is_bounded() {
    let event = message(&event("A", "any"));
    let bytes = event.payload().len() + 1024;
    let kept = |history: &History| {
        let offsets = (0..).map_while(|offset| (offset <= 9).then(|| since(history, 1, offset)));
        offsets.flatten().map(|kept| kept.len()).max()
    };
    for (bytes_max, expected) in [
        (3 * bytes, 3),
        (3 * bytes - 1, 2),
        (bytes - 1, 0),
        (100 * bytes, 9),
    ] {
        let mut history = History::new(1000, bytes_max);
        for offset in 1..=9 {
            history.push(&event, position(1, offset), Millis(0));
            let so_far = usize::try_from(offset).expect("small").min(expected);
            assert_eq!(kept(&history), Some(so_far), "{bytes_max} at {offset}");
        }
    }
    for (at_ms, expected) in [(1000, 3), (1001, 2), (1100, 2), (1101, 1), (1201, 0)] {
        let mut history = History::new(1000, 1 << 20);
        for (offset, ms) in (7..=9).zip([0, 100, 200]) {
            history.push(&event, position(1, offset), Millis(ms));
        }
        history.forget(Millis(at_ms));
        assert_eq!(kept(&history), Some(expected), "{at_ms}");
    }
    // Without any history the position is still known.
    let mut history = History::new(0, 1 << 20);
    history.push(&event, position(1, 9), Millis(0));
    assert_eq!(
        (kept(&history), history.position()),
        (Some(0), position(1, 9))
    );
}

/// Without an answer, only events that no answer can change are delivered.
#[test]
fn an_event_waits_if_the_answer_decides_about_it() {
    for (role, expected) in [
        ("user:ann", Verdict::Waits),
        ("user:ann/verified", Verdict::Waits),
        ("users", Verdict::Waits),
        ("team:T/owner", Verdict::Waits),
        ("guests", Verdict::Waits),
        ("any", Verdict::Passes),
        ("user:bob", Verdict::Skips),
        ("user:anna", Verdict::Skips),
        ("user:bob/verified", Verdict::Skips),
    ] {
        let mut held = Held::new("bench", "ann", false);
        let one = message(&event("A", role));
        assert_eq!(held.take(&one, position(1, 1)), expected, "{role}");
        assert_eq!(held.passes, expected == Verdict::Passes, "{role}");
        let waits = usize::from(expected == Verdict::Waits);
        assert_eq!(held.events.len(), waits, "{role}");
        // In another project, none of it is theirs.
        let mut elsewhere = Held::new("other", "ann", false);
        assert_eq!(elsewhere.take(&one, position(1, 1)), Verdict::Skips);
    }
}

/// Events for everyone wait behind an event about the same thing; for connections with positions,
/// behind any.
#[test]
fn what_everyone_may_hear_waits_for_its_order_alone() {
    for (in_order, other, same) in [
        (false, Verdict::Passes, Verdict::Waits),
        (true, Verdict::Waits, Verdict::Waits),
    ] {
        let mut held = Held::new("bench", "ann", in_order);
        let at = position(1, 1);
        let everyone = |id| message(&event(id, "any"));
        assert_eq!(held.take(&everyone("A"), at), Verdict::Passes);
        assert_eq!(
            held.take(&message(&event("A", "users")), at),
            Verdict::Waits
        );
        assert_eq!(held.take(&everyone("B"), at), other);
        assert_eq!(held.take(&everyone("A"), at), same);
    }
}

/// A user who left a team gets nothing of it, whatever the answer, until the next change is
/// announced; and events that wait for that team alone are dropped at each of its changes.
#[test]
fn changes_of_a_team_decide_about_what_waits() {
    let team = |roles: Option<&[&str]>| Change::Membership {
        team: "T".to_owned(),
        id: "m".to_owned(),
        roles: roles.map(|roles| roles.iter().map(ToString::to_string).collect()),
    };
    let take =
        |held: &mut Held, role: &str| held.take(&message(&event(role, role)), position(1, 1));
    let waiting = |held: &Held| -> Vec<String> {
        let subjects = held.events.iter().map(|waiting| waiting.event.subject());
        subjects
            .map(|id| id.unwrap_or_default().to_owned())
            .collect()
    };
    let mut held = Held::new("bench", "ann", true);
    for role in ["team:T", "team:T/owner", "team:S", "any", "users"] {
        assert_eq!(take(&mut held, role), Verdict::Waits, "{role}");
    }
    // For two teams: the other one's members may hear it.
    let mut both = event("both", "team:T");
    both["roles"] = json!(["team:T", "team:S"]);
    held.take(&message(&both), position(1, 1));
    held.learn(&Change::Document);
    assert_eq!(waiting(&held).len(), 6, "nothing is said of a team");
    held.learn(&team(None));
    assert_eq!(waiting(&held), ["team:S", "any", "users", "both"]);
    assert_eq!(take(&mut held, "team:T"), Verdict::Skips);
    assert_eq!(take(&mut held, "team:T/owner"), Verdict::Skips);
    assert_eq!(take(&mut held, "team:S/owner"), Verdict::Waits);
    // A change of one team does not affect another.
    let other = Change::Membership {
        team: "S".to_owned(),
        id: "n".to_owned(),
        roles: Some(Vec::new()),
    };
    held.learn(&other);
    assert_eq!(waiting(&held), ["any", "users"]);
    assert_eq!(take(&mut held, "team:T"), Verdict::Skips);
    held.learn(&team(Some(&[])));
    assert_eq!(take(&mut held, "team:T"), Verdict::Waits);
    // A change without details: any role may have changed.
    held.learn(&team(None));
    assert_eq!(take(&mut held, "team:T"), Verdict::Skips);
    held.learn(&Change::Unsaid);
    assert_eq!(take(&mut held, "team:T"), Verdict::Waits);
}

/// Events of more teams than are remembered wait.
#[test]
fn so_many_teams_are_known_to_be_left() {
    let mut held = Held::new("bench", "ann", false);
    for n in 0..257 {
        held.learn(&Change::Membership {
            team: format!("T{n}"),
            id: "m".to_owned(),
            roles: None,
        });
    }
    for (n, expected) in [
        (0, Verdict::Skips),
        (255, Verdict::Skips),
        (256, Verdict::Waits),
    ] {
        let one = message(&event("A", &format!("team:T{n}")));
        assert_eq!(held.take(&one, position(1, 1)), expected, "{n}");
    }
}

/// 256 events, and no more.
#[test]
fn so_many_events_are_held_back() {
    let mut held = Held::new("bench", "ann", false);
    let one = message(&event("A", "users"));
    for _ in 0..256 {
        assert_eq!(held.take(&one, position(1, 1)), Verdict::Waits);
    }
    assert_eq!(held.take(&one, position(1, 1)), Verdict::Full);
    assert_eq!(held.events.len(), 256);
}
