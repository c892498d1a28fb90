//! The fetching before an issuer that a test plays, with a clock of the test's.

use throng_auth::RefreshOptions;
use throng_backend::{BackendLimits, ClientPeer};
use throng_peer::{Ended, LinkEvent, LinkId, Peer as _, Want};
use throng_play::Play;
use throng_types::Millis;

use super::*;

const KEYS: &str = r#"{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"a",
    "x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;

struct Stage {
    play: Play<ClientPeer<Fetcher>>,
    inner: Arc<Inner>,
    counters: Arc<Counters>,
    /// Time at which it asked to be woken.
    wake_at: Option<Millis>,
    links: Vec<LinkId>,
}

impl Stage {
    /// Ten seconds between two fetches at least, ten minutes at most.
    fn new() -> Self {
        let (inner, counters) = (Arc::new(Inner::default()), Arc::new(Counters::new()));
        let fetcher = Fetcher {
            inner: inner.clone(),
            address: Address::from_url("http://issuer/keys", 1000).unwrap(),
            place: "http://issuer/keys".to_owned(),
            timeout_ms: 1000,
            refresh: Refresh::new(RefreshOptions {
                interval_ms: 600_000,
                interval_min_ms: 10_000,
            }),
            is_fetching: false,
            counters: counters.clone(),
        };
        let limits = BackendLimits {
            idle_max: 0,
            ..BackendLimits::default()
        };
        Self {
            play: Play::new(ClientPeer::new(fetcher, limits)),
            inner,
            counters,
            wake_at: None,
            links: Vec::new(),
        }
    }

    fn take(&mut self, wants: Vec<Want>) {
        for want in wants {
            match want {
                Want::Wake(at) => self.wake_at = at,
                Want::Dial(link, _) => self.links.push(link),
                _ => {}
            }
        }
    }

    fn call(&mut self) {
        let wants = self.play.act(|peer, cx| peer.call((), cx)).1;
        self.take(wants);
    }

    /// Wakes it at the time for which it asked.
    #[track_caller]
    fn wake(&mut self) {
        self.play.now.mono = self.wake_at.take().expect("a deadline");
        let wants = self.play.act(ClientPeer::woken).1;
        self.take(wants);
    }

    /// Answers the only request.
    #[track_caller]
    fn answer(&mut self, body: &str) {
        let [link] = self.links[..] else {
            panic!("{:?}", self.links);
        };
        self.links.clear();
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.play.event(link, LinkEvent::Connected);
        self.play.event(link, LinkEvent::Written);
        let wants = self.play.event(link, LinkEvent::Bytes(answer.as_bytes())).1;
        self.take(wants);
    }

    fn has_key(&self) -> bool {
        self.inner.keys().ids().any(|id| id == Some("a"))
    }
}

#[test]
fn keys_are_fetched_at_once_at_intervals_and_when_one_is_missing() {
    let mut stage = Stage::new();
    stage.call();
    stage.answer(KEYS);
    assert!(stage.has_key() && lock(&stage.inner.first).as_ref().unwrap().is_ok());
    assert_eq!(stage.wake_at, Some(Millis(600_000)));
    // A token names another key: not before ten seconds are over, and once for all that ask.
    stage.inner.is_wanted.store(true, Ordering::Release);
    stage.call();
    stage.call();
    assert_eq!(
        (stage.wake_at, stage.links.len()),
        (Some(Millis(10_000)), 0)
    );
    stage.wake();
    stage.call();
    // What is no set changes nothing, and is tried again soon.
    stage.answer("{}");
    assert!(stage.has_key());
    assert_eq!(stage.wake_at, Some(Millis(20_000)));
    stage.wake();
    let link = stage.links.pop().unwrap();
    let why = Ended::Unreachable("nobody listens".to_owned());
    let wants = stage.play.event(link, LinkEvent::Ended(why)).1;
    stage.take(wants);
    assert_eq!(stage.wake_at, Some(Millis(40_000)));
    // One that takes long is not overtaken; a key that is missed meanwhile is asked for again.
    stage.wake();
    stage.play.now.mono = Millis(55_000);
    stage.inner.is_wanted.store(true, Ordering::Release);
    stage.call();
    stage.answer(KEYS);
    assert_eq!(stage.links.len(), 1);
    let counters = &stage.counters;
    assert_eq!(counters.counter(Counter::TokenKeysGood), 2);
    assert_eq!(counters.counter(Counter::TokenKeysFailed), 2);
}
