//! Live page: rows are pushed to browsers over an event stream as they end.
//!
//! | path | what |
//! |---|---|
//! | `/` | the page, without resources from elsewhere |
//! | `/events` | every row so far, then each as it ends |
//! | `/metrics` | Prometheus |
//! | `/runs` | the finished runs of the results folder, as JSON |
//! | `/run?ID` | the report of one of them |
//! | `/compare?ID&ID` | two of them side by side |
//!
//! Owns: a listener and its threads, one for each viewer, at most [`VIEWERS_MAX`]. It ends with the
//! process or when dropped. A viewer that stops reading loses its stream and nothing else.
//!
//! The folder is read only when somebody opens the page or picks runs, so that a run that goes on
//! keeps its processor.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use throng_bench_measure::Sample;
use throng_types::lock;

use super::LiveHistory;
use super::prometheus::metrics;
use crate::text::reasons;
use crate::{Snapshot, comparison_page, report_page};

/// Media type of metrics in the text format of Prometheus.
pub const METRICS_TYPE: &str = "text/plain; version=0.0.4";

const VIEWERS_MAX: usize = 64;
const REQUEST_BYTES_MAX: u64 = 16 << 10;
/// Time in which a viewer must send its request, or take a row.
const VIEWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Time in which viewers must take the end.
const END_TIMEOUT: Duration = Duration::from_secs(1);
/// Interval of comments, which keep a quiet stream alive.
const COMMENT_EVERY: Duration = Duration::from_secs(15);

const NO_RUN: &str = "There is no such run in the results folder, or it cannot be read.\n";
const PAGE: &str = concat!(
    include_str!("page.html"),
    "<script>\n",
    include_str!("runs.js"),
    "</script>\n</body>\n</html>\n"
);

#[derive(Default)]
struct State {
    rows: Vec<String>,
    metrics: String,
    ended: bool,
    // True without a run: streams end at once, and the page goes on.
    resting: bool,
}

struct Shared {
    history: LiveHistory,
    state: Mutex<State>,
    changed: Condvar,
    viewers: AtomicUsize,
}

/// Live page while it is served; when it is dropped, viewers are told that the run has ended.
pub struct LivePage {
    shared: Arc<Shared>,
    address: SocketAddr,
}

#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    phase: &'a str,
    clients: u64,
    sample: &'a Sample,
    failures: Vec<(&'static str, u64)>,
    lost: Vec<(&'static str, u64)>,
    missing: u64,
    duplicates: u64,
    out_of_order: u64,
    publish_failed: u64,
}

impl LivePage {
    /// Listens. The page lists the finished runs of `history`, too.
    pub fn listen(address: SocketAddr, history: LiveHistory) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            history,
            state: Mutex::default(),
            changed: Condvar::new(),
            viewers: AtomicUsize::new(0),
        });
        let serving = shared.clone();
        std::thread::Builder::new()
            .name("live-page".into())
            .spawn(move || serve(&listener, &serving))?;
        Ok(Self { shared, address })
    }

    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Tells viewers that no run is going on, only finished ones are there.
    pub fn rest(&self) {
        lock(&self.shared.state).resting = true;
        self.shared.changed.notify_all();
    }

    pub fn on_row(&mut self, snapshot: &Snapshot<'_>) {
        let tally = snapshot.tally;
        let named = |fate: &str| {
            let reasons = reasons(&tally.counters).filter(|(of, ..)| *of == fate);
            reasons.map(|(_, reason, count)| (reason, count)).collect()
        };
        let row = Row {
            name: &snapshot.scenario.name,
            phase: snapshot.phase.as_str(),
            clients: snapshot.scenario.clients,
            sample: snapshot.sample,
            failures: named("failed"),
            lost: named("lost"),
            missing: tally.deliveries.missing,
            duplicates: tally.deliveries.duplicates,
            out_of_order: tally.deliveries.out_of_order,
            publish_failed: tally.counters.publish_failed,
        };
        let metrics = metrics(snapshot);
        let mut state = lock(&self.shared.state);
        // A row of plain numbers and texts becomes JSON without fail.
        state.rows.extend(serde_json::to_string(&row));
        state.metrics = metrics;
        drop(state);
        self.shared.changed.notify_all();
    }
}

impl Drop for LivePage {
    fn drop(&mut self) {
        lock(&self.shared.state).ended = true;
        self.shared.changed.notify_all();
        // Wakes the thread that accepts; if that fails, it ends with the process.
        let _ = TcpStream::connect_timeout(&self.address, VIEWER_TIMEOUT);
        // The process may end next, and viewers must be told first.
        let state = lock(&self.shared.state);
        let Shared {
            changed, viewers, ..
        } = &*self.shared;
        let watched = |_: &mut State| viewers.load(Ordering::Acquire) > 0;
        drop(changed.wait_timeout_while(state, END_TIMEOUT, watched));
    }
}

fn serve(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if lock(&shared.state).ended {
            return;
        }
        let Ok(stream) = stream else { continue };
        if shared.viewers.fetch_add(1, Ordering::AcqRel) >= VIEWERS_MAX {
            shared.viewers.fetch_sub(1, Ordering::AcqRel);
            continue;
        }
        let viewed = shared.clone();
        let spawned = std::thread::Builder::new()
            .name("live-viewer".into())
            .spawn(move || {
                // A viewer that goes away is not news.
                let _ = answer(stream, &viewed);
                viewed.viewers.fetch_sub(1, Ordering::AcqRel);
                // A thread that has just counted the viewers sleeps by the time that this has the
                // lock.
                drop(lock(&viewed.state));
                viewed.changed.notify_all();
            });
        if spawned.is_err() {
            shared.viewers.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// Reads the head of a viewer's request; returns its target, or none for anything but a GET.
pub fn read_get(stream: &TcpStream) -> std::io::Result<Option<String>> {
    stream.set_read_timeout(Some(VIEWER_TIMEOUT))?;
    stream.set_write_timeout(Some(VIEWER_TIMEOUT))?;
    let mut request = BufReader::new(stream.try_clone()?.take(REQUEST_BYTES_MAX));
    let mut first = String::new();
    request.read_line(&mut first)?;
    let mut line = String::new();
    while request.read_line(&mut line)? > 2 {
        line.clear();
    }
    let mut words = first.split_ascii_whitespace();
    let target = words.next().filter(|method| *method == "GET");
    Ok(target.and_then(|_| words.next()).map(str::to_owned))
}

fn answer(mut stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    let Some(target) = read_get(&stream)? else {
        return not_found(&mut stream, "Only GET is answered.\n");
    };
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let html = "text/html; charset=utf-8";
    match path {
        "/" => whole(&mut stream, "200 OK", html, PAGE),
        "/events" => events(&mut stream, shared),
        "/metrics" => {
            let metrics = lock(&shared.state).metrics.clone();
            whole(&mut stream, "200 OK", METRICS_TYPE, &metrics)
        }
        // Browsers ask for it by themselves.
        "/favicon.ico" => whole(&mut stream, "204 No Content", "image/x-icon", ""),
        "/runs" => {
            // Texts and numbers become JSON without fail.
            let listing = serde_json::to_string(&shared.history.list()).unwrap_or_default();
            whole(&mut stream, "200 OK", "application/json", &listing)
        }
        "/run" => match shared.history.run(query) {
            Some((_, results)) => whole(&mut stream, "200 OK", html, &report_page(&results)),
            None => not_found(&mut stream, NO_RUN),
        },
        "/compare" => match compared(&shared.history, query) {
            Some(page) => whole(&mut stream, "200 OK", html, &page),
            None => not_found(&mut stream, NO_RUN),
        },
        _ => not_found(
            &mut stream,
            "There are /, /events, /metrics, /runs, /run and /compare.\n",
        ),
    }
}

/// Makes the comparison of two runs; none if one of them is not there.
fn compared(history: &LiveHistory, query: &str) -> Option<String> {
    let (a, b) = query.split_once('&')?;
    let ((a_name, a), (b_name, b)) = (history.run(a)?, history.run(b)?);
    Some(comparison_page(&a, &b, (&a_name, &b_name)))
}

fn not_found(stream: &mut TcpStream, why: &str) -> std::io::Result<()> {
    whole(stream, "404 Not Found", "text/plain", why)
}

/// Writes a whole answer, after which the connection is closed.
pub fn whole(stream: &mut TcpStream, status: &str, media: &str, body: &str) -> std::io::Result<()> {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {media}\r\nContent-Length: {}\r\nCache-Control: \
         no-store\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}

fn events(stream: &mut TcpStream, shared: &Shared) -> std::io::Result<()> {
    stream.write_all(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n\
          Connection: close\r\n\r\n",
    )?;
    let mut seen = 0;
    loop {
        let mut out = String::new();
        let mut state = lock(&shared.state);
        if state.rows.len() == seen && !state.ended && !state.resting {
            let (waited, timeout) = shared
                .changed
                .wait_timeout(state, COMMENT_EVERY)
                .unwrap_or_else(PoisonError::into_inner);
            state = waited;
            if timeout.timed_out() {
                out.push_str(": quiet\n\n");
            }
        }
        for row in state.rows.get(seen..).unwrap_or_default() {
            out.push_str("data: ");
            out.push_str(row);
            out.push_str("\n\n");
        }
        seen = state.rows.len();
        let ended = state.ended || state.resting;
        drop(state);
        if ended {
            out.push_str("event: end\ndata: end\n\n");
        }
        stream.write_all(out.as_bytes())?;
        if ended {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::testing::with_snapshot;

    fn ask(address: SocketAddr, path: &str) -> TcpStream {
        let mut stream = TcpStream::connect(address).unwrap();
        stream
            .write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes())
            .unwrap();
        stream
    }

    fn read(mut stream: TcpStream) -> String {
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    fn get(address: SocketAddr, path: &str) -> String {
        read(ask(address, path))
    }

    #[test]
    fn rows_are_pushed_and_the_end_is_told() {
        let history = LiveHistory::new("/nowhere".into());
        let mut page = LivePage::listen(([127, 0, 0, 1], 0).into(), history).unwrap();
        let address = page.address();
        with_snapshot(|snapshot| page.on_row(snapshot));
        // It comes before the others, so it is there when they have been answered.
        let viewer = ask(address, "/events");
        assert!(get(address, "/").contains("EventSource"));
        assert!(get(address, "/metrics").contains("throng_bench_connections"));
        for missing in [
            "/other",
            "/run?a",
            "/compare?a&b",
            "/compare",
            "/run?../etc",
        ] {
            assert!(
                get(address, missing).starts_with("HTTP/1.1 404"),
                "{missing}"
            );
        }
        assert!(get(address, "/runs").ends_with(r#"{"folder":"/nowhere","runs":[]}"#));
        with_snapshot(|snapshot| page.on_row(snapshot));
        drop(page);
        let text = read(viewer);
        assert_eq!(text.matches("data: {\"name\"").count(), 2, "{text}");
        assert!(text.contains(r#"["refused",3]"#), "{text}");
        assert!(text.ends_with("event: end\ndata: end\n\n"), "{text}");
    }
}
