//! The broker: one process, or several nodes on Redis or NATS.

use super::given::Options;
use super::output::{Effect, Notes, Output};

const BROKER: &str = "[broker]";

/// Writes the broker. Without a counterpart, channels stay in this process, and a note says so.
pub(super) fn translate(given: &mut Options, out: &mut Output, notes: &mut Notes) {
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
    for key in ["sentinel_user", "sentinel_password"] {
        if let Some((option, _)) = text(given, key) {
            let text = "not taken over: Sentinels are asked with the user of the servers";
            notes.add(Effect::Changed, &option, text);
        }
    }
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
    for key in ["raw_mode.enabled", "allow_wildcards"] {
        if let Some(option) = given.is_on(&format!("broker.nats.{key}")) {
            let text = "channels are not subjects of NATS: publish by the API or by a [[feed]]";
            notes.add(Effect::Missing, &option, text);
        }
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
    for key in ["tls.insecure_skip_verify", "tls_insecure_skip_verify"] {
        if let Some(option) = given.is_on(&format!("{at}.{key}")) {
            notes.add(Effect::Narrower, &option, "certificates are always checked");
        }
    }
    for key in ["tls.cert_pem", "tls_cert"] {
        if let Some((option, _)) = given.text(&format!("{at}.{key}")) {
            notes.add(
                Effect::Narrower,
                &option,
                "no certificate is shown to the broker",
            );
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
pub(super) fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            byte if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => {
                char::from(byte).to_string()
            }
            byte => format!("%{byte:02X}"),
        })
        .collect()
}
