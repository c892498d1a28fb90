//! Cost of a handshake for a server: `cargo run --release -p throng-tls --example handshakes`.
//!
//! Whole handshakes of TLS 1.3 in memory, X25519 and ECDSA on P-256, one ticket each: by rustls
//! alone, as its documentation shows it, and by a [`TlsLink`] with both record layers. Only the
//! server's turns count, in CPU time of the thread, so that a busy machine does little harm.

use std::sync::Arc;

use rustls::crypto::aws_lc_rs::{self, Ticketer};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::NoServerSessionStorage;
use rustls::{ServerConfig, ServerConnection};
use throng_testkit::{Authority, Issued};
use throng_tls::{
    Authorities, Certificates, ClientTls, MinVersion, RecordLayer, ServerTls, Site, TlsLink, Trust,
};

/// Connections that take their turns together, so that the clock is read once for all.
const BATCH: usize = 200;
/// Each is measured so often, by turns.
const ROUNDS: usize = 10;

/// One server's end: bytes in, bytes out.
type End = Box<dyn FnMut(Vec<u8>) -> Vec<u8>>;

fn of_rustls(config: &Arc<ServerConfig>) -> End {
    let mut server = ServerConnection::new(config.clone()).expect("randomness");
    Box::new(move |bytes| {
        let (mut bytes, mut wire) = (&bytes[..], Vec::new());
        while !bytes.is_empty() {
            server.read_tls(&mut bytes).expect("bytes in memory");
            server.process_new_packets().expect("a good client");
        }
        while server.wants_write() {
            server.write_tls(&mut wire).expect("bytes in memory");
        }
        wire
    })
}

fn of_link(tls: &ServerTls) -> End {
    let mut server = TlsLink::server(tls).unwrap_or_else(|fault| panic!("{fault}"));
    Box::new(move |bytes| take(&mut server, bytes))
}

fn take(link: &mut TlsLink, mut bytes: Vec<u8>) -> Vec<u8> {
    let mut wire = Vec::new();
    link.receive(&mut bytes, &mut Vec::new(), &mut wire)
        .unwrap_or_else(|fault| panic!("{fault}"));
    wire
}

/// The thread's time on a processor, in nanoseconds.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    let first = text.split(' ').next().and_then(|word| word.parse().ok());
    first.expect("a number")
}

/// The servers' share of a batch of handshakes, in nanoseconds.
fn batch(client: &ClientTls, server: impl Fn() -> End) -> u64 {
    let mut clients = Vec::new();
    let mut said = Vec::new();
    for _ in 0..BATCH {
        let mut link = TlsLink::client(client).unwrap_or_else(|fault| panic!("{fault}"));
        let mut hello = Vec::new();
        link.start(&mut hello)
            .unwrap_or_else(|fault| panic!("{fault}"));
        clients.push(link);
        said.push(hello);
    }
    let mut spent = cpu_ns();
    let mut servers: Vec<End> = (0..BATCH).map(|_| server()).collect();
    spent = cpu_ns() - spent;
    while said.iter().any(|bytes| !bytes.is_empty()) {
        let start = cpu_ns();
        let turns = servers.iter_mut().zip(said);
        let answers: Vec<Vec<u8>> = turns.map(|(server, bytes)| server(bytes)).collect();
        spent += cpu_ns() - start;
        let turns = clients.iter_mut().zip(answers);
        said = turns.map(|(client, bytes)| take(client, bytes)).collect();
    }
    assert!(clients.iter().all(|client| client.shaken().is_some()));
    spent
}

fn rustls_alone(issued: &Issued) -> Arc<ServerConfig> {
    let chain = CertificateDer::pem_slice_iter(issued.certificate.as_bytes());
    let chain = chain.collect::<Result<_, _>>().expect("a certificate");
    let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).expect("a key");
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .expect("a configuration");
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.ticketer = Ticketer::new().expect("randomness");
    config.send_tls13_tickets = 1;
    Arc::new(config)
}

fn main() {
    let authority = Authority::new("ours");
    let issued = authority.issue(&["localhost"]);
    let trust = Trust::Of(Authorities::read(authority.pem().as_bytes()).expect("an authority"));
    let client = ClientTls::new("localhost", &trust, false).expect("a name");
    let alone = rustls_alone(&issued);
    let ours = [RecordLayer::Rustls, RecordLayer::Lean].map(|records| {
        let site = Site::read_certificate("", issued.certificate.as_bytes());
        let site = site.and_then(|site| site.with_key(issued.key.as_bytes()));
        let certificates = Certificates::new(&[site.expect("a certificate")]);
        ServerTls::new(&certificates, MinVersion::Tls12, records, None).expect("a port")
    });
    let mut spent = [0; 3];
    for _ in 0..ROUNDS {
        spent[0] += batch(&client, || of_rustls(&alone));
        spent[1] += batch(&client, || of_link(&ours[0]));
        spent[2] += batch(&client, || of_link(&ours[1]));
    }
    for (name, ns) in ["rustls alone", "with rustls' records", "with lean records"]
        .into_iter()
        .zip(spent)
    {
        let each_us = ns as f64 / (BATCH * ROUNDS) as f64 / 1e3;
        let share = 100.0 * spent[0] as f64 / ns as f64;
        println!(
            "{name:<22} {each_us:6.1} us a handshake, {:6.0} in a CPU-second, {share:4.0} %",
            1e6 / each_us
        );
    }
}
