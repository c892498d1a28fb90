//! Where connections go, resolved once, and how TLS is spoken there.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs as _};

use throng_bench_plan::template::{Place, Template};
use throng_bench_plan::{Scenario, Target, TlsTrust};
use throng_tls::{Authorities, ClientTls, Trust};

use super::error::PrepareError;

/// Where connections go.
#[derive(Debug)]
pub(crate) struct Goal {
    pub(crate) address: SocketAddr,
    /// How TLS is spoken there, if it is.
    pub(crate) tls: Option<ClientTls>,
    /// As it stands in `Host`.
    pub(crate) authority: String,
    pub(crate) path: Template,
    /// The path without its query, for people.
    pub(crate) shown_path: String,
}

impl Goal {
    /// What a refusal is called in remarks: `401 Unauthorized at /pub`.
    pub(crate) fn refusal(&self, status: u16) -> String {
        let reason = throng_http1::reason_phrase(status);
        format!("{status} {reason} at {}", self.shown_path)
    }
}

/// Resolves a target.
pub(super) fn goal(
    target: &Target,
    place: Place,
    scenario: &Scenario,
) -> Result<Goal, PrepareError> {
    let speak = || speak(target, &scenario.tls);
    let tls = target.tls.then(speak).transpose()?;
    let resolve = |why: String| PrepareError::Resolve {
        target: target.authority(),
        why,
    };
    let mut addresses = (target.host.as_str(), target.port)
        .to_socket_addrs()
        .map_err(|error| resolve(error.to_string()))?;
    Ok(Goal {
        address: addresses
            .next()
            .ok_or_else(|| resolve("it has no address".into()))?,
        tls,
        authority: target.authority(),
        path: Template::compile_with(&target.path, place, scenario.data.as_ref())?,
        shown_path: target.path.split('?').next().unwrap_or_default().to_owned(),
    })
}

/// How TLS is spoken with a target. Each connection shakes hands in full, so that one costs what
/// another does.
fn speak(target: &Target, trust: &TlsTrust) -> Result<ClientTls, PrepareError> {
    let fail = |why: &dyn fmt::Display| PrepareError::Tls {
        target: target.to_string(),
        why: why.to_string(),
    };
    let trust = match (trust.insecure, &trust.authorities) {
        (true, _) => Trust::Anybody,
        (false, Some(pem)) => {
            Trust::Of(Authorities::read(pem.as_bytes()).map_err(|error| fail(&error))?)
        }
        (false, None) => Trust::Of(Authorities::of_this_machine()),
    };
    ClientTls::new(&target.host, &trust, false).map_err(|error| fail(&error))
}
