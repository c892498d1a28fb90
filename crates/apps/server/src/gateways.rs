//! The server's gateways: the closed list, and what each of them needs to start.

mod appwrite;
mod appwrite_feed;
mod grip;
mod origin;
mod proxy;
mod renew;

use std::net::SocketAddr;
use std::sync::Arc;

use throng_config::Config;
use throng_engine::MailboxSender;
use throng_gateway_appwrite::Appwrite;
use throng_gateway_centrifuge::{Centrifuge, Mail as CentrifugeMail};
use throng_gateway_grip::{Backends, Grip};
use throng_gateway_plain::Plain;
use throng_metrics::Counters;
use throng_session::{BackendMail, Backends as AskedBackends, ProxyOptions};
use throng_types::ShardId;

use crate::list::Holds;
use crate::options::StartError;
use crate::own_port::OwnPort;
use crate::plan::{Plan, Renewer, Sources};
use crate::shard::Mail;
use crate::slot::Slot;
use appwrite::{AppwritePart, AppwritePlan};
pub use appwrite_feed::{Inlet, Lookups};
use grip::GripPlan;
use proxy::{Asker, ProxyPart, ProxyPlan};
use renew::GatewaysRenewer;

pub(crate) use grip::metrics as pushpin_metrics;

crate::gateways! {
    /// Every family of clients that the server has.
    pub struct Gateways {
        plain: Plain(Plain),
        centrifuge: Centrifuge(Centrifuge),
        appwrite: Appwrite(Appwrite),
        grip: Grip(Grip),
    }
    sessions Session, orders GatewayOrder, mail GatewayMail
}

/// [`Gateways`] before they run.
pub struct GatewaysPlan {
    config: Arc<Config>,
    appwrite: Option<AppwritePlan>,
    proxy: Option<ProxyPlan>,
    asker: Asker,
    grip: Option<GripPlan>,
}

/// Gateways of one shard, on their way to its thread.
pub struct GatewaysPart {
    appwrite: Option<AppwritePart>,
    plain: Option<ProxyPart>,
    centrifuge: Option<ProxyPart>,
    grip: Option<GripPlan>,
}

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
            asker: Asker::default(),
            grip: GripPlan::new(config)?,
            config: config.clone(),
        })
    }
}

/// Returns the faults in the files that `[grip]` names: first those with which a server may start,
/// then those with which it may not.
pub fn check_routes(config: &Config) -> (Vec<String>, Vec<String>) {
    let read = config.grip.as_ref().map(grip::routes::read);
    read.map(|read| (read.skipped, read.refused))
        .unwrap_or_default()
}

fn wrap_centrifuge(mail: BackendMail) -> GatewayMail {
    GatewayMail::Centrifuge(CentrifugeMail::Backends(mail))
}

impl Plan for GatewaysPlan {
    type List = Gateways;
    type Part = GatewaysPart;

    fn ports(&self) -> Vec<OwnPort> {
        let section = self.config.grip.as_ref();
        let ports = section.map(grip::ports).unwrap_or_default();
        let ports = ports.into_iter().enumerate();
        ports
            .map(|(number, (port, address))| OwnPort {
                gateway: <Gateways as Holds<Grip>>::NUMBER,
                port: number as u8,
                address,
                option: grip::option(port),
            })
            .collect()
    }

    fn subscriptions_max(&self) -> usize {
        self.grip.as_ref().map_or(0, GripPlan::channels_max)
    }

    fn renewer(
        &self,
        mailboxes: &[MailboxSender<Mail<GatewayMail>>],
    ) -> Option<Box<dyn Renewer<GatewayMail>>> {
        Some(Box::new(GatewaysRenewer {
            mailboxes: mailboxes.to_vec(),
            wraps: [GatewayMail::Plain, wrap_centrifuge],
            asker: self.asker.clone(),
            proxy: self.config.proxy.clone(),
            fresh_proxy: None,
            mails: Default::default(),
            grip: self.grip.as_ref().map(GripPlan::reload),
            fresh_routes: None,
        }))
    }

    fn sources(&self) -> Option<Arc<dyn Sources>> {
        Some(self.appwrite.as_ref()?.sources())
    }

    fn start(
        mut self,
        mailboxes: &[MailboxSender<Mail<GatewayMail>>],
        addresses: &[SocketAddr],
    ) -> Result<Vec<GatewaysPart>, StartError> {
        let appwrite = match &self.appwrite {
            Some(plan) => plan.start(&self.config, mailboxes)?,
            None => Vec::new(),
        };
        if let Some(plan) = &mut self.grip {
            plan.bound(addresses);
            plan.start(
                mailboxes,
                |mail| Mail::from_driver(GatewayMail::Grip(mail)),
                |mail| <Gateways as Holds<Grip>>::unwrap_mail(mail.into_driver()?).ok(),
            )?;
        }
        let proxied = |wrap: fn(BackendMail) -> GatewayMail| {
            let wrap = move |mail| Mail::from_driver(wrap(mail));
            let plan = self.proxy.as_ref();
            let parts = plan.map(|plan| plan.start(&self.asker, mailboxes, wrap));
            parts.transpose().map(Option::unwrap_or_default)
        };
        let mut plain = proxied(GatewayMail::Plain)?.into_iter();
        let mut centrifuge = proxied(wrap_centrifuge)?.into_iter();
        let mut parts = self.parts(mailboxes, appwrite);
        for part in &mut parts {
            part.plain = plain.next();
            part.centrifuge = centrifuge.next();
        }
        Ok(parts)
    }

    fn build(part: GatewaysPart, _: ShardId) -> Gateways {
        let backends = part.grip.as_ref().and_then(GripPlan::driver);
        part.into_list(backends)
    }
}

impl GatewaysPlan {
    /// Gives look-ups of Appwrite's users to the caller, which answers them in the driver's place.
    pub(crate) fn look_up_with(&self, lookups: Arc<dyn Lookups>) {
        if let Some(plan) = &self.appwrite {
            plan.look_up_with(lookups);
        }
    }

    /// The ways of Appwrite's news into the shards, and the parts: no driver is started.
    pub(crate) fn without_drivers(
        &self,
        mailboxes: &[MailboxSender<Mail<GatewayMail>>],
    ) -> (Vec<Inlet>, Vec<GatewaysPart>) {
        let appwrite = self.appwrite.as_ref().map(|plan| plan.parts(mailboxes));
        let (inlets, parts) = appwrite.unwrap_or_default();
        (inlets, self.parts(mailboxes, parts))
    }

    fn parts(
        &self,
        mailboxes: &[MailboxSender<Mail<GatewayMail>>],
        appwrite: Vec<AppwritePart>,
    ) -> Vec<GatewaysPart> {
        let mut appwrite = appwrite.into_iter();
        let parts = mailboxes.iter().map(|_| GatewaysPart {
            appwrite: appwrite.next(),
            plain: None,
            centrifuge: None,
            grip: self.grip.clone(),
        });
        parts.collect()
    }
}

impl GatewaysPart {
    /// A shard's list, on its thread. GRIP is off without backends.
    pub(crate) fn into_list(self, backends: Option<Box<dyn Backends>>) -> Gateways {
        let grip = self.grip.zip(backends);
        Gateways {
            plain: Some(Slot::new(gateway(self.plain, Plain::with_backends))),
            centrifuge: Some(Slot::new(gateway(
                self.centrifuge,
                Centrifuge::with_backends,
            ))),
            appwrite: self.appwrite.map(|part| Slot::new(part.gateway())),
            grip: grip.map(|(plan, backends)| Slot::new(plan.gateway(backends))),
        }
    }
}

/// A gateway that asks backends, where there are any.
fn gateway<G: Default>(
    part: Option<ProxyPart>,
    make: fn(ProxyOptions, Box<dyn AskedBackends>) -> G,
) -> G {
    part.map_or_else(G::default, |part| part.gateway(make))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_stays_small() {
        // Every idle connection pays this.
        assert!(size_of::<Session>() <= 64, "{}", size_of::<Session>());
    }
}
