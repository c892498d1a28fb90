//! One connection to Redis: made, introduced and read on a thread of its own.
//!
//! The thread ends with the connection. What it reads waits in an inbox until the driver takes it;
//! while that is full nothing more is read, and Redis keeps the rest or ends the connection. Where
//! Sentinels name the server, another thread asks them now and then whether it is still that one:
//! a server that was replaced may keep its connections and say nothing any more.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use redis::Value;
use throng_redis_link::{Answers, Place, command};
use throng_remote::{Dial, DialInbox, Event, Reader, Stream};

use crate::answer::{cost, text};
use crate::command::Script;
use crate::keys::Keys;
use crate::node::Established;
use crate::options::Target;

/// Between two questions to Sentinels where Redis is.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// How to connect.
pub(crate) struct RedisDial {
    pub(crate) target: Target,
    pub(crate) authorities: Option<PathBuf>,
    pub(crate) prefix: String,
    pub(crate) incarnation: String,
    pub(crate) timeout: Duration,
    /// Bytes that one answer may keep.
    pub(crate) answer_bytes_max: usize,
}

/// A connection that was made.
struct Made {
    established: Established,
    stream: Stream,
    answers: Answers,
    place: Place,
}

impl Dial for RedisDial {
    type Hello = Established;
    type Word = Value;

    fn run(self, link: u64, inbox: &Arc<DialInbox<Self>>) -> String {
        let made = match self.connect() {
            Ok(made) => made,
            Err(why) => return why,
        };
        let is_over = Arc::new(AtomicBool::new(false));
        if self.target.may_move() {
            let (inbox, is_over) = (inbox.clone(), is_over.clone());
            let place = made.place.clone();
            let watch = move || self.watch(&place, link, &inbox, &is_over);
            let thread = thread::Builder::new().name("broker-where".to_owned());
            if let Err(error) = thread.spawn(watch) {
                return error.to_string();
            }
        }
        let why = read(link, made, inbox);
        is_over.store(true, Ordering::Relaxed);
        why
    }
}

fn read(link: u64, made: Made, inbox: &DialInbox<RedisDial>) -> String {
    let (mut reader, writer) = match made.stream.split() {
        Ok(ends) => ends,
        Err(error) => return error.to_string(),
    };
    if !inbox.put(link, Event::Up((made.established, writer))) {
        return String::new();
    }
    let mut answers = made.answers;
    let reader: &mut Reader = &mut reader;
    loop {
        match answers.next(&mut *reader) {
            Ok(value) => {
                let bytes = cost(&value);
                if !inbox.put(link, Event::Word(value, bytes)) {
                    reader.shut_down();
                    return String::new();
                }
            }
            Err(error) => return error.to_string(),
        }
    }
}

impl RedisDial {
    /// Ends the connection once Redis is somewhere else.
    fn watch(&self, place: &Place, link: u64, inbox: &DialInbox<Self>, is_over: &AtomicBool) {
        loop {
            thread::sleep(ASK_EVERY);
            if is_over.load(Ordering::Relaxed) {
                return;
            }
            // While no Sentinel answers, the one that we have is good enough.
            if let Ok(now) = self.find()
                && now != *place
            {
                let why = "Sentinels name another server".to_owned();
                inbox.put(link, Event::Down(why));
                return;
            }
        }
    }

    fn find(&self) -> Result<Place, String> {
        self.target.find(self.timeout, self.authorities.as_deref())
    }

    fn connect(&self) -> Result<Made, String> {
        let place = self.find()?;
        let at = |why: String| format!("{}:{}: {why}", place.host, place.port);
        self.introduce(place.clone()).map_err(at)
    }

    fn introduce(&self, place: Place) -> Result<Made, String> {
        let fail = |error: io::Error| error.to_string();
        let mut stream = place.connect(self.timeout, self.authorities.as_deref())?;
        let verbs = self.target.verbs();
        let mut answers = Answers::new(self.answer_bytes_max);
        let mut ask = |parts: &[&[u8]]| {
            let mut out = Vec::new();
            command(&mut out, parts);
            stream.write_all(&out).map_err(fail)?;
            match answers.next(&mut stream) {
                Ok(Value::ServerError(error)) => {
                    let detail = error.details().unwrap_or("");
                    Err(format!("{} {detail}", error.code()))
                }
                Ok(value) => Ok(value),
                Err(error) => Err(error.to_string()),
            }
        };
        let mut hello: Vec<&[u8]> = vec![b"HELLO", b"3"];
        if let Some(password) = &place.password {
            let user = place.user.as_deref().unwrap_or("default");
            hello.extend([b"AUTH".as_slice(), user.as_bytes(), password.as_bytes()]);
        }
        hello.extend([b"SETNAME".as_slice(), b"throng"]);
        ask(&hello)?;
        if place.db != 0 {
            ask(&[b"SELECT", place.db.to_string().as_bytes()])?;
        }
        let info = ask(&[b"INFO", b"server"])?;
        let process = field(&info, "run_id").ok_or("Redis does not say its run_id")?;
        let info = ask(&[b"INFO", b"replication"])?;
        if field(&info, "role").is_some_and(|role| role != "master") {
            return Err("it is a replica".to_owned());
        }
        let line = field(&info, "master_replid").unwrap_or_default();
        let mut digests = Vec::new();
        for script in Script::ALL {
            let loaded = ask(&[b"SCRIPT", b"LOAD", script.text(verbs).as_bytes()])?;
            digests.push(text(&loaded).ok_or("Redis took no script")?.to_owned());
        }
        let keys = Keys::new(&self.prefix);
        for name in [keys.probe(&self.incarnation), keys.everybody()] {
            match ask(&[verbs.subscribe.as_bytes(), name.as_bytes()])? {
                Value::Push {
                    kind: redis::PushKind::Subscribe | redis::PushKind::SSubscribe,
                    ..
                } => {}
                other => return Err(format!("SUBSCRIBE was not confirmed: {other:?}")),
            }
        }
        let established = Established {
            process,
            line,
            digests,
            incarnation: self.incarnation.clone(),
        };
        Ok(Made {
            established,
            stream,
            answers,
            place,
        })
    }
}

/// A field of what `INFO` says.
pub(crate) fn field(info: &Value, name: &str) -> Option<String> {
    let text = match info {
        Value::VerbatimString { text, .. } => text,
        other => text(other)?,
    };
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(value.trim().to_owned()).filter(|value| !value.is_empty())
}
