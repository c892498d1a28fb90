//! A channel with a delay: publications gather, and no member waits longer than the delay.

mod support;

use throng_broker::{Acknowledge, ChannelOptions, Draft};
use throng_hub::{Answer, Batch, Command, FormKind, Format, Hub, ReplyTo, Sink};
use throng_types::{ChannelName, ConnId, Millis, Now, Payload, PayloadKind, Publication, ShardId};

/// Number of publications in each delivery.
#[derive(Default)]
struct Carried(Vec<(u32, usize)>);

impl Sink for Carried {
    fn answer(&mut self, _: ReplyTo, _: Answer) {}

    fn encode(&mut self, _: Format, publication: &Publication, out: &mut Vec<u8>) {
        out.extend_from_slice(&publication.payload.bytes);
    }

    fn deliver(&mut self, index: u32, batch: &Batch<'_>) {
        self.0.push((index, batch.publications.len()));
    }
}

const DELAY_MS: u32 = 5;

struct Stage {
    hub: Hub,
    now: Now,
    carried: Carried,
}

impl Stage {
    /// A hub with members in a channel with a delay and in one without.
    fn new(late: u32, prompt: u32) -> Self {
        let delayed = ChannelOptions {
            max_delay_ms: DELAY_MS,
            ..ChannelOptions::default()
        };
        let hub = support::hub(0, 1, vec![("late".into(), delayed)]);
        let mut stage = Self {
            hub,
            now: Now::default(),
            carried: Carried::default(),
        };
        for index in 0..late + prompt {
            let channel = if index < late { "late:a" } else { "a" };
            stage.subscribe(index, channel);
        }
        stage
    }

    fn subscribe(&mut self, index: u32, channel: &str) {
        let command = Command::Subscribe {
            reply_to: ReplyTo {
                conn: ConnId::new(ShardId(0), index, 1),
                token: 0,
            },
            channel: ChannelName::new(channel).unwrap(),
            format: Format::new(0, FormKind::Shared),
            since: None,
            presence: None,
        };
        self.hub.handle(command, self.now, &mut self.carried);
    }

    fn publish(&mut self, channel: &str) {
        let draft = Draft {
            channel: ChannelName::new(channel).unwrap(),
            payload: Payload {
                bytes: b"1".as_slice().into(),
                kind: PayloadKind::Json,
            },
            publisher: None,
            tags: None,
            skip_history: false,
            idempotency_key: None,
            version: None,
            acknowledge: Acknowledge::Memory,
        };
        self.hub.publish_here(draft, self.now).expect("room");
    }

    /// Deliveries at a time, with that many visits; and when the hub has more to do.
    fn at(&mut self, ms: u64, visits: usize) -> (Vec<(u32, usize)>, Option<u64>) {
        self.now.mono = Millis(ms);
        let more = self.hub.fan_out(visits, self.now, &mut self.carried);
        let deadline = self.hub.deadline().map(|at| at.0);
        let next = if more { Some(ms) } else { deadline };
        (std::mem::take(&mut self.carried.0), next)
    }
}

#[test]
fn publications_gather_for_so_long() {
    let mut stage = Stage::new(2, 1);
    stage.publish("late:a");
    stage.publish("a");
    assert_eq!(stage.at(0, 100), (vec![(2, 1)], Some(5)), "others go on");
    stage.publish("late:a");
    assert_eq!(stage.at(4, 100), (vec![], Some(5)));
    stage.publish("late:a");
    assert_eq!(stage.at(5, 100), (vec![(0, 3), (1, 3)], None));
    // The next one begins anew.
    stage.publish("late:a");
    assert_eq!(stage.at(7, 100), (vec![], Some(12)));
    assert_eq!(stage.at(30, 100), (vec![(0, 1), (1, 1)], None));
}

#[test]
fn a_round_goes_to_its_end_and_the_rest_gathers_again() {
    let mut stage = Stage::new(3, 0);
    stage.publish("late:a");
    stage.at(0, 100);
    assert_eq!(stage.at(5, 1), (vec![(0, 1)], Some(5)));
    stage.publish("late:a");
    // Those who were not visited yet get both at once.
    assert_eq!(stage.at(6, 100), (vec![(1, 2), (2, 2)], Some(11)));
    assert_eq!(stage.at(11, 100), (vec![(0, 1)], None));
}

#[test]
fn as_many_as_one_visit_carries_do_not_wait() {
    let mut stage = Stage::new(1, 0);
    stage.publish("late:a");
    assert_eq!(stage.at(0, 100), (vec![], Some(5)));
    for _ in 0..255 {
        stage.publish("late:a");
    }
    assert_eq!(stage.at(1, 100), (vec![(0, 256)], None));
}

#[test]
fn members_come_and_go_during_a_rest() {
    let mut stage = Stage::new(2, 0);
    stage.publish("late:a");
    stage.at(0, 100);
    stage.subscribe(7, "late:a");
    stage.hub.gone(ConnId::new(ShardId(0), 0, 1), stage.now);
    stage.publish("late:a");
    let (mut carried, next) = stage.at(5, 100);
    carried.sort_unstable();
    assert_eq!((carried, next), (vec![(1, 2), (7, 1)], None));
    // The last member leaves: nothing waits for it.
    stage.publish("late:a");
    assert_eq!(stage.at(6, 100), (vec![], Some(11)));
    for index in [1, 7] {
        stage.hub.gone(ConnId::new(ShardId(0), index, 1), stage.now);
    }
    assert_eq!(stage.at(7, 100), (vec![], None));
    assert_eq!(stage.hub.stats().channels, 0);
}
