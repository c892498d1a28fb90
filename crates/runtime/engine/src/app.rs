//! The seam between the engine and what runs on it.
//!
//! The engine knows sockets, time and queues; an [`App`] knows what bytes mean. The
//! engine calls, the app answers with [`Effects`]; neither knows the other's insides.

use std::net::SocketAddr;

use throng_types::{ConnId, Millis, Now};

use crate::conns::{Conns, TlsEvent};
use crate::effects::{Accepted, Closed, Effects};
use crate::kernel::{Kernel, Linux};

/// App that runs on a shard. One value per shard, owned by its thread.
///
/// An app that works on any kernel implements it for every [`Kernel`]; the simulator can then run
/// it too.
pub trait App<K: Kernel = Linux>: Sized {
    /// State that the app keeps for a connection. Every idle connection pays for its size.
    type Session;
    /// Messages that apps of different shards send each other.
    type Mail: Send + 'static;

    /// A connection was accepted. `None` closes it at once.
    fn accept(
        &mut self,
        listener: u8,
        peer: SocketAddr,
        now: Now,
    ) -> Option<Accepted<Self::Session>>;

    /// A peer has begun a stream on a connection on which the app has begun HTTP/2, whose session
    /// this is. `None` refuses it. To end the connection asks its peer for no more streams, and
    /// those that have begun go on; bytes and other wishes are not heard.
    fn accept_stream(
        &mut self,
        _carrier: &mut Self::Session,
        _fx: &mut Effects<'_>,
    ) -> Option<Accepted<Self::Session>> {
        None
    }

    /// An outgoing connection is established.
    fn connected(&mut self, _id: ConnId, _session: &mut Self::Session, _fx: &mut Effects<'_>) {}

    /// Bytes arrived. They are the app's to take, whole: the engine keeps none.
    fn bytes(
        &mut self,
        id: ConnId,
        session: &mut Self::Session,
        input: &mut [u8],
        fx: &mut Effects<'_>,
    );

    /// The connection's deadline has come; it is unset.
    fn timeout(&mut self, id: ConnId, session: &mut Self::Session, fx: &mut Effects<'_>);

    /// A queue that had grown is empty again, and the connection goes on; `dropped` frames were
    /// forgotten meanwhile.
    fn drained(
        &mut self,
        _id: ConnId,
        _session: &mut Self::Session,
        _dropped: u32,
        _fx: &mut Effects<'_>,
    ) {
    }

    /// The connection's queue was full, and it ends. Bytes are its last word, behind a frame that
    /// has begun to leave; other wishes are not heard. [`App::closed`] follows.
    fn slow(&mut self, _id: ConnId, _session: &mut Self::Session, _fx: &mut Effects<'_>) {}

    /// The connection is gone, and its id finds none.
    fn closed(&mut self, id: ConnId, session: Self::Session, tag: u32, why: Closed, now: Now);

    /// Mail from another shard, or from outside the shards (`from` is `None`).
    fn mail(
        &mut self,
        from: Option<usize>,
        mail: Self::Mail,
        conns: &mut Conns<Self::Session, K>,
        now: Now,
    );

    /// Whether mail from other shards may be handed over now.
    fn wants_mail(&self) -> bool {
        true
    }

    /// Mail for another shard, in the order in which it must arrive.
    fn take_mail(&mut self, to: usize) -> Option<Self::Mail>;

    /// Once per turn, after input and before output; true if more work waits.
    fn turn(&mut self, conns: &mut Conns<Self::Session, K>, now: Now) -> bool;

    /// Once per turn, after [`App::turn`], when its mail is on its way already: what takes long and
    /// others need not wait for. True if more waits.
    fn deliver(&mut self, _conns: &mut Conns<Self::Session, K>, _now: Now) -> bool {
        false
    }

    /// Once per turn, after output and after connections that ended have gone; true if more work
    /// waits.
    fn flushed(&mut self, _conns: &mut Conns<Self::Session, K>, _now: Now) -> bool {
        false
    }

    /// When [`App::turn`] must run even if nothing happens.
    fn deadline(&self) -> Option<Millis> {
        None
    }

    /// Whether the shard may end; asked once per turn.
    fn finished(&self, _conns: &Conns<Self::Session, K>) -> bool {
        false
    }

    /// Whether [`crate::ConnLimits::spare_descriptors`] are for this listener. Its connections are
    /// read in every turn, however many others have sent something, and end last when all queues
    /// together are full.
    fn may_use_spares(&self, _listener: u8) -> bool {
        false
    }

    /// TLS with a peer began, or came to nothing; for counting and the log.
    fn tls(&mut self, _event: &TlsEvent) {}

    /// Accepting ran out of descriptors (`true`; it is tried again twice a second and when a
    /// connection has closed) or has caught up (`false`).
    fn accept_paused(&mut self, _paused: bool) {}
}
