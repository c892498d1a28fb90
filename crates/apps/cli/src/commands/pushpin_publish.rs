//! `throng pushpin-publish`: what scripts that call `pushpin-publish` need, to the letter of
//! its arguments and exit codes: 0 if the item was taken, 1 for anything else.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Map, Value, json};
use throng_grip::zmtp::{PeerLimits, SocketRole, ZmtpPeer, encode_message};

use crate::console;
use crate::exit::{Exit, Failure, Result};
use crate::http::{Endpoint, RequestError, TrustArgs, ask};
use crate::values::header;

/// An answer to a publish is a line.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// Wait for a ZeroMQ socket to answer the greeting.
const ZEROMQ_TIMEOUT: Duration = Duration::from_secs(10);

/// Publish an item over GRIP, with the arguments of `pushpin-publish`
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Channel that gets the item
    channel: String,
    /// Content of HTTP bodies and WebSocket messages; `@FILE` reads a file
    content: Option<String>,
    /// Id of the published item
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// The id of the item before it
    #[arg(long, value_name = "ID")]
    prev_id: Option<String>,
    /// Sender of the item, for the filter skip-self
    #[arg(long)]
    sender: Option<String>,
    /// The status of an HTTP response
    #[arg(long, default_value = "200")]
    code: u16,
    /// A header of an HTTP response
    #[arg(short = 'H', long, value_name = "K: V", value_parser = header)]
    header: Vec<(String, String)>,
    /// Meta variable of the item
    #[arg(short = 'M', long, value_name = "K=V", value_parser = meta)]
    meta: Vec<(String, String)>,
    /// Have clients ask their backend instead of getting content
    #[arg(long)]
    hint: bool,
    /// End streams and WebSockets
    #[arg(long)]
    close: bool,
    /// The content is a JSON patch for held responses
    #[arg(long)]
    patch: bool,
    /// Deliver at once, whatever comes before
    #[arg(long)]
    no_seq: bool,
    /// Put no line end behind HTTP payloads
    #[arg(long)]
    no_eol: bool,
    /// Address to publish at: a GRIP URL, or tcp://HOST:PORT of a ZeroMQ PULL socket
    #[arg(long, env = "GRIP_URL", default_value = "http://localhost:5561")]
    spec: String,
    /// Basic authentication; refused, because it needs https
    #[arg(short, long, value_name = "USER:PASS")]
    user: Option<String>,
}

/// Whether the command line names this command, whose mistakes end with 1.
pub(crate) fn is_asked_for() -> bool {
    std::env::args_os()
        .nth(1)
        .is_some_and(|command| command == "pushpin-publish")
}

fn meta(text: &str) -> std::result::Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Publishes one item to every place that was named.
pub(crate) fn run(args: &Args) -> Result {
    if args.user.is_some() {
        return Err(Failure::failed(
            "credentials are sent only over https, which this command does not support",
        ));
    }
    let item = item(args)?;
    if let Some(address) = args.spec.strip_prefix("tcp://") {
        push(address, &item)?;
    } else {
        post(&args.spec, &item)?;
    }
    console::print("Published\n")?;
    Ok(Exit::Good)
}

fn item(args: &Args) -> Result<Value> {
    let mut item = Map::new();
    item.insert("channel".to_owned(), args.channel.as_str().into());
    item.insert("formats".to_owned(), formats(args)?);
    if let Some(id) = &args.id {
        item.insert("id".to_owned(), id.as_str().into());
    }
    if let Some(id) = &args.prev_id {
        item.insert("prev-id".to_owned(), id.as_str().into());
    }
    if args.no_seq {
        item.insert("no-seq".to_owned(), true.into());
    }
    let mut meta: Map<String, Value> = Map::new();
    for (name, value) in &args.meta {
        meta.insert(name.clone(), value.as_str().into());
    }
    if let Some(sender) = &args.sender {
        meta.insert("sender".to_owned(), sender.as_str().into());
    }
    if !meta.is_empty() {
        item.insert("meta".to_owned(), meta.into());
    }
    Ok(item.into())
}

fn formats(args: &Args) -> Result<Value> {
    if args.close {
        let close = json!({ "action": "close" });
        return Ok(json!({ "http-stream": close, "ws-message": close }));
    }
    if args.hint {
        let hint = json!({ "action": "hint" });
        return Ok(json!({ "http-response": hint, "http-stream": hint, "ws-message": hint }));
    }
    let Some(content) = &args.content else {
        return Err(Failure::failed(
            "there is nothing to publish: give the content behind the channel",
        ));
    };
    let (content, is_file) = match content.strip_prefix('@') {
        Some(file) => {
            let text = std::fs::read_to_string(file);
            let text =
                text.map_err(|error| Failure::failed(format!("cannot read {file}: {error}")))?;
            (text, true)
        }
        None => (content.clone(), false),
    };
    let mut response = json!({ "code": args.code });
    if !args.header.is_empty() {
        response["headers"] = json!(args.header);
    }
    if args.patch {
        let patch: Value = serde_json::from_str(&content).map_err(|error| {
            Failure::failed(format!("the content is not a JSON patch: {error}"))
        })?;
        response["body-patch"] = patch;
        return Ok(json!({ "http-response": response }));
    }
    let end = if args.no_eol || is_file { "" } else { "\n" };
    let line = format!("{content}{end}");
    response["body"] = line.as_str().into();
    Ok(json!({
        "http-response": response,
        "http-stream": { "content": line },
        "ws-message": { "content": content },
    }))
}

fn post(spec: &str, item: &Value) -> Result<()> {
    // What stands behind the question mark names a key for the server's signatures.
    let url = spec.split('?').next().unwrap_or_default();
    let endpoint: Endpoint = url
        .parse()
        .map_err(|why: String| Failure::failed(format!("{spec}: {why}")))?;
    let body = json!({ "items": [item] }).to_string();
    let headers = [
        ("Content-Type", "application/json"),
        ("Connection", "close"),
    ];
    let lost = |fault: RequestError| Failure::failed(format!("cannot publish at {url}: {fault}"));
    let trust = TrustArgs::default();
    let body = Some(body.as_bytes());
    let answer = ask(&endpoint, &trust, "POST", "/publish/", &headers, body);
    let mut answer = answer.map_err(lost)?;
    let said = answer
        .read_all(ANSWER_BYTES_MAX)
        .map_err(|error| lost(error.into()))?;
    if answer.status == 200 {
        return Ok(());
    }
    let said = String::from_utf8_lossy(said.trim_ascii_end()).into_owned();
    Err(Failure::failed(format!(
        "{url} refused with status {}: {said}",
        answer.status
    )))
}

/// Sends the item to a PULL socket, as JSON behind a `J`.
fn push(address: &str, item: &Value) -> Result<()> {
    let lost = |error: std::io::Error| {
        Failure::failed(format!("cannot publish at tcp://{address}: {error}"))
    };
    let mut stream = TcpStream::connect(address).map_err(lost)?;
    stream
        .set_read_timeout(Some(ZEROMQ_TIMEOUT))
        .map_err(lost)?;
    let mut out = Vec::new();
    let mut peer = ZmtpPeer::new(SocketRole::Push, PeerLimits::default(), &mut out);
    let mut piece = [0; 1024];
    while !peer.is_ready() {
        stream.write_all(&out).map_err(lost)?;
        out.clear();
        let count = stream.read(&mut piece).map_err(lost)?;
        if count == 0 {
            return Err(Failure::failed(format!(
                "tcp://{address} ended the connection"
            )));
        }
        let fed = peer.feed(&piece[..count], &mut out, &mut Vec::new());
        fed.map_err(|fault| Failure::failed(format!("tcp://{address}: {fault}")))?;
    }
    encode_message(&[format!("J{item}")], &mut out);
    stream.write_all(&out).map_err(lost)?;
    // The other side reads all of it before it sees the end.
    stream.shutdown(std::net::Shutdown::Write).map_err(lost)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[track_caller]
    fn check(line: &[&str], expect: &str) {
        let line = Line::try_parse_from([&["throng"], line].concat());
        let found = line.map_or_else(
            |_| "usage".to_owned(),
            |line| match item(&line.args) {
                Ok(item) => item.to_string(),
                Err(failure) => format!("{:?}", failure.exit),
            },
        );
        assert_eq!(found, expect);
    }

    /// The items are what pushpin-publish 1.36.0 sends for the same arguments.
    #[test]
    fn items() {
        check(
            &["ch", "hello"],
            concat!(
                r#"{"channel":"ch","formats":{"http-response":{"body":"hello\n","code":200},"#,
                r#""http-stream":{"content":"hello\n"},"ws-message":{"content":"hello"}}}"#,
            ),
        );
        check(
            &[
                "--code",
                "404",
                "-H",
                "A: b",
                "-H",
                "C: d",
                "-M",
                "k=v",
                "--id",
                "2",
                "--prev-id",
                "1",
                "--sender",
                "me",
                "--no-eol",
                "--no-seq",
                "ch",
                "hello",
            ],
            concat!(
                r#"{"channel":"ch","formats":{"http-response":{"body":"hello","#,
                r#""code":404,"headers":[["A","b"],["C","d"]]},"#,
                r#""http-stream":{"content":"hello"},"ws-message":{"content":"hello"}},"id":"2","#,
                r#""meta":{"k":"v","sender":"me"},"no-seq":true,"prev-id":"1"}"#,
            ),
        );
        check(
            &["--close", "ch"],
            concat!(
                r#"{"channel":"ch","formats":{"http-stream":{"action":"close"},"#,
                r#""ws-message":{"action":"close"}}}"#,
            ),
        );
        check(
            &["--hint", "ch"],
            concat!(
                r#"{"channel":"ch","formats":{"http-response":{"action":"hint"},"#,
                r#""http-stream":{"action":"hint"},"ws-message":{"action":"hint"}}}"#,
            ),
        );
        check(
            &["--patch", "ch", r#"[{"op":"add"}]"#],
            concat!(
                r#"{"channel":"ch","formats":{"http-response":{"body-patch":[{"op":"add"}],"#,
                r#""code":200}}}"#,
            ),
        );
    }

    #[test]
    fn mistakes() {
        check(&["ch"], "Failed");
        check(&["--patch", "ch", "x"], "Failed");
        check(&["ch", "@/no/such/file"], "Failed");
        check(&["--code", "x", "ch", "y"], "usage");
        check(&["-H", "bad", "ch", "x"], "usage");
        check(&[], "usage");
    }
}
