//! What is not compared, all of it here.
//!
//! - Fields stand in the order of their names, because their order says nothing between different
//!   names (RFC 9110 section 5.3); those of one name keep theirs.
//! - `Date` is left out: Pushpin's own answers have none. `Connection-Id` is `*`, a random number.
//! - The token of `Grip-Sig` is shown by its algorithm and claims; `exp` is shown as `in an hour`
//!   if it is between 55 and 60 minutes away.
//! - `127.0.0.1:PORT` of the origin is `{origin}`, and those of the server are `{server}`,
//!   `{pull}`, `{sub}` and `{command}`.
//! - Chunks are joined, because whoever passes a body on may cut it anew; the last one is shown as
//!   `(last chunk)`, an end of the connection as `(closed)`.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use throng_testkit::unix_s;

use crate::http::Head;
use crate::text;

/// Addresses that have a name in dialogues.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    /// Each with its address.
    pub(crate) all: Vec<(&'static str, String)>,
}

impl Names {
    /// A line with names instead of addresses.
    fn hide(&self, line: &str) -> String {
        let mut line = line.to_owned();
        for (name, address) in &self.all {
            line = line.replace(address, name);
        }
        line
    }

    /// A line of a script with addresses instead of names.
    pub(crate) fn fill(&self, line: &str) -> String {
        let mut line = line.to_owned();
        for (name, address) in &self.all {
            line = line.replace(name, address);
        }
        line
    }

    /// A head as it is compared, with the empty line behind it.
    pub(crate) fn head(&self, head: &Head) -> Vec<String> {
        let mut lines = head.iter().map(|line| {
            let mut crlf = line.clone();
            crlf.extend_from_slice(b"\r\n");
            self.hide(&text::lines(&crlf).concat())
        });
        let start = lines.next().unwrap_or_default();
        let lines = lines.filter(|line| !line.to_lowercase().starts_with("date:"));
        let mut fields: Vec<String> = lines.map(|line| field(&line)).collect();
        fields.sort_by_key(|line| line.split(':').next().unwrap_or_default().to_lowercase());
        fields.insert(0, start);
        fields.push(String::new());
        fields
    }

    /// A body as it is compared.
    pub(crate) fn body(&self, bytes: &[u8]) -> Vec<String> {
        let lines = text::lines(bytes).into_iter();
        lines.map(|line| self.hide(&line)).collect()
    }
}

fn field(line: &str) -> String {
    let Some((name, value)) = line.split_once(':') else {
        return line.to_owned();
    };
    match name.to_ascii_lowercase().as_str() {
        "connection-id" => format!("{name}: *"),
        "grip-sig" => format!("{name}: {}", token(value.trim())),
        _ => line.to_owned(),
    }
}

/// A token's algorithm and claims.
fn token(token: &str) -> String {
    let mut parts = token.split('.').map(|part| {
        let json = URL_SAFE_NO_PAD.decode(part).unwrap_or_default();
        serde_json::from_slice(&json).unwrap_or(serde_json::Value::Null)
    });
    let (head, mut claims) = (parts.next().unwrap_or_default(), parts.next());
    if let Some(exp) = claims.as_mut().and_then(|claims| claims.get_mut("exp")) {
        let left_s = exp.as_u64().unwrap_or_default().saturating_sub(unix_s());
        if (55 * 60..=60 * 60).contains(&left_s) {
            *exp = "in an hour".into();
        }
    }
    let claims = claims.unwrap_or_default();
    format!("({} {claims})", head["alg"].as_str().unwrap_or_default())
}
