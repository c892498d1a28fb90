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
//! An unknown key is refused with its line and the key that was probably meant.

use throng_types::units;
use toml::de::DeTable;

use crate::check::Check;
use crate::ports::parse_sources;
use crate::scenario::{
    ChannelChoice, Dialect, Marker, PeriodicMessage, Publish, RateSearch, Scenario, StatsdExport,
    Transport, Via, Workload,
};
use crate::schedule::{ArrivalPhase, Growth, Schedule, Spread, positive_rate};
use crate::section::{Complaints, Problem, Section};
use crate::{Data, Target};

/// Reader of the files that a scenario names: takes the name as it was written, returns the text or
/// why it cannot be read.
pub type ReadFile<'a> = &'a dyn Fn(&str) -> Result<String, String>;

/// Reads and validates a scenario, with the files that it names. On failure, every problem that was
/// found, by line.
pub fn read_toml_with(text: &str, file: ReadFile<'_>) -> Result<Scenario, Vec<Problem>> {
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        vec![Problem {
            line: Some(crate::line_of(text, at)),
            message: error.message().to_owned(),
        }]
    })?;
    let complaints = Complaints::new(text);
    let root = Section::new("", 0, table.into_inner(), &complaints);
    let scenario = read_root(root, file);
    let mut problems = complaints.into_problems();
    if problems.is_empty() {
        match scenario {
            Some(scenario) => {
                problems = scenario.problems();
                if problems.is_empty() {
                    return Ok(scenario);
                }
            }
            // A reader that returns nothing has complained; this is for one that forgot to.
            None => problems.push(Problem {
                line: None,
                message: "the scenario is incomplete".into(),
            }),
        }
    }
    Err(problems)
}

fn read_root(mut root: Section<'_>, file: ReadFile<'_>) -> Option<Scenario> {
    let name = root.text("name");
    let kind = read_kind(&mut root);
    root.require("targets", "targets = [\"ws://host:port/path\"]");
    let targets = root.list("targets", Target::parse);
    let transport = read_transport(&mut root);
    let channels = root.list("channels", |text| Ok::<_, String>(text.to_owned()));
    let sources = root.list("sources", parse_sources);
    let hold_us = root.parsed("duration", units::parse_duration_us);
    let warm_up_us = root.parsed("warm_up", units::parse_duration_us);
    let grace_us = root.parsed("grace", units::parse_duration_us);
    let lifetime_us = root.parsed("lifetime", units::parse_duration_us);
    let checks = root.list("checks", str::parse::<Check>);
    let seed = root.parsed("seed", str::parse::<u64>);
    let data = root.parsed("data", |name| Data::from_csv(&file(name)?));
    let marker = root.word("marker", &["throng", "tcpkali"]);
    let connect = root.section("connect");
    let say = root.section("say").and_then(read_say);
    let publish = root.section("publish").and_then(read_publish);
    let statsd = root.section("statsd").and_then(read_statsd);

    let mut scenario = Scenario::new(kind?, targets?, transport?);
    if let Some(connect) = connect {
        read_connect(connect, &mut scenario);
    }
    root.finish();
    if let Some(name) = name {
        scenario.name = name;
    }
    scenario.channels = channels.unwrap_or_else(|| default_channels(&scenario.kind));
    scenario.sources = sources.unwrap_or_default().into_iter().flatten().collect();
    scenario.hold_us = hold_us.unwrap_or(scenario.hold_us);
    scenario.warm_up_us = warm_up_us.unwrap_or(0);
    scenario.grace_us = grace_us.unwrap_or(scenario.grace_us);
    scenario.lifetime_us = lifetime_us;
    scenario.checks = checks.unwrap_or_default();
    scenario.seed = seed.unwrap_or(scenario.seed);
    scenario.data = data;
    if marker == Some("tcpkali") {
        scenario.marker = Marker::Tcpkali;
    }
    scenario.say = say;
    scenario.publish = publish;
    scenario.statsd = statsd;
    Some(scenario)
}

/// Reads the key `scenario` and the table that belongs to it.
fn read_kind(root: &mut Section<'_>) -> Option<Workload> {
    let word = if root.has("scenario") {
        root.word("scenario", &Workload::NAMES)?
    } else {
        // Asked for all the same, so that a misspelt key is told what it may have meant.
        let _ = root.text("scenario");
        "hold"
    };
    Some(match word {
        "hold" => Workload::Hold,
        "fan-out" => Workload::FanOut,
        "one-to-one" => Workload::OneToOne,
        "echo" => Workload::Echo,
        "churn" => Workload::Churn,
        "chat" => {
            let mut chat = root.section_or_empty("chat");
            let group_size = chat.parsed("group_size", units::parse_count).unwrap_or(10);
            chat.finish();
            Workload::Chat { group_size }
        }
        "reconnect-storm" => {
            let mut storm = root.section_or_empty("reconnect_storm");
            let mut time = |key| storm.parsed(key, units::parse_duration_us);
            let (at_us, min, max) = (time("at"), time("backoff_min"), time("backoff_max"));
            let share = storm.parsed("share", units::parse_share);
            let back_share = storm.parsed("back", units::parse_share);
            storm.finish();
            Workload::ReconnectStorm {
                at_us: at_us.unwrap_or(0),
                share: share.unwrap_or(1.0),
                backoff_us: (min.unwrap_or(0), max.unwrap_or(1_000_000)),
                back_share: back_share.unwrap_or(0.999),
            }
        }
        "slow-readers" => {
            let mut slow = root.section_or_empty("slow_readers");
            let share = slow.parsed("share", units::parse_share);
            let bytes = slow.parsed("read", units::parse_size_bytes);
            slow.finish();
            Workload::SlowReaders {
                share: share.unwrap_or(0.01),
                bytes_per_s: bytes.unwrap_or(0),
            }
        }
        _ => {
            let mut resume = root.section_or_empty("resume");
            let away = resume.parsed("away", units::parse_duration_us);
            let every = resume.parsed("every", units::parse_duration_us);
            resume.finish();
            Workload::Resume {
                away_us: away.unwrap_or(1_000_000),
                every_us: every.unwrap_or(10_000_000),
            }
        }
    })
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

fn read_transport(root: &mut Section<'_>) -> Option<Transport> {
    let Some(mut section) = root.section("transport") else {
        return Some(Transport::websocket(Dialect::Plain));
    };
    let word = section.word("kind", &TRANSPORTS).unwrap_or("websocket");
    let transport = match word {
        "sse" => Transport::Sse {
            headers: section.texts("headers").unwrap_or_default(),
        },
        "http-stream" => Transport::HttpStream {
            headers: section.texts("headers").unwrap_or_default(),
            content_type: section.text("content_type"),
        },
        "raw" => Transport::Raw {
            first: section.texts_of("first"),
            expect_http: section.flag("expect_http").unwrap_or(true),
        },
        websocket => Transport::WebSocket {
            dialect: match websocket {
                "centrifugo" => Dialect::Centrifugo {
                    token: section.text("token"),
                },
                "appwrite" => Dialect::Appwrite,
                _ => Dialect::Plain,
            },
            first_frames: section.texts_of("first_frame"),
            headers: section.texts("headers").unwrap_or_default(),
            subprotocol: section.text("subprotocol"),
            ping_interval_us: section.parsed("ping_interval", units::parse_duration_us),
        },
    };
    section.finish();
    Some(transport)
}

fn read_connect(mut section: Section<'_>, scenario: &mut Scenario) {
    let clients = section.parsed("clients", units::parse_count);
    let rate = section.parsed("rate", positive_rate);
    let phases = section.sections("phase");
    if let Some(timeout_us) = section.parsed("timeout", units::parse_duration_us) {
        scenario.connect_timeout_us = timeout_us;
    }
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
                 own rate"
                    .into(),
            );
        }
        let phases = phases.into_iter().filter_map(read_phase).collect();
        scenario.arrivals = Schedule::new(phases);
        let brought = scenario.arrivals.count();
        scenario.clients = clients.unwrap_or(brought).min(brought);
    }
    section.finish();
}

fn read_phase(mut section: Section<'_>) -> Option<ArrivalPhase> {
    section.require("duration", "duration = \"10s\"");
    section.require("rate", "rate = \"100/s\"");
    let duration_us = section.parsed("duration", units::parse_duration_us);
    let rate = section.parsed("rate", units::parse_rate_per_s);
    let to = section.parsed("ramp_to", units::parse_rate_per_s);
    let events_max = section.parsed("clients_max", units::parse_count);
    section.finish();
    Some(ArrivalPhase {
        duration_us: duration_us?,
        start_per_s: rate?,
        end_per_s: to.or(rate)?,
        events_max,
    })
}

fn read_say(mut section: Section<'_>) -> Option<PeriodicMessage> {
    let text = section.text("text").unwrap_or_else(|| "{payload}".into());
    section.require("every", "every = \"1s\"");
    let every_us = section.parsed("every", units::parse_duration_us);
    let count = section.parsed("count", units::parse_count);
    let size = section.parsed("size", units::parse_size_bytes);
    let binary = section.flag("binary").unwrap_or(false);
    section.finish();
    Some(PeriodicMessage {
        binary,
        text,
        every_us: every_us?,
        count,
        size_bytes: size.unwrap_or(128) as usize,
    })
}

fn read_publish(mut section: Section<'_>) -> Option<Publish> {
    let via = read_via(&mut section);
    section.require("rate", "rate = \"100/s\"");
    let rate = section.parsed("rate", positive_rate);
    let publishers = section.parsed("publishers", str::parse::<u32>);
    let size = section.parsed("size", units::parse_size_bytes);
    let choose = section.word("choose", &["round-robin", "random"]);
    let until = section.parsed("until", str::parse::<Check>);
    let growth = section.parsed("step", Growth::parse);
    let rate_max = section.parsed("rate_max", positive_rate);
    let step_us = section.parsed("step_duration", units::parse_duration_us);
    if until.is_none() && (growth.is_some() || rate_max.is_some() || step_us.is_some()) {
        section.complain(
            "`step`, `step_duration` and `rate_max` belong to `publish.until`, which is missing"
                .into(),
        );
    }
    section.finish();
    Some(Publish {
        via: via?,
        per_s: rate?,
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
    })
}

fn read_via(section: &mut Section<'_>) -> Option<Via> {
    section.require("to", "to = \"http://127.0.0.1:8001\"");
    let to = section.parsed("to", Target::parse);
    let preset = section
        .word("as", &["plain", "centrifugo", "grip", "http", "websocket"])
        .unwrap_or("plain");
    Some(match preset {
        "centrifugo" => Via::centrifugo(&to?, section.text("key").as_deref()),
        "grip" => Via::grip(&to?),
        "http" => Via::Http {
            method: section.text("method").unwrap_or_else(|| "POST".into()),
            headers: section.texts("headers").unwrap_or_default(),
            body: section.text("body").unwrap_or_else(|| "{payload}".into()),
            target: to?,
        },
        "websocket" => Via::WebSocket {
            first_frames: section.texts_of("first_frame"),
            frame: section.text("frame").unwrap_or_else(|| "{payload}".into()),
            target: to?,
        },
        _ => Via::plain(&to?),
    })
}

fn read_statsd(mut section: Section<'_>) -> Option<StatsdExport> {
    let default = StatsdExport::default();
    let export = StatsdExport {
        host: section.text("host").unwrap_or(default.host),
        port: section
            .parsed("port", str::parse::<u16>)
            .unwrap_or(default.port),
        namespace: section.text("namespace").unwrap_or(default.namespace),
        latency_window_us: section.parsed("latency_window", units::parse_duration_us),
    };
    section.finish();
    Some(export)
}

#[cfg(test)]
mod tests;
