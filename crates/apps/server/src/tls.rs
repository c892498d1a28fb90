//! TLS on ports: certificates from files, what ports offer with them, and what becomes of
//! handshakes.
//!
//! Owns the files' last state; see [`Watched`]. Never: speaks TLS; the engine does.
//!
//! Invariant: certificates are replaced together or not at all.

use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Arc, Mutex};

use throng_config::{Config, Http2, ListenAddress, TlsRecords, TlsVersion};
use throng_engine::{TlsEvent, TlsNews};
use throng_metrics::{Counter, Counters, Gauge};
use throng_session::Work;
use throng_sys::clock;
use throng_tls::{
    Authorities, CertificateError, Certificates, MinVersion, RecordLayer, ServerTls, Site, TlsFault,
};
use throng_types::{Now, lock};

use crate::files::Stamp;
use crate::options::StartError;
use crate::shard::ShardApp;

/// A certificate and its key, as the configuration names them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Files {
    /// Empty for all names that have none.
    name: String,
    /// Section of the options: `tls` or `tls.site[0]`.
    section: String,
    certificate: String,
    key: String,
}

fn files(config: &Config) -> Vec<Files> {
    let tls = &config.tls;
    let other = tls.certificate.clone().zip(tls.key.clone());
    let other = other.map(|(certificate, key)| Files {
        name: String::new(),
        section: "tls".to_owned(),
        certificate,
        key,
    });
    let sites = tls.sites.iter().enumerate().map(|(index, site)| Files {
        name: site.name.clone(),
        section: format!("tls.site[{index}]"),
        certificate: site.certificate.clone(),
        key: site.key.clone(),
    });
    other.into_iter().chain(sites).collect()
}

/// A file's text, or why there is none.
fn text(option: &str, path: &str) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("{option}: cannot read {path}: {error}"))
}

impl Files {
    fn read(&self) -> Result<Site, String> {
        let option = format!("{}.certificate", self.section);
        let fault = |option: &str, path: &str, error: &CertificateError| {
            format!("{option}: {path}: {error}")
        };
        let certificate = Site::read_certificate(&self.name, &text(&option, &self.certificate)?)
            .map_err(|error| fault(&option, &self.certificate, &error))?;
        let option = format!("{}.key", self.section);
        certificate
            .with_key(&text(&option, &self.key)?)
            .map_err(|error| fault(&option, &self.key, &error))
    }

    fn findings(&self, site: &Site, now_s: i64) -> Vec<String> {
        let (section, certificate) = (&self.section, &self.certificate);
        let findings = site.findings(now_s).into_iter();
        let mut all: Vec<String> = findings
            .map(|finding| format!("{section}.certificate: {certificate}: {finding}"))
            .collect();
        let key = std::fs::metadata(&self.key);
        if key.is_ok_and(|key| key.mode() & 0o004 != 0) {
            let path = &self.key;
            all.push(format!(
                "{section}.key: {path}: everybody on this machine can read the key: chmod o-r"
            ));
        }
        all
    }

    fn stamps(&self) -> [Option<Stamp>; 2] {
        [&self.certificate, &self.key].map(|path| Stamp::of(path))
    }
}

fn authorities(config: &Config) -> Result<Option<Authorities>, String> {
    let Some(path) = &config.tls.api_client_authorities else {
        return Ok(None);
    };
    let option = "tls.api_client_authorities";
    let read = Authorities::read(&text(option, path)?);
    read.map(Some)
        .map_err(|error| format!("{option}: {path}: {error}"))
}

/// Reads the certificates, keys and authorities that a configuration names. Gives what an operator
/// should know of them, and what is wrong with them.
pub fn check_certificates(config: &Config) -> (Vec<String>, Vec<String>) {
    let (mut known, mut wrong) = (Vec::new(), Vec::new());
    for files in files(config) {
        match files.read() {
            Ok(site) => known.extend(files.findings(&site, now_s())),
            Err(fault) => wrong.push(fault),
        }
    }
    wrong.extend(authorities(config).err());
    (known, wrong)
}

fn now_s() -> i64 {
    (clock::unix_ms() / 1000) as i64
}

/// TLS of all ports, from the configuration at the start.
pub(crate) struct Tls {
    client: ServerTls,
    api: ServerTls,
    pub(crate) watched: Watched,
}

impl Tls {
    /// Reads what the configuration names; none if no port speaks TLS.
    pub(crate) fn load(
        config: &Config,
        counters: Arc<Counters>,
    ) -> Result<Option<Self>, StartError> {
        if !config.listeners().any(|listener| listener.is_tls) {
            return Ok(None);
        }
        let state = State::of(files(config)).read();
        let state = state.map_err(|(_, faults)| StartError::Tls(faults.join("\n")))?;
        let certificates = Certificates::new(&state.sites);
        let min_version = match config.tls.min_version {
            TlsVersion::Tls12 => MinVersion::Tls12,
            TlsVersion::Tls13 => MinVersion::Tls13,
        };
        let records = match config.tls.records {
            TlsRecords::Rustls => RecordLayer::Rustls,
            TlsRecords::Lean => RecordLayer::Lean,
        };
        let authorities = authorities(config).map_err(StartError::Tls)?;
        let offer = |clients: Option<&Authorities>| {
            ServerTls::new(&certificates, min_version, records, clients)
                .map_err(|error| StartError::Tls(format!("[tls]: {error}")))
        };
        let (client, api) = (offer(None)?, offer(authorities.as_ref())?);
        let watched = Watched {
            state: Mutex::new(state),
            certificates,
            counters,
        };
        watched.count_days(&lock(&watched.state));
        Ok(Some(Self {
            client,
            api,
            watched,
        }))
    }

    /// Returns each listener's TLS settings, in order; `None` without TLS.
    pub(crate) fn ports(&self, config: &Config) -> Vec<Option<ServerTls>> {
        let offer = |listener: &ListenAddress, tls: &ServerTls| {
            let is_proxied = config.listen.proxy_protocol.contains(&listener.address);
            listener.is_tls.then(|| {
                let tls = match config.listen.http2 {
                    Http2::Off => tls.clone(),
                    Http2::Tls | Http2::Plain => tls.clone().with_http2(),
                };
                match is_proxied {
                    true => tls.behind(proxy_header),
                    false => tls,
                }
            })
        };
        let clients = { config.listen.client.iter() }.map(|listener| offer(listener, &self.client));
        clients
            .chain([offer(&config.listen.api, &self.api)])
            .collect()
    }
}

/// Returns the length of a PROXY header, which proxies send before TLS; `None` while it is
/// incomplete.
fn proxy_header(bytes: &[u8]) -> Result<Option<usize>, &'static str> {
    match throng_proxy::parse(bytes) {
        Ok(header) => Ok(header.map(|header| header.length)),
        Err(fault) => Err(fault.reason()),
    }
}

/// The certificates that are shown, and the files that they came from.
pub(crate) struct Watched {
    state: Mutex<State>,
    certificates: Certificates,
    counters: Arc<Counters>,
}

/// Certificates as they were read last.
pub(crate) struct State {
    files: Vec<Files>,
    stamps: Vec<[Option<Stamp>; 2]>,
    sites: Vec<Site>,
}

impl State {
    /// The stamps are taken before the files are read: what changes meanwhile is seen later.
    fn of(files: Vec<Files>) -> Self {
        Self {
            stamps: files.iter().map(Files::stamps).collect(),
            files,
            sites: Vec::new(),
        }
    }

    /// Reads all files. Error: what is wrong with them, and the state without certificates.
    fn read(mut self) -> Result<Self, (Self, Vec<String>)> {
        let mut faults = Vec::new();
        for files in &self.files {
            match files.read() {
                Ok(site) => self.sites.push(site),
                Err(fault) => faults.push(fault),
            }
        }
        match faults.is_empty() {
            true => Ok(self),
            false => Err((self, faults)),
        }
    }
}

impl Watched {
    pub(crate) fn prepare(config: &Config) -> Result<State, Vec<String>> {
        let read = State::of(files(config)).read();
        read.map_err(|(_, faults)| faults)
    }

    /// Shows them from now on.
    pub(crate) fn commit(&self, fresh: State) {
        self.show(fresh, "the configuration was read again");
    }

    /// Reads all files again if one has changed.
    pub(crate) fn look(&self) {
        const WHY: &str = "their files have changed";
        let mut state = lock(&self.state);
        let fresh = State::of(state.files.clone());
        if fresh.stamps == state.stamps {
            return self.count_days(&state);
        }
        drop(state);
        match fresh.read() {
            Ok(fresh) => self.show(fresh, WHY),
            Err((fresh, faults)) => {
                self.counters.count(Counter::TlsReloadFailed);
                for fault in faults {
                    tracing::error!(
                        "certificates were not reloaded, the old ones stay ({WHY}): {fault}"
                    );
                }
                // The same files are not tried again until one changes.
                state = lock(&self.state);
                if fresh.files == state.files {
                    state.stamps = fresh.stamps;
                }
            }
        }
    }

    fn show(&self, fresh: State, why: &str) {
        let mut state = lock(&self.state);
        self.certificates.replace(&fresh.sites);
        self.counters.count(Counter::TlsReloaded);
        tracing::info!(
            certificates = fresh.sites.len(),
            "certificates were reloaded ({why}); connections stay"
        );
        for (files, site) in fresh.files.iter().zip(&fresh.sites) {
            for finding in files.findings(site, now_s()) {
                tracing::warn!("{finding}");
            }
        }
        *state = fresh;
        self.count_days(&state);
    }

    fn count_days(&self, state: &State) {
        let now_s = now_s();
        let days = { state.sites.iter() }.map(|site| site.validity().days_left(now_s));
        let days = u64::try_from(days.min().unwrap_or(0)).unwrap_or(0);
        self.counters.set(Gauge::TlsCertificateDaysLeft, days);
        let count = state.sites.len() as u64;
        self.counters.set(Gauge::TlsCertificates, count);
    }
}

/// Whether a client's address may have another handshake; charges it. Proxies speak for many.
pub(crate) fn may_shake_hands(app: &ShardApp, peer: IpAddr, now: Now) -> bool {
    let shared = &app.parts.shared;
    shared.forwarded.trusts(peer) || shared.meter.admits(peer, Work::SecureArrival, now)
}

/// Counts the outcome of a handshake, and logs it if it failed.
pub(crate) fn note(app: &ShardApp, event: &TlsEvent) {
    let (counter, fault) = match &event.news {
        // Told of connections that we open.
        TlsNews::Truncated => return,
        TlsNews::Shaken(shaken) if shaken.is_resumed => (Counter::TlsResumed, None),
        TlsNews::Shaken(_) => (Counter::TlsFull, None),
        TlsNews::Broken(fault) => (Counter::TlsBroken, Some(fault)),
        TlsNews::Refused(fault) => {
            let counter = match fault {
                TlsFault::TimedOut => Counter::TlsTimedOut,
                TlsFault::Gone => Counter::TlsGone,
                _ => Counter::TlsRefused,
            };
            (counter, Some(fault))
        }
    };
    app.counters().count(counter);
    // A probe that only looks whether the port is open is not worth a line.
    if let Some(fault) = fault.filter(|fault| !matches!(fault, TlsFault::Gone)) {
        let notices = &app.parts.shared.notices;
        notices.begin(event.conn, app.now);
        if let Some(peer) = event.peer {
            notices.comes_from(peer.ip().to_canonical());
        }
        notices.refused("tls", "", "", fault);
    }
}
