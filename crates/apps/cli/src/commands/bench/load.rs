//! What `sub` and `pub` have in common: channels, data, what is published, and reading options into
//! a scenario.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use throng_bench_plan::check::Check;
use throng_bench_plan::payload::MESSAGE_BYTES_MIN;
use throng_bench_plan::schedule::Growth;
use throng_bench_plan::{
    Choose, DATA_BYTES_MAX, Data, Dialect, Publish, Scenario, Target, Transport, Until, Via,
};
use throng_types::units;

use super::faults::bad_scenario;
use crate::failure::{Failure, Result};

/// What a connection speaks.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Speak {
    /// A WebSocket; the URL or the first frames say what it subscribes to
    Websocket,
    /// Centrifugo's client protocol in JSON
    Centrifugo,
    /// Appwrite Realtime; the URL says what it subscribes to
    Appwrite,
    /// An event stream
    Sse,
    /// A chunked response that never ends
    Stream,
}

/// In what form publications reach the server.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Form {
    /// POST /pub?channel=… with the bare message
    Plain,
    /// POST /api/publish of Centrifugo's server API
    Centrifugo,
    /// POST /publish/ of GRIP
    Grip,
    /// A request of your own: the URL's path and --body are templates
    Http,
    /// A frame of your own on a WebSocket: --body is the template
    Websocket,
}

/// Data for templates.
#[derive(Debug, clap::Args)]
pub(super) struct DataArgs {
    /// A CSV file whose first line names columns: `{data.NAME}` in templates is the cell of the row
    /// that `{n}` has, from 0; after the last row comes the first
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
}

impl DataArgs {
    /// Reads the file, if there is one.
    pub(super) fn read(&self) -> Result<Option<Data>> {
        let Some(file) = &self.data else {
            return Ok(None);
        };
        let read = read_data(file).and_then(|text| {
            Data::from_csv(&text).map_err(|error| format!("{}: {error}", file.display()))
        });
        read.map(Some)
            .map_err(|why| Failure::usage(format!("--data: {why}")))
    }
}

/// The text of a file of data, if it is not too large to be one.
pub(super) fn read_data(file: &Path) -> std::result::Result<String, String> {
    let cannot = |why: &dyn std::fmt::Display| format!("cannot read {}: {why}", file.display());
    let bytes = std::fs::metadata(file)
        .map_err(|error| cannot(&error))?
        .len();
    if bytes > DATA_BYTES_MAX as u64 {
        return Err(cannot(&format!(
            "it has {bytes} bytes, {DATA_BYTES_MAX} are allowed"
        )));
    }
    std::fs::read_to_string(file).map_err(|error| cannot(&error))
}

/// How publications are made and measured.
#[derive(Debug, clap::Args)]
pub(super) struct PublishArgs {
    /// How the server takes them
    #[arg(
        long = "as",
        value_enum,
        value_name = "FORM",
        default_value_t = Form::Plain,
        help_heading = "Publishing"
    )]
    form: Form,
    /// Publications a second, all publishers together, whatever the answers do: 1000/s
    #[arg(
        long,
        value_name = "RATE",
        value_parser = units::parse_rate_per_s,
        default_value = "100/s",
        help_heading = "Publishing"
    )]
    publish_rate: f64,
    /// Bytes of a message: 512, 4k
    #[arg(
        long,
        value_name = "BYTES",
        value_parser = units::parse_size_bytes,
        default_value = "128",
        help_heading = "Publishing"
    )]
    size: u64,
    /// Kept connections that publish
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        help_heading = "Publishing"
    )]
    publishers: u32,
    /// Choose channels at random instead of in turn
    #[arg(long, help_heading = "Publishing")]
    random: bool,
    /// The key of Centrifugo's server API
    #[arg(long, help_heading = "Publishing")]
    key: Option<String>,
    /// A header line of publications, `Name: value`; may be repeated
    #[arg(long, value_name = "LINE", value_parser = header, help_heading = "Publishing")]
    publish_header: Vec<(String, String)>,
    /// The template of a body or frame
    #[arg(long, default_value = "{payload}", help_heading = "Publishing")]
    body: String,
    /// The method of publications
    #[arg(long, default_value = "POST", help_heading = "Publishing")]
    method: String,
    /// Raise the rate until this promise breaks: p99<50ms
    #[arg(long, value_name = "CHECK", help_heading = "Search")]
    until: Option<Check>,
    /// How the rate grows from step to step: x2 or +500/s
    #[arg(
        long,
        value_name = "STEP",
        value_parser = Growth::parse,
        default_value = "x2",
        help_heading = "Search"
    )]
    step: Growth,
    /// How long each step is measured
    #[arg(
        long,
        value_name = "TIME",
        value_parser = units::parse_duration_us,
        default_value = "10s",
        help_heading = "Search"
    )]
    step_duration: u64,
    /// No rate above this
    #[arg(
        long,
        value_name = "RATE",
        value_parser = units::parse_rate_per_s,
        default_value = "10M/s",
        help_heading = "Search"
    )]
    rate_max: f64,
}

impl PublishArgs {
    /// The publications that go to a target.
    pub(super) fn publish(&self, target: &Target) -> Publish {
        let mut via = match self.form {
            Form::Plain => Via::plain(target),
            Form::Centrifugo => Via::centrifugo(target, self.key.as_deref()),
            Form::Grip => Via::grip(target),
            Form::Http => Via::Http {
                target: target.clone(),
                method: self.method.clone(),
                headers: Vec::new(),
                body: self.body.clone(),
            },
            Form::Websocket => Via::WebSocket {
                target: target.clone(),
                first_frames: Vec::new(),
                frame: self.body.clone(),
            },
        };
        if let Via::Http { headers, .. } = &mut via {
            headers.extend(self.publish_header.iter().cloned());
        }
        Publish {
            via,
            per_s: self.publish_rate,
            publishers: self.publishers,
            // Too small a size is refused with the scenario, with a sentence that says how small it
            // may be.
            size_bytes: usize::try_from(self.size).unwrap_or(usize::MAX),
            choose: if self.random {
                Choose::Random
            } else {
                Choose::RoundRobin
            },
            until: self.until.clone().map(|check| Until {
                check,
                growth: self.step,
                per_s_max: self.rate_max,
                step_us: self.step_duration,
            }),
        }
    }

    /// Whether a search is asked for.
    pub(super) const fn searches(&self) -> bool {
        self.until.is_some()
    }
}

/// What is spoken to this target if nobody says: the scheme tells.
pub(super) fn transport(speak: Option<Speak>, url: &str, opening: Opening) -> Result<Transport> {
    let websocket = url.starts_with("ws://") || url.starts_with("wss://");
    let speak = match speak {
        Some(speak) => speak,
        None if websocket => Speak::Websocket,
        None if url.starts_with("http") => Speak::Sse,
        None => {
            return Err(
                Failure::usage(format!("`{url}` does not say what is spoken")).advise(
                    "write ws:// or http://, or add --speak \
                         websocket|centrifugo|appwrite|sse|stream",
                ),
            );
        }
    };
    let dialect = match speak {
        Speak::Websocket => Dialect::Plain,
        Speak::Centrifugo => Dialect::Centrifugo {
            token: opening.token.clone(),
        },
        Speak::Appwrite => Dialect::Appwrite,
        Speak::Sse | Speak::Stream if !opening.first_frames.is_empty() => {
            return Err(Failure::usage("--first-frame needs a WebSocket"));
        }
        Speak::Sse => {
            return Ok(Transport::Sse {
                headers: opening.headers,
            });
        }
        Speak::Stream => {
            return Ok(Transport::HttpStream {
                headers: opening.headers,
                content_type: None,
            });
        }
    };
    if opening.token.is_some() && !matches!(speak, Speak::Centrifugo) {
        return Err(Failure::usage("--token belongs to --speak centrifugo")
            .advise("elsewhere write it into the URL or a --header"));
    }
    Ok(Transport::WebSocket {
        dialect,
        first_frames: opening.first_frames,
        headers: opening.headers,
        subprotocol: opening.subprotocol,
        ping_interval_us: opening.ping_interval_us,
    })
}

/// How a connection begins.
pub(super) struct Opening {
    pub(super) first_frames: Vec<String>,
    pub(super) headers: Vec<(String, String)>,
    pub(super) subprotocol: Option<String>,
    pub(super) token: Option<String>,
    pub(super) ping_interval_us: Option<u64>,
}

/// Refuses a scenario that makes no sense, before anything is opened.
pub(super) fn checked(scenario: Scenario) -> Result<Scenario> {
    let problems = scenario.problems();
    if problems.is_empty() {
        Ok(scenario)
    } else {
        Err(bad_scenario("this run makes no sense", problems))
    }
}

/// `Name: value`.
pub(super) fn header(line: &str) -> std::result::Result<(String, String), String> {
    line.split_once(':')
        .map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
        .ok_or_else(|| format!("`{line}` is not a header line; write `Name: value`"))
}

/// A message carries its number and its stamp, so it has a least size; it is the default's business
/// to be above it.
const _: () = assert!(MESSAGE_BYTES_MIN <= 128);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read() {
        assert_eq!(
            header("Origin: http://a"),
            Ok(("Origin".into(), "http://a".into()))
        );
        assert!(header("Origin").is_err());
    }
}
