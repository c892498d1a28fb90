//! Flags of the runner.
//!
//! Never: takes a flag for granted. One that is not listed here is not offered; an expectation that
//! a [`throng_tls::TlsLink`] says nothing about is noted.

use throng_tls::{RecordLayer, Shaken};

const TLS12: u16 = 0x0303;
const TLS13: u16 = 0x0304;
/// Groups that rustls offers by itself: P-256, P-384, X25519, X25519 with ML-KEM-768.
const GROUPS: [u16; 4] = [23, 24, 29, 4588];

/// Flags that hold for all connections of a case.
#[derive(Debug)]
pub(crate) struct Flags {
    pub(crate) port: u16,
    pub(crate) number: u64,
    pub(crate) is_ipv6: bool,
    pub(crate) records: RecordLayer,
    pub(crate) certificate: String,
    pub(crate) key: String,
    /// The file of the authorities whose clients are let in, if all must show a certificate.
    pub(crate) clients: Option<String>,
    pub(crate) needs_tls13: bool,
    /// Bytes come one by one.
    pub(crate) is_slow: bool,
    /// Text that is sent after the handshake, and the number of times.
    pub(crate) first_words: (String, usize),
    /// The server ends the connection, once the handshake is done.
    pub(crate) closes: bool,
    /// The peer has to say that nothing more comes.
    pub(crate) needs_close: bool,
    /// Connections after the first one.
    pub(crate) resumptions: usize,
    pub(crate) first: Case,
    pub(crate) later: Case,
    /// An expectation that is not checked.
    pub(crate) unseen: Option<String>,
}

/// Expectations of one connection.
#[derive(Debug, Default)]
pub(crate) struct Case {
    version: Option<u16>,
    is_resumed: Option<bool>,
}

impl Case {
    /// Fails if it came out in another way.
    pub(crate) fn check(&self, shaken: Shaken) -> Result<(), String> {
        let version = if shaken.is_tls13 { TLS13 } else { TLS12 };
        let is_version = self.version.is_none_or(|expected| expected == version);
        let is_resumed = self.is_resumed.is_none_or(|is| is == shaken.is_resumed);
        match is_version && is_resumed {
            true => Ok(()),
            false => Err(format!("expected {self:?}, got {shaken:?}")),
        }
    }
}

impl Flags {
    /// Reads all. Errors: the flag that is not offered.
    pub(crate) fn read(args: &[String]) -> Result<Self, String> {
        let mut flags = Self {
            port: 0,
            number: 0,
            is_ipv6: false,
            records: RecordLayer::Lean,
            certificate: String::new(),
            key: String::new(),
            clients: None,
            needs_tls13: false,
            is_slow: false,
            first_words: ("hello".to_owned(), 0),
            closes: false,
            needs_close: false,
            resumptions: 0,
            first: Case::default(),
            later: Case::default(),
            unseen: None,
        };
        let has = |flag: &str| args.iter().any(|arg| arg == flag);
        for (is_other, what) in [
            (has("-dtls"), "-dtls"),
            (has("-quic"), "-quic"),
            (!has("-server"), "a client"),
        ] {
            if is_other {
                return Err(what.to_owned());
            }
        }
        let mut words = 1;
        let mut wants_certificate = false;
        let mut checks_clients = false;
        let mut authorities = None;
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let (name, is_first, is_later) = scope(arg);
            let refuse = || arg.clone();
            let mut value = || args.next().ok_or_else(refuse);
            let is_whole = is_first && is_later;
            match name {
                "expect-version" => {
                    let version = Some(number(value()?)?);
                    flags.expect(is_first, is_later, |case| case.version = version);
                }
                "expect-session-miss" => {
                    flags.expect(false, is_later, |case| case.is_resumed = Some(false));
                }
                "expect-cipher-aes"
                | "expect-cipher-no-aes"
                | "expect-curve-id"
                | "expect-msg-callback"
                | "expect-peer-cert-file"
                | "expect-peer-signature-algorithm"
                | "expect-server-name" => {
                    _ = value()?;
                    flags.unseen = Some(arg.clone());
                }
                "expect-extended-master-secret"
                | "expect-hrr"
                | "expect-no-hrr"
                | "expect-no-server-name"
                | "expect-no-session-id"
                | "expect-session-id" => flags.unseen = Some(arg.clone()),
                _ if !is_whole => return Err(refuse()),
                "server" => {}
                "port" => flags.port = number(value()?)?,
                "shim-id" => flags.number = number(value()?)?,
                "ipv6" => flags.is_ipv6 = true,
                "notes" | "read-size" => _ = value()?,
                "records" => {
                    flags.records = match value()?.as_str() {
                        "lean" => RecordLayer::Lean,
                        "rustls" => RecordLayer::Rustls,
                        _ => return Err(refuse()),
                    }
                }
                // One certificate, whether it is the only one or the first of a list.
                "new-x509-credential" if flags.certificate.is_empty() => {}
                "cert-file" if flags.certificate.is_empty() => {
                    flags.certificate.clone_from(value()?);
                }
                "key-file" if flags.key.is_empty() => flags.key.clone_from(value()?),
                "trust-cert" => authorities = Some(value()?).filter(|path| !path.is_empty()),
                "require-any-client-certificate" => wants_certificate = true,
                "verify-peer" => checks_clients = true,
                "no-tls12" => flags.needs_tls13 = true,
                "min-version" => flags.needs_tls13 = TLS12 < number(value()?)?,
                "max-version" if TLS13 <= number(value()?)? => {}
                "curves" if GROUPS.contains(&number(value()?)?) => {}
                "resume-count" => flags.resumptions = number(value()?)?,
                "async" => flags.is_slow = true,
                "shim-writes-first" => flags.first_words.1 = words,
                "shim-initial-write" => flags.first_words.0.clone_from(value()?),
                "repeat-shim-initial-write" => words = number(value()?)?,
                "shim-shuts-down" => flags.closes = true,
                "check-close-notify" => flags.needs_close = true,
                // Versions that are never offered, and how a caller of another library may proceed.
                "no-tls1"
                | "no-tls11"
                | "expect-verify-result"
                | "implicit-handshake"
                | "no-op-extra-handshake"
                | "use-custom-verify-callback"
                | "use-early-callback" => {}
                _ => return Err(refuse()),
            }
        }
        if flags.certificate.is_empty() || flags.key.is_empty() {
            return Err("no certificate".to_owned());
        }
        if checks_clients && !wants_certificate {
            return Err("certificates that a client may show or not".to_owned());
        }
        if wants_certificate {
            // A client without one is refused whatever is trusted.
            flags.clients = Some(authorities.unwrap_or(&flags.certificate).clone());
        }
        if flags.first_words.1 != 0 {
            flags.first_words.1 = words;
        }
        Ok(flags)
    }

    fn expect(&mut self, is_first: bool, is_later: bool, what: impl Fn(&mut Case)) {
        if is_first {
            what(&mut self.first);
        }
        if is_later {
            what(&mut self.later);
        }
    }
}

/// A flag without its dash and what connections it is for: the first one, later ones.
fn scope(flag: &str) -> (&str, bool, bool) {
    if let Some(name) = flag.strip_prefix("-on-initial-") {
        (name, true, false)
    } else if let Some(name) = flag.strip_prefix("-on-resume-") {
        (name, false, true)
    } else {
        (flag.strip_prefix('-').unwrap_or(flag), true, true)
    }
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| text.to_owned())
}
