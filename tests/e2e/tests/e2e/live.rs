//! The live page of `throng bench`, in a real browser: a run as it goes on, and finished runs side
//! by side.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use throng_testkit::{Browser, Process, Server, Setup, Signal, throng};

/// A run that goes on until it is stopped, and the address of its page.
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
    let page = address_of_page(&process, "live page: ");
    (process, page)
}

/// Address that a process prints for its page.
fn address_of_page(process: &Process, what: &str) -> String {
    process.err("where its page is", |lines| {
        let line = lines.iter().find(|line| line.contains(what))?;
        Some(line.rsplit_once(' ')?.1.to_owned())
    })
}

/// A run of a second whose results are kept, or with a page one that goes on.
fn keeping(server: &Server, out: &Path, title: &str, more: &[&str]) -> Process {
    let mut command = Command::new(throng());
    command.args(["bench", "sub", "--plain", "--title", title, "--out"]);
    command.arg(out);
    let url = format!("ws://{}/ws?channel={{channel:url}}", server.clients());
    let publish = format!("http://{}", server.api_address());
    command.args(["--url", &url, "--clients", "20", "--publish", &publish]);
    command
        .args(["--channels", "bench", "--publish-rate", "20/s"])
        .args(more);
    Process::start(&mut command, "cargo has just built it")
}

fn picture(browser: &Browser, name: &str) {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(path, browser.screenshot()).unwrap();
}

/// Shows a page in light and dark, wide and narrow. Nothing may stick out.
fn look_at(browser: &Browser, name: &str) {
    for (look, width, is_dark) in [
        ("light", 1280, false),
        ("dark", 1280, true),
        ("390", 390, true),
    ] {
        browser.show_as(width, is_dark);
        browser.until(
            look,
            &format!(
                "const root = document.documentElement;
                 return innerWidth == {width} && root.scrollWidth <= root.clientWidth"
            ),
        );
        picture(browser, &format!("{name}-{look}.png"));
    }
    browser.show_as(1280, false);
}

#[test]
fn two_finished_runs_are_picked_and_compared() {
    let server = Setup::default().shards(1).start();
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("results");
    for (name, title) in [("first", "one <b>shard</b>"), ("second run", "two shards")] {
        let mut run = keeping(&server, &results.join(name), title, &["--duration", "1s"]);
        run.wait();
    }
    // Neither a folder of something else nor a file is a run.
    std::fs::create_dir(results.join("notes")).unwrap();
    std::fs::write(results.join("results.json"), "{}").unwrap();

    let mut third = keeping(
        &server,
        &results.join("third"),
        "third",
        &["--duration", "1h", "--web", "127.0.0.1:0"],
    );
    let browser = Browser::start();
    let live = address_of_page(&third, "live page: ");
    browser.open(&live);
    browser.until("rows of the run that goes on", "return rows.length > 2");
    let names = "return [...document.querySelectorAll('#runs a')].map((a) => a.textContent).join()";
    browser.until("both runs", &format!("{names} == 'second run,first'"));
    look_at(&browser, "runs");
    // The older one is A. The same run twice is nothing to compare.
    let follow = |script: &str| {
        let to = browser.run(&format!("{script}; return link.href"));
        browser.open(to.as_str().unwrap());
        browser.run("return document.querySelector('h1').textContent")
    };
    browser.run("document.querySelectorAll('input[name=a]')[0].click()");
    assert_eq!(
        browser.run("return document.getElementById('compare').hidden"),
        true
    );
    browser.run("document.querySelectorAll('input[name=a]')[1].click()");
    let compared = follow("const link = document.getElementById('compare')");
    assert_eq!(compared, "first against second run");
    browser.until(
        "figures and charts of both",
        "return document.querySelectorAll('td').length > 20 && document.querySelector('svg path')",
    );
    let text = browser.run("return document.querySelector('header').textContent");
    assert!(
        text.as_str().unwrap().contains("A: one <b>shard</b>, 20"),
        "{text}"
    );
    look_at(&browser, "compare");

    // The report of one.
    browser.open(&live);
    browser.until("the list", names);
    let title = follow("const link = document.querySelectorAll('#runs a')[1]");
    assert_eq!(title, "one <b>shard</b>");
    assert_eq!(browser.console_errors(), [""; 0]);
    third.signal(Signal::INT);
    third.wait();

    // Without a run the same page lists all three.
    let mut command = Command::new(throng());
    command
        .args(["bench", "report", "--web", "127.0.0.1:0"])
        .arg(&results);
    let mut report = Process::start(&mut command, "cargo has just built it");
    browser.open(&address_of_page(&report, "finished runs: "));
    browser.until("all runs", &format!("{names} == 'third,second run,first'"));
    browser.until(
        "that no run goes on",
        "return document.getElementById('tiles').hidden
           && document.getElementById('state').textContent.startsWith('no run')",
    );
    look_at(&browser, "finished");
    assert_eq!(
        follow("const link = document.getElementById('compare')"),
        "second run against third"
    );
    assert_eq!(browser.console_errors(), [""; 0]);
    report.signal(Signal::INT);
    assert!(report.wait().success());
    server.stop();
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
    picture(&browser, "bench.png");
    bench.signal(Signal::INT);
    browser.until(
        "the end",
        "return document.getElementById('state').textContent.includes('ended')",
    );
    bench.wait();
    assert_eq!(browser.console_errors(), [""; 0]);
    server.stop();
}
