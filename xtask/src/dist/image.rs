//! The container image: a tar that `docker load`, `podman load` and `skopeo` take.
//!
//! It holds the program, the authorities that it trusts for outgoing TLS, and a user without
//! rights. Its layout follows the OCI image specification 1.1, with the file `manifest.json` beside
//! it that older Docker engines read.

use std::fs;
use std::path::Path;

use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::archive::{self, Entry, sha256};
use super::release::{Arch, Release};

/// Any user number that is not in use.
const USER: u64 = 65532;

const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// Writes the image of one architecture.
pub(crate) fn make(release: &Release, arch: Arch, binary: &Path) -> Result<()> {
    let name = format!("throng-{}-image-{}.tar", release.version, arch.short);
    let bytes = image(release, arch, fs::read(binary)?)?;
    Ok(fs::write(release.out.join(name), bytes)?)
}

fn image(release: &Release, arch: Arch, binary: Vec<u8>) -> Result<Vec<u8>> {
    let layer = archive::tar(&files(binary), release.epoch_s)?;
    let packed = archive::gzip(&layer)?;
    let config = serde_json::to_vec(&config(release, arch, &sha256(&layer)))?;
    let manifest = serde_json::to_vec(&json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": blob(CONFIG, &config),
        "layers": [blob(LAYER, &packed)],
    }))?;
    let tag = &release.version;
    let mut described = blob(MANIFEST, &manifest);
    described["platform"] = json!({"architecture": arch.short, "os": "linux"});
    described["annotations"] = json!({
        "org.opencontainers.image.ref.name": tag,
        "io.containerd.image.name": format!("docker.io/library/throng:{tag}"),
    });
    let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [described]});
    let place = |bytes: &[u8]| format!("blobs/sha256/{}", sha256(bytes));
    let docker = json!([{
        "Config": place(&config),
        "RepoTags": [format!("throng:{tag}")],
        "Layers": [place(&packed)],
    }]);
    let file = |path: &str, bytes: Vec<u8>| Entry::file(path, 0o644, bytes);
    let entries = [
        Entry::folder("blobs"),
        Entry::folder("blobs/sha256"),
        file(&place(&config), config),
        file(&place(&packed), packed),
        file(&place(&manifest), manifest),
        file("index.json", serde_json::to_vec(&index)?),
        file("manifest.json", serde_json::to_vec(&docker)?),
        file("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec()),
    ];
    archive::tar(&entries, release.epoch_s)
}

fn files(binary: Vec<u8>) -> Vec<Entry> {
    let names = "root:x:0:0:root:/:/nonexistent\nthrong:x:65532:65532:throng:/:/nonexistent\n";
    let groups = "root:x:0:\nthrong:x:65532:\n";
    vec![
        Entry::folder("etc"),
        Entry::file("etc/group", 0o644, groups.into()),
        Entry::file("etc/passwd", 0o644, names.into()),
        Entry::folder("etc/ssl"),
        Entry::folder("etc/ssl/certs"),
        Entry::file(
            "etc/ssl/certs/ca-certificates.crt",
            0o644,
            authorities().into(),
        ),
        Entry::folder("etc/throng"),
        Entry::folder("var"),
        Entry::folder("var/lib"),
        // A new volume that is mounted there is the user's, too.
        Entry {
            owner: USER,
            ..Entry::folder("var/lib/throng")
        },
        Entry::folder("usr"),
        Entry::folder("usr/bin"),
        Entry::file("usr/bin/throng", 0o755, binary),
    ]
}

/// Mozilla's list, in the form in which programs expect it (RFC 7468 section 5).
fn authorities() -> String {
    let mut out = String::new();
    for certificate in webpki_root_certs::TLS_SERVER_ROOT_CERTS {
        out.push_str("-----BEGIN CERTIFICATE-----\n");
        let text = STANDARD.encode(certificate);
        for line in text.as_bytes().chunks(64) {
            out.push_str(&String::from_utf8_lossy(line));
            out.push('\n');
        }
        out.push_str("-----END CERTIFICATE-----\n");
    }
    out
}

fn config(release: &Release, arch: Arch, layer: &str) -> Value {
    let second = 1_000_000_000_u64;
    json!({
        "architecture": arch.short,
        "os": "linux",
        "created": release.date,
        "config": {
            "User": format!("{USER}:{USER}"),
            "Env": [
                "PATH=/usr/bin",
                // Listening beyond loopback needs keys: see compose.yaml.
                "THRONG_LISTEN_CLIENT=0.0.0.0:8000",
                "THRONG_LISTEN_API=0.0.0.0:8001",
                "THRONG_LOG_FORMAT=json",
            ],
            "Entrypoint": ["/usr/bin/throng"],
            "Cmd": ["serve"],
            "ExposedPorts": {"8000/tcp": {}, "8001/tcp": {}},
            "StopSignal": "SIGTERM",
            "WorkingDir": "/",
            // Docker's own; other engines leave it alone.
            "Healthcheck": {
                "Test": ["CMD", "/usr/bin/throng", "health"],
                "Interval": 10 * second,
                "Timeout": 3 * second,
                "StartPeriod": 5 * second,
            },
            "Labels": {
                "org.opencontainers.image.title": "Throng",
                "org.opencontainers.image.description": "A self-hosted realtime push server",
                "org.opencontainers.image.licenses": "Apache-2.0",
                "org.opencontainers.image.revision": release.commit,
                "org.opencontainers.image.version": release.version,
                "org.opencontainers.image.created": release.date,
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{layer}")]},
        "history": [{"created": release.date, "created_by": "cargo xtask dist"}],
    })
}

fn blob(kind: &str, bytes: &[u8]) -> Value {
    json!({
        "mediaType": kind,
        "digest": format!("sha256:{}", sha256(bytes)),
        "size": bytes.len(),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::Read as _;

    use super::*;

    fn release() -> Release {
        Release {
            root: "/".into(),
            out: "/".into(),
            version: "1.2.3".to_owned(),
            commit: "0123456789".to_owned(),
            epoch_s: 1_700_000_000,
            date: "2023-11-14T22:13:20Z".to_owned(),
        }
    }

    fn unpacked(bytes: &[u8]) -> BTreeMap<String, Vec<u8>> {
        let mut archive = tar::Archive::new(bytes);
        let entries = archive.entries().unwrap().map(|entry| {
            let mut entry = entry.unwrap();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            (entry.path().unwrap().display().to_string(), bytes)
        });
        entries.collect()
    }

    /// Follows the digests as an engine does, from the index to the program.
    #[test]
    fn every_digest_leads_to_its_bytes() {
        let arch = super::super::release::ARCHITECTURES[1];
        let bytes = image(&release(), arch, b"program".to_vec()).unwrap();
        let files = unpacked(&bytes);
        let read = |path: &str| serde_json::from_slice::<Value>(&files[path]).unwrap();
        let follow = |described: &Value| {
            let digest = described["digest"].as_str().unwrap();
            let bytes = &files[&digest.replacen("sha256:", "blobs/sha256/", 1)];
            assert_eq!(digest, format!("sha256:{}", sha256(bytes)));
            assert_eq!(described["size"], bytes.len());
            bytes.clone()
        };
        let described = &read("index.json")["manifests"][0];
        assert_eq!(described["platform"]["architecture"], "arm64");
        let manifest: Value = serde_json::from_slice(&follow(described)).unwrap();
        let config: Value = serde_json::from_slice(&follow(&manifest["config"])).unwrap();
        assert_eq!(config["config"]["User"], "65532:65532");
        let packed = follow(&manifest["layers"][0]);
        let mut layer = Vec::new();
        let mut open = flate2::read::GzDecoder::new(packed.as_slice());
        open.read_to_end(&mut layer).unwrap();
        let id = format!("sha256:{}", sha256(&layer));
        assert_eq!(config["rootfs"]["diff_ids"], json!([id]));
        let inside = unpacked(&layer);
        assert_eq!(inside["usr/bin/throng"], b"program");
        let docker = &read("manifest.json")[0];
        assert_eq!(docker["RepoTags"], json!(["throng:1.2.3"]));
        for path in [&docker["Config"], &docker["Layers"][0]] {
            assert!(files.contains_key(path.as_str().unwrap()), "{path}");
        }
    }

    #[test]
    fn the_same_program_makes_the_same_image() {
        let arch = super::super::release::ARCHITECTURES[0];
        let made = || image(&release(), arch, b"program".to_vec()).unwrap();
        assert_eq!(sha256(&made()), sha256(&made()));
    }

    #[test]
    fn the_authorities_are_readable() {
        let text = authorities();
        assert!(text.matches("BEGIN CERTIFICATE").count() > 50);
        assert!(text.lines().all(|line| line.len() <= 64));
    }
}
