//! An origin that shows its requests and answers as the script says.

use std::io::Write as _;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::http::{Head, Reader, SILENCE};

/// An answer to all requests from now on.
type Always = Arc<Mutex<Option<Vec<u8>>>>;

/// A whole request, and the connection for its answer.
pub(crate) struct Asked {
    pub(crate) head: Head,
    pub(crate) body: Vec<u8>,
    stream: TcpStream,
}

/// The backend of a dialogue: it answers as the script says.
pub(crate) struct Origin {
    asked: Receiver<Asked>,
    always: Always,
    last: Option<TcpStream>,
}

pub(crate) fn bind() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").expect("a free port")
}

impl Origin {
    pub(crate) fn start(listener: TcpListener) -> Self {
        let (told, asked) = channel();
        let always = Always::default();
        let shared = always.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (told, always) = (told.clone(), shared.clone());
                thread::spawn(move || serve(stream, &told, &always));
            }
        });
        let last = None;
        Self {
            asked,
            always,
            last,
        }
    }

    /// Waits for the next request.
    pub(crate) fn next(&mut self) -> Option<Asked> {
        let asked = self.asked.recv_timeout(SILENCE).ok()?;
        self.last = asked.stream.try_clone().ok();
        Some(asked)
    }

    /// Next request that the script did not look at.
    pub(crate) fn unread(&mut self) -> Option<Asked> {
        self.asked.try_recv().ok()
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        if let Some(stream) = &mut self.last {
            // A closed connection gets nothing.
            let _ = stream.write_all(bytes);
        }
    }

    pub(crate) fn always(&mut self, bytes: Vec<u8>) {
        let always = self.always.lock();
        *always.unwrap_or_else(|poison| poison.into_inner()) = Some(bytes);
    }

    pub(crate) fn close(&mut self) {
        if let Some(stream) = self.last.take() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn serve(mut stream: TcpStream, told: &Sender<Asked>, always: &Always) {
    let Ok(twin) = stream.try_clone() else { return };
    let mut reader = Reader::new(twin).patient();
    while let Ok(head) = reader.head("") {
        let body = match crate::http::field(&head, "Content-Length")
            .or_else(|| crate::http::field(&head, "Transfer-Encoding"))
        {
            Some(_) => reader.rest().0,
            None => Vec::new(),
        };
        let answer = always.lock();
        let answer = answer.unwrap_or_else(|poison| poison.into_inner()).clone();
        if let Some(answer) = answer {
            if stream.write_all(&answer).is_err() {
                return;
            }
            continue;
        }
        let Ok(stream) = stream.try_clone() else {
            return;
        };
        if told.send(Asked { head, body, stream }).is_err() {
            return;
        }
    }
}
