//! Pushpin's `routes` file. Every option is understood or refused by its name: a route that
//! does less than its author believes is worse than none.

use std::net::Ipv6Addr;
use std::sync::Arc;

use throng_http1::origin::{Destination, OriginTarget, TargetAddress, TargetError};

use crate::headers::Header;
use crate::routes::{Domain, DuplicateRoute, Protocol, Route, Routes};

/// The most targets of a route.
pub(super) const TARGETS_MAX: usize = 100;

/// Fault of a line, by its cause.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteErrorKind {
    #[error("{0}")]
    Line(#[from] LineError),
    #[error("a condition needs at least one target")]
    NoTarget,
    #[error("a route has at most {TARGETS_MAX} targets")]
    TooManyTargets,
    #[error("the condition has neither a domain nor an id")]
    NoDomainOrId,
    #[error(
        "the domain '{0}' can match no host: it must stand without a port and without brackets"
    )]
    Domain(String),
    /// An option that Pushpin has and we have not.
    #[error("the option '{0}' is not supported: {1}")]
    Unsupported(String, &'static str),
    #[error("there is no option '{0}'")]
    Unknown(String),
    #[error("the option '{0}' must be {1}")]
    BadValue(&'static str, &'static str),
    #[error("{0}")]
    Target(#[from] TargetError),
    #[error("targets by ZeroMQ are not supported: '{0}'")]
    TargetZhttp(String),
    #[error("{0}")]
    Duplicate(#[from] DuplicateRoute),
}

impl RouteErrorKind {
    /// Tells whether Pushpin passes over such a line too, so that whoever comes from it loses
    /// nothing by going on without. Of any other line Pushpin makes a route that we cannot serve as
    /// it is.
    #[must_use]
    pub fn is_skipped(&self) -> bool {
        match self {
            Self::Line(_)
            | Self::NoTarget
            | Self::TooManyTargets
            | Self::NoDomainOrId
            | Self::Domain(_)
            | Self::Target(_)
            | Self::Duplicate(DuplicateRoute::Condition) => true,
            Self::BadValue(option, _) => matches!(*option, "proto" | "ssl" | "path_beg" | "header"),
            Self::Duplicate(DuplicateRoute::Id(_))
            | Self::Unsupported(..)
            | Self::Unknown(_)
            | Self::TargetZhttp(_) => false,
        }
    }
}

/// Fault of a line, with its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {kind}")]
pub struct RouteError {
    /// Number of the line, from 1.
    pub line: usize,
    /// Cause of the fault.
    pub kind: RouteErrorKind,
}

/// Content of a file: the routes that can be used, and the lines that cannot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoutesFile {
    pub routes: Routes,
    /// Why the other lines are not. Whoever starts a server may go on without those that
    /// [`RouteErrorKind::is_skipped`] names, and says so; whoever reloads keeps the old routes.
    pub faults: Vec<RouteError>,
}

#[must_use]
pub fn parse_routes(text: &str) -> RoutesFile {
    let mut out = RoutesFile::default();
    for (index, line) in text.lines().enumerate() {
        let added = parse_route_line(line).and_then(|route| match route {
            Some(route) => Ok(out.routes.add(route)?),
            None => Ok(()),
        });
        if let Err(kind) = added {
            let line = index + 1;
            out.faults.push(RouteError { line, kind });
        }
    }
    out
}

/// Reads one line, as `--route` gives it too. None if it is empty or a comment.
pub fn parse_route_line(line: &str) -> Result<Option<Route>, RouteErrorKind> {
    let sections = sections(line)?;
    let Some((condition, targets)) = sections.split_first() else {
        return Ok(None);
    };
    if targets.is_empty() {
        return Err(RouteErrorKind::NoTarget);
    }
    if targets.len() > TARGETS_MAX {
        return Err(RouteErrorKind::TooManyTargets);
    }
    let mut route = self::condition(condition)?;
    route.to = Arc::new(Destination {
        targets: targets.iter().map(target).collect::<Result<_, _>>()?,
        ..Destination::default()
    });
    if route.domain == Domain::None && route.id.is_none() {
        return Err(RouteErrorKind::NoDomainOrId);
    }
    Ok(Some(route))
}

/// Tells whether [`Routes::find`] could ever see this as a host: a colon is of an IPv6 address, or
/// of a port.
fn is_host(domain: &str) -> bool {
    let is_address = domain.parse::<Ipv6Addr>().is_ok();
    is_address || !domain.contains([':', '[', ']'])
}

/// Options of Pushpin's conditions and targets that are refused, each with the reason.
const UNSUPPORTED: [(&str, &str); 11] = [
    ("jsonp_mode", JSONP),
    ("jsonp_cb", JSONP),
    ("jsonp_body", JSONP),
    ("jsonp_defcb", JSONP),
    ("jsonp_defmethod", JSONP),
    ("sockjs", SOCKJS),
    ("sockjs_as_path", SOCKJS),
    ("session", "there is no state service to keep sessions"),
    ("client_cert", CLIENT_CERTIFICATES),
    ("client_key", CLIENT_CERTIFICATES),
    ("ipc_file_mode", "targets by ZeroMQ are not offered"),
];
const JSONP: &str = "JSON-P is not offered";
const SOCKJS: &str = "SockJS is not offered";
const CLIENT_CERTIFICATES: &str = "certificates of clients are not offered";

/// Fault of an option that is not understood.
fn refused(name: &str) -> RouteErrorKind {
    match UNSUPPORTED.iter().find(|(known, _)| *known == name) {
        Some((_, reason)) => RouteErrorKind::Unsupported(name.to_owned(), reason),
        None => RouteErrorKind::Unknown(name.to_owned()),
    }
}

fn condition(section: &Section) -> Result<Route, RouteErrorKind> {
    use RouteErrorKind::BadValue;
    let mut route = Route {
        domain: match section.value.as_str() {
            "" => Domain::None,
            "*" => Domain::Any,
            domain if !is_host(domain) => return Err(RouteErrorKind::Domain(domain.to_owned())),
            domain => Domain::Exact(domain.to_ascii_lowercase()),
        },
        ..Route::default()
    };
    let mut replace = None;
    for (name, value) in &section.options {
        match name.as_str() {
            "proto" => {
                route.protocol = Some(match value.as_str() {
                    "http" => Protocol::Http,
                    "ws" => Protocol::Ws,
                    _ => return Err(BadValue("proto", "'http' or 'ws'")),
                });
            }
            "ssl" => {
                route.is_tls = Some(match value.as_str() {
                    "yes" => true,
                    "no" => false,
                    _ => return Err(BadValue("ssl", "'yes' or 'no'")),
                });
            }
            "path_beg" if value.is_empty() => return Err(BadValue("path_beg", "a path")),
            "path_beg" => route.path_prefix.clone_from(value),
            "id" => route.id = Some(value.clone()).filter(|id| !id.is_empty()),
            "sig_iss" => route.sig_iss = Some(value.clone()),
            "sig_key" => route.sig_key = Some(value.clone()),
            "prefix" => route.channel_prefix.clone_from(value),
            "orig_headers" => route.orig_headers = true,
            "as_host" => route.as_host = Some(value.clone()),
            "path_rem" => {
                route.path_remove_bytes = value
                    .parse()
                    .map_err(|_| BadValue("path_rem", "a number of bytes"))?;
            }
            "replace_beg" => replace = Some(value),
            "debug" => route.debug = true,
            "aco" => route.auto_cross_origin = true,
            "header" => route.headers.push(header(value)?),
            "no_grip" => route.no_grip = true,
            "log_level" => {
                route.log_level = Some(
                    value
                        .parse()
                        .map_err(|_| BadValue("log_level", "a number"))?,
                );
            }
            _ => return Err(refused(name)),
        }
    }
    if let Some(prepend) = replace {
        // Takes off what the condition matched; without a condition it only puts in front.
        route.path_remove_bytes = route.path_prefix.len();
        route.path_prepend.clone_from(prepend);
    }
    Ok(route)
}

fn header(text: &str) -> Result<Header, RouteErrorKind> {
    match text.split_once(':') {
        Some((name, value)) if !name.is_empty() => {
            Ok(Header::new(name, value.trim_start_matches(' ')))
        }
        _ => Err(RouteErrorKind::BadValue("header", "name:value")),
    }
}

fn target(section: &Section) -> Result<OriginTarget, RouteErrorKind> {
    let address = match section.value.as_str() {
        "test" => TargetAddress::Test,
        zhttp if zhttp.starts_with("zhttp/") || zhttp.starts_with("zhttpreq/") => {
            return Err(RouteErrorKind::TargetZhttp(zhttp.to_owned()));
        }
        address => TargetAddress::parse(address)?,
    };
    let mut target = OriginTarget::new(address);
    for (name, value) in &section.options {
        match name.as_str() {
            "ssl" => target.tls = true,
            "untrusted" => target.trusted = false,
            // What a target is anyway; some files say it.
            "trusted" => {}
            "trust_connect_host" => target.trust_connect_host = true,
            "insecure" => target.insecure = true,
            "host" => target.host = Some(value.clone()),
            "sub" if value.is_empty() => {}
            "sub" => target.subscriptions.push(value.clone()),
            "over_http" => target.over_http = true,
            "one_event" => target.one_event = true,
            _ => return Err(refused(name)),
        }
    }
    Ok(target)
}

/// Why a line cannot be cut into words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    #[error("a quoted section does not end")]
    OpenQuote,
    #[error("an escape other than \\\\ and \\\"")]
    BadEscape,
    #[error("an option without a name")]
    EmptyOption,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Section {
    /// Text before the first comma; empty if that is an option already.
    pub(super) value: String,
    /// Names and values, in their order; an option without `=` has an empty value.
    pub(super) options: Vec<(String, String)>,
}

/// Cuts a line into words separated by spaces; `"..."` may stand anywhere in a word, `#` begins a
/// comment. An empty line or a comment has no words.
pub(super) fn sections(line: &str) -> Result<Vec<Section>, LineError> {
    let mut out: Vec<Section> = Vec::new();
    let mut rest = line;
    loop {
        // Pushpin takes spaces alone; a tab or a carriage return inside a word is never meant.
        rest = rest.trim_start_matches([' ', '\t', '\r']);
        if rest.is_empty() || rest.starts_with('#') {
            return Ok(out);
        }
        let mut section = Section::default();
        let mut is_first = true;
        loop {
            let (part, after) = part(rest)?;
            rest = after;
            match part.split_once('=') {
                None if is_first => section.value = part,
                None if part.is_empty() => return Err(LineError::EmptyOption),
                Some(("", _)) => return Err(LineError::EmptyOption),
                None => section.options.push((part, String::new())),
                Some((name, value)) => section.options.push((name.to_owned(), value.to_owned())),
            }
            is_first = false;
            match rest.strip_prefix(',') {
                Some(after) => rest = after,
                None => break,
            }
        }
        out.push(section);
    }
}

/// One part of a word, with quotes undone, and what follows it.
fn part(text: &str) -> Result<(String, &str), LineError> {
    let mut out = String::new();
    let mut quoted = false;
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => quoted = !quoted,
            '\\' if quoted => match chars.next() {
                Some((_, c @ ('\\' | '"'))) => out.push(c),
                Some(_) => return Err(LineError::BadEscape),
                None => return Err(LineError::OpenQuote),
            },
            ' ' | '\t' | '\r' | '#' | ',' if !quoted => return Ok((out, &text[at..])),
            c => out.push(c),
        }
    }
    if quoted {
        return Err(LineError::OpenQuote);
    }
    Ok((out, ""))
}
