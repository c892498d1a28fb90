//! Shapes of answers, found in examples that the server's own encoder writes.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use throng_centrifuge::api::{
    ApiResult, ConnectionInfo, ConnectionsResult, Method, NodeInfo, PublishResult, ServerApiError,
    encode_response,
};
use throng_centrifuge::{ClientInfo, HistoryResult};
use throng_types::{
    ChannelName, Epoch, Payload, PayloadKind, Position, Publication, PublicationKind, Publisher,
};

/// Key of an example's object that stands for any name.
const ANY: &str = "*";

/// Shape of a value, out of examples of it.
pub(super) enum Shape {
    /// Any JSON; examples say `null`.
    Any,
    Flag,
    Number,
    Text,
    List(Box<Self>),
    /// Values under names of the caller's.
    Map(Box<Self>),
    /// Fields in their order, each with whether it is always there.
    Object(Vec<(String, bool, Self)>),
}

impl Shape {
    pub(super) fn of(examples: &[Value]) -> Self {
        match examples.first() {
            None | Some(Value::Null) => Self::Any,
            Some(Value::Bool(_)) => Self::Flag,
            Some(Value::Number(_)) => Self::Number,
            Some(Value::String(_)) => Self::Text,
            Some(Value::Array(_)) => {
                let items = examples.iter().filter_map(Value::as_array).flatten();
                Self::List(Box::new(Self::of(&items.cloned().collect::<Vec<_>>())))
            }
            Some(Value::Object(_)) => Self::of_objects(examples),
        }
    }

    fn of_objects(examples: &[Value]) -> Self {
        let objects: Vec<&Map<_, _>> = examples.iter().filter_map(Value::as_object).collect();
        let values = |name: &str| -> Vec<Value> {
            objects
                .iter()
                .filter_map(|object| object.get(name))
                .cloned()
                .collect()
        };
        let any = values(ANY);
        if !any.is_empty() {
            return Self::Map(Box::new(Self::of(&any)));
        }
        let mut fields: Vec<(String, bool, Self)> = Vec::new();
        for name in objects.iter().flat_map(|object| object.keys()) {
            if fields.iter().all(|(known, ..)| known != name) {
                let values = values(name);
                let is_always = values.len() == objects.len();
                fields.push((name.clone(), is_always, Self::of(&values)));
            }
        }
        Self::Object(fields)
    }

    /// Everything inside it by its path: fields behind a dot, of maps `*`.
    pub(super) fn entries(&self) -> Vec<(String, &Self)> {
        fn inside<'a>(name: &str, shape: &'a Shape) -> Vec<(String, &'a Shape)> {
            let entries = shape.entries().into_iter();
            let below = |(path, shape)| (format!("{name}.{path}"), shape);
            entries.map(below).collect()
        }
        match self {
            Self::List(items) => items.entries(),
            Self::Map(values) => {
                let mut entries = vec![(ANY.to_owned(), &**values)];
                entries.extend(inside(ANY, values));
                entries
            }
            Self::Object(fields) => {
                let fields = fields.iter().flat_map(|(name, _, shape)| {
                    let mut entries = vec![(name.clone(), shape)];
                    entries.extend(inside(name, shape));
                    entries
                });
                fields.collect()
            }
            Self::Any | Self::Flag | Self::Number | Self::Text => Vec::new(),
        }
    }

    /// The paths of [`Self::entries`], sorted.
    pub(super) fn paths(&self) -> Vec<String> {
        let mut paths: Vec<String> = self.entries().into_iter().map(|(path, _)| path).collect();
        paths.sort();
        paths
    }

    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Any => "any JSON",
            Self::Flag => "bool",
            Self::Number => "number",
            Self::Text => "string",
            Self::List(items) => match **items {
                Self::Text => "list of strings",
                _ => "list of objects",
            },
            Self::Map(_) | Self::Object(_) => "object",
        }
    }

    /// JSON Schema with the meanings of paths below `path`.
    pub(super) fn schema(&self, path: &str, meaning: &dyn Fn(&str) -> Option<String>) -> Value {
        let below = |name: &str| match path {
            "" => name.to_owned(),
            path => format!("{path}.{name}"),
        };
        let mut schema = match self {
            Self::Any => json!({}),
            Self::Flag => json!({"type": "boolean"}),
            Self::Number => json!({"type": "integer", "minimum": 0}),
            Self::Text => json!({"type": "string"}),
            Self::List(items) => json!({"type": "array", "items": items.schema(path, &|inner| {
                // The list's own meaning is the list's.
                (inner != path).then(|| meaning(inner)).flatten()
            })}),
            Self::Map(values) => {
                let values = values.schema(&below(ANY), meaning);
                json!({"type": "object", "additionalProperties": values})
            }
            Self::Object(fields) => {
                let each = fields.iter();
                let each = each
                    .map(|(name, _, shape)| (name.clone(), shape.schema(&below(name), meaning)));
                let mut schema =
                    json!({"type": "object", "properties": each.collect::<Map<_, _>>()});
                let always = fields.iter().filter(|(_, is_always, _)| *is_always);
                let always: Vec<&String> = always.map(|(name, ..)| name).collect();
                if !always.is_empty() {
                    schema["required"] = json!(always);
                }
                schema
            }
        };
        if let Some(meaning) = meaning(path) {
            schema["description"] = meaning.into();
        }
        schema
    }
}

/// Results of a method as the encoder writes them: with all that may be in them, and with the
/// least.
pub(super) fn samples(method: Method) -> Vec<Value> {
    let position = Position {
        epoch: Epoch(1),
        offset: 1,
    };
    let published = |position| PublishResult { position };
    let least = published(None);
    let most = published(Some(position));
    match method {
        Method::Publish => vec![
            result(&ApiResult::Publish(most)),
            result(&ApiResult::Publish(least)),
        ],
        Method::Broadcast => {
            let unknown = Err(ServerApiError::UnknownChannel);
            vec![result(&ApiResult::Broadcast(&[
                Ok(most),
                Ok(least),
                unknown,
            ]))]
        }
        Method::History => {
            let publications = [publication(true), publication(false)].map(Arc::new);
            let publications = &publications;
            vec![result(&ApiResult::History(HistoryResult {
                publications,
                position,
            }))]
        }
        Method::Presence => {
            let clients = [client(true), client(false)];
            clients
                .map(|client| result(&ApiResult::Presence(&[client])))
                .to_vec()
        }
        Method::PresenceStats => {
            let (clients, users) = (1, 1);
            vec![result(&ApiResult::PresenceStats { clients, users })]
        }
        Method::Channels => vec![
            result(&ApiResult::SomeChannels(&[(ANY, 1)], 1)),
            result(&ApiResult::Channels(&[(ANY, 1)])),
        ],
        Method::Connections => {
            let row = ConnectionInfo {
                client: "c",
                user: "u",
                address: "a",
                transport: "sse",
                node: "n",
                queued_bytes: 1,
                num_subs: 1,
                channels: vec!["c"],
            };
            vec![result(&ApiResult::Connections(ConnectionsResult {
                rows: &[row],
                num_found: 1,
                is_cut: false,
            }))]
        }
        Method::Info => vec![result(&ApiResult::Info(&[NodeInfo::default()]))],
        // It has none: every procedure is unknown.
        Method::Rpc
        | Method::Subscribe
        | Method::Unsubscribe
        | Method::Disconnect
        | Method::Refresh
        | Method::HistoryRemove => vec![result(&ApiResult::Done(method))],
    }
}

fn result(result: &ApiResult<'_>) -> Value {
    let mut out = Vec::new();
    encode_response(Ok(result), &mut out);
    let answer: Value = serde_json::from_slice(&out).expect("an answer is JSON");
    answer["result"].clone()
}

fn client(with_all: bool) -> ClientInfo<'static> {
    ClientInfo {
        user: "u",
        client: ANY,
        conn_info: with_all.then_some("null"),
        chan_info: with_all.then_some("null"),
    }
}

fn publication(with_all: bool) -> Publication {
    let null = || with_all.then(|| "null".into());
    let publisher = Publisher {
        client: "c".into(),
        user: "u".into(),
        conn_info: null(),
        chan_info: null(),
    };
    Publication {
        channel: ChannelName::new("c").expect("a name"),
        told: PublicationKind::Data,
        position: Some(Position {
            epoch: Epoch(1),
            offset: 1,
        }),
        payload: Payload {
            bytes: b"null".as_slice().into(),
            kind: PayloadKind::Json,
        },
        publisher: with_all.then(|| Box::new(publisher)),
        tags: with_all.then(|| format!("{{\"{ANY}\":\"t\"}}").into()),
        time_unix_ms: 0,
        trace: None,
    }
}
