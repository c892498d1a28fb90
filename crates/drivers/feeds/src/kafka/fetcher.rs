//! A thread for each broker that leads partitions: one question at a time, its answer to the feed.
//!
//! Rule for "full": a broker is asked again after the feed has taken its answer.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, Sender, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use throng_kafka_protocol::write::FetchLimits;
use throng_kafka_protocol::{Broker, Fetched, OffsetAnswer, Place, read, write};

use super::link::{Link, answer, checked};
use super::options::KafkaOptions;
use crate::source::{ANSWER, Fault, LOOK};

/// How much is fetched at once.
const LIMITS: FetchLimits = FetchLimits {
    wait_ms: LOOK.as_millis() as i32,
    bytes_max: 4 << 20,
    partition_bytes_max: 1 << 20,
};
/// A broker may wait so long for records before it answers.
const ANSWER_MAX: Duration = ANSWER.saturating_add(LOOK);

/// What a broker is asked.
pub(super) enum Ask {
    /// Records from these offsets on.
    Records(Vec<(Place, i64)>),
    /// The newest offsets, or the oldest.
    Offsets {
        newest: bool,
        places: Vec<(Place, ())>,
    },
}

/// What it answers.
pub(super) enum Reply {
    Records(Vec<Fetched>),
    Offsets(Vec<OffsetAnswer>),
}

/// An answer, and whose it is.
pub(super) struct Answer {
    pub(super) broker: i32,
    /// The fetcher's own number: one that was given up may still answer.
    pub(super) fetcher: u64,
    /// After a fault the fetcher has ended.
    pub(super) reply: Result<Reply, Fault>,
}

/// The feed's end of the thread. Who drops it ends the thread, at its next answer.
pub(super) struct Fetcher {
    pub(super) number: u64,
    pub(super) broker: Broker,
    asks: SyncSender<Ask>,
    /// The offsets that are asked for now; none if nothing is asked.
    asked: Option<HashMap<Place, i64>>,
}

impl Fetcher {
    pub(super) fn start(
        number: u64,
        broker: &Broker,
        options: &KafkaOptions,
        answers: &Sender<Answer>,
    ) -> Result<Self, Fault> {
        let (asks, asked) = sync_channel(1);
        let (options, answers) = (options.clone(), answers.clone());
        let own = broker.clone();
        let run = move || run(number, &own, &options, &asked, &answers);
        thread::Builder::new()
            .name("feed-kafka".to_owned())
            .spawn(run)?;
        Ok(Self {
            number,
            broker: broker.clone(),
            asks,
            asked: None,
        })
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
        // If the thread has ended, its last answer says why.
        let _ = self.asks.try_send(ask);
    }

    /// It has answered; gives the offsets that were asked for.
    pub(super) fn has_answered(&mut self) -> HashMap<Place, i64> {
        self.asked.take().unwrap_or_default()
    }
}

fn run(
    number: u64,
    broker: &Broker,
    options: &KafkaOptions,
    asks: &Receiver<Ask>,
    answers: &Sender<Answer>,
) {
    let answer = |reply| Answer {
        broker: broker.id,
        fetcher: number,
        reply,
    };
    let mut link = match Link::connect(&broker.host, broker.port, options) {
        Ok(link) => link,
        Err(fault) => {
            let _ = answers.send(answer(Err(fault)));
            return;
        }
    };
    while let Ok(ask) = asks.recv() {
        let reply = reply(&mut link, &ask);
        let has_failed = reply.is_err();
        let reply =
            reply.map_err(|fault| Fault(format!("{}:{}: {fault}", broker.host, broker.port)));
        if answers.send(answer(reply)).is_err() || has_failed {
            return;
        }
    }
}

fn reply(link: &mut Link, ask: &Ask) -> Result<Reply, Fault> {
    match ask {
        Ask::Records(offsets) => link.send(|number| write::fetch(number, LIMITS, offsets))?,
        Ask::Offsets { newest, places } => {
            link.send(|number| write::list_offsets(number, *newest, places))?;
        }
    }
    let body = link.receive(ANSWER_MAX)?;
    let body = body.ok_or_else(|| Fault::new("it does not answer"))?;
    match ask {
        Ask::Records(_) => {
            let (error, fetched) = answer(read::fetch, &body)?;
            checked(error)?;
            Ok(Reply::Records(fetched))
        }
        Ask::Offsets { .. } => Ok(Reply::Offsets(answer(read::list_offsets, &body)?)),
    }
}
