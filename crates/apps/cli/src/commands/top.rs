//! `throng top`: a server's numbers, live, in the terminal.
//!
//! Reads the channel that the dashboard reads, on the API port: one sample a second while somebody
//! watches.

use std::io::IsTerminal as _;

use serde_json::Value;
use throng_types::fill::fill;

use crate::commands::publish::said;
use crate::console;
use crate::exit::{Exit, Failure, Result};
use crate::http::{Answer, ApiArgs, RequestError, no_api};
use crate::values::{count, span};

/// An answer that is no stream is a sentence.
const REFUSAL_BYTES_MAX: usize = 16 * 1024;
/// A sample has some two thousand bytes; what is longer is none.
const SAMPLE_BYTES_MAX: usize = 64 * 1024;
/// From the upper left corner over what was there.
const REDRAW: &str = "\x1b[H\x1b[J";

/// Show a server's numbers, live
///
/// A screen a second, on a terminal in place of the one before. Ctrl-C ends it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    server: ApiArgs,
    /// End after this many screens
    #[arg(long, value_name = "N", value_parser = count)]
    count: Option<u64>,
}

pub(crate) fn run(args: &Args) -> Result {
    let api = args.server.api.to_string();
    let lost = |fault: RequestError| no_api(format!("cannot watch {api}: {fault}"));
    let mut stream = args.server.get("/sse?channel=throng:stats").map_err(lost)?;
    if stream.status != 200 || stream.media_type() != "text/event-stream" {
        return Err(refused(&api, &mut stream));
    }
    let is_terminal = std::io::stdout().is_terminal();
    let mut left = args.count;
    let mut waiting = Vec::new();
    loop {
        let more = stream.read_some(|data| waiting.extend_from_slice(data));
        while let Some(end) = waiting.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = waiting.drain(..=end).collect();
            let sample = line.strip_prefix(b"data: ");
            let sample = sample.and_then(|json| serde_json::from_slice::<Value>(json).ok());
            // Other events are about the stream itself.
            let Some(sample) = sample.filter(|sample| sample.get("time_unix_ms").is_some()) else {
                continue;
            };
            let before = if is_terminal { REDRAW } else { "" };
            console::print(format!("{before}{}", screen(&api, &sample)))?;
            left = left.map(|left| left.saturating_sub(1));
            if left == Some(0) {
                return Ok(Exit::Good);
            }
        }
        if waiting.len() > SAMPLE_BYTES_MAX || !more.map_err(|error| lost(error.into()))? {
            let text = format!("{api} has ended the stream");
            return Err(Failure::unreachable(text));
        }
    }
}

fn refused(api: &str, stream: &mut Answer) -> Failure {
    let body = stream.read_all(REFUSAL_BYTES_MAX).unwrap_or_default();
    let text = format!("{api} refused: {}", said(stream.status, &body));
    let failure = Failure::refused(text);
    match stream.status {
        401 => failure.advise("give a key: --api-key KEY, or THRONG_API_KEY in the environment"),
        _ => failure.advise("is this the API port (by default 8001)?"),
    }
}

/// One sample as a screen of at most 80 columns.
fn screen(api: &str, sample: &Value) -> String {
    let is = |name: &str| sample[name] == true;
    let mut view = sample.clone();
    view["api"] = api.into();
    view["up"] = span(sample["uptime_s"].as_u64().unwrap_or(0)).into();
    view["state"] = match (is("draining"), is("accept_paused")) {
        (true, _) => "draining".into(),
        (_, true) => "paused: out of descriptors".into(),
        _ => "accepting".into(),
    };
    let kinds = sample["connections"].as_object().into_iter().flatten();
    let total: u64 = kinds.filter_map(|(_, count)| count.as_u64()).sum();
    view["total"] = total.into();
    fill(include_str!("top.txt"), &view)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_sample_fits_a_terminal() {
        let sample = json!({
            "time_unix_ms": 1, "uptime_s": 93_784, "version": "1.2.3", "pid": 4242, "shards": 2,
            "draining": false, "open_mode": true,
            "connections": {"websocket": 1_000_000, "sse": 20_000, "stream": 300, "http": 4},
            "connections_per_s": 12_345, "closed_per_s": 3, "refused_per_s": 0,
            "channels": 45, "subscriptions": 2_345_678, "publications_per_s": 100,
            "deliveries_per_s": 12_000_000, "bytes_out_per_s": 3_400_000, "bytes_in_per_s": 100,
            "dropped": {"close": 0, "drop-oldest": 12, "latest-only": 0}, "slow_consumers": 4,
            "history_bytes": 34_000, "history_publications": 120, "memory_bytes": 34_000_000,
            "cpu_percent": 12.3, "descriptors": {"open": 1_020_304, "max": 1_048_576},
            "accept_paused": false, "holds_connections": 1_000_000, "binds_first": "nofile",
            "turn_p99_us": 120,
        });
        let text = screen("http://127.0.0.1:8001", &sample);
        for part in [
            "Throng 1.2.3 at http://127.0.0.1:8001, up 1 d 2 h, 2 shards, pid 4242",
            "state        accepting, open mode",
            "connections  1,020,304   websocket 1,000,000, sse 20,000, stream 300, http 4",
            "this machine holds 1,000,000, nofile binds first",
            "100/s published, 12,000,000/s delivered",
            "12.3 % of a CPU, 1,020,304 of 1,048,576 descriptors",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
        // What a server of another version does not say is a dash, and no reason to stop.
        let little = screen("here", &json!({"time_unix_ms": 1}));
        assert!(little.contains("-/s published"), "{little}");
    }
}
