//! The kinds whose values are addresses and URLs, written as TOML strings.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};

use serde_json::Value;
use throng_http1::origin::{OriginTarget, TargetAddress, TargetError};
use throng_proxy::Block;
use toml::de::DeValue;

use super::text::{TextKind as _, text_kinds};
use super::{Fault, Input, Kind, Rule, quoted, some_of};
use crate::secret::Secret;

text_kinds! {
    /// An IP address with a port.
    Address(
        SocketAddr, "address", "an IP address with a port, such as \"127.0.0.1:8000\" or \
        \"[::]:8000\"", |text| text.trim().parse().ok(), r":[0-9]+\s*$"
    );

    /// An address to listen on, in plain text, or by TLS if `tls://` stands before it.
    Listener(
        ListenAddress, "address", "an IP address with a port, such as \"127.0.0.1:8000\" or \
        \"[::]:8000\", with tls:// before it where TLS is to be spoken", |text| {
            let text = text.trim();
            let (address, is_tls) = match text.strip_prefix(TLS) {
                Some(address) => (address, true),
                None => (text, false),
            };
            Some(ListenAddress { address: address.parse().ok()?, is_tls })
        }, r":[0-9]+\s*$"
    );

    /// An IP address, or a block of them.
    AddressBlock(
        Block, "block", "an IP address or a block of them, such as \"10.0.0.0/8\" or \
        \"2001:db8::/32\"", |text| Block::parse(text.trim())
    );

    /// An address as `ZeroMQ` and its users write it: `tcp://` is optional, `*` stands for all
    /// interfaces.
    Endpoint(
        SocketAddr, "address", "an address such as \"127.0.0.1:5561\", \"tcp://127.0.0.1:5560\" or \
        \"tcp://*:5560\"", |text| {
            let text = text.trim();
            let text = text.strip_prefix("tcp://").unwrap_or(text);
            match text.strip_prefix("*:") {
                Some(port) => Some((Ipv4Addr::UNSPECIFIED, port.parse().ok()?).into()),
                None => text.parse().ok(),
            }
        }, r":[0-9]+\s*$"
    );

    /// A web origin (RFC 6454 section 6.1), `*` for all, or `scheme://*.domain` for all below a
    /// domain.
    WebOrigin(
        String, "origin", "a web origin such as \"https://app.example.com\", without a path, or \
        \"*\"", |text| {
            let text = text.trim();
            // Apps in web views have schemes of their own, such as `capacitor://localhost`.
            let is_origin = || {
                let (scheme, _) = text.split_once("://")?;
                let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
                let (_, after) = host_of(text, &[&format!("{scheme}://")])?;
                let is_scheme = !scheme.is_empty() && scheme.bytes().all(is_good);
                (is_scheme && after.is_empty()).then_some(())
            };
            (text == "*" || is_origin().is_some()).then(|| text.to_ascii_lowercase())
        }
    );

    /// The address of something that speaks HTTP.
    HttpUrl(
        String, "URL", "a URL that begins with http:// or https://, such as \
        \"http://127.0.0.1:9000\"", |text| dialed(text, &HTTP, "#"), r"^\s*https?://";
        |text| dial_advice(text, "#")
    );

    /// The address of something that speaks HTTP, to whose path more is added.
    BaseUrl(
        String, "URL", "a URL that begins with http:// or https://, such as \
        \"http://127.0.0.1:9000\"", |text| dialed(text, &HTTP, "?#"), r"^\s*https?://";
        |text| dial_advice(text, "?#")
    );

    /// The address of something that speaks HTTP, and gets the paths of requests.
    OriginUrl(
        String, "URL", "a URL that begins with http:// or https://, such as \
        \"http://127.0.0.1:9000\"", |text| dialed(text, &HTTP, "/?#"), r"^\s*https?://";
        |text| dial_advice(text, "/?#")
    );

    /// The address of a backend that is asked.
    AskUrl(
        String, "URL", "a URL that begins with http:// or https://, such as \
        \"http://127.0.0.1:9000\", or grpc://host:port or grpcs://host:port",
        |text| dialed(text, &HTTP, "#").or_else(|| dialed(text, &GRPC, "/?#")),
        r"^\s*(https?|grpcs?)://";
        |text| dial_advice(text, if text.trim().starts_with("grpc") { "/?#" } else { "#" })
    );

    /// The address of a Redis server. It may hold a password, so it is a secret.
    RedisUrl(
        Secret, "URL", "a URL such as \"redis://127.0.0.1:6379/0\", \
        \"rediss://user:password@host:6379\", \"unix:///run/redis.sock\" or \
        \"redis+sentinel://host:26379/mymaster\"", |text| {
            let text = text.trim();
            let elsewhere =
                ["unix:///", "redis+unix:///", "redis+sentinel://", "rediss+sentinel://"];
            if !has_rest(text, &elsewhere) {
                host_of(text, &["redis://", "rediss://"])?;
            }
            Some(Secret::from(text))
        }, "://"
    );

    /// Where the source of a feed is. It may hold a password, so it is a secret.
    FeedUrl(
        Secret, "URL", "a URL such as \"postgres://user:password@127.0.0.1:5432/database\"",
        |text| {
            let text = text.trim();
            let (scheme, rest) = text.split_once("://")?;
            let is_strange = |c: char| c.is_whitespace() || c.is_control();
            let is_good = !scheme.is_empty() && !rest.is_empty() && !rest.contains(is_strange);
            is_good.then(|| Secret::from(text))
        }, "://"
    );
}

/// An address to listen on, and what is spoken there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenAddress {
    pub address: SocketAddr,
    pub is_tls: bool,
}

impl From<SocketAddr> for ListenAddress {
    fn from(address: SocketAddr) -> Self {
        Self {
            address,
            is_tls: false,
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { TLS } else { "" };
        write!(f, "{scheme}{}", self.address)
    }
}

const TLS: &str = "tls://";

/// The addresses of Redis or NATS servers, with commas between. They may hold a password, so they
/// are a secret.
pub(crate) struct BrokerUrl;

impl BrokerUrl {
    fn of(text: &str) -> Option<Secret> {
        let text = text.trim();
        let is_nats = |server: &str| host_of(server.trim(), &["nats://", "tls://"]).is_some();
        if is_nats(text) {
            return text.split(',').all(is_nats).then(|| Secret::from(text));
        }
        let is_redis = |text: &str| {
            let clusters = ["redis+cluster://", "rediss+cluster://"];
            has_rest(text.trim(), &clusters) || RedisUrl::of(text).is_some()
        };
        // A comma within an address of Sentinels or of a cluster has no address behind it.
        let mut at = 0;
        while let Some(comma) = text.get(at..)?.find(',') {
            let (head, tail) = text.split_at_checked(at + comma)?;
            if tail.get(1..)?.trim_start().starts_with("redis") {
                Self::of(tail.get(1..)?)?;
                return is_redis(head).then(|| Secret::from(text));
            }
            at += comma + 1;
        }
        is_redis(text).then(|| Secret::from(text))
    }
}

impl Kind for BrokerUrl {
    type Field = Secret;
    const LIST: bool = true;

    fn name() -> String {
        "list of URLs".to_owned()
    }

    fn expected(_: &Rule) -> String {
        "a URL such as \"redis://user:password@127.0.0.1:6379/0\" or \"nats://127.0.0.1:4222\", or \
         several of one kind"
            .to_owned()
    }

    fn read(given: &Input<'_>, rule: &Rule) -> Result<Secret, Fault> {
        let text = match given {
            Input::Toml(value) => match value.get_ref() {
                DeValue::Array(items) => {
                    let items = items.iter().map(|item| item.get_ref().as_str());
                    items.collect::<Option<Vec<_>>>().map(|urls| urls.join(","))
                }
                other => other.as_str().map(str::to_owned),
            },
            Input::Text(text) => Some((*text).to_owned()),
        };
        { text.as_deref() }
            .and_then(Self::of)
            .map_or_else(|| Self::refuse(given, rule), Ok)
    }

    fn write(value: &Secret) -> Option<String> {
        Some(quoted(value.expose()))
    }

    fn schema(_: &Rule) -> Value {
        some_of(&FeedUrl::texts())
    }
}

/// Whether a text has one of the schemes and something behind it.
fn has_rest(text: &str, schemes: &[&str]) -> bool {
    let rest = { schemes.iter() }.find_map(|scheme| text.strip_prefix(scheme));
    rest.is_some_and(|rest| !rest.is_empty())
}

const HTTP: [&str; 2] = ["http://", "https://"];
const GRPC: [&str; 2] = ["grpc://", "grpcs://"];

/// The URL, if it has one of the schemes, what we connect to, and behind it nothing that begins
/// with one of the characters in `without`.
fn dialed(text: &str, schemes: &[&str], without: &str) -> Option<String> {
    let text = text.trim();
    let (host, after) = host_of(text, schemes)?;
    OriginTarget::from_url(&format!("http://{host}")).ok()?;
    let is_good = after == "/" || !after.contains(|c| without.contains(c));
    is_good.then(|| text.to_owned())
}

/// Names the part of a URL that [`dialed`] refuses.
fn dial_advice(text: &str, without: &str) -> Option<&'static str> {
    let (_, rest) = text.trim().split_once("://")?;
    let (host, after) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let port = TargetAddress::parse(host);
    Some(match () {
        _ if host.contains('@') => "leave out the user name and password",
        _ if port == Err(TargetError::Port) => "its port is a number from 1 to 65535",
        _ if after.contains('#') => "leave out the \"#\" and what follows it",
        _ if after.contains('?') && without.contains('?') => "leave out the query",
        _ if after.len() > 1 && without.contains('/') => "leave out the path",
        _ => return None,
    })
}

/// Host and what follows it, if the text has one of the schemes and its host is not empty.
fn host_of<'a>(text: &'a str, schemes: &[&str]) -> Option<(&'a str, &'a str)> {
    let rest = { schemes.iter() }.find_map(|scheme| text.strip_prefix(scheme))?;
    if rest.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return None;
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, after) = rest.split_at_checked(end)?;
    (!host.is_empty()).then_some((host, after))
}
