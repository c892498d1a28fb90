//! Routes that change while the server runs.

use std::fs;
use std::path::Path;

use throng_testkit::{Server, Setup, Signal, request, until};

use crate::support::{Backend, get, item, publish, reply, subscribed};

/// A file that is there whole or not at all.
fn write(path: &Path, text: &str) {
    let new = path.with_extension("new");
    fs::write(&new, text).expect("a file");
    fs::rename(new, path).expect("in its place");
}

/// Waits until the backend with this answer serves a path.
#[track_caller]
fn answers(server: &Server, path: &str, name: &str) {
    until(&format!("{path} is answered by {name}"), || {
        let answer = request(server.clients(), "GET", path, &[], "");
        (answer.body == name).then_some(())
    });
}

#[track_caller]
fn logged(server: &Server, level: &str, part: &str) {
    until(&format!("{level}: {part}"), || {
        let lines = server.log().into_iter();
        let mut lines = lines.filter(|line| line["level"] == level);
        lines.find(|line| {
            line["message"]
                .as_str()
                .is_some_and(|text| text.contains(part))
        })
    });
}

fn named(name: &'static str) -> Backend {
    Backend::start(move |asked, stream| match asked.line.contains("/held") {
        true => {
            let hold = [("Grip-Hold", "stream"), ("Grip-Channel", "a")];
            reply(stream, &hold, name)
        }
        false => reply(stream, &[], name),
    })
}

#[test]
fn a_changed_file_of_routes_is_read_again() {
    let [one, two] = [named("one"), named("two")];
    let folder = tempfile::tempdir().expect("a temporary folder");
    let routes = folder.path().join("routes");
    write(&routes, &format!("* {}\n", one.address));
    let config = format!(
        "[grip]\nhttp_publish = \"127.0.0.1:0\"\nroutes_file = {:?}\n",
        routes.display().to_string()
    );
    let mut server = Setup::new(&config).shards(2).start();
    answers(&server, "/", "one");
    let mut held = get(&server, "/held");
    held.head();
    assert_eq!(held.chunk(), "one");
    subscribed(&server, 1);
    write(&routes, &format!("* {}\n", two.address));
    answers(&server, "/", "two");
    // A mistake changes nothing, and the log names its place.
    write(&routes, &format!("* {}\nexample.com\n", one.address));
    logged(
        &server,
        "ERROR",
        "line 2: a condition needs at least one target",
    );
    answers(&server, "/", "two");
    // Nor does a file that is not there.
    fs::remove_file(&routes).expect("it was there");
    server.signal(Signal::HUP);
    logged(&server, "ERROR", "grip.routes_file");
    answers(&server, "/", "two");
    // Held clients stay.
    publish(&server, &item("a", "still", ""));
    assert_eq!(held.chunk(), "still");
    write(&routes, &format!("* {}\n", one.address));
    answers(&server, "/", "one");
    assert!(server.runs());
    server.stop();
}

#[test]
fn a_hang_up_never_ends_a_server_and_says_what_needs_a_restart() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("own.conf");
    // Without GRIP there is nothing to take over.
    let mut plain = Setup::new("").start();
    plain.signal(Signal::HUP);
    logged(&plain, "INFO", "the configuration was read again");
    plain.signal(Signal::HUP);
    assert!(plain.runs());
    plain.stop();
    // With a file of Pushpin's, which changes too.
    let backend = named("one");
    write(
        &folder.path().join("routes"),
        &format!("* {}\n", backend.address),
    );
    write(&file, "[proxy]\nroutesfile=routes\nsig_iss=one\n");
    let config = format!("[grip]\npushpin_conf = {:?}\n", file.display().to_string());
    let mut server = Setup::new(&config).shards(2).start();
    write(&file, "[proxy]\nroutesfile=other\nsig_iss=two\n");
    server.signal(Signal::HUP);
    logged(&server, "ERROR", "nothing changes");
    answers(&server, "/", "one");
    let other = named("two");
    write(
        &folder.path().join("other"),
        &format!("* {}\n", other.address),
    );
    server.signal(Signal::HUP);
    logged(&server, "WARN", "needs a restart: grip.sig_iss");
    answers(&server, "/", "two");
    assert!(server.runs());
    server.stop();
}
