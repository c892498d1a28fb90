//! A shard of the old process: comes to rest, sends what it holds, and lets go or goes on.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::Instant;

use throng_engine::Running;
use throng_types::{ConnId, Parts, Save as _};

use super::order::{Giving, Moved, Word};
use super::taking::{CONNECTIONS, END, HUB};
use crate::drain::{DrainOptions, Ports};
use crate::list::GatewayList;
use crate::shard::ShardApp;

/// Connections in one message; fewer than descriptors may be.
const BATCH: usize = 250;
/// A message is sent when it has so many bytes.
const BATCH_BYTES: usize = 256 << 10;

/// Hands over one shard, which goes on afterwards: as before, or to drain what has stayed.
///
/// # Errors
/// If the reactor fails.
pub(crate) fn give<L: GatewayList>(
    running: &mut Running<ShardApp<L>>,
    giving: &Giving,
) -> io::Result<()> {
    running.app_mut().be_still();
    let rests = come_to_rest(running, giving)?;
    let mut moved = Vec::new();
    let sent = match rests {
        true => send(running, giving, &mut moved).map_err(|error| error.to_string()),
        false => Err("the shards have too much under way to come to rest".to_owned()),
    };
    let stay = running.conns().len() - moved.len();
    let counts = sent.map(|()| Moved {
        moved: moved.len(),
        stay,
    });
    // Whoever asked may have given up; then nobody says that it is over.
    let _ = giving.report.send(Word::Sent(counts));
    if giving.verdict.recv().is_ok() {
        leave(running, &moved, giving.drain);
    }
    running.app_mut().be_active();
    running.resume();
    Ok(())
}

/// Finishes what was begun, together with the other shards; false if that takes too long.
fn come_to_rest<L: GatewayList>(
    running: &mut Running<ShardApp<L>>,
    giving: &Giving,
) -> io::Result<bool> {
    loop {
        loop {
            running.app_mut().hurry();
            if !running.still_turn()? {
                break;
            }
            if Instant::now() > giving.until {
                return Ok(false);
            }
        }
        if giving.meeting.meet(false, giving.until).is_none() {
            return Ok(false);
        }
        // None of them runs now.
        let is_busy = running.has_mail() || !running.app().is_at_rest();
        match giving.meeting.meet(is_busy, giving.until) {
            Some(true) => {}
            Some(false) => return Ok(true),
            None => return Ok(false),
        }
    }
}

/// Sends the hub, then the connections in the order of their places. Nothing is given away by it.
fn send<L: GatewayList>(
    running: &Running<ShardApp<L>>,
    giving: &Giving,
    moved: &mut Vec<ConnId>,
) -> io::Result<()> {
    let (app, conns) = (running.app(), running.conns());
    if send_items(giving, |parts| app.save_hub(parts))? {
        send_conns(running, giving, moved)?;
        let all = conns.sessions().map(|(id, _)| id);
        // They moved in the order of their places.
        let has_moved = |id: &ConnId| moved.binary_search_by_key(&id.index(), |id| id.index());
        let mut stay = all.filter(|id| has_moved(id).is_err());
        send_items(giving, |parts| app.save_quits(&mut stay, parts))?;
    }
    let mut end = vec![END];
    (conns.generation(), moved.len()).save(&mut end);
    giving.link.send(&end, &[])
}

/// Sends items of the hub, a piece at a time.
fn send_items<R>(giving: &Giving, save: impl FnOnce(&mut Parts<'_>) -> R) -> io::Result<R> {
    let mut sent = Ok(());
    let mut send_piece = |piece: &[u8]| {
        if sent.is_ok() {
            let mut message = vec![HUB];
            message.extend_from_slice(piece);
            sent = send_message(giving, &message, &[]);
        }
    };
    let mut parts = Parts::new(&mut send_piece);
    let result = save(&mut parts);
    parts.end();
    sent.map(|()| result)
}

/// Sends a message, and lets the handle know that it went.
fn send_message(giving: &Giving, message: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    giving.link.send(message, fds)?;
    // Whoever asked may have given up; the verdict tells.
    let _ = giving.report.send(Word::GoesOn);
    Ok(())
}

fn send_conns<L: GatewayList>(
    running: &Running<ShardApp<L>>,
    giving: &Giving,
    moved: &mut Vec<ConnId>,
) -> io::Result<()> {
    let (app, conns) = (running.app(), running.conns());
    let (mut batch, mut fds) = (vec![CONNECTIONS], Vec::<BorrowedFd<'_>>::new());
    for id in conns.movable() {
        if !app.save_conn(id, conns, &mut batch) {
            continue;
        }
        let Some((socket, _)) = conns.holdings(id) else {
            continue;
        };
        fds.push(socket.as_fd());
        moved.push(id);
        if fds.len() == BATCH || batch.len() >= BATCH_BYTES {
            send_message(giving, &batch, &fds)?;
            batch.truncate(1);
            fds.clear();
        }
    }
    if !fds.is_empty() {
        send_message(giving, &batch, &fds)?;
    }
    Ok(())
}

/// Lets go of what moved, and drains the rest.
fn leave<L: GatewayList>(
    running: &mut Running<ShardApp<L>>,
    moved: &[ConnId],
    drain: DrainOptions,
) {
    let (app, conns) = running.parts_mut();
    for &id in moved {
        app.let_go(id, conns);
    }
    conns.pause_all();
    let now = conns.now();
    app.begin_drain((drain, Ports::All), conns, now);
}
