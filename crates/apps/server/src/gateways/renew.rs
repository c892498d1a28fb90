//! The gateways' sections, read again while the server runs: backends that decide about clients,
//! and GRIP's routes.

use throng_config::{Config, Proxy};
use throng_engine::MailboxSender;
use throng_session::{BackendMail, ProxyOptions};

use super::GatewayMail;
use super::grip::reload::{Fresh, Reload};
use super::plan::TO_ASKERS;
use super::proxy::{ProxyPart, ProxyPlan, SharedClient};
use crate::shard::Mail;

/// Sections that were read last, and the ways to the shards and threads that use them.
pub(crate) struct GatewaysRenewer {
    pub(super) mailboxes: Vec<MailboxSender<Mail>>,
    pub(super) asker: SharedClient,
    /// The section that holds.
    pub(super) proxy: Option<Proxy>,
    /// The one that is to hold, if it differs.
    pub(super) fresh_proxy: Option<Option<Proxy>>,
    /// Mail for each shard and each gateway that asks backends, the last shard's first.
    pub(super) mails: [Vec<BackendMail>; 2],
    pub(super) grip: Option<Reload>,
    pub(super) fresh_routes: Option<Fresh>,
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
                    parts.rev().map(ProxyPart::into_mail).collect()
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
    ///
    /// # Errors
    /// Sentences on what is wrong.
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
        let mails = self.mails.iter_mut().zip(TO_ASKERS);
        { mails.filter_map(|(mails, wrap)| mails.pop().map(wrap)) }.collect()
    }
}
