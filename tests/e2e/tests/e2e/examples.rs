//! The programs of `examples/`, as a newcomer runs them: both pages in a browser, with each of
//! four back ends, and a page with Laravel Echo.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::json;
use throng_testkit::{
    Browser, Process, Proxy, Server, Setup, javascript_of, python_of, request, until,
};

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

/// The chat page, built once.
fn chat() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let from = examples().join("chat");
        let folder = javascript_of("example-chat", "examples/chat");
        fs::create_dir_all(folder.join("src")).unwrap();
        for file in [
            "index.html",
            "vite.config.js",
            "src/main.jsx",
            "src/chat.css",
        ] {
            fs::copy(from.join(file), folder.join(file)).unwrap();
        }
        let mut build = Command::new("node");
        build.args(["node_modules/vite/bin/vite.js", "build"]);
        let done = build.current_dir(&folder).output().unwrap();
        assert!(done.status.success(), "{done:?}");
        folder.join("dist")
    })
}

/// A back end, and Throng behind a network that can be cut.
struct Site {
    server: Server,
    proxy: Proxy,
    process: Process,
    url: String,
}

impl Site {
    fn new(mut back_end: Command) -> Self {
        let config = fs::read_to_string(examples().join("throng.toml")).unwrap();
        // The pages come from a port that the kernel chooses.
        let server = Setup::new(&config)
            .variable("THRONG_AUTH_ALLOWED_ORIGINS", "*")
            .start();
        let proxy = Proxy::new(server.clients());
        back_end
            .env("THRONG_API", format!("http://{}", server.api_address()))
            .env("THRONG_CLIENTS", proxy.address().to_string())
            .env("EXAMPLES", examples())
            .env("CHAT", chat())
            .env("PORT", "0");
        let process = Process::start(&mut back_end, "see docs/TESTING.md");
        let url = process.out("its address", |lines| {
            lines
                .iter()
                .find(|line| line.starts_with("http://"))
                .cloned()
        });
        Self {
            server,
            proxy,
            process,
            url,
        }
    }

    fn open(&self, path: &str) -> Browser {
        let browser = Browser::start("");
        browser.open(&format!("{}{path}", self.url));
        browser
    }
}

/// A page posts to its back end.
fn post(browser: &Browser, path: &str, body: &serde_json::Value) {
    let headers = json!({ "Content-Type": "application/json" });
    browser.run(&format!(
        "window.status = 0; fetch('{path}', {{ method: 'POST', headers: {headers}, body: \
         JSON.stringify({body}) }}).then((answer) => window.status = answer.status)"
    ));
    browser.until(
        "the answer",
        "return window.status >= 200 && window.status < 300",
    );
}

/// Waits for a channel of the chat.
fn live(browser: &Browser, channel: &str) {
    let found = format!("document.querySelector('[data-channel=\"{channel}\"]')");
    browser.until(
        channel,
        &format!("return {found}?.dataset.state === 'live'"),
    );
}

fn reads(browser: &Browser, text: &str) {
    let script = format!("return document.body.innerText.includes({})", json!(text));
    browser.until(text, &script);
}

/// Two people talk, one of them is staff, and one loses the connection for a while.
fn the_chat(site: &Site) {
    let ann = site.open("chat/?user=ann");
    live(&ann, "room:general");
    live(&ann, "$team:staff");
    let bob = site.open("chat/?user=bob");
    live(&bob, "room:general");
    bob.until(
        "no channel for staff",
        "return document.querySelectorAll('section').length === 1",
    );
    reads(&ann, "Here: ann, bob");
    bob.run(
        "const input = document.querySelector('input');
         const set = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set;
         set.call(input, 'hello <b>ann</b>');
         input.dispatchEvent(new Event('input', { bubbles: true }))",
    );
    bob.until(
        "the button",
        "const button = document.querySelector('button');
         return !button.disabled && (button.click(), true)",
    );
    reads(&ann, "bob hello <b>ann</b>");
    site.proxy.cut();
    for text in ["missed 1", "missed 2"] {
        let message = json!({ "channel": "room:general", "user": "bob", "text": text });
        post(&bob, "/messages", &message);
    }
    site.proxy.mend();
    for browser in [&ann, &bob] {
        reads(browser, "bob missed 1\nbob missed 2");
        let count = browser
            .run("return document.querySelectorAll('[data-channel=\"room:general\"] li').length");
        assert_eq!(count, 3);
    }
    // A newcomer reads the earlier messages.
    let carol = site.open("chat/?user=carol");
    reads(&carol, "bob missed 2");
    picture(&carol, "example-chat.png");
}

fn the_board(site: &Site) {
    let browser = site.open("board/");
    reads(&browser, "Live");
    reads(&browser, "blues\t0");
    post(&browser, "/scores", &json!({ "team": "reds", "points": 3 }));
    reads(&browser, "reds\t3\nblues\t0");
    site.proxy.cut();
    reads(&browser, "Connecting again");
    post(
        &browser,
        "/scores",
        &json!({ "team": "blues", "points": 5 }),
    );
    site.proxy.mend();
    reads(&browser, "blues\t5\nreds\t3");
    reads(&browser, "Live");
    picture(&browser, "example-board.png");
    it_goes_on_where_it_was(site, &browser);
}

/// A page that was refused begins anew, with another token and the place that it has.
fn it_goes_on_where_it_was(site: &Site, browser: &Browser) {
    let key = [("X-API-Key", "an-example-key-that-everyone-knows")];
    let ask = |method: &str, path: &str, body: &str| {
        let answer = request(site.server.api_address(), method, path, &key, body);
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.body
    };
    let count = |series: &str| {
        let told = ask("GET", "/metrics", "");
        let mut lines = told.lines().filter_map(|line| line.strip_prefix(series));
        let found = lines
            .next()
            .and_then(|value| value.trim().parse::<f64>().ok());
        found.expect("a series") as u64
    };
    let config = fs::read_to_string(examples().join("throng.toml")).unwrap();
    let complete = "throng_recovered_total{result=\"complete\"}";
    let refused = "throng_auth_failures_total{reason=\"signature\"}";
    let before = (count(complete), count(refused));
    site.server
        .configure(&config.replace("an-example-secret", "another-secret-for-a-while"));
    ask("POST", "/api/reload", "");
    ask("POST", "/api/disconnect", r#"{"user":"visitor"}"#);
    until("a refusal", || count(refused) > before.1);
    let body = json!({ "team": "reds", "points": 4 });
    post(browser, "/scores", &body);
    site.server.configure(&config);
    ask("POST", "/api/reload", "");
    reads(browser, "reds\t7\nblues\t5");
    assert_eq!(count(complete), before.0 + 1);
}

fn picture(browser: &Browser, name: &str) {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(path, browser.screenshot()).unwrap();
}

fn both_pages(back_end: Command) {
    let mut site = Site::new(back_end);
    the_chat(&site);
    the_board(&site);
    assert!(site.process.runs());
    site.server.stop();
}

#[test]
fn the_pages_work_with_express() {
    let folder = javascript_of("example-express", "examples/express");
    // Node looks for packages beside the script.
    let script = folder.join("server.js");
    fs::copy(examples().join("express/server.js"), &script).unwrap();
    let mut node = Command::new("node");
    node.arg(script);
    both_pages(node);
}

#[test]
fn the_pages_work_with_django() {
    let mut python = Command::new(python_of("example-django", "examples/django"));
    python.arg(examples().join("django/app.py"));
    both_pages(python);
}

#[test]
fn the_pages_work_with_php() {
    let mut php = Command::new("php");
    php.arg(examples().join("php/server.php"));
    both_pages(php);
}

#[test]
fn the_pages_work_with_go() {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("example-go");
    let mut build = Command::new("go");
    build.args(["build", "-o"]).arg(&program).arg(".");
    build.current_dir(examples().join("go"));
    let done = build.output().expect("go 1.19 or later");
    assert!(done.status.success(), "{done:?}");
    both_pages(Command::new(program));
}

/// Two people in one room with Laravel Echo; both lose the connection for a while.
#[test]
fn the_room_works_with_echo() {
    let folder = javascript_of("example-echo", "examples/echo");
    for file in ["server.js", "index.html"] {
        fs::copy(examples().join("echo").join(file), folder.join(file)).unwrap();
    }
    let mut node = Command::new("node");
    node.arg(folder.join("server.js"));
    let mut site = Site::new(node);
    let (ann, bob) = (site.open("?user=ann"), site.open("?user=bob"));
    for browser in [&ann, &bob] {
        reads(browser, "Live");
        reads(browser, "Here: ann, bob");
    }
    post(
        &ann,
        "/messages",
        &json!({ "user": "ann", "text": "hello" }),
    );
    ann.run(
        "document.querySelector('input').value = 'all of you';
         document.querySelector('input').dispatchEvent(new Event('input'))",
    );
    reads(&bob, "ann hello");
    reads(&bob, "ann is typing");
    ann.run("document.querySelector('button').click()");
    site.proxy.cut();
    for browser in [&ann, &bob] {
        reads(browser, "Connecting again");
    }
    site.proxy.mend();
    for browser in [&ann, &bob] {
        reads(browser, "Live");
        reads(browser, "ann hello\nann all of you");
        reads(browser, "Here: ann, bob");
    }
    picture(&bob, "example-echo.png");
    drop(ann);
    reads(&bob, "Here: bob");
    assert!(site.process.runs());
    site.server.stop();
}

#[test]
fn the_back_ends_that_are_not_run_have_good_syntax() {
    for (program, option, file) in [
        ("php", "-l", "laravel/routes.php"),
        ("ruby", "-c", "rails/app.rb"),
    ] {
        let mut check = Command::new(program);
        check.arg(option).arg(examples().join(file));
        let done = check.output().expect(program);
        assert!(done.status.success(), "{file}: {done:?}");
    }
}
