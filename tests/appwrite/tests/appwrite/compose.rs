//! The configuration of the container that Throng takes the place of: every variable that
//! Appwrite's compose files give it is in docs/APPWRITE.md, with an option that exists or the
//! reason why none is needed.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The variables of `appwrite-realtime` in `docker-compose.yml` and in what the installer writes,
/// in 1.4.0, 1.5.0, 1.6.0, 1.6.2, 1.7.0, 1.8.0, 1.8.1, 1.9.0, 1.9.5, 1.9.6 and in August 2026.
const VARIABLES: [&str; 29] = [
    "_APP_DATABASE_SHARED_TABLES",
    "_APP_DB_ADAPTER",
    "_APP_DB_ADAPTER_VECTORSDB",
    "_APP_DB_HOST",
    "_APP_DB_HOST_VECTORSDB",
    "_APP_DB_PASS",
    "_APP_DB_PASS_VECTORSDB",
    "_APP_DB_PORT",
    "_APP_DB_PORT_VECTORSDB",
    "_APP_DB_SCHEMA",
    "_APP_DB_SCHEMA_VECTORSDB",
    "_APP_DB_USER",
    "_APP_DB_USER_VECTORSDB",
    "_APP_ENV",
    "_APP_LOGGING_CONFIG",
    "_APP_LOGGING_CONFIG_REALTIME",
    "_APP_LOGGING_FORMAT",
    "_APP_LOGGING_PROVIDER",
    "_APP_OPENSSL_KEY_V1",
    "_APP_OPTIONS_ABUSE",
    "_APP_OPTIONS_ROUTER_PROTECTION",
    "_APP_POOL_ADAPTER",
    "_APP_REALTIME_TAIL_RATE",
    "_APP_REDIS_HOST",
    "_APP_REDIS_PASS",
    "_APP_REDIS_PORT",
    "_APP_REDIS_USER",
    "_APP_USAGE_STATS",
    "_APP_WORKER_PER_CORE",
];

fn page(name: &str) -> String {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    fs::read_to_string(docs.join(name)).unwrap()
}

#[test]
fn every_variable_of_the_container_is_answered() {
    let (guide, reference) = (page("APPWRITE.md"), page("config.md"));
    let own = reference.split("## `[appwrite]`").nth(1).unwrap();
    let own = own.split("\n## ").next().unwrap();
    let mut answered = BTreeSet::new();
    for row in guide.lines().filter(|line| line.starts_with("| `_APP_")) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [variable, options, why] = cells[..] else {
            panic!("not three cells: {row}");
        };
        assert!(!why.is_empty(), "{row}");
        assert!(answered.insert(variable.trim_matches('`')), "twice: {row}");
        for option in options.split(", ").filter(|option| *option != "-") {
            assert!(
                own.contains(&format!("\n| {option} |")),
                "no such option: {row}"
            );
        }
    }
    assert_eq!(answered, BTreeSet::from(VARIABLES));
}
