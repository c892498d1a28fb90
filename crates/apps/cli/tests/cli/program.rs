//! Starts the binary and waits for it, never longer than a broken program needs to show itself.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

/// Far beyond what anything here takes.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// Time that a repeated question waits for its answer.
const SOON: Duration = Duration::from_millis(50);

/// Exit code and output of a run.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Done {
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }
}

/// The binary with these arguments, and none of the caller's variables.
pub(crate) fn throng(arguments: &[&str]) -> Command {
    let mut command = clean(env!("CARGO_BIN_EXE_throng"));
    command.args(arguments);
    command
}

/// A program that gets none of the caller's variables for ours, and no standard input.
pub(crate) fn clean(program: &str) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("THRONG_") {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null());
    command
}

/// Runs to the end.
#[track_caller]
pub(crate) fn run(arguments: &[&str]) -> Done {
    Running::start(&mut throng(arguments)).wait()
}

pub(crate) fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// A program whose lines are read as they come. It is killed if the test ends first.
pub(crate) struct Running {
    child: Child,
    out: Receiver<String>,
    err: Receiver<String>,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        Self::of(command.stdout(Stdio::piped()).stderr(Stdio::piped()))
    }

    /// Runs with something on standard input, which ends then.
    pub(crate) fn start_with(command: &mut Command, input: &[u8]) -> Self {
        let mut running = Self::start(command.stdin(Stdio::piped()));
        let mut stdin = running.child.stdin.take().unwrap();
        stdin.write_all(input).unwrap();
        running
    }

    /// Runs with a closed standard error.
    pub(crate) fn start_unheard(command: &mut Command) -> Self {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        Self::of(command.stdout(Stdio::piped()).stderr(writer))
    }

    fn of(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        Self {
            out: lines(child.stdout.take().unwrap()),
            err: child.stderr.take().map_or_else(|| channel().1, lines),
            child,
        }
    }

    /// The next line on standard output.
    #[track_caller]
    pub(crate) fn line(&self) -> String {
        self.out
            .recv_timeout(DEADLINE)
            .expect("a line on standard output")
    }

    /// A line on standard output that is there or comes soon.
    pub(crate) fn line_if_there(&self) -> Option<String> {
        self.out.recv_timeout(SOON).ok()
    }

    /// Forgets what was printed so far.
    pub(crate) fn drain_lines(&self) {
        while self.out.try_recv().is_ok() {}
    }

    /// The next line on standard error that contains `part`.
    #[track_caller]
    pub(crate) fn until_err(&self, part: &str) -> String {
        loop {
            let line = self
                .err
                .recv_timeout(DEADLINE)
                .unwrap_or_else(|_| panic!("{part:?} on standard error"));
            if line.contains(part) {
                return line;
            }
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the end and returns the output that is left.
    #[track_caller]
    pub(crate) fn wait(mut self) -> Done {
        let rest = |lines: &Receiver<String>| {
            let mut text = String::new();
            loop {
                match lines.recv_timeout(DEADLINE) {
                    Ok(line) => text.push_str(&line),
                    Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return text,
                    Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
                        panic!("it does not end; so far: {text}")
                    }
                }
            }
        };
        let (out, err) = (rest(&self.out), rest(&self.err));
        let code = self.child.wait().unwrap().code();
        Done { code, out, err }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended already, or nobody is interested any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Lines with their ends, read by a thread that ends with the stream.
fn lines(stream: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut stream = BufReader::new(stream);
        loop {
            let mut line = Vec::new();
            match stream.by_ref().read_until(b'\n', &mut line) {
                Ok(1..)
                    if sender
                        .send(String::from_utf8_lossy(&line).into_owned())
                        .is_ok() => {}
                _ => return,
            }
        }
    });
    receiver
}
