//! Queues whose records become publications.
//!
//! A feed publishes data into channels; a consumer of Centrifugo's mostly carries out calls of the
//! server API, whose method stands in each record. So only the mode in which a record's value is
//! the data is taken over, and the rest is told, with what a feed would need.

use toml::{Table, Value};

use super::given::Options;
use super::nodes::encoded;
use super::output::{Effect, Notes, Output};
use crate::check::{NAMESPACE_BYTES_MAX, is_name};

const FEED: &str = "[[feed]]";

/// Writes a feed for each consumer that has a counterpart.
pub(super) fn translate(given: &mut Options, out: &mut Output, notes: &mut Notes) {
    let Some(leaf) = given.take("consumers") else {
        return;
    };
    let all = leaf.value.as_array().into_iter().flatten();
    for consumer in all.filter_map(Value::as_table) {
        let name = text(consumer, "name").unwrap_or_default();
        let option = format!("consumers.{name}");
        // Version 5 had `disabled` in its place.
        let is_five = leaf.option == "consumers" && consumer.get("enabled").is_none();
        let is_off = match is_five {
            true => is(consumer, "disabled"),
            false => !is(consumer, "enabled"),
        };
        if is_off {
            continue;
        }
        if let Err(text) = feed(&name, consumer, out) {
            notes.add(Effect::Missing, &option, text);
        } else {
            let text = "it is a [[feed]]: sizes, waits and certificates of its own are not taken \
                        over; a record names one channel";
            notes.add(Effect::Changed, &option, text);
        }
    }
}

fn text(table: &Table, key: &str) -> Option<String> {
    let text = table.get(key)?.as_str()?;
    (!text.is_empty()).then(|| text.to_owned())
}

fn is(table: &Table, key: &str) -> bool {
    table.get(key).and_then(Value::as_bool) == Some(true)
}

fn list(table: &Table, key: &str) -> Vec<String> {
    let all = table.get(key).and_then(Value::as_array);
    let all = all.into_iter().flatten().filter_map(Value::as_str);
    all.map(str::to_owned).collect()
}

fn login(own: &Table, user: &str, password: &str) -> Option<String> {
    let (user, password) = (text(own, user)?, text(own, password)?);
    Some(format!("{}:{}@", encoded(&user), encoded(&password)))
}

fn channel_header(mode: &Table) -> (&'static str, Value) {
    let header = text(mode, "channels_header");
    let header = header.unwrap_or_else(|| "centrifugo-channels".to_owned());
    ("channel_header", header.into())
}

/// Writes one feed, or returns the reason why not.
fn feed(name: &str, consumer: &Table, out: &mut Output) -> Result<(), String> {
    let kind = text(consumer, "type").unwrap_or_default();
    let empty = Table::new();
    let own = consumer.get(&kind).and_then(Value::as_table);
    let own = own.unwrap_or(&empty);
    let mode = own.get("publication_data_mode").and_then(Value::as_table);
    let mode = mode.filter(|mode| is(mode, "enabled"));
    let calls = "its records hold calls of the server API, which no [[feed]] reads: carry them \
                 out by POST, or write the data alone and the channel beside it";
    let mut lines: Vec<(&str, Value)> = Vec::new();
    match kind.as_str() {
        "kafka" => {
            let mode = mode.ok_or(calls)?;
            let mechanism = text(own, "sasl_mechanism");
            let who = login(own, "sasl_user", "sasl_password").unwrap_or_default();
            let tls = own.get("tls").is_some_and(|tls| {
                tls.as_bool() == Some(true) || tls.as_table().is_some_and(|tls| is(tls, "enabled"))
            });
            let sasl = match mechanism.as_deref() {
                Some("aws-msk-iam") => return Err("it logs in by AWS alone".to_owned()),
                Some(mechanism) if !who.is_empty() => format!("?sasl={mechanism}"),
                _ => String::new(),
            };
            let s = if tls { "s" } else { "" };
            let brokers = list(own, "brokers").join(",");
            lines.push(("kind", "kafka".into()));
            lines.push(("url", format!("kafka{s}://{who}{brokers}{sasl}").into()));
            lines.push(("topics", list(own, "topics").into()));
            lines.extend(text(own, "consumer_group").map(|group| ("group", group.into())));
            lines.push(channel_header(mode));
        }
        "nats_jetstream" => {
            let mode = mode.ok_or(calls)?;
            let subjects = list(own, "subjects");
            let [subject] = subjects.as_slice() else {
                return Err("a [[feed]] reads one subject; write one for each".to_owned());
            };
            let url = text(own, "url").ok_or("it has no url")?;
            let token = || text(own, "token").map(|token| format!("{}@", encoded(&token)));
            let who = login(own, "username", "password").or_else(token);
            let who = who.unwrap_or_default();
            let url = match url.split_once("://") {
                Some((scheme, rest)) => format!("{scheme}://{who}{rest}"),
                None => format!("nats://{who}{url}"),
            };
            lines.push(("kind", "nats".into()));
            lines.push(("url", url.into()));
            let stream = text(own, "stream_name").ok_or("it has no stream_name")?;
            lines.push(("stream", stream.into()));
            lines.push(("subject", subject.as_str().into()));
            for (there, here) in [
                ("durable_consumer_name", "group"),
                ("credentials_file", "credentials"),
            ] {
                lines.extend(text(own, there).map(|text| (here, text.into())));
            }
            if text(own, "deliver_policy").as_deref() == Some("new") {
                lines.push(("begin", "newest".into()));
            }
            lines.push(channel_header(mode));
        }
        "postgresql" => {
            return Err(
                "a [[feed]] with kind = \"postgres\" takes rows with `channel` and `data`, \
                        and this table has `method` and `payload`: write a table of that shape"
                    .to_owned(),
            );
        }
        "redis_stream" => {
            return Err(
                "a [[feed]] with kind = \"redis\" takes entries with the fields `channel` \
                        and `data`: write them so"
                    .to_owned(),
            );
        }
        other => return Err(format!("no [[feed]] reads {other:?}: publish by the API")),
    }
    if !is_name(name, NAMESPACE_BYTES_MAX) {
        return Err("a feed's name has 1 to 64 letters, digits, `-`, `_` and `.`".to_owned());
    }
    out.begin(FEED);
    out.put_last("name", name);
    for (key, value) in lines {
        out.put_last(key, value);
    }
    Ok(())
}
