//! A configuration of soketi or of Laravel Reverb as one of ours: for `throng config import`.
//!
//! Takes the tree of a file, and variables, which go before it. What becomes of each option stands
//! in `soketi.txt` and `reverb.txt`; brokers are translated as those of Centrifugo.

use throng_types::units::size_text;
use toml::{Table, Value};

use crate::centrifugo::given::{Leaf, Notes, Options, Output, is_nothing, text};
use crate::centrifugo::{Effect, ImportedConfig, nodes, server};
use crate::sources::rows;

#[cfg(test)]
mod tests;

/// A server that speaks Pusher's protocol, whose configuration is taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PusherServer {
    Soketi,
    Reverb,
}

impl PusherServer {
    /// Recognises the server by its file, or else by its variables; none is another's.
    #[must_use]
    pub fn of(tree: &Table, variables: &[(String, Value)]) -> Option<Self> {
        let names = { tree.keys() }.chain(variables.iter().map(|(name, _)| name));
        let names: Vec<&String> = names.collect();
        let starts = |start: &str| names.iter().any(|name| name.starts_with(start));
        let soketi = ["appManager", "adapter", "ssl.", "database", "SOKETI_"];
        if !tree.contains_key("apps") && soketi.into_iter().any(starts) {
            return Some(Self::Soketi);
        }
        let is_reverb = tree.contains_key("apps") || starts("REVERB_");
        is_reverb.then_some(Self::Reverb)
    }

    const fn table(self) -> &'static str {
        match self {
            Self::Soketi => include_str!("soketi.txt"),
            Self::Reverb => include_str!("reverb.txt"),
        }
    }

    /// Beginning of the variables that are all its own.
    const fn prefix(self) -> &'static str {
        match self {
            Self::Soketi => "SOKETI_",
            Self::Reverb => "REVERB_",
        }
    }

    /// The row whose beginning of a path (column 0) or of a variable (1) fits best.
    fn row(self, column: usize, name: &str) -> Option<[&'static str; 4]> {
        rows::<4>(self.table())
            .filter(|row| !row[column].is_empty() && name.starts_with(row[column]))
            .max_by_key(|row| row[column].len())
    }

    /// Sorts values: those that code reads, by the names that it has for them, and options of an
    /// app that are the same here but for their names. What is left is told.
    fn sort(self, within: &str, given: Options, notes: &mut Notes) -> (Options, Table) {
        let (mut read, mut same) = (Options::default(), Table::new());
        for (path, leaf) in given.rest() {
            let Some([.., becomes, to]) = self.row(0, &format!("{within}{path}")) else {
                notes.add(Effect::Missing, &leaf.option, "unknown option");
                continue;
            };
            // No bound is -1 in soketi.
            let number = whole(&leaf.value);
            let is_off = is_nothing(&leaf.value) || number == Some(-1);
            let number = number.unwrap_or_default();
            let mut put = |value: Value| drop(same.insert(to.to_owned(), value));
            match becomes {
                "as" => read.insert(to, leaf),
                "silent" => {}
                _ if is_off => {}
                "switch" => put(true.into()),
                "number" => put(number.into()),
                "seconds" => put(format!("{number}s").into()),
                "bytes" => put(bytes(number).into()),
                "kilobytes" => put(bytes(number.saturating_mul(1024)).into()),
                effect => notes.add(Effect::named(effect), &leaf.option, to),
            }
        }
        (read, same)
    }
}

/// Translates a configuration; `name` is the file's name for messages. Values of variables are
/// texts, or what a list or an object in JSON is.
#[must_use]
pub fn import(
    of: PusherServer,
    name: &str,
    tree: &Table,
    variables: impl IntoIterator<Item = (String, Value)>,
) -> ImportedConfig {
    let (mut out, mut notes) = (Output::new(name), Notes::default());
    let mut tree = tree.clone();
    if of == PusherServer::Reverb {
        one_server(&mut tree, &mut notes);
    }
    let mut given = Options::plain("", &tree);
    let list = match of {
        PusherServer::Soketi => "appManager.array.apps",
        PusherServer::Reverb => "apps.apps",
    };
    let apps = given.tables(list).into_iter().enumerate();
    let apps = apps.map(|(at, table)| Options::plain(&format!("apps.{at}."), &table));
    let mut apps: Vec<Options> = apps.collect();
    if apps.is_empty() {
        apps.push(Options::default());
    }
    for (option, value) in variables {
        let leaf = Leaf { option, value };
        match of.row(1, &leaf.option) {
            Some([path, ..]) => match path.strip_prefix("app.") {
                Some(key) => apps[0].insert(key, leaf),
                None if path.is_empty() => {}
                None => given.insert(path, leaf),
            },
            None if leaf.option.starts_with(of.prefix()) => {
                notes.add(Effect::Missing, &leaf.option, "unknown variable");
            }
            None => {}
        }
    }
    let (mut read, _) = of.sort("", given, &mut notes);
    listen(of, &mut read, &mut out);
    broker(of, &mut read, &mut out, &mut notes);
    let manager = read.text("manager");
    if let Some((option, kind)) = manager.filter(|(_, kind)| kind != "array" && kind != "config") {
        let text = format!("apps are not read from {kind}: write an [[app]] for each");
        notes.add(Effect::Missing, &option, text);
    }
    let kilobytes = read.number("event_kilobytes").map(|(_, number)| number);
    for app in apps {
        let id = of.sort("app.", app, &mut notes);
        write_app(of, id, kilobytes, &mut out, &mut notes);
    }
    ImportedConfig {
        text: out.text(),
        notes: notes.all(),
    }
}

/// Names the server that runs by default `server`; others are told.
fn one_server(tree: &mut Table, notes: &mut Notes) {
    let name = text(tree, "default").unwrap_or_else(|| "reverb".to_owned());
    let servers = tree.remove("servers").map(Value::try_into::<Table>);
    for (other, server) in servers.and_then(Result::ok).unwrap_or_default() {
        if other == name {
            tree.insert("server".to_owned(), server);
        } else {
            let text = "only the default server is taken over: import another one on its own";
            notes.add(Effect::Missing, &format!("servers.{other}"), text);
        }
    }
}

fn listen(of: PusherServer, read: &mut Options, out: &mut Output) {
    let mut text = |path| read.text(path).map(|(_, text)| text);
    let port = match of {
        PusherServer::Soketi => "6001",
        PusherServer::Reverb => "8080",
    };
    let port = text("port").unwrap_or_else(|| port.to_owned());
    let address = server::address(&text("host").unwrap_or_default(), &port);
    let path = text("path").map(|path| format!("/{}", path.trim_matches('/')));
    let files = text("certificate").zip(text("key"));
    let scheme = if files.is_some() { "tls://" } else { "" };
    out.put("[listen]", "client", vec![format!("{scheme}{address}")]);
    if let Some(path) = path.filter(|path| path.len() > 1) {
        out.put("[pusher]", "path", path);
    }
    // Back ends sign, so nothing else is open.
    out.put("[auth]", "anonymous", false);
    if let Some((certificate, key)) = files {
        out.put("[tls]", "certificate", certificate);
        out.put("[tls]", "key", key);
    }
}

/// Writes the broker from the address of a Redis or a NATS.
fn broker(of: PusherServer, read: &mut Options, out: &mut Output, notes: &mut Notes) {
    let scaling = read.is_on("scaling").filter(|_| of == PusherServer::Reverb);
    let scaling = scaling.map(|option| (option, "redis".to_owned()));
    let driver = read.text("engine.type").or(scaling);
    let Some((option, kind)) = driver.filter(|(_, kind)| kind != "local") else {
        return;
    };
    let put = |read: &mut Options, path: &str, text: String| {
        let (option, value) = (option.clone(), text.into());
        read.insert(path, Leaf { option, value });
    };
    put(read, "engine.type", kind);
    let mut text = |path| read.text(path).map(|(_, text)| text);
    let redis = text("redis.url").or_else(|| {
        let host = text("redis.host").unwrap_or_else(|| "127.0.0.1".to_owned());
        let port = text("redis.port").unwrap_or_else(|| "6379".to_owned());
        Some(server::address(&host, &port))
    });
    let who = match (text("nats.user"), text("nats.password"), text("nats.token")) {
        (Some(user), password, _) => {
            let password = password.unwrap_or_default();
            format!("{}:{}@", nodes::encoded(&user), nodes::encoded(&password))
        }
        (None, _, Some(token)) => format!("{}@", nodes::encoded(&token)),
        _ => String::new(),
    };
    let master = text("redis.master").unwrap_or_else(|| "mymaster".to_owned());
    let is_cluster = read.is_on("redis.cluster").is_some();
    let cluster = places(read, "redis.nodes").filter(|_| is_cluster);
    if let Some(sentinels) = places(read, "redis.sentinels") {
        put(read, "engine.redis.sentinel_address", sentinels);
        put(read, "engine.redis.sentinel_master_name", master);
    } else if let Some(cluster) = cluster {
        put(read, "engine.redis.cluster_address", cluster);
    } else if let Some(address) = redis {
        put(read, "engine.redis.address", address);
    }
    if let Some(servers) = places(read, "nats.servers") {
        let urls = { servers.split(',') }.map(|at| format!("nats://{who}{at}"));
        put(read, "broker.nats.url", urls.collect::<Vec<_>>().join(","));
    }
    nodes::broker(read, out, notes);
}

/// A list of hosts, which are texts or have a `host` and a `port`, with commas between them.
fn places(read: &mut Options, path: &str) -> Option<String> {
    let all = match read.take(path)?.value {
        Value::Array(all) => all,
        one => vec![one],
    };
    let place = |one: &Value| match one {
        Value::Table(table) => {
            let port = table.get("port").and_then(whole)?;
            let host = table.get("host")?.as_str()?;
            Some(server::address(host, &port.to_string()))
        }
        one => Some(one.as_str()?.to_owned()),
    };
    let all: Vec<String> = all.iter().filter_map(place).collect();
    (!all.is_empty()).then(|| all.join(","))
}

fn write_app(
    of: PusherServer,
    (mut read, mut same): (Options, Table),
    kilobytes: Option<u64>,
    out: &mut Output,
    notes: &mut Notes,
) {
    out.begin("[[app]]");
    if { read.take("enabled") }.is_some_and(|leaf| is_nothing(&leaf.value)) {
        same.insert("enabled".to_owned(), false.into());
    }
    let is_soketi = of == PusherServer::Soketi;
    let mut id = String::new();
    for (key, default) in [
        ("id", "app-id"),
        ("key", "app-key"),
        ("secret", "app-secret"),
    ] {
        let given = read.text(key).map(|(_, text)| text);
        let value = given.or_else(|| is_soketi.then(|| default.to_owned()));
        if value.as_deref() == Some("app-secret") {
            let text = "soketi's pages print this secret, so it is public: choose another";
            notes.add(Effect::Changed, "app.secret", text);
        }
        if let Some(value) = value {
            if key == "id" {
                id.clone_from(&value);
            }
            out.put_last(key, value);
        }
    }
    let from = read.text("client_events").unzip();
    if !is_soketi && from.1.as_deref() != Some("none") {
        same.insert("client_events".to_owned(), true.into());
    }
    if let (Some(option), Some("all")) = (from.0, from.1.as_deref()) {
        let text = "only subscribers of a channel may send events to it";
        notes.add(Effect::Narrower, &option, text);
    }
    if let Some(kilobytes) = kilobytes.and_then(|number| i64::try_from(number).ok()) {
        let size = bytes(kilobytes.saturating_mul(1024));
        same.entry("event_bytes_max").or_insert(size.into());
    }
    origins(&mut read, out, notes);
    for (key, value) in same {
        out.put_last(&key, value);
    }
    for hook in read.tables("webhooks") {
        webhook(&id, &hook, out, notes);
    }
}

/// Writes a webhook of an app, unless it is a function of AWS.
fn webhook(app: &str, hook: &Table, out: &mut Output, notes: &mut Notes) {
    let mut hook = Options::plain("webhooks.", hook);
    let Some((_, url)) = hook.text("url") else {
        let text = "functions of AWS are not called";
        return notes.add(Effect::Missing, "webhooks.lambda_function", text);
    };
    out.begin("[[webhook]]");
    out.put_last("url", url);
    out.put_last("app", app);
    if let Some((_, events)) = hook.texts("event_types") {
        out.put_last("events", events);
    }
    if let Some((_, start)) = hook.text("filter.channel_name_starts_with") {
        out.put_last("channel_prefixes", vec![start]);
    }
    for (_, leaf) in hook.rest() {
        let text = "not taken over: a webhook has no such option";
        notes.add(Effect::Missing, &leaf.option, text);
    }
}

/// Writes the pages that may connect: Reverb names hosts, and we origins.
fn origins(read: &mut Options, out: &mut Output, notes: &mut Notes) {
    let Some((option, hosts)) = read.texts("allowed_origins") else {
        return;
    };
    if hosts.iter().any(|host| host == "*") {
        return;
    }
    let is_one = |host: &String| !host.strip_prefix("*.").unwrap_or(host).contains('*');
    let (hosts, patterns): (Vec<String>, Vec<String>) = hosts.into_iter().partition(is_one);
    if !patterns.is_empty() {
        let text = format!(
            "not taken over: name each host instead of {}",
            patterns.join(", ")
        );
        notes.add(Effect::Narrower, &option, text);
    }
    let origins = { hosts.iter() }
        .flat_map(|host| ["https", "http"].map(|scheme| format!("{scheme}://{host}:*")));
    out.put_last("allowed_origins", origins.collect::<Vec<_>>());
}

/// A whole number, which may be written as a text.
fn whole(value: &Value) -> Option<i64> {
    match value {
        Value::String(text) => text.trim().parse().ok(),
        value => value.as_integer(),
    }
}

/// A size within the bounds of `event_bytes_max`.
fn bytes(size: i64) -> String {
    size_text(size.clamp(1024, 16 << 20) as u64)
}
