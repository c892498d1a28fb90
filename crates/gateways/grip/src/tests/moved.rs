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

    /// Saves and restores it in another process; false if it cannot move.
    #[track_caller]
    fn moves(&mut self) -> bool {
        let Some(bytes) = self.saved() else {
            return false;
        };
        let id = self.solo.id;
        let mut new = super::grip();
        let mut load = |bytes: &[u8]| {
            let mut from = Saved::new(bytes);
            let mut session = Session::load(&mut from)?;
            new.load_kept(id, &mut session, &mut from)?;
            from.is_empty().then_some(session)
        };
        for at in 0..bytes.len() {
            assert!(
                load(&bytes[..at]).is_none(),
                "{at} of {} bytes",
                bytes.len()
            );
            for wrong in [0, 1, 0x7f, 0xff] {
                let mut bytes = bytes.clone();
                bytes[at] = wrong;
                load(&bytes);
            }
        }
        let loaded = load(&bytes).expect("what was saved");
        let old = grip(&self.solo.own);
        let session = self.solo.session().expect("a session");
        let session = std::mem::replace(session, loaded);
        { old }.give_up(id, session);
        self.solo.own = new.shared();
        assert_eq!(self.saved(), Some(bytes), "and again");
        true
    }
}

fn stream(fields: &[(&str, &str)]) -> Client {
    let mut client = Client::gets();
    client.head(1, 200, fields);
    assert!(!client.moves(), "it is no member yet");
    client.joins("a");
    client.body(1, "hi");
    assert!(!client.moves(), "its backend still speaks");
    client.end(1);
    client.told();
    client
}

#[test]
fn a_stream_goes_on() {
    let mut client = stream(&[
        ("Grip-Hold", "stream"),
        ("Grip-Channel", "a"),
        ("Grip-Keep-Alive", "ping; timeout=10"),
    ]);
    assert!(client.moves());
    client.wait_ms(10_000);
    assert_eq!(client.told(), "4\r\nping\r\n");
    assert!(client.moves());
    client.item(r#"{"channel":"a","http-stream":{"action":"close"}}"#);
    assert_eq!(client.told(), "0\r\n\r\n");
    assert!(!client.moves(), "it leaves its channels");
    let flow = client.solo.act(|session, cx| session.left(cx));
    assert!(
        matches!(flow, Some(Flow::Http(_))),
        "the next request may come"
    );
}

#[test]
fn a_reliable_stream_knows_what_it_has() {
    let mut client = stream(&[
        ("Grip-Hold", "stream"),
        ("Grip-Channel", "a; prev-id=1; filter=skip-self"),
        ("Grip-Set-Meta", "user=\"jo\""),
        ("Grip-Link", "</next>; rel=next; timeout=60"),
    ]);
    client.orders.clear();
    assert!(client.moves());
    let item = |id: u32, prev: u32, more: &str| {
        format!(
            r#"{{"channel":"a","id":"{id}","prev-id":"{prev}",{more}
                "http-stream":{{"content":"<{id}>"}}}}"#
        )
    };
    client.item(&item(2, 1, ""));
    client.item(&item(3, 2, r#""meta":{"sender":"jo"},"#));
    assert_eq!(client.told(), "3\r\n<2>\r\n", "it does not hear itself");
    assert!(client.moves());
    client.item(&item(5, 4, ""));
    let asked = client.asked();
    let last = asked.headers.iter().find(|header| header.is("Grip-Last"));
    let last = last.map(|header| String::from_utf8_lossy(&header.value).into_owned());
    assert_eq!(
        (&*asked.path, last.as_deref()),
        ("/next", Some("a; last-id=3"))
    );
    assert!(!client.moves(), "its link is being fetched");
}

#[test]
fn a_long_poll_is_answered() {
    let mut client = Client::gets();
    let fields = [
        ("Grip-Hold", "response"),
        ("Grip-Channel", "a"),
        ("Grip-Timeout", "30"),
        ("X-Own", "1"),
    ];
    client.head(1, 200, &fields);
    client.body(1, "nothing");
    assert!(!client.moves(), "the body still comes");
    client.end(1);
    client.joins("a");
    assert!(client.moves());
    client.item(r#"{"channel":"a","http-response":{"body":"news"}}"#);
    let told = client.told();
    assert!(
        told.contains("X-Own: 1\r\n") && told.ends_with("\r\n\r\nnews"),
        "{told}"
    );
}

#[test]
fn a_client_by_ipv6_takes_the_next_request() {
    let mut client = stream(&[("Grip-Hold", "stream"), ("Grip-Channel", "a")]);
    let peer = std::net::Ipv6Addr::LOCALHOST;
    client.solo.own.keep_peer(client.solo.id, peer);
    if let Some(Session::Held(held)) = client.solo.session() {
        held.next = crate::held::NextRequest::OfV6;
    }
    let before = client.solo.own.clone();
    assert!(client.moves());
    assert_eq!(before.peer(client.solo.id), None, "it is given up");
    assert_eq!(client.solo.own.peer(client.solo.id), Some(peer.into()));
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
            .offer(now, &item(id, prev), None, |_| true, &mut out);
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
        .offer(now, &item(1, 0), None, |_| true, &mut out);
    assert_eq!(out.len(), 1, "it was published before");
    let _ = new
        .items
        .sequencer
        .offer(now, &item(2, 1), None, |_| true, &mut out);
    assert_eq!(out.len(), 3, "and what had waited for it");
}
