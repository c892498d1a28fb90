//! What a comparison over TLS needs: one certificate for every server, and clients that take it.
//!
//! Owns: the certificate, made anew for each run, of the kind that is cheapest to serve (ECDSA with
//! P-256). Never: resumes, so that each connection costs a whole handshake.

use std::path::Path;
use std::sync::LazyLock;

use anyhow::Result;
use throng_testkit::{Authority, Issued};
use throng_tls::{ClientTls, Trust};

static ISSUED: LazyLock<Issued> = LazyLock::new(|| Authority::new("compare").issue(&["localhost"]));

/// TLS configuration of clients: accepts any certificate, resumes nothing.
pub(crate) static CLIENT: LazyLock<ClientTls> =
    LazyLock::new(|| ClientTls::new("localhost", &Trust::Anybody, false).expect("the name is one"));

/// Writes the certificate and its key into a folder. Answers both paths.
pub(crate) fn write(folder: &Path) -> Result<[String; 2]> {
    let files = [
        ("server.pem", &ISSUED.certificate),
        ("server.key", &ISSUED.key),
    ];
    let mut paths = [String::new(), String::new()];
    for (path, (name, text)) in paths.iter_mut().zip(files) {
        let file = folder.join(name);
        std::fs::write(&file, text)?;
        *path = file.display().to_string();
    }
    Ok(paths)
}
