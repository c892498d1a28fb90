//! A shard of the old process: comes to rest, gives what it holds, and lets go or goes on.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::{Duration, Instant};

use throng_engine::{Linux, Running};

use super::order::{HandOver, Moved, Word};
use super::parcel::Parcel;
use super::steps;
use crate::shard::ShardApp;

/// Longest wait until the new process hears every channel, and until the old one has what comes
/// before that.
const CUT: Duration = Duration::from_secs(8);
/// Hands over one shard, which goes on afterwards: as before, or to drain what has stayed.
pub(crate) fn give(running: &mut Running<ShardApp>, order: &HandOver) -> io::Result<()> {
    steps::be_still(running);
    let rests = rest(running, order)?;
    let mut goes_on = || order.way.report(Word::GoesOn);
    let parcel = rests.map(|()| Parcel::pack(running, &mut goes_on));
    let sent = match &parcel {
        Ok(parcel) => send(parcel, order).map_err(|error| error.to_string()),
        Err(why) => Err(why.clone()),
    };
    let counts = sent.map(|()| Moved {
        moved: parcel.as_ref().map_or(0, Parcel::len),
        stay: running.conns().len(),
    });
    order.way.report(Word::Sent(counts));
    let is_over = order.way.hears_word();
    match parcel {
        Ok(parcel) if is_over => steps::leave(running, parcel, order.drain),
        parcel => steps::go_on(running, parcel.ok()),
    }
    Ok(())
}

/// Finishes what was begun, and what a broker elsewhere delivers before the new process hears it;
/// or says why not.
fn rest(running: &mut Running<ShardApp>, order: &HandOver) -> io::Result<Result<(), String>> {
    if !come_to_rest(running, order, order.until, |_| true)? {
        let why = "the shards have too much under way to come to rest";
        return Ok(Err(why.to_owned()));
    }
    let mut sent = Ok(());
    let expects = steps::stop_at(running, order.cut, |message| {
        if sent.is_ok() {
            sent = order.link.send(message, &[]);
            order.way.report(Word::GoesOn);
        }
    });
    if let Err(error) = sent {
        return Ok(Err(error.to_string()));
    }
    let until = order.until + CUT;
    Ok(
        match !expects || come_to_rest(running, order, until, steps::has_stopped)? {
            true => Ok(()),
            false => Err("the broker does not deliver to the new process in time".to_owned()),
        },
    )
}

/// Goes on until all shards rest at the same time, and this is over on each; false if that takes
/// too long.
fn come_to_rest(
    running: &mut Running<ShardApp>,
    order: &HandOver,
    until: Instant,
    is_over: impl Fn(&Running<ShardApp>) -> bool,
) -> io::Result<bool> {
    loop {
        loop {
            if !steps::still_turn(running)? {
                break;
            }
            if Instant::now() > until {
                return Ok(false);
            }
        }
        if order.meeting.meet(false, until).is_none() {
            return Ok(false);
        }
        // None of them runs now.
        let is_busy = steps::is_busy(running) || !is_over(running);
        match order.meeting.meet(is_busy, until) {
            Some(true) => {}
            Some(false) => return Ok(true),
            None => return Ok(false),
        }
    }
}

/// Sends the hub, then the connections in the order of their places. Nothing is given away by it.
fn send(parcel: &Parcel<Linux>, order: &HandOver) -> io::Result<()> {
    parcel.each(|message, sockets| {
        let fds: Vec<BorrowedFd<'_>> = sockets.iter().map(|socket| socket.as_fd()).collect();
        order.link.send(message, &fds)?;
        order.way.report(Word::GoesOn);
        Ok(())
    })
}
