//! `throng config`.

use std::fs;

use crate::program::{Running, run, throng};

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
    run(&["config", "check", "/no/such/file"])
        .expect(4)
        .says(&["/no/such/file", "config init"]);
    run(&["config", "check", "--set", "channel.history_sise=1"])
        .expect(4)
        .says(&["history_size"]);
    run(&["config", "check", "--set", "nothing"])
        .expect(2)
        .says(&["path=value"]);
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
    let set = format!("auth.hmac_secret_file={}", key.display());
    let pem = format!("auth.rsa_public_key_file={}", key.display());
    run(&["config", "check", "--set", &set])
        .expect(4)
        .says(&["auth.hmac_secret_file", "No such file"]);
    fs::write(&key, "short\n").unwrap();
    run(&["config", "check", "--set", &set])
        .expect(4)
        .says(&["auth.hmac_secret_file", "32 bytes"]);
    run(&["config", "check", "--set", &pem])
        .expect(4)
        .says(&["auth.rsa_public_key_file"]);
    fs::write(
        &key,
        "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
    )
    .unwrap();
    run(&["config", "check", "--set", &pem])
        .expect(4)
        .says(&["auth.rsa_public_key", "not an RSA key"]);
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
    run(&["config", "check", file])
        .expect(4)
        .says(&["grip.pushpin_conf", "p.conf"]);
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
            run(&["config", "check", file])
                .expect(4)
                .says(&["line 2: "]);
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
    run(&["config", "check", file])
        .expect(4)
        .says(&["grip.routes_file"]);
}
