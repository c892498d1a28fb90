//! A request whose answer is wanted whole, and within a time.

use std::time::Duration;

use throng_grip::exchange::{OriginFailure, OriginFault, OriginRequest};
use throng_http1::BodyDecoder;

use crate::client::Client;
use crate::exchange::{Begun, Errand};
use crate::relay::{read_more, take_data};
use crate::shared::DELIVER_AGAIN_MS;
use crate::wire::limits;

/// A whole answer: its status and its body.
pub type WholeAnswer = Result<(u16, Vec<u8>), OriginFailure>;

/// Bounds of one request.
#[derive(Clone, Copy, Debug)]
pub struct AskLimits {
    /// Bytes of the answer's body.
    pub bytes_max: usize,
    /// From the request to the whole answer, in milliseconds.
    pub timeout_ms: u64,
}

impl Client {
    /// Takes a request whose answer is wanted once it is whole, or has failed: `read` makes of it
    /// what `done` hands on. `done` gives it back if there is no room at the moment.
    ///
    /// # Errors
    /// [`OriginFault::Busy`] if there is no room; neither is called then.
    pub fn ask<T: Send + 'static>(
        &self,
        request: OriginRequest,
        limits: AskLimits,
        read: impl FnOnce(WholeAnswer) -> T + Send + 'static,
        done: impl Fn(T) -> Result<(), T> + Send + 'static,
    ) -> Result<(), OriginFailure> {
        let permit = self.permit(request.rest)?;
        let errand = Errand {
            request,
            shared: self.shared(),
            uplink: None,
        };
        let task = async move {
            let AskLimits {
                bytes_max,
                timeout_ms,
            } = limits;
            let within = Duration::from_millis(timeout_ms);
            let answer = tokio::time::timeout(within, errand.whole(bytes_max)).await;
            let late = |_| {
                let detail = format!("no whole answer came in {timeout_ms} ms");
                Err((OriginFault::Timeout, detail))
            };
            let answer = answer.unwrap_or_else(late);
            drop(permit);
            let answer = answer.map_err(|(fault, detail)| OriginFailure { fault, detail });
            let mut answer = read(answer);
            while let Err(back) = done(answer) {
                answer = back;
                tokio::time::sleep(Duration::from_millis(DELIVER_AGAIN_MS)).await;
            }
        };
        self.spawn(task);
        Ok(())
    }
}

impl Errand {
    /// Carries the request out and reads the answer to its end.
    async fn whole(&self, bytes_max: usize) -> Result<(u16, Vec<u8>), (OriginFault, String)> {
        let (key, begun) = self.start().await?;
        let Begun {
            mut stream,
            answer,
            mut rest,
            is_sent,
        } = begun;
        let limits = limits(self.shared.options.head_bytes_max);
        let mut decoder = BodyDecoder::for_response(answer.body, &limits);
        let mut body = Vec::new();
        loop {
            take_data(&mut decoder, &mut rest, &mut body)?;
            if body.len() > bytes_max {
                let detail = format!(
                    "{}:{} answers with more than {bytes_max} bytes",
                    key.place.host, key.place.port
                );
                return Err((OriginFault::Garbage, detail));
            }
            if decoder.is_done() {
                break;
            }
            if !read_more(&mut stream, &mut rest, &decoder, &key).await? {
                return Ok((answer.head.code, body));
            }
        }
        let status = answer.head.code;
        if answer.keep_alive && rest.is_empty() && is_sent {
            let now = std::time::Instant::now();
            self.shared.pool.put(key, stream, now);
        }
        Ok((status, body))
    }
}
