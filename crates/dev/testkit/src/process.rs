//! A child process whose output lines are kept. It ends with the value that stands for it.

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use throng_types::lock;

use crate::patience::Look;
use crate::{Deadline, until};

/// Lines that a child has written so far.
#[derive(Default)]
struct Log {
    lines: Mutex<Lines>,
    news: Condvar,
}

#[derive(Default)]
struct Lines {
    all: Vec<String>,
    ended: bool,
}

impl Log {
    fn follow(stream: impl Read + Send + 'static) -> Arc<Self> {
        let log = Arc::new(Self::default());
        let shared = log.clone();
        thread::spawn(move || {
            let mut stream = BufReader::new(stream);
            loop {
                let mut line = Vec::new();
                let more = matches!(stream.read_until(b'\n', &mut line), Ok(1..));
                let mut lines = lock(&shared.lines);
                if more {
                    let line = String::from_utf8_lossy(&line);
                    lines.all.push(line.trim_end().to_owned());
                } else {
                    lines.ended = true;
                }
                drop(lines);
                shared.news.notify_all();
                if !more {
                    return;
                }
            }
        });
        log
    }

    /// Looks at all lines, again whenever there are more.
    fn until<L: Look>(&self, mut look: impl FnMut(&[String]) -> L) -> Result<L::Found, String> {
        let deadline = Deadline::default();
        let mut lines = lock(&self.lines);
        loop {
            if let Some(found) = look(&lines.all).found() {
                return Ok(found);
            }
            let left = deadline.left();
            if lines.ended || left.is_zero() {
                let why = if lines.ended {
                    "it has ended"
                } else {
                    "it says no more"
                };
                return Err(format!("{why}; it said:\n{}", lines.all.join("\n")));
            }
            let waited = self.news.wait_timeout(lines, left);
            lines = waited.unwrap_or_else(|poison| poison.into_inner()).0;
        }
    }
}

/// A program that runs until this is dropped, and the lines that it has written.
pub struct Process {
    name: String,
    child: Child,
    stdin: Option<ChildStdin>,
    out: Arc<Log>,
    err: Arc<Log>,
}

impl Process {
    /// Starts it in a process group of its own, so that its own children end with it.
    #[track_caller]
    pub fn start(command: &mut Command, install: &str) -> Self {
        let name = command.get_program().to_string_lossy().into_owned();
        let started = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn();
        let mut child =
            started.unwrap_or_else(|error| panic!("cannot start {name}: {error}; {install}"));
        let (out, err) = (child.stdout.take(), child.stderr.take());
        Self {
            name,
            stdin: child.stdin.take(),
            out: Log::follow(out.expect("piped")),
            err: Log::follow(err.expect("piped")),
            child,
        }
    }

    /// Waits until what it has written to standard output answers a question.
    #[track_caller]
    pub fn out<L: Look>(&self, what: &str, look: impl FnMut(&[String]) -> L) -> L::Found {
        self.found(what, self.out.until(look))
    }

    /// Waits for lines on standard error that satisfy `look`.
    #[track_caller]
    pub fn err<L: Look>(&self, what: &str, look: impl FnMut(&[String]) -> L) -> L::Found {
        self.found(what, self.err.until(look))
    }

    /// Waits for the end of standard output, whose lines are all there then.
    #[track_caller]
    pub fn rests(&self) {
        until(&format!("the last words of {}", self.name), || {
            lock(&self.out.lines).ended
        });
    }

    /// Waits for a line with this text on standard output.
    #[track_caller]
    pub fn prints(&self, text: &str) -> String {
        self.out(text, |lines| {
            lines.iter().find(|line| line.contains(text)).cloned()
        })
    }

    #[track_caller]
    fn found<T>(&self, what: &str, found: Result<T, String>) -> T {
        found.unwrap_or_else(|log| {
            let err = self.err_lines().join("\n");
            panic!(
                "{}: waited in vain for {what}: {log}\non standard error:\n{err}",
                self.name
            )
        })
    }

    /// Lines written to standard error so far.
    pub fn err_lines(&self) -> Vec<String> {
        lock(&self.err.lines).all.clone()
    }

    /// Writes a line to its standard input, in one piece: a program that reads in between would
    /// take the end of the line for the start of the next.
    #[track_caller]
    pub fn say(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("its input is open");
        if let Err(error) = stdin.write_all(format!("{line}\n").as_bytes()) {
            panic!(
                "{} does not listen: {error}\n{}",
                self.name,
                self.err_lines().join("\n")
            );
        }
    }

    /// Process id of the child.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Sends it a signal.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("a signal to an own child");
    }

    /// Whether it still runs.
    pub fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for its end.
    #[track_caller]
    pub fn wait(&mut self) -> ExitStatus {
        until(&format!("the end of {}", self.name), || {
            self.child.try_wait().ok().flatten()
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A program that ends with its input may have ended already.
        drop(self.stdin.take());
        let runs = matches!(self.child.try_wait(), Ok(None));
        // What it has started may have outlived it, and is in its group.
        let _ = kill_process_group(self.pid(), Signal::KILL);
        if runs {
            let _ = self.child.wait();
        }
    }
}
