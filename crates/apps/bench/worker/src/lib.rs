//! Worker of the load generator: one engine shard that opens connections on time, keeps them,
//! counts deliveries, and publishes.
//!
//! Owns: its share of the run's connections (the k-th belongs to worker k modulo their number), or
//! the publishers; the threads of all workers of a machine, and their figures added up. Workers
//! share nothing but the script and the numbers of the last publications. Never: decides on the
//! course of the run; commands come by mail, figures go back over a channel.

mod carriers;
mod client;
mod clock;
mod core;
mod pool;
mod publish;
mod script;
mod session;
mod worker;

pub use self::clock::{Clock, NEVER};
pub use self::pool::{WorkerFigures, Workers};
pub use self::publish::PublishPace;
pub use self::script::{PrepareError, RunShare, Script};
pub use self::worker::{WorkerCommand, WorkerOptions};
