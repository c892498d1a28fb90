//! History that the dashboard shows besides the present: the last hour, recent refusals, clients
//! that were closed because they were too slow, the configuration.
//!
//! Owns these four, in memory alone. The numbers come from the handle's thread, every five
//! seconds; refusals from shards, at most as many a second as the log gets; slow clients from
//! shards, each as it is closed. Pages read. Never: knows a secret.
//!
//! Rule for "full": the oldest goes first.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use serde_json::{Value, json};
use throng_config::Config;
use throng_metrics::{Counter, Delta, Gauge, Totals};
use throng_types::lock;

/// An hour of moments.
const EVERY_MS: u64 = 5_000;
const MOMENTS_MAX: usize = 720;
const REFUSALS_MAX: usize = 200;
const SLOW_MAX: usize = 200;

/// Dashboard's part of the observatory: the last hour, refusals, slow clients.
pub(crate) struct Watch {
    hour: Mutex<Hour>,
    /// Latest refusals, oldest first. Bound: [`REFUSALS_MAX`].
    refusals: Mutex<VecDeque<Refusal>>,
    /// Latest slow clients, oldest first. Bound: [`SLOW_MAX`].
    slow: Mutex<VecDeque<TooSlow>>,
    config: Mutex<Value>,
    /// Connections of each shard that watch, which are no clients. Bound: the shards.
    watchers: Vec<AtomicU64>,
    /// Whether somebody watches, as far as each shard knows. Bound: the shards.
    watched: Vec<AtomicBool>,
}

#[derive(Default)]
struct Hour {
    /// Moments of the last hour, oldest first. Bound: [`MOMENTS_MAX`].
    moments: VecDeque<Moment>,
    last: Option<Sample>,
}

/// Totals of the server at one time.
pub(crate) struct Sample {
    pub(crate) totals: Totals,
    pub(crate) unix_ms: u64,
}

impl Sample {
    pub(crate) fn new(totals: Totals, unix_ms: u64) -> Self {
        Self { totals, unix_ms }
    }

    /// Returns changes since an earlier one.
    pub(crate) fn since(&self, before: &Self) -> Delta {
        let elapsed_ms = self.unix_ms.saturating_sub(before.unix_ms).max(1);
        Delta::between(before.totals.clone(), self.totals.clone(), elapsed_ms)
    }

    /// Bytes of memory for each of so many connections, beyond those at the start.
    pub(crate) fn bytes_per_connection(&self, base_bytes: u64, connections: u64) -> Option<u64> {
        let resident = self.totals.gauge(Gauge::ProcessResidentBytes);
        resident.saturating_sub(base_bytes).checked_div(connections)
    }
}

struct Moment {
    unix_ms: u64,
    connections: [u64; 4],
    deliveries_per_s: u64,
    publications_per_s: u64,
    bytes_out_per_s: u64,
    memory_per_connection: Option<u64>,
    cpu_per_mille: u64,
}

/// A client that did not get what it asked for.
pub(crate) struct Refusal {
    pub(crate) unix_ms: u64,
    pub(crate) address: String,
    pub(crate) user: Box<str>,
    pub(crate) what: &'static str,
    pub(crate) object: Box<str>,
    pub(crate) why: Box<str>,
}

/// A client whose connection was closed because its queue was full.
pub(crate) struct TooSlow {
    pub(crate) unix_ms: u64,
    pub(crate) address: String,
    pub(crate) user: Box<str>,
    pub(crate) transport: &'static str,
    /// Some of what it subscribed to.
    pub(crate) channels: Vec<String>,
    pub(crate) subscriptions: usize,
}

impl Watch {
    pub(crate) fn new(config: &Config, shards: u8) -> Self {
        Self {
            hour: Mutex::default(),
            refusals: Mutex::default(),
            slow: Mutex::default(),
            config: Mutex::new(shown(config)),
            watchers: (0..shards).map(|_| AtomicU64::new(0)).collect(),
            watched: (0..shards).map(|_| AtomicBool::new(false)).collect(),
        }
    }

    pub(crate) fn renew(&self, config: &Config) {
        *lock(&self.config) = shown(config);
    }

    /// Notes whether a shard knows of a watcher; the channel's home does.
    pub(crate) fn set_watched(&self, shard: usize, is: bool) {
        if let Some(watched) = self.watched.get(shard) {
            watched.store(is, Relaxed);
        }
    }

    /// Whether anybody watches, so that it is worth while to count them.
    pub(crate) fn is_watched(&self) -> bool {
        self.watched.iter().any(|watched| watched.load(Relaxed))
    }

    /// A shard says how many of its connections watch.
    pub(crate) fn set_watchers(&self, shard: usize, count: u64) {
        if let Some(watchers) = self.watchers.get(shard) {
            watchers.store(count, Relaxed);
        }
    }

    pub(crate) fn watchers(&self) -> u64 {
        if !self.is_watched() {
            return 0;
        }
        self.watchers.iter().map(|count| count.load(Relaxed)).sum()
    }

    /// Connections of clients: WebSockets, event streams, line streams, HTTP. Those that watch
    /// come by event stream, and do not count; nor do callers of the server API.
    pub(crate) fn clients(&self, totals: &Totals) -> [u64; 4] {
        let sse = totals.gauge(Gauge::ConnectionsSse);
        let http = totals.gauge(Gauge::ConnectionsHttp);
        [
            totals.gauge(Gauge::ConnectionsWebsocket),
            sse.saturating_sub(self.watchers()),
            totals.gauge(Gauge::ConnectionsStream),
            http.saturating_sub(totals.gauge(Gauge::CallingConnections)),
        ]
    }

    /// Keeps the numbers of now, if it is time for it.
    pub(crate) fn record(&self, unix_ms: u64, base_bytes: u64, totals: impl FnOnce() -> Totals) {
        let hour = &mut *lock(&self.hour);
        // A clock that was set back must not stop it.
        let is_early = |last: &Sample| unix_ms.abs_diff(last.unix_ms) < EVERY_MS;
        if hour.last.as_ref().is_some_and(is_early) {
            return;
        }
        let now = Sample::new(totals(), unix_ms);
        if let Some(before) = &hour.last {
            let delta = now.since(before);
            let connections = self.clients(&now.totals);
            let moment = Moment {
                unix_ms,
                connections,
                deliveries_per_s: delta.per_second(Counter::Deliveries),
                publications_per_s: delta.per_second_all(Counter::PublicationsApi),
                bytes_out_per_s: delta.per_second(Counter::BytesOut),
                memory_per_connection: now
                    .bytes_per_connection(base_bytes, connections.iter().sum()),
                cpu_per_mille: delta.cpu_per_mille(),
            };
            push(&mut hour.moments, moment, MOMENTS_MAX);
        }
        hour.last = Some(now);
    }

    pub(crate) fn refused(&self, refusal: Refusal) {
        push(&mut lock(&self.refusals), refusal, REFUSALS_MAX);
    }

    pub(crate) fn too_slow(&self, client: TooSlow) {
        push(&mut lock(&self.slow), client, SLOW_MAX);
    }

    /// The last hour: each moment in the order of `fields`.
    pub(crate) fn hour(&self) -> String {
        let hour = lock(&self.hour);
        let moments = hour.moments.iter().map(|moment| {
            let [websocket, sse, stream, http] = moment.connections;
            json!([
                moment.unix_ms,
                websocket,
                sse,
                stream,
                http,
                moment.deliveries_per_s,
                moment.publications_per_s,
                moment.bytes_out_per_s,
                moment.memory_per_connection,
                moment.cpu_per_mille,
            ])
        });
        json!({
            "every_ms": EVERY_MS,
            "fields": [
                "time_unix_ms", "websocket", "sse", "stream", "http", "deliveries_per_s",
                "publications_per_s", "bytes_out_per_s", "memory_per_connection_bytes",
                "cpu_per_mille",
            ],
            "moments": moments.collect::<Vec<_>>(),
        })
        .to_string()
    }

    /// Recent refusals, the newest first.
    pub(crate) fn refusals(&self) -> String {
        let refusals = lock(&self.refusals);
        let refusals = refusals.iter().rev().map(|refusal| {
            json!({
                "time_unix_ms": refusal.unix_ms,
                "address": refusal.address,
                "user": refusal.user,
                "what": refusal.what,
                "object": refusal.object,
                "why": refusal.why,
            })
        });
        json!({"refusals": refusals.collect::<Vec<_>>()}).to_string()
    }

    /// Clients that were closed because they were too slow, the newest first.
    pub(crate) fn slow(&self) -> String {
        let slow = lock(&self.slow);
        let slow = slow.iter().rev().map(|client| {
            json!({
                "time_unix_ms": client.unix_ms,
                "address": client.address,
                "user": client.user,
                "transport": client.transport,
                "channels": client.channels,
                "num_subs": client.subscriptions,
            })
        });
        json!({"closed": slow.collect::<Vec<_>>()}).to_string()
    }

    pub(crate) fn config(&self) -> String {
        lock(&self.config).to_string()
    }
}

fn shown(config: &Config) -> Value {
    let options = config.in_force().into_iter();
    let options = options.map(|(path, value)| json!({"option": path, "value": value}));
    json!({"options": options.collect::<Vec<_>>()})
}

/// Adds the newest, and lets the oldest go.
pub(crate) fn push<T>(list: &mut VecDeque<T>, newest: T, max: usize) {
    if list.len() >= max {
        list.pop_front();
    }
    list.push_back(newest);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use throng_metrics::Counters;

    use super::*;

    fn watch() -> Watch {
        Watch::new(&Config::default(), 2)
    }

    #[test]
    fn an_hour_is_kept_and_no_more() {
        let watch = watch();
        let counters = [Arc::new(Counters::new())];
        let totals = || Totals::sum(&counters);
        for second in 0..5_000 {
            counters[0].add(Counter::Deliveries, 7);
            watch.record(second * 1000, 0, totals);
        }
        let told: Value = serde_json::from_str(&watch.hour()).unwrap();
        let moments = told["moments"].as_array().unwrap();
        assert_eq!(moments.len(), MOMENTS_MAX);
        assert_eq!(moments[MOMENTS_MAX - 1][0], 4_995_000);
        assert_eq!(moments[0][0], 4_995_000 - 3_595_000);
        assert!(moments.iter().all(|moment| moment[5] == 7), "{moments:?}");
        assert_eq!(told["fields"].as_array().unwrap().len(), 10);
        // A clock that is set back goes on.
        watch.record(1_000, 0, totals);
        watch.record(6_000, 0, totals);
        let told: Value = serde_json::from_str(&watch.hour()).unwrap();
        assert_eq!(told["moments"][MOMENTS_MAX - 1][0], 6_000);
    }

    #[test]
    fn lists_are_bounded_and_the_newest_comes_first() {
        let watch = watch();
        for n in 0..REFUSALS_MAX as u64 + 5 {
            watch.refused(Refusal {
                unix_ms: n,
                address: "192.0.2.1".to_owned(),
                user: "ann".into(),
                what: "subscribe",
                object: "a \"quoted\" channel".into(),
                why: "permission denied".into(),
            });
            watch.too_slow(TooSlow {
                unix_ms: n,
                address: "192.0.2.1".to_owned(),
                user: "ann".into(),
                transport: "sse",
                channels: vec!["news".to_owned()],
                subscriptions: 2,
            });
        }
        let list = |text: &str, name: &str, max: usize| {
            let told: Value = serde_json::from_str(text).unwrap();
            let list = told[name].as_array().unwrap();
            assert_eq!(list.len(), max, "{name}");
            assert_eq!(list[0]["time_unix_ms"], REFUSALS_MAX + 4);
            list[0].clone()
        };
        let refusal = list(&watch.refusals(), "refusals", REFUSALS_MAX);
        assert_eq!(refusal["object"], "a \"quoted\" channel");
        let closed = list(&watch.slow(), "closed", SLOW_MAX);
        assert_eq!(closed["channels"][0], "news");
    }

    #[test]
    fn those_who_watch_are_counted_over_all_shards() {
        let watch = watch();
        watch.set_watchers(0, 2);
        watch.set_watchers(1, 1);
        watch.set_watchers(9, 5);
        assert_eq!(watch.watchers(), 0);
        watch.set_watched(1, true);
        assert_eq!(watch.watchers(), 3);
    }

    #[test]
    fn the_configuration_is_shown_as_it_is_in_force() {
        let watch = watch();
        let told: Value = serde_json::from_str(&watch.config()).unwrap();
        let options = told["options"].as_array().unwrap();
        let find = |path: &str| {
            let found = options.iter().find(|option| option["option"] == path);
            found.unwrap_or_else(|| panic!("{path}"))["value"].clone()
        };
        assert_eq!(find("listen.api"), "\"127.0.0.1:8001\"");
        assert_eq!(find("auth.hmac_secret"), Value::Null);
    }
}
