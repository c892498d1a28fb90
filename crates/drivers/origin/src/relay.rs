//! What an origin says, passed on at the client's pace; after an upgrade also what the client says.

use std::io;
use std::pin::pin;
use std::time::{Duration, Instant};

use throng_grip::exchange::{OriginEvent, OriginFault};
use throng_http1::BodyDecoder;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::connect::Stream;
use crate::exchange::{Begun, Exchange, READ_BYTES};
use crate::place::Key;
use crate::wire::limits;

impl Exchange {
    /// Passes the answer on, at the client's pace.
    pub(crate) async fn relay(&self, key: Key, begun: Begun) -> Result<(), (OriginFault, String)> {
        let Begun {
            mut stream,
            answer,
            mut rest,
            is_sent,
        } = begun;
        if answer.head.code == 101 {
            self.tell(OriginEvent::Head(answer.head)).await;
            return self.tunnel(&key, stream, rest).await;
        }
        let limits = limits(self.errand.shared.options.head_bytes_max);
        let mut decoder = BodyDecoder::for_response(answer.body, &limits);
        self.tell(OriginEvent::Head(answer.head)).await;
        loop {
            self.pass_on(&mut decoder, &mut rest).await?;
            if decoder.is_done() {
                break;
            }
            // Nothing is read before there is room for it.
            self.credit.some().await;
            if !read_more(&mut stream, &mut rest, &decoder, &key).await? {
                self.tell(OriginEvent::End).await;
                return Ok(());
            }
        }
        if answer.keep_alive && rest.is_empty() && is_sent {
            self.errand.shared.pool.put(key, stream, Instant::now());
        }
        self.tell(OriginEvent::End).await;
        Ok(())
    }

    /// Passes bytes in both directions until the origin ends it.
    async fn tunnel(
        &self,
        key: &Key,
        stream: Stream,
        rest: Vec<u8>,
    ) -> Result<(), (OriginFault, String)> {
        let (mut reading, mut writing) = tokio::io::split(stream);
        let up = async {
            if let Some(uplink) = &self.errand.uplink {
                let shared = &self.errand.shared;
                let within = Duration::from_millis(shared.options.stall_timeout_ms);
                uplink.write(&mut writing, shared, within).await?;
            }
            writing.shutdown().await
        };
        let down = async {
            let mut bytes = rest;
            loop {
                if !bytes.is_empty() {
                    self.credit.spend(bytes.len());
                    self.tell(OriginEvent::Body(std::mem::take(&mut bytes)))
                        .await;
                }
                self.credit.some().await;
                bytes.reserve(READ_BYTES);
                if reading.read_buf(&mut bytes).await? == 0 {
                    return io::Result::Ok(());
                }
            }
        };
        let mut down = pin!(down);
        let ended = tokio::select! {
            ended = &mut down => ended,
            // Who writes no more may still be answered.
            written = up => match written {
                Ok(()) => down.await,
                Err(error) => Err(error),
            },
        };
        if let Err(error) = ended {
            let detail = format!("{}:{}: {error}", key.place.host, key.place.port);
            return Err((OriginFault::Cut, detail));
        }
        self.tell(OriginEvent::End).await;
        Ok(())
    }

    async fn pass_on(
        &self,
        decoder: &mut BodyDecoder,
        input: &mut Vec<u8>,
    ) -> Result<(), (OriginFault, String)> {
        let mut data = Vec::new();
        take_data(decoder, input, &mut data)?;
        if !data.is_empty() {
            self.credit.spend(data.len());
            self.tell(OriginEvent::Body(data)).await;
        }
        Ok(())
    }
}

/// Reads what comes next of a body; false where the origin has ended it, and may.
pub(crate) async fn read_more(
    stream: &mut Stream,
    input: &mut Vec<u8>,
    decoder: &BodyDecoder,
    key: &Key,
) -> Result<bool, (OriginFault, String)> {
    let cut = |what: String| {
        let detail = format!("{}:{}{what}", key.place.host, key.place.port);
        (OriginFault::Cut, detail)
    };
    input.reserve(READ_BYTES);
    match stream.read_buf(input).await {
        Ok(0) if decoder.may_end_here() => Ok(false),
        Ok(0) => Err(cut(" ended its answer early".to_owned())),
        Ok(_) => Ok(true),
        Err(error) => Err(cut(format!(": {error}"))),
    }
}

/// Takes what has come of a body.
pub(crate) fn take_data(
    decoder: &mut BodyDecoder,
    input: &mut Vec<u8>,
    data: &mut Vec<u8>,
) -> Result<(), (OriginFault, String)> {
    let mut used = 0;
    while !decoder.is_done() && used < input.len() {
        let step = decoder.feed(&input[used..]);
        let step = step.map_err(|fault| {
            let detail = format!("the body of the answer is broken: {}", fault.reason());
            (OriginFault::Garbage, detail)
        })?;
        data.extend_from_slice(step.data);
        used += step.consumed;
    }
    input.drain(..used);
    Ok(())
}
