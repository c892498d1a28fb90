//! Deadlines as an app sees them.

use throng_engine::ConnLimits;

use crate::support::{Event, Manner, NEVER_MS, rig};

#[test]
fn deadlines_come_in_order_and_can_be_moved_and_cleared() {
    let rig = rig(Manner::Echo, ConnLimits::default());
    let clients: Vec<_> = (0..4).map(|_| rig.client()).collect();
    let ids: Vec<_> = clients.iter().map(|(_, id)| *id).collect();
    let [moved, early, cleared, late] = ids[..] else {
        panic!("four clients");
    };
    // All in one turn, so that the order is the order of the deadlines.
    rig.ask(move |conns, _| {
        let deadlines = [
            (moved, Some(NEVER_MS)),
            (early, Some(50)),
            (cleared, Some(100)),
            (late, Some(400)),
            (cleared, None),
            (moved, Some(200)),
        ];
        for (id, ms) in deadlines {
            conns.with(id, |_, fx| {
                let deadline = ms.map(|ms| fx.now.mono + ms);
                fx.set_deadline(deadline);
            });
        }
    });
    for id in [early, moved, late] {
        assert_eq!(rig.next(), Event::Timeout(id));
    }
    // A deadline that has come is unset; a past one comes at once.
    rig.set_deadline(cleared, Some(0));
    assert_eq!(rig.next(), Event::Timeout(cleared));
    assert_eq!(rig.ask(|conns, _| conns.len()), 4);
}

#[test]
fn a_shard_without_work_sleeps() {
    let rig = rig(Manner::Echo, ConnLimits::default());
    let (_client, id) = rig.client();
    rig.set_deadline(id, Some(300));
    let before = rig.seen.lock().unwrap().stats.turns;
    rig.find(|event| (event == Event::Timeout(id)).then_some(()));
    let after = rig.seen.lock().unwrap().stats.turns;
    // One for each move in the wheel, a few for the question itself.
    assert!(after - before < 10, "{} turns", after - before);
}
