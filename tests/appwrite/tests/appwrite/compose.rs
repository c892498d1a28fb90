//! The configuration of the container that Throng takes the place of: every variable that
//! Appwrite's compose files give it is in docs/APPWRITE.md, with its value as shipped and an option
//! that exists, or the reason why none is needed; so is every other line of the service.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use throng_testkit::Setup;

use crate::account::AccountApi;
use crate::plain;
use crate::redis_server::RedisServer;
use crate::socket::Socket;
use crate::stage::Event;

/// The variables of `appwrite-realtime` in `docker-compose.yml` and in what the installer writes,
/// in 1.4.0, 1.5.0, 1.6.0, 1.6.2, 1.7.0, 1.8.0, 1.8.1, 1.9.0, 1.9.5, 1.9.6 and in August 2026, and
/// their values as shipped: in `app/config/variables.php` of 1.4.0, 1.9.0 and August 2026, or
/// beside the name.
const VARIABLES: [(&str, &str); 29] = [
    ("_APP_DATABASE_SHARED_TABLES", "unset"),
    ("_APP_DB_ADAPTER", "`mongodb`, `postgresql`"),
    ("_APP_DB_ADAPTER_VECTORSDB", "unset"),
    ("_APP_DB_HOST", "`mariadb`, `mongodb`, `postgresql`"),
    ("_APP_DB_HOST_VECTORSDB", "unset"),
    ("_APP_DB_PASS", "made by the installer"),
    ("_APP_DB_PASS_VECTORSDB", "unset"),
    ("_APP_DB_PORT", "`3306`, `27017`, `5432`"),
    ("_APP_DB_PORT_VECTORSDB", "unset"),
    ("_APP_DB_SCHEMA", "`appwrite`"),
    ("_APP_DB_SCHEMA_VECTORSDB", "unset"),
    ("_APP_DB_USER", "`user`"),
    ("_APP_DB_USER_VECTORSDB", "unset"),
    ("_APP_ENV", "`production`"),
    ("_APP_LOGGING_CONFIG", "empty"),
    ("_APP_LOGGING_CONFIG_REALTIME", "unset"),
    ("_APP_LOGGING_FORMAT", "`pretty`"),
    ("_APP_LOGGING_PROVIDER", "empty"),
    ("_APP_OPENSSL_KEY_V1", "made by the installer"),
    ("_APP_OPTIONS_ABUSE", "`enabled`"),
    ("_APP_OPTIONS_ROUTER_PROTECTION", "`disabled`"),
    ("_APP_POOL_ADAPTER", "`swoole`"),
    ("_APP_REALTIME_TAIL_RATE", "unset"),
    ("_APP_REDIS_HOST", "`redis`"),
    ("_APP_REDIS_PASS", "empty"),
    ("_APP_REDIS_PORT", "`6379`"),
    ("_APP_REDIS_USER", "empty"),
    ("_APP_USAGE_STATS", "`enabled`"),
    ("_APP_WORKER_PER_CORE", "`6`"),
];

/// The other lines of the service in all these versions, without comments and quotes; a name with
/// what stands below it.
const SERVICE: [(&str, &[&str]); 11] = [
    ("entrypoint", &["realtime"]),
    ("image", &["appwrite/appwrite", "appwrite-dev"]),
    ("container_name", &["appwrite-realtime"]),
    ("restart", &["unless-stopped"]),
    (
        "logging",
        &[
            "driver: json-file",
            "options:",
            "max-file: \"5\"",
            "max-size: 10m",
        ],
    ),
    (
        "labels",
        &[
            "- traefik.enable=true",
            "- traefik.constraint-label-stack=appwrite",
            "- traefik.docker.network=appwrite",
            "- traefik.http.services.appwrite_realtime.loadbalancer.server.port=80",
            "- traefik.http.routers.appwrite_realtime_ws.entrypoints=appwrite_web",
            "- traefik.http.routers.appwrite_realtime_ws.rule=PathPrefix(`/v1/realtime`)",
            "- traefik.http.routers.appwrite_realtime_ws.service=appwrite_realtime",
            "- traefik.http.routers.appwrite_realtime_wss.entrypoints=appwrite_websecure",
            "- traefik.http.routers.appwrite_realtime_wss.rule=PathPrefix(`/v1/realtime`)",
            "- traefik.http.routers.appwrite_realtime_wss.service=appwrite_realtime",
            "- traefik.http.routers.appwrite_realtime_wss.tls=true",
        ],
    ),
    ("networks", &["- appwrite"]),
    (
        "depends_on",
        &["- mariadb", "- redis", "- appwrite-embedding", "- ollama"],
    ),
    ("environment", &[]),
    ("ports", &["- 9505:80"]),
    (
        "volumes",
        &["- ./app:/usr/src/code/app", "- ./src:/usr/src/code/src"],
    ),
];

fn page(name: &str) -> String {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    fs::read_to_string(docs.join(name)).unwrap()
}

/// The code blocks of a kind on the page.
fn block(page: &str, kind: &str) -> String {
    let fence = format!("```{kind}\n");
    let block = page.split(&fence).nth(1).expect("a block");
    block.split("\n```").next().unwrap().to_owned()
}

/// The rows of the table that begins with these cells.
fn rows<'p>(page: &'p str, head: &str) -> Vec<Vec<&'p str>> {
    let table = page.split(head).nth(1).expect("a table");
    let lines = table
        .lines()
        .skip(1)
        .skip_while(|line| line.starts_with("|---"));
    let lines = lines.take_while(|line| line.starts_with('|'));
    lines
        .map(|line| {
            let cells = line
                .strip_prefix('|')
                .and_then(|line| line.strip_suffix('|'));
            cells.expect("cells").split('|').map(str::trim).collect()
        })
        .collect()
}

/// Returns the value of an option: from the file on the page, or the default.
fn value_of(option: &str, file: &str, own: &str) -> String {
    let name = option.trim_matches('`');
    let mut lines = file.lines();
    if let Some(value) = lines.find_map(|line| line.strip_prefix(&format!("{name} = "))) {
        return format!("`{value}`");
    }
    let row = own.split(&format!("\n| {option} |")).nth(1);
    let row = row.unwrap_or_else(|| panic!("no such option: {option}"));
    row.split('|').nth(1).unwrap().trim().to_owned()
}

#[test]
fn every_variable_of_the_container_is_answered() {
    let (guide, reference) = (page("APPWRITE.md"), page("config.md"));
    let own = reference.split("## `[appwrite]`").nth(1).unwrap();
    let own = own.split("\n## ").next().unwrap();
    let file = block(&guide, "toml");
    let mut answered = BTreeSet::new();
    for row in rows(&guide, "| variable | as shipped | option | here | why |") {
        let [variable, shipped, options, here, why] = row[..] else {
            panic!("not five cells: {row:?}");
        };
        assert!(!why.is_empty(), "{row:?}");
        let variable = variable.trim_matches('`');
        assert!(answered.insert((variable, shipped)), "twice: {row:?}");
        if options == "-" {
            assert_eq!(here, "-", "{row:?}");
            continue;
        }
        let values = options
            .split(", ")
            .map(|option| value_of(option, &file, own));
        assert_eq!(here, values.collect::<Vec<_>>().join(", "), "{row:?}");
    }
    assert_eq!(answered, BTreeSet::from(VARIABLES));
}

#[test]
fn every_line_of_the_service_is_answered() {
    let guide = page("APPWRITE.md");
    let ours = block(&guide, "yaml");
    let mut table = rows(&guide, "| line | here | why |");
    for (name, lines) in SERVICE {
        let at = table
            .iter()
            .position(|row| row[0].trim_matches('`') == name);
        let row = table.remove(at.unwrap_or_else(|| panic!("{name} is not answered")));
        let section: Vec<&str> = section(&ours, name);
        let kept = lines.iter().filter(|line| section.contains(line)).count();
        match row[1] {
            "kept" => assert_eq!((kept, section.len()), (lines.len(), kept), "{name}"),
            "left out" => assert!(section.is_empty() && !row[2].is_empty(), "{name}"),
            "other" => assert!(
                kept == 0 && !section.is_empty() && !row[2].is_empty(),
                "{name}"
            ),
            "`redis` alone" => assert_eq!(section, ["- redis"], "{name}"),
            other => panic!("{name}: {other}"),
        }
    }
    assert!(table.is_empty(), "not of the service: {table:?}");
}

/// Returns the lines of a section: the text behind its name, or the lines below it.
fn section<'f>(file: &'f str, name: &str) -> Vec<&'f str> {
    let begins = |line: &&str| line.starts_with(&format!("    {name}:"));
    let mut lines = file.lines().skip_while(|line| !begins(line));
    let Some(first) = lines.next() else {
        return Vec::new();
    };
    let value = first.split_once(": ").map(|(_, value)| value);
    let below = lines.take_while(|line| line.starts_with("      "));
    value.into_iter().chain(below.map(str::trim)).collect()
}

/// The file of the page as it is, but for the names that Docker's network resolves and the port:
/// with Appwrite's values as shipped, it does what the container does.
#[test]
fn the_file_of_the_page_stands_in_for_the_container() {
    let (redis, accounts) = (RedisServer::start(), AccountApi::start());
    let file = block(&page("APPWRITE.md"), "toml");
    let file = file.replace("redis://redis:6379", &redis.url());
    let file = file.replace("http://appwrite/v1", &accounts.url());
    assert!(file.contains("0.0.0.0:80"), "the port that Traefik goes to");
    let file = file.replace("[listen]\nclient = \"0.0.0.0:80\"\n", "");
    let server = Setup::new(&file).shards(2).start();
    redis.wait_for_subscriber();
    let to = server.clients();
    // As Traefik passes it on: the page's host, and the client's address behind it.
    let headers = [
        ("Origin", "https://app.example.com"),
        ("X-Forwarded-For", "203.0.113.9"),
    ];
    // `_APP_OPTIONS_ABUSE` is enabled: 128 connections a minute from an address.
    let mut sockets: Vec<Socket> = Vec::new();
    for number in 0..128 {
        let mut socket = Socket::open(to, plain::FILES, &headers);
        assert_eq!(socket.frame()["type"], "connected", "{number}");
        sockets.push(socket);
    }
    let mut socket = Socket::open(to, plain::FILES, &headers);
    assert_eq!(socket.frame()["data"]["code"], 1013);
    // And 32 messages a minute on a connection; a minute may end between them.
    let mut refused = false;
    for _ in 0..66 {
        sockets[0].say(r#"{"type":"ping"}"#);
        refused |= sockets[0].frame()["type"] == "error";
    }
    assert!(refused, "66 messages are more than two minutes' worth");
    // A page of another host is refused.
    let elsewhere = [
        ("Origin", "https://evil.test"),
        ("X-Forwarded-For", "203.0.113.10"),
    ];
    let mut socket = Socket::open(to, plain::FILES, &elsewhere);
    assert_eq!(socket.frame()["data"]["code"], 1008);
    // What Appwrite publishes to its Redis arrives.
    assert_eq!(redis.publish(&Event::file("A").message()), 1);
    for socket in sockets.iter_mut().skip(1) {
        assert_eq!(socket.event(), "A");
    }
    server.stop();
}
