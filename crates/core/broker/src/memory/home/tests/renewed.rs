//! Other options while a home is in use.

use super::*;
use crate::LiveOptions;

fn live(size: u32) -> LiveOptions {
    let options = options(size, 10_000, 1 << 20);
    LiveOptions {
        namespaces: options.namespaces,
        reply: options.reply,
        streams_max: options.streams_max,
    }
}

#[test]
fn less_history_goes_with_the_next_publication() {
    let mut home = home(10, 10_000, 1 << 20);
    let first = publish(&mut home, "kept:a", "1", 0);
    for n in 2..6 {
        publish(&mut home, "kept:a", &n.to_string(), n);
    }
    home.renew(live(2), Millis(10));
    home.check();
    publish(&mut home, "kept:a", "6", 11);
    assert_eq!(home.stats().history_publications, 2);
    check_recovery(&mut home, first, 12, None);
    home.check();
}

#[test]
fn what_was_published_while_nothing_was_kept_is_never_passed_over() {
    let mut home = home(10, 10_000, 1 << 20);
    let before = publish(&mut home, "kept:a", "1", 0);
    home.subscribe(SHARD, &name("kept:a"), None, at(0));
    home.renew(live(0), Millis(1));
    home.check();
    // Without a position it could not be found again.
    let accepted = home.publish(draft("kept:a", "2"), at(2));
    assert_eq!(accepted.position, None);
    assert_eq!(accepted.interest, 1, "subscribers stay");
    home.renew(live(10), Millis(3));
    let after = publish(&mut home, "kept:a", "3", 4);
    assert_ne!(before.epoch, after.epoch);
    check_recovery(&mut home, before, 5, None);
    check_recovery(&mut home, after, 5, Some(&[]));
    home.check();
}
