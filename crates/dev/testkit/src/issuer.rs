//! An issuer of tokens with public keys that anybody may fetch, and that it can change, withhold
//! and take away. It signs people in by OpenID Connect, too, without asking them anything.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use throng_types::lock;

/// A key that signs, by its name.
pub struct TokenKey {
    id: String,
    pair: Ed25519KeyPair,
}

impl TokenKey {
    /// A new Ed25519 key.
    pub fn new(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            pair: Ed25519KeyPair::generate().expect("randomness"),
        }
    }

    /// Its public half (RFC 8037 section 2).
    pub fn jwk(&self) -> Value {
        let public = URL_SAFE_NO_PAD.encode(self.pair.public_key());
        json!({"kty": "OKP", "crv": "Ed25519", "use": "sig", "kid": self.id, "x": public})
    }

    /// A JWT with these claims, which names the key.
    pub fn sign(&self, claims: &Value) -> String {
        let header = json!({"alg": "EdDSA", "typ": "JWT", "kid": self.id});
        let [header, claims] =
            [&header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
        let signature = self.pair.sign(format!("{header}.{claims}").as_bytes());
        format!("{header}.{claims}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

/// Reply to a request.
enum Answer {
    Say(u16, Vec<u8>),
    /// Nothing, and keeps the connection.
    Hold,
}

/// A provider of OpenID Connect for one client, in whose place everybody is the same person.
struct OpenId {
    issuer: String,
    key: TokenKey,
    /// Id and secret of the client, with a colon between.
    client: String,
    /// Address that browsers are sent back to, whatever host they came from.
    back_to: String,
    /// Claims of the person.
    claims: Value,
    /// Requests to sign in that have a code and no token, by the code.
    codes: HashMap<String, HashMap<String, String>>,
}

struct State {
    answer: Answer,
    openid: Option<OpenId>,
    asked: usize,
    held: Vec<TcpStream>,
    ends: bool,
}

/// An issuer that publishes keys by HTTP until it is dropped.
pub struct Issuer {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    thread: Option<JoinHandle<()>>,
}

impl Issuer {
    /// One that publishes these.
    pub fn start(keys: &[&TokenKey]) -> Self {
        Self::at("127.0.0.1:0", keys)
    }

    /// One at an address, such as that of another that is gone.
    #[track_caller]
    pub fn at(address: &str, keys: &[&TokenKey]) -> Self {
        let listener = TcpListener::bind(address).expect("a free address");
        let address = listener.local_addr().expect("an address");
        let state = Arc::new(Mutex::new(State {
            answer: set(keys),
            openid: None,
            asked: 0,
            held: Vec::new(),
            ends: false,
        }));
        let served = state.clone();
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if lock(&served).ends {
                    return;
                }
                serve(stream, &served);
            }
        });
        Self {
            address,
            state,
            thread: Some(thread),
        }
    }

    /// Address of the listener.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where its keys are.
    pub fn url(&self) -> String {
        format!("http://{}/keys", self.address)
    }

    /// Publishes these from now on.
    pub fn publish(&self, keys: &[&TokenKey]) {
        lock(&self.state).answer = set(keys);
    }

    /// Answers so from now on.
    pub fn say(&self, status: u16, body: &[u8]) {
        lock(&self.state).answer = Answer::Say(status, body.to_vec());
    }

    /// Answers nothing from now on.
    pub fn hold(&self) {
        lock(&self.state).answer = Answer::Hold;
    }

    /// Signs everybody in as a person with these claims, from now on: for the client `ID:SECRET`,
    /// whose browsers go back to an address.
    pub fn open(&self, client: &str, back_to: &str, claims: Value) {
        let issuer = format!("http://{}", self.address);
        let mut state = lock(&self.state);
        // A set of keys without this one would be of no use here.
        let key = TokenKey::new(&format!("openid-{}", state.asked));
        state.answer = set(&[&key]);
        state.openid = Some(OpenId {
            issuer,
            key,
            client: client.to_owned(),
            back_to: back_to.to_owned(),
            claims,
            codes: HashMap::new(),
        });
    }

    /// Number of requests so far.
    pub fn asked(&self) -> usize {
        lock(&self.state).asked
    }
}

impl Drop for Issuer {
    fn drop(&mut self) {
        lock(&self.state).ends = true;
        // So that it looks.
        drop(TcpStream::connect(self.address));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn set(keys: &[&TokenKey]) -> Answer {
    let keys: Vec<Value> = keys.iter().map(|key| key.jwk()).collect();
    Answer::Say(200, json!({ "keys": keys }).to_string().into_bytes())
}

/// Reads and answers one request.
fn serve(stream: TcpStream, state: &Mutex<State>) {
    let mut reader = BufReader::new(&stream);
    let mut head = Vec::new();
    for line in reader.by_ref().lines() {
        match line {
            Ok(line) if !line.is_empty() => head.push(line),
            _ => break,
        }
    }
    let field = |name: &str| {
        let mut fields = head.iter().filter_map(|line| line.split_once(": "));
        let found = fields.find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.to_owned())
    };
    let length = field("content-length").and_then(|length| length.parse().ok());
    let mut body = vec![0; length.unwrap_or_default()];
    let _ = reader.read_exact(&mut body);
    let body = String::from_utf8_lossy(&body).into_owned();
    let target = { head.first() }.and_then(|line| line.split(' ').nth(1));
    let target = target.unwrap_or_default();
    let mut state = lock(state);
    state.asked += 1;
    if let Some(openid) = &mut state.openid
        && let Some((status, fields, body)) =
            openid.answer(target, &body, field("authorization").as_deref())
    {
        return say(&stream, status, &fields, body.as_bytes());
    }
    match &state.answer {
        Answer::Hold => state.held.push(stream),
        Answer::Say(status, body) => say(&stream, *status, "", body),
    }
}

fn say(mut stream: &TcpStream, status: u16, fields: &str, body: &[u8]) {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status} Such\r\n{fields}Content-Length: {length}\r\nConnection: \
         close\r\n\r\n"
    );
    // The client may be gone, or have read enough.
    let _ = stream.write_all(head.as_bytes());
    let _ = stream.write_all(body);
}

impl OpenId {
    /// Status, fields and body; `None` for the keys, which are those of every issuer.
    fn answer(
        &mut self,
        target: &str,
        body: &str,
        authorization: Option<&str>,
    ) -> Option<(u16, String, String)> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        match path {
            "/.well-known/openid-configuration" => {
                let issuer = &self.issuer;
                let document = json!({
                    "issuer": issuer,
                    "authorization_endpoint": format!("{issuer}/authorize"),
                    "token_endpoint": format!("{issuer}/token"),
                    "jwks_uri": format!("{issuer}/keys"),
                });
                Some((200, String::new(), document.to_string()))
            }
            "/authorize" => {
                let asked = form(query);
                let is = |name: &str, wanted: &str| asked.get(name).is_some_and(|it| it == wanted);
                let id = self.client.split(':').next().unwrap_or_default();
                if !is("response_type", "code")
                    || !is("client_id", id)
                    || !is("code_challenge_method", "S256")
                {
                    return Some((400, String::new(), "no such request".to_owned()));
                }
                let (back_to, code) = (&self.back_to, format!("code-{}", self.codes.len()));
                let back = asked["redirect_uri"]
                    .splitn(4, '/')
                    .nth(3)
                    .unwrap_or_default();
                let location = format!(
                    "Location: http://{back_to}/{back}?code={code}&state={}\r\n",
                    asked["state"]
                );
                self.codes.insert(code, asked);
                Some((303, location, String::new()))
            }
            "/token" => Some(match self.token(&form(body), authorization) {
                Some(token) => (200, String::new(), json!({"id_token": token}).to_string()),
                None => (
                    400,
                    String::new(),
                    json!({"error": "invalid_grant"}).to_string(),
                ),
            }),
            _ => None,
        }
    }

    /// A token for a code, once.
    fn token(
        &mut self,
        asked: &HashMap<String, String>,
        authorization: Option<&str>,
    ) -> Option<String> {
        let begun = self.codes.remove(asked.get("code")?)?;
        let challenge = digest(&SHA256, asked.get("code_verifier")?.as_bytes());
        let basic = format!("Basic {}", STANDARD.encode(&self.client));
        let is_good = begun["code_challenge"] == URL_SAFE_NO_PAD.encode(challenge.as_ref())
            && begun["redirect_uri"] == *asked.get("redirect_uri")?
            && asked.get("grant_type")? == "authorization_code"
            && authorization == Some(&*basic);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs();
        let mut claims = json!({
            "iss": self.issuer,
            "aud": [begun["client_id"]],
            "iat": now,
            "exp": now + 300,
            "nonce": begun["nonce"],
        });
        for (name, value) in self.claims.as_object()? {
            claims[name] = value.clone();
        }
        is_good.then(|| self.key.sign(&claims))
    }
}

/// Fields of a form or a query.
fn form(text: &str) -> HashMap<String, String> {
    let decoded = |text: &str| {
        let mut parts = text.split('%');
        let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
        for part in parts {
            let (digits, rest) = part.split_at(2);
            bytes.push(u8::from_str_radix(digits, 16).expect("two digits"));
            bytes.extend_from_slice(rest.as_bytes());
        }
        String::from_utf8(bytes).expect("UTF-8")
    };
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    let pairs = pairs.map(|(name, value)| (decoded(name), decoded(value)));
    pairs.collect()
}
