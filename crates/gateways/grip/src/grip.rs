//! One shard's part of the gateway: exchanges with backends, the order of items in the channels at
//! home here, and subscriptions of publishers.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use throng_broker::Draft;
use throng_grip::item::Item;
use throng_hub::ReplyTo;
use throng_types::{ConnId, Millis};

use crate::backends::Backends;
use crate::exchanges::Exchanges;
use crate::receipts::Receipts;
use crate::sequencer::Sequencer;
use crate::session::Session;
use crate::shared::GripShared;
use crate::stats::Statistics;
use crate::topics::Topics;

/// One shard's clients and publishers of GRIP.
pub struct Grip {
    pub(crate) shared: Rc<GripShared>,
    pub(crate) backends: Box<dyn Backends>,
    pub(crate) exchanges: Exchanges,
    pub(crate) sequencer: Sequencer,
    /// Drafts that wait for the hub. Bound: `BEHIND_MAX` for new items of publishers; items taken
    /// before go in first.
    pub(crate) behind: VecDeque<Draft>,
    /// Items of publishers that wait until there is room in `behind`. Bound: `PATIENT_MAX`.
    pub(crate) patient: VecDeque<(ReplyTo, Box<Item>)>,
    /// Sessions whose connection has closed, and whose backends are still to be notified.
    pub(crate) gone: BTreeMap<ConnId, Session>,
    pub(crate) gone_at: Millis,
    pub(crate) topics: Topics,
    pub(crate) receipts: Receipts,
    pub(crate) statistics: Statistics,
    /// Milliseconds of clients that are not a minute yet, and up to when they were counted.
    pub(crate) connected_ms: u64,
    pub(crate) counted_at: Millis,
}

impl Grip {
    /// With a way to backends.
    #[must_use]
    pub fn new(shared: GripShared, backends: Box<dyn Backends>) -> Self {
        let order = shared.options.order;
        Self {
            shared: Rc::new(shared),
            backends,
            exchanges: Exchanges::default(),
            sequencer: Sequencer::new(order),
            behind: VecDeque::new(),
            patient: VecDeque::new(),
            gone: BTreeMap::new(),
            gone_at: Millis::default(),
            topics: Topics::default(),
            receipts: Receipts::default(),
            statistics: Statistics::default(),
            connected_ms: 0,
            counted_at: Millis::default(),
        }
    }
}
