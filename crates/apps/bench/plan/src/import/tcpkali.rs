//! TCPKali's command line.
//!
//! Owns: its options, its units, its escapes and its `\{…}` expressions, as far as they mean
//! something here. Facts: TCPKali's manual page, and `--no-source-bind` of the fork that held a
//! million streams.
//!
//! `-T` means twice the time there: the ramp must end within it, and the hold lasts as long again.
//! Here the ramp takes what the connect rate needs, and `-T` is the hold.

use std::net::IpAddr;

mod message;

use super::Imported;
use crate::template::escape;
use crate::{Dialect, Kind, Marker, Say, Scenario, StatsdExport, Target, Transport};
use throng_types::units;

use message::message;

#[cfg(test)]
mod tests;

/// Reads the arguments that would follow `tcpkali`. The first thing that is not supported is
/// refused by name.
pub fn read_tcpkali(arguments: &[String]) -> Result<Imported, String> {
    let mut line = CommandLine::default();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if argument == "--" {
            continue;
        }
        if let Some(long) = argument.strip_prefix("--") {
            let (name, inline) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (long, None),
            };
            line.option(&format!("--{name}"), inline, &mut rest)?;
        } else if argument.len() > 1 && argument.starts_with('-') {
            short_options(&mut line, &argument[1..], &mut rest)?;
        } else {
            line.targets.push(argument.clone());
        }
    }
    line.finish()
}

type Rest<'a> = std::slice::Iter<'a, String>;

/// `-e`, `-em text`, `-T2h`: letters without a value, the last one perhaps with.
fn short_options(line: &mut CommandLine, letters: &str, rest: &mut Rest<'_>) -> Result<(), String> {
    for (at, letter) in letters.char_indices() {
        let name = format!("-{letter}");
        if matches!(letter, 'e' | 'd' | 'h') {
            line.option(&name, None, rest)?;
            continue;
        }
        let inline = letters
            .get(at + letter.len_utf8()..)
            .filter(|text| !text.is_empty());
        return line.option(&name, inline, rest);
    }
    Ok(())
}

#[derive(Default)]
struct CommandLine {
    targets: Vec<String>,
    connections: Option<u64>,
    connect_rate: Option<f64>,
    connect_timeout_us: Option<u64>,
    duration_us: Option<u64>,
    lifetime_us: Option<u64>,
    delay_us: u64,
    websocket: bool,
    tls: bool,
    unescape: bool,
    first: Vec<String>,
    messages: Vec<String>,
    message_rate: Option<f64>,
    marker: bool,
    sources: Vec<IpAddr>,
    headers: Vec<(String, String)>,
    statsd: bool,
    statsd_host: Option<String>,
    statsd_port: Option<u16>,
    statsd_namespace: Option<String>,
    statsd_window_us: Option<u64>,
    notes: Vec<String>,
}

impl CommandLine {
    fn option(
        &mut self,
        name: &str,
        inline: Option<&str>,
        rest: &mut Rest<'_>,
    ) -> Result<(), String> {
        let mut value = || {
            inline
                .or_else(|| rest.next().map(String::as_str))
                .ok_or_else(|| format!("`{name}` needs a value"))
        };
        let named = |why: String| format!("`{name}`: {why}");
        match name {
            "-c" | "--connections" => {
                self.connections = Some(units::parse_count(value()?).map_err(named)?);
            }
            "--connect-rate" => self.connect_rate = Some(rate(value()?).map_err(named)?),
            "--connect-timeout" => self.connect_timeout_us = Some(time(value()?).map_err(named)?),
            "-T" | "--duration" => self.duration_us = Some(time(value()?).map_err(named)?),
            "--channel-lifetime" => self.lifetime_us = Some(time(value()?).map_err(named)?),
            "--delay-send" => self.delay_us = time(value()?).map_err(named)?,
            "--ws" | "--websocket" => self.websocket = true,
            "--ssl" => self.tls = true,
            "-e" | "--unescape-message-args" => self.unescape = true,
            "-1" | "--first-message" => {
                let text = value()?;
                self.first
                    .push(message(text, self.unescape).map_err(named)?);
            }
            "-m" | "--message" => {
                let text = value()?;
                self.messages
                    .push(message(text, self.unescape).map_err(named)?);
            }
            "-r" | "--message-rate" => {
                let text = value()?;
                if text.starts_with('@') {
                    return Err(format!(
                        "`{name} {text}`: a search for the rate is not supported here; `throng \
                         bench pub --until` does it"
                    ));
                }
                self.message_rate = Some(rate(text).map_err(named)?);
            }
            "--message-marker" => self.marker = true,
            "--source-ip" => {
                let sources =
                    crate::ports::parse_sources(value()?).map_err(|why| named(why.to_string()))?;
                self.sources.extend(sources);
            }
            "-H" | "--header" => self.header(value()?)?,
            "--statsd" => self.statsd = true,
            "--statsd-host" => self.statsd_host = Some(value()?.to_owned()),
            "--statsd-port" => {
                self.statsd_port = Some(value()?.parse().map_err(|_| named("not a port".into()))?);
            }
            "--statsd-namespace" => self.statsd_namespace = Some(value()?.to_owned()),
            "--statsd-latency-window" => {
                self.statsd_window_us = Some(time(value()?).map_err(named)?)
            }
            "--nagle" => {
                if value()? != "off" {
                    return Err(
                        "`--nagle=on` is not supported: connections send without delay".into(),
                    );
                }
            }
            "--no-source-bind" => self.notes.push(
                "--no-source-bind: the kernel chooses address and port unless source addresses \
                 are given"
                    .into(),
            ),
            "-w" | "--workers" => {
                value()?;
                self.notes.push(format!(
                    "`{name}` is left out: there is one thread for each \
                                         processor"
                ));
            }
            "-v" | "--verbose" => {
                value()?;
            }
            "--latency-connect" | "--latency-percentiles" => {
                if name.ends_with("percentiles") {
                    value()?;
                }
                self.notes
                    .push(format!("`{name}` is left out: the report has it anyway"));
            }
            _ => return Err(refusal(name)),
        }
        Ok(())
    }

    fn header(&mut self, text: &str) -> Result<(), String> {
        let Some((name, value)) = text.split_once(':') else {
            return Err(format!("`-H {text}` is not a header; write `Name: value`"));
        };
        let value = message(value.trim(), false)?;
        self.headers.push((name.trim().to_owned(), value));
        Ok(())
    }

    fn finish(mut self) -> Result<Imported, String> {
        if self.targets.is_empty() {
            return Err("there is no host:port to connect to".into());
        }
        let targets = self
            .targets
            .iter()
            .map(|text| {
                let mut target = Target::parse(text).map_err(|error| error.to_string())?;
                target.tls |= self.tls;
                target.path = escape(&target.path);
                Ok(target)
            })
            .collect::<Result<Vec<_>, String>>()?;
        let say = self.say()?;
        let transport = self.transport()?;
        let mut scenario = Scenario::new(Kind::Hold, targets, transport);
        scenario.name = "tcpkali".into();
        scenario.set_clients(
            self.connections.unwrap_or(1),
            self.connect_rate.unwrap_or(100.0),
        );
        scenario.connect_timeout_us = self.connect_timeout_us.unwrap_or(1_000_000);
        scenario.hold_us = self.duration_us.unwrap_or(10_000_000);
        scenario.warm_up_us = self.delay_us;
        scenario.lifetime_us = self.lifetime_us;
        scenario.replace_lost = true;
        scenario.sources = self.sources;
        scenario.say = say;
        if self.marker {
            scenario.marker = Marker::Tcpkali;
        }
        if self.statsd {
            scenario.statsd = Some(StatsdExport {
                host: self.statsd_host.unwrap_or_else(|| "127.0.0.1".into()),
                port: self.statsd_port.unwrap_or(8125),
                namespace: self.statsd_namespace.unwrap_or_else(|| "tcpkali".into()),
                latency_window_us: self.statsd_window_us,
            });
        }
        self.notes.push(format!(
            "-T is the hold: {:.0} s of ramp for {} connections come before it",
            scenario.arrivals.duration_us() as f64 / 1e6,
            scenario.clients
        ));
        if let Some(problem) = scenario.problems().into_iter().next() {
            return Err(problem.to_string());
        }
        Ok(Imported {
            scenario,
            notes: self.notes,
        })
    }

    fn say(&self) -> Result<Option<Say>, String> {
        let text = match self.messages.as_slice() {
            [] => return Ok(None),
            [text] => text.clone(),
            [_, _, ..] if self.websocket => {
                return Err("several `-m` with `--ws` are not supported: give one".into());
            }
            several => several.concat(),
        };
        let Some(per_s) = self.message_rate else {
            return Err(
                "`-m` without `-r` sends as fast as it can, which measures the generator; give \
                 `-r`"
                    .into(),
            );
        };
        Ok(Some(Say {
            text,
            every_us: (1e6 / per_s).round().max(1.0) as u64,
            count: None,
            size_bytes: crate::payload::MESSAGE_BYTES_MIN,
            binary: self.websocket,
        }))
    }

    fn transport(&mut self) -> Result<Transport, String> {
        if self.websocket {
            return Ok(Transport::WebSocket {
                dialect: Dialect::Plain,
                first_frames: std::mem::take(&mut self.first),
                headers: std::mem::take(&mut self.headers),
                subprotocol: None,
                ping_interval_us: None,
            });
        }
        if !self.headers.is_empty() {
            return Err(
                "`-H` without `--ws` has no request to stand in; write it into the message".into(),
            );
        }
        let expect_http = self.first.first().is_some_and(|text| is_http_request(text));
        if expect_http {
            self.notes.push(
                "the first message is an HTTP request: its answer must be 2xx to count as \
                 connected"
                    .into(),
            );
        }
        Ok(Transport::Raw {
            first: std::mem::take(&mut self.first),
            expect_http,
        })
    }
}

fn refusal(name: &str) -> String {
    let why = match name {
        "-l" | "--listen-port" | "--listen-mode" => "there is no listening side here",
        "--server" => "several machines work together with `throng bench agent`",
        "-f" | "--message-file" | "--first-message-file" => "give the text with `-m` or `-1`",
        "--latency-marker" | "--latency-marker-skip" | "--latency-first-byte" => {
            "latency is measured from markers in messages (`--message-marker`)"
        }
        "--message-stop" => "use `--check`",
        "--ssl-cert" | "--ssl-key" => "client certificates are not supported",
        "-d" | "--dump-one" | "--dump-one-in" | "--dump-one-out" | "--dump-all"
        | "--dump-all-in" | "--dump-all-out" | "--dump-file" => "traffic is not dumped",
        "--rcvbuf"
        | "--sndbuf"
        | "--write-combine"
        | "--channel-bandwidth-upstream"
        | "--channel-bandwidth-downstream" => "it has no counterpart here",
        _ => "it is unknown",
    };
    format!("the option `{name}` of tcpkali is not supported: {why}")
}

fn is_http_request(text: &str) -> bool {
    let line = text.split("\r\n").next().unwrap_or_default();
    line.ends_with(" HTTP/1.1") || line.ends_with(" HTTP/1.0")
}

/// A time; TCPKali reads a bare number as seconds.
fn time(text: &str) -> Result<u64, String> {
    let bare = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    if bare {
        units::parse_duration_us(&format!("{text}s"))
    } else {
        units::parse_duration_us(text)
    }
}

fn rate(text: &str) -> Result<f64, String> {
    let per_s = units::parse_rate_per_s(text)?;
    if per_s <= 0.0 {
        return Err(format!("`{text}` is not above zero"));
    }
    Ok(per_s)
}
