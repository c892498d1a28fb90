//! Reader of the TOML form of a scenario.
//!
//! ```toml
//! name = "groups"
//! scenario = "fan-out"
//! targets = ["ws://127.0.0.1:8000/ws"]
//! sources = "127.0.0.2-127.0.0.40"
//! channels = "group-{n%1000}"
//! warm_up = "5s"
//! duration = "60s"
//! grace = "10s"                  # at the end, for what is on its way
//! data = "users.csv"             # `{data.NAME}` in templates: this connection's row
//! checks = ["p99<50ms", "missing==0"]
//!
//! [connect]
//! clients = 10_000
//! rate = "500/s"
//!
//! [publish]
//! to = "http://127.0.0.1:8001"
//! as = "plain"
//! rate = "1000/s"
//! size = 512
//! ```
//!
//! Unknown keys are refused, all at once, each with its line and the key that was probably meant.

use throng_types::units::{
    parse_count, parse_duration_us, parse_rate_per_s, parse_share, parse_size_bytes,
};
use toml::de::DeTable;

use crate::check::Check;
use crate::ports::parse_sources;
use crate::scenario::{
    ChannelChoice, ClientTransport, Dialect, Marker, PeriodicMessage, Publish, RateSearch,
    Scenario, StatsdExport, Via, Workload,
};
use crate::schedule::{ArrivalPhase, Growth, Schedule, Spread, positive_rate};
use crate::section::{Complaints, Problem, Section};
use crate::{Data, Target};

/// Reader of the files that a scenario names: takes the name as it was written, returns the text or
/// why it cannot be read.
pub type ScenarioFiles<'a> = &'a dyn Fn(&str) -> Result<String, String>;

/// Reads and validates a scenario, with the files that it names. On failure, every problem that was
/// found, by line.
pub fn read_toml_with(text: &str, file: ScenarioFiles<'_>) -> Result<Scenario, Vec<Problem>> {
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        vec![Problem {
            line: Some(crate::line_of(text, at)),
            message: error.message().to_owned(),
        }]
    })?;
    let complaints = Complaints::new(text);
    // What is missing or wrong has its default here and a complaint there.
    let scenario = read_root(Section::new("", 0, table.into_inner(), &complaints), file);
    let mut problems = complaints.into_problems();
    // What could not be read has a default here, and its problems are nobody's.
    if problems.iter().all(Problem::is_unknown_key) {
        problems.extend(scenario.problems());
    }
    match problems.is_empty() {
        true => Ok(scenario),
        false => Err(problems),
    }
}

fn read_root(mut root: Section<'_>, file: ScenarioFiles<'_>) -> Scenario {
    let kind = read_kind(&mut root);
    root.require("targets", "targets = [\"ws://host:port/path\"]");
    let targets = root.list("targets", Target::parse).unwrap_or_default();
    let transport = read_transport(&mut root);
    let mut scenario = Scenario::new(kind, targets, transport);
    if let Some(name) = root.text("name") {
        scenario.name = name;
    }
    let are_named = root.has("channels");
    scenario.channels = root.texts("channels");
    if !are_named {
        scenario.channels = default_channels(&scenario.kind);
    }
    let sources = root.list("sources", parse_sources).unwrap_or_default();
    scenario.sources = sources.into_iter().flatten().collect();
    root.set("duration", &mut scenario.hold_us, parse_duration_us);
    root.set("warm_up", &mut scenario.warm_up_us, parse_duration_us);
    root.set("grace", &mut scenario.grace_us, parse_duration_us);
    scenario.lifetime_us = root.parsed("lifetime", parse_duration_us);
    scenario.checks = root.list("checks", str::parse::<Check>).unwrap_or_default();
    root.set("seed", &mut scenario.seed, str::parse);
    scenario.data = root.parsed("data", |name| Data::from_csv(&file(name)?));
    if root.word("marker", &["throng", "tcpkali"]) == Some("tcpkali") {
        scenario.marker = Marker::Tcpkali;
    }
    if let Some(connect) = root.section("connect") {
        read_connect(connect, &mut scenario);
    }
    let say = root.section("say");
    scenario.say = say.map(|section| read_say(section, &scenario.transport));
    scenario.publish = root.section("publish").map(read_publish);
    scenario.statsd = root.section("statsd").map(read_statsd);
    root.finish();
    scenario
}

/// Tables that belong to one kind of scenario.
const OF_KINDS: [(&str, &str); 4] = [
    ("chat", "chat"),
    ("reconnect_storm", "reconnect-storm"),
    ("slow_readers", "slow-readers"),
    ("resume", "resume"),
];

/// Reads the key `scenario` and the table that belongs to it.
fn read_kind(root: &mut Section<'_>) -> Workload {
    let word = root.word("scenario", &Workload::NAMES).unwrap_or("hold");
    for (table, kind) in OF_KINDS.into_iter().filter(|(_, kind)| *kind != word) {
        root.refuse_section(table, &format!("`scenario = \"{kind}\"`"));
    }
    match word {
        "fan-out" => Workload::FanOut,
        "one-to-one" => Workload::OneToOne,
        "echo" => Workload::Echo,
        "churn" => Workload::Churn,
        "chat" => {
            let mut group_size = 10;
            let mut chat = root.section_or_empty("chat");
            chat.set("group_size", &mut group_size, parse_count);
            chat.finish();
            Workload::Chat { group_size }
        }
        "reconnect-storm" => {
            let (mut at_us, mut backoff_us) = (0, (0, 1_000_000));
            let (mut share, mut back_share) = (1.0, 0.999);
            let mut storm = root.section_or_empty("reconnect_storm");
            storm.set("at", &mut at_us, parse_duration_us);
            storm.set("backoff_min", &mut backoff_us.0, parse_duration_us);
            storm.set("backoff_max", &mut backoff_us.1, parse_duration_us);
            storm.set("share", &mut share, parse_share);
            storm.set("back", &mut back_share, parse_share);
            storm.finish();
            Workload::ReconnectStorm {
                at_us,
                share,
                backoff_us,
                back_share,
            }
        }
        "slow-readers" => {
            let (mut share, mut bytes_per_s) = (0.01, 0);
            let mut slow = root.section_or_empty("slow_readers");
            slow.set("share", &mut share, parse_share);
            slow.set("read", &mut bytes_per_s, parse_size_bytes);
            slow.finish();
            Workload::SlowReaders { share, bytes_per_s }
        }
        "resume" => {
            let (mut away_us, mut every_us) = (1_000_000, 10_000_000);
            let mut resume = root.section_or_empty("resume");
            resume.set("away", &mut away_us, parse_duration_us);
            resume.set("every", &mut every_us, parse_duration_us);
            resume.finish();
            Workload::Resume { away_us, every_us }
        }
        _ => Workload::Hold,
    }
}

fn default_channels(kind: &Workload) -> Vec<String> {
    match kind {
        Workload::OneToOne => vec!["user-{n}".into()],
        Workload::Chat { group_size } => vec![format!("chat-{{n/{group_size}}}")],
        _ => Vec::new(),
    }
}

const TRANSPORTS: [&str; 6] = [
    "websocket",
    "centrifugo",
    "appwrite",
    "sse",
    "http-stream",
    "raw",
];

fn read_transport(root: &mut Section<'_>) -> ClientTransport {
    let mut section = root.section_or_empty("transport");
    let word = section.word("kind", &TRANSPORTS).unwrap_or("websocket");
    let transport = match word {
        "sse" => ClientTransport::Sse {
            headers: section.pairs("headers"),
        },
        "http-stream" => ClientTransport::HttpStream {
            headers: section.pairs("headers"),
            content_type: section.text("content_type"),
        },
        "raw" => ClientTransport::Raw {
            first: section.texts("first"),
            expect_http: section.flag("expect_http").unwrap_or(true),
        },
        websocket => ClientTransport::WebSocket {
            dialect: match websocket {
                "centrifugo" => Dialect::Centrifugo {
                    token: section.text("token"),
                },
                "appwrite" => Dialect::Appwrite,
                _ => Dialect::Plain,
            },
            first_frames: section.texts("first_frame"),
            headers: section.pairs("headers"),
            subprotocol: section.text("subprotocol"),
            ping_interval_us: section.parsed("ping_interval", parse_duration_us),
        },
    };
    section.finish();
    transport
}

fn read_connect(mut section: Section<'_>, scenario: &mut Scenario) {
    let clients = section.parsed("clients", parse_count);
    let rate = section.parsed("rate", positive_rate);
    let phases = section.sections("phase");
    scenario.http2 = section.parsed("http2", str::parse::<u32>);
    section.set(
        "timeout",
        &mut scenario.connect_timeout_us,
        parse_duration_us,
    );
    if section.word("arrivals", &["even", "poisson"]) == Some("poisson") {
        scenario.spread = Spread::Poisson;
    }
    scenario.replace_lost = section.flag("replace_lost").unwrap_or(false);
    if phases.is_empty() {
        let clients = clients.unwrap_or(scenario.clients);
        scenario.set_clients(clients, rate.unwrap_or(100.0));
    } else {
        if rate.is_some() {
            section.complain(
                "`connect.rate` and `[[connect.phase]]` exclude each other: each phase has its \
                 own rate",
            );
        }
        scenario.arrivals = Schedule::new(phases.into_iter().map(read_phase).collect());
        let brought = scenario.arrivals.count();
        scenario.clients = clients.unwrap_or(brought).min(brought);
    }
    section.finish();
}

fn read_phase(mut section: Section<'_>) -> ArrivalPhase {
    section.require("duration", "duration = \"10s\"");
    section.require("rate", "rate = \"100/s\"");
    let mut phase = ArrivalPhase::constant(0.0, 0);
    section.set("duration", &mut phase.duration_us, parse_duration_us);
    section.set("rate", &mut phase.start_per_s, parse_rate_per_s);
    phase.end_per_s = phase.start_per_s;
    section.set("ramp_to", &mut phase.end_per_s, parse_rate_per_s);
    phase.events_max = section.parsed("clients_max", parse_count);
    section.finish();
    phase
}

fn read_say(mut section: Section<'_>, transport: &ClientTransport) -> PeriodicMessage {
    section.require("every", "every = \"1s\"");
    let size = section.parsed("size", parse_size_bytes);
    let say = PeriodicMessage {
        binary: section.flag("binary").unwrap_or(false),
        text: section
            .text("text")
            .unwrap_or_else(|| transport.message().to_owned()),
        every_us: section.parsed("every", parse_duration_us).unwrap_or(0),
        count: section.parsed("count", parse_count),
        size_bytes: size.unwrap_or(128) as usize,
    };
    section.finish();
    say
}

fn read_publish(mut section: Section<'_>) -> Publish {
    let via = read_via(&mut section);
    section.require("rate", "rate = \"100/s\"");
    let mut per_s = 0.0;
    section.set("rate", &mut per_s, positive_rate);
    let publishers = section.parsed("publishers", str::parse::<u32>);
    let size = section.parsed("size", parse_size_bytes);
    let choose = section.word("choose", &["round-robin", "random"]);
    let until = section.parsed("until", str::parse::<Check>);
    let growth = section.parsed("step", Growth::parse);
    let rate_max = section.parsed("rate_max", positive_rate);
    let step_us = section.parsed("step_duration", parse_duration_us);
    if until.is_none() && (growth.is_some() || rate_max.is_some() || step_us.is_some()) {
        section.complain(
            "`step`, `step_duration` and `rate_max` belong to `publish.until`, which is missing",
        );
    }
    section.finish();
    Publish {
        via,
        per_s,
        publishers: publishers.unwrap_or(1),
        size_bytes: size.unwrap_or(128) as usize,
        choose: match choose {
            Some("random") => ChannelChoice::Random,
            _ => ChannelChoice::RoundRobin,
        },
        until: until.map(|check| RateSearch {
            check,
            growth: growth.unwrap_or(Growth::Multiply(2.0)),
            per_s_max: rate_max.unwrap_or(1e7),
            step_us: step_us.unwrap_or(10_000_000),
        }),
    }
}

fn read_via(section: &mut Section<'_>) -> Via {
    section.require("to", "to = \"http://127.0.0.1:8001\"");
    let nowhere = || Target {
        tls: false,
        host: String::new(),
        port: 0,
        path: "/".into(),
    };
    let target = section.parsed("to", Target::parse).unwrap_or_else(nowhere);
    let payload = || "{payload}".to_owned();
    let preset = section.word("as", &["plain", "centrifugo", "grip", "http", "websocket"]);
    match preset {
        Some("centrifugo") => Via::centrifugo(&target, section.text("key").as_deref()),
        Some("grip") => Via::grip(&target),
        Some("http") => Via::Http {
            method: section.text("method").unwrap_or_else(|| "POST".into()),
            headers: section.pairs("headers"),
            body: section.text("body").unwrap_or_else(payload),
            target,
        },
        Some("websocket") => Via::WebSocket {
            first_frames: section.texts("first_frame"),
            frame: section.text("frame").unwrap_or_else(payload),
            target,
        },
        _ => Via::plain(&target),
    }
}

fn read_statsd(mut section: Section<'_>) -> StatsdExport {
    let mut export = StatsdExport::default();
    export.host = section.text("host").unwrap_or(export.host);
    section.set("port", &mut export.port, str::parse);
    export.namespace = section.text("namespace").unwrap_or(export.namespace);
    export.latency_window_us = section.parsed("latency_window", parse_duration_us);
    section.finish();
    export
}

#[cfg(test)]
mod tests;
