//! An authority of the test's own, and certificates of it, made when the test runs.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PKCS_ED25519, SerialNumber, date_time_ymd,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use tempfile::TempDir;

/// An authority that only the test trusts.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// A certificate and its key, as PEM texts.
#[derive(Clone, Debug)]
pub struct Issued {
    /// Certificate, as a PEM text.
    pub certificate: String,
    /// Private key, as a PEM text.
    pub key: String,
}

impl Issued {
    /// Speaks TLS as a server with it.
    pub fn serve(&self, stream: TcpStream) -> impl Read + Write + use<> {
        let certificate = CertificateDer::from_pem_slice(self.certificate.as_bytes());
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).expect("a key");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("its own versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.expect("a certificate")], key)
            .expect("one belongs to the other");
        let server = ServerConnection::new(Arc::new(config)).expect("randomness");
        StreamOwned::new(server, stream)
    }
}

impl Authority {
    /// A new one, of this name.
    pub fn new(name: &str) -> Self {
        Self::with(name, KeyPair::generate().expect("a key"))
    }

    /// Creates an authority whose certificates and signatures all have one length, so that a run
    /// can be repeated.
    pub fn even(name: &str) -> Self {
        Self::with(name, KeyPair::generate_for(&PKCS_ED25519).expect("a key"))
    }

    fn with(name: &str, key: KeyPair) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Self {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    /// Returns the authority's own certificate as a PEM text.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// A certificate for names and addresses.
    pub fn issue(&self, names: &[&str]) -> Issued {
        self.issue_until(names, 2100)
    }

    /// One that ends with the beginning of a year.
    pub fn issue_until(&self, names: &[&str], year: i32) -> Issued {
        self.issue_with(names, year, KeyPair::generate().expect("a key"))
    }

    /// One of an even authority with such a key too.
    pub fn issue_even(&self, names: &[&str]) -> Issued {
        self.issue_with(
            names,
            2100,
            KeyPair::generate_for(&PKCS_ED25519).expect("a key"),
        )
    }

    fn issue_with(&self, names: &[&str], year: i32, key: KeyPair) -> Issued {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let first = names.first().cloned().unwrap_or_default();
        let mut params = CertificateParams::new(names).expect("names");
        params.distinguished_name.push(DnType::CommonName, first);
        params.serial_number = Some(SerialNumber::from(4711_u64));
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(year, 1, 1);
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        Issued {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        }
    }
}

/// Certificates and keys in a temporary folder.
pub struct PemFiles {
    folder: TempDir,
}

impl Default for PemFiles {
    fn default() -> Self {
        Self::new()
    }
}

impl PemFiles {
    /// Makes a folder without files.
    pub fn new() -> Self {
        Self {
            folder: tempfile::tempdir().expect("a temporary folder"),
        }
    }

    /// Where a file is.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Folder that holds the files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file, in one step as programs that renew certificates do.
    pub fn write(&self, name: &str, text: &str) -> String {
        let (path, fresh) = (self.path(name), self.path(&format!("{name}.new")));
        fs::write(&fresh, text).expect("a file");
        fs::set_permissions(&fresh, Permissions::from_mode(0o600)).expect("ours alone");
        fs::rename(fresh, &path).expect("renamed");
        path.to_str().expect("a plain path").to_owned()
    }

    /// Writes `NAME.pem` and `NAME.key`.
    pub fn write_issued(&self, name: &str, issued: &Issued) -> [String; 2] {
        [
            self.write(&format!("{name}.pem"), &issued.certificate),
            self.write(&format!("{name}.key"), &issued.key),
        ]
    }
}

/// A server's certificate for this machine, and the authority that its clients believe.
pub struct TlsFiles {
    /// Has signed the certificate.
    pub authority: Authority,
    /// The server's, named `server`, and what else a test writes.
    pub files: PemFiles,
    /// Path of the file with the authority.
    pub trusted: String,
}

impl Default for TlsFiles {
    fn default() -> Self {
        let (authority, files) = (Authority::new("ours"), PemFiles::new());
        files.write_issued("server", &authority.issue(&["localhost", "127.0.0.1"]));
        Self {
            trusted: files.write("authority.pem", authority.pem()),
            authority,
            files,
        }
    }
}

impl TlsFiles {
    /// Section `[tls]` of a configuration, with more behind it.
    pub fn config(&self, more: &str) -> String {
        let [certificate, key] = ["server.pem", "server.key"].map(|name| self.files.path(name));
        format!("[tls]\ncertificate = {certificate:?}\nkey = {key:?}\n{more}")
    }
}
