//! A peer whose server is played, byte by byte.

use throng_broker::{Request, Ticket};
use throng_dialogue::{AssertingStage, number, play_asserting};
use throng_peer::Want;
use throng_play::Play;

use super::*;
use crate::node::tests::{Played, channel};
use crate::queues::{ForShard, REPLIES_MAX};
use crate::verbs::Verbs as _;

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

    /// Lets the time come at which the peer asked to be woken.
    fn wakes(&mut self) -> Vec<String> {
        self.play.now.mono = self.play.now.mono.max(self.wake_at.take().expect("a time"));
        self.act(|peer, cx| peer.woken(cx))
    }

    /// Wakes the peer until it wishes for something; gives that, and the milliseconds until then.
    fn waits(&mut self) -> (Vec<String>, u64) {
        let began = self.play.now.mono;
        loop {
            let wants = self.wakes();
            if !wants.is_empty() {
                return (wants, self.play.now.mono.0 - began.0);
            }
        }
    }

    fn node(&mut self) -> &mut Played<true> {
        &mut self.play.peer.node
    }
}

impl AssertingStage for Host {
    /// Plays a step of `stories.txt`, whose head says what each means.
    fn step(&mut self, step: &str) {
        let (act, expected) = step.split_once(" = ").unwrap_or((step, ""));
        let words: Vec<&str> = act.split(' ').collect();
        let mut wants = Vec::new();
        let mut found = String::new();
        match words[..] {
            ["connected", link] => wants = self.event(LinkId(number(link)), LinkEvent::Connected),
            ["says", link, text] => {
                let bytes = LinkEvent::Bytes(text.as_bytes());
                wants = self.event(LinkId(number(link)), bytes);
            }
            ["says", link, text, "times", count] => {
                let text = text.repeat(number(count));
                let bytes = LinkEvent::Bytes(text.as_bytes());
                wants = self.event(LinkId(number(link)), bytes);
            }
            ["written", link] => wants = self.event(LinkId(number(link)), LinkEvent::Written),
            ["ended", link] => {
                wants = self.event(LinkId(number(link)), LinkEvent::Ended(Ended::ByPeer));
            }
            ["unreachable", link] => {
                let why = Ended::Unreachable("no".to_owned());
                wants = self.event(LinkId(number(link)), LinkEvent::Ended(why));
            }
            ["call"] => wants = self.act(|peer, cx| peer.call((), cx)),
            ["wake"] => wants = self.wakes(),
            ["wait", least, most] => {
                let ms;
                (wants, ms) = self.waits();
                assert!((number(least)..=number(most)).contains(&ms), "{ms} ms");
            }
            ["changed"] => wants = self.act(|peer, cx| peer.end("options changed", cx)),
            ["forget", shard] => self.node().shards[number::<usize>(shard)].push(forget()),
            ["fill"] => {
                let shard = self.node().shards[0].clone();
                (0..REPLIES_MAX).for_each(|_| shard.leave(ForShard::Broken(channel())));
            }
            ["empty"] => {
                let is_full = self.node().shards[0].take(&mut Default::default());
                assert!(is_full, "it was full");
            }
            ["deaf"] => {
                self.node().proves = false;
                self.node().oldest_ms = Some(self.play.now.mono.0);
            }
            ["left"] => {
                let left = self.node().left(0).into_iter().map(|item| match item {
                    ForShard::Reply(reply) => format!("{:?}", reply.outcome),
                    other => panic!("{other:?}"),
                });
                found = left.collect::<Vec<_>>().join(", ");
            }
            ["flow"] => found = format!("{:?}", self.flow),
            ["words"] => found.clone_from(&self.node().words),
            ["count"] => found = self.node().words.len().to_string(),
            ["due"] => {
                let due = self.wake_at.map(|at| at.0 - self.play.now.mono.0);
                found = due.expect("a time").to_string();
            }
            ["up"] => found = self.node().core().io.status.is_up().to_string(),
            _ => panic!("a step that nobody knows"),
        }
        if !wants.is_empty() {
            found = wants.join(", ");
        }
        assert_eq!(found, expected);
    }
}

fn forget() -> ShardCommand {
    ShardCommand::Request(Request::Forget {
        ticket: Ticket(1),
        channel: channel(),
    })
}

#[test]
fn stories_hold() {
    play_asserting("stories.txt", include_str!("stories.txt"), Host::new);
}
