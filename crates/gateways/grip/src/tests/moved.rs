//! Clients moved to another process stay held there, and those that wait for a backend do not move.

use throng_session::Gateway;
use throng_types::{Load as _, Save as _, Saved};

use super::*;
use crate::Session;

/// A new process with these options, and the connection as it goes there.
fn grip(own: &Rc<GripShared>) -> Grip {
    let mut grip = super::grip();
    grip.shared = own.clone();
    grip
}

impl Client {
    /// Its bytes, if it can move.
    fn saved(&mut self) -> Option<Vec<u8>> {
        let (id, own) = (self.solo.id, self.solo.own.clone());
        let session = self.solo.session().expect("a session");
        let mut bytes = Vec::new();
        if !Grip::moves(session) {
            return None;
        }
        session.save(&mut bytes);
        let moves = grip(&own).save_kept(id, session, &mut bytes);
        moves.then_some(bytes)
    }

    /// Saves and restores it in another process; false if it cannot move. If asked to, tries what
    /// is cut or wrong, too.
    #[track_caller]
    pub(super) fn moves(&mut self, tries_damage: bool) -> bool {
        let Some(bytes) = self.saved() else {
            return false;
        };
        let id = self.solo.id;
        let mut new = grip(&Rc::new(GripShared::new(self.solo.own.options.clone())));
        let mut load = |bytes: &[u8]| {
            let mut from = Saved::new(bytes);
            let mut session = Session::load(&mut from)?;
            new.load_kept(id, &mut session, &mut from)?;
            from.is_empty().then_some(session)
        };
        for at in 0..if tries_damage { bytes.len() } else { 0 } {
            assert!(load(&bytes[..at]).is_none(), "{at} of {}", bytes.len());
            for wrong in [0, 1, 0x7f, 0xff] {
                let mut bytes = bytes.clone();
                bytes[at] = wrong;
                load(&bytes);
            }
        }
        let loaded = load(&bytes).expect("what was saved");
        let mut old = grip(&self.solo.own);
        let session = self.solo.session().expect("a session");
        let session = std::mem::replace(session, loaded);
        old.give_up(id, session);
        assert_eq!(old.shared.peer(id), None, "it is given up");
        self.solo.own = new.shared();
        assert_eq!(self.saved(), Some(bytes), "and again");
        true
    }
}

#[test]
fn the_order_of_items_goes_on() {
    let item = |id: u32, prev: u32| {
        let ids = format!(r#""id":"{id}","prev-id":"{prev}""#);
        let json = format!(r#"J{{"channel":"a",{ids},"http-stream":{{"content":"x"}}}}"#);
        zmq_pull_item(&[json.into_bytes()]).expect("an item")
    };
    let mut old = grip(&Rc::new(GripShared::new(options())));
    let mut out = Vec::new();
    let now = Millis(5);
    for (id, prev) in [(1, 0), (3, 2)] {
        let _ = old
            .items
            .sequencer
            .offer(now, &item(id, prev), (None, None), |_| true, &mut out);
    }
    assert_eq!(out.len(), 1);
    let mut bytes = Vec::new();
    old.save_rest(&mut bytes);
    let mut new = grip(&Rc::new(GripShared::new(options())));
    for cut in 0..bytes.len() {
        let mut damaged = grip(&Rc::new(GripShared::new(options())));
        assert!(
            damaged.load_rest(&mut Saved::new(&bytes[..cut])).is_none(),
            "{cut}"
        );
    }
    assert!(new.load_rest(&mut Saved::new(&bytes)).is_some());
    let mut again = Vec::new();
    new.save_rest(&mut again);
    assert_eq!(again, bytes);
    assert_eq!(
        new.items.sequencer.deadline(),
        old.items.sequencer.deadline()
    );
    let _ = new
        .items
        .sequencer
        .offer(now, &item(1, 0), (None, None), |_| true, &mut out);
    assert_eq!(out.len(), 1, "it was published before");
    let _ = new
        .items
        .sequencer
        .offer(now, &item(2, 1), (None, None), |_| true, &mut out);
    assert_eq!(out.len(), 3, "and what had waited for it");
}
