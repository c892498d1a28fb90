//! Importer of TCPKali's command line.
//!
//! Owns: its options, its units, its escapes and its `\{…}` expressions, as far as they mean
//! something here. Sources: TCPKali's manual page, and `--no-source-bind` of the fork that held a
//! million streams.
//!
//! `-T` means twice the time there: the ramp must end within it, and the hold lasts as long again.
//! Here the ramp takes what the connect rate needs, and `-T` is the hold.

use throng_types::units;

use super::Imported;
use crate::ports::parse_sources;
use crate::schedule::positive_rate;
use crate::template::escape;
use crate::{
    ClientTransport, Dialect, Marker, PeriodicMessage, Scenario, StatsdExport, Target, Workload,
};

/// Reads the arguments that would follow `tcpkali`. The first one that is not supported is refused
/// by name.
pub fn read_tcpkali(arguments: &[String]) -> Result<Imported, String> {
    let mut line = CommandLine::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if argument == "--" {
            continue;
        }
        if let Some(long) = argument.strip_prefix("--") {
            let inline = long.split_once('=');
            let (name, inline) = inline.map_or((long, None), |(name, value)| (name, Some(value)));
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

/// Reads `-e`, `-em text`, `-T2h`: letters without a value, the last one perhaps with.
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

struct CommandLine {
    targets: Vec<String>,
    clients: u64,
    connects_per_s: f64,
    websocket: bool,
    tls: bool,
    unescape: bool,
    first: Vec<String>,
    messages: Vec<String>,
    messages_per_s: Option<f64>,
    headers: Vec<(String, String)>,
    statsd: StatsdExport,
    sends_statsd: bool,
    scenario: Scenario,
    notes: Vec<String>,
}

impl CommandLine {
    fn new() -> Self {
        let transport = ClientTransport::websocket(Dialect::Plain);
        let mut scenario = Scenario::new(Workload::Hold, Vec::new(), transport);
        scenario.name = "tcpkali".into();
        scenario.connect_timeout_us = 1_000_000;
        scenario.replace_lost = true;
        Self {
            targets: Vec::new(),
            clients: 1,
            connects_per_s: 100.0,
            websocket: false,
            tls: false,
            unescape: false,
            first: Vec::new(),
            messages: Vec::new(),
            messages_per_s: None,
            headers: Vec::new(),
            statsd: StatsdExport {
                namespace: "tcpkali".into(),
                ..StatsdExport::default()
            },
            sends_statsd: false,
            scenario,
            notes: Vec::new(),
        }
    }

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
        let scenario = &mut self.scenario;
        match name {
            "-c" | "--connections" => self.clients = units::parse_count(value()?).map_err(named)?,
            "--connect-rate" => self.connects_per_s = positive_rate(value()?).map_err(named)?,
            "--connect-timeout" => {
                scenario.connect_timeout_us = time(value()?).map_err(named)?;
            }
            "-T" | "--duration" => scenario.hold_us = time(value()?).map_err(named)?,
            "--channel-lifetime" => {
                scenario.lifetime_us = Some(time(value()?).map_err(named)?);
            }
            "--delay-send" => scenario.warm_up_us = time(value()?).map_err(named)?,
            "--ws" | "--websocket" => self.websocket = true,
            "--ssl" => self.tls = true,
            "-e" | "--unescape-message-args" => self.unescape = true,
            "-1" | "--first-message" => {
                self.first
                    .push(message(value()?, self.unescape).map_err(named)?);
            }
            "-m" | "--message" => {
                self.messages
                    .push(message(value()?, self.unescape).map_err(named)?);
            }
            "-r" | "--message-rate" => {
                let text = value()?;
                if text.starts_with('@') {
                    return Err(format!(
                        "`{name} {text}`: a search for the rate is not supported here; `throng \
                         bench pub --until` does it"
                    ));
                }
                self.messages_per_s = Some(positive_rate(text).map_err(named)?);
            }
            "--message-marker" => scenario.marker = Marker::Tcpkali,
            "--source-ip" => {
                let sources = parse_sources(value()?).map_err(named)?;
                scenario.sources.extend(sources);
            }
            "-H" | "--header" => self.header(value()?)?,
            "--statsd" => self.sends_statsd = true,
            "--statsd-host" => self.statsd.host = value()?.to_owned(),
            "--statsd-port" => {
                self.statsd.port = value()?.parse().map_err(|_| named("not a port".into()))?;
            }
            "--statsd-namespace" => self.statsd.namespace = value()?.to_owned(),
            "--statsd-latency-window" => {
                self.statsd.latency_window_us = Some(time(value()?).map_err(named)?);
            }
            "--nagle" if value()? == "off" => {}
            "--nagle" => {
                return Err("`--nagle=on` is not supported: connections send without delay".into());
            }
            _ => {
                let (kind, text) = without_a_part(name);
                if kind == "refused" {
                    let refused = format!("the option `{name}` of tcpkali is not supported");
                    return Err(format!("{refused}: {text}"));
                }
                if kind == "value" {
                    value()?;
                }
                if !text.is_empty() {
                    self.notes.push(text.replace("NAME", name));
                }
            }
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
        for text in &self.targets {
            let mut target = Target::parse(text)?;
            target.tls |= self.tls;
            target.path = escape(&target.path);
            self.scenario.targets.push(target);
        }
        self.scenario.say = self.say()?;
        self.scenario.transport = self.transport()?;
        let (mut scenario, mut notes) = (self.scenario, self.notes);
        scenario.set_clients(self.clients, self.connects_per_s);
        scenario.statsd = self.sends_statsd.then_some(self.statsd);
        notes.push(format!(
            "-T is the hold: {:.0} s of ramp for {} connections come before it",
            scenario.arrivals.duration_us() as f64 / 1e6,
            scenario.clients
        ));
        match scenario.problems().into_iter().next() {
            Some(problem) => Err(problem.to_string()),
            None => Ok(Imported { scenario, notes }),
        }
    }

    fn say(&self) -> Result<Option<PeriodicMessage>, String> {
        let text = match self.messages.as_slice() {
            [] => return Ok(None),
            [_, _, ..] if self.websocket => {
                return Err("several `-m` with `--ws` are not supported: give one".into());
            }
            messages => messages.concat(),
        };
        let Some(per_s) = self.messages_per_s else {
            return Err(
                "`-m` without `-r` sends as fast as it can, which measures the generator; give \
                 `-r`"
                    .into(),
            );
        };
        Ok(Some(PeriodicMessage {
            text,
            every_us: (1e6 / per_s).round().max(1.0) as u64,
            count: None,
            size_bytes: crate::payload::MESSAGE_BYTES_MIN,
            binary: self.websocket,
        }))
    }

    fn transport(&mut self) -> Result<ClientTransport, String> {
        let first = std::mem::take(&mut self.first);
        if self.websocket {
            return Ok(ClientTransport::WebSocket {
                dialect: Dialect::Plain,
                first_frames: first,
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
        let expect_http = first.first().is_some_and(|text| is_http_request(text));
        if expect_http {
            let note = "the first message is an HTTP request: its answer must be 2xx to count as \
                        connected";
            self.notes.push(note.into());
        }
        Ok(ClientTransport::Raw { first, expect_http })
    }
}

/// Finds what an option of `tcpkali.txt` is, and the note or the reason that belongs to it.
fn without_a_part(name: &str) -> (&'static str, &'static str) {
    let rows = include_str!("tcpkali.txt").lines();
    let mut rows = rows.filter_map(|row| row.split_once(" | "));
    let row = rows.find(|(names, _)| names.split(' ').any(|known| known == name));
    let (_, what) = row.unwrap_or(("", "refused | it is unknown"));
    what.split_once(" | ").unwrap_or((what, ""))
}

fn is_http_request(text: &str) -> bool {
    let line = text.split("\r\n").next().unwrap_or_default();
    line.ends_with(" HTTP/1.1") || line.ends_with(" HTTP/1.0")
}

/// Reads a time; a bare number is in seconds.
fn time(text: &str) -> Result<u64, String> {
    let bare = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    units::parse_duration_us(&format!("{text}{}", if bare { "s" } else { "" }))
}

/// Turns a message with TCPKali's expressions and, after `-e`, its escapes into a template.
fn message(text: &str, unescape: bool) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut literal = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        literal.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        if let Some(body) = after.strip_prefix('{') {
            let close = body
                .find('}')
                .ok_or_else(|| format!("`\\{{{body}` is never closed"))?;
            out.push_str(&escape(&std::mem::take(&mut literal)));
            out.push_str(&expression(&body[..close])?);
            rest = &body[close + 1..];
        } else if unescape {
            let taken = unescaped(after, &mut literal)?;
            rest = &after[taken..];
        } else {
            literal.push('\\');
            rest = after;
        }
    }
    literal.push_str(rest);
    // A brace that ends one literal cannot become a hole together with what follows: holes are
    // closed by then.
    out.push_str(&escape(&literal));
    Ok(out)
}

/// Translates `connection.uid`, `connection.uid%1000`, `message.marker`.
fn expression(body: &str) -> Result<String, String> {
    let body = body.trim();
    if body == "message.marker" {
        return Ok("{payload}".into());
    }
    if let Some(argument) = body.strip_prefix("connection.uid") {
        let argument = argument.trim();
        let modulo = argument.strip_prefix('%').map(str::trim);
        if argument.is_empty() {
            return Ok("{n}".into());
        }
        if let Some(by) = modulo
            && by.parse::<u64>().is_ok_and(|by| by > 0)
        {
            return Ok(format!("{{n%{by}}}"));
        }
    }
    Err(format!(
        "the expression `\\{{{body}}}` of tcpkali is not supported; supported are connection.uid, \
         connection.uid%N and message.marker"
    ))
}

/// Reads one escape after its backslash; returns its length in bytes.
fn unescaped(after: &str, out: &mut String) -> Result<usize, String> {
    let Some(letter) = after.chars().next() else {
        return Err("a backslash at the end".into());
    };
    let plain = match letter {
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'f' => '\u{c}',
        'b' => '\u{8}',
        'a' => '\u{7}',
        '\\' | '"' | '\'' => letter,
        'x' => {
            let digits = after
                .chars()
                .skip(1)
                .take(2)
                .take_while(char::is_ascii_hexdigit);
            let digits: String = digits.collect();
            let code =
                u8::from_str_radix(&digits, 16).map_err(|_| "`\\x` without digits".to_owned())?;
            return push_ascii(code, 1 + digits.len(), out);
        }
        '0'..='7' => {
            let digits = after.chars().take(3).take_while(|c| c.is_digit(8));
            let digits: String = digits.collect();
            let code = u8::from_str_radix(&digits, 8)
                .map_err(|_| format!("`\\{digits}` is not a byte"))?;
            return push_ascii(code, digits.len(), out);
        }
        other => return Err(format!("the escape `\\{other}` is not supported")),
    };
    out.push(plain);
    Ok(letter.len_utf8())
}

fn push_ascii(code: u8, taken: usize, out: &mut String) -> Result<usize, String> {
    if !code.is_ascii() {
        return Err(format!(
            "the byte `\\x{code:02x}` is not supported: messages are UTF-8"
        ));
    }
    out.push(char::from(code));
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::proptest;

    use super::*;
    use crate::template::{HoleScope, Template};

    #[test]
    fn without_e_escapes_stay_and_expressions_work() {
        assert_eq!(message(r"a\r\{connection.uid}", false).unwrap(), r"a\r{n}");
        assert_eq!(
            message(r"{n}\{connection.uid % 7}{x}", true).unwrap(),
            "{{n}{n%7}{{x}"
        );
    }

    proptest! {
        #[test]
        fn no_message_panics_and_every_result_compiles(
            text in r"[\\{}a-znrx0-9.% ]{0,30}",
            unescape: bool,
        ) {
            if let Ok(template) = message(&text, unescape) {
                Template::compile(&template, HoleScope::Publish, None).unwrap();
            }
        }
    }
}
