//! The first words on a connection: what the server says of itself, TLS, who we are.

use std::io::{self, Write as _};
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use throng_nats_protocol::{Op, write};
use throng_remote::Stream;

use crate::address::Target;
use crate::credentials::Credentials;
use crate::incoming::Incoming;

/// How to come in.
#[derive(Clone, Copy)]
pub struct Door<'a> {
    /// Where, and as whom.
    pub target: &'a Target,
    /// A file with who we are, in place of what the URL says: as `nsc` writes it, or with nothing
    /// but the seed of a user. It is read each time.
    pub credentials: Option<&'a Path>,
    /// A PEM file with those whose certificates are believed; without one, those of this machine.
    pub authorities: Option<&'a Path>,
    /// How long each step may take, and each read and write afterwards.
    pub timeout: Duration,
}

/// What a server says of itself.
#[derive(Clone, Debug)]
pub struct ServerInfo {
    /// The name of its process: another one after each start.
    pub id: String,
    /// Its version, as it says it.
    pub version: String,
    /// It is one of several.
    pub is_clustered: bool,
    /// The longest message that it takes, in bytes.
    pub payload_max: usize,
}

impl Door<'_> {
    /// Connects and says who we are. Whether the server believes it shows with its next answer: a
    /// [`write::ping`] gets a pong, or an error.
    ///
    /// # Errors
    /// In words.
    pub fn connect(&self) -> Result<(ServerInfo, Incoming<Stream>), String> {
        let fail = |error: io::Error| error.to_string();
        let target = self.target;
        let stream = Stream::connect(&target.host, target.port, self.timeout).map_err(fail)?;
        let mut incoming = Incoming::new(stream);
        let info = incoming.next(|op| match op {
            Op::Info(info) => Some(serde_json::from_slice::<Value>(info).unwrap_or_default()),
            _ => None,
        })?;
        if info["headers"] != true {
            return Err("NATS is older than 2.9, or has no headers".to_owned());
        }
        if target.is_tls || info["tls_required"] == true {
            // Nobody may have said more before TLS than NATS does.
            if !incoming.is_empty() {
                return Err("NATS said something before TLS".to_owned());
            }
            let trust = throng_remote::trust(self.authorities)?;
            let (stream, _) = incoming.into_parts();
            incoming = Incoming::new(stream.secure(&target.host, &trust)?);
        }
        let mut out = Vec::new();
        write::connect(&mut out, &self.introduction(&info)?.to_string());
        incoming.stream.write_all(&out).map_err(fail)?;
        let info = ServerInfo {
            id: info["server_id"].as_str().unwrap_or_default().to_owned(),
            version: info["version"].as_str().unwrap_or_default().to_owned(),
            is_clustered: info["cluster"].is_string(),
            payload_max: info["max_payload"].as_u64().unwrap_or(1 << 20) as usize,
        };
        Ok((info, incoming))
    }

    /// What `CONNECT` says of us, who we are among it.
    fn introduction(&self, info: &Value) -> Result<Value, String> {
        let mut options = json!({
            "verbose": false, "pedantic": false, "headers": true, "no_responders": true,
            "protocol": 1, "lang": "rust", "name": "throng", "version": env!("CARGO_PKG_VERSION"),
        });
        if let Some(path) = self.credentials {
            let at = path.display();
            let text = std::fs::read_to_string(path).map_err(|error| format!("{at}: {error}"))?;
            let ours = Credentials::read(&text);
            let ours = ours.ok_or_else(|| format!("{at} has no seed of a user (SU...)"))?;
            let nonce = info["nonce"].as_str().unwrap_or_default();
            options["sig"] = json!(ours.sign(nonce));
            match ours.jwt {
                Some(jwt) => options["jwt"] = json!(jwt),
                None => options["nkey"] = json!(ours.public()),
            }
            return Ok(options);
        }
        match (&self.target.user, &self.target.secret) {
            (Some(user), Some(password)) => {
                options["user"] = json!(user);
                options["pass"] = json!(password);
            }
            (None, Some(token)) => options["auth_token"] = json!(token),
            _ => {}
        }
        Ok(options)
    }
}
