//! A shard of the old process: comes to rest, gives what it holds, and lets go or goes on.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::Instant;

use throng_engine::{Linux, Running};

use super::order::{Giving, Moved, Word};
use super::parcel::Parcel;
use super::steps;
use crate::list::GatewayList;
use crate::shard::ShardApp;

/// Hands over one shard, which goes on afterwards: as before, or to drain what has stayed.
///
/// # Errors
/// If the reactor fails.
pub(crate) fn give<L: GatewayList>(
    running: &mut Running<ShardApp<L>>,
    giving: &Giving,
) -> io::Result<()> {
    steps::be_still(running);
    let rests = come_to_rest(running, giving)?;
    // Whoever asked may have given up; the verdict tells.
    let mut goes_on = || drop(giving.report.send(Word::GoesOn));
    let parcel = rests.then(|| Parcel::pack(running, &mut goes_on));
    let sent = match &parcel {
        Some(parcel) => send(parcel, giving).map_err(|error| error.to_string()),
        None => Err("the shards have too much under way to come to rest".to_owned()),
    };
    let counts = sent.map(|()| Moved {
        moved: parcel.as_ref().map_or(0, Parcel::len),
        stay: running.conns().len(),
    });
    // Then nobody says that it is over.
    let _ = giving.report.send(Word::Sent(counts));
    let is_over = giving.verdict.recv().is_ok();
    match parcel {
        Some(parcel) if is_over => steps::leave(running, parcel, giving.drain),
        parcel => steps::go_on(running, parcel),
    }
    Ok(())
}

/// Finishes what was begun, together with the other shards; false if that takes too long.
fn come_to_rest<L: GatewayList>(
    running: &mut Running<ShardApp<L>>,
    giving: &Giving,
) -> io::Result<bool> {
    loop {
        loop {
            if !steps::still_turn(running)? {
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
        let is_busy = steps::is_busy(running);
        match giving.meeting.meet(is_busy, giving.until) {
            Some(true) => {}
            Some(false) => return Ok(true),
            None => return Ok(false),
        }
    }
}

/// Sends the hub, then the connections in the order of their places. Nothing is given away by it.
fn send(parcel: &Parcel<Linux>, giving: &Giving) -> io::Result<()> {
    parcel.each(|message, sockets| {
        let fds: Vec<BorrowedFd<'_>> = sockets.iter().map(|socket| socket.as_fd()).collect();
        giving.link.send(message, &fds)?;
        // Whoever asked may have given up; the verdict tells.
        let _ = giving.report.send(Word::GoesOn);
        Ok(())
    })
}
