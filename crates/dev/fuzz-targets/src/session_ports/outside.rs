//! A world around the sessions in which nothing happens.

use std::net::IpAddr;

use throng_appwrite::FeedMessage;
use throng_gateway_appwrite::{Inbox, Lookup, News, Outside, PresenceCall, QueueFull};
use throng_gateway_grip::{OriginClient, OriginExchange};
use throng_http1::origin::{OriginFailure, OriginFailureKind, OriginRequest};
use throng_types::{ConnId, Now};

/// A world that admits every client and records nothing.
pub(super) struct Nobody;

impl Outside for Nobody {
    fn admit(&self, _: IpAddr, _: Now) -> bool {
        true
    }

    fn identify(&self, _: Lookup) -> Result<(), QueueFull> {
        Ok(())
    }

    fn presence(&self, _: PresenceCall) -> Result<(), QueueFull> {
        Ok(())
    }

    fn publish(&self, _: FeedMessage) -> Result<(), QueueFull> {
        Err(QueueFull)
    }
}

/// Nothing ever happens at Appwrite.
pub(super) struct NoNews;

impl Inbox for NoNews {
    fn next(&mut self) -> Option<News> {
        None
    }
}

/// Backends that are never reached; orders are only looked at here.
pub(super) struct NoBackends;

impl OriginClient for NoBackends {
    fn submit(
        &self,
        _: ConnId,
        _: u32,
        _: OriginRequest,
    ) -> Result<Box<dyn OriginExchange>, OriginFailure> {
        Err(OriginFailure {
            fault: OriginFailureKind::Busy,
            detail: String::new(),
        })
    }

    fn tell(&self, _: OriginRequest) -> Result<(), OriginFailure> {
        Ok(())
    }
}
