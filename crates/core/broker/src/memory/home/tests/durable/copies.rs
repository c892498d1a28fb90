//! Items of a copy besides publications, when the segments before it have gone.

use super::*;

/// Writes a copy, one record in each step, and gives what the next process makes of it alone.
fn copied(log: &mut Log, home: &mut Home, tape: &Tape, now: Now) -> Home {
    tape.state().records.clear();
    tape.state().round = 1;
    assert!(!home.copy(now), "it waits for room");
    for step in 0.. {
        assert!(step < 10_000, "the copy has no end");
        let before = tape.state().records.len();
        tape.state().room = 1;
        let goes_on = home.copy(now);
        let (is_done, has_written) = {
            let state = tape.state();
            (state.copied > 0, state.records.len() > before)
        };
        assert_eq!(goes_on, has_written && !is_done, "step {step}");
        if is_done {
            break;
        }
    }
    let count = tape.state().records.len();
    log.end(tape, count);
    log.next(now).0
}

/// A publisher that tries again after a restart publishes nothing twice, for as long as before.
#[test]
fn a_copy_says_which_keys_were_used_and_when() {
    let mut log = Log::default();
    let (mut home, tape) = log.next(at(0));
    let first = home.publish(keyed("kept:a", "1"), at(0)).position;
    let without = home.publish(keyed("plain", "2"), at(1000));
    assert!(first.is_some() && without.publication.is_some());
    home.publish(keyed("kept:a", "3"), at(200_000));
    let mut home = copied(&mut log, &mut home, &tape, at(200_500));
    for (channel, key, position) in [("kept:a", "1", first), ("plain", "2", None)] {
        let again = home.publish(keyed(channel, key), at(200_500));
        assert!(again.publication.is_none(), "{key} was used");
        assert_eq!(place(again.position), place(position), "{key}");
    }
    home.tick(at(300_000), 10);
    let mut is_new = |channel, key| {
        let accepted = home.publish(keyed(channel, key), at(300_000));
        accepted.publication.is_some()
    };
    assert!(is_new("kept:a", "1"), "five minutes have passed");
    assert!(!is_new("plain", "2") && !is_new("kept:a", "3"));
    home.check();
}

/// Streams in which nothing happens while the copy is made.
#[test]
fn a_copy_says_where_each_stream_stands_and_what_it_keeps() {
    let mut log = Log::default();
    let (mut home, tape) = log.next(at(0));
    let newer = |number, data| versioned(number, "kept:a", data);
    let first = home.publish(newer(7, "1"), at(1)).position;
    home.publish(newer(9, "2"), at(2));
    publish(&mut home, "kept:bare", "x", 3);
    let bare = publish(&mut home, "kept:bare", "x", 3);
    assert!(home.forget_history(&name("kept:bare"), at(3)).is_ok());
    let mut home = copied(&mut log, &mut home, &tape, at(4));
    let known = recover(&mut home, "kept:a", first.expect("history"), at(4));
    assert_eq!(known.expect("whole"), ["2"]);
    let known = recover(&mut home, "kept:bare", bare, at(4));
    assert_eq!(known, Some(Vec::new()));
    assert!(home.publish(newer(9, "3"), at(4)).publication.is_none());
    assert!(home.publish(newer(10, "3"), at(4)).publication.is_some());
    home.check();
}
