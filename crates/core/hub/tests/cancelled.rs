//! A subscription that ends before the broker has replied: its connection is answered, once.

use throng_broker::Refusal;
use throng_hub::{Answer, Command, FormKind, Format};
use throng_solo::{Heard, conn, hub, name_at, namespaces, subscribe};
use throng_types::{Now, ShardId};

use Step::{End, Gone, Subscribe, Unsubscribe};

#[derive(Clone, Copy)]
enum Step {
    /// The client's commands, with their tokens.
    Subscribe(u32),
    Unsubscribe(u32),
    /// The server ends the subscription.
    End,
    Gone,
}

/// Carries steps out on a shard while the channel's home, the other shard, does not reply; then it
/// does. Gives the tokens of the answers with the refusals, and whether there is a subscription.
fn played(steps: &[Step]) -> (Vec<(u32, Option<Refusal>)>, bool) {
    let channel = name_at(ShardId(1), "");
    let mut hubs = [0, 1].map(|shard| hub(ShardId(shard), 2, &namespaces(&[])));
    let mut heard = Heard::default();
    let (conn, now) = (conn(3), Now::default());
    for step in steps {
        let command = match *step {
            Subscribe(token) => {
                let format = Format::new(0, FormKind::Shared);
                subscribe((conn, token), channel.as_str(), format, None)
            }
            Unsubscribe(token) => Command::Unsubscribe {
                conn,
                channel: channel.clone(),
                token: Some(token),
            },
            End => {
                assert!(hubs[0].unsubscribe(conn, &channel, now));
                assert!(!hubs[0].unsubscribe(conn, &channel, now), "twice");
                continue;
            }
            Gone => {
                hubs[0].gone(conn, now);
                continue;
            }
        };
        hubs[0].handle(command, now, &mut heard);
    }
    assert!(heard.answers.is_empty(), "the home has not replied");
    for (from, to) in [(0, 1), (1, 0), (0, 1), (1, 0)] {
        while let Some(mail) = hubs[from].broker.take_mail(ShardId(to as u8)) {
            hubs[to].mail(ShardId(from as u8), mail, now, &mut heard);
        }
    }
    let answers = heard.answers.into_iter().map(|(reply_to, answer)| {
        let refusal = match answer {
            Answer::Subscribed { result, .. } => result.err(),
            Answer::Unsubscribed { result, .. } => result.err(),
            other => panic!("{other:?}"),
        };
        (reply_to.token, refusal)
    });
    let is_subscribed = hubs[0].is_subscribed(conn, &channel);
    assert_eq!(hubs[0].has_channel(&channel), is_subscribed);
    (answers.collect(), is_subscribed)
}

#[test]
fn every_subscribe_is_answered_once_and_in_order() {
    let cancelled = Some(Refusal::Cancelled);
    for (steps, answers, is_subscribed) in [
        // Commands behind the subscribe of a connection that has gone are dropped: otherwise a
        // stranger in the same slot would become a member.
        (
            &[
                Subscribe(1),
                Unsubscribe(2),
                Subscribe(3),
                Unsubscribe(4),
                Gone,
            ][..],
            &[(1, cancelled)][..],
            false,
        ),
        // The client's unsubscribe is answered after the subscribe that it sent before.
        (
            &[Subscribe(1), End, Unsubscribe(2)],
            &[(1, cancelled), (2, None)],
            false,
        ),
        // The server ends also the subscribes that wait.
        (
            &[Subscribe(1), Unsubscribe(2), Subscribe(3), End],
            &[(1, cancelled), (2, None), (3, cancelled)],
            false,
        ),
        (
            &[Subscribe(1), End, Subscribe(2)],
            &[(1, cancelled), (2, None)],
            true,
        ),
    ] {
        assert_eq!(played(steps), (answers.to_vec(), is_subscribed));
    }
}
