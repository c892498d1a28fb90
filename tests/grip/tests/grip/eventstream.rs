//! django-eventstream in a real browser: subscribe, publish, come back, miss nothing.

use throng_testkit::{Browser, request};

use crate::support::{port, python};

#[test]
fn a_page_listens_and_misses_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let database = folder.path().join("events.db");
    let database = database.to_str().expect("a path in UTF-8");
    // The backend has to know where to publish, and the server where the backend is: the
    // server starts first, with a backend that is not there yet.
    let publish_at = format!("127.0.0.1:{}", throng_testkit::free_port());
    let backend = python("events.py", &[database, &format!("http://{publish_at}")]);
    let backend_at = port(&backend);
    let config = format!(
        "[grip]\nhttp_publish = \"{publish_at}\"\nsig_key = \"changeme\"\n\
         [[grip.route]]\npath = \"/\"\norigin = [\"http://{backend_at}\"]\n"
    );
    let server = throng_testkit::Setup::new(&config).shards(2).start();
    let browser = Browser::start();
    let page = format!("http://{}/", server.clients());
    let send = |n: u32| {
        let answer = request(server.clients(), "GET", &format!("/send/?n={n}"), &[], "");
        assert_eq!(answer.body, "sent", "{answer:?}");
    };
    browser.open(&page);
    browser.run("listen(); return 1");
    browser.until("the stream to open", "return opened > 0");
    (1..=3).for_each(send);
    browser.until("three events", "return got.length >= 3");
    assert_eq!(browser.run("return got.join()"), "1,2,3");
    let last = browser.run("source.close(); return ids[ids.length - 1]");
    let last = last.as_str().expect("an id").to_owned();
    // No client listens; then the page comes back with the id that it has.
    (4..=5).for_each(send);
    browser.run(&format!("listen({last:?}); return 1"));
    browser.until("the missed events", "return got.length >= 5");
    send(6);
    browser.until("a live event", "return got.length >= 6");
    assert_eq!(browser.run("return got.join()"), "1,2,3,4,5,6");
    server.stop();
}
