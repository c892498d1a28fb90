//! Plays the dialogues in `history.txt`: events held back while the roles of ann, in the project
//! `bench`, are unknown, and history for clients that reconnect.
//!
//! `in order`, at the beginning: the connection has positions. `ID ROLE,.. waits`, `passes`,
//! `skips` or `is too many` is an event and what becomes of it, which in another project would be
//! skipped; `waiting ID ..` are those that wait, and `held COUNT`. Changes: `team T is left`, `team
//! T changes`, `account changes`, and `something changes`.
//!
//! `keep EPOCH OFFSET ..` of events, `begin EPOCH OFFSET`; `since EPOCH OFFSET has OFFSET ..` are
//! the events kept behind a place, `since EPOCH OFFSET is unknown`; `now EPOCH OFFSET`.

use throng_dialogue::{AssertingStage, check_list, number, play_asserting};

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

#[test]
fn held_events_and_history_have_their_dialogues() {
    play_asserting("history.txt", include_str!("history.txt"), Stage::new);
}

struct Stage {
    held: Held,
    history: History,
}

impl Stage {
    fn new() -> Self {
        Self {
            held: Held::new("bench", "ann", false),
            history: History::new(1000, 1 << 20),
        }
    }

    fn take(&mut self, id: &str, roles: &str, verdict: &str) {
        let mut event = event(id, "");
        event["roles"] = json!(roles.split(',').collect::<Vec<_>>());
        let (event, before) = (message(&event), self.held.events.len());
        let expected = match verdict {
            "waits" => Verdict::Waits,
            "passes" => Verdict::Passes,
            "skips" => Verdict::Skips,
            "is too many" => Verdict::Full,
            _ => panic!("no verdict"),
        };
        assert_eq!(self.held.take(&event, position(1, 1)), expected);
        assert_eq!(self.held.passes, expected == Verdict::Passes);
        let waits = usize::from(expected == Verdict::Waits);
        assert_eq!(self.held.events.len(), before + waits);
        let mut elsewhere = Held::new("other", "ann", false);
        assert_eq!(elsewhere.take(&event, position(1, 1)), Verdict::Skips);
    }
}

impl AssertingStage for Stage {
    fn step(&mut self, step: &str) {
        let words: Vec<&str> = step.split(' ').collect();
        match *words {
            ["in", "order"] => self.held = Held::new("bench", "ann", true),
            ["team", team, ref what @ ..] => self.held.learn(&Change::Membership {
                team: team.to_owned(),
                id: "m".to_owned(),
                roles: (what == ["changes"]).then(Vec::new),
            }),
            ["account", "changes"] => self.held.learn(&Change::Document),
            ["something", "changes"] => self.held.learn(&Change::Unsaid),
            ["waiting", ..] => {
                let ids = self.held.events.iter();
                let ids: Vec<_> = ids.filter_map(|it| it.event.subject()).collect();
                check_list(&ids, &words[1..].join(" "), " ");
            }
            ["held", count] => check_list(&[self.held.events.len()], count, ""),
            ["keep", epoch, ref offsets @ ..] => {
                for offset in offsets {
                    let at = position(number(epoch), number(offset));
                    self.history
                        .push(&message(&event("A", "any")), at, Millis(0));
                }
            }
            ["begin", epoch, offset] => self.history.begin(position(number(epoch), number(offset))),
            ["now", epoch, offset] => {
                let expected = position(number(epoch), number(offset));
                assert_eq!(self.history.last, expected);
            }
            ["since", epoch, offset, ref rest @ ..] => {
                match (since(&self.history, number(epoch), number(offset)), rest) {
                    (None, ["is", "unknown"]) => {}
                    (Some(kept), ["has", rest @ ..]) => check_list(&kept, &rest.join(" "), " "),
                    (kept, _) => panic!("{kept:?}"),
                }
            }
            [id, roles, ref verdict @ ..] => self.take(id, roles, &verdict.join(" ")),
            _ => panic!("no step"),
        }
    }
}

/// The offsets that are kept after a place, if all are.
fn since(history: &History, epoch: u64, offset: u64) -> Option<Vec<u64>> {
    let missed = history.since(position(epoch, offset))?;
    assert!(missed.iter().all(|(_, at)| at.epoch == Epoch(epoch)));
    Some(missed.iter().map(|(_, at)| at.offset).collect())
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
    assert_eq!((kept(&history), history.last), (Some(0), position(1, 9)));
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
