//! Values that steps give to the gateway: keys, commands of backends, replies of shards.

use std::sync::Arc;

use serde_json::Value;
use throng_auth::{KeyConfig, KeySet, KeySource, SubscriptionOptions, Verifier};
use throng_broker::{HistoryPage, Refusal};
use throng_hub::{Answer, Command};
use throng_session::{
    Backends, ControlCommand, MatchedConnection, NodeCount, NodeReply, Question, SearchMatches,
    SurveyReply, Transport,
};
use throng_types::{ConnId, Position};

use crate::shard::SECRET;

/// Backends without room for questions.
pub(crate) struct Full;

impl Backends for Full {
    fn ask(&self, _: ConnId, _: u32, _: Question) -> bool {
        false
    }
}

/// Keys that are still to come.
#[derive(Debug)]
struct NoKeys;

impl KeySource for NoKeys {
    fn keys(&self) -> Arc<KeySet> {
        Arc::default()
    }

    fn want(&self) {}
}

pub(crate) fn keys_to_come() -> Arc<Verifier> {
    let keys = KeyConfig {
        hmac_secret: Some(SECRET.as_bytes().into()),
        key_source: Some(Arc::new(NoKeys)),
        ..KeyConfig::default()
    };
    Arc::new(Verifier::new(keys).expect("good keys"))
}

/// A publication, several, or a question for history: the first token, and the channels.
pub(crate) fn in_words(command: &Command) -> String {
    match command {
        Command::Publish { reply_to, draft } => format!("{}: {}", reply_to.token, draft.channel),
        Command::PublishAll { reply_to, drafts } => {
            let names: Vec<&str> = drafts.iter().map(|draft| draft.channel.as_str()).collect();
            format!("{}: {}", reply_to.token, names.join(" "))
        }
        Command::History {
            reply_to, channel, ..
        } => format!("{}: history {channel}", reply_to.token),
        other => panic!("{other:?}"),
    }
}

/// Answer of a hub: `done`, `busy`, or `history`, an empty page.
pub(crate) fn answer_of(word: &str) -> Answer {
    match word {
        "done" => Answer::Published { result: Ok(None) },
        "busy" => Answer::Published {
            result: Err(Refusal::Busy),
        },
        "history" => Answer::History {
            result: Ok(HistoryPage::default()),
        },
        _ => panic!("no answer"),
    }
}

/// A backend's request for a client, by the server API.
pub(crate) fn control(command: &Value) -> ControlCommand {
    let until_unix_s = |it: &Value| it["until"].as_u64();
    match command["subscribe"].as_str() {
        Some(channel) => ControlCommand::Subscribe {
            channel: throng_solo::name(channel),
            options: SubscriptionOptions {
                data: Some(r#"{"k":1}"#.into()),
                ..SubscriptionOptions::default()
            },
            until_unix_s: until_unix_s(command),
            since: command["since"].is_string().then_some(Position::START),
        },
        None => ControlCommand::Refresh {
            expired: command["refresh"]["expired"] == true,
            until_unix_s: until_unix_s(&command["refresh"]),
        },
    }
}

/// Reply of a shard: an object of one field, or a text for a node that did not reply.
pub(crate) fn reply_of(reply: &Value) -> SurveyReply {
    let number = |it: &Value| it.as_u64().unwrap_or_default() as u32;
    let Some((kind, value)) = reply.as_object().and_then(|it| it.iter().next()) else {
        return SurveyReply::Unanswered;
    };
    match &**kind {
        "channels" => {
            let counts = value.as_object().into_iter().flatten();
            let counts = counts.map(|(name, count)| (throng_solo::name(name), number(count)));
            SurveyReply::Channels(counts.collect())
        }
        "done" => SurveyReply::Done(number(value)),
        "users" => SurveyReply::Count(NodeCount {
            clients: 2,
            users: serde_json::from_value(value.clone()).expect("numbers"),
            channels: vec![7],
            subscriptions: 3,
        }),
        "match" => {
            let all = [
                Transport::WebSocket,
                Transport::Sse,
                Transport::Stream,
                Transport::Http,
            ];
            let transport = all.into_iter().find(|it| *value == *it.as_str());
            SurveyReply::Matches(SearchMatches {
                count: 1,
                is_cut: false,
                rows: vec![MatchedConnection {
                    client: "c".into(),
                    user: "ann".into(),
                    address: "".into(),
                    transport: transport.expect("a transport"),
                    queued_bytes: 0,
                    subscriptions: 0,
                    channels: Vec::new(),
                }],
            })
        }
        "elsewhere" => {
            let nodes = value.as_array().into_iter().flatten();
            let nodes = nodes.map(|done| NodeReply {
                replies: vec![SurveyReply::Done(0), SurveyReply::Done(number(done))],
                ..NodeReply::default()
            });
            SurveyReply::Elsewhere(nodes.collect())
        }
        _ => panic!("no reply"),
    }
}
