//! The first words on a connection: what the server says of itself, and who we are.

use serde_json::{Value, json};

use crate::address::ServerAddress;
use crate::credentials::Credentials;
use crate::write;

/// Longest message of a server that does not say it, in bytes: NATS's default.
const PAYLOAD_MAX: u64 = 1 << 20;

/// A server's description of itself (`INFO`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerInfo {
    /// The name of its process: another one after each start.
    pub id: String,
    /// The version, such as `2.10.0`.
    pub version: String,
    /// The server is one of a cluster.
    pub is_clustered: bool,
    /// The longest message that it takes, in bytes.
    pub payload_max: usize,
    /// TLS comes before the client's first word.
    pub wants_tls: bool,
    /// Signed by clients that have a key.
    nonce: String,
}

impl ServerInfo {
    /// Reads the object behind `INFO`; `None` if it is no JSON, or the server has no headers. The
    /// version is not looked at.
    #[must_use]
    pub fn read(info: &[u8]) -> Option<Self> {
        let info: Value = serde_json::from_slice(info).ok()?;
        let text = |name: &str| info[name].as_str().unwrap_or_default().to_owned();
        (info["headers"] == true).then(|| Self {
            id: text("server_id"),
            version: text("version"),
            is_clustered: info["cluster"].is_string(),
            payload_max: info["max_payload"].as_u64().unwrap_or(PAYLOAD_MAX) as usize,
            wants_tls: info["tls_required"] == true,
            nonce: text("nonce"),
        })
    }
}

/// Authenticates by a key, if there is one, in place of what the URL says. Whether the server
/// believes it shows with its next answer: a [`write::ping`] gets a pong, or an error.
pub fn introduce(
    out: &mut Vec<u8>,
    info: &ServerInfo,
    target: &ServerAddress,
    credentials: Option<&Credentials>,
) {
    let mut options = json!({
        "verbose": false, "pedantic": false, "headers": true, "no_responders": true,
        "protocol": 1, "lang": "rust", "name": "throng", "version": env!("CARGO_PKG_VERSION"),
    });
    match (credentials, &target.user, &target.secret) {
        (Some(ours), ..) => {
            options["sig"] = json!(ours.sign(&info.nonce));
            match &ours.jwt {
                Some(jwt) => options["jwt"] = json!(jwt),
                None => options["nkey"] = json!(ours.public()),
            }
        }
        (None, Some(user), Some(password)) => {
            options["user"] = json!(user);
            options["pass"] = json!(password);
        }
        (None, None, Some(token)) => options["auth_token"] = json!(token),
        _ => {}
    }
    write::connect(out, &options.to_string());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(more: &str) -> Option<ServerInfo> {
        let text = format!("{{\"server_id\":\"S\",\"version\":\"2.10.0\",\"nonce\":\"n\"{more}}}");
        ServerInfo::read(text.as_bytes())
    }

    #[test]
    fn a_server_says_what_it_is() {
        let expected = ServerInfo {
            id: "S".to_owned(),
            version: "2.10.0".to_owned(),
            is_clustered: false,
            payload_max: 1 << 20,
            wants_tls: false,
            nonce: "n".to_owned(),
        };
        assert_eq!(info(",\"headers\":true"), Some(expected.clone()));
        let more = ",\"headers\":true,\"cluster\":\"c\",\"max_payload\":5,\"tls_required\":true";
        let expected = ServerInfo {
            is_clustered: true,
            payload_max: 5,
            wants_tls: true,
            ..expected
        };
        assert_eq!(info(more), Some(expected));
        assert_eq!(info(""), None, "without headers");
        assert_eq!(ServerInfo::read(b"{"), None);
    }

    #[test]
    fn a_client_says_who_it_is_in_one_way() {
        let info = info(",\"headers\":true").expect("a server");
        let said = |url: &str, credentials: Option<&Credentials>| {
            let target = crate::targets(url).expect("a URL").remove(0);
            let mut out = Vec::new();
            introduce(&mut out, &info, &target, credentials);
            let text = String::from_utf8(out).expect("text");
            let options = text.strip_prefix("CONNECT ").expect("one command");
            let options: Value = serde_json::from_str(options).expect("JSON");
            let names = ["user", "pass", "auth_token", "nkey", "jwt", "sig"];
            let text = |name| options[name].as_str().map(|it| format!("{name} {it}"));
            names.into_iter().filter_map(text).collect::<Vec<_>>()
        };
        assert_eq!(said("nats://a", None), [""; 0]);
        assert_eq!(said("nats://ann:p@a", None), ["user ann", "pass p"]);
        assert_eq!(said("nats://t@a", None), ["auth_token t"]);
        let seed = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY";
        let key = Credentials::read(seed).expect("a seed");
        let sig = format!("sig {}", key.sign("n"));
        let nkey = format!("nkey {}", key.public());
        assert_eq!(said("nats://ann:p@a", Some(&key)), [nkey, sig.clone()]);
        let both = Credentials::read(&format!("eyJ.x\n{seed}")).expect("a seed");
        let jwt = "jwt eyJ.x".to_owned();
        assert_eq!(said("nats://a", Some(&both)), [jwt, sig]);
    }
}
