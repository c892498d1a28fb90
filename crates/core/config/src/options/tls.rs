//! The options of TLS: certificates, versions, callers of the API port.

use super::{HOUR, SECOND};
use crate::kind::{Choice, Duration, HostName, Named, Opt, Rule, Text};
use crate::section::section;

/// The lowest version of TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TlsVersion {
    /// RFC 5246.
    #[default]
    Tls12,
    /// RFC 8446.
    Tls13,
}

impl Named for TlsVersion {
    const NAMES: &'static [(&'static str, Self)] = &[("1.2", Self::Tls12), ("1.3", Self::Tls13)];
}

/// Who makes the records of TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TlsRecords {
    /// rustls, from the handshake to the end.
    #[default]
    Rustls,
    /// rustls during the handshake, then a record layer of our own.
    Lean,
}

impl Named for TlsRecords {
    const NAMES: &'static [(&'static str, Self)] =
        &[("rustls", Self::Rustls), ("lean", Self::Lean)];
}

section! {
    /// What is shown on addresses with `tls://` in `[listen]`. The files are read again on a reload
    /// and when they change; connections stay. A file that is wrong changes nothing, and the log
    /// says why.
    "tls" Tls {
        /// The PEM file with the server's certificate, and behind it those between it and its
        /// authority. It is for every name that no `[[tls.site]]` has.
        "certificate" certificate: Option<String>, Opt<Text>, None,
            Rule::ANY.example("\"/etc/throng/push.example.com.pem\"");
        /// The PEM file with the key of `certificate`, without a password.
        "key" key: Option<String>, Opt<Text>, None,
            Rule::ANY.example("\"/etc/throng/push.example.com.key\"");
        /// The lowest version that is spoken: `1.2` or `1.3`.
        "min_version" min_version: TlsVersion, Choice<TlsVersion>, TlsVersion::Tls12,
            Rule::ANY.restart();
        /// Who seals and opens records once hands are shaken: `rustls`, as during the handshake,
        /// or `lean`, a record layer of our own that takes a tenth of the memory for a connection.
        /// rustls shakes all hands.
        "records" records: TlsRecords, Choice<TlsRecords>, TlsRecords::Rustls,
            Rule::ANY.restart();
        /// How long a client may take to shake hands, before its request.
        "handshake_timeout" handshake_timeout_ms: u64, Duration, 10 * SECOND,
            Rule::ANY.range(100, HOUR);
        /// The PEM file with the authorities for callers of the API port: who has no certificate of
        /// one of them is refused. `listen.api` needs `tls://` for it, and keys are asked for all
        /// the same.
        "api_client_authorities" api_client_authorities: Option<String>, Opt<Text>, None,

            Rule::ANY.restart()
                .example("\"/etc/throng/callers.pem\"").unset("nobody needs a certificate");
    }
    lists {
        /// Certificates for more names.
        sites: Vec<TlsSite>;
    }
}

section! {
    /// The certificate for one name more. Repeat the section for each.
    "tls.site" TlsSite {
        /// The name that clients ask for (SNI): `push.example.com`, or `*.example.com` for all that
        /// have one word more.
        "name" name: String, HostName, String::new(), Rule::ANY.example("\"push.example.com\"");
        /// The PEM file with its certificate, and behind it those between it and its authority.
        "certificate" certificate: String, Text, String::new(),
            Rule::ANY.example("\"/etc/throng/push.example.com.pem\"");
        /// The PEM file with its key, without a password.
        "key" key: String, Text, String::new(),
            Rule::ANY.example("\"/etc/throng/push.example.com.key\"");
    }
}
