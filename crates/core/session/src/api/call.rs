//! A request whose answer depends on the hub: what has been answered, and how it is told.

use throng_broker::Refusal;
use throng_centrifuge::HistoryResult;
use throng_centrifuge::api::{
    ApiError, ApiResult, ChannelPattern, NodeInfo, PublishResult, encode_response,
};
use throng_hub::Answer;
use throng_metrics::Counter;
use throng_types::{Epoch, Position};

use crate::Desk;
use crate::effects::{Fx, NodeCount, Told};
use crate::http::answer_text;

/// How the answer is worded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wording {
    /// `/api/...`: Centrifugo's shape. With `transport`, errors show in the HTTP status too.
    Api {
        /// Header `X-Centrifugo-Error-Mode: transport`.
        transport: bool,
    },
    /// `/pub`: the position, or a status and a sentence.
    Pub,
    /// `/publish/` of GRIP: a word.
    Grip {
        /// The word as JSON.
        is_json: bool,
    },
}

/// What is awaited.
enum Awaited {
    /// One answer for each channel, in order.
    Publications {
        results: Vec<Option<Result<Option<Position>, Refusal>>>,
        broadcast: bool,
    },
    History,
    Channels {
        pattern: Box<str>,
    },
    Info,
    Unsubscribe,
    Disconnect,
}

/// How many connections took publications.
#[derive(Default)]
struct Receivers {
    /// Publications of which that is not known yet, or never will be.
    unknown: usize,
    sum: u64,
}

/// See the module's head.
pub(crate) struct Call {
    receivers: Option<Box<Receivers>>,
    awaited: Awaited,
    wording: Wording,
    keep_alive: bool,
}

impl Call {
    pub(crate) fn publications(
        count: usize,
        broadcast: bool,
        wording: Wording,
        keep_alive: bool,
    ) -> Self {
        let results = vec![None; count];
        Self {
            receivers: None,
            awaited: Awaited::Publications { results, broadcast },
            wording,
            keep_alive,
        }
    }

    /// The answer says how many connections took so many publications.
    pub(crate) fn count_receivers(&mut self, unknown: usize) {
        let receivers = Receivers { unknown, sum: 0 };
        self.receivers = Some(Box::new(receivers));
    }

    /// So many took one of them.
    pub(crate) fn received(&mut self, count: u64) {
        if let Some(receivers) = &mut self.receivers {
            receivers.unknown = receivers.unknown.saturating_sub(1);
            receivers.sum += count;
        }
    }

    pub(crate) const fn history(wording: Wording, keep_alive: bool) -> Self {
        Self {
            receivers: None,
            awaited: Awaited::History,
            wording,
            keep_alive,
        }
    }

    pub(crate) const fn channels(pattern: Box<str>, wording: Wording, keep_alive: bool) -> Self {
        Self {
            receivers: None,
            awaited: Awaited::Channels { pattern },
            wording,
            keep_alive,
        }
    }

    pub(crate) const fn info(wording: Wording, keep_alive: bool) -> Self {
        Self {
            receivers: None,
            awaited: Awaited::Info,
            wording,
            keep_alive,
        }
    }

    pub(crate) const fn unsubscribe(wording: Wording, keep_alive: bool) -> Self {
        Self {
            receivers: None,
            awaited: Awaited::Unsubscribe,
            wording,
            keep_alive,
        }
    }

    pub(crate) const fn disconnect(wording: Wording, keep_alive: bool) -> Self {
        Self {
            receivers: None,
            awaited: Awaited::Disconnect,
            wording,
            keep_alive,
        }
    }

    /// Takes an answer of the hub. Once all are in, writes the response and says whether
    /// the connection may serve another request.
    pub(crate) fn answer(&mut self, token: u32, answer: Answer, fx: &mut Fx<'_>) -> Option<bool> {
        match (&mut self.awaited, answer) {
            (Awaited::Publications { results, .. }, Answer::Published { result }) => {
                *results.get_mut(token as usize)? = Some(result);
                if results.iter().any(Option::is_none) {
                    return None;
                }
            }
            (Awaited::History, Answer::History { result }) => {
                let nowhere = Position {
                    epoch: Epoch(0),
                    offset: 0,
                };
                let result = result.map_err(error_of);
                let found = result.as_ref().map(|page| {
                    ApiResult::History(HistoryResult {
                        publications: &page.publications,
                        position: page.position.unwrap_or(nowhere),
                    })
                });
                respond(
                    self.wording,
                    found.as_ref().map_err(|error| **error),
                    self.keep_alive,
                    fx,
                );
                return Some(self.keep_alive);
            }
            _ => return None,
        }
        self.published(fx);
        Some(self.keep_alive)
    }

    fn published(&self, fx: &mut Fx<'_>) {
        let Awaited::Publications { results, broadcast } = &self.awaited else {
            return;
        };
        let results: Vec<Result<Option<Position>, Refusal>> =
            results.iter().flatten().copied().collect();
        if self.wording == Wording::Pub {
            return self.published_plainly(&results, fx);
        }
        if let Wording::Grip { is_json } = self.wording {
            let is_taken = results.iter().all(Result::is_ok);
            let receivers = self.receivers.as_ref();
            let receivers = receivers.map(|known| Some(known.sum).filter(|_| known.unknown == 0));
            return crate::grip::published(is_taken, is_json, receivers, self.keep_alive, fx);
        }
        let api = |result: &Result<Option<Position>, Refusal>| {
            result
                .map(|position| PublishResult { position })
                .map_err(error_of)
        };
        if *broadcast {
            let responses: Vec<_> = results.iter().map(api).collect();
            respond(
                self.wording,
                Ok(&ApiResult::Broadcast(&responses)),
                self.keep_alive,
                fx,
            );
        } else if let Some(only) = results.first() {
            let result = api(only).map(ApiResult::Publish);
            respond(
                self.wording,
                result.as_ref().map_err(|error| *error),
                self.keep_alive,
                fx,
            );
        }
    }

    /// `{"offset":1,"epoch":"…"}` for one channel; for several, an array of these. If any was
    /// refused the status says so, and the body says which were taken.
    fn published_plainly(&self, results: &[Result<Option<Position>, Refusal>], fx: &mut Fx<'_>) {
        let worst = results.iter().find_map(|result| result.err());
        if let (Some(refusal), [_]) = (worst, results) {
            let (status, sentence) = status_of(refusal);
            return answer_text(status, sentence, &[], self.keep_alive, fx);
        }
        let texts: Vec<String> = results
            .iter()
            .map(|result| match result {
                Ok(Some(position)) => {
                    format!(
                        "{{\"offset\":{},\"epoch\":\"{}\"}}",
                        position.offset, position.epoch
                    )
                }
                Ok(None) => "{}".to_owned(),
                Err(refusal) => format!("{{\"error\":\"{}\"}}", status_of(*refusal).1),
            })
            .collect();
        let body = match &texts[..] {
            [only] => format!("{only}\n"),
            several => format!("[{}]\n", several.join(",")),
        };
        let status = worst.map_or(200, |refusal| status_of(refusal).0);
        let headers = [("Content-Type", "application/json")];
        throng_http1::encode_response(status, &headers, body.as_bytes(), self.keep_alive, fx.out);
    }

    /// Takes every shard's answer, writes the response, and says whether the connection
    /// may serve another request.
    pub(crate) fn told(&mut self, told: Vec<Told>, desk: &Desk, fx: &mut Fx<'_>) -> Option<bool> {
        match &self.awaited {
            Awaited::Channels { pattern } => {
                let pattern = ChannelPattern::new(pattern);
                let channels = merge_channels(told, &pattern);
                let channels: Vec<(&str, u32)> = channels
                    .iter()
                    .map(|(name, count)| (name.as_str(), *count))
                    .collect();
                respond(
                    self.wording,
                    Ok(&ApiResult::Channels(&channels)),
                    self.keep_alive,
                    fx,
                );
            }
            Awaited::Info => {
                let count = merge_counts(told);
                let uid = format!("{:016x}", desk.node.0);
                let node = NodeInfo {
                    uid: &uid,
                    name: "throng",
                    version: desk.version,
                    num_clients: count.clients,
                    num_users: count.users.len() as u32,
                    num_channels: count.channels.len() as u32,
                    num_subs: count.subscriptions,
                    uptime_s: u32::try_from(
                        fx.now.unix_ms.saturating_sub(desk.started_unix_ms) / 1000,
                    )
                    .unwrap_or(u32::MAX),
                };
                respond(
                    self.wording,
                    Ok(&ApiResult::Info(&[node])),
                    self.keep_alive,
                    fx,
                );
            }
            Awaited::Unsubscribe => {
                respond(
                    self.wording,
                    Ok(&ApiResult::Unsubscribe),
                    self.keep_alive,
                    fx,
                );
            }
            Awaited::Disconnect => {
                respond(
                    self.wording,
                    Ok(&ApiResult::Disconnect),
                    self.keep_alive,
                    fx,
                );
            }
            Awaited::Publications { .. } | Awaited::History => return None,
        }
        Some(self.keep_alive)
    }
}

/// One count per channel, by name; a channel may have subscribers on several shards.
fn merge_channels(
    told: Vec<Told>,
    pattern: &ChannelPattern,
) -> std::collections::BTreeMap<throng_types::ChannelName, u32> {
    let mut merged = std::collections::BTreeMap::new();
    for told in told {
        let Told::Channels(channels) = told else {
            continue;
        };
        for (name, count) in channels {
            if pattern.matches(name.as_str()) {
                *merged.entry(name).or_insert(0) += count;
            }
        }
    }
    merged
}

fn merge_counts(told: Vec<Told>) -> NodeCount {
    let mut all = NodeCount::default();
    for told in told {
        let Told::Count(count) = told else { continue };
        all.clients += count.clients;
        all.subscriptions += count.subscriptions;
        all.users.extend(count.users);
        all.channels.extend(count.channels);
    }
    all.users.sort_unstable();
    all.users.dedup();
    all.channels.sort_unstable();
    all.channels.dedup();
    all
}

/// The server API's code for a refusal.
pub(crate) const fn error_of(refusal: Refusal) -> ApiError {
    match refusal {
        // Temporary, and the API has no other code for that.
        Refusal::Busy => ApiError::Internal,
        Refusal::UnknownChannel => ApiError::UnknownChannel,
        // Only subscribing is refused like that.
        Refusal::AlreadySubscribed | Refusal::ChannelLimit | Refusal::TakenBack => {
            ApiError::BadRequest
        }
        Refusal::NotAvailable => ApiError::NotAvailable,
        Refusal::UnrecoverablePosition => ApiError::UnrecoverablePosition,
    }
}

/// `/pub`'s status and sentence for a refusal.
const fn status_of(refusal: Refusal) -> (u16, &'static str) {
    match refusal {
        Refusal::Busy => (
            503,
            "a queue is full, nothing was published; try again in a moment",
        ),
        Refusal::UnknownChannel => (404, "the channel's namespace is not configured"),
        _ => (400, "the channel does not take this"),
    }
}

/// Writes a response of the server API.
pub(crate) fn respond(
    wording: Wording,
    answer: Result<&ApiResult<'_>, ApiError>,
    keep_alive: bool,
    fx: &mut Fx<'_>,
) {
    let mut body = Vec::new();
    encode_response(answer, &mut body);
    let transport = matches!(wording, Wording::Api { transport: true });
    let status = match answer {
        Err(error) if transport => error.http_status(),
        _ => 200,
    };
    let headers = [("Content-Type", "application/json")];
    throng_http1::encode_response(status, &headers, &body, keep_alive, fx.out);
}

/// Counts publications of the server API when they are ordered.
pub(crate) fn count_publications(count: usize, desk: &Desk) {
    desk.board.add(Counter::PublicationsApi, count as u64);
}
