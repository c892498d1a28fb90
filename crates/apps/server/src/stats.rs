//! The server's own numbers: sums over the shards, what only the process knows, and the dashboard's
//! line, once a second while somebody watches.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use throng_broker::Draft;
use throng_config::Config;
use throng_gateway_pusher::PusherShared;
use throng_hub::Command;
use throng_metrics::{
    Counter, Counters, Exemplars, Exposition, Gauge, Histogram, NamespaceLabels, Totals,
    write_apps, write_namespaces,
};
use throng_session::SignIn;
use throng_sys::{clock, cpu, limits, memory};
use throng_types::{ChannelName, Now, Payload, PayloadKind, lock};

use crate::logins::Table;
use crate::watch::{Sample, Watch};

pub(crate) const STATS_CHANNEL: &str = "throng:stats";

/// Capacity of this machine, as far as the caller has found out.
#[derive(Clone, Debug)]
pub struct Capacity {
    pub holds_connections: Option<u64>,
    /// The limit that binds first, by its kernel's name.
    pub binds_first: Option<&'static str>,
}

/// Form in which Pushpin's metrics are shown.
pub(crate) struct PushpinMetrics {
    pub(crate) prefix: String,
    /// Set if they have a port of their own.
    pub(crate) is_apart: bool,
}

/// State of the whole server that any thread may read at any time.
pub(crate) struct Observatory {
    pub(crate) counters: Vec<Arc<Counters>>,
    pub(crate) version: &'static str,
    pub(crate) started_unix_ms: u64,
    pub(crate) open_mode: AtomicBool,
    pub(crate) access: Mutex<Value>,
    pub(crate) capacity: Option<Capacity>,
    /// GRIP's metrics under Pushpin's names.
    pub(crate) pushpin: Option<PushpinMetrics>,
    /// The state of a broker on the other side of a network, once it is started.
    pub(crate) broker: std::sync::OnceLock<throng_remote::Health>,
    pub(crate) feeds: Vec<Arc<throng_feeds::FeedStatus>>,
    /// Pusher's apps, which count what they use.
    pub(crate) apps: Mutex<PusherShared>,
    /// Whether history is written to disk, once that is so.
    pub(crate) history: std::sync::OnceLock<Box<dyn Fn() -> bool + Send + Sync>>,
    /// Resident before the first connection.
    pub(crate) base_bytes: u64,
    /// History and events that the dashboard shows besides the present.
    pub(crate) watch: Watch,
    pub(crate) logins: Arc<Table>,
    /// Way to an OpenID provider, if there is one.
    pub(crate) sign_in: Option<Box<dyn SignIn>>,
    pub(crate) labels: Arc<Mutex<NamespaceLabels>>,
    /// Traces of durations, while there is a collector.
    pub(crate) exemplars: Arc<Mutex<Exemplars>>,
}

impl Observatory {
    /// Sums over the shards, with the process's own numbers.
    pub(crate) fn totals(&self) -> Totals {
        let mut totals = Totals::sum(&self.counters);
        let uptime_ms = clock::unix_ms().saturating_sub(self.started_unix_ms);
        totals.set(Gauge::UptimeSeconds, uptime_ms / 1000);
        totals.set(Gauge::ProcessResidentBytes, resident_bytes());
        totals.set(Gauge::OpenDescriptors, open_descriptors(&totals));
        totals.set(Gauge::DescriptorsMax, limits::nofile().soft);
        totals.cpu_us = cpu::process_time(None).map_or(0, |time| time.user_us + time.system_us);
        totals
    }

    /// Shows other apps from now on.
    pub(crate) fn show_apps(&self, apps: &PusherShared) {
        if let Ok(mut shown) = self.apps.lock() {
            *shown = apps.clone();
        }
    }

    /// Appends the metrics of namespaces and of Pusher's apps.
    pub(crate) fn write_parts(&self, out: &mut Exposition<'_>) {
        let labels = lock(&self.labels);
        write_namespaces(&labels, &self.counters, out);
        let apps = self.apps.lock().map(|apps| apps.clone());
        let apps = apps.unwrap_or_default();
        write_apps(apps.apps().map(|app| (&*app.id, app.used.values())), out);
    }
}

/// Facts that decide whether clients need a token, and callers of the server API a key.
pub(crate) fn access(config: &Config) -> Value {
    json!({
        "tokens": config.auth.client_keys(),
        "anonymous": config.anonymous_allowed(),
        "api_keys": config.auth.api_keys_set(),
    })
}

fn resident_bytes() -> u64 {
    // The second field of statm is pages (proc_pid_statm(5)); smaps_rollup would walk every page.
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or_default() * memory::page_bytes()
}

/// Listing /proc/self/fd costs a million entries on a full server; connections are known.
fn open_descriptors(totals: &Totals) -> u64 {
    let connections = totals.gauge_all(Gauge::ConnectionsHttp);
    // Per shard: reactor, waker and listeners; and the standard three.
    connections + totals.gauge(Gauge::Shards) * 4 + 3
}

pub(crate) struct Ticker {
    observatory: Arc<Observatory>,
    channel: ChannelName,
    last: Option<Sample>,
}

impl Ticker {
    pub(crate) fn new(observatory: Arc<Observatory>) -> Self {
        let channel = ChannelName::new(STATS_CHANNEL).expect("a good name");
        Self {
            observatory,
            channel,
            last: None,
        }
    }

    pub(crate) const fn channel(&self) -> &ChannelName {
        &self.channel
    }

    /// The next line, if somebody watches and there is something to compare with.
    pub(crate) fn tick(&mut self, watched: bool, draining: bool, now: Now) -> Option<Command> {
        if !watched {
            self.last = None;
            return None;
        }
        let now = Sample::new(self.observatory.totals(), now.unix_ms);
        let line = { self.last.as_ref() }.map(|last| self.line(last, &now, draining));
        self.last = Some(now);
        let payload = Payload {
            bytes: line?.into_bytes().into(),
            kind: PayloadKind::Json,
        };
        let draft = Draft {
            skip_history: true,
            ..Draft::new(self.channel.clone(), payload)
        };
        Some(Command::Announce { draft })
    }

    fn line(&self, last: &Sample, now: &Sample, draining: bool) -> String {
        let observatory = &self.observatory;
        let delta = now.since(last);
        let totals = &now.totals;
        let capacity = observatory.capacity.as_ref();
        let [websocket, sse, stream, http] = observatory.watch.clients(totals);
        let connections = websocket + sse + stream + http;
        // A line is there because somebody watches: that channel is none of theirs.
        let watchers = observatory.watch.watchers();
        let per_connection = now.bytes_per_connection(observatory.base_bytes, connections);
        json!({
            "time_unix_ms": now.unix_ms,
            "uptime_s": totals.gauge(Gauge::UptimeSeconds),
            "version": observatory.version,
            "pid": std::process::id(),
            "shards": totals.gauge(Gauge::Shards),
            "draining": draining,
            "open_mode": observatory.open_mode.load(Relaxed),
            "access": *lock(&observatory.access),
            "connections": {"websocket": websocket, "sse": sse, "stream": stream, "http": http},
            "connections_per_s": delta.per_second(Counter::ConnectionsAccepted),
            "closed_per_s": delta.per_second_all(Counter::ClosedClient),
            "refused_per_s": delta.per_second_all(Counter::RefusedDescriptors),
            "channels": totals.gauge(Gauge::Channels).saturating_sub(1),
            "subscriptions": totals.gauge(Gauge::Subscriptions).saturating_sub(watchers),
            "publications_per_s": delta.per_second_all(Counter::PublicationsApi),
            "deliveries_per_s": delta.per_second(Counter::Deliveries),
            "bytes_out_per_s": delta.per_second(Counter::BytesOut),
            "bytes_in_per_s": delta.per_second(Counter::BytesIn),
            "dropped": {
                "close": totals.counter(Counter::DroppedClose),
                "drop-oldest": totals.counter(Counter::DroppedOldest),
                "latest-only": totals.counter(Counter::DroppedLatestOnly),
            },
            "slow_consumers": totals.counter(Counter::SlowConsumers),
            "history_bytes": totals.gauge(Gauge::HistoryBytes),
            "history_publications": totals.gauge(Gauge::HistoryPublications),
            "memory_bytes": totals.gauge(Gauge::ProcessResidentBytes),
            "memory_per_connection_bytes": per_connection,
            "cpu_percent": delta.cpu_per_mille() as f64 / 10.0,
            "descriptors": {
                "open": totals.gauge(Gauge::OpenDescriptors),
                "max": totals.gauge(Gauge::DescriptorsMax),
            },
            "accept_paused": totals.gauge(Gauge::AcceptPaused) > 0,
            "holds_connections": capacity.and_then(|capacity| capacity.holds_connections),
            "binds_first": capacity.and_then(|capacity| capacity.binds_first),
            "turn_p99_us": delta.histogram(Histogram::TurnDuration).quantile_us(990),
        })
        .to_string()
    }
}
