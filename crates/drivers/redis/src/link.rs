//! One connection to Redis: made, introduced and read on a thread of its own.
//!
//! The thread ends with the connection. What it reads waits in an [`Inbox`] until the driver takes
//! it; while the inbox is full nothing more is read, and Redis keeps the rest or ends the
//! connection.

use std::io::{self, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use redis::{Parser, Value};
use throng_remote::{Dial, DialInbox, Event, connect};

use crate::answer::{cost, text};
use crate::command::{Script, command};
use crate::keys::Keys;
use crate::node::Established;
use crate::options::Target;

/// How to connect.
pub(crate) struct RedisDial {
    pub(crate) target: Target,
    pub(crate) prefix: String,
    pub(crate) incarnation: String,
    pub(crate) timeout: Duration,
}

impl Dial for RedisDial {
    type Hello = Established;
    type Word = Value;

    fn run(self, link: u64, inbox: &Arc<DialInbox<Self>>) -> String {
        match self.connect() {
            Ok((established, stream, parser)) => read(link, established, stream, parser, inbox),
            Err(why) => why,
        }
    }
}

fn read(
    link: u64,
    established: Established,
    stream: TcpStream,
    mut parser: Parser,
    inbox: &DialInbox<RedisDial>,
) -> String {
    let writer = match stream.try_clone() {
        Ok(writer) => writer,
        Err(error) => return error.to_string(),
    };
    if !inbox.put(link, Event::Up((established, Box::new(writer)))) {
        return String::new();
    }
    loop {
        match parser.parse_value(&stream) {
            Ok(value) => {
                let bytes = cost(&value);
                if !inbox.put(link, Event::Word(value, bytes)) {
                    let _ = stream.shutdown(Shutdown::Both);
                    return String::new();
                }
            }
            Err(error) => return error.to_string(),
        }
    }
}

impl RedisDial {
    fn connect(&self) -> Result<(Established, TcpStream, Parser), String> {
        let fail = |error: io::Error| error.to_string();
        let target = &self.target;
        let stream = connect(&target.host, target.port, self.timeout).map_err(fail)?;
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
