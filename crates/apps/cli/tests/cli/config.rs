//! `throng config`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::program::{Running, failing, run, throng};

#[test]
fn what_init_writes_is_good_and_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("throng.toml");
    let file = path.to_str().unwrap();
    run(&["config", "init", file])
        .expect(0)
        .prints(&["throng serve --config"]);
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(run(&["config", "init", "-"]).expect(0).out, text);
    run(&["config", "check", file]).expect(0).prints(&[
        "is good",
        "open mode",
        "auth.allowed_hosts",
    ]);
    fs::write(&path, "").unwrap();
    run(&["config", "init", file]).expect(1).says(&["--force"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), "");
    run(&["config", "init", file, "--force"]).expect(0);
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

/// Everybody can read what the pages, the examples and the files for deployment print.
#[test]
fn no_printed_secret_is_accepted_where_others_connect() {
    let mut printed = BTreeSet::new();
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.."));
    for name in ["docs", "deploy", "examples", "README.md", "SECURITY.md"] {
        collect(&root.join(name), &mut printed);
    }
    for known in [
        "replace-this-with-32-random-bytes",
        "replace-this-key-too",
        "an-example-secret-that-everyone-knows",
        "an-example-key-that-everyone-knows",
        "change-me-to-32-characters-or-more",
    ] {
        assert!(
            printed.remove(known) || known.starts_with("change-me"),
            "{known}"
        );
        refused(known);
    }
    printed.iter().for_each(|secret| refused(secret));
}

#[track_caller]
fn refused(secret: &str) {
    let key = "auth.api_keys=0123456789abcdef0123456789abcdef".to_owned();
    let good = "auth.hmac_secret=0123456789abcdef0123456789abcdef".to_owned();
    for (secret, other) in [
        (format!("auth.hmac_secret={secret}"), key),
        (format!("auth.api_keys={secret}"), good),
    ] {
        let mut arguments = vec!["config", "check"];
        for set in [
            &*secret,
            &*other,
            "listen.client=0.0.0.0:8000",
            "listen.api=0.0.0.0:8001",
        ] {
            arguments.extend(["--set", set]);
        }
        let option = secret.split('=').next().unwrap();
        run(&arguments).expect(4).says(&[option]);
    }
}

/// Takes what looks like a secret from all lines that name one.
fn collect(path: &Path, printed: &mut BTreeSet<String>) {
    // These start servers for their own tests.
    let tests = ["node_modules", "checks", "results", "target"];
    if tests.iter().any(|name| path.ends_with(name)) {
        return;
    }
    if let Ok(entries) = fs::read_dir(path) {
        for entry in entries {
            collect(&entry.unwrap().path(), printed);
        }
        return;
    }
    let text = fs::read_to_string(path).unwrap_or_default();
    let names = [
        "hmac_secret",
        "hmac_previous_secret",
        "api_key",
        "secret",
        "x-api-key",
    ];
    for line in text.lines() {
        let lower = line.to_ascii_lowercase().replace('-', "_");
        if !names
            .iter()
            .any(|name| lower.contains(&name.replace('-', "_")))
        {
            continue;
        }
        let is_part = |part: char| part.is_ascii_alphanumeric() || "-_".contains(part);
        let words = line.split(|part| !is_part(part)).filter(|word| {
            word.len() >= 16 && word.contains('-') && !word.starts_with('-')
                || word.len() >= 32 && word.bytes().all(|byte| byte.is_ascii_hexdigit())
        });
        printed.extend(words.map(str::to_owned));
    }
}

#[test]
fn all_problems_are_told_with_their_places() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("throng.toml");
    let file = path.to_str().unwrap();
    fs::write(&path, "[listen]\nclinet = []\napi = \"nowhere\"\n").unwrap();
    for arguments in [["config", "check", file], ["config", "show", file]] {
        let mut command = throng(&arguments);
        let done = Running::start(command.env("THRONG_ENGINE_SHARDS", "many"))
            .wait()
            .expect(4);
        assert_eq!(done.out, "");
        done.says(&[
            "3 problems",
            "throng.toml:2:1",
            "client",
            "throng.toml:3:7",
            "THRONG_ENGINE_SHARDS",
        ]);
    }
    failing(
        "config check /no/such/file => 4 /no/such/file | config init
config check --set channel.history_sise=1 => 4 history_size
config check --set nothing => 2 path=value",
    );
}

#[test]
fn later_places_win_and_secrets_stay_hidden() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("throng.toml");
    let secret = "0123456789abcdef0123456789abcdef";
    fs::write(
        &path,
        format!(
            "[listen]\napi = \"127.0.0.1:1\"\n[auth]\nhmac_secret = \"{secret}\"\n\
             api_keys = [\"an API key\"]\n[channel]\nsubscribe = true\n"
        ),
    )
    .unwrap();
    let file = path.to_str().unwrap();
    let show = |more: &[&str]| {
        let arguments = [&["config", "show", file, "--set", "engine.shards=3"], more].concat();
        let mut command = throng(&arguments);
        command
            .env("THRONG_LISTEN_API", "127.0.0.1:2")
            .env("THRONG_API_KEY", "k")
            .env("THRONG_TOKEN", "t");
        let done = Running::start(&mut command).wait().expect(0);
        assert_eq!(done.err, "", "variables of other commands are not options");
        done
    };
    let done = show(&[]).prints(&[
        "api = \"127.0.0.1:2\"",
        "# env THRONG_LISTEN_API",
        "shards = 3",
        "********",
    ]);
    assert!(!done.out.contains(secret));
    show(&["--reveal"]).prints(&[secret]);
}

#[test]
fn files_that_the_configuration_names_are_tried() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    let file = key.display();
    let set = format!("config check --set auth.hmac_secret_file={file} => 4 auth.hmac_secret_file");
    let pem =
        format!("config check --set auth.rsa_public_key_file={file} => 4 auth.rsa_public_key");
    failing(&format!("{set} | No such file"));
    fs::write(&key, "short\n").unwrap();
    failing(&format!("{set} | 32 bytes\n{pem}_file"));
    let pem_text = "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n";
    fs::write(&key, pem_text).unwrap();
    failing(&format!("{pem} | not an RSA key"));
}

#[test]
fn pushpins_file_stands_below_ours() {
    let folder = tempfile::tempdir().unwrap();
    let (path, conf) = (
        folder.path().join("throng.toml"),
        folder.path().join("p.conf"),
    );
    let (file, conf) = (path.to_str().unwrap(), conf.to_str().unwrap());
    fs::write(
        conf,
        "[runner]\nservices=proxy\nhttp_port=127.0.0.1:7999\n[handler]\nmessage_hwm=25000\n",
    )
    .unwrap();
    fs::write(&path, format!("[grip]\npushpin_conf = {conf:?}\n")).unwrap();
    run(&["config", "check", file]).expect(0).says(&[
        "p.conf:2: runner.services has no effect: there is one process",
        "p.conf:5: handler.message_hwm has no effect",
    ]);
    run(&["config", "show", file])
        .expect(0)
        .prints(&["client = [\"127.0.0.1:7999\"]", "p.conf: runner.http_port"]);
    fs::remove_file(conf).unwrap();
    failing(&format!(
        "config check {file} => 4 grip.pushpin_conf | p.conf"
    ));
}

#[test]
fn routes_that_cannot_be_served_are_refused_with_their_lines() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("throng.toml");
    let routes = folder.path().join("routes");
    let file = path.to_str().unwrap();
    fs::write(&path, format!("[grip]\nroutes_file = {routes:?}\n")).unwrap();
    let serve = ["serve", "--config", file, "--listen", "127.0.0.1:0"];
    for (line, said) in [
        ("*,sockjs=/s a:1", "SockJS is not offered"),
        ("*,session a:1", "there is no state service"),
        ("* zhttp/ipc://x", "targets by ZeroMQ"),
        ("*,jsonp_cb=c a:1", "JSON-P is not offered"),
        ("*,sig_key=file:nowhere a:1", "nowhere"),
    ] {
        fs::write(&routes, format!("a.test test\n{line}\n")).unwrap();
        run(&["config", "check", file]).expect(4).says(&[said]);
        run(&serve).expect(4).says(&[said]);
        if !line.contains("sig_key") {
            failing(&format!("config check {file} => 4 line 2: "));
        }
    }
    // Pushpin passes over such a line too.
    fs::write(&routes, "a.test test\nb.test\n").unwrap();
    run(&["config", "check", file]).expect(0).says(&[
        "warning:",
        "line 2: ",
        "this line makes no route",
    ]);
    fs::remove_file(&routes).unwrap();
    failing(&format!("config check {file} => 4 grip.routes_file"));
}

/// Checks that one configuration in the three forms that Centrifugo reads gives the same one of
/// ours.
#[test]
fn a_configuration_of_centrifugo_becomes_one_of_ours() {
    const FORMS: [(&str, &str); 3] = [
        (
            "c.json",
            r#"{
  "client": {
    "token": { "hmac_secret_key": "bbe7d157-a253-4094-9759-06a8236543f9" },
    "allowed_origins": ["https://app.example.com"], "user_id_http_header": null,
    "publish_debounce_interval": 1
  },
  "http_api": { "key": "d7627bb6-2292-4911-82e1-615c0ed3eebb" },
  "channel": { "namespaces": [
    { "name": "chat", "presence": true, "history_size": 50, "history_ttl": "10m",
      "allow_subscribe_for_client": true }
  ] }
}"#,
        ),
        (
            "c.yaml",
            "---\n# Of a Helm chart.\nclient:\n  token:\n    hmac_secret_key: \
             bbe7d157-a253-4094-9759-06a8236543f9\n  allowed_origins:\n    - \
             https://app.example.com\n  publish_debounce_interval: 1\nhttp_api:\n  key: \
             \"d7627bb6-2292-4911-82e1-615c0ed3eebb\"\n\
             channel:\n  namespaces:\n    - name: chat\n      presence: true\n      \
             history_size: 50\n      history_ttl: 10m\n      allow_subscribe_for_client: true\n",
        ),
        (
            "c.toml",
            "[client]\npublish_debounce_interval = 1\nallowed_origins = \
             [\"https://app.example.com\"]\n[client.token]\n\
             hmac_secret_key = \"bbe7d157-a253-4094-9759-06a8236543f9\"\n[http_api]\nkey = \
             \"d7627bb6-2292-4911-82e1-615c0ed3eebb\"\n[[channel.namespaces]]\nname = \"chat\"\n\
             presence = true\nhistory_size = 50\nhistory_ttl = \"10m\"\n\
             allow_subscribe_for_client = true\n",
        ),
    ];
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let mut all = Vec::new();
    for (name, text) in FORMS {
        fs::write(path(name), text).unwrap();
        let out = path("throng.toml");
        let import = ["config", "import", &path(name), "--out", &out, "--force"];
        run(&import).expect(0).says(&[
            "wider: allow_history_for_subscriber (namespace chat)",
            "missing: client.publish_debounce_interval: unknown option",
            "changed: http_server.internal_port",
            "throng config check",
        ]);
        run(&["config", "check", &out]).expect(0);
        // All but the line that names the file.
        let text = fs::read_to_string(&out).unwrap();
        all.push(text.split_once('\n').unwrap().1.to_owned());
        // To standard output it is the same.
        let import = ["config", "import", &path(name), "--out", "-"];
        assert!(run(&import).expect(0).out.ends_with(all.last().unwrap()));
    }
    assert!(all.iter().all(|text| *text == all[0]), "{all:#?}");
    assert!(all[0].contains("subscribe = true"), "{}", all[0]);
    // Secrets are in it, so others may not read it; and it is not overwritten unasked.
    let out = path("throng.toml");
    let mode = std::os::unix::fs::MetadataExt::mode(&fs::metadata(&out).unwrap());
    assert_eq!(mode & 0o077, 0);
    let json = path("c.json");
    failing(&format!("config import {json} --out {out} => 1 --force"));
    for (name, text, said) in [
        ("c.ini", "", "ends in none of"),
        ("bad.json", "{", "bad.json"),
        ("bad.yaml", "a: [", "bad.yaml"),
        ("list.json", "[]", "not an object"),
    ] {
        fs::write(path(name), text).unwrap();
        let import = ["config", "import", &path(name), "--out", "-"];
        run(&import).expect(4).says(&[said]);
    }
}

/// Checks that faults which our own checks find are reported at the import.
#[test]
fn an_import_that_cannot_start_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.json");
    fs::write(
        &path,
        r#"{"token_hmac_secret_key": "change-me", "address": "no address", "port": 9000}"#,
    )
    .unwrap();
    let import = ["config", "import", path.to_str().unwrap(), "--out", "-"];
    run(&import).expect(0).says(&[
        "narrower: token_hmac_secret_key",
        "not good yet:",
        "no address:9000",
    ]);
}
