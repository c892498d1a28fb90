//! A call of the server API, for commands that make one: where it is, the key, whom to believe.

use super::{Endpoint, Exchange, Request, RequestError, TrustArgs};

/// Address and credentials of the server API.
#[derive(Debug, clap::Args)]
pub(crate) struct ApiArgs {
    /// Address of the server API
    #[arg(
        long,
        value_name = "URL",
        env = "THRONG_API_URL",
        default_value = "http://127.0.0.1:8001"
    )]
    pub(crate) api: Endpoint,
    /// A key of the server API (one of auth.api_keys)
    #[arg(
        long,
        value_name = "KEY",
        env = "THRONG_API_KEY",
        hide_env_values = true
    )]
    pub(crate) api_key: Option<String>,
    #[command(flatten)]
    trust: TrustArgs,
}

impl ApiArgs {
    fn key(&self) -> Option<(&str, &str)> {
        self.api_key.as_deref().map(|key| ("X-API-Key", key))
    }

    /// Asks for a document, or a stream that never ends.
    ///
    /// # Errors
    /// If there is no answer.
    pub(crate) fn get(&self, target: &str) -> Result<Exchange, RequestError> {
        let headers = [("Cache-Control", "no-store")].into_iter();
        let headers: Vec<(&str, &str)> = headers.chain(self.key()).collect();
        let request = Request {
            method: "GET",
            target: &self.api.target(target),
            headers: &headers,
            body: None,
        };
        Exchange::open(&self.api, &self.trust, request)
    }

    /// Makes a call, on a connection of its own. Gives the status and the answer's body.
    ///
    /// # Errors
    /// If there is no answer, or one of more than `bytes_max`.
    pub(crate) fn post(
        &self,
        target: &str,
        content: Option<(&str, &str)>,
        body: &[u8],
        bytes_max: usize,
    ) -> Result<(u16, Vec<u8>), RequestError> {
        let key = self.key();
        let headers = content.into_iter().chain([("Connection", "close")]);
        let headers: Vec<(&str, &str)> = headers.chain(key).collect();
        let request = Request {
            method: "POST",
            target: &self.api.target(target),
            headers: &headers,
            body: Some(body),
        };
        let mut answer = Exchange::open(&self.api, &self.trust, request)?;
        let body = answer.read_all(bytes_max)?;
        Ok((answer.status, body))
    }
}
