//! Publications with a version, and histories that are forgotten on request.

use throng_broker::{Draft, Refusal, Reply, Request, Version};

use crate::tester::{Tester, draft, name};

/// A version that is not newer than the newest of its channel is answered, not delivered and not
/// kept. Versions of another epoch begin anew, and an empty epoch is compared with all.
pub fn an_older_version_is_not_published(tester: &mut Tester) {
    let listener = tester.shard();
    tester.subscribe(listener, "kept:v", None);
    for (number, epoch, text, is_published) in [
        (2, "", "2", true),
        (2, "", "2 again", false),
        (1, "", "1", false),
        (3, "a", "3a", true),
        (1, "b", "1b", true),
        (1, "b", "1b again", false),
        (1, "", "1 again", false),
        (2, "", "2 later", true),
    ] {
        let versioned = Draft {
            version: Some(Box::new(Version {
                number,
                epoch: epoch.into(),
            })),
            ..draft("kept:v", text)
        };
        let shard = tester.shard();
        let published = tester.offer(shard, versioned).expect("room");
        let kept = tester.kept("kept:v");
        let offset = published.position.map(|position| position.offset);
        assert_eq!(offset, Some(kept.len() as u64), "{text}");
        assert_eq!(
            kept.last().map(String::as_str) == Some(text),
            is_published,
            "{text}"
        );
        let delivered = tester.delivered(listener);
        assert_eq!(delivered.len(), usize::from(is_published), "{text}");
    }
    // Without a version nothing is compared.
    tester.publish("kept:v", "plain");
    assert_eq!(tester.kept("kept:v").len(), 5);
}

fn forget(tester: &mut Tester, channel: &str) -> Result<(), Refusal> {
    let shard = tester.shard();
    let channel = name(channel);
    let ticket = tester.ask(shard, |ticket| Request::Forget { ticket, channel });
    tester.settle();
    match tester.reply(shard, ticket) {
        Some(Reply::History { result, .. }) => result.map(|_| ()),
        other => panic!("{other:?} to a wish to forget"),
    }
}

/// Publications are forgotten, and the stream goes on where it stood.
pub fn a_history_is_forgotten_and_its_stream_goes_on(tester: &mut Tester) {
    for text in ["1", "2"] {
        tester.publish("kept:f", text);
    }
    assert_eq!(forget(tester, "kept:f"), Ok(()));
    assert_eq!(tester.kept("kept:f"), [""; 0]);
    let position = tester.publish("kept:f", "3").expect("a position");
    assert_eq!(position.offset, 3);
    assert_eq!(tester.kept("kept:f"), ["3"]);
    for (channel, refusal) in [
        ("plain", Refusal::NotAvailable),
        ("unknown:a", Refusal::UnknownChannel),
    ] {
        assert_eq!(forget(tester, channel), Err(refusal), "{channel}");
    }
}
