//! History on disk: copies of it, damage, and a full disk. What a kill leaves is in
//! `dialogues/history.txt`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;
use throng_testkit::{Proxy, Sdk, Server, Setup, throng, until};

use crate::support::{RECOVERY, data, publish, subscribed, url};

/// A configuration with history in a folder.
fn config(folder: &Path, more: &str) -> String {
    let path = folder.display();
    format!("{RECOVERY}\n[history]\npath = \"{path}\"\n{more}\n")
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

/// The segments of a folder, in order.
fn segments(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut all: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|it| it == "history"))
        .collect();
    all.sort();
    all
}

/// A client that has heard the first publications of a channel and was cut off.
fn cut_off(start: fn() -> Sdk, server: &Server, channel: &str) -> (Proxy, Sdk) {
    let proxy = Proxy::new(server.clients());
    let client = subscribed(start, proxy.address(), channel);
    let first = data("first", 3);
    publish(server, channel, &first);
    assert_eq!(client.publications(channel, 3), first);
    proxy.cut();
    client.event("connecting", &json!({}));
    (proxy, client)
}

#[track_caller]
fn back(proxy: &Proxy, client: &mut Sdk, server: &Server, channel: &str) -> Value {
    proxy.lead_to(server.clients());
    proxy.mend();
    let back = client.event("subscribed", &json!({ "channel": channel }));
    assert_eq!(back["was_recovering"], true, "{back}");
    back["recovered"].clone()
}

/// A restart loses nothing, and a copy of the folder that is put back hides nothing.
#[test]
fn clients_recover_over_a_clean_end_and_are_told_of_a_restored_copy() {
    let (live, backup) = (folder(), folder());
    let setup = Setup::new(&config(live.path(), "")).shards(2);
    let ask = |server: &Server| {
        let body = json!({ "channel": "chat:news", "limit": 10 });
        server.call("history", &body)["result"].clone()
    };
    let first = setup.start();
    let (behind, mut early) = cut_off(Sdk::javascript, &first, "chat:news");
    let before = ask(&first);
    assert_eq!(before["offset"], 3, "{before}");
    first.stop();
    for segment in segments(live.path()) {
        let name = segment.file_name().expect("a name");
        fs::copy(&segment, backup.path().join(name)).expect("a copy");
    }
    // More shards: channels have other homes.
    let second = Setup::new(&config(live.path(), "")).shards(3).start();
    let after = ask(&second);
    assert_eq!(after["publications"], before["publications"]);
    assert_ne!(after["epoch"], before["epoch"]);
    let ahead = Proxy::new(second.clients());
    let mut late = Sdk::javascript();
    late.connect(&url(ahead.address()));
    late.subscribe("chat:news");
    let gone = data("gone", 2);
    publish(&second, "chat:news", &gone);
    assert_eq!(late.publications("chat:news", 2), gone);
    assert_eq!(back(&behind, &mut early, &second, "chat:news"), true);
    assert_eq!(early.publications("chat:news", 2), gone);
    for (proxy, client) in [(&behind, &mut early), (&ahead, &mut late)] {
        client.forget("connecting");
        proxy.cut();
        client.event("connecting", &json!({}));
    }
    second.stop();
    let restored = Setup::new(&config(backup.path(), "")).shards(2).start();
    publish(&restored, "chat:news", &data("other", 5));
    for (proxy, client) in [(&behind, &mut early), (&ahead, &mut late)] {
        assert_eq!(back(proxy, client, &restored, "chat:news"), false);
    }
    restored.stop();
}

/// More channels than are looked at in one turn: all go when their time has come, and few of their
/// places are remembered.
#[test]
fn what_has_expired_goes_within_seconds() {
    let short = RECOVERY.replace("history_ttl = \"5m\"", "history_ttl = \"1s\"");
    let short = format!("[limits]\nstreams_max = 20\n{short}");
    let server = Setup::new(&short).shards(1).start();
    for part in 0..100 {
        let channels: Vec<String> = (0..500).map(|n| format!("chat:{part}-{n}")).collect();
        let body = json!({ "channels": channels, "data": "x" });
        assert!(server.call("broadcast", &body)["result"].is_object());
    }
    until("all have expired", || {
        server.metric("throng_history_publications") == 0 && server.metric("throng_channels") == 20
    });
    server.stop();
}

/// A server with this folder fails with these words.
#[track_caller]
fn does_not_start(folder: &Path, words: &str) {
    let file = folder.join("other.toml");
    fs::write(&file, config(folder, "")).expect("a file");
    let mut command = std::process::Command::new(throng());
    command.arg("serve").arg("--config").arg(&file);
    command.args(["--listen", "127.0.0.1:0", "--api", "127.0.0.1:0"]);
    let output = command.output().expect("the binary runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains(words), "{said}");
}

#[test]
fn the_folder_is_looked_at_before_it_is_used() {
    let folder = folder();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("its permissions");
    fs::write(folder.path().join("0000000000000001.history"), "").expect("a file");
    let setup = Setup::new(&config(folder.path(), "")).shards(1);
    let says = |server: &Server, words: &str| {
        assert!(server.logged(words) > 0, "{words}: {:?}", server.log());
    };
    let server = setup.start();
    says(&server, "open to all");
    says(&server, "has no head");
    does_not_start(folder.path(), "in use by another process");
    publish(&server, "chat:news", &data("torn", 1));
    server.stop();
    let last = segments(folder.path()).pop().expect("a segment");
    let content = fs::read(&last).expect("a segment");
    fs::write(&last, &content[..content.len() - 3]).expect("the same folder");
    let server = setup.start();
    says(&server, "of a segment are torn");
    server.stop();
    for name in ["00000000000000ff.history", "lock"] {
        let path = folder.path().join(name);
        // The lock is there.
        let _ = fs::remove_file(&path);
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.expect("mkfifo runs").success());
        does_not_start(folder.path(), &format!("{name} is not a regular file"));
        fs::remove_file(&path).expect("the pipe");
    }
}

/// A disk of a few hundred kilobytes, which one server alone sees.
#[test]
fn a_full_disk_stops_writing_and_nothing_else() {
    let folder = folder();
    let disk = folder.path().join("disk");
    fs::create_dir(&disk).expect("a folder");
    let script = folder.path().join("throng");
    let text = format!(
        "#!/bin/sh\nexec unshare -rm sh -c 'mount -t tmpfs -o size=512k none {} && exec {} \"$@\"' \
         sh \"$@\"\n",
        disk.display(),
        throng().display()
    );
    fs::write(&script, text).expect("a script");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("its permissions");
    for (then, refuses) in [("continue", false), ("refuse", true)] {
        let more = format!("on_failure = \"{then}\"");
        let setup = Setup::new(&config(&disk, &more)).shards(1).binary(&script);
        let server = setup.start();
        let root = format!("/proc/{}/root", server.process().id());
        let seen = Path::new(&root).join(disk.strip_prefix("/").expect("absolute"));
        let healthy = || server.ask("GET", "/healthz", "").body.trim().to_owned();
        assert_eq!(healthy(), "ok");
        fs::write(seen.join("filler"), vec![0; 490 << 10]).expect("room");
        let large = json!({ "filler": "x".repeat(8 << 10) }).to_string();
        let publish = || server.ask("POST", "/pub?channel=chat:news", &large).status;
        for _ in 0..4 {
            publish();
        }
        until("the disk is full", || {
            publish();
            server.metric("throng_history_store_up") == 0
        });
        assert!(healthy().starts_with("degraded"), "{}", healthy());
        assert_eq!(publish() == 200, !refuses, "{then}");
        if refuses {
            let pub_said = server.ask("POST", "/pub?channel=chat:news", "1").body;
            let api_said = server.call("publish", &json!({ "channel": "chat:news", "data": 1 }));
            for said in [pub_said, api_said.to_string()] {
                assert!(said.contains("history cannot be written to disk"), "{said}");
                assert!(!said.contains("broker"), "{said}");
            }
        }
        assert_eq!(
            server.logged("history is not written to disk"),
            1,
            "{:?}",
            server.log()
        );
        // There is room again.
        fs::remove_file(seen.join("filler")).expect("the filler");
        until("it is written again", || healthy() == "ok");
        assert_eq!(publish(), 200);
        server.stop();
    }
}
