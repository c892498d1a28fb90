//! Every survey and reply, whole and cut off.

use throng_auth::SubscriptionOptions;
use throng_types::{Epoch, Position};

use super::*;
use crate::Transport;
use crate::survey::{ControlCommand, MatchedConnection, Matches, NodeCount};

fn surveys() -> Vec<Survey> {
    let name = |name: &str| ChannelName::new(name).expect("a name");
    let text = |text: &str| Box::<str>::from(text);
    let options = SubscriptionOptions {
        info: Some(text("{}")),
        presence: Some(true),
        force_recovery: Some(false),
        ..SubscriptionOptions::default()
    };
    let since = Some(Position {
        epoch: Epoch(7),
        offset: 9,
    });
    let command = |since| ControlCommand::Subscribe {
        channel: name("c"),
        options: options.clone(),
        until_unix_s: Some(5),
        since,
    };
    let refresh = ControlCommand::Refresh {
        expired: true,
        until_unix_s: None,
    };
    let control = |command| Survey::Control {
        user: text("ünï"),
        client: text(""),
        command,
    };
    let unsubscribe = |channel| Survey::Unsubscribe {
        user: text("u"),
        client: text("c"),
        channel,
    };
    vec![
        Survey::Channels,
        Survey::Count,
        Survey::Find(Search::default()),
        Survey::Find(Search {
            user: text("an"),
            address: text("192.0."),
            transport: Some(Transport::Stream),
            channel: Some(name("a:b")),
            slow: true,
            rows_max: 7,
        }),
        Survey::Disconnect {
            user: text("u"),
            client: text("c"),
            code: 3503,
            reason: text("why"),
            whitelist: vec![text("a"), text("b")],
        },
        control(command(since)),
        control(command(None)),
        control(refresh),
        unsubscribe(None),
        unsubscribe(Some(name("a:b"))),
        control(ControlCommand::Execute((*b"{}\xFF").into())),
        Survey::Carry {
            node: text("0123456789abcdef"),
            session: text("s"),
            data: (*b"\x00\xFF").into(),
        },
    ]
}

#[test]
fn surveys_are_read_as_they_were_written_and_no_part_of_one() {
    for survey in surveys() {
        let bytes = encode_survey(&survey);
        assert_eq!(decode_survey(&bytes), Some(survey.clone()));
        for end in 0..bytes.len() {
            assert_eq!(decode_survey(&bytes[..end]), None, "{survey:?} {end}");
        }
    }
    assert_eq!(decode_survey(&[2, 0]), None, "of another form");
}

#[test]
fn replies_are_read_as_they_were_written_and_no_part_of_them() {
    let name = ChannelName::new("c").expect("a name");
    let count = NodeCount {
        clients: 1,
        users: vec![2, 3],
        channels: vec![4],
        subscriptions: 5,
    };
    let replies = vec![
        SurveyReply::Channels(vec![(name, 3)]),
        SurveyReply::Count(count),
        SurveyReply::Done(8),
        SurveyReply::Matches(Matches {
            count: 9,
            is_cut: true,
            rows: vec![MatchedConnection {
                client: "id".into(),
                user: "ann".into(),
                address: "192.0.2.1".into(),
                transport: Transport::Sse,
                queued_bytes: 1 << 40,
                subscriptions: 3,
                channels: vec![ChannelName::new("d").expect("a name")],
            }],
        }),
    ];
    let bytes = encode_replies("u", "1", 9, &replies);
    let node = NodeReply {
        uid: "u".into(),
        version: "1".into(),
        uptime_s: 9,
        replies,
    };
    assert_eq!(decode_replies(&bytes), Some(node));
    for end in 0..bytes.len() {
        assert_eq!(decode_replies(&bytes[..end]), None, "{end}");
    }
    // A number of things that are not there takes no memory.
    let mut lies = encode_replies("", "", 0, &[]);
    lies.truncate(lies.len() - 8);
    lies.extend_from_slice(&u64::MAX.to_be_bytes());
    assert_eq!(decode_replies(&lies), None);
}
