//! The broker: one process, or several nodes on Redis or NATS; and queues that are read.

use toml::{Table, Value};

use super::given::{Effect, Notes, Options, Output, is, text};
use crate::check::{NAMESPACE_BYTES_MAX, is_name};

const BROKER: &str = "[broker]";

/// Writes the broker. Without a counterpart, channels stay in this process, and a note says so.
pub(crate) fn broker(given: &mut Options, out: &mut Output, notes: &mut Notes) {
    let engine = given.text("engine.type");
    let is_on = given.is_on("broker.enabled").is_some();
    // In version 5 a type alone switched it on.
    let own = given.text("broker.type");
    let own = own.filter(|(option, _)| is_on || option == "broker");
    let members = given.is_on("presence_manager.enabled").is_some();
    let members = given.text("presence_manager.type").filter(|_| members);
    let at = if own.is_some() { "broker" } else { "engine" };
    let Some((option, kind)) = own.or(engine) else {
        return lonely_members(members, notes);
    };
    let url = match kind.as_str() {
        "memory" => return lonely_members(members, notes),
        "redis" => redis(&format!("{at}.redis"), given, out, notes),
        "nats" => nats(given, out, notes),
        _ => None,
    };
    let Some(url) = url else {
        let text = format!("channels live in this process, and nodes do not share them: {kind:?}");
        return notes.add(Effect::Missing, &option, text);
    };
    out.put(BROKER, "kind", kind.as_str());
    out.put(BROKER, "url", url);
    let text = match kind.as_str() {
        "redis" => "the same Redis under keys of its own ([broker]): history begins anew",
        _ => {
            "channels are streams of JetStream there, which has to be on; history and members are \
             there too ([broker])"
        }
    };
    notes.add(Effect::Changed, &option, text);
    if let Some((option, other)) = members.filter(|(_, other)| *other != kind) {
        let text = format!("members are kept by the broker, not in {other:?}");
        notes.add(Effect::Changed, &option, text);
    }
}

fn lonely_members(members: Option<(String, String)>, notes: &mut Notes) {
    if let Some((option, _)) = members.filter(|(_, kind)| kind != "memory") {
        let text = "members are known only to this process, as channels are";
        notes.add(Effect::Missing, &option, text);
    }
}

/// Writes an address whose parameters name more hosts (`addr`) or a master
/// (`sentinel_master_name`) as ours, which has hosts in a list and the master in the path.
fn several_in_one(scheme: &str, rest: &str, option: &str, notes: &mut Notes) -> String {
    let is_known = scheme.ends_with("+sentinel") || scheme.ends_with("+cluster");
    let Some((place, query)) = rest.split_once('?').filter(|_| is_known) else {
        return format!("{scheme}://{rest}");
    };
    let (hosts, database) = place.split_once('/').unwrap_or((place, ""));
    let (mut hosts, mut master) = (hosts.to_owned(), String::new());
    for parameter in query.split('&') {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        match name {
            "addr" => hosts = format!("{hosts},{value}"),
            "sentinel_master_name" => master = format!("/{value}"),
            _ => {
                let text = format!("its parameter {name} is not taken over");
                notes.add(Effect::Changed, option, text);
            }
        }
    }
    let database = match database {
        "" => String::new(),
        number => format!("/{number}"),
    };
    format!("{scheme}://{hosts}{master}{database}")
}

/// The addresses of a Redis; several are shards, as there.
fn redis(at: &str, given: &mut Options, out: &mut Output, notes: &mut Notes) -> Option<String> {
    let text = |given: &mut Options, key: &str| given.text(&format!("{at}.{key}"));
    let several = |given: &mut Options, key: &str| {
        let (_, all) = given.texts(&format!("{at}.{key}"))?;
        let all = all.iter().flat_map(|text| text.split(','));
        Some(all.map(str::to_owned).collect::<Vec<_>>())
    };
    let user = text(given, "user").map(|(_, user)| user);
    let password = text(given, "password").map(|(_, password)| password);
    let who = match (user, password) {
        (None, None) => String::new(),
        (user, password) => format!(
            "{}:{}@",
            encoded(&user.unwrap_or_default()),
            encoded(&password.unwrap_or_default())
        ),
    };
    let number = text(given, "db").map(|(_, number)| number);
    let number = number.filter(|number| number != "0");
    let database = number.map_or_else(String::new, |number| format!("/{number}"));
    let tls = tls(at, given, out, notes);
    let s = if tls { "s" } else { "" };
    if let Some((option, prefix)) = text(given, "prefix") {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        match prefix.chars().all(is_plain) {
            true => out.put(BROKER, "prefix", prefix),
            false => notes.add(
                Effect::Changed,
                &option,
                "not taken over: choose a broker.prefix, if others use this Redis too",
            ),
        }
    }
    let sentinels = several(given, "sentinel_address");
    let clusters = given.texts(&format!("{at}.cluster_address"));
    let master = text(given, "sentinel_master_name");
    if let Some(all) = sentinels {
        let (_, master) = master?;
        let all = all.join(",");
        return Some(format!("redis{s}+sentinel://{who}{all}/{master}{database}"));
    }
    if let Some((_, clusters)) = clusters {
        let urls = { clusters.iter() }.map(|hosts| format!("redis{s}+cluster://{who}{hosts}"));
        return Some(urls.collect::<Vec<_>>().join(","));
    }
    let default = || (String::new(), vec!["127.0.0.1:6379".to_owned()]);
    let (option, addresses) = given
        .texts(&format!("{at}.address"))
        .unwrap_or_else(default);
    let mut url = |address: &str| match address.split_once("://") {
        Some(("tcp", rest)) => format!("redis{s}://{who}{rest}{database}"),
        Some((scheme, rest)) => several_in_one(scheme, rest, &option, notes),
        None => format!("redis{s}://{who}{address}{database}"),
    };
    // A comma within an address of Sentinels or of a cluster has no address behind it.
    let addresses = { addresses.iter() }.flat_map(|text| match text.contains("://") {
        true => vec![text.clone()],
        false => text.split(',').map(str::to_owned).collect(),
    });
    let urls = addresses.map(|address| url(&address));
    Some(urls.collect::<Vec<_>>().join(","))
}

fn nats(given: &mut Options, out: &mut Output, notes: &mut Notes) -> Option<String> {
    let url = given.text("broker.nats.url");
    let url = url.map_or_else(|| "nats://127.0.0.1:4222".to_owned(), |(_, url)| url);
    let is_secure = tls("broker.nats", given, out, notes);
    let prefix = given.text("broker.nats.prefix");
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    if let Some((_, prefix)) = prefix.filter(|(_, prefix)| prefix.chars().all(is_plain)) {
        out.put(BROKER, "prefix", prefix);
    }
    Some(match is_secure {
        true => url.replace("nats://", "tls://"),
        false => url,
    })
}

/// Whether the broker is reached by TLS.
fn tls(at: &str, given: &mut Options, out: &mut Output, notes: &mut Notes) -> bool {
    let older = given.is_on(&format!("{at}.tls"));
    let is_on = older
        .or_else(|| given.is_on(&format!("{at}.tls.enabled")))
        .is_some();
    for key in ["tls.server_ca_pem", "tls_root_ca", "tls.root_ca_file"] {
        match given.text(&format!("{at}.{key}")) {
            Some((_, file)) if is_file(&file) => out.put(BROKER, "authorities", file),
            Some((option, _)) => {
                let text =
                    "not taken over: put it into a file, and name that as broker.authorities";
                notes.add(Effect::Narrower, &option, text);
            }
            None => {}
        }
    }
    is_on
}

/// Whether a value that may be PEM text, that text in base64, or a file, is a file.
pub(super) fn is_file(text: &str) -> bool {
    !text.contains(['\n', '='])
        && !text.contains("-----")
        && text.contains(['.', '/'])
        && text.len() < 256
}

/// A part of a URL's authority.
pub(crate) fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            byte if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => {
                char::from(byte).to_string()
            }
            byte => format!("%{byte:02X}"),
        })
        .collect()
}

const FEED: &str = "[[feed]]";

/// Writes a feed for each consumer that has a counterpart: a queue whose records are publications.
///
/// A feed publishes data into channels; a consumer of Centrifugo's mostly carries out calls of the
/// server API, whose method stands in each record. So only the mode in which a record's value is
/// the data is taken over, and the rest is told, with what a feed would need.
pub(super) fn consumers(given: &mut Options, out: &mut Output, notes: &mut Notes) {
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
