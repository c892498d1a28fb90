//! From `[proxy]` to what shards and the driver need.

use std::io;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use throng_centrifuge::proxy::{ProxyKind, ProxyRefusal};
use throng_config::{Config, Proxy as Section};
use throng_engine::MailboxSender;
use throng_gateway_centrifuge::{
    Backends, Centrifuge, Mail, NewBackends, ProxyOptions, Question, StatusMeaning,
};
use throng_grip::exchange::{OriginRequest, Rest};
use throng_grip::headers::Header;
use throng_grip::routes::{Route, Target};
use throng_origin::{AskLimits, Client, Origin, OriginOptions, WholeAnswer};
use throng_types::ConnId;

use crate::options::StartError;

/// Bytes of one answer.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Where one kind of questions goes.
struct Backend {
    kind: ProxyKind,
    route: Arc<Route>,
    host: String,
    path: String,
}

/// What all shards have in common.
#[derive(Clone)]
pub(crate) struct CentrifugePlan {
    options: ProxyOptions,
    backends: Arc<[Backend]>,
    authorization: Option<Arc<str>>,
    timeout_ms: u64,
    requests_max: usize,
}

/// What moves to one shard's thread.
pub(crate) struct CentrifugePart {
    options: ProxyOptions,
    driver: Box<dyn Backends + Send>,
}

/// What asks backends: one for as long as the server runs, from the first time that one is needed.
#[derive(Clone, Default)]
pub(crate) struct Asker(Arc<Mutex<Weak<Origin>>>);

impl Asker {
    fn origin(&self, requests_max: usize) -> io::Result<Arc<Origin>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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

impl CentrifugePart {
    /// What tells a shard that runs.
    pub(crate) fn into_mail(self) -> Mail {
        Mail::Renewed(self.options, Some(NewBackends(self.driver)))
    }

    /// The gateway, on its thread.
    pub(crate) fn gateway(self) -> Centrifuge {
        Centrifuge::with_backends(self.options, self.driver)
    }
}

impl CentrifugePlan {
    /// Reads the section, if it is there.
    pub(crate) fn new(config: &Config) -> Result<Option<Self>, StartError> {
        let Some(section) = &config.proxy else {
            return Ok(None);
        };
        let urls = urls(section).into_iter();
        let backends = urls.filter_map(|(kind, url)| Some(backend(kind, url?, section.timeout_ms)));
        let backends: Result<Vec<Backend>, StartError> = backends.collect();
        let backends = backends?;
        let statuses = section.status_codes.iter().map(|status| {
            let (code, text) = (status.code, status.text.as_str());
            let refusal = match status.is_disconnect {
                true => ProxyRefusal::disconnect(code, text),
                false => ProxyRefusal::error(code, text, status.is_temporary),
            };
            let wrong = || StartError::Proxy(format!("proxy.status_codes: no such code: {code}"));
            Ok(StatusMeaning {
                status: status.status,
                refusal: refusal.ok_or_else(wrong)?,
            })
        });
        Ok(Some(Self {
            options: ProxyOptions {
                kinds: backends.iter().map(|backend| backend.kind).collect(),
                http_headers: { section.http_headers.iter() }
                    .map(|name| name.as_str().into())
                    .collect(),
                is_binary: section.binary_encoding,
                sends_meta: section.include_connection_meta,
                statuses: statuses.collect::<Result<_, StartError>>()?,
            },
            backends: backends.into(),
            authorization: { section.authorization.as_ref() }.map(|text| text.expose().into()),
            timeout_ms: section.timeout_ms,
            requests_max: section.requests_max as usize,
        }))
    }

    /// Starts the driver, and gives each shard its part; `wrap` carries its mail in the server's.
    pub(crate) fn start<M: Send + 'static>(
        &self,
        driver: &Asker,
        mailboxes: &[MailboxSender<M>],
        wrap: impl Fn(Mail) -> M + Copy + Send + 'static,
    ) -> Result<Vec<CentrifugePart>, StartError> {
        let origin = driver
            .origin(self.requests_max)
            .map_err(StartError::Shard)?;
        let part = |mailbox: &MailboxSender<M>| CentrifugePart {
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

fn urls(section: &Section) -> [(ProxyKind, Option<&String>); 6] {
    [
        (ProxyKind::Connect, section.connect.as_ref()),
        (ProxyKind::Refresh, section.refresh.as_ref()),
        (ProxyKind::Subscribe, section.subscribe.as_ref()),
        (ProxyKind::Publish, section.publish.as_ref()),
        (ProxyKind::SubRefresh, section.sub_refresh.as_ref()),
        (ProxyKind::Rpc, section.rpc.as_ref()),
    ]
}

fn backend(kind: ProxyKind, url: &str, timeout_ms: u64) -> Result<Backend, StartError> {
    let wrong = |fault: &str| StartError::Proxy(format!("proxy.{}: {fault}", kind.name()));
    let (scheme, rest) = url.split_once("://").ok_or_else(|| wrong("it is no URL"))?;
    let (host, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let target = Target::from_url(&format!("{scheme}://{host}"))
        .map_err(|fault| wrong(&fault.to_string()))?;
    Ok(Backend {
        kind,
        host: host.to_owned(),
        path: match path.starts_with('/') {
            true => path.to_owned(),
            false => format!("/{path}"),
        },
        route: Arc::new(Route {
            connect_timeout_ms: timeout_ms,
            response_timeout_ms: timeout_ms,
            targets: vec![target],
            ..Route::default()
        }),
    })
}

/// The driver as the gateway sees it.
struct Driver<M, W> {
    client: Client,
    plan: CentrifugePlan,
    mailbox: MailboxSender<M>,
    wrap: W,
    /// Ends with the last shard.
    _origin: Arc<Origin>,
}

impl<M: Send + 'static, W: Fn(Mail) -> M + Copy + Send + 'static> Backends for Driver<M, W> {
    fn ask(&self, conn: ConnId, number: u32, question: Question) -> bool {
        let mut backends = self.plan.backends.iter();
        let Some(backend) = backends.find(|backend| backend.kind == question.kind) else {
            return false;
        };
        let mut headers = vec![
            Header::new("Host", backend.host.as_str()),
            Header::new("Content-Type", "application/json"),
        ];
        if let Some(authorization) = self.plan.authorization.as_deref() {
            headers.push(Header::new("Authorization", authorization));
        }
        let passed = question.headers.into_iter();
        headers.extend(passed.map(|(name, value)| Header::new(name, value.as_bytes())));
        let request = OriginRequest {
            route: backend.route.clone(),
            method: "POST".to_owned(),
            path: backend.path.clone(),
            headers,
            body: question.body,
            rest: Rest::Nothing,
        };
        let limits = AskLimits {
            bytes_max: ANSWER_BYTES_MAX,
            timeout_ms: self.plan.timeout_ms,
        };
        let wrap = self.wrap;
        let read = move |answer: WholeAnswer| {
            if let Err(failure) = &answer {
                tracing::warn!("a backend was asked in vain: {}", failure.detail);
            }
            wrap(Mail::Answered {
                conn,
                number,
                answer: answer.ok(),
            })
        };
        let mailbox = self.mailbox.clone();
        let asked = { &self.client }.ask(request, limits, read, move |mail| mailbox.send(mail));
        if let Err(failure) = &asked {
            tracing::warn!("a backend was not asked: {}", failure.detail);
        }
        asked.is_ok()
    }
}
