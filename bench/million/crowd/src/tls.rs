//! TLS as a client needs it: rustls shakes hands, and afterwards a record layer of 72 bytes stays.
//!
//! The keys of each direction are taken out after the handshake, so that a million clients fit
//! beside the server. Only TLS 1.3 with AES-128-GCM is offered (RFC 8446, section 5.2). The
//! certificate is made for the run and its name is not checked: the server is the one that was
//! started beside the crowd.
//!
//! The product's own record layer does the same on another crypto library; nothing is shared.

use std::io;
use std::sync::Arc;

use ring::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring as provider};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, ConnectionTrafficSecrets, DigitallySignedStruct,
    SignatureScheme, version,
};

/// The head of a record: type, version, length.
const HEAD: usize = 5;
const TAG: usize = 16;
/// The longest record (RFC 8446, section 5.2).
const RECORD_MAX: usize = (1 << 14) + 256;
const HANDSHAKE: u8 = 22;
const DATA: u8 = 23;

/// TLS configuration shared by all connections of a process.
pub(crate) struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

pub(crate) enum Link {
    Shaking(Box<ClientConnection>),
    /// The handshake is over; [`Records`] seals and opens.
    Open(Box<Records>),
}

/// One direction: key, base of the nonces, and the number of the next record.
struct Way {
    key: [u8; 16],
    iv: [u8; NONCE_LEN],
    next: u64,
}

pub(crate) struct Records {
    out: Way,
    into: Way,
}

impl Tls {
    pub(crate) fn new() -> Result<Self, String> {
        let fail = |error: &dyn std::fmt::Display| format!("TLS: {error}");
        let provider = CryptoProvider {
            cipher_suites: vec![provider::cipher_suite::TLS13_AES_128_GCM_SHA256],
            kx_groups: vec![provider::kx_group::X25519],
            ..provider::default_provider()
        };
        let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[&version::TLS13])
            .map_err(|error| fail(&error))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anyone))
            .with_no_client_auth();
        config.enable_secret_extraction = true;
        config.resumption = rustls::client::Resumption::disabled();
        Ok(Self {
            config: Arc::new(config),
            name: ServerName::try_from("localhost").map_err(|error| fail(&error))?,
        })
    }

    pub(crate) fn link(&self) -> Result<Link, String> {
        ClientConnection::new(Arc::clone(&self.config), self.name.clone())
            .map(|connection| Link::Shaking(Box::new(connection)))
            .map_err(|error| format!("TLS: {error}"))
    }
}

impl Link {
    /// Takes what came during the handshake; what is to be sent goes to `out`. `true` once the
    /// handshake is over: what came after it is then the caller's to give to [`Records::open`].
    pub(crate) fn shake(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) -> Result<bool, String> {
        let Self::Shaking(connection) = self else {
            return Ok(true);
        };
        let fail = |error: &dyn std::fmt::Display| format!("TLS handshake: {error}");
        loop {
            let read = match connection.read_tls(&mut bytes) {
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
                Err(error) => return Err(fail(&error)),
            };
            connection
                .process_new_packets()
                .map_err(|error| fail(&error))?;
            if read == 0 || bytes.is_empty() {
                break;
            }
        }
        while connection.wants_write() {
            connection.write_tls(out).map_err(|error| fail(&error))?;
        }
        Ok(!connection.is_handshaking())
    }

    /// Ends the handshake: from now on the records are ours.
    pub(crate) fn finish(self) -> Result<Self, String> {
        let Self::Shaking(connection) = self else {
            return Ok(self);
        };
        let secrets = connection
            .dangerous_extract_secrets()
            .map_err(|error| format!("TLS keys: {error}"))?;
        let way = |(next, secrets): (u64, ConnectionTrafficSecrets)| match secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => Ok(Way {
                key: key
                    .as_ref()
                    .try_into()
                    .map_err(|_| "TLS: a key of another length")?,
                iv: iv
                    .as_ref()
                    .try_into()
                    .map_err(|_| "TLS: an IV of another length")?,
                next,
            }),
            _ => Err("TLS: another cipher suite than was offered".to_owned()),
        };
        Ok(Self::Open(Box::new(Records {
            out: way(secrets.tx)?,
            into: way(secrets.rx)?,
        })))
    }
}

impl Way {
    fn key(&self) -> Result<LessSafeKey, String> {
        UnboundKey::new(&AES_128_GCM, &self.key)
            .map(LessSafeKey::new)
            .map_err(|_| "TLS: a key that is none".to_owned())
    }

    /// The nonce of the next record (RFC 8446, section 5.3).
    fn nonce(&mut self) -> Nonce {
        let mut nonce = self.iv;
        for (byte, number) in nonce[4..].iter_mut().zip(self.next.to_be_bytes()) {
            *byte ^= number;
        }
        self.next += 1;
        Nonce::assume_unique_for_key(nonce)
    }
}

impl Records {
    pub(crate) fn seal(&mut self, plain: &[u8]) -> Result<Vec<u8>, String> {
        let length = plain.len() + 1 + TAG;
        let mut head = [DATA, 3, 3, 0, 0];
        let short = u16::try_from(length).map_err(|_| "TLS: too much for one record")?;
        head[3..].copy_from_slice(&short.to_be_bytes());
        let mut body = [plain, &[DATA]].concat();
        let key = self.out.key()?;
        key.seal_in_place_append_tag(self.out.nonce(), Aad::from(head), &mut body)
            .map_err(|_| "TLS: a record could not be sealed")?;
        Ok([&head[..], &body].concat())
    }

    /// Opens each whole record of `bytes` into `plain`, and returns their length together.
    pub(crate) fn open(&mut self, bytes: &[u8], plain: &mut Vec<u8>) -> Result<usize, String> {
        let mut at = 0;
        let key = self.into.key()?;
        while let Some(head) = bytes.get(at..at + HEAD) {
            let length = usize::from(u16::from_be_bytes([head[3], head[4]]));
            if head[0] != DATA || length > RECORD_MAX {
                return Err(format!("TLS: a record of type {}, {length} bytes", head[0]));
            }
            let Some(body) = bytes.get(at + HEAD..at + HEAD + length) else {
                break;
            };
            let aad = Aad::from(<[u8; HEAD]>::try_from(head).unwrap_or_default());
            let mut body = body.to_vec();
            let open = key
                .open_in_place(self.into.nonce(), aad, &mut body)
                .map_err(|_| "TLS: a record that is not the server's")?;
            // Zeros may follow the type (RFC 8446, section 5.4).
            let kind = open.iter().rposition(|&byte| byte != 0).unwrap_or_default();
            match open.get(kind) {
                Some(&DATA) => plain.extend_from_slice(&open[..kind]),
                // Tickets, which no client here uses.
                Some(&HANDSHAKE) => {}
                _ => return Err("TLS: closed by the server".to_owned()),
            }
            at += HEAD + length;
        }
        Ok(at)
    }
}

/// Accepts any certificate; no verification. The server was started beside the crowd.
#[derive(Debug)]
struct Anyone;

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _chain: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ECDSA_NISTP256_SHA256]
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use rustls::pki_types::PrivateKeyDer;
    use rustls::{ServerConfig, ServerConnection};

    use super::*;

    fn server() -> ServerConnection {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(provider::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.into()], key)
            .unwrap();
        ServerConnection::new(Arc::new(config)).unwrap()
    }

    /// Output of the server, in pieces of `cut` bytes.
    fn said(server: &mut ServerConnection, cut: usize) -> Vec<Vec<u8>> {
        let mut bytes = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut bytes).unwrap();
        }
        bytes.chunks(cut).map(<[u8]>::to_vec).collect()
    }

    fn hear(server: &mut ServerConnection, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            server.read_tls(&mut bytes).unwrap();
            server.process_new_packets().unwrap();
        }
    }

    /// A handshake with rustls' server, whose bytes arrive in pieces; then both ways, record after
    /// record.
    #[test]
    fn a_server_is_understood_whatever_the_pieces() {
        for cut in [1, 7, 100, 10_000] {
            let mut server = server();
            let mut link = Tls::new().unwrap().link().unwrap();
            let mut out = Vec::new();
            let mut done = link.shake(&[], &mut out).unwrap();
            hear(&mut server, &out);
            for piece in said(&mut server, cut) {
                assert!(!done, "the server said more than its part");
                out.clear();
                done = link.shake(&piece, &mut out).unwrap();
                hear(&mut server, &out);
            }
            assert!(done && !server.is_handshaking());
            let Link::Open(mut records) = link.finish().unwrap() else {
                panic!("the handshake is over");
            };
            for round in 0..3 {
                let asked = format!("question {round}").repeat(100);
                hear(&mut server, &records.seal(asked.as_bytes()).unwrap());
                let mut heard = vec![0; asked.len()];
                server.reader().read_exact(&mut heard).unwrap();
                assert_eq!(heard, asked.as_bytes());
                // The tickets are before the first answer.
                let answer = vec![round; 40_000];
                server.writer().write_all(&answer).unwrap();
                let (mut waiting, mut plain) = (Vec::new(), Vec::new());
                for piece in said(&mut server, cut) {
                    waiting.extend_from_slice(&piece);
                    let used = records.open(&waiting, &mut plain).unwrap();
                    waiting.drain(..used);
                }
                assert_eq!((plain, waiting), (answer, Vec::new()));
            }
        }
    }

    #[test]
    fn a_changed_byte_is_refused() {
        let way = || Way {
            key: [1; 16],
            iv: [2; NONCE_LEN],
            next: 3,
        };
        let records = || Records {
            out: way(),
            into: way(),
        };
        let sealed = records().seal(b"hello").unwrap();
        for at in HEAD..sealed.len() {
            let mut bytes = sealed.clone();
            bytes[at] ^= 1;
            assert!(
                records().open(&bytes, &mut Vec::new()).is_err(),
                "byte {at}"
            );
        }
        let mut plain = Vec::new();
        assert_eq!(records().open(&sealed, &mut plain), Ok(sealed.len()));
        assert_eq!(plain, b"hello");
    }
}
