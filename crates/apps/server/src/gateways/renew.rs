//! The gateways' sections, read again while the server runs: backends of Centrifugo's clients, and
//! GRIP's routes.

use throng_config::{Config, Proxy};
use throng_engine::MailboxSender;
use throng_gateway_centrifuge::{Mail as CentrifugeMail, ProxyOptions};

use super::centrifuge::{Asker, CentrifugePart, CentrifugePlan};
use super::grip::reload::{Fresh, Reload};
use crate::plan::Renewer;
use crate::shard::Mail;

/// What was read last, and the ways to those who need it.
pub(super) struct GatewaysRenewer<M> {
    pub(super) mailboxes: Vec<MailboxSender<Mail<M>>>,
    /// The list's mail of the one gateway that gets some.
    pub(super) wrap: fn(CentrifugeMail) -> M,
    pub(super) asker: Asker,
    /// The section that holds.
    pub(super) proxy: Option<Proxy>,
    /// The one that is to hold, if it differs.
    pub(super) fresh_proxy: Option<Option<Proxy>>,
    /// For each shard, the last one first.
    pub(super) mails: Vec<CentrifugeMail>,
    pub(super) grip: Option<Reload>,
    pub(super) fresh_routes: Option<Fresh>,
}

impl<M: Send + 'static> GatewaysRenewer<M> {
    fn backends(&mut self, config: &Config) -> Result<(), String> {
        self.mails.clear();
        self.fresh_proxy = None;
        if config.proxy == self.proxy {
            return Ok(());
        }
        let plan = CentrifugePlan::new(config).map_err(|error| error.to_string())?;
        self.mails = match plan {
            Some(plan) => {
                let wrap = self.wrap;
                let wrap = move |mail| Mail::from_driver(wrap(mail));
                let parts = plan.start(&self.asker, &self.mailboxes, wrap);
                let parts = parts.map_err(|error| error.to_string())?.into_iter();
                parts.rev().map(CentrifugePart::into_mail).collect()
            }
            None => { self.mailboxes.iter() }
                .map(|_| CentrifugeMail::Renewed(ProxyOptions::default(), None))
                .collect(),
        };
        self.fresh_proxy = Some(config.proxy.clone());
        Ok(())
    }
}

impl<M: Send + 'static> Renewer<M> for GatewaysRenewer<M> {
    fn prepare(&mut self, config: &Config) -> Result<(), Vec<String>> {
        let mut faults = Vec::new();
        self.fresh_routes = None;
        if let (Some(_), Some(section)) = (&self.grip, &config.grip) {
            match Fresh::read(section) {
                Ok(fresh) => self.fresh_routes = Some(fresh),
                Err(wrong) => faults = wrong,
            }
        }
        faults.extend(self.backends(config).err());
        match faults.is_empty() {
            true => Ok(()),
            false => Err(faults),
        }
    }

    fn commit(&mut self, _: usize) -> Vec<M> {
        if let (Some(reload), Some(fresh)) = (&self.grip, self.fresh_routes.take()) {
            reload.apply(fresh);
        }
        if let Some(section) = self.fresh_proxy.take() {
            self.proxy = section;
        }
        let mail = self.mails.pop().map(self.wrap);
        mail.into_iter().collect()
    }
}
