//! HTTP for commands that talk to a server: where it is, whom to believe, one blocking exchange.
//! Connecting may take ten seconds ([`ANSWER_TIMEOUT`]), and so may each wait for bytes of the
//! answer.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};

use rustix::net::sockopt;
use throng_bench_plan::TlsTrust;
use throng_client::{ExchangeError, Http2Stream, IncomingResponse, ResponseReadError, Target};
use throng_http1::encode_request;
use throng_http1::query::encode;
use throng_tls::{Authorities, ClientTls, TlsFault, TlsStream, Trust};
use throng_types::Millis;
use throng_ws::handshake::{self, UpgradeError};

use crate::exit::Failure;

/// Longest time for connecting to one address, and for each wait for bytes of an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Answer of a server whose head has arrived.
pub(crate) type Answer = IncomingResponse<Stream>;

/// The address of a server: `http://127.0.0.1:8001`. The path is what stands before our own paths:
/// empty, or `/behind/a/proxy` without a slash at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    at: Target,
    /// Speaks HTTP/2 instead of HTTP/1.1.
    speaks_http2: bool,
}

impl Endpoint {
    /// Returns the value of the header `Host`.
    pub(crate) fn authority(&self) -> String {
        self.at.authority()
    }

    /// Returns the address of one of our paths, for the load generator.
    pub(crate) fn at(&self, path: &str) -> Target {
        self.at.with_path(&self.target(path))
    }

    /// Returns the target of a request for one of our paths.
    pub(crate) fn target(&self, path: &str) -> String {
        format!("{}{path}", self.at.path)
    }

    /// Returns the endpoint with this path, if it has none of its own.
    pub(crate) fn or_path(mut self, path: &str) -> Self {
        if self.at.path.is_empty() {
            path.clone_into(&mut self.at.path);
        }
        self
    }

    /// Returns the endpoint for requests by HTTP/2: by TLS, or with prior knowledge.
    pub(crate) const fn with_http2(mut self, speaks_http2: bool) -> Self {
        self.speaks_http2 = speaks_http2;
        self
    }
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(url: &str) -> Result<Self, String> {
        let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
        if !["http", "https"]
            .iter()
            .any(|known| scheme.eq_ignore_ascii_case(known))
        {
            return Err(format!(
                "{scheme}:// is not understood, expected http:// or https://"
            ));
        }
        let target = Target::parse(&format!("{scheme}://{rest}")).ok();
        let mut target = target
            .filter(|_| !rest.contains('?'))
            .ok_or("expected an address such as http://127.0.0.1:8000")?;
        let base_bytes = target.path.trim_end_matches('/').len();
        target.path.truncate(base_bytes);
        Ok(Self {
            at: target,
            speaks_http2: false,
        })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.at.fmt(f)
    }
}

/// Encodes a query string of names and values, with its question mark.
pub(crate) fn query<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut out = String::new();
    for (name, value) in pairs {
        out.push(if out.is_empty() { '?' } else { '&' });
        encode(name, &mut out);
        out.push('=');
        encode(value, &mut out);
    }
    out
}

/// Authorities that are trusted for TLS.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct TrustArgs {
    /// With https:// or wss://, accept any certificate
    #[arg(long, conflicts_with = "ca")]
    pub(crate) insecure: bool,
    /// With https:// or wss://, accept certificates of these authorities instead of this machine's:
    /// a PEM file
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
}

impl TrustArgs {
    /// Reads the file of authorities; none if there is none. An error names the flag.
    pub(crate) fn pem(&self) -> io::Result<Option<String>> {
        let Some(file) = &self.ca else {
            return Ok(None);
        };
        let read = std::fs::read_to_string(file);
        read.map(Some).map_err(|error| self.ca_error(&error))
    }

    /// Reads the certificates that connections of the load generator accept.
    pub(crate) fn of_run(&self) -> Result<TlsTrust, Failure> {
        let pem = self.pem();
        Ok(TlsTrust {
            insecure: self.insecure,
            authorities: pem.map_err(|error| Failure::usage(error.to_string()))?,
        })
    }

    fn ca_error(&self, why: &dyn fmt::Display) -> io::Error {
        let file = self.ca.as_deref().unwrap_or_else(|| Path::new(""));
        io::Error::other(format!("--ca {}: {why}", file.display()))
    }

    fn trust(&self) -> io::Result<Trust> {
        if self.insecure {
            return Ok(Trust::Anybody);
        }
        Ok(Trust::Of(match self.pem()? {
            Some(pem) => {
                Authorities::read(pem.as_bytes()).map_err(|error| self.ca_error(&error))?
            }
            None => Authorities::of_this_machine(),
        }))
    }
}

/// Address and credentials of the server API; a key goes with each request.
#[derive(Debug, clap::Args)]
pub(crate) struct ApiArgs {
    /// Address of the server API
    #[arg(
        long,
        value_name = "URL",
        env = "THRONG_API_URL",
        default_value = "http://127.0.0.1:8001"
    )]
    pub(crate) api: Endpoint,
    /// A key of the server API (one of auth.api_keys)
    #[arg(
        long,
        value_name = "KEY",
        env = "THRONG_API_KEY",
        hide_env_values = true
    )]
    pub(crate) api_key: Option<String>,
    #[command(flatten)]
    pub(crate) trust: TrustArgs,
}

impl ApiArgs {
    fn key(&self) -> Option<(&str, &str)> {
        self.api_key.as_deref().map(|key| ("X-API-Key", key))
    }

    /// Asks for a document, or a stream that never ends.
    pub(crate) fn get(&self, target: &str) -> Result<Answer, RequestError> {
        let headers = [("Cache-Control", "no-store")].into_iter();
        let headers: Vec<(&str, &str)> = headers.chain(self.key()).collect();
        ask(&self.api, &self.trust, "GET", target, &headers, None)
    }

    /// Adds what to do about a key that is missing or wrong.
    pub(crate) fn advise_key(&self, status: u16, failure: Failure) -> Failure {
        match (status, &self.api_key) {
            (401 | 403, None) => {
                failure.advise("give a key: --api-key KEY, or THRONG_API_KEY in the environment")
            }
            (401, Some(_)) => failure.advise("is the key one of auth.api_keys?"),
            _ => failure,
        }
    }

    /// Makes a call, on a connection of its own. Returns the status, and `bytes_max` of the
    /// answer's body.
    pub(crate) fn post(
        &self,
        target: &str,
        content: Option<(&str, &str)>,
        body: &[u8],
        bytes_max: usize,
    ) -> Result<(u16, Vec<u8>), RequestError> {
        let headers = content.into_iter().chain([("Connection", "close")]);
        let headers: Vec<(&str, &str)> = headers.chain(self.key()).collect();
        let mut answer = ask(&self.api, &self.trust, "POST", target, &headers, Some(body))?;
        Ok((answer.status, answer.read_all(bytes_max)?))
    }
}

/// Makes the failure of a command that the server API did not answer.
pub(crate) fn no_api(what: String) -> Failure {
    Failure::unreachable(what)
        .advise("is the server running, and is its API elsewhere? --api http://HOST:PORT")
}

/// Reason why there is no answer, or no more of it.
#[derive(Debug)]
pub(crate) enum RequestError {
    /// The name has no address.
    Resolve(io::Error),
    /// The connection was not accepted.
    Connect(io::Error),
    /// No handshake came about.
    Tls(io::Error),
    /// The connection broke while reading or writing.
    Io(io::Error),
    /// The answer is not HTTP as we know it, or it ended in the middle.
    Answer(ResponseReadError),
    /// The answer does not open the WebSocket that was asked for.
    Upgrade(UpgradeError),
}

impl From<ExchangeError> for RequestError {
    fn from(error: ExchangeError) -> Self {
        match error {
            ExchangeError::Io(error) => Self::Io(error),
            ExchangeError::Answer(error) => Self::Answer(error),
        }
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resolve(error) => write!(f, "the host name cannot be resolved: {error}"),
            Self::Connect(error) if error.kind() == ErrorKind::ConnectionRefused => {
                f.write_str("connection refused")
            }
            Self::Connect(error) if is_timeout(error) => f.write_str("the connection timed out"),
            Self::Connect(error) => write!(f, "cannot connect: {error}"),
            Self::Tls(error) if is_plain(error) => {
                f.write_str("TLS failed: the port speaks without it; write http://")
            }
            Self::Tls(error) => write!(f, "TLS failed: {error}"),
            Self::Io(error) if is_timeout(error) => {
                write!(f, "no answer within {} s", ANSWER_TIMEOUT.as_secs())
            }
            Self::Io(error) => write!(f, "the connection broke: {error}"),
            Self::Answer(fault) => fault.fmt(f),
            Self::Upgrade(fault) => write!(f, "the answer is not a WebSocket: {fault}"),
        }
    }
}

/// Whether the other side does not speak TLS.
pub(crate) fn is_plain(error: &io::Error) -> bool {
    let fault = { error.get_ref() }.and_then(|fault| fault.downcast_ref::<TlsFault>());
    fault.is_some_and(TlsFault::is_plain)
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Sends a request for one of our paths and waits for the head of the answer.
pub(crate) fn ask(
    endpoint: &Endpoint,
    trust: &TrustArgs,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Option<&[u8]>,
) -> Result<Answer, RequestError> {
    let (target, host) = (endpoint.target(path), endpoint.authority());
    let mut wire = Vec::new();
    encode_request(method, &target, &host, headers, body, &mut wire);
    send(endpoint, trust, &wire)
}

/// Sends a request that is encoded already, such as one for an upgrade.
pub(crate) fn send(
    endpoint: &Endpoint,
    trust: &TrustArgs,
    wire: &[u8],
) -> Result<Answer, RequestError> {
    let socket = connect(endpoint)?;
    socket
        .set_read_timeout(Some(ANSWER_TIMEOUT))
        .map_err(RequestError::Io)?;
    let stream = Stream::over(socket, endpoint, trust).map_err(RequestError::Tls)?;
    Ok(IncomingResponse::send(stream, wire)?)
}

/// Asks for a WebSocket (RFC 6455 section 4.1). A refusal is an answer like any other.
pub(crate) fn upgraded(
    server: &Endpoint,
    trust: &TrustArgs,
    path: &str,
    headers: &[(&str, &str)],
) -> Result<Answer, RequestError> {
    let (high, low) = (throng_sys::random::seed(), throng_sys::random::seed());
    let key = match server.speaks_http2 {
        true => throng_http2::UPGRADE_KEY,
        false => (u128::from(high) << 64 | u128::from(low)).to_be_bytes(),
    };
    let (host, target) = (server.authority(), server.target(path));
    let mut wire = Vec::new();
    handshake::encode_request(&host, &target, key, headers, &mut wire);
    let exchange = send(server, trust, &wire)?;
    match handshake::check_response(exchange.status, |name| exchange.header(name), key) {
        Ok(()) | Err(UpgradeError::Status(_)) => Ok(exchange),
        Err(fault) => Err(RequestError::Upgrade(fault)),
    }
}

fn connect(Endpoint { at: target, .. }: &Endpoint) -> Result<TcpStream, RequestError> {
    let addresses = (target.host.as_str(), target.port).to_socket_addrs();
    let mut last = io::Error::from(ErrorKind::NotFound);
    for address in addresses.map_err(RequestError::Resolve)? {
        match TcpStream::connect_timeout(&address, ANSWER_TIMEOUT) {
            Ok(stream) => {
                // A request leaves in one piece and waits for nothing; without this the answer is
                // no slower.
                let _ = stream.set_nodelay(true);
                notice_dead_peers(&stream);
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(RequestError::Connect(last))
}

/// A peer that lost its power sends nothing, which looks like a quiet channel. The kernel asks it
/// from time to time, and the read ends with an error if there is no answer.
fn notice_dead_peers(stream: &TcpStream) {
    const IDLE: Duration = Duration::from_secs(30);
    const INTERVAL: Duration = Duration::from_secs(10);
    const PROBES: u32 = 3;
    // Without it everything works as long as nobody loses power.
    let _ = sockopt::set_socket_keepalive(stream, true);
    let _ = sockopt::set_tcp_keepidle(stream, IDLE);
    let _ = sockopt::set_tcp_keepintvl(stream, INTERVAL);
    let _ = sockopt::set_tcp_keepcnt(stream, PROBES);
}

trait Duplex: Read + Write {}

impl<T: Read + Write> Duplex for T {}

/// Connection to a server: plain, or by TLS.
pub(crate) struct Stream {
    socket: TcpStream,
    bytes: Box<dyn Duplex>,
}

impl Stream {
    /// Performs the TLS handshake, if the endpoint speaks TLS.
    fn over(socket: TcpStream, endpoint: &Endpoint, trust: &TrustArgs) -> io::Result<Self> {
        let (target, wire) = (&endpoint.at, socket.try_clone()?);
        let mut bytes: Box<dyn Duplex> = if target.tls {
            let tls = ClientTls::new(&target.host, &trust.trust()?, false);
            let tls = tls.map_err(io::Error::other)?;
            let tls = match endpoint.speaks_http2 {
                true => tls.with_http2(),
                false => tls,
            };
            Box::new(TlsStream::connect(wire, &tls)?)
        } else {
            Box::new(wire)
        };
        if endpoint.speaks_http2 {
            let begun = Instant::now();
            let clock = move || Millis(begun.elapsed().as_millis() as u64);
            bytes = Box::new(Http2Stream::new(bytes, target.tls, clock));
        }
        Ok(Self { socket, bytes })
    }

    /// Waits for the next bytes however long it takes: events come when they come.
    pub(crate) fn wait_forever(&self) -> io::Result<()> {
        self.socket.set_read_timeout(None)
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.bytes.read(into)
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.bytes.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(url: &str, expect: Option<(&str, u16, &str)>) {
        let got = url.parse::<Endpoint>().ok();
        let got = got
            .as_ref()
            .map(|Endpoint { at, .. }| (at.host.as_str(), at.port, at.path.as_str()));
        assert_eq!(got, expect, "{url}");
    }

    #[test]
    fn addresses_are_taken_apart() {
        check("http://127.0.0.1:8001", Some(("127.0.0.1", 8001, "")));
        check("HTTP://push.example/", Some(("push.example", 80, "")));
        check("http://[::1]:8001/", Some(("::1", 8001, "")));
        check("http://[::1]", Some(("::1", 80, "")));
        check("localhost:8001", Some(("localhost", 8001, "")));
        check("http://a/b/c/", Some(("a", 80, "/b/c")));
        check("https://a/b", Some(("a", 443, "/b")));
        for url in [
            "",
            "http://",
            "http://:80",
            "http://a:0",
            "http://a:b",
            "http://a:99999",
            "http://[::1",
            "http://[::1]8001",
            "http://u@a",
            "http://a/?x",
            "http://a b",
            "ws://a",
        ] {
            check(url, None);
        }
    }

    #[test]
    fn an_address_reads_as_it_is_written() {
        for url in ["http://127.0.0.1:8001", "http://[::1]/x", "https://a/b"] {
            assert_eq!(url.parse::<Endpoint>().unwrap().to_string(), url);
        }
    }

    #[test]
    fn queries_are_encoded() {
        assert_eq!(
            query([("channel", "a b"), ("channel", "ü&=")]),
            "?channel=a%20b&channel=%C3%BC%26%3D"
        );
        assert_eq!(query([]), "");
    }
}
