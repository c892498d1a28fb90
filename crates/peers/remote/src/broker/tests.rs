//! A peer whose server is played, byte by byte.

use throng_broker::{Refusal, Reply, Request, Ticket};
use throng_peer::Want;
use throng_play::Play;

use super::*;
use crate::node::tests::{Played, channel};
use crate::queues::REPLIES_MAX;
use crate::verbs::Verbs as _;

const LINK: LinkId = LinkId(1);

struct Host {
    play: Play<BrokerPeer<Played<true>>>,
    wake_at: Option<Millis>,
    flow: ReadFlow,
}

impl Host {
    /// A peer that was called for the first time.
    fn new() -> Self {
        let mut host = Self {
            play: Play::new(BrokerPeer::new(Played::new(true))),
            wake_at: None,
            flow: ReadFlow::More,
        };
        assert_eq!(host.act(|peer, cx| peer.call((), cx)), ["dial 1"]);
        host
    }

    /// One whose connection stands.
    fn up() -> Self {
        let mut host = Self::new();
        let shaken = host.event(LINK, LinkEvent::Connected);
        assert_eq!(shaken, ["write 1 hello"]);
        assert_eq!(host.says("+"), [""; 0]);
        assert_eq!(host.flow, ReadFlow::More);
        assert!(host.is_up());
        host
    }

    fn act(&mut self, act: impl FnOnce(&mut BrokerPeer<Played<true>>, &mut Cx<'_>)) -> Vec<String> {
        let (_, wants) = self.play.act(act);
        self.shown(wants)
    }

    fn event(&mut self, link: LinkId, event: LinkEvent<'_>) -> Vec<String> {
        let (flow, wants) = self.play.event(link, event);
        self.flow = flow;
        self.shown(wants)
    }

    fn shown(&mut self, wants: Vec<Want>) -> Vec<String> {
        let shown = wants.into_iter().filter_map(|want| match want {
            Want::Wake(at) => {
                self.wake_at = at;
                None
            }
            Want::Dial(link, _) => Some(format!("dial {}", link.0)),
            Want::Write(link, bytes) => {
                let text = String::from_utf8(bytes).expect("text");
                Some(format!("write {} {text}", link.0))
            }
            Want::Resume(link) => Some(format!("resume {}", link.0)),
            Want::End(link) => Some(format!("end {}", link.0)),
            other => panic!("{other:?}"),
        });
        shown.collect()
    }

    fn says(&mut self, text: &str) -> Vec<String> {
        self.event(LINK, LinkEvent::Bytes(text.as_bytes()))
    }

    fn ends(&mut self, link: u64, why: Ended) -> Vec<String> {
        self.event(LinkId(link), LinkEvent::Ended(why))
    }

    /// Lets the time come at which the peer asked to be woken.
    fn wakes(&mut self) -> Vec<String> {
        self.play.now.mono = self.play.now.mono.max(self.wake_at.take().expect("a time"));
        self.act(|peer, cx| peer.woken(cx))
    }

    /// Milliseconds until the next dial.
    fn pause(&mut self) -> u64 {
        let began = self.play.now.mono;
        loop {
            let wants = self.wakes();
            if !wants.is_empty() {
                assert!(wants.iter().all(|it| it.starts_with("dial")), "{wants:?}");
                return self.play.now.mono.0 - began.0;
            }
        }
    }

    fn node(&mut self) -> &mut Played<true> {
        &mut self.play.peer.node
    }

    fn is_up(&mut self) -> bool {
        self.node().core().io.status.is_up()
    }
}

fn forget() -> ShardCommand {
    ShardCommand::Request(Request::Forget {
        ticket: Ticket(1),
        channel: channel(),
    })
}

#[test]
fn words_come_in_and_requests_go_out() {
    let mut host = Host::new();
    host.event(LINK, LinkEvent::Connected);
    host.node().shards[0].push(forget());
    assert_eq!(host.act(|peer, cx| peer.call((), cx)), [""; 0]);
    let refused = host.node().replies(0);
    let is_refused = |reply: &Reply| {
        let result = Err(Refusal::Unavailable);
        matches!(reply, Reply::History { result: it, .. } if *it == result)
    };
    assert!(refused.len() == 1 && refused.iter().all(is_refused));
    assert_eq!(host.says("+a"), [""; 0]);
    assert_eq!(host.wake_at, Some(host.play.now.mono), "a word came early");
    host.wakes();
    assert_eq!(host.wake_at, Some(host.play.now.mono + TICK_MS));
    host.says("b");
    assert_eq!(host.node().words, "ab");
    for shard in [0, 1, 1] {
        host.node().shards[shard].push(forget());
    }
    assert_eq!(host.act(|peer, cx| peer.call((), cx)), ["write 1 FFF"]);
    assert_eq!(host.event(LINK, LinkEvent::Written), [""; 0]);
}

#[test]
fn a_connection_that_is_cut_is_made_again_after_longer_and_longer_pauses() {
    let mut host = Host::up();
    assert_eq!(host.ends(1, Ended::ByPeer), ["end 1"]);
    assert!(!host.is_up());
    for (link, pause) in (2..).zip([100, 200, 400, 800, 1600, 3200, 5000, 5000]) {
        let took = host.pause();
        assert!((pause / 2..=pause).contains(&took), "{took} of {pause}");
        host.ends(link, Ended::Unreachable("no".to_owned()));
    }
    host.pause();
    let again = LinkId(10);
    host.event(again, LinkEvent::Connected);
    host.event(again, LinkEvent::Bytes(b"+"));
    assert_eq!(host.flow, ReadFlow::More);
    assert!(host.is_up());
    host.ends(10, Ended::ByPeer);
    assert!(host.pause() <= 100, "pauses begin anew");
}

#[test]
fn a_server_that_is_elsewhere_is_left() {
    let mut host = Host::up();
    let until = host.play.now.mono + 10_000;
    let mut wants = Vec::new();
    while wants.is_empty() {
        wants = host.wakes();
    }
    assert_eq!(
        (wants, host.play.now.mono),
        (vec!["end 1".to_owned()], until)
    );
    assert!(!host.is_up());
    assert!(host.pause() <= 100);
}

#[test]
fn a_handshake_that_is_given_up_ends_its_link() {
    let mut host = Host::new();
    host.event(LINK, LinkEvent::Connected);
    host.act(|peer, cx| peer.end("options changed", cx));
    assert_eq!(host.act(|peer, cx| peer.call((), cx)), ["end 1"]);
    assert!(host.pause() <= 100);
}

#[test]
fn a_full_shard_holds_the_link() {
    let mut host = Host::up();
    let shard = host.node().shards[0].clone();
    (0..REPLIES_MAX).for_each(|_| shard.reply(Reply::Broken(channel())));
    assert_eq!(host.says("ab"), [""; 0]);
    assert_eq!((host.flow, &*host.node().words), (ReadFlow::Hold, ""));
    assert_eq!(host.wakes(), [""; 0]);
    assert_eq!(host.node().words, "");
    assert!(shard.take(&mut Default::default()), "it was full");
    assert_eq!(host.act(|peer, cx| peer.call((), cx)), ["resume 1"]);
    assert_eq!(host.node().words, "ab");
    assert_eq!(host.says("c"), [""; 0]);
    assert_eq!((host.flow, &*host.node().words), (ReadFlow::More, "abc"));
}

#[test]
fn many_words_take_several_turns_and_the_end_comes_behind_them() {
    for has_ended in [false, true] {
        let mut host = Host::up();
        host.says(&"a".repeat(2 * AT_ONCE + 1));
        let taken = |host: &mut Host| host.node().words.len();
        assert_eq!((host.flow, taken(&mut host)), (ReadFlow::Hold, AT_ONCE));
        assert_eq!(host.wake_at, Some(host.play.now.mono));
        if has_ended {
            host.ends(1, Ended::ByPeer);
        } else {
            host.wakes();
        }
        assert_eq!(taken(&mut host), 2 * AT_ONCE);
        assert!(host.is_up());
        let last = if has_ended { "end 1" } else { "resume 1" };
        assert_eq!(host.wakes(), [last]);
        assert_eq!(taken(&mut host), 2 * AT_ONCE + 1);
        assert_eq!(host.is_up(), !has_ended);
    }
}

#[test]
fn words_that_are_refused_or_none_end_the_link() {
    for (said, taken) in [("axb", "ax"), ("a!b", "a")] {
        let mut host = Host::up();
        host.node().shards[0].push(forget());
        assert_eq!(host.says(said), ["end 1"]);
        assert_eq!(host.node().words, taken);
        assert!(!host.is_up());
        assert!(host.pause() <= 100);
    }
}

#[test]
fn a_node_that_hears_nothing_ends_the_link() {
    let mut host = Host::up();
    host.node().proves = false;
    host.node().oldest_ms = Some(host.play.now.mono.0);
    let mut wants = Vec::new();
    while wants.is_empty() {
        wants = host.wakes();
    }
    assert_eq!(wants, ["end 1"]);
    assert_eq!(host.play.now.mono.0, 5000, "as long as an answer may take");
}
