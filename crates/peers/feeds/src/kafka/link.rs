//! One connection to a broker: who we are, questions and their answers.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use throng_kafka_protocol::{
    ErrorCode, FrameFault, FrameSplitter, ReadBody, Request, request, unsupported,
};
use throng_peer::task::{Late, Net};
use throng_peer::{Dial, DialTls};
use throng_types::Rng;

use super::options::{KafkaFeedOptions, Login, Mechanism};
use crate::scram::{self, Scram};
use crate::source::{ANSWER_MS, Fault, Setup};

/// The longest answer, in bytes: what is fetched at once, or one batch that is longer than that.
const FRAME_BYTES_MAX: u32 = 64 << 20;

pub(super) struct Client {
    pub(super) net: Net,
    pub(super) options: KafkaFeedOptions,
    /// Member id in the group. Outlives connections: a feed that comes back is not taken for one
    /// more member.
    pub(super) member: Rc<RefCell<String>>,
    rng: RefCell<Rng>,
}

impl Client {
    pub(super) fn new(options: &KafkaFeedOptions, setup: Setup) -> Rc<Self> {
        Rc::new(Self {
            net: setup.net,
            options: options.clone(),
            member: setup.member,
            rng: RefCell::new(setup.rng),
        })
    }
}

pub(super) struct Link {
    client: Rc<Client>,
    link: throng_peer::task::Link,
    frames: FrameSplitter,
    next_number: i32,
    /// Numbers of questions that are not answered yet; brokers answer in order.
    /// Bound: one, since nothing is asked before the last answer but a good-bye.
    asked: VecDeque<i32>,
}

impl Link {
    /// Connects, checks the versions of the broker, and authenticates.
    pub(super) async fn connect(client: &Rc<Client>, host: &str, port: u16) -> Result<Self, Fault> {
        let named = |fault: Fault| Fault(format!("{host}:{port}: {fault}"));
        let dial = Dial {
            host: host.to_owned(),
            port,
            tls: client.options.is_secure.then(|| DialTls {
                name: host.to_owned(),
                insecure: false,
                authorities: None,
                http2: false,
            }),
            timeout_ms: ANSWER_MS,
        };
        let link = client.net.dial(dial).await;
        let mut link = Self {
            client: client.clone(),
            link: link.map_err(|why| named(why.into()))?,
            frames: FrameSplitter::new(FRAME_BYTES_MAX),
            next_number: 0,
            asked: VecDeque::new(),
        };
        link.introduce().await.map_err(named)?;
        Ok(link)
    }

    async fn introduce(&mut self) -> Result<(), Fault> {
        let (error, ranges) = self.ask(request::api_versions()).await?;
        checked(error)?;
        if let Some(api) = unsupported(&ranges) {
            let (key, version) = (api.key, api.version);
            return Err(Fault(format!(
                "it does not answer requests {key} in version {version}: Kafka 2.3 or later is \
                 needed"
            )));
        }
        match &self.client.clone().options.login {
            Some(login) => self.log_in(login).await,
            None => Ok(()),
        }
    }

    async fn log_in(&mut self, login: &Login) -> Result<(), Fault> {
        let mechanism = login.mechanism.name();
        let answer = self.ask(request::sasl_handshake(mechanism)).await?;
        if answer.error == ErrorCode::UNSUPPORTED_MECHANISM {
            let offered = answer.mechanisms.join(", ");
            return Err(Fault(format!("it offers no {mechanism}, but {offered}")));
        }
        checked(answer.error)?;
        let (user, password) = (&login.user, &login.password);
        match login.mechanism {
            Mechanism::Plain => {
                self.say(format!("\0{user}\0{password}").as_bytes()).await?;
            }
            Mechanism::Scram(hash) => {
                let nonce = scram::nonce(&mut self.client.rng.borrow_mut());
                let mut scram = Scram::new(hash, user, password, nonce);
                let server = self.say(scram.first().as_bytes()).await?;
                let last = scram.last(&server);
                let last = last.ok_or_else(|| Fault::new("its SCRAM makes no sense"))?;
                let proof = self.say(last.as_bytes()).await?;
                if !scram.is_proven(&proof) {
                    return Err(Fault::new("it did not prove itself"));
                }
            }
        }
        Ok(())
    }

    /// Says something by SASL, and gives what is answered.
    async fn say(&mut self, message: &[u8]) -> Result<Vec<u8>, Fault> {
        let answer = self.ask(request::sasl_authenticate(message)).await?;
        match (answer.error, answer.why) {
            (ErrorCode::NONE, _) => Ok(answer.message),
            (error, Some(why)) => Err(Fault(format!(
                "the server reports: {why} (error {})",
                error.0
            ))),
            (error, None) => Err(said(error)),
        }
    }

    /// Asks, and waits for the answer. Nothing else may be unanswered.
    pub(super) async fn ask<T>(&mut self, request: Request<T>) -> Result<T, Fault> {
        self.ask_within(ANSWER_MS, request).await
    }

    pub(super) async fn ask_within<T>(&mut self, ms: u64, ask: Request<T>) -> Result<T, Fault> {
        self.send(&ask);
        let answer = self.receive(ask.read, ms).await?;
        answer.ok_or_else(|| Late.into())
    }

    /// Asks, and does not wait.
    pub(super) fn send<T>(&mut self, request: &Request<T>) {
        let number = self.next_number;
        self.next_number = number.wrapping_add(1);
        self.asked.push_back(number);
        self.link.write(request.frame(number));
    }

    /// The answer to what was asked first; none if it does not come in time.
    pub(super) async fn receive<T>(
        &mut self,
        read: ReadBody<T>,
        wait_ms: u64,
    ) -> Result<Option<T>, Fault> {
        let net = self.client.net.clone();
        let until = net.now().mono + wait_ms;
        loop {
            if let Some((number, body)) = self.frame()? {
                let is_next = self.asked.pop_front() == Some(number);
                let answer = read(&body).filter(|_| is_next);
                return answer.map(Some).ok_or_else(strange);
            }
            let left_ms = until - net.now().mono;
            match net.timeout(left_ms, self.link.read()).await {
                Ok(bytes) => self.frames.feed(&bytes?),
                Err(_) => return Ok(None),
            }
        }
    }

    fn frame(&mut self) -> Result<Option<(i32, Vec<u8>)>, Fault> {
        self.frames.next_frame().map_err(|fault| match fault {
            FrameFault::TooLong(length) => Fault(format!(
                "it sends {length} bytes at once, more than {FRAME_BYTES_MAX}, or does not speak \
                 like Kafka"
            )),
            FrameFault::TooShort => strange(),
        })
    }
}

pub(super) fn checked(error: ErrorCode) -> Result<(), Fault> {
    match error {
        ErrorCode::NONE => Ok(()),
        error => Err(said(error)),
    }
}

pub(super) fn said(error: ErrorCode) -> Fault {
    Fault(format!("the server reports: {error}"))
}

fn strange() -> Fault {
    Fault::new("it does not speak like Kafka")
}
