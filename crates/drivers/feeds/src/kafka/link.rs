//! One connection to a broker: who we are, questions and their answers.

use std::collections::VecDeque;
use std::io::Write as _;
use std::time::{Duration, Instant};

use throng_kafka_protocol::{ErrorCode, Frame, FrameFault, Frames, read, unsupported, write};
use throng_remote::Stream;

use super::options::{KafkaOptions, Login, Mechanism};
use crate::scram::{self, Scram};
use crate::source::{ANSWER, Fault};

const READ_BYTES: usize = 64 << 10;
/// The longest answer, in bytes: what is fetched at once, or one batch that is longer than that.
const FRAME_BYTES_MAX: u32 = 64 << 20;

pub(super) struct Link {
    stream: Stream,
    frames: Frames,
    next_number: i32,
    /// Numbers of questions that are not answered yet; brokers answer in order.
    /// Bound: one, since nothing is asked before the last answer but a good-bye.
    asked: VecDeque<i32>,
}

impl Link {
    /// Connects and says who we are.
    pub(super) fn connect(host: &str, port: u16, options: &KafkaOptions) -> Result<Self, Fault> {
        let named = |fault: Fault| Fault(format!("{host}:{port}: {fault}"));
        let stream = Stream::connect(host, port, ANSWER).map_err(|error| named(error.into()))?;
        let stream = match options.is_secure {
            true => {
                let trust = throng_remote::trust(None).map_err(Fault)?;
                let secured = stream.secure(host, &trust);
                secured.map_err(|why| named(Fault(why)))?
            }
            false => stream,
        };
        let mut link = Self {
            stream,
            frames: Frames::new(FRAME_BYTES_MAX),
            next_number: 0,
            asked: VecDeque::new(),
        };
        link.introduce(options).map_err(named)?;
        Ok(link)
    }

    fn introduce(&mut self, options: &KafkaOptions) -> Result<(), Fault> {
        let (error, ranges) = self.ask(write::api_versions, read::api_versions)?;
        checked(error)?;
        if let Some(api) = unsupported(&ranges) {
            let (key, version) = (api.key, api.version);
            return Err(Fault(format!(
                "it does not answer requests {key} in version {version}: Kafka 2.3 or later is \
                 needed"
            )));
        }
        options
            .login
            .as_ref()
            .map_or(Ok(()), |login| self.log_in(login))
    }

    fn log_in(&mut self, login: &Login) -> Result<(), Fault> {
        let mechanism = login.mechanism.name();
        let shake = |number| write::sasl_handshake(number, mechanism);
        let answer = self.ask(shake, read::sasl_handshake)?;
        if answer.error == ErrorCode::UNSUPPORTED_MECHANISM {
            let offered = answer.mechanisms.join(", ");
            return Err(Fault(format!("it offers no {mechanism}, but {offered}")));
        }
        checked(answer.error)?;
        let (user, password) = (&login.user, &login.password);
        match login.mechanism {
            Mechanism::Plain => {
                self.say(format!("\0{user}\0{password}").as_bytes())?;
            }
            Mechanism::Scram(hash) => {
                let nonce = scram::nonce().ok_or_else(|| Fault::new("no random bytes"))?;
                let mut scram = Scram::new(hash, user, password, nonce);
                let server = self.say(scram.first().as_bytes())?;
                let last = scram.last(&server);
                let last = last.ok_or_else(|| Fault::new("its SCRAM makes no sense"))?;
                let proof = self.say(last.as_bytes())?;
                if !scram.is_proven(&proof) {
                    return Err(Fault::new("it did not prove itself"));
                }
            }
        }
        Ok(())
    }

    /// Says something by SASL, and gives what is answered.
    fn say(&mut self, message: &[u8]) -> Result<Vec<u8>, Fault> {
        let message = |number| write::sasl_authenticate(number, message);
        let answer = self.ask(message, read::sasl_authenticate)?;
        match (answer.error, answer.why) {
            (ErrorCode::NONE, _) => Ok(answer.message),
            (error, Some(why)) => Err(Fault(format!("it says: {why} (error {})", error.0))),
            (error, None) => Err(said(error)),
        }
    }

    /// Asks, and waits for the answer. Nothing else may be unanswered.
    pub(super) fn ask<T>(
        &mut self,
        question: impl FnOnce(i32) -> Vec<u8>,
        read: fn(&[u8]) -> Option<T>,
    ) -> Result<T, Fault> {
        self.send(question)?;
        match self.receive(ANSWER)? {
            Some(body) => answer(read, &body),
            None => Err(Fault::new("it does not answer")),
        }
    }

    /// Asks, and does not wait.
    pub(super) fn send(&mut self, question: impl FnOnce(i32) -> Vec<u8>) -> Result<(), Fault> {
        let number = self.next_number;
        self.next_number = number.wrapping_add(1);
        self.asked.push_back(number);
        Ok(self.stream.write_all(&question(number))?)
    }

    /// The answer to what was asked first; none if it does not come in time.
    pub(super) fn receive(&mut self, wait: Duration) -> Result<Option<Vec<u8>>, Fault> {
        let until = Instant::now() + wait;
        loop {
            if let Some(frame) = self.frame()? {
                return match self.asked.pop_front() {
                    Some(number) if number == frame.correlation => Ok(Some(frame.body)),
                    _ => Err(strange()),
                };
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || !self.read(left)? {
                return Ok(None);
            }
        }
    }

    fn frame(&mut self) -> Result<Option<Frame>, Fault> {
        self.frames.next_frame().map_err(|fault| match fault {
            FrameFault::TooLong(length) => Fault(format!(
                "it sends {length} bytes at once, more than {FRAME_BYTES_MAX}, or does not speak \
                 like Kafka"
            )),
            FrameFault::TooShort => strange(),
        })
    }

    /// Reads once; false if nothing comes in time.
    fn read(&mut self, wait: Duration) -> Result<bool, Fault> {
        let mut bytes = [0; READ_BYTES];
        let count = self.stream.read_within(wait, &mut bytes)?;
        self.frames.feed(&bytes[..count.unwrap_or_default()]);
        Ok(count.is_some())
    }
}

/// What an answer's body says.
pub(super) fn answer<T>(read: fn(&[u8]) -> Option<T>, body: &[u8]) -> Result<T, Fault> {
    read(body).ok_or_else(strange)
}

pub(super) fn checked(error: ErrorCode) -> Result<(), Fault> {
    match error {
        ErrorCode::NONE => Ok(()),
        error => Err(said(error)),
    }
}

pub(super) fn said(error: ErrorCode) -> Fault {
    Fault(format!("it says: {error}"))
}

fn strange() -> Fault {
    Fault::new("it does not speak like Kafka")
}
