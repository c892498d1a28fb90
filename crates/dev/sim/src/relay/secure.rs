//! Clients of the engine that speak TLS: the same lines, sealed.
//!
//! Keys differ from run to run, lengths do not; and lengths are all that a run is made of.

use std::sync::LazyLock;

use throng_testkit::Authority;
use throng_tls::{
    Certificates, ClientTls, MinVersion, RecordLayer, ServerTls, Site, TlsLink, Trust,
};

use crate::net::Net;

/// Server configurations of both record layers, and a client that accepts any certificate.
static ALL: LazyLock<([ServerTls; 2], ClientTls)> = LazyLock::new(|| {
    let issued = Authority::even("ours").issue_even(&["localhost"]);
    let site = Site::read_certificate("", issued.certificate.as_bytes()).expect("a certificate");
    let site = site.with_key(issued.key.as_bytes()).expect("its key");
    let shown = Certificates::new(&[site]);
    let servers = [RecordLayer::Rustls, RecordLayer::Lean]
        .map(|records| ServerTls::new(&shown, MinVersion::Tls12, records, None).expect("good"));
    let client = ClientTls::new("localhost", &Trust::Anybody, false);
    (servers, client.expect("good"))
});

/// TLS configuration of the shards. Every other seed has the record layer of our own.
pub(super) fn server(seed: u64) -> ServerTls {
    ALL.0[(seed % 2) as usize].clone()
}

/// TLS state of a client's end.
pub(super) struct Secure {
    link: TlsLink,
}

impl Secure {
    /// Begins to shake hands.
    pub(super) fn connect(net: &Net, conn: usize) -> Self {
        let mut link = TlsLink::client(&ALL.1).expect("there is randomness");
        let mut wire = Vec::new();
        link.start(&mut wire).expect("nothing has been heard yet");
        net.client_send(conn, &wire);
        Self { link }
    }

    pub(super) fn is_shaking(&self) -> bool {
        self.link.shaken().is_none()
    }

    pub(super) fn send(&mut self, net: &Net, conn: usize, bytes: &[u8]) {
        let mut wire = Vec::new();
        self.link.seal(bytes, &mut wire).expect("hands are shaken");
        net.client_send(conn, &wire);
    }

    /// Sends the end of TLS: nothing more comes.
    pub(super) fn close(&mut self, net: &Net, conn: usize) {
        let mut wire = Vec::new();
        self.link.close(&mut wire);
        net.client_send(conn, &wire);
    }

    /// Opens received bytes. Replies of TLS are sent, unless this side is shut.
    pub(super) fn open(
        &mut self,
        net: &Net,
        conn: usize,
        mut bytes: Vec<u8>,
        shut: bool,
    ) -> Vec<u8> {
        let (mut plain, mut wire) = (Vec::new(), Vec::new());
        let opened = self.link.receive(&mut bytes, &mut plain, &mut wire);
        opened.expect("the server keeps to TLS");
        if !shut && !wire.is_empty() {
            net.client_send(conn, &wire);
        }
        plain
    }
}
