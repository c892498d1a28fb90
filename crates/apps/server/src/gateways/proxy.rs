//! From `[proxy]` to what shards and the driver need.

use std::io;
use std::sync::{Arc, Mutex, Weak};

use throng_backend::{Address, AnswerTo, AskLimits, WholeAnswer};
use throng_broker::BackendId;
use throng_centrifuge::proxy::{ProxyKind, ProxyRefusal, SERVICE};
use throng_config::{Config, Proxy as Section, ProxyStatus, Secret};
use throng_engine::MailboxSender;
use throng_http1::field::Header;
use throng_http1::origin::OriginRequest;
use throng_session::{
    BackendMail, BackendOptions, Backends, ProxyOptions, Question, StatusMeaning,
};
use throng_types::{ConnId, lock};

use super::GatewayMail;
use super::origin::{Client, Origin, OriginOptions};
use crate::options::StartError;
use crate::shard::ShardMail;

const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Backend of one kind of questions, or one with a name for all its questions.
struct Backend {
    id: BackendId,
    kind: Option<ProxyKind>,
    address: Address,
    is_grpc: bool,
    authorization: Option<Secret>,
    timeout_ms: u64,
}

#[derive(Clone)]
pub(crate) struct ProxyPlan {
    options: ProxyOptions,
    backends: Arc<[Backend]>,
    requests_max: usize,
}

/// Backends of one gateway on one shard, on their way to its thread.
pub(crate) struct ProxyPart {
    pub(super) options: ProxyOptions,
    pub(super) driver: Box<dyn Backends + Send>,
}

/// HTTP client of the backends: one for as long as it is in use, started when one is needed.
#[derive(Clone, Default)]
pub(crate) struct SharedClient(Arc<Mutex<Weak<Origin>>>);

impl SharedClient {
    fn origin(&self, requests_max: usize) -> io::Result<Arc<Origin>> {
        let mut known = lock(&self.0);
        if let Some(origin) = known.upgrade() {
            return Ok(origin);
        }
        let options = OriginOptions {
            requests_max,
            tunnels_max: 0,
            ..OriginOptions::default()
        };
        // Questions have whole answers; nothing comes in pieces.
        let origin = Arc::new(Origin::start(options, Arc::new(|_, _, _| Ok(())))?);
        *known = Arc::downgrade(&origin);
        Ok(origin)
    }
}

impl ProxyPlan {
    pub(crate) fn new(config: &Config) -> Result<Option<Self>, StartError> {
        let Some(section) = &config.proxy else {
            return Ok(None);
        };
        let mut backends = Vec::new();
        let (mut kinds, mut grpc) = (Vec::new(), Vec::new());
        for (kind, url) in urls(section) {
            let Some(url) = url else {
                continue;
            };
            let option = format!("proxy.{}", kind.name());
            kinds.push(kind);
            grpc.extend(is_grpc(url).then_some(kind));
            backends.push(Backend {
                id: BackendId::DEFAULT,
                kind: Some(kind),
                address: address(&option, url, section.timeout_ms)?,
                is_grpc: is_grpc(url),
                authorization: section.authorization.clone(),
                timeout_ms: section.timeout_ms,
            });
        }
        let mut options = vec![BackendOptions {
            http_headers: names(&section.http_headers),
            emulated_headers: names(&section.emulated_headers),
            is_binary: section.binary_encoding,
            sends_meta: section.include_connection_meta,
            statuses: statuses("proxy", &section.status_codes)?,
            grpc,
        }];
        let of = |names: &[String], id: BackendId| {
            let names: Vec<Box<str>> = names.iter().map(|name| name.as_str().into()).collect();
            names.into_iter().map(move |name| (name, id))
        };
        let mut rpc_namespaces: Vec<_> = of(&section.rpc_namespaces, BackendId::DEFAULT).collect();
        for (at, named) in section.backends.iter().enumerate() {
            let id = BackendId(u16::try_from(at + 1).unwrap_or(u16::MAX));
            let option = format!("proxy.backend[{at}]");
            let url = named.endpoint.as_deref().unwrap_or_default();
            backends.push(Backend {
                id,
                kind: None,
                address: address(&format!("{option}.endpoint"), url, named.timeout_ms)?,
                is_grpc: is_grpc(url),
                authorization: named.authorization.clone(),
                timeout_ms: named.timeout_ms,
            });
            options.push(BackendOptions {
                http_headers: names(&named.http_headers),
                emulated_headers: names(&named.emulated_headers),
                is_binary: named.binary_encoding,
                sends_meta: named.include_connection_meta,
                statuses: statuses(&option, &named.status_codes)?,
                grpc: { ProxyKind::ALL.into_iter() }
                    .filter(|_| is_grpc(url))
                    .collect(),
            });
            rpc_namespaces.extend(of(&named.rpc_namespaces, id));
        }
        Ok(Some(Self {
            options: ProxyOptions {
                kinds,
                backends: options,
                rpc_namespaces,
                is_traced: config.trace.otlp_url.is_some(),
            },
            backends: backends.into(),
            requests_max: section.requests_max as usize,
        }))
    }

    /// Starts the driver, and gives each shard its part of a gateway; `wrap` carries its mail in
    /// the server's.
    pub(crate) fn start(
        &self,
        driver: &SharedClient,
        mailboxes: &[MailboxSender<ShardMail>],
        wrap: fn(BackendMail) -> GatewayMail,
    ) -> Result<Vec<ProxyPart>, StartError> {
        let origin = driver
            .origin(self.requests_max)
            .map_err(StartError::Shard)?;
        let part = |mailbox: &MailboxSender<ShardMail>| ProxyPart {
            options: self.options.clone(),
            driver: Box::new(Driver {
                client: origin.client(),
                plan: self.clone(),
                mailbox: mailbox.clone(),
                wrap,
                _origin: origin.clone(),
            }),
        };
        Ok(mailboxes.iter().map(part).collect())
    }
}

fn urls(section: &Section) -> [(ProxyKind, Option<&String>); 7] {
    [
        (ProxyKind::Connect, section.connect.as_ref()),
        (ProxyKind::Refresh, section.refresh.as_ref()),
        (ProxyKind::Subscribe, section.subscribe.as_ref()),
        (ProxyKind::Publish, section.publish.as_ref()),
        (ProxyKind::SubRefresh, section.sub_refresh.as_ref()),
        (ProxyKind::Rpc, section.rpc.as_ref()),
        (ProxyKind::CacheEmpty, section.cache_empty.as_ref()),
    ]
}

/// Names of header fields, as they are compared.
fn names(names: &[String]) -> Vec<Box<str>> {
    let names = names.iter();
    names.map(|name| name.to_ascii_lowercase().into()).collect()
}

fn statuses(option: &str, given: &[ProxyStatus]) -> Result<Vec<StatusMeaning>, StartError> {
    let meaning = |status: &ProxyStatus| {
        let (code, text) = (status.code, status.text.as_str());
        let refusal = match status.is_disconnect {
            true => ProxyRefusal::disconnect(code, text),
            false => ProxyRefusal::error(code, text, status.is_temporary),
        };
        let wrong = || StartError::Proxy(format!("{option}.status_codes: no such code: {code}"));
        Ok(StatusMeaning {
            status: status.status,
            refusal: refusal.ok_or_else(wrong)?,
        })
    };
    given.iter().map(meaning).collect()
}

fn is_grpc(url: &str) -> bool {
    url.starts_with("grpc")
}

/// The place of a backend: `grpc://` is reached as `http://` is, `grpcs://` as `https://`.
fn address(option: &str, url: &str, timeout_ms: u64) -> Result<Address, StartError> {
    let url = match url.strip_prefix("grpc") {
        Some(rest) => format!("http{rest}"),
        None => url.to_owned(),
    };
    Address::from_url(&url, timeout_ms)
        .map_err(|fault| StartError::Proxy(format!("{option}: {fault}")))
}

/// The driver as the gateway sees it.
struct Driver {
    client: Client,
    plan: ProxyPlan,
    mailbox: MailboxSender<ShardMail>,
    wrap: fn(BackendMail) -> GatewayMail,
    /// Ends with the last shard.
    _origin: Arc<Origin>,
}

impl Backends for Driver {
    fn ask(&self, conn: ConnId, number: u32, question: Question) -> bool {
        let mut backends = self.plan.backends.iter();
        let is_it = |backend: &&Backend| {
            let is_asked = backend.kind.is_none_or(|kind| kind == question.kind);
            backend.id == question.to && is_asked
        };
        let Some(backend) = backends.find(is_it) else {
            return false;
        };
        let (is_grpc, kind) = (backend.is_grpc, question.kind);
        let mut headers = vec![
            Header::new("Host", backend.address.host.as_str()),
            Header::new(
                "Content-Type",
                match is_grpc {
                    true => "application/grpc",
                    false => "application/json",
                },
            ),
        ];
        if is_grpc {
            headers.push(Header::new("TE", "trailers"));
        }
        if let Some(authorization) = &backend.authorization {
            headers.push(Header::new("Authorization", authorization.expose()));
        }
        let mut passed = question.headers;
        // Our own fields are not taken from the client.
        passed.retain(|(name, _)| !headers.iter().any(|header| header.is(name)));
        let passed = passed.into_iter();
        headers.extend(passed.map(|(name, value)| Header::new(name, value.as_bytes())));
        let to = backend.address.to.clone();
        let path = match is_grpc {
            true => format!("{SERVICE}{}", kind.call()),
            false => backend.address.path.clone(),
        };
        let request = OriginRequest {
            body: question.body,
            ..OriginRequest::new(to, "POST", path, headers)
        };
        let limits = AskLimits {
            bytes_max: ANSWER_BYTES_MAX,
            timeout_ms: backend.timeout_ms,
        };
        let to = match is_grpc {
            true => AnswerTo::Message(limits),
            false => AnswerTo::Whole(limits),
        };
        let wrap = self.wrap;
        let read = move |answer: WholeAnswer| {
            let answer = answer.map_err(|failure| failure.detail);
            let answer = answer.and_then(|(status, body)| match is_grpc {
                true => match kind.answer_in_json(&body) {
                    Ok(json) => Ok((status, json)),
                    Err(fault) => Err(fault.to_string()),
                },
                false => Ok((status, body)),
            });
            let answer = answer.inspect_err(|why| tracing::warn!("proxy request failed: {why}"));
            ShardMail::to_gateway(wrap(BackendMail::Answered {
                conn,
                number,
                answer: answer.ok(),
            }))
        };
        let mailbox = self.mailbox.clone();
        #[expect(
            clippy::result_large_err,
            reason = "a mailbox gives back what it was given"
        )]
        let asked = { &self.client }.ask(request, to, read, move |mail| mailbox.send(mail));
        if let Err(failure) = &asked {
            tracing::warn!("proxy request was not sent: {}", failure.detail);
        }
        asked.is_ok()
    }
}
