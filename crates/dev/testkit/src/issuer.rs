//! An issuer of tokens with public keys that anybody may fetch, and that it can change, withhold
//! and take away.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
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

struct State {
    answer: Answer,
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
    let mut lines = BufReader::new(&stream).lines();
    while lines
        .next()
        .is_some_and(|line| line.is_ok_and(|line| !line.is_empty()))
    {}
    let mut state = lock(state);
    state.asked += 1;
    match &state.answer {
        Answer::Hold => state.held.push(stream),
        Answer::Say(status, body) => {
            let length = body.len();
            let head = format!(
                "HTTP/1.1 {status} Such\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
            );
            // The client may be gone, or have read enough.
            let _ = (&stream).write_all(head.as_bytes());
            let _ = (&stream).write_all(body);
        }
    }
}
