//! The thread that tells webhooks, the way of shards to it, and its part in a hand-over.

use std::convert::Infallible;
use std::io;
use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use throng_backend::{Address, ClientPeer};
use throng_broker::{HookEvent, HookJournal, Hooks};
use throng_config::{Config, WebhookOptions};
use throng_history::HookFile;
use throng_hooks::{
    HookCall, HookFilter, HookIntake, HookNode, HookScope, HooksClient, StandardKey, Webhook,
    backend_limits,
};
use throng_metrics::Counters;
use throng_outward::{CallSender, Deliver, Host};
use throng_remote::Nodes;
use throng_sys::clock;
use throng_types::lock;

use crate::gateways::{Gateways, app_keys, app_prefixes};
use crate::history::folder;
use crate::options::StartError;

/// Longest wait for receivers when the server ends, and for the thread when it hands over.
const LAST: Duration = Duration::from_secs(5);

/// Peer that tells all receivers.
pub(crate) type HooksPeer = ClientPeer<HooksClient>;

/// Facts of this node that webhooks begin with.
#[derive(Clone)]
pub(crate) struct HookStart {
    pub(crate) counters: Arc<Counters>,
    /// This node among others; `None` with the broker in memory, where it is alone.
    pub(crate) node: Option<HookNode>,
    /// Name by which receivers know it.
    pub(crate) name: String,
}

/// Handle of the running thread.
pub(crate) struct Webhooks {
    host: Host<HookCall>,
    sender: Arc<Sender>,
    /// Name of this node, which lives until it finishes.
    name: String,
    /// Records with which it begins.
    records: Mutex<Vec<u8>>,
    /// The next process finds what is left, and no other node is to know of the end.
    is_kept: bool,
}

/// The way of shards to the thread.
struct Sender {
    calls: CallSender<HookCall>,
    /// Filters of all webhooks, renewed by a reload.
    filters: RwLock<Box<[HookFilter]>>,
    intake: Arc<HookIntake>,
}

impl Hooks for Sender {
    fn tell(&self, event: HookEvent) {
        // States are counted whatever is told of them.
        let is_needed = event.is_state() || self.asks(&event);
        if is_needed && self.intake.admits(&event) {
            self.calls.send(HookCall::Event(event));
        }
    }
}

impl Sender {
    /// Whether a webhook asks for an event.
    fn asks(&self, event: &HookEvent) -> bool {
        let filters = self.filters.read().unwrap_or_else(PoisonError::into_inner);
        filters.iter().any(|filter| filter.needs(event))
    }
}

impl Webhooks {
    /// Starts the thread, which waits for [`Webhooks::begin`]; `None` without webhooks.
    pub(crate) fn start(
        config: &Config,
        start: HookStart,
        has_predecessor: bool,
    ) -> Result<Option<Arc<Self>>, StartError> {
        if config.webhooks.is_empty() {
            return Ok(None);
        }
        let (path, is_taken) = (&config.history.path, folder(config).is_some());
        let mut file = { path.as_ref() }.map(|path| HookFile::new(Path::new(path), is_taken));
        let mut records = Vec::new();
        if let Some(file) = file.as_mut().filter(|_| !has_predecessor) {
            let read = file.read();
            records = read.map_err(|error| StartError::History(format!("webhooks: {error}")))?;
        }
        let journal = file.map(|file| Box::new(file) as Box<dyn HookJournal>);
        let (kept, unix_ms) = ((journal, records), clock::unix_ms());
        let started = Self::hosted(config, start, kept, unix_ms, |peer, deliver| {
            throng_outward::start("webhooks", move || peer, deliver)
        });
        started.map(Some)
    }

    /// Has `host` serve the client of all receivers, which waits for [`Webhooks::begin`]: with its
    /// journal, if it has one, and what that holds. `unix_ms` is the time of the start.
    pub(crate) fn hosted(
        config: &Config,
        HookStart {
            counters,
            node,
            name,
        }: HookStart,
        (journal, records): (Option<Box<dyn HookJournal>>, Vec<u8>),
        unix_ms: u64,
        host: impl FnOnce(HooksPeer, Deliver<Infallible>) -> io::Result<Host<HookCall>>,
    ) -> Result<Arc<Self>, StartError> {
        let hooks = Self::prepare(config)?;
        let filters = RwLock::new(filters(&hooks));
        let (is_kept, is_alone) = (journal.is_some(), node.is_none());
        let client = HooksClient::new(hooks, journal, counters, unix_ms, node);
        let intake = client.intake();
        let peer = ClientPeer::new(client, backend_limits());
        let host = host(peer, Box::new(|reply| match reply {})).map_err(StartError::Shard)?;
        let calls = host.calls();
        let webhooks = Self {
            host,
            sender: Arc::new(Sender {
                calls,
                filters,
                intake,
            }),
            name,
            records: Mutex::new(records),
            is_kept: is_kept && is_alone,
        };
        webhooks.tell_node(true);
        Ok(Arc::new(webhooks))
    }

    fn tell_node(&self, is_on: bool) {
        let event = HookEvent::node(&self.name, is_on);
        event.into_iter().for_each(|event| self.sender.tell(event));
    }

    /// Makes all webhooks of a configuration.
    pub(crate) fn prepare(config: &Config) -> Result<Vec<Webhook>, StartError> {
        { config.webhooks.iter().enumerate() }
            .map(|(place, hook)| webhook(hook, place, config))
            .collect()
    }

    /// Has these webhooks told from now on.
    pub(crate) fn commit(&self, hooks: Vec<Webhook>) {
        let fresh = filters(&hooks);
        *self
            .sender
            .filters
            .write()
            .unwrap_or_else(PoisonError::into_inner) = fresh;
        self.host.calls().send(HookCall::Renew(hooks));
    }

    pub(crate) fn sender(&self) -> Arc<dyn Hooks> {
        self.sender.clone()
    }

    /// Gives the thread its way to all nodes.
    pub(crate) fn join(&self, nodes: Nodes) {
        let voice = Box::new(move |message: Vec<u8>| nodes.tell_everybody(&message));
        self.host.calls().send(HookCall::Voice(voice));
    }

    /// Takes a message of some node, if there is room.
    pub(crate) fn hear(&self, message: Vec<u8>) {
        if self.sender.intake.admits_message(message.len()) {
            self.sender.calls.send(HookCall::Heard(message));
        }
    }

    /// Begins to tell, from the records that it has by now.
    pub(crate) fn begin(&self) {
        let mut records = lock(&self.records);
        self.host
            .calls()
            .send(HookCall::Load(std::mem::take(&mut *records)));
    }

    /// Takes what a predecessor has handed over.
    pub(crate) fn take(&self, handed: Vec<u8>) {
        *lock(&self.records) = handed;
    }

    /// Gives up everything that the shards have told; nothing if the thread does not answer.
    pub(crate) fn give_up(&self) -> Vec<u8> {
        let (give, given) = sync_channel(1);
        let give = Box::new(move |records| drop(give.send(records)));
        self.host.calls().send(HookCall::GiveUp(give));
        given.recv_timeout(LAST).unwrap_or_default()
    }

    pub(crate) fn go_on(&self) {
        self.host.calls().send(HookCall::GoOn);
    }

    /// Tells what is left, for a while, unless the next process finds it.
    pub(crate) fn finish(&self) {
        if self.is_kept {
            return;
        }
        self.tell_node(false);
        let (tell, told) = sync_channel(1);
        let finish = Box::new(move || tell.send(()).unwrap_or_default());
        self.host.calls().send(HookCall::Finish(finish));
        if told.recv_timeout(LAST).is_err() {
            tracing::warn!("webhooks: the server ends before its receivers have every event");
        }
    }
}

fn filters(hooks: &[Webhook]) -> Box<[HookFilter]> {
    hooks.iter().map(|hook| hook.filter.clone()).collect()
}

fn webhook(hook: &WebhookOptions, place: usize, config: &Config) -> Result<Webhook, StartError> {
    let fault = |what: &str| StartError::Webhook(what.to_owned());
    let url = hook.url.as_deref().unwrap_or_default();
    let address = Address::from_url(url, hook.timeout_ms);
    let app = { hook.app.as_ref() }.and_then(|id| config.apps.iter().find(|app| app.id == *id));
    let texts = |texts: &[String]| texts.iter().map(|text| text.as_str().into()).collect();
    let scope = match app {
        Some(app) => HookScope::App(app_prefixes(&app.id).into()),
        None => HookScope::Namespaces {
            names: texts(&hook.namespaces),
            closed: Gateways::namespaces(),
        },
    };
    let kinds = { hook.events.iter() }.fold(0, |kinds, event| kinds | 1 << *event as u8);
    let standard = { hook.secret.as_ref() }
        .map(|secret| StandardKey::parse(secret.expose()).ok_or_else(|| fault("a bad secret")));
    // A receiver may have several sections, each for other events.
    let is_twin = |other: &&WebhookOptions| other.url == hook.url && other.app == hook.app;
    let twins = config.webhooks[..place].iter().filter(is_twin).count();
    let number = match twins {
        0 => String::new(),
        _ => format!(" ({})", twins + 1),
    };
    Ok(Webhook {
        name: format!("{} {url}{number}", hook.app.as_deref().unwrap_or_default()).into(),
        address: address.map_err(|error| StartError::Webhook(error.to_string()))?,
        filter: HookFilter {
            scope,
            prefixes: texts(&hook.channel_prefixes),
            kinds: match hook.events.is_empty() {
                true => HookEvent::USUAL,
                false => kinds,
            },
        },
        app: app.map(app_keys),
        standard: standard.transpose()?,
        settle_ms: hook.settle_ms,
        timeout_ms: hook.timeout_ms,
    })
}
