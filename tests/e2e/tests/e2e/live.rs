//! The live page of `throng bench`, in a real browser.

use std::net::SocketAddr;
use std::process::Command;

use throng_testkit::{Browser, Process, Server, Setup, Signal, throng};

/// A run that goes on until it is told to stop, and where its page is.
fn run(server: &Server) -> (Process, String) {
    let (clients, api): (SocketAddr, SocketAddr) = (server.clients(), server.api_address());
    let mut command = Command::new(throng());
    command.args(["bench", "sub", "--plain", "--web", "127.0.0.1:0"]);
    command.args([
        "--url",
        &format!("ws://{clients}/ws?channel={{channel:url}}"),
    ]);
    command.args(["--channels", "group-{n%4}", "--clients", "40"]);
    command.args([
        "--rate",
        "100/s",
        "--publish",
        &format!("http://{api}"),
        "--publish-rate",
        "50/s",
    ]);
    command.args([
        "--duration",
        "1h",
        "--server-pid",
        &server.process().id().to_string(),
    ]);
    let process = Process::start(&mut command, "cargo has just built it");
    let page = process.err("where its page is", |lines| {
        let line = lines.iter().find(|line| line.contains("live page: "))?;
        Some(line.rsplit_once(' ')?.1.to_owned())
    });
    (process, page)
}

#[test]
fn the_live_page_draws_what_happens() {
    let server = Setup::default().shards(1).start();
    let (mut bench, page) = run(&server);
    let browser = Browser::start();
    browser.open(&page);
    browser.run(
        "window.tile = (name) => [...document.querySelectorAll('.tile')]
           .find((tile) => tile.firstChild.textContent == name)?.lastChild.textContent ?? '';
         window.number = (name) => parseFloat(tile(name).replaceAll(',', '')) || 0;
         window.chart = (title) => document.querySelector(`svg[aria-label=\"${title}\"]`);
         window.points = (title) => [...chart(title).querySelectorAll('path')]
           .map((path) => path.getAttribute('d').split(/[ML]/).length - 1);",
    );
    browser.until(
        "all connections",
        "return tile('connections') == '40 of 40'",
    );
    browser.until("deliveries", "return number('received') > 0");
    browser.until("a latency", "return /[µm]s/.test(tile('p99'))");
    // Rows come over the stream and the page follows: nothing on it was there when it was loaded.
    let rows = browser.run("return rows.length").as_u64().unwrap();
    browser.until("more rows", &format!("return rows.length >= {rows} + 3"));
    for (title, lines) in [
        ("Connections", 3),
        ("Messages a second", 2),
        ("Latency in ms", 4),
        ("Time to be usable in ms", 2),
        ("CPU, as a share of one", 2),
        ("Server memory in MiB", 1),
    ] {
        // All connections may become usable in one row: a dot for each line.
        let points = if title.starts_with("Time") { 1 } else { 2 };
        let drawn = format!(
            "const drawn = points('{title}').filter((points) => points >= {points});
             const size = chart('{title}').getBoundingClientRect();
             return drawn.length >= {lines} && size.width > 200 && size.height > 50"
        );
        browser.until(title, &drawn);
        let ticks = format!(
            "return [...chart('{title}').querySelectorAll('text[text-anchor=end]')]
               .map((text) => text.textContent)"
        );
        let ticks = browser.run(&ticks);
        let ticks = ticks.as_array().map_or(0, Vec::len);
        // Those at the side, and the end of the time below.
        assert!((3..=6).contains(&ticks), "{title}: {ticks}");
    }
    assert_eq!(
        browser.run("return document.getElementById('list').textContent"),
        "none"
    );
    // Even the longest figures have room, and nothing sticks out of the page.
    let width = "const most = document.querySelector('.tile b'), before = most.textContent;
         most.textContent = '1,000,000 of 1,000,000';
         const fits = [...document.querySelectorAll('html, .tile')].every((box) => \
         box.scrollWidth <= box.clientWidth);
         most.textContent = before;
         return fits";
    assert_eq!(browser.run(width), true, "something sticks out");
    let picture = browser.screenshot();
    assert!(picture.starts_with(b"\x89PNG"));
    std::fs::write(
        std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench.png"),
        picture,
    )
    .unwrap();
    bench.signal(Signal::INT);
    browser.until(
        "the end",
        "return document.getElementById('state').textContent.includes('ended')",
    );
    bench.wait();
    assert_eq!(browser.console_errors(), [""; 0]);
    server.stop();
}
