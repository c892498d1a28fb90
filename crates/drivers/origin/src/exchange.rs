//! One request, from the choice of an origin to the last byte of its answer.
//!
//! Which failure leads to another try: an origin that cannot be connected to hands over to the
//! next; a kept connection that ends before the first byte of an answer is replaced once, whatever
//! the method, if all of the request is still there: the origin was closing it while it was
//! asked. Nothing else is tried again, because the origin may have done what it was asked.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use throng_grip::exchange::{OriginEvent, OriginFailure, OriginFault, OriginRequest, Rest};
use throng_grip::routes::TargetAddress;
use throng_types::ConnId;
use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::connect::Stream;
use crate::credit::Credit;
use crate::place::Key;
use crate::shared::{Shared, take_all};
use crate::uplink::Uplink;
use crate::wire::{Answer, decode, encode, limits};

/// Bytes of one read.
pub(crate) const READ_BYTES: usize = 16 << 10;
/// Answers of the kind 1xx before the real one.
const INTERIM_MAX: usize = 16;

/// For an answer that may take as long as it likes.
const ENDLESS: Duration = Duration::from_secs(u32::MAX as u64);

/// What a task carries out.
pub(crate) struct Exchange {
    pub(crate) conn: ConnId,
    pub(crate) token: u32,
    pub(crate) errand: Errand,
    pub(crate) credit: Arc<Credit>,
}

/// A request, and what is needed to send it.
pub(crate) struct Errand {
    pub(crate) request: OriginRequest,
    pub(crate) shared: Arc<Shared>,
    /// What follows the request, if something does.
    pub(crate) uplink: Option<Uplink>,
}

/// What went wrong on one connection.
enum Trouble {
    /// Nothing of the answer has come; `is_unsent` says that the request was not taken whole.
    Early { is_unsent: bool, detail: String },
    /// It is over.
    Final(OriginFault, String),
}

/// An answer whose head is whole.
pub(crate) struct Begun {
    pub(crate) stream: Stream,
    pub(crate) answer: Answer,
    /// What came behind the head.
    pub(crate) rest: Vec<u8>,
    /// The request was written to its end.
    pub(crate) is_sent: bool,
}

/// Carries out one exchange and tells what comes of it.
pub(crate) async fn run(exchange: Exchange) {
    if let Err((fault, detail)) = exchange.carry_out().await {
        let failure = OriginFailure { fault, detail };
        exchange.tell(OriginEvent::Failed(failure)).await;
    }
}

/// Carries out a request whose answer is of no interest, up to the head of the answer.
pub(crate) async fn tell(request: OriginRequest, shared: Arc<Shared>) {
    let errand = Errand {
        request,
        shared,
        uplink: None,
    };
    // Nobody is there to hear of a failure.
    drop(errand.start().await);
}

impl Exchange {
    pub(crate) async fn tell(&self, event: OriginEvent) {
        self.errand
            .shared
            .deliver(self.conn, self.token, event)
            .await;
    }

    async fn carry_out(&self) -> Result<(), (OriginFault, String)> {
        let (key, begun) = self.errand.start().await?;
        self.relay(key, begun).await
    }
}

impl Errand {
    /// Goes through the origins until one answers.
    pub(crate) async fn start(&self) -> Result<(Key, Begun), (OriginFault, String)> {
        let host = self.request.headers.iter().find(|header| header.is("Host"));
        let host = host.map(|header| String::from_utf8_lossy(&header.value).into_owned());
        let host = host.unwrap_or_default();
        let mut tried = Vec::new();
        for target in &self.request.route.targets {
            let key = Key::of(target, &host);
            let mut bytes = Vec::new();
            encode(&self.request, target, &mut bytes);
            if target.address == TargetAddress::Test {
                let pipe = crate::test_target::connect(&self.request.route);
                let begun = self.ask(Stream::Test(pipe), &bytes).await;
                let begun = begun.map_err(|trouble| trouble.told(&key))?;
                return Ok((key, begun));
            }
            match self.begin(&key, &bytes, &mut tried).await? {
                Some(begun) => return Ok((key, begun)),
                None => continue,
            }
        }
        Err((OriginFault::Unreachable, tried.join("; ")))
    }

    /// Sends the request to one origin and reads the head of its answer; `None` if the next
    /// origin is to be tried.
    async fn begin(
        &self,
        key: &Key,
        bytes: &[u8],
        tried: &mut Vec<String>,
    ) -> Result<Option<Begun>, (OriginFault, String)> {
        let kept = match self.request.rest {
            Rest::Upgrade => None,
            Rest::Nothing | Rest::Body(_) => self.shared.pool.take(key, Instant::now()),
        };
        if let Some(stream) = kept {
            let uplink = self.uplink.as_ref();
            uplink.inspect(|uplink| uplink.keep(true));
            match self.ask(stream, bytes).await {
                Ok(begun) => return Ok(Some(begun)),
                Err(Trouble::Early { .. }) if !uplink.is_some_and(Uplink::is_spent) => {}
                Err(trouble) => return Err(trouble.told(key)),
            }
            uplink.inspect(|uplink| uplink.keep(false));
        }
        let within = Duration::from_millis(self.request.route.connect_timeout_ms);
        match Stream::connect(key, &self.shared.tls, within).await {
            Ok(stream) => match self.ask(stream, bytes).await {
                Ok(begun) => Ok(Some(begun)),
                Err(trouble) => Err(trouble.told(key)),
            },
            Err(detail) => {
                tried.push(detail);
                Ok(None)
            }
        }
    }

    async fn ask(&self, mut stream: Stream, bytes: &[u8]) -> Result<Begun, Trouble> {
        // To take some of the request, each time; and to answer then.
        let stall_ms = self.shared.options.stall_timeout_ms;
        let (stall, within) = match self.request.route.response_timeout_ms {
            0 => (Duration::from_millis(stall_ms), ENDLESS),
            ms => (Duration::from_millis(ms), Duration::from_millis(ms)),
        };
        let asking = async {
            if let Err(error) = write(&mut stream, bytes, stall).await? {
                // It may have answered early, without reading all.
                let early = Trouble::Early {
                    is_unsent: true,
                    detail: format!("the connection broke while the request was sent: {error}"),
                };
                let told = self.timely(within, self.head(&mut stream)).await;
                return told.map(|told| (told, false)).map_err(|_| early);
            }
            let body = self.uplink.as_ref();
            let Some(body) = body.filter(|_| self.request.rest != Rest::Upgrade) else {
                let told = self.timely(within, self.head(&mut stream)).await?;
                return Ok((told, true));
            };
            self.stream_body(&mut stream, body, (stall, within)).await
        };
        let ((answer, rest), is_sent) = asking.await?;
        Ok(Begun {
            stream,
            answer,
            rest,
            is_sent,
        })
    }

    /// Writes the rest of the body as it comes, which takes as long as its client takes, and reads
    /// the head of the answer; that may come before the end, and then the rest is of no interest.
    async fn stream_body(
        &self,
        stream: &mut Stream,
        body: &Uplink,
        (stall, within): (Duration, Duration),
    ) -> Result<((Answer, Vec<u8>), bool), Trouble> {
        let (mut reading, mut writing) = tokio::io::split(stream);
        let mut head = pin!(self.head(&mut reading));
        tokio::select! {
            told = &mut head => told.map(|told| (told, false)),
            written = body.write(&mut writing, &self.shared, stall) => match written {
                Ok(()) => self.timely(within, head).await.map(|told| (told, true)),
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    Err(Trouble::stalled(&error))
                }
                Err(error) => {
                    let early = Trouble::Early {
                        is_unsent: true,
                        detail: format!("the connection broke while the request was sent: {error}"),
                    };
                    let told = self.timely(within, head).await;
                    told.map(|told| (told, false)).map_err(|_| early)
                }
            },
        }
    }

    async fn timely<T>(
        &self,
        within: Duration,
        what: impl Future<Output = Result<T, Trouble>>,
    ) -> Result<T, Trouble> {
        match tokio::time::timeout(within, what).await {
            Ok(result) => result,
            Err(_) => {
                let detail = format!("no answer within {} ms", within.as_millis());
                Err(Trouble::Final(OriginFault::Timeout, detail))
            }
        }
    }

    /// Reads until a head that is not 1xx is whole.
    async fn head(
        &self,
        stream: &mut (impl AsyncRead + Unpin),
    ) -> Result<(Answer, Vec<u8>), Trouble> {
        let limits = limits(self.shared.options.head_bytes_max);
        let is_head = self.request.method == "HEAD";
        let mut input = Vec::new();
        let mut interim = 0;
        loop {
            match decode(&input, &limits, is_head) {
                Ok(Some(answer))
                    if answer.head.code == 101 && self.request.rest == Rest::Upgrade =>
                {
                    let rest = input.split_off(answer.bytes);
                    return Ok((answer, rest));
                }
                Ok(Some(answer)) if (100..200).contains(&answer.head.code) => {
                    interim += 1;
                    // 101 would make this another protocol, for which nobody asked.
                    if answer.head.code == 101 || interim > INTERIM_MAX {
                        let detail = "an upgrade that nobody asked for".to_owned();
                        return Err(Trouble::Final(OriginFault::Garbage, detail));
                    }
                    input.drain(..answer.bytes);
                    continue;
                }
                Ok(Some(answer)) => {
                    let rest = input.split_off(answer.bytes);
                    return Ok((answer, rest));
                }
                Ok(None) => {}
                Err(fault) => {
                    let detail = format!("the answer is no HTTP: {}", fault.reason());
                    return Err(Trouble::Final(OriginFault::Garbage, detail));
                }
            }
            input.reserve(READ_BYTES);
            let begun = !input.is_empty();
            let ended = match stream.read_buf(&mut input).await {
                Ok(0) => "it closed the connection".to_owned(),
                Ok(_) => continue,
                Err(error) => error.to_string(),
            };
            let detail = format!("no answer: {ended}");
            return Err(if begun {
                Trouble::Final(OriginFault::Cut, detail)
            } else {
                Trouble::Early {
                    is_unsent: false,
                    detail,
                }
            });
        }
    }
}

/// Writes the request as far as it is known.
async fn write(
    stream: &mut Stream,
    bytes: &[u8],
    within: Duration,
) -> Result<io::Result<()>, Trouble> {
    match take_all(stream, bytes, within).await {
        Err(error) if error.kind() == io::ErrorKind::TimedOut => Err(Trouble::stalled(&error)),
        written => Ok(written),
    }
}

impl Trouble {
    fn stalled(error: &io::Error) -> Self {
        Self::Final(OriginFault::Timeout, error.to_string())
    }

    fn told(self, key: &Key) -> (OriginFault, String) {
        let (fault, detail) = match self {
            Self::Early { is_unsent, detail } => {
                let fault = if is_unsent {
                    OriginFault::Unsent
                } else {
                    OriginFault::Cut
                };
                (fault, detail)
            }
            Self::Final(fault, detail) => (fault, detail),
        };
        (
            fault,
            format!("{}:{}: {detail}", key.place.host, key.place.port),
        )
    }
}
