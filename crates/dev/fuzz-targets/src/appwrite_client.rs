//! Messages of Appwrite clients: limits hold, a filter's text reads as the same filter, and answers
//! and refusals are JSON.

use throng_appwrite::{
    ClientMessage, ConnectionPhase, Index, MessageLimits, QueryFilter, RealtimeError, RefusalStyle,
    Response, Subscribed, Subscription, channel,
};

use crate::pieces::is_json;

pub(crate) const SEEDS: &[&[u8]] = &[
    br#"{"type":"ping"}"#,
    br#"{"type":"authentication","data":{"session":"eyJpZCI6IlUifQ=="}}"#,
    concat!(
        r#"{"type":"subscribe","data":[{"subscriptionId":"s1","channels":["files","#,
        r#""account"],"queries":["{\"method\":\"equal\",\"attribute\":\"a\","#,
        r#"\"values\":[1,\"x\",null]}"]},{"channels":["b"]}]}"#,
    )
    .as_bytes(),
    concat!(
        r#"{"type":"subscribe","data":[{"channels":["d"],"queries":["{\"method\":\"or\","#,
        r#"\"values\":[{\"method\":\"isNull\",\"attribute\":\"a\"},"#,
        r#"{\"method\":\"lessThan\",\"attribute\":\"b\",\"values\":[2.5]}]}"]}]}"#,
    )
    .as_bytes(),
    br#"{"type":"unsubscribe","data":[{"subscriptionId":"s1"},{"subscriptionId":"x"}]}"#,
    concat!(
        r#"{"type":"presence","data":{"status":"here","presenceId":"p","#,
        r#""metadata":{"a":1},"permissions":["read(\"any\")"]}}"#,
    )
    .as_bytes(),
];

/// Runs one input of this target; panics if the target finds a fault.
pub fn appwrite_client(input: &[u8]) {
    let limits = MessageLimits {
        message_bytes_max: 1500,
        channels_max: 4,
        channel_bytes_max: 40,
        subscriptions_max: 3,
        queries_max: 8,
        query_values_max: 8,
        query_depth_max: 4,
        ..MessageLimits::default()
    };
    match ClientMessage::parse(input, &limits) {
        Err(fault) => refusals(&fault),
        Ok(ClientMessage::Subscribe(items)) => {
            assert!(items.len() <= limits.subscriptions_max);
            let mut index = Index::new(7);
            index.insert(0, "p", &["any"]).expect("the first");
            for item in &items {
                assert!(item.channels.len() <= limits.channels_max);
                same_filter(&item.filter);
                let channels = channel::convert(&item.channels, "U");
                let id = item.id.as_deref().unwrap_or("made");
                let one = Subscription {
                    id,
                    channels: &channels,
                    filter: &item.filter,
                };
                index.subscribe(0, &[one]).expect("within every limit");
                let done = [Subscribed {
                    id,
                    channels: &channels,
                    queries: item.filter.text(),
                }];
                answer(&Response::Subscribe(&done));
            }
            assert!(index.subscriptions(0) <= items.len());
        }
        Ok(ClientMessage::Unsubscribe(ids)) => {
            assert!(ids.len() <= limits.subscriptions_max);
            let done: Vec<(&str, bool)> = ids.iter().map(|id| (id.as_str(), false)).collect();
            answer(&Response::Unsubscribe(&done));
        }
        Ok(ClientMessage::Ping | ClientMessage::Authentication { .. }) => {}
        Ok(ClientMessage::Presence(presence)) => assert_ne!(presence.id.as_deref(), Some("")),
    }
}

fn answer(response: &Response<'_>) {
    let mut out = Vec::new();
    response.encode(&mut out);
    assert!(is_json(&out), "{}", out.escape_ascii());
}

fn refusals(fault: &RealtimeError) {
    for phase in [ConnectionPhase::Open, ConnectionPhase::Message] {
        for style in [RefusalStyle::STOCK, RefusalStyle::default()] {
            let mut out = Vec::new();
            fault.refuse(phase, style, &mut out);
            assert!(is_json(&out), "{}", out.escape_ascii());
        }
    }
}

/// Clients send back the ids that they were given.
fn same_filter(filter: &QueryFilter) {
    let texts: Vec<String> = serde_json::from_str(filter.text()).expect("a list of texts");
    let again = QueryFilter::parse(
        &texts,
        &MessageLimits::default(),
        RealtimeError::MessageQuery,
    );
    assert_eq!(again.expect("a filter's own text").text(), filter.text());
}
