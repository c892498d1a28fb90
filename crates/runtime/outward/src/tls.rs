//! TLS on links: certificates are checked against the machine's own list, or not at all.

use throng_peer::DialTls;
use throng_tls::{Authorities, ClientTls, Trust};

/// Configurations, made when the first link needs them: reading the machine's certificates takes a
/// while.
#[derive(Default)]
pub(crate) struct Clients {
    checking: Option<ClientTls>,
    trusting: Option<ClientTls>,
}

impl Clients {
    /// The TLS of a link.
    ///
    /// # Errors
    /// A sentence, if the name is none, or there are no authorities in the file.
    pub(crate) fn client(&mut self, dial: &DialTls) -> Result<ClientTls, String> {
        let client = self.checked(dial)?;
        Ok(match dial.http2 {
            true => client.with_http2(),
            false => client,
        })
    }

    fn checked(&mut self, dial: &DialTls) -> Result<ClientTls, String> {
        if let Some(path) = &dial.authorities {
            let in_file = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
            let pem = std::fs::read(path).map_err(|error| in_file(&error))?;
            let trusted = Authorities::read(&pem).map_err(|error| in_file(&error))?;
            let client = ClientTls::new(&dial.name, &Trust::Of(trusted), true);
            let client = client.map(ClientTls::without_http);
            return client.map_err(|error| no_name(&dial.name, &error));
        }
        let (known, trust): (_, fn() -> Trust) = match dial.insecure {
            true => (&mut self.trusting, || Trust::Anybody),
            false => (&mut self.checking, || {
                Trust::Of(Authorities::of_this_machine())
            }),
        };
        let client = match known {
            Some(client) => client.for_name(&dial.name),
            None => ClientTls::new(&dial.name, &trust(), true).map(ClientTls::without_http),
        };
        let client = client.map_err(|error| no_name(&dial.name, &error))?;
        known.get_or_insert_with(|| client.clone());
        Ok(client)
    }
}

fn no_name(name: &str, error: &dyn std::fmt::Display) -> String {
    format!("{name:?} is not a valid server name: {error}")
}
