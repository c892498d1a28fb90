//! One request for a set of keys.

use std::sync::mpsc::sync_channel;
use std::time::Duration;

use throng_auth::{KEY_SET_BYTES_MAX, KeySet};
use throng_grip::exchange::{OriginRequest, Rest};
use throng_grip::headers::Header;
use throng_origin::{Address, AskLimits, BackendLimits, Origin, OriginOptions};

/// Beyond the request's own time: for the thread that carries it to say so.
const SLACK: Duration = Duration::from_secs(1);
/// Bytes of an answer's head.
const HEAD_BYTES_MAX: usize = 32 << 10;

/// Asks one address.
pub(crate) struct Fetch {
    origin: Origin,
    address: Address,
    timeout_ms: u64,
}

impl Fetch {
    /// Starts what carries requests.
    ///
    /// # Errors
    /// A sentence: the address is none, or the kernel gives no thread.
    pub(crate) fn new(url: &str, timeout_ms: u64) -> Result<Self, String> {
        let address = Address::from_url(url, timeout_ms).map_err(|fault| fault.to_string())?;
        let options = OriginOptions {
            requests_max: 1,
            tunnels_max: 0,
            backend: BackendLimits {
                head_bytes_max: HEAD_BYTES_MAX,
                // The next one is minutes away.
                idle_max: 0,
                ..BackendLimits::default()
            },
        };
        // Answers come whole.
        let origin = Origin::start(options, std::sync::Arc::new(|_, _, _| Ok(())));
        Ok(Self {
            origin: origin.map_err(|error| error.to_string())?,
            address,
            timeout_ms,
        })
    }

    /// Asks and waits for the answer.
    ///
    /// # Errors
    /// A sentence on what is wrong with it.
    pub(crate) fn once(&self) -> Result<KeySet, String> {
        let request = OriginRequest {
            route: self.address.route.clone(),
            method: "GET".to_owned(),
            path: self.address.path.clone(),
            headers: vec![
                Header::new("Host", self.address.host.as_str()),
                Header::new("Accept", "application/jwk-set+json, application/json"),
            ],
            body: Vec::new(),
            rest: Rest::Nothing,
        };
        let limits = AskLimits {
            bytes_max: KEY_SET_BYTES_MAX,
            timeout_ms: self.timeout_ms,
        };
        let (done, answered) = sync_channel(1);
        let asked = self.origin.client().ask(
            request,
            limits,
            |answer| answer,
            move |answer| {
                // Nobody waits any more, if it fails.
                let _ = done.try_send(answer);
                Ok(())
            },
        );
        asked.map_err(|failure| failure.detail)?;
        let within = Duration::from_millis(self.timeout_ms) + SLACK;
        let answer = answered.recv_timeout(within);
        let (status, body) = answer
            .map_err(|_| "no answer came in time".to_owned())?
            .map_err(|failure| failure.detail)?;
        if status != 200 {
            return Err(format!("the answer has status {status}"));
        }
        KeySet::parse(&body).map_err(|error| error.to_string())
    }
}
