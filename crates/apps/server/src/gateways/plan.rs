//! From a configuration, through the drivers that gateways need, to the gateways of each shard; and
//! the gateways' sections, read again while the server runs.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use throng_appwrite_api::{AppwritePeer, Call, Reply};
use throng_config::{Config, Proxy};
use throng_engine::MailboxSender;
use throng_gateway_centrifuge::{Centrifuge, Mail as CentrifugeMail};
use throng_gateway_grip::{Grip, OriginClient};
use throng_gateway_plain::Plain;
use throng_gateway_pusher::{Pusher, PusherMail, PusherShared};
use throng_metrics::Counters;
use throng_outward::{Deliver, Host};
use throng_session::{BackendMail, Backends as AskedBackends, ProxyOptions};

use super::appwrite::{AppwritePart, AppwritePlan};
use super::appwrite_feed::MakePeer;
use super::grip::reload::{Fresh, Reload};
use super::grip::{self, GripPlan};
use super::proxy::{ProxyPart, ProxyPlan, SharedClient};
use super::pusher;
use super::{GatewayMail, Gateways, Listed as _, OwnPort, Slot, Sources};
use crate::options::StartError;
use crate::shard::ShardMail;

/// [`Gateways`] before they run.
pub(crate) struct GatewaysPlan {
    config: Arc<Config>,
    appwrite: Option<AppwritePlan>,
    proxy: Option<ProxyPlan>,
    asker: SharedClient,
    grip: Option<GripPlan>,
    pusher: PusherShared,
}

/// Gateways of one shard, on their way to its thread.
pub(crate) struct GatewaysPart {
    appwrite: Option<AppwritePart>,
    plain: Option<ProxyPart>,
    centrifuge: Option<ProxyPart>,
    grip: Option<GripPlan>,
    pusher: PusherShared,
}

/// Returns the faults in the files that `[grip]` names: first those with which a server may start,
/// then those with which it may not.
pub fn check_routes(config: &Config) -> (Vec<String>, Vec<String>) {
    let read = config.grip.as_ref().map(grip::routes::read);
    read.map(|read| (read.skipped, read.refused))
        .unwrap_or_default()
}

/// Ways in which mail of backends goes to the gateways that ask them.
const TO_ASKERS: [fn(BackendMail) -> GatewayMail; 2] = [GatewayMail::Plain, |mail| {
    GatewayMail::Centrifuge(CentrifugeMail::Backends(mail))
}];

impl GatewaysPlan {
    /// Reads the sections of the gateways. `counters` are for their drivers alone.
    pub(crate) fn new(
        config: &Arc<Config>,
        shards: usize,
        counters: &Arc<Counters>,
    ) -> Result<Self, StartError> {
        Ok(Self {
            appwrite: AppwritePlan::new(config, shards, counters),
            proxy: ProxyPlan::new(config)?,
            asker: SharedClient::default(),
            grip: GripPlan::new(config)?,
            pusher: pusher::shared(config, &PusherShared::default())?,
            config: config.clone(),
        })
    }

    pub(crate) fn ports(&self) -> Vec<OwnPort> {
        let section = self.config.grip.as_ref();
        let ports = section.map(grip::ports).unwrap_or_default();
        let ports = ports.into_iter().enumerate();
        ports
            .map(|(number, (port, address))| OwnPort {
                gateway: Grip::PLACE,
                port: number as u8,
                address,
                option: grip::option(port),
            })
            .collect()
    }

    /// Returns the subscriptions that one connection may have, if that is more than clients may.
    pub(crate) fn subscriptions_max(&self) -> usize {
        self.grip.as_ref().map_or(0, GripPlan::channels_max)
    }

    /// Makes the reader that reads the gateways' sections again.
    pub(crate) fn renewer(&self, mailboxes: &[MailboxSender<ShardMail>]) -> GatewaysRenewer {
        GatewaysRenewer {
            mailboxes: mailboxes.to_vec(),
            asker: self.asker.clone(),
            proxy: self.config.proxy.clone(),
            fresh_proxy: None,
            mails: Default::default(),
            grip: self.grip.as_ref().map(GripPlan::reload),
            fresh_routes: None,
            pusher: self.pusher.clone(),
            fresh_pusher: None,
        }
    }

    /// Returns Pusher's apps as they are at the start.
    pub(crate) const fn pusher(&self) -> &PusherShared {
        &self.pusher
    }

    /// Returns the sources that must stand still during a hand-over, if any.
    pub(crate) fn sources(&self) -> Option<Arc<dyn Sources>> {
        Some(self.appwrite.as_ref()?.sources())
    }

    /// Starts the drivers, which tell the shards through these mailboxes. The ports listen at
    /// `addresses`, in their order. Gives a part for each shard.
    pub(crate) fn start(
        mut self,
        mailboxes: &[MailboxSender<ShardMail>],
        addresses: &[SocketAddr],
    ) -> Result<Vec<GatewaysPart>, StartError> {
        let host = |make, deliver| throng_outward::start("appwrite", make, deliver);
        let appwrite = self.start_appwrite(mailboxes, host)?;
        if let Some(plan) = &mut self.grip {
            plan.bound(addresses);
            plan.start(mailboxes)?;
        }
        let mut parts = self.parts(mailboxes, appwrite);
        if let Some(plan) = &self.proxy {
            let [plain, centrifuge] =
                TO_ASKERS.map(|wrap| plan.start(&self.asker, mailboxes, wrap));
            let asked = plain?.into_iter().zip(centrifuge?);
            for (part, (plain, centrifuge)) in parts.iter_mut().zip(asked) {
                (part.plain, part.centrifuge) = (Some(plain), Some(centrifuge));
            }
        }
        Ok(parts)
    }

    fn start_appwrite(
        &self,
        mailboxes: &[MailboxSender<ShardMail>],
        host: impl FnOnce(MakePeer, Deliver<Reply>) -> io::Result<Host<Call>>,
    ) -> Result<Vec<AppwritePart>, StartError> {
        let start = |plan: &AppwritePlan| plan.start(&self.config, mailboxes, host);
        Ok(self
            .appwrite
            .as_ref()
            .map(start)
            .transpose()?
            .unwrap_or_default())
    }

    /// Has `host` serve Appwrite's peer, and starts no other driver.
    pub(crate) fn with_appwrite(
        &self,
        mailboxes: &[MailboxSender<ShardMail>],
        host: impl FnOnce(AppwritePeer, Deliver<Reply>) -> Host<Call>,
    ) -> Result<Vec<GatewaysPart>, StartError> {
        let host = |make: MakePeer, deliver| Ok(host(make(), deliver));
        Ok(self.parts(mailboxes, self.start_appwrite(mailboxes, host)?))
    }

    /// Makes a part for each shard, with those of Appwrite if it is served.
    pub(crate) fn parts(
        &self,
        mailboxes: &[MailboxSender<ShardMail>],
        appwrite: Vec<AppwritePart>,
    ) -> Vec<GatewaysPart> {
        let mut appwrite = appwrite.into_iter();
        let parts = mailboxes.iter().map(|_| GatewaysPart {
            appwrite: appwrite.next(),
            plain: None,
            centrifuge: None,
            grip: self.grip.clone(),
            pusher: self.pusher.clone(),
        });
        parts.collect()
    }
}

impl GatewaysPart {
    /// Makes a shard's gateways, on its thread, with the drivers that were started.
    pub(crate) fn gateways(self) -> Gateways {
        let backends = self.grip.as_ref().and_then(GripPlan::driver);
        self.gateways_with(backends)
    }

    /// Makes them with other backends of GRIP, which is off without any.
    pub(crate) fn gateways_with(self, backends: Option<Box<dyn OriginClient>>) -> Gateways {
        let grip = self.grip.zip(backends);
        let (plain, centrifuge) = (self.plain, self.centrifuge);
        Gateways {
            plain: Some(Slot::new(asking(plain, Plain::with_backends))),
            centrifuge: Some(Slot::new(asking(centrifuge, Centrifuge::with_backends))),
            appwrite: self.appwrite.map(|part| Slot::new(part.gateway())),
            grip: grip.map(|(plan, backends)| Slot::new(plan.gateway(backends))),
            pusher: Some(Slot::new(Pusher::new(self.pusher))),
        }
    }
}

/// A gateway that asks backends, where there are any.
fn asking<G: Default>(
    part: Option<ProxyPart>,
    make: fn(ProxyOptions, Box<dyn AskedBackends>) -> G,
) -> G {
    part.map_or_else(G::default, |part| make(part.options, part.driver))
}

/// Sections that were read last, and the ways to the shards and threads that use them.
pub(crate) struct GatewaysRenewer {
    mailboxes: Vec<MailboxSender<ShardMail>>,
    asker: SharedClient,
    /// The section that holds.
    proxy: Option<Proxy>,
    /// The one that is to hold, if it differs.
    fresh_proxy: Option<Option<Proxy>>,
    /// Mail for each shard and each gateway that asks backends, the last shard's first.
    mails: [Vec<BackendMail>; 2],
    grip: Option<Reload>,
    fresh_routes: Option<Fresh>,
    /// Apps that are in force.
    pusher: PusherShared,
    fresh_pusher: Option<PusherShared>,
}

impl GatewaysRenewer {
    fn backends(&mut self, config: &Config) -> Result<(), String> {
        self.mails = Default::default();
        self.fresh_proxy = None;
        if config.proxy == self.proxy {
            return Ok(());
        }
        let plan = ProxyPlan::new(config).map_err(|error| error.to_string())?;
        for (mails, wrap) in self.mails.iter_mut().zip(TO_ASKERS) {
            *mails = match &plan {
                Some(plan) => {
                    let parts = plan.start(&self.asker, &self.mailboxes, wrap);
                    let parts = parts.map_err(|error| error.to_string())?.into_iter();
                    { parts.rev() }
                        .map(|part| BackendMail::Renewed(part.options, Some(part.driver)))
                        .collect()
                }
                None => { self.mailboxes.iter() }
                    .map(|_| BackendMail::Renewed(ProxyOptions::default(), None))
                    .collect(),
            };
        }
        self.fresh_proxy = Some(config.proxy.clone());
        Ok(())
    }

    /// Reads the sections. Nothing changes before [`Self::commit`], and nothing at all if that is
    /// not called.
    pub(crate) fn prepare(&mut self, config: &Config) -> Result<(), Vec<String>> {
        let mut faults = Vec::new();
        self.fresh_routes = None;
        if let (Some(_), Some(section)) = (&self.grip, &config.grip) {
            match Fresh::read(section) {
                Ok(fresh) => self.fresh_routes = Some(fresh),
                Err(wrong) => faults = wrong,
            }
        }
        faults.extend(self.backends(config).err());
        match pusher::shared(config, &self.pusher) {
            Ok(shared) => self.fresh_pusher = Some(shared),
            Err(error) => faults.push(error.to_string()),
        }
        match faults.is_empty() {
            true => Ok(()),
            false => Err(faults),
        }
    }

    /// Puts the sections that were read last into force. Returns mail for a shard's gateways;
    /// called for each shard, in order.
    pub(crate) fn commit(&mut self) -> Vec<GatewayMail> {
        if let (Some(reload), Some(fresh)) = (&self.grip, self.fresh_routes.take()) {
            reload.apply(fresh);
        }
        if let Some(section) = self.fresh_proxy.take() {
            self.proxy = section;
        }
        if let Some(shared) = self.fresh_pusher.take() {
            self.pusher = shared;
        }
        let mails = self.mails.iter_mut().zip(TO_ASKERS);
        let mails = mails.filter_map(|(mails, wrap)| mails.pop().map(wrap));
        mails
            .chain([GatewayMail::Pusher(PusherMail::Apps(self.pusher.clone()))])
            .collect()
    }

    /// Returns Pusher's apps that are in force.
    pub(crate) const fn pusher(&self) -> &PusherShared {
        &self.pusher
    }
}
