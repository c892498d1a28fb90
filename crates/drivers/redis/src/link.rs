//! One connection to Redis: made, introduced and read on a thread of its own.
//!
//! The thread ends with the connection. What it reads waits in an [`Inbox`] until the driver takes
//! it; while the inbox is full nothing more is read, and Redis keeps the rest or ends the
//! connection.

use std::collections::VecDeque;
use std::io::{self, Write as _};
use std::net::{Shutdown, TcpStream, ToSocketAddrs as _};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::Duration;

use redis::{Parser, Value};

use crate::answer::{cost, text};
use crate::command::{Script, command};
use crate::keys::Keys;
use crate::node::Established;
use crate::options::Target;

/// Values that may wait for the driver. Queue: `from Redis`.
const VALUES_MAX: usize = 16_384;
/// Their bytes, unless a single one has more. Queue: `from Redis`.
const VALUE_BYTES_MAX: usize = 32 << 20;

/// What happens to a connection.
pub(crate) enum Event {
    /// It stands; this is where commands are written.
    Up(Established, TcpStream),
    /// Redis said something.
    Value(Value),
    /// It is over, or never was.
    Down(String),
}

#[derive(Default)]
struct Waiting {
    /// Queue: `from Redis`.
    events: VecDeque<(u64, Event)>,
    bytes: usize,
    is_closed: bool,
}

/// What waits for the driver, with the number of its connection.
pub(crate) struct Inbox {
    waiting: Mutex<Waiting>,
    room: Condvar,
    driver: Thread,
}

impl Inbox {
    pub(crate) fn new(driver: Thread) -> Self {
        Self {
            waiting: Mutex::default(),
            room: Condvar::new(),
            driver,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for room. False if nobody takes anything any more.
    fn put(&self, link: u64, event: Event) -> bool {
        let bytes = if let Event::Value(value) = &event {
            cost(value)
        } else {
            0
        };
        let mut waiting = self.lock();
        while !waiting.is_closed
            && (waiting.events.len() >= VALUES_MAX
                || waiting.bytes > 0 && waiting.bytes + bytes > VALUE_BYTES_MAX)
        {
            waiting = self
                .room
                .wait(waiting)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if waiting.is_closed {
            return false;
        }
        waiting.bytes += bytes;
        waiting.events.push_back((link, event));
        drop(waiting);
        self.driver.unpark();
        true
    }

    /// Takes up to so many, in order.
    pub(crate) fn take(&self, most: usize, into: &mut Vec<(u64, Event)>) {
        let mut waiting = self.lock();
        let count = most.min(waiting.events.len());
        into.extend(waiting.events.drain(..count));
        let taken = into.iter().map(|(_, event)| match event {
            Event::Value(value) => cost(value),
            _ => 0,
        });
        waiting.bytes -= taken.sum::<usize>();
        self.room.notify_all();
    }

    /// Nothing is taken any more.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.room.notify_all();
    }
}

/// Who connects, where to, and for how long that may take.
pub(crate) struct Dial {
    pub(crate) link: u64,
    pub(crate) target: Target,
    pub(crate) prefix: String,
    pub(crate) incarnation: String,
    pub(crate) timeout: Duration,
}

impl Dial {
    /// Connects and reads until the connection ends; on a thread of its own.
    pub(crate) fn run(self, inbox: &Arc<Inbox>) {
        let why = match self.connect() {
            Ok((established, stream, parser)) => self.read(established, stream, parser, inbox),
            Err(why) => why,
        };
        inbox.put(self.link, Event::Down(why));
    }

    fn read(
        &self,
        established: Established,
        stream: TcpStream,
        mut parser: Parser,
        inbox: &Arc<Inbox>,
    ) -> String {
        let mut reader = &stream;
        let writer = match stream.try_clone() {
            Ok(writer) => writer,
            Err(error) => return error.to_string(),
        };
        if !inbox.put(self.link, Event::Up(established, writer)) {
            return String::new();
        }
        loop {
            match parser.parse_value(&mut reader) {
                Ok(value) => {
                    if !inbox.put(self.link, Event::Value(value)) {
                        let _ = stream.shutdown(Shutdown::Both);
                        return String::new();
                    }
                }
                Err(error) => return error.to_string(),
            }
        }
    }

    fn connect(&self) -> Result<(Established, TcpStream, Parser), String> {
        let fail = |error: io::Error| error.to_string();
        let addresses = (&*self.target.host, self.target.port).to_socket_addrs();
        let mut stream = Err("the name has no address".to_owned());
        for address in addresses.map_err(fail)? {
            stream = TcpStream::connect_timeout(&address, self.timeout).map_err(fail);
            if stream.is_ok() {
                break;
            }
        }
        let stream = stream?;
        stream.set_nodelay(true).map_err(fail)?;
        stream.set_write_timeout(Some(self.timeout)).map_err(fail)?;
        stream.set_read_timeout(Some(self.timeout)).map_err(fail)?;
        let mut parser = Parser::new();
        let mut ask = |parts: &[&[u8]]| {
            let mut out = Vec::new();
            command(&mut out, parts);
            (&stream).write_all(&out).map_err(fail)?;
            match parser.parse_value(&stream) {
                Ok(Value::ServerError(error)) => {
                    let detail = error.details().unwrap_or("");
                    Err(format!("{} {detail}", error.code()))
                }
                Ok(value) => Ok(value),
                Err(error) => Err(error.to_string()),
            }
        };
        let mut hello: Vec<&[u8]> = vec![b"HELLO", b"3"];
        if let Some(password) = &self.target.password {
            let user = self.target.user.as_deref().unwrap_or("default");
            hello.extend([b"AUTH".as_slice(), user.as_bytes(), password.as_bytes()]);
        }
        hello.extend([b"SETNAME".as_slice(), b"throng"]);
        ask(&hello)?;
        if self.target.db != 0 {
            ask(&[b"SELECT", self.target.db.to_string().as_bytes()])?;
        }
        let info = ask(&[b"INFO", b"server"])?;
        let server = run_id(&info).ok_or("Redis does not say its run_id")?;
        let mut digests = Vec::new();
        for script in Script::ALL {
            let loaded = ask(&[b"SCRIPT", b"LOAD", script.text().as_bytes()])?;
            digests.push(text(&loaded).ok_or("Redis took no script")?.to_owned());
        }
        let keys = Keys::new(&self.prefix);
        for name in [keys.probe(&self.incarnation), keys.everybody()] {
            match ask(&[b"SUBSCRIBE", name.as_bytes()])? {
                Value::Push {
                    kind: redis::PushKind::Subscribe,
                    ..
                } => {}
                other => return Err(format!("SUBSCRIBE was not confirmed: {other:?}")),
            }
        }
        stream.set_read_timeout(None).map_err(fail)?;
        let incarnation = self.incarnation.clone();
        let established = Established {
            server,
            digests,
            incarnation,
        };
        Ok((established, stream, parser))
    }
}

/// The id of the server process, which is another one after each start.
fn run_id(info: &Value) -> Option<String> {
    let text = match info {
        Value::VerbatimString { text, .. } => text,
        other => text(other)?,
    };
    let line = text.lines().find_map(|line| line.strip_prefix("run_id:"))?;
    Some(line.trim().to_owned()).filter(|id| !id.is_empty())
}
