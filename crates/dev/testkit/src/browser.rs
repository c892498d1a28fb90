//! Headless Chromium, steered through chromedriver (W3C WebDriver).

use std::net::SocketAddr;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{Process, install, request, until};

/// Quiet and alone: no sandbox (tests run as root in containers), nothing fetched from outside.
const FLAGS: [&str; 10] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--window-size=1280,900",
];

/// Attempts to start a driver before giving up.
const TRIES: usize = 10;

/// A driver and its port. The kernel chooses one for IPv4 or IPv6, and chromedriver needs the same
/// for the other; if that one is taken, it ends.
#[track_caller]
fn driver() -> (Process, u16) {
    for _ in 0..TRIES {
        let mut command = Command::new("chromedriver");
        let driver = Process::start(command.arg("--port=0"), install::PROGRAMS);
        let port = driver.out("its port", |lines| {
            lines.iter().find_map(|line| {
                if line.contains("port not available") {
                    return Some(None);
                }
                let (_, port) = line.split_once("started successfully on port ")?;
                port.trim_end_matches('.').parse::<u16>().ok().map(Some)
            })
        });
        if let Some(port) = port {
            return (driver, port);
        }
    }
    panic!("chromedriver found no port in {TRIES} tries");
}

/// A browser with one page.
pub struct Browser {
    address: SocketAddr,
    session: String,
    driver: Option<Process>,
    _profile: TempDir,
}

impl Browser {
    /// Starts it with an empty profile and more flags. It believes every certificate.
    #[track_caller]
    pub fn start(more: &str) -> Self {
        let (driver, port) = driver();
        let profile = tempfile::tempdir().expect("a temporary folder");
        let mut flags: Vec<String> = FLAGS.iter().map(|&flag| flag.to_owned()).collect();
        flags.extend(more.split_whitespace().map(str::to_owned));
        flags.push(format!("--user-data-dir={}", profile.path().display()));
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "acceptInsecureCerts": true,
            "goog:chromeOptions": { "args": flags },
        }}});
        let mut browser = Self {
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            session: String::new(),
            driver: Some(driver),
            _profile: profile,
        };
        let made = browser.command("POST", "/session", &wanted);
        let id = made["sessionId"].as_str();
        browser.session = id
            .unwrap_or_else(|| panic!("no browser: {made}; {}", install::PROGRAMS))
            .to_owned();
        browser
    }

    #[track_caller]
    fn command(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if method == "POST" {
            body.to_string()
        } else {
            String::new()
        };
        let headers = [("Content-Type", "application/json")];
        let response = request(self.address, method, path, &headers, &body);
        let answer: Value = serde_json::from_str(&response.body).unwrap_or_default();
        answer["value"].clone()
    }

    #[track_caller]
    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let value = self.command(method, &format!("/session/{}/{path}", self.session), body);
        assert!(value["error"].is_null(), "{path}: {value}");
        value
    }

    /// Opens a page and waits until it has loaded.
    #[track_caller]
    pub fn open(&self, url: &str) {
        self.ask("POST", "url", &json!({ "url": url }));
    }

    /// Runs the body of a function in the page, and returns what that returns.
    #[track_caller]
    pub fn run(&self, script: &str) -> Value {
        self.ask(
            "POST",
            "execute/sync",
            &json!({ "script": script, "args": [] }),
        )
    }

    /// Runs it until it returns something true.
    #[track_caller]
    pub fn until(&self, what: &str, script: &str) -> Value {
        until(what, || {
            let value = self.run(script);
            let empty = matches!(value, Value::Null | Value::Bool(false));
            (!empty).then_some(value)
        })
    }

    /// Shows pages as on a screen of this width, in CSS pixels, in light or dark colours.
    #[track_caller]
    pub fn show_as(&self, width: u32, is_dark: bool) {
        let cdp = |cmd: &str, params: Value| {
            let order = json!({ "cmd": cmd, "params": params });
            self.ask("POST", "goog/cdp/execute", &order);
        };
        let screen = json!({
            "width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": false,
        });
        cdp("Emulation.setDeviceMetricsOverride", screen);
        let scheme = if is_dark { "dark" } else { "light" };
        let features = json!({
            "features": [{ "name": "prefers-color-scheme", "value": scheme }],
        });
        cdp("Emulation.setEmulatedMedia", features);
    }

    /// Takes a screenshot of the page, as a PNG.
    #[track_caller]
    pub fn screenshot(&self) -> Vec<u8> {
        let picture = self.ask("GET", "screenshot", &Value::Null);
        STANDARD
            .decode(picture.as_str().unwrap_or_default())
            .expect("base64")
    }

    /// Returns the errors that the page has written to the console.
    #[track_caller]
    pub fn console_errors(&self) -> Vec<String> {
        let log = self.ask("POST", "se/log", &json!({ "type": "browser" }));
        let lines = log.as_array().into_iter().flatten();
        let severe = lines.filter(|line| line["level"] == "SEVERE");
        severe.map(|line| line["message"].to_string()).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() && !std::thread::panicking() {
            self.command(
                "DELETE",
                &format!("/session/{}", self.session),
                &Value::Null,
            );
        }
        // The browser is in the driver's process group and ends with it.
        drop(self.driver.take());
    }
}
