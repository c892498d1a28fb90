//! State that the GRIP sessions of a shard share: routes, keys, cached values.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::rc::Rc;
use std::sync::Arc;

use throng_auth::{Algorithm, KeyConfig, KeyError, SigningKey, Verifier, sign};
use throng_grip::command::ZmqUris;
use throng_grip::instruct::KeepAlive;
use throng_grip::item::Item;
use throng_grip::proxy::XffRule;
use throng_grip::routes::{Route, Routes};
use throng_grip::sequence::SequenceLimits;
use throng_grip::sig::{SigClaims, is_pem};
use throng_types::{ConnId, Now, Publication, Rng};

use crate::forms::{Receipt, item_of};
use crate::stats::{Book, StatsOptions};

/// Protocol of one of GRIP's own ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortKind {
    /// Publishing by HTTP, at `POST /publish/`.
    Http,
    /// Publishing or commands by ZeroMQ.
    Zmq(ZmqSocket),
    /// Statistics for readers by ZeroMQ.
    Stats,
    /// Pushpin's metrics by HTTP.
    Metrics,
}

/// Which socket a publisher connects to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZmqSocket {
    /// PULL socket, which takes items.
    Pull,
    /// Asks for the items of channels that have subscribers, and takes them.
    Sub,
    /// REP socket, which takes commands.
    Rep,
}

/// Different keep-alives that are shared between sessions.
const KEEP_ALIVES_SHARED: usize = 64;

/// The empty key. HMAC fills a key up with zeros (RFC 2104 section 2), so this is equal to it, and
/// no empty secret passes the checks of configured ones.
const EMPTY_KEY: &[u8] = &[0];

/// Routes for requests. Replaced as a whole while the server runs; requests on a route continue
/// with that one.
#[derive(Clone, Debug, Default)]
pub struct RouteBook {
    pub routes: Routes,
    /// Their keys, by the text that the route has; an empty text is an empty key.
    pub keys: Vec<(String, Vec<u8>)>,
}

#[derive(Default)]
pub struct GripOptions {
    pub book: Arc<RouteBook>,
    /// Issuer claim (`iss`) of signatures.
    pub sig_iss: String,
    /// With which key: the bytes of a secret, or a PEM text. Without, the key is empty.
    pub sig_key: Option<Vec<u8>>,
    /// Verifier of the proxies whose signature makes a request trusted: see
    /// [`GripOptions::upstream`].
    pub upstream: Option<Arc<Verifier>>,
    /// Whether `Pushpin-Route` chooses the route.
    pub accept_route: bool,
    /// Whether the server's own endpoints keep their paths where a route does not name them.
    pub own_endpoints: bool,
    /// Bytes of a client's request body.
    pub body_bytes_max: usize,
    /// Channels that a client may be held in; 0 for as many as any connection may have.
    pub channels_max: usize,
    /// For the order of items in their channels.
    pub order: SequenceLimits,
    /// Rule for `X-Forwarded-For` of requests that are not trusted.
    pub xff: XffRule,
    /// Rule for `X-Forwarded-For` of trusted requests.
    pub xff_trusted: XffRule,
    /// Whether the client's `X-Forwarded-Proto` decides if it came by TLS.
    pub accept_forwarded_proto: bool,
    /// Whether backends get the protocol in `X-Forwarded-Proto`.
    pub set_forwarded_proto: bool,
    /// Appended to `CDN-Loop` if not empty.
    pub cdn_loop: String,
    /// Where publishers connect to by ZeroMQ.
    pub uris: ZmqUris,
    /// Whether publishers may listen to the channels that have subscribers.
    pub tells_topics: bool,
    /// The protocols of its own ports, by their numbers.
    pub ports: Vec<PortKind>,
    /// Statistics for readers by ZeroMQ.
    pub stats: Option<StatsOptions>,
    /// Seed of this shard's random choices; any number.
    pub seed: u64,
}

/// Number of sessions of this shard that took each publication that is on its way, by its address
/// in memory: each stays there until its entry was removed from here.
type Taken = HashMap<usize, u64>;

/// Configuration, and values cached by the shard's sessions. One per shard, owned by its thread.
pub struct GripShared {
    pub(crate) options: Arc<GripOptions>,
    book: RefCell<Arc<RouteBook>>,
    signers: RefCell<Vec<Rc<Signer>>>,
    keep_alives: RefCell<Vec<Rc<KeepAlive>>>,
    pub(crate) last_item: RefCell<Option<(Arc<Publication>, Rc<Item>)>>,
    pub(crate) taken: RefCell<Taken>,
    /// Clients with IPv6 addresses whose streams may leave their connection to another request.
    /// Bound: those that are held on this shard.
    peers: RefCell<BTreeMap<ConnId, Ipv6Addr>>,
    chance: RefCell<Rng>,
    /// Number of channels that publishers were told have subscribers.
    pub(crate) topics_told: Cell<u64>,
    /// Whether publishers may listen to the channels that have subscribers.
    pub(crate) tells_topics: bool,
    /// The shard's clients, if statistics are configured.
    pub(crate) book_of_clients: Option<RefCell<Book>>,
}

impl GripShared {
    #[must_use]
    pub fn new(options: Arc<GripOptions>) -> Self {
        Self {
            tells_topics: options.tells_topics,
            book_of_clients: options
                .stats
                .map(|stats| RefCell::new(Book::new(stats.connection_ttl_ms))),
            chance: RefCell::new(Rng::new(options.seed)),
            topics_told: Cell::default(),
            book: RefCell::new(options.book.clone()),
            options,
            signers: RefCell::default(),
            keep_alives: RefCell::default(),
            last_item: RefCell::default(),
            taken: RefCell::default(),
            peers: RefCell::default(),
        }
    }

    /// Keeps the address of a client that is held.
    pub(crate) fn keep_peer(&self, conn: ConnId, peer: Ipv6Addr) {
        self.peers.borrow_mut().insert(conn, peer);
    }

    /// The address that is kept of a client.
    pub(crate) fn peer(&self, conn: ConnId) -> Option<IpAddr> {
        self.peers.borrow().get(&conn).copied().map(IpAddr::V6)
    }

    /// Forgets the address of a client that was held.
    pub(crate) fn take_peer(&self, conn: ConnId) -> Option<IpAddr> {
        self.peers.borrow_mut().remove(&conn).map(IpAddr::V6)
    }

    pub(crate) fn book(&self) -> Arc<RouteBook> {
        self.book.borrow().clone()
    }

    /// Other routes hold from now on.
    pub(crate) fn replace(&self, book: Arc<RouteBook>) {
        *self.book.borrow_mut() = book;
        // Keys may have gone with the old ones.
        self.signers.borrow_mut().clear();
    }

    /// Whether this is a `Grip-Sig` of a proxy in front.
    pub(crate) fn is_upstream(&self, sig: &str, now: Now) -> bool {
        let Some(upstream) = &self.options.upstream else {
            return false;
        };
        let claims = upstream.verify(sig, now.unix_s());
        // A signature that never ends is none of Pushpin's.
        claims.is_ok_and(|claims| claims.exp.is_some())
    }

    /// Channels that a client may be held in.
    pub(crate) fn channels_max(&self, channels_max: usize) -> usize {
        match self.options.channels_max {
            0 => channels_max,
            own => own,
        }
    }

    /// Returns the value of `Grip-Sig` for a request of this route. Without a key it is signed with
    /// an empty one, as Pushpin does: it proves nothing, and yet backends that check no signature
    /// expect one. `None` without an issuer, or if the route's key is unknown.
    pub(crate) fn sig(&self, route: &Route, now: Now) -> Option<Rc<str>> {
        let options = &self.options;
        let iss = route.sig_iss.as_deref().unwrap_or(&options.sig_iss);
        if iss.is_empty() {
            return None;
        }
        let book = self.book();
        let key = match route.sig_key.as_deref() {
            Some("") => EMPTY_KEY,
            Some(text) => {
                let mut keys = book.keys.iter().filter(|(known, _)| known == text);
                keys.next().map(|(_, key)| key.as_slice())?
            }
            None => options.sig_key.as_deref().unwrap_or(EMPTY_KEY),
        };
        let mut signers = self.signers.borrow_mut();
        let known = signers
            .iter()
            .find(|known| known.iss == iss && known.key == key);
        let signer = known.cloned().unwrap_or_else(|| {
            let signer = Rc::new(Signer::new(iss, key));
            signers.push(signer.clone());
            signer
        });
        drop(signers);
        signer.token(now)
    }

    /// Returns a keep-alive, shared with the sessions that have an equal one.
    pub(crate) fn keep_alive(&self, keep_alive: KeepAlive) -> Rc<KeepAlive> {
        let mut all = self.keep_alives.borrow_mut();
        if let Some(known) = all.iter().find(|known| ***known == keep_alive) {
            return known.clone();
        }
        let new = Rc::new(keep_alive);
        if all.len() >= KEEP_ALIVES_SHARED {
            all.clear();
        }
        all.push(new.clone());
        new
    }

    /// Counts one more channel that publishers were told of, and returns its number.
    pub(crate) fn topic_told(&self) -> u64 {
        self.topics_told.update(|told| told + 1);
        self.topics_told.get()
    }

    /// The item that a publication carries, read once for all sessions of a shard that look
    /// at it one after the other.
    pub(crate) fn item(&self, publication: &Arc<Publication>) -> Rc<Item> {
        let mut last = self.last_item.borrow_mut();
        if let Some((known, item)) = &*last
            && Arc::ptr_eq(known, publication)
        {
            return item.clone();
        }
        let item = Rc::new(item_of(publication));
        *last = Some((publication.clone(), item.clone()));
        item
    }

    pub(crate) fn took(&self, publication: &Publication) {
        if publication.tags.is_some() {
            let mut taken = self.taken.borrow_mut();
            *taken.entry(address(publication)).or_default() += 1;
        }
    }

    /// Takes the receipt and the count of a publication, after its last delivery here.
    pub(crate) fn carried(&self, publication: &Publication) -> Option<(Receipt, u64)> {
        let count = self.taken.borrow_mut().remove(&address(publication));
        let receipt = Receipt::from_tags(publication.tags.as_deref())?;
        Some((receipt, count.unwrap_or(0)))
    }

    /// Returns an unpredictable number; not for secrets.
    pub(crate) fn chance(&self) -> u64 {
        self.chance.borrow_mut().next_u64()
    }
}

fn address(publication: &Publication) -> usize {
    std::ptr::from_ref(publication).addr()
}

impl GripOptions {
    /// Creates the verifier for signatures of proxies in front, from a secret's bytes or the PEM
    /// text of a public key.
    ///
    /// # Errors
    /// If the key is neither.
    pub fn upstream(key: &[u8]) -> Result<Verifier, KeyError> {
        let pem = str::from_utf8(key).ok().filter(|_| is_pem(key));
        let Some(pem) = pem else {
            return Verifier::new(KeyConfig {
                hmac_secret: Some(key.into()),
                ..KeyConfig::default()
            });
        };
        Verifier::new(KeyConfig {
            ecdsa_public_pem: Some(pem.into()),
            ..KeyConfig::default()
        })
        .or_else(|_| {
            Verifier::new(KeyConfig {
                rsa_public_pem: Some(pem.into()),
                ..KeyConfig::default()
            })
        })
    }

    /// Whether a key can sign. To be asked at the start.
    #[must_use]
    pub fn can_sign(key: &[u8]) -> bool {
        Signer::new("", key).token(Now::default()).is_some()
    }
}

/// Seconds that one signature is used again; it is valid for an hour.
const SIG_REUSE_S: u64 = 60;

/// A key, and the token that was last made with it.
pub(crate) struct Signer {
    pub(crate) iss: String,
    pub(crate) key: Vec<u8>,
    made: RefCell<Option<(u64, Rc<str>)>>,
}

impl Signer {
    pub(crate) fn new(iss: &str, key: &[u8]) -> Self {
        Self {
            iss: iss.to_owned(),
            key: key.to_vec(),
            made: RefCell::default(),
        }
    }

    /// A token that is good for most of an hour; none if the key cannot sign.
    pub(crate) fn token(&self, now: Now) -> Option<Rc<str>> {
        let mut made = self.made.borrow_mut();
        if let Some((at_s, token)) = &*made
            && now.unix_s() < at_s + SIG_REUSE_S
        {
            return Some(token.clone());
        }
        let claims = SigClaims::new(&self.iss, now);
        let token = match str::from_utf8(&self.key) {
            Ok(pem) if is_pem(&self.key) => {
                sign(&claims, Algorithm::Es256, SigningKey::EcdsaPem(pem))
                    .or_else(|_| sign(&claims, Algorithm::Rs256, SigningKey::RsaPem(pem)))
            }
            _ => sign(&claims, Algorithm::Hs256, SigningKey::HmacSecret(&self.key)),
        };
        // The key was tried at the start.
        let token: Rc<str> = token.ok()?.into();
        *made = Some((now.unix_s(), token.clone()));
        Some(token)
    }
}

#[cfg(test)]
mod tests {
    use throng_auth::{Algorithm, SigningKey, sign};
    use throng_types::Millis;

    use super::*;

    const fn at(unix_s: u64) -> Now {
        Now {
            mono: Millis(0),
            unix_ms: unix_s * 1000,
        }
    }

    fn desk(sig_key: &str, upstream: &str) -> GripShared {
        GripShared::new(Arc::new(GripOptions {
            sig_iss: "us".to_owned(),
            sig_key: Some(sig_key.into()),
            book: Arc::new(RouteBook {
                keys: vec![("text".to_owned(), b"of the route".to_vec())],
                ..RouteBook::default()
            }),
            upstream: GripOptions::upstream(upstream.as_bytes())
                .ok()
                .map(Arc::new),
            ..GripOptions::default()
        }))
    }

    #[test]
    fn a_signature_is_made_for_a_while_and_trusted_for_an_hour() {
        let desk = desk("key", "key");
        let route = Route::default();
        let first = desk.sig(&route, at(1000)).expect("a key");
        assert_eq!(desk.sig(&route, at(1059)).as_ref(), Some(&first));
        assert_ne!(desk.sig(&route, at(1060)).as_ref(), Some(&first));
        for (now, expected) in [(1000, true), (4599, true), (4600, false)] {
            assert_eq!(desk.is_upstream(&first, at(now)), expected, "{now}");
        }
        let own = Route {
            sig_key: Some("text".to_owned()),
            ..Route::default()
        };
        let of_route = desk.sig(&own, at(1000)).expect("the route's key");
        assert!(!desk.is_upstream(&of_route, at(1000)), "another key");
        let unknown = Route {
            sig_key: Some("other".to_owned()),
            ..Route::default()
        };
        assert_eq!(desk.sig(&unknown, at(1000)), None);
    }

    /// As Python's `hmac` makes it with the key `b""`.
    #[test]
    fn without_a_key_the_signature_is_one_with_an_empty_key() {
        const EXPECTED: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.\
            eyJleHAiOjQ2MDAsImlzcyI6InVzIn0.xyKkzGvuLl2_Btfi1g0HzQHEVq2eroBexQ64KvFBprg";
        let without = |sig_iss: &str, sig_key: Option<&str>| {
            let options = GripOptions {
                sig_iss: sig_iss.to_owned(),
                sig_key: sig_key.map(Into::into),
                ..GripOptions::default()
            };
            GripShared::new(Arc::new(options))
        };
        let of_route = Route {
            sig_key: Some(String::new()),
            ..Route::default()
        };
        let sig =
            |desk: &GripShared, route: &Route| desk.sig(route, at(1000)).map(|sig| sig.to_string());
        let expected = Some(EXPECTED.to_owned());
        assert_eq!(sig(&without("us", None), &Route::default()), expected);
        assert_eq!(sig(&without("us", Some("key")), &of_route), expected);
        assert_eq!(sig(&without("", Some("key")), &Route::default()), None);
    }

    #[test]
    fn nobody_is_trusted_without_a_key_or_an_end() {
        let signed = desk("key", "other");
        let sig = signed.sig(&Route::default(), at(1000)).expect("a key");
        assert!(!signed.is_upstream(&sig, at(1000)));
        assert!(!signed.is_upstream("", at(1000)));
        let claims = serde_json::json!({"iss": "us"});
        let endless = sign(&claims, Algorithm::Hs256, SigningKey::HmacSecret(b"other"));
        assert!(!signed.is_upstream(&endless.expect("a token"), at(1000)));
        assert!(GripOptions::upstream(b"-----BEGIN NOTHING-----").is_err());
        assert!(!GripOptions::can_sign(b"-----BEGIN NOTHING-----"));
    }

    #[test]
    fn equal_keep_alives_are_one() {
        let desk = desk("key", "key");
        let keep_alive = |timeout_s| KeepAlive {
            data: b"x".to_vec(),
            timeout_s,
            mode: throng_grip::instruct::KeepAliveMode::Idle,
        };
        let first = desk.keep_alive(keep_alive(5));
        assert!(Rc::ptr_eq(&first, &desk.keep_alive(keep_alive(5))));
        assert!(!Rc::ptr_eq(&first, &desk.keep_alive(keep_alive(6))));
    }
}
