//! TLS to origins: certificates checked against the machine's own list, or, for routes that
//! say `insecure`, not at all.

use std::io;
use std::sync::{Arc, OnceLock};

use throng_tls::{Authorities, Trust, client_config};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::place::Key;

/// Made when the first route needs them: reading the machine's certificates takes a while.
#[derive(Default)]
pub(crate) struct Connectors {
    checking: OnceLock<TlsConnector>,
    trusting: OnceLock<TlsConnector>,
}

impl Connectors {
    pub(crate) async fn connect(
        &self,
        key: &Key,
        tcp: TcpStream,
    ) -> io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(key.name.clone());
        let name = name.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let connector = if key.place.insecure {
            self.trusting.get_or_init(|| connector(&Trust::Anybody))
        } else {
            let of_this_machine = || connector(&Trust::Of(Authorities::of_this_machine()));
            self.checking.get_or_init(of_this_machine)
        };
        connector.connect(name, tcp).await
    }
}

/// A client that believes these.
fn connector(trust: &Trust) -> TlsConnector {
    let config = client_config(trust).expect("the provider knows the default versions");
    TlsConnector::from(Arc::new(config))
}
