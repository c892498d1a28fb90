//! A task for each broker that leads partitions: one question at a time, its answer to the feed.
//!
//! Rule for "full": a broker is asked again after the feed has taken its answer.

use std::collections::HashMap;
use std::rc::Rc;

use throng_kafka_protocol::request::{self, FetchLimits};
use throng_kafka_protocol::{BrokerNode, Fetched, OffsetAnswer, TopicPartition};
use throng_peer::task::{QueueReceiver, QueueSender, Task, queue};

use super::link::{Client, Link, checked};
use crate::source::{ANSWER_MS, Fault, LOOK_MS};

const LIMITS: FetchLimits = FetchLimits {
    wait_ms: LOOK_MS as i32,
    bytes_max: 4 << 20,
    partition_bytes_max: 1 << 20,
};
/// A broker may wait so long for records before it answers, in milliseconds.
const ANSWER_MAX_MS: u64 = ANSWER_MS + LOOK_MS;

pub(super) enum Ask {
    Records(Vec<(TopicPartition, i64)>),
    /// The newest offsets, or the oldest.
    Offsets {
        newest: bool,
        places: Vec<(TopicPartition, ())>,
    },
}

pub(super) enum Reply {
    Records(Vec<Fetched>),
    Offsets(Vec<OffsetAnswer>),
}

/// The feed's end of the task, which ends with it.
pub(super) struct Fetcher {
    pub(super) broker: BrokerNode,
    asks: QueueSender<Ask>,
    /// After a fault the task has ended.
    replies: QueueReceiver<Result<Reply, Fault>>,
    /// The offsets that are asked for now; none if nothing is asked.
    asked: Option<HashMap<TopicPartition, i64>>,
    _task: Task,
}

impl Fetcher {
    /// `bell` is rung for each reply.
    pub(super) fn start(client: &Rc<Client>, broker: &BrokerNode, bell: QueueSender<()>) -> Self {
        let (asks, asked) = queue(1);
        let (sends, replies) = queue(1);
        let run = run(client.clone(), broker.clone(), asked, sends, bell);
        Self {
            broker: broker.clone(),
            asks,
            replies,
            asked: None,
            _task: client.net.spawn(run),
        }
    }

    pub(super) const fn is_busy(&self) -> bool {
        self.asked.is_some()
    }

    /// Asks; nothing else may be asked at the moment.
    pub(super) fn ask(&mut self, ask: Ask) {
        self.asked = Some(match &ask {
            Ask::Records(offsets) => offsets.iter().cloned().collect(),
            Ask::Offsets { .. } => HashMap::new(),
        });
        // If the task has ended, its last reply says why.
        let _ = self.asks.send(ask);
    }

    /// Takes a reply, with the offsets that were asked for.
    pub(super) fn reply(&mut self) -> Option<(HashMap<TopicPartition, i64>, Result<Reply, Fault>)> {
        let reply = self.replies.try_next()?;
        Some((self.asked.take().unwrap_or_default(), reply))
    }
}

async fn run(
    client: Rc<Client>,
    broker: BrokerNode,
    mut asks: QueueReceiver<Ask>,
    replies: QueueSender<Result<Reply, Fault>>,
    bell: QueueSender<()>,
) {
    let at = |fault| Fault(format!("{}:{}: {fault}", broker.host, broker.port));
    let mut link = Link::connect(&client, &broker.host, broker.port).await;
    while let Some(ask) = asks.next().await {
        let reply = match &mut link {
            Ok(link) => reply(link, &ask).await.map_err(at),
            Err(fault) => Err(Fault(std::mem::take(&mut fault.0))),
        };
        let has_failed = reply.is_err();
        let _ = replies.send(reply);
        // It may be rung already.
        let _ = bell.send(());
        if has_failed {
            return;
        }
    }
}

async fn reply(link: &mut Link, ask: &Ask) -> Result<Reply, Fault> {
    match ask {
        Ask::Records(offsets) => {
            let fetch = request::fetch(LIMITS, offsets);
            let (error, fetched) = link.ask_within(ANSWER_MAX_MS, fetch).await?;
            checked(error)?;
            Ok(Reply::Records(fetched))
        }
        Ask::Offsets { newest, places } => {
            let list = request::list_offsets(*newest, places);
            Ok(Reply::Offsets(link.ask_within(ANSWER_MAX_MS, list).await?))
        }
    }
}
