//! `throng top`: a server's numbers, live, in the terminal.
//!
//! Reads the channel that the dashboard reads, on the API port: one sample a second while somebody
//! watches.

use std::fmt::Write as _;
use std::io::IsTerminal as _;

use serde_json::Value;
use throng_types::units::{format_bytes, format_us, grouped};

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
    let at = |path: &str| sample.pointer(path);
    let number = |path: &str| at(path).and_then(Value::as_u64);
    let dash = || "-".to_owned();
    let whole = |path: &str| number(path).map_or_else(dash, grouped);
    let bytes = |path: &str| number(path).map_or_else(dash, |n| format_bytes(n as f64));
    let flag = |path: &str| at(path).and_then(Value::as_bool) == Some(true);
    let kinds = ["websocket", "sse", "stream", "http"];
    let by_kind = kinds.map(|kind| format!("{kind} {}", whole(&format!("/connections/{kind}"))));
    let kinds = kinds.map(|kind| number(&format!("/connections/{kind}")).unwrap_or(0));
    let total: u64 = kinds.iter().sum();
    let holds = match (number("/holds_connections"), at("/binds_first")) {
        (Some(holds), Some(Value::String(first))) => {
            format!("this machine holds {}, {first} binds first", grouped(holds))
        }
        _ => "the capacity of this machine is not known".to_owned(),
    };
    let state = match (flag("/draining"), flag("/accept_paused")) {
        (true, _) => "draining",
        (_, true) => "paused: out of descriptors",
        _ => "accepting",
    };
    let access = if flag("/open_mode") {
        ", open mode"
    } else {
        ""
    };
    let turn = number("/turn_p99_us").map_or_else(dash, |us| format_us(us as f64));
    let cpu = at("/cpu_percent").and_then(Value::as_f64).unwrap_or(0.0);
    let version = at("/version").and_then(Value::as_str).unwrap_or("?");
    let rows = [
        ("state", format!("{state}{access}")),
        (
            "connections",
            format!("{}   {}", grouped(total), by_kind.join(", ")),
        ),
        (
            "",
            format!(
                "{}/s opened, {}/s closed, {}/s refused",
                whole("/connections_per_s"),
                whole("/closed_per_s"),
                whole("/refused_per_s")
            ),
        ),
        ("", holds),
        (
            "messages",
            format!(
                "{}/s published, {}/s delivered",
                whole("/publications_per_s"),
                whole("/deliveries_per_s")
            ),
        ),
        (
            "traffic",
            format!(
                "{}/s out, {}/s in",
                bytes("/bytes_out_per_s"),
                bytes("/bytes_in_per_s")
            ),
        ),
        (
            "channels",
            format!(
                "{}, with {} subscriptions",
                whole("/channels"),
                whole("/subscriptions")
            ),
        ),
        (
            "history",
            format!(
                "{} publications, {}",
                whole("/history_publications"),
                bytes("/history_bytes")
            ),
        ),
        (
            "slow",
            format!(
                "{} consumers; dropped: close {}, drop-oldest {}, latest-only {}",
                whole("/slow_consumers"),
                whole("/dropped/close"),
                whole("/dropped/drop-oldest"),
                whole("/dropped/latest-only")
            ),
        ),
        (
            "process",
            format!(
                "{}, {cpu:.1} % of a CPU, {} of {} descriptors",
                bytes("/memory_bytes"),
                whole("/descriptors/open"),
                whole("/descriptors/max")
            ),
        ),
        ("turn, p99", turn),
    ];
    let mut text = format!(
        "Throng {version} at {api}, up {}, {} shards, pid {}\n\n",
        span(number("/uptime_s").unwrap_or(0)),
        whole("/shards"),
        number("/pid").unwrap_or(0)
    );
    for (name, value) in rows {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name:<12} {value}");
    }
    text.push('\n');
    text
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
