//! History on disk: the process is killed, its disk is full, and another process goes on.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;
use throng_testkit::{Installed, Proxy, Sdk, Server, Setup, Signal, throng, until};

use crate::support::{RECOVERY, data, publish, sdks, subscribed, url};

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

/// Waits until something stands in the log.
#[track_caller]
fn written(folder: &Path, what: &str) {
    until("what was published stands in the log", || {
        let all = segments(folder).into_iter();
        let mut contents = all.filter_map(|path| fs::read(path).ok());
        contents.any(|content| {
            content
                .windows(what.len())
                .any(|part| part == what.as_bytes())
        })
    });
}

fn kill(mut server: Server) {
    server.signal(Signal::KILL);
    server.wait();
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

#[test]
fn clients_recover_after_the_process_was_killed() {
    let folder = folder();
    let setup = Setup::new(&config(folder.path(), "")).shards(2);
    for (name, start) in sdks() {
        let channel = format!("chat:{name}");
        let mut server = setup.start();
        let (proxy, mut client) = cut_off(start, &server, &channel);
        // Two crashes in a row.
        let mut missed = Vec::new();
        for round in ["second", "third"] {
            let some = data(&format!("{round} {name}"), 5);
            publish(&server, &channel, &some);
            written(folder.path(), &some[4].to_string());
            missed.extend(some);
            kill(server);
            server = setup.start();
        }
        assert_eq!(back(&proxy, &mut client, &server, &channel), true, "{name}");
        let live = data("live", 3);
        publish(&server, &channel, &live);
        let heard = client.publications(&channel, missed.len() + 3);
        assert_eq!(heard, [&missed[..], &live].concat(), "{name}");
        // It goes on from where it is now.
        client.forget("connecting");
        proxy.cut();
        client.event("connecting", &json!({}));
        let again = data("again", 2);
        publish(&server, &channel, &again);
        assert_eq!(back(&proxy, &mut client, &server, &channel), true, "{name}");
        assert_eq!(client.publications(&channel, 2), again, "{name}");
        server.stop();
    }
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

/// Whatever was acknowledged is there after the process was killed.
#[test]
fn nothing_acknowledged_is_lost_to_a_kill() {
    for (level, then) in [
        ("written", ""),
        ("memory", "history_acknowledge = \"synced\""),
    ] {
        let folder = folder();
        let options = RECOVERY.replace("recovery = true", &format!("recovery = true\n{then}"));
        let path = folder.path().display();
        let setup = Setup::new(&format!(
            "{options}\n[history]\npath = \"{path}\"\nacknowledge = \"{level}\"\n"
        ));
        let setup = setup.shards(2);
        for round in 0..5 {
            let server = setup.start();
            let one = format!("chat:{round}");
            // By each way into the server API; the kill comes right behind the answer.
            let batch = json!({ "commands": [
                { "publish": { "channel": one, "data": 1 } },
                { "broadcast": { "channels": [one, format!("chat:b{round}")], "data": 2 } },
            ]});
            let answer = server.call("batch", &batch);
            assert!(answer.to_string().contains("\"offset\":2"), "{answer}");
            let answer = server.ask("POST", &format!("/pub?channel={one}"), "3");
            assert_eq!(
                (answer.status, answer.body.contains("\"offset\":3")),
                (200, true)
            );
            let mut client = Sdk::javascript();
            client.connect(&url(server.clients()));
            client.order("publish", &json!({ "channel": one, "data": 4 }));
            client.event("done", &json!({}));
            kill(server);
            let server = setup.start();
            for (channel, count) in [(one.clone(), 4), (format!("chat:b{round}"), 1)] {
                let body = json!({ "channel": channel, "limit": 10 });
                let page = server.call("history", &body)["result"].clone();
                let kept = page["publications"].as_array().map(Vec::len);
                assert_eq!(kept, Some(count), "{level} {then}: {page}");
            }
            server.stop();
        }
    }
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
fn an_upgrade_passes_the_folder_on() {
    let folder = folder();
    let installed = Installed::default();
    let setup = Setup::new(&config(folder.path(), "")).shards(2);
    let mut server = setup.clone().binary(&installed.path()).start();
    let (proxy, mut client) = cut_off(Sdk::javascript, &server, "chat:news");
    let second = data("second", 2);
    publish(&server, "chat:news", &second);
    // One that fails: the old process takes the folder back.
    installed.install_script("exit 3");
    // Whether it had read what it was told or not.
    for _ in 0..8 {
        let upgrade = server.upgrade();
        assert_eq!(upgrade.status.code(), Some(6));
        let said = String::from_utf8_lossy(&upgrade.stderr);
        assert!(said.contains("ended (exit status: 3)"), "{said}");
    }
    installed.install(throng());
    let third = data("third", 2);
    publish(&server, "chat:news", &third);
    written(folder.path(), &third[1].to_string());
    server.upgrade_well();
    let fourth = data("fourth", 2);
    publish(&server, "chat:news", &fourth);
    written(folder.path(), &fourth[1].to_string());
    server.counts("throng_history_store_up", 1);
    server.wait();
    // The new process is in the group of the old one, which is killed as a whole.
    drop(server);
    let server = setup.start();
    assert_eq!(back(&proxy, &mut client, &server, "chat:news"), true);
    let missed = [second, third, fourth].concat();
    assert_eq!(client.publications("chat:news", 6), missed);
    server.stop();
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
