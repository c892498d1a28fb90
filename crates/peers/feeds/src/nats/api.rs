//! Requests to JetStream about the stream and the consumer, and its answers
//! (docs.nats.io, "JetStream wire API Reference").

use serde_json::{Value, json};

use super::link::Link;
use super::options::NatsStream;
use super::turn::Look;
use crate::source::Fault;

/// After so many nanoseconds a consumer that we make gives again what is not acknowledged.
const ACK_WAIT_NS: u64 = 8_000_000_000;
/// Messages that it gives at most without an acknowledgement: the largest batch.
const UNACKNOWLEDGED_MAX: u32 = 1000;
/// There is no consumer of that name.
const NO_CONSUMER: u64 = 10_014;

/// 0 if it is none.
fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

pub(super) struct Stream {
    /// Time at which it was made; differs for another one of the same name.
    pub(super) created: String,
    /// Number of its newest message.
    last: u64,
    /// Messages are removed when they are acknowledged.
    is_queue: bool,
}

impl Stream {
    pub(super) async fn ask(link: &mut Link, name: &str) -> Result<Self, Fault> {
        let answer = link.ask(&format!("$JS.API.STREAM.INFO.{name}"), "").await?;
        let answer = answer.map_err(|it| Fault(format!("the stream {name:?}: {}", it.text)))?;
        Ok(Self {
            created: answer["created"].as_str().unwrap_or_default().to_owned(),
            last: number(&answer["state"]["last_seq"]),
            is_queue: answer["config"]["retention"] == "workqueue",
        })
    }
}

pub(super) struct Consumer {
    pub(super) ack_wait_ms: u64,
    /// Messages that it gives at once, or without an acknowledgement.
    pub(super) batch_max: usize,
    pub(super) look: Look,
}

impl Consumer {
    pub(super) async fn find(
        link: &mut Link,
        reads: &NatsStream,
        stream: &Stream,
        known: Option<u64>,
    ) -> Result<Self, Fault> {
        let (name, of) = (&reads.consumer, &reads.stream);
        let info = format!("$JS.API.CONSUMER.INFO.{of}.{name}");
        let mut found = link.ask(&info, "").await?;
        if matches!(&found, Err(error) if error.code == NO_CONSUMER) {
            let create = format!("$JS.API.CONSUMER.DURABLE.CREATE.{of}.{name}");
            let wanted = config(reads, stream, known).to_string();
            let made = link.ask(&create, &wanted).await?;
            // Another node may have made it at the same time, as it knows the stream.
            found = match link.ask(&info, "").await? {
                Err(_) if made.is_err() => made,
                found => found,
            };
        }
        let found = found.map_err(|it| Fault(format!("the consumer {name:?}: {}", it.text)))?;
        if let Some(wrong) = unfit(&found["config"], reads) {
            return Err(Fault(format!("the consumer {name:?} {wrong}")));
        }
        Ok(Self {
            ack_wait_ms: number(&found["config"]["ack_wait"]) / 1_000_000,
            batch_max: batch_max(&found["config"]),
            look: look(&found),
        })
    }

    pub(super) async fn look(link: &mut Link, reads: &NatsStream) -> Result<Look, Fault> {
        let (name, of) = (&reads.consumer, &reads.stream);
        let info = format!("$JS.API.CONSUMER.INFO.{of}.{name}");
        let found = link.ask(&info, "").await?;
        let found = found.map_err(|it| Fault(format!("the consumer {name:?}: {}", it.text)))?;
        Ok(look(&found))
    }
}

fn batch_max(config: &Value) -> usize {
    let limits = [&config["max_ack_pending"], &config["max_batch"]];
    let limits = limits.into_iter().filter_map(Value::as_u64);
    // Without a limit they are not there, 0 or -1.
    let least = limits.filter(|&limit| limit > 0).min();
    least.map_or(usize::MAX, |least| least as usize)
}

fn look(info: &Value) -> Look {
    Look {
        delivered: number(&info["delivered"]["consumer_seq"]),
        floor: number(&info["ack_floor"]["stream_seq"]),
        unacknowledged: number(&info["num_ack_pending"]),
        undelivered: number(&info["num_pending"]),
        waiting: number(&info["num_waiting"]),
    }
}

/// The consumer that is made. It goes on where this node was, if it knows that of this stream.
fn config(reads: &NatsStream, stream: &Stream, known: Option<u64>) -> Value {
    let known = known.filter(|&seq| seq > 0 && seq <= stream.last && !stream.is_queue);
    let mut config = json!({
        "durable_name": reads.consumer,
        "description": "a feed of Throng",
        "deliver_policy": if reads.begins_with_newest { "new" } else { "all" },
        "ack_policy": "explicit",
        "ack_wait": ACK_WAIT_NS,
        "max_deliver": -1,
        "max_ack_pending": UNACKNOWLEDGED_MAX,
        "replay_policy": "instant",
    });
    if let Some(seq) = known {
        config["deliver_policy"] = json!("by_start_sequence");
        config["opt_start_seq"] = json!(seq + 1);
    }
    if let Some(subject) = &reads.subject {
        config["filter_subject"] = json!(subject);
    }
    json!({ "stream_name": reads.stream, "config": config })
}

/// Why a consumer that is there cannot be read, if it cannot.
fn unfit(config: &Value, reads: &NatsStream) -> Option<String> {
    let filter = config["filter_subject"].as_str().unwrap_or_default();
    let wanted = reads.subject.as_deref().unwrap_or_default();
    let has_filters = config["filter_subjects"].is_array();
    let max_deliver = config["max_deliver"].as_i64().unwrap_or(-1);
    let wrong = if config["deliver_subject"].is_string() {
        "pushes its messages, and is to be pulled from"
    } else if config["ack_policy"] != "explicit" {
        "has another ack_policy than \"explicit\""
    } else if max_deliver > 0 {
        "gives up messages after some deliveries (max_deliver), and would lose them"
    } else if config["headers_only"] == true {
        "gives headers alone (headers_only)"
    } else if has_filters || filter != wanted {
        return Some(format!(
            "has other subjects than the feed ({wanted:?}): {filter:?}"
        ));
    } else {
        return None;
    };
    Some(wrong.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::options::tests::reads;
    use super::*;
    use crate::source::Progress;

    fn stream(last: u64, is_queue: bool) -> Stream {
        Stream {
            created: "monday".to_owned(),
            last,
            is_queue,
        }
    }

    #[test]
    fn what_is_made_can_be_read() {
        for subject in [None, Some("a.*")] {
            let reads = reads(subject, false);
            let made = config(&reads, &stream(0, false), None);
            assert_eq!(unfit(&made["config"], &reads), None);
        }
    }

    #[test]
    fn a_consumer_goes_on_where_the_node_was() {
        let mut known = Progress::default();
        let begin = |reads: &NatsStream, stream: &Stream, known: &Progress| {
            let config = config(reads, stream, known.of(&stream.created))["config"].clone();
            let policy = config["deliver_policy"].as_str().unwrap().to_owned();
            (policy, config["opt_start_seq"].as_u64())
        };
        let new = reads(None, true);
        let all = reads(None, false);
        assert_eq!(
            begin(&new, &stream(9, false), &known),
            ("new".to_owned(), None)
        );
        assert_eq!(
            begin(&all, &stream(9, false), &known),
            ("all".to_owned(), None)
        );
        known.remember("monday", 5);
        for reads in [&new, &all] {
            let found = begin(reads, &stream(9, false), &known);
            assert_eq!(found, ("by_start_sequence".to_owned(), Some(6)));
        }
        // Another stream, or one that has lost its newest messages; and one that has no others.
        assert_eq!(begin(&all, &stream(4, false), &known).1, None);
        assert_eq!(begin(&all, &stream(9, true), &known).1, None);
        known.remember("tuesday", 5);
        assert_eq!(begin(&all, &stream(9, false), &known).1, None);
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        let reads = reads(Some("a.>"), false);
        let fits = json!({ "ack_policy": "explicit", "filter_subject": "a.>", "max_deliver": -1 });
        assert_eq!(unfit(&fits, &reads), None);
        for (name, value) in [
            ("deliver_subject", json!("x")),
            ("ack_policy", json!("all")),
            ("max_deliver", json!(5)),
            ("headers_only", json!(true)),
            ("filter_subject", json!("a.*")),
            ("filter_subjects", json!(["a.>", "b"])),
        ] {
            let mut config = fits.clone();
            config[name] = value;
            assert!(unfit(&config, &reads).is_some(), "{name}");
        }
    }

    #[test]
    fn a_consumer_may_give_less_at_once() {
        for (config, expected) in [
            (json!({}), usize::MAX),
            (json!({ "max_ack_pending": -1, "max_batch": 0 }), usize::MAX),
            (json!({ "max_ack_pending": 10 }), 10),
            (json!({ "max_ack_pending": 10, "max_batch": 3 }), 3),
        ] {
            assert_eq!(batch_max(&config), expected, "{config}");
        }
    }

    #[test]
    fn a_look_is_read() {
        let info = json!({
            "delivered": { "consumer_seq": 15, "stream_seq": 12 },
            "ack_floor": { "consumer_seq": 3, "stream_seq": 4 },
            "num_ack_pending": 9, "num_waiting": 1, "num_pending": 2,
        });
        let expected = Look {
            delivered: 15,
            floor: 4,
            unacknowledged: 9,
            undelivered: 2,
            waiting: 1,
        };
        assert_eq!(look(&info), expected);
        assert_eq!(look(&json!({})), Look::default());
    }
}
