//! The options of TLS: certificates, versions, callers of the API port.

use super::{HOUR, SECOND};
use crate::kind::{Choice, Duration, HostName, Opt, Text, choice};
use crate::section::section;

choice! {
    /// The lowest version of TLS.
    TlsVersion {
        /// TLS 1.2 (RFC 5246).
        #[default]
        Tls12 = "1.2",
        /// TLS 1.3 (RFC 8446).
        Tls13 = "1.3",
    }
}

choice! {
    /// Implementation of TLS records after the handshake.
    TlsRecords {
        /// rustls, from the handshake to the end.
        #[default]
        Rustls = "rustls",
        /// rustls during the handshake, then a record layer of our own.
        Lean = "lean",
        ; "kernel" => "records by the kernel (kTLS) are no more, since they took 4 kB of its \
            memory for each connection: set \"lean\", which takes 0.3 kB, or \"rustls\"",
    }
}

section! {
    /// Certificates for the addresses with `tls://` in `[listen]`. Throng reads the files again
    /// when they change and on a reload; open connections stay. A faulty file changes nothing, and
    /// the log says why.
    "tls" Tls {
        /// The PEM file with the server's certificate, followed by the intermediate certificates.
        /// It is used for every host name that has no `[[tls.site]]`.
        certificate: Option<String>, Opt<Text>, file,
            example("\"/etc/throng/push.example.com.pem\"");
        /// The PEM file with the private key of `certificate`, without a password.
        key: Option<String>, Opt<Text>, file, example("\"/etc/throng/push.example.com.key\"");
        /// The lowest version of TLS that clients may use: `1.2` or `1.3`.
        min_version: TlsVersion, Choice<TlsVersion>, restart;
        /// The record layer that encrypts and decrypts after the handshake: `rustls`, or `lean`,
        /// our own, which needs a tenth of the memory per connection. rustls does the handshake in
        /// both cases.
        records: TlsRecords, Choice<TlsRecords>, restart;
        /// Time limit for a client's TLS handshake.
        handshake_timeout_ms as "handshake_timeout": u64, Duration = 10 * SECOND, range(100, HOUR);
        /// The PEM file with the certificate authorities for callers of the API port. A caller
        /// without a certificate from one of them is refused. It needs `tls://` in `listen.api`.
        /// API keys are needed as well.
        api_client_authorities: Option<String>, Opt<Text>, file, restart,
            example("\"/etc/throng/callers.pem\""), unset("no certificate is required");
    }
    lists {
        /// Certificates for more names.
        "site" sites: TlsSite;
    }
}

section! {
    /// The certificate for one more host name. Repeat the section for each name.
    "tls.site" TlsSite {
        /// The host name that clients ask for (SNI): `push.example.com`, or `*.example.com` for all
        /// names with one more label in front.
        name: String, HostName, example("\"push.example.com\"");
        /// The PEM file with its certificate, followed by the intermediate certificates.
        certificate: String, Text, file, example("\"/etc/throng/push.example.com.pem\"");
        /// The PEM file with its private key, without a password.
        key: String, Text, file, example("\"/etc/throng/push.example.com.key\"");
    }
}
