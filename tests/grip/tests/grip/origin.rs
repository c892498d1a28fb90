//! A backend of stories, which answers by rules and remembers what it was asked.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use throng_testkit::{Response, Wire, unescaped};

/// Where an answer waits until the origin is released.
const HELD: &str = "{held}";

/// A request: its line, and its fields as an answer has them.
pub(crate) type Asked = (String, Response);

/// State that the threads of an origin share.
#[derive(Default)]
struct Shared {
    /// Target and answer of each rule; the first whose target fits is taken.
    rules: Vec<(String, String)>,
    asked: Mutex<Vec<Asked>>,
    is_released: Mutex<bool>,
    news: Condvar,
}

/// Listens until the test program ends. Each connection serves requests one after the other.
pub(crate) struct Origin {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

impl Origin {
    /// Starts one with a rule a line: `TARGET => ANSWER`, where the target `*` is any. An answer is
    /// `STATUS | Field: value || body` with escapes, `raw BYTES` with the end of the connection
    /// behind them, `dies`, or `silent` until the other side hangs up. `{line}` in an answer is the
    /// line of the request, `{last}` the id in its `Grip-Last`, and at `{held}` it waits.
    pub(crate) fn start(rules: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("its address");
        let rules = rules.lines().map(|line| {
            let (target, answer) = line.split_once(" => ").expect("a rule has =>");
            (target.to_owned(), answer.to_owned())
        });
        let shared = Arc::new(Shared {
            rules: rules.collect(),
            ..Shared::default()
        });
        let own = shared.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = shared.clone();
                thread::spawn(move || {
                    let mut reader = BufReader::new(&stream);
                    while serve(&mut reader, &shared) {}
                });
            }
        });
        Self {
            address,
            shared: own,
        }
    }

    /// Requests so far whose line contains a text.
    pub(crate) fn asked(&self, part: &str) -> Vec<Asked> {
        let asked = lock(&self.shared.asked);
        let fits = asked.iter().filter(|(line, _)| line.contains(part));
        fits.cloned().collect()
    }

    /// Lets the answers go on that are held, now and later.
    pub(crate) fn release(&self) {
        *lock(&self.shared.is_released) = true;
        self.shared.news.notify_all();
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Answers the next request; false at the end of the connection.
fn serve(reader: &mut BufReader<&TcpStream>, shared: &Shared) -> bool {
    let Some((line, head)) = request(reader) else {
        return false;
    };
    let mut stream: &TcpStream = reader.get_ref();
    let target = line.split(' ').nth(1).unwrap_or_default();
    let fits = |(of, _): &&(String, String)| of == "*" || of == target;
    let answer = { shared.rules.iter() }.find(fits);
    let answer = answer.map_or_else(|| panic!("no rule for {line}"), |(_, answer)| answer);
    let last = head.header("grip-last").and_then(|it| it.split_once('='));
    let answer =
        { answer.replace("{line}", &line) }.replace("{last}", last.map_or("0", |(_, last)| last));
    lock(&shared.asked).push((line, head));
    let (is_last, text) = match answer.split_once(' ').unwrap_or((&answer, "")) {
        ("dies", _) => return false,
        ("silent", _) => {
            while matches!(stream.read(&mut [0; 64]), Ok(1..)) {}
            return false;
        }
        ("raw", bytes) => (true, bytes.to_owned()),
        _ => (false, with_head(&answer)),
    };
    for (part, text) in text.split(HELD).enumerate() {
        if part > 0 {
            let is_open = lock(&shared.is_released);
            drop(shared.news.wait_while(is_open, |open| !*open));
        }
        // A client that closes early is no fault of the origin's.
        if stream.write_all(&unescaped(text)).is_err() {
            return false;
        }
    }
    !is_last
}

/// Text of an answer with its head, in which there is a length unless another framing is named.
fn with_head(answer: &str) -> String {
    let (head, body) = answer.split_once(" || ").unwrap_or((answer, ""));
    let (status, fields) = head.split_once(" | ").unwrap_or((head, ""));
    let is_framed = fields.contains("Content-Length:") || fields.contains("Transfer-Encoding:");
    let length = match is_framed || status == "304" {
        true => String::new(),
        false => format!(
            "Content-Length: {}\\r\\n",
            unescaped(&body.replace(HELD, "")).len()
        ),
    };
    let held = if status.starts_with(HELD) { HELD } else { "" };
    let status = &status[held.len()..];
    let fields = match fields {
        "" => String::new(),
        fields => fields.replace(" | ", "\\r\\n") + "\\r\\n",
    };
    format!("{held}HTTP/1.1 {status} X\\r\\n{length}{fields}\\r\\n{body}")
}

/// Reads a request with its body, which nobody looks at; none at the end of the connection.
fn request(reader: &mut BufReader<&TcpStream>) -> Option<Asked> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader
            .read_line(&mut line)
            .ok()
            .filter(|count| *count > 0)?;
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let fields = { lines.iter().skip(1) }.filter_map(|line| line.split_once(": "));
    let fields = fields.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()));
    let head = Response {
        status: 0,
        headers: fields.collect(),
        body: String::new(),
    };
    let length = head.header("content-length").and_then(|it| it.parse().ok());
    reader.read_exact(&mut vec![0; length.unwrap_or(0)]).ok()?;
    Some((lines.swap_remove(0), head))
}

/// Takes the next connection of a listener, as the side of a backend.
pub(crate) fn accept(listener: &TcpListener) -> Wire {
    let (stream, _) = listener.accept().expect("a connection");
    Wire::accepted(stream)
}
